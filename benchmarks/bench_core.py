"""Speed of the core, as ratios measured in one run: `make bench`, or `python benchmarks/bench_core.py`."""

import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

from kvmodel import card, card_ids, kv_bytes

FORMATS = ("bf16", "fp8", "fp32", "fp8-token-head", "int8")
POINTS = 10_000_000


def best(call: Callable[[], object], times: int = 5) -> float:
    """Least seconds of several runs: what the code needs, without what else the machine did."""
    spans = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        spans.append(time.perf_counter() - start)
    return min(spans)


def points(card_id: str) -> float:
    """Ten million (tokens, users) points of one card, against numpy multiplying and adding the same arrays."""
    rng = np.random.default_rng(1)
    tokens, users = rng.integers(1, 10**6, POINTS), rng.integers(1, 1000, POINTS)
    model = card(card_id)
    return best(lambda: kv_bytes(model, tokens, users), 3) / best(lambda: tokens * users + tokens, 3)


def grid() -> float:
    """All cards x 1,000 contexts x 5 formats as arrays, against a plain Python loop over a 50th of the contexts, scaled up."""
    contexts = np.arange(1000, 1_001_000, 1000)
    cards = [card(i) for i in card_ids()]

    def arrays() -> None:
        for model in cards:
            for name in FORMATS:
                kv_bytes(model, contexts, kv_dtype=name)

    def loop() -> None:
        for model in cards:
            for name in FORMATS:
                for tokens in contexts[::50].tolist():
                    kv_bytes(model, tokens, kv_dtype=name)

    return 50 * best(loop, 2) / best(arrays, 3)


def start_up(command: list[str]) -> float:
    """Seconds of a whole process."""
    return best(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL), 9)


def main() -> None:
    bare, numpy = (start_up([sys.executable, "-c", code]) for code in ("pass", "import numpy"))
    size = start_up([sys.executable, "-m", "kvmodel", "size", "llama-3.3-70b", "--context", "100k"])
    rows = [
        ("10 M points, llama-3.3-70b / numpy multiply-add", points("llama-3.3-70b"), "under 4"),
        ("10 M points, gemma-3-27b / numpy multiply-add", points("gemma-3-27b"), "under 4"),
        ("10 M points, deepseek-v4-pro / numpy multiply-add", points("deepseek-v4-pro"), "under 6"),
        ("Python loop / arrays: all cards x 1,000 contexts x 5 formats", grid(), "at least 100"),
        ("import kvmodel / import numpy", start_up([sys.executable, "-c", "import kvmodel"]) / numpy, "under 1.3"),
        ("kvmodel size / import numpy", size / numpy, "under 2"),
        ("kvmodel size / python -c pass", size / bare, "quickest peer 2.5"),
    ]
    for name, ratio, limit in rows:
        print(f"{ratio:8.2f}  {name}  ({limit})")


if __name__ == "__main__":
    main()
