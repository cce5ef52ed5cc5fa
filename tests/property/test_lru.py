"""The one-pass replay against plain simulations: the published reference, and random traces at every capacity."""

import csv
from array import array
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import plain_caches
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvmodel.lru import LruStack
from kvmodel.reuse import Replay, replay
from kvmodel.traces import Request, open_trace

ROOT = Path(__file__).parents[2]
with (ROOT / "tests/golden/cache_sim_reference.csv").open() as file:
    REFERENCE = list(csv.DictReader(file))
PLAIN = {"lru": plain_caches.lru, "fifo": plain_caches.fifo, "lfu (frequency kept after eviction)": plain_caches.lfu}


@cache
def published(name: str) -> list[Sequence[int]]:
    return [r.blocks for r in open_trace(ROOT / f"data/traces/{name}.jsonl.gz")]


@cache
def replayed(name: str, compiled: bool) -> Replay:
    return replay(open_trace(ROOT / f"data/traces/{name}.jsonl.gz"), compiled=compiled)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("row", [r for r in REFERENCE if r["policy"] == "lru"], ids=lambda r: f"{r['trace']}-{r['capacity_blocks']}")
def test_reference_block_for_block(row: dict[str, str], compiled: bool) -> None:
    done = replayed(row["trace"], compiled)
    capacity = None if row["capacity_blocks"] == "inf" else int(row["capacity_blocks"])
    assert (done.hits(capacity), done.block_references) == (int(row["hit_blocks"]), int(row["total_blocks"]))


@pytest.mark.parametrize("row", [r for r in REFERENCE if r["capacity_blocks"] in ("1000", "10000", "100000")], ids=lambda r: "-".join(list(r.values())[:4]))
def test_plain_simulations_give_the_reference(row: dict[str, str]) -> None:
    assert PLAIN[row["policy"]](published(row["trace"]), int(row["capacity_blocks"])) == int(row["hit_blocks"])


def requests(trace: Sequence[tuple[float, Sequence[int]]]) -> list[Request]:
    numbers: dict[int, int] = {}
    return [Request(t, 0, 0, array("q", [numbers.setdefault(b, len(numbers)) for b in blocks])) for t, blocks in trace]


@st.composite
def random_traces(draw: st.DrawFn) -> list[tuple[float, list[int]]]:
    """Prompts that share prefixes, prompts of arbitrary order, repeats inside one prompt, empty prompts; times that stand still or jump."""
    now, trace = 0.0, []
    for _ in range(draw(st.integers(1, 25))):
        now += draw(st.sampled_from([0, 0.5, 1, 60, 4000]))
        earlier = draw(st.sampled_from(trace))[1] if trace else []
        kept = earlier[: draw(st.integers(0, len(earlier)))]
        trace.append((now, kept + draw(st.lists(st.integers(0, 30), max_size=12))))
    return trace


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("tail_first", [False, True])
@given(trace=random_traces())
@settings(max_examples=120, deadline=None)
def test_every_capacity(trace: list[tuple[float, list[int]]], tail_first: bool, compiled: bool) -> None:
    done = replay(requests(trace), tail_first=tail_first, compiled=compiled)
    blocks = [b for _, b in trace]
    assert done.unique_blocks == len({b for bs in blocks for b in bs})
    assert done.curve.tolist() == [plain_caches.lru(blocks, c, tail_first) for c in range(done.unique_blocks + 1)]


@pytest.mark.parametrize("compiled", [False, True])
@given(trace=random_traces(), capacities=st.lists(st.integers(1, 40), min_size=1, max_size=4))
@settings(max_examples=120, deadline=None)
def test_tiers_and_lifetimes(trace: list[tuple[float, list[int]]], capacities: list[int], compiled: bool) -> None:
    lives = [0, 0.5, 59, 60, 100_000]
    done = replay(requests(trace), tiers=capacities, lifetimes=lives, compiled=compiled)
    assert list(done.lifetime_hits) == [plain_caches.lifetime(trace, t) for t in lives]
    plain = plain_caches.tiers(trace, capacities)
    assert [t.hit_blocks for t in done.tiers] == [n for n, _ in plain]
    for tier, (_, waits) in zip(done.tiers, plain):
        if waits:
            assert tier.wait(1.0) == pytest.approx(max(max(waits), 1e-3), rel=0.024)
            assert tier.wait(0.5) == pytest.approx(max(sorted(waits)[(len(waits) - 1) // 2], 1e-3), rel=0.024)


@pytest.mark.parametrize("compiled", [False, True])
def test_compaction_keeps_memory_near_the_unique_blocks(compiled: bool) -> None:
    stack = LruStack(compiled=compiled)
    plain: list[list[int]] = []
    rng = np.random.default_rng(7)
    hits = 0
    for step in range(300):  # 300 chunks of 4 prompts over 2,000 blocks: 1,200 prompts of 1 to 400 blocks
        prompts = [np.arange(a, a + n) % 2000 for a, n in zip(rng.integers(0, 2000, 4), rng.integers(1, 400, 4))]
        starts = np.cumsum([0, *map(len, prompts)])
        uses = stack.use(np.concatenate(prompts).astype(np.int64), starts, np.full(4, float(step)))
        hits += int(((uses.needed_depth > 0) & (uses.needed_depth <= 700)).sum())
        plain += [p.tolist() for p in prompts]
        assert len(stack.alive) <= 4 * 2000 + 1600 + 256
    assert hits == plain_caches.lru(plain, 700)


def test_hits_never_fall_with_capacity() -> None:
    for name in ("mooncake_conversation", "mooncake_synthetic"):
        assert all(a <= b for a, b in pairwise(replayed(name, True).curve.tolist()))


def test_cyclic_scan() -> None:
    """A scan of 50 blocks never hits below 50 blocks, and always hits from there on."""
    done = replay(requests([(float(i), [i % 50]) for i in range(500)]))
    assert (done.hits(49), done.hits(50)) == (0, 450)
