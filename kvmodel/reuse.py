"""What real traffic reuses: hit ratio by capacity, by lifetime and through a cascade of tiers, from one pass over a trace."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from kvmodel.cards import Card
from kvmodel.lru import LruStack, Uses
from kvmodel.traces import Request
from kvmodel.units import KvError, parse_memory, refuse

if TYPE_CHECKING:
    from numpy.typing import NDArray

CHUNK = 1 << 20  # block references replayed at a time
WORTH_COMPILING = 1 << 19  # references from which loading the compiled replay pays for itself
LIFETIMES = (30.0, 60.0, 300.0, 600.0, 1800.0, 3600.0, 14_400.0, 86_400.0)
STEPS = 100  # waits are counted in bins of 10^(1/100), so quantiles are within 2.4 %
SHORTEST = 1e-3  # seconds; the first bin holds all waits below


@dataclass(frozen=True, slots=True)
class Served:
    """What one tier of a cascade served: `waits[k]` blocks were reused after about SHORTEST * 10^(k / STEPS) seconds of idling."""

    capacity_blocks: int
    hit_blocks: int
    waits: "NDArray[np.int64]"

    def wait(self, share: float) -> float | None:
        """Return the seconds within which this share of the tier's hits came back (upper edge of a bin, within 2.4 %); None without hits."""
        if not self.hit_blocks:
            return None
        k = int(np.searchsorted(np.cumsum(self.waits), share * self.hit_blocks))
        return float(SHORTEST * 10 ** (k / STEPS))


@dataclass(frozen=True, slots=True)
class Replay:
    """A trace replayed once: `curve[c]` is the number of hit blocks of an LRU cache of c blocks, for every c from 0 to the number of unique blocks."""

    requests: int
    block_references: int
    curve: "NDArray[np.int64]"
    lifetimes: tuple[float, ...]
    lifetime_hits: tuple[int, ...]
    tiers: tuple[Served, ...]

    @property
    def unique_blocks(self) -> int:
        """Number of distinct blocks: an LRU cache of that size never evicts."""
        return len(self.curve) - 1

    def hits(self, capacity_blocks: int | None = None) -> int:
        """Return the blocks hit in an LRU cache of this many blocks; without an argument, in one that never evicts."""
        return int(self.curve[-1 if capacity_blocks is None else min(capacity_blocks, self.unique_blocks)])

    def ratio(self, hit_blocks: float) -> float | None:
        """Return hits as a share of all block references; None for a trace without blocks, where it has no value."""
        return hit_blocks / self.block_references if self.block_references else None


def replay(
    requests: Iterable[Request],
    *,
    lifetimes: Sequence[float] = LIFETIMES,
    tiers: Sequence[int] = (),
    tail_first: bool = False,
    compiled: bool | None = None,
) -> Replay:
    """Return the LRU hits of a trace at every capacity, by lifetime and by tier, in one pass.

    Hits of a request are its leading blocks that are present before it; then its blocks are touched in prompt order, and the cache evicts after each
    insertion. Cost O(N log N) in block references N, memory O(unique blocks).

    Parameters
    ----------
    requests : in the order of their times, such as `open_trace(path)`
    lifetimes : seconds, ascending; a block idle for longer is dropped (a use renews it)
    tiers : capacities in blocks, nearest tier first. Every touched block is written to all of them (write-through), each evicts its least recently used
        block; a leading block is served by the nearest tier that holds it
    tail_first : touch each request's blocks in reverse, as engines do that evict the ends of prefixes first
    compiled : use numba; None decides by the length of the trace

    Raises
    ------
    KvError : lifetimes not ascending, compiled asked for without numba

    Examples
    --------
    >>> from array import array
    >>> from kvmodel.traces import Request
    >>> trace = [Request(t, 0, 0, array("q", blocks)) for t, blocks in ((0, [0, 1]), (10, [2]), (20, [0, 1, 3]))]
    >>> done = replay(trace, lifetimes=[15, 30], tiers=[2, 4])
    >>> done.curve.tolist(), done.lifetime_hits, [t.hit_blocks for t in done.tiers]
    ([0, 0, 0, 2, 2], (0, 2), [1, 1])

    References
    ----------
    Mattson et al. 1970 (stack distances); Bennett and Kruskal 1975 (their count by partial sums).
    """
    if list(lifetimes) != sorted(lifetimes) or any(not t >= 0 for t in lifetimes):
        raise refuse("lifetimes", list(lifetimes), "seconds from 0 in ascending order")
    stack: LruStack | None = None
    sums = _Sums(list(lifetimes), list(tiers))
    for ids, starts, seconds in _chunks(requests):
        stack = stack or LruStack(tail_first=tail_first, compiled=_compiled(compiled, len(ids)))
        sums.add(stack.use(ids, starts, seconds))
        sums.requests += len(seconds)
    return sums.result(int(stack.size[0]) if stack else 0)


def _compiled(wish: bool | None, references: int) -> bool:
    if wish is False or (wish is None and references < WORTH_COMPILING and "kvmodel.lru_numba" not in sys.modules):
        return False
    try:
        import kvmodel.lru_numba  # noqa: F401
    except (ImportError, RuntimeError):  # not installed, or nowhere to keep compiled code
        if wish:
            raise KvError("compiled: True is not accepted; accepted: True where numba is installed (kvmodel[report]); nearest: False") from None
        return False
    return True


def _chunks(requests: Iterable[Request]) -> Iterator[tuple[Any, Any, Any]]:
    blocks: list[Any] = []
    starts, seconds = [0], []
    for request in requests:
        blocks.append(np.frombuffer(request.blocks, np.int64))
        starts.append(starts[-1] + len(request.blocks))
        seconds.append(float(request.seconds))
        if starts[-1] >= CHUNK:
            yield np.concatenate(blocks), np.array(starts), np.array(seconds)
            blocks, starts, seconds = [], [0], []
    if seconds:
        yield np.concatenate(blocks), np.array(starts), np.array(seconds)


class _Sums:
    """Hits counted over chunks."""

    def __init__(self, lifetimes: list[float], tiers: list[int]) -> None:
        self.requests = self.references = 0
        self.lifetimes, self.tiers = lifetimes, tiers
        self.by_depth = np.zeros(1, np.int64)
        self.by_life = np.zeros(len(lifetimes) + 1, np.int64)
        self.waits = np.zeros((len(tiers), 15 * STEPS), np.int64)

    def add(self, uses: Uses) -> None:
        self.references += len(uses.depth)
        lead = uses.depth > 0
        needed = uses.needed_depth[lead]
        most = int(needed.max(initial=0))
        if most >= len(self.by_depth):
            self.by_depth = np.concatenate([self.by_depth, np.zeros(2 * most - len(self.by_depth) + 1, np.int64)])
        np.add.at(self.by_depth, needed, 1)  # not bincount: its cost grows with the largest depth, chunk after chunk
        self.by_life += np.bincount(np.searchsorted(self.lifetimes, uses.needed_idle[lead]), minlength=len(self.by_life))
        if self.tiers:
            self._add_tiers(uses, lead & (uses.needed_depth <= max(self.tiers)))

    def _add_tiers(self, uses: Uses, held: "NDArray[np.bool_]") -> None:
        reach = np.maximum.accumulate(self.tiers)  # a lower tier that is smaller than one above never serves
        nearest = np.searchsorted(reach, uses.depth[held])
        bins = np.ceil(STEPS * np.log10(np.maximum(uses.idle[held], SHORTEST) / SHORTEST) - 1e-9).astype(np.int64)
        width = self.waits.shape[1]
        self.waits += np.bincount(nearest * width + np.minimum(bins, width - 1), minlength=self.waits.size).reshape(self.waits.shape)

    def result(self, unique: int) -> Replay:
        counts = np.zeros(unique + 1, np.int64)
        counts[: len(self.by_depth)] = self.by_depth[: unique + 1]
        tiers = tuple(Served(c, int(w.sum()), w) for c, w in zip(self.tiers, self.waits))
        lives = tuple(int(n) for n in np.cumsum(self.by_life)[:-1])
        return Replay(self.requests, self.references, np.cumsum(counts), tuple(self.lifetimes), lives, tiers)


def block_bytes(card: Card, block_tokens: int, kv_dtype: str = "bf16") -> int:
    """Return the bytes of one full block in a lower tier: block tokens x growing bytes per token, rounded up once.

    Windows and constant states are left out: a block far back in a prompt holds neither.

    Raises
    ------
    KvError : the model keeps nothing that grows with context

    Examples
    --------
    >>> from kvmodel.cards import card
    >>> block_bytes(card("llama-3.3-70b"), 512)
    167772160
    """
    growing = sum((Fraction(t.bytes, t.ratio) for t in card.terms(kv_dtype).terms if t.window is None), Fraction(0))
    if not growing:
        raise refuse("model", card.id, "a model whose KV cache grows with context; this one has no growing bytes, so no blocks to keep")
    return ceil(growing * block_tokens)


def tokens_by_group(card: Card, capacity_bytes: int, kv_dtype: str = "bf16") -> tuple[int, int, int]:
    """Return the KV groups of a model, the tokens of full attention that a tier holds as one pool, and those it holds in equal shares, one per group.

    A group is the layers that keep the same tokens: full attention, each window, constant states. Windows and states of the sessions are left out, so both
    are upper bounds. With equal shares the group that grows with context fills its share while the others' stay nearly empty.

    Examples
    --------
    >>> from kvmodel.cards import card
    >>> tokens_by_group(card("gpt-oss-120b"), 64 * 10**9)
    (2, 1736111, 868055)
    """
    terms = card.terms(kv_dtype)
    growing = [Fraction(t.bytes, t.ratio) for t in terms.terms if t.window is None]
    if not growing:
        raise refuse("model", card.id, "a model whose KV cache grows with context")
    groups = len(terms.terms) + bool(terms.state_bytes)
    return groups, int(capacity_bytes / sum(growing, Fraction(0))), int(Fraction(capacity_bytes, groups) / max(growing))


def pinned_bytes(knob_bytes: int, ranks: int, pools: int = 1) -> int:
    """Return the host memory that a knob per rank claims in all: knob x ranks x pools (hybrid models may take one pool for KV and one for states).

    Examples
    --------
    >>> pinned_bytes(40 * 10**9, ranks=4) // 10**9
    160
    """
    return knob_bytes * ranks * pools


def parse_tiers(text: str, known: Sequence[str]) -> list[tuple[str, int]]:
    """Return (tier id, bytes) pairs from `near-memory=80GB,main-memory=1TB`.

    Parameters
    ----------
    text : tiers from near to far, each at least as large as the one above it (inclusive tiers hold what the nearer ones hold)
    known : the tier ids from near to far

    Raises
    ------
    KvError : unknown tier, wrong order, a lower tier smaller than the one above, a size that is not one

    Examples
    --------
    >>> parse_tiers("near-memory=80GB,main-memory=1TB", ["near-memory", "main-memory"])
    [('near-memory', 80000000000), ('main-memory', 1000000000000)]
    """
    found: list[tuple[str, int]] = []
    for part in text.split(","):
        name, equals, size = part.strip().partition("=")
        if name not in known:
            raise refuse("tier_capacity", name or part, f"TIER=SIZE with a tier of {' '.join(known)}", known)
        if not equals:
            raise refuse("tier_capacity", part.strip(), f"TIER=SIZE, such as {name}=80GB")
        capacity = parse_memory(size, f"tier_capacity {name}")
        if found and known.index(name) <= known.index(found[-1][0]):
            raise refuse("tier_capacity", text, f"tiers once each and from near to far: {' '.join(known)}; {name} comes after {found[-1][0]} here")
        if found and capacity < found[-1][1]:
            above = f"{found[-1][0]} above it, {found[-1][1]:,} bytes"
            raise refuse("tier_capacity", part.strip(), f"{name} at least as large as {above}: a lower tier holds copies of the nearer ones")
        found.append((name, capacity))
    return found
