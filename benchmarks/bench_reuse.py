"""Speed of the replay beside two simulators: `python benchmarks/bench_reuse.py [--peers PYTHON]`.

The peers are not needed by the book. Install them in an environment of their own, and name its interpreter:

    python3 -m venv peers && peers/bin/pip install kvcache-simulator libcachesim numpy
    python benchmarks/bench_reuse.py --peers peers/bin/python

Both peers get the trace as arrays or as a binary file, so no time of theirs goes to parsing; kvcache-simulator's includes writing its own binary input.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

TRACE = Path(__file__).parents[1] / "data/traces/mooncake_conversation.jsonl.gz"
BUDGETS = [int(c) for c in np.geomspace(1_000, 60_000, 15)]  # blocks; the cache must fill in the first half, or kvcache-simulator leaves the budget out
CAPACITIES = [int(c) for c in np.geomspace(1_000, 180_000, 50)]


def timed(call: Callable[[], Any], times: int) -> tuple[float, Any]:
    """Least seconds of several runs, and the result of the last."""
    spans = []
    for _ in range(times):
        start = time.perf_counter()
        result = call()
        spans.append(time.perf_counter() - start)
    return min(spans), result


def peer_kvcache_simulator(folder: Path) -> dict[str, Any]:
    """15 budgets, LRU only, C++ back end; hits of the second half of the requests, every block counted as one token."""
    from kvcache_sim.cpp_backend import ensure_cpp_simulator, run_cpp_sweep
    from kvcache_sim.trace import TraceData

    ids, starts = (np.load(folder / f"{n}.npy").tolist() for n in ("ids", "starts"))
    trace = TraceData(ids, [1] * len(ids), starts, 512, len(starts) - 1, 0, 0, 0.0, 0, 0)
    ensure_cpp_simulator()  # compiled before the clock runs
    seconds, swept = timed(lambda: run_cpp_sweep(trace, capacities=BUDGETS, policies=["lru"], warmup_requests=(len(starts) - 1) // 2), 3)
    return {"seconds": seconds, "hits": [swept.results["lru", c].hitTokens for c in BUDGETS]}


def peer_libcachesim(folder: Path) -> dict[str, Any]:
    """50 capacities one by one, its C loop over a binary trace; block references one by one, without the rule of leading blocks."""
    import libcachesim

    ids = np.load(folder / "ids.npy")
    records = np.zeros(len(ids), [("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")])
    records["id"], records["size"], records["next"] = ids + 1, 1, -1
    records.tofile(folder / "trace.oracleGeneral.bin")
    reader = libcachesim.TraceReader(str(folder / "trace.oracleGeneral.bin"), libcachesim.TraceType.ORACLE_GENERAL_TRACE)

    def sweep() -> list[int]:
        hits = []
        for capacity in CAPACITIES:
            reader.reset()
            cache = libcachesim.LRU(capacity, hashpower=18)  # the default of 24 spends most of its time on an empty table
            hits.append(round((1 - cache.process_trace(reader)[0]) * len(ids)))
        return hits

    seconds, hits = timed(sweep, 3)
    return {"seconds": seconds, "hits": hits}


PEERS = {"kvcache-simulator": peer_kvcache_simulator, "libcachesim": peer_libcachesim}


def ask_peer(python: str, name: str, folder: Path) -> dict[str, Any] | None:
    """Run one peer in its own interpreter; None where it is not installed."""
    done = subprocess.run([python, __file__, "--peer", name, "--folder", str(folder)], capture_output=True, text=True)
    if done.returncode:
        print(f"{name}: not run ({(done.stderr.strip().splitlines() or ['no message'])[-1]}); pip install {name} numpy in the environment of --peers")
        return None
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def curve(ids: Any, starts: Any, seconds: Any, **options: bool) -> Any:
    """Hits at every capacity; in chunks of a million references, as `replay` does."""
    from kvmodel.lru import LruStack  # here: the peers' interpreter runs this file too, without kvmodel

    stack, hits = LruStack(**options), np.zeros(int(ids.max()) + 2, np.int64)
    at = 0
    while at < len(seconds):
        to = min(max(int(np.searchsorted(starts, starts[at] + (1 << 20))), at + 1), len(seconds))
        needed = stack.use(ids[starts[at] : starts[to]], starts[at : to + 1] - starts[at], seconds[at:to]).needed_depth
        np.add.at(hits, needed[needed > 0], 1)
        at = to
    return np.cumsum(hits)


def at(hits: Any, capacities: list[int]) -> list[int]:
    """Hits at these capacities."""
    return [int(hits[min(c, len(hits) - 1)]) for c in capacities]


def copies(ids: Any, starts: Any, times: int) -> tuple[Any, Any, Any]:
    """The trace `times` over, each copy with blocks of its own but the first block shared: longer, with more unique blocks."""
    unique = int(ids.max()) + 1
    moved = [np.where(ids > 0, ids + k * unique, 0) for k in range(times)]
    offsets = [starts[:-1] + k * starts[-1] for k in range(times)]
    all_starts = np.concatenate([*offsets, [times * starts[-1]]])
    return np.concatenate(moved), all_starts, np.arange(len(all_starts) - 1, dtype=float)


def main() -> None:
    """Print our time, the peers' times and ratios, equality of the hits, and the growth with length."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", help="interpreter of an environment with kvcache-simulator and libcachesim")
    parser.add_argument("--peer", choices=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peer:
        print(json.dumps(PEERS[args.peer](args.folder)))
        return
    from kvmodel.traces import open_trace

    parsing, requests = timed(lambda: list(open_trace(TRACE)), 3)
    ids = np.concatenate([np.frombuffer(r.blocks, np.int64) for r in requests])
    starts = np.cumsum([0, *(len(r.blocks) for r in requests)])
    seconds = np.array([r.seconds for r in requests])
    first, _ = timed(lambda: curve(ids, starts, seconds, compiled=True), 1)
    ours, hits = timed(lambda: curve(ids, starts, seconds, compiled=True), 9)
    plain, same = timed(lambda: curve(ids, starts, seconds), 3)
    print(f"{len(requests):,} requests, {len(ids):,} block references; hits at all {int(ids.max()) + 1:,} capacities:")
    print(f"  compiled {ours * 1e3:.1f} ms; its first call {first:.2f} s (import of numba, and loading the compiled code or compiling it once)")
    print(f"  numpy {plain * 1e3:.0f} ms, same hits: {np.array_equal(hits, same)}; reading the file takes {parsing * 1e3:.0f} ms more")
    tail, tail_hits = timed(lambda: curve(ids, starts, seconds, compiled=True, tail_first=True), 9)
    half = int(starts[len(requests) // 2])
    half_hits = curve(ids[:half], starts[: len(requests) // 2 + 1], seconds[: len(requests) // 2], compiled=True, tail_first=True)
    single = np.arange(len(ids) + 1)
    one_by_one, one_hits = timed(lambda: curve(ids, single, np.zeros(len(ids)), compiled=True), 9)
    mine = {
        "kvcache-simulator": (tail, [a - b for a, b in zip(at(tail_hits, BUDGETS), at(half_hits, BUDGETS))], "15 budgets, C++, ends of prefixes evicted first"),
        "libcachesim": (one_by_one, at(one_hits, CAPACITIES), "50 capacities, block by block"),
    }
    with TemporaryDirectory() as folder:
        np.save(f"{folder}/ids.npy", ids)
        np.save(f"{folder}/starts.npy", starts)
        for name, (span, expected, what) in mine.items():
            found = ask_peer(args.peers or sys.executable, name, Path(folder))
            if found:
                faster, equal = found["seconds"] / span, found["hits"] == expected
                print(f"{name}: {found['seconds']:.2f} s for {what}; ours {span * 1e3:.1f} ms: {faster:.0f}x; same hits: {equal}")
    print("growth: times longer, references, seconds, seconds per reference x log2(references) against the first")
    base = 0.0
    for times in (1, 10, 100):
        longer = copies(ids, starts, times)
        span, _ = timed(lambda longer=longer: curve(*longer, compiled=True), 3)
        n = len(longer[0])
        cost = span / (n * np.log2(n))
        base = base or cost
        print(f"  {times:>4}x {n:>12,} {span:8.3f} s {cost / base:6.2f}")


if __name__ == "__main__":
    main()
