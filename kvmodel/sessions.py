"""Coding-agent sessions seen as contexts: how long a context idles between requests, and what it costs to keep it or to drop it.

Here a context (one agent of one session) is kept or dropped as a whole, as a serving system with session affinity would; `reuse` counts single blocks.
"""

from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import pandas as pd

from kvmodel.reuse import LIFETIMES
from kvmodel.traces import AGENT_BLOCK_TOKENS

IDLE_EDGES = {"up to 1 min": 60.0, "1 to 5 min": 300.0, "5 min to 1 h": 3600.0, "1 to 12 h": 43_200.0, "12 to 24 h": 86_400.0, "over 24 h": np.inf}


def read_sessions(path: str | Path) -> pd.DataFrame:
    """Return one row per request of a coding-agent CSV, in file order.

    Columns of the file (`t`, `think`, `api` in seconds, `inp`, `out` in tokens, `keep`, `new_blocks` in blocks) and `gap_s`, seconds since the same context's
    previous request (NaN for its first), `next_s`, seconds to its next one (NaN for its last), `blocks`, prompt blocks.
    """
    frame = pd.read_csv(path)
    times = frame.groupby(["trace", "agent"], sort=False)["t"]
    return frame.assign(gap_s=times.diff(), next_s=-times.diff(-1), blocks=frame["keep"] + frame["new_blocks"])


def kept_by_lifetime(frame: pd.DataFrame, lifetimes: tuple[float, ...] = LIFETIMES) -> pd.DataFrame:
    """Return, per lifetime, the share of prompt blocks found and the blocks recomputed against an unlimited life.

    A context idle for at most the lifetime still holds the blocks that its next prompt keeps (`keep`); a longer idle time costs the whole prompt.
    """
    total, kept = frame["blocks"].sum(), frame["keep"].where(frame["gap_s"].notna(), 0)
    found = [kept[frame["gap_s"] <= t].sum() for t in lifetimes]
    recomputed = [(total - f) / (total - kept.sum()) for f in found]
    return pd.DataFrame({"lifetime_s": lifetimes, "hit_ratio": [f / total for f in found], "recomputed_against_unlimited": recomputed})


def residence(frame: pd.DataFrame) -> "pd.Series[float]":
    """Return the shares of token-seconds in which contexts are held until their next use: `active` (a request runs), then idle times by length.

    A context of a request's input tokens is active for the request's API time and idles from then to its next request; after the last one it is not held.
    """
    held = frame[frame["next_s"].notna()]
    active = np.minimum(held["api"].fillna(0), held["next_s"])
    idle = held["next_s"] - active
    seconds = {"active": (held["inp"] * active).sum()}
    low = -1.0
    for name, high in IDLE_EDGES.items():
        seconds[name] = (held["inp"] * idle)[(idle > low) & (idle <= high)].sum()
        low = high
    return pd.Series(seconds) / sum(seconds.values())


def hits_by_capacity(frame: pd.DataFrame, capacity_tokens: list[int], *, hours: float = 8, seed: int = 1) -> list[float]:
    """Return, per capacity in tokens, the hits of an LRU cache of whole contexts as a share of those of an unlimited one.

    The file has no start times: each session starts at a time drawn uniformly over `hours` (an assumption, so give several seeds).
    """
    draw = Random(seed)
    start = {s: draw.uniform(0, hours * 3600) for s in frame["trace"].unique()}
    order = frame.assign(at=frame["t"] + frame["trace"].map(start)).sort_values("at", kind="stable")
    requests = [(f"{s} {a}", int(k), int(n)) for s, a, k, n in zip(order["trace"], order["agent"], order["keep"], order["blocks"])]
    return [_context_hits(requests, c // AGENT_BLOCK_TOKENS) / max(int(frame["keep"].sum()), 1) for c in capacity_tokens]


def _context_hits(requests: list[tuple[str, int, int]], capacity: int) -> int:
    held: OrderedDict[str, int] = OrderedDict()
    used = hits = 0
    for name, keep, blocks in requests:
        before = held.pop(name, None)
        if before is not None:
            hits += keep
            used -= before
        held[name] = blocks
        used += blocks
        while used > capacity and held:
            used -= held.popitem(last=False)[1]
    return hits


@dataclass(frozen=True, slots=True)
class Shape:
    """Lengths of a trace's requests, in tokens."""

    requests: int
    mean_input: float
    mean_output: float
    mean_of_ratios: float  # input / output, over requests with output


def shape(input_tokens: list[int], output_tokens: list[int]) -> Shape:
    """Return means of a trace's lengths, and the mean of its input to output ratios beside which the ratio of means is often ten times less."""
    given, made = np.array(input_tokens, float), np.array(output_tokens, float)
    ratios = given[made > 0] / made[made > 0]
    return Shape(len(given), float(given.mean()), float(made.mean()), float(ratios.mean()) if len(ratios) else float("nan"))
