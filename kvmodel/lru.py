"""The LRU stack of a trace: at which capacities each leading block of each request is a hit, in one pass for all capacities.

A block's depth is the number of distinct blocks touched since its last use, itself counted: an LRU cache of c blocks holds it when depth <= c (Mattson 1970).
Only leading blocks can be reused, so a block at place i of a prompt is a hit at capacity c when the largest depth over places 0 .. i is at most c. All
depths are those before the request; then its blocks are touched in order (or, tail first, in reverse, as engines do that evict leaves before roots).
"""

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

PAGE_BITS = 8  # 256 positions to a page: a depth is one page scanned plus a Fenwick sum over pages


class Uses(NamedTuple):
    """Per block reference of a chunk: depth and idle seconds of the block itself, and the largest of each over the prompt up to it; 0 where not leading."""

    depth: "NDArray[np.int64]"
    needed_depth: "NDArray[np.int64]"
    idle: "NDArray[np.float64]"
    needed_idle: "NDArray[np.float64]"

    def part(self, a: int, b: int) -> "Uses":
        """The views of references a to b (exclusive)."""
        return Uses(self.depth[a:b], self.needed_depth[a:b], self.idle[a:b], self.needed_idle[a:b])


class LruStack:
    """The stack as an array of positions, newest last; compaction keeps it below four times the unique blocks."""

    def __init__(self, *, tail_first: bool = False, compiled: bool = False) -> None:
        self.tail_first, self.compiled = tail_first, compiled
        self.last = np.full(1024, -1, np.int64)  # position of each block, -1 when not seen
        self.when = np.zeros(1024)  # seconds of its last use
        self.alive = np.zeros(1 << PAGE_BITS, np.uint8)  # 1 where a position is some block's last
        self.pages = np.zeros(2, np.int64)  # Fenwick tree over the alive counts of pages
        self.size = np.zeros(2, np.int64)  # blocks seen, next position

    def use(self, ids: "NDArray[np.int64]", starts: "NDArray[np.int64]", seconds: "NDArray[np.float64]") -> Uses:
        """Replay a chunk of requests (request r has ids[starts[r] : starts[r + 1]]) and return the depths and idle times of its references."""
        self._reserve(len(ids), int(ids.max(initial=0)) + 1)
        n = len(ids)
        out = Uses(np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n), np.zeros(n))
        if self.compiled:
            from kvmodel.lru_numba import replay_chunk

            replay_chunk(ids, starts, seconds, self.tail_first, self.last, self.when, self.alive, self.pages, self.size, *out)
            return out
        for r, now in enumerate(seconds.tolist()):
            a, b = int(starts[r]), int(starts[r + 1])
            if a < b:
                self._request(ids[a:b], now, out.part(a, b))
        return out

    def _request(self, ids: "NDArray[np.int64]", now: float, out: Uses) -> None:
        place = self.last[ids]
        lead = len(ids) if place.min() >= 0 else int((place < 0).argmax())
        if lead:
            self._depths(place[:lead], out.depth[:lead])
            out.idle[:lead] = np.maximum(now - self.when[ids[:lead]], 0.0)
            np.maximum.accumulate(out.depth[:lead], out=out.needed_depth[:lead])
            np.maximum.accumulate(out.idle[:lead], out=out.needed_idle[:lead])
        self._touch(ids, place, now)

    def _depths(self, place: "NDArray[np.int64]", out: "NDArray[np.int64]") -> None:
        step = -1 if self.tail_first else 1
        breaks = np.flatnonzero(place[1:] - place[:-1] != step) + 1
        runs = [0, *breaks.tolist(), len(place)]
        for a, b in pairwise(runs):  # neighbours in the prompt are mostly neighbours in the stack: one look-up for the whole run
            at = int(place[a])
            page = at >> PAGE_BITS
            below = _total(self.pages, page) + int(np.count_nonzero(self.alive[page << PAGE_BITS : at]))
            depth = int(self.size[0]) - below
            out[a:b] = np.arange(depth, depth - step * (b - a), -step)

    def _touch(self, ids: "NDArray[np.int64]", place: "NDArray[np.int64]", now: float) -> None:
        head = int(self.size[1])
        new = np.arange(head, head + len(ids))
        order = ids[::-1] if self.tail_first else ids
        self.last[order] = new  # where an id repeats, its last touch stands
        kept = new[self.last[order] == new]
        gone = place[place >= 0]
        if len(kept) < len(ids):
            gone = np.unique(gone)
        self.when[ids] = now
        self.alive[gone] = 0
        self.alive[kept] = 1
        for positions, sign in ((gone, -1), (kept, 1)):
            pages = positions >> PAGE_BITS
            edges = [0, *(np.flatnonzero(pages[1:] != pages[:-1]) + 1).tolist(), len(pages)]
            for a, b in pairwise(edges):
                if a < b:
                    _add(self.pages, int(pages[a]), sign * (b - a))
        self.size += (len(kept) - len(gone), len(ids))

    def _reserve(self, references: int, ids: int) -> None:
        if ids > len(self.last):
            more = max(ids, 2 * len(self.last)) - len(self.last)
            self.last = np.concatenate([self.last, np.full(more, -1, np.int64)])
            self.when = np.concatenate([self.when, np.zeros(more)])
        blocks, head = (int(n) for n in self.size)
        if head + references <= len(self.alive):
            return
        if 2 * blocks <= head:  # compaction: positions of the blocks alive become 0 .. blocks - 1, in order
            rank = np.cumsum(self.alive[:head], dtype=np.int64) - 1
            seen = self.last >= 0
            self.last[seen] = rank[self.last[seen]]
            self.size[1] = head = blocks
            self.alive[:head] = 1
        pages = ((2 * head + references) >> PAGE_BITS) + 1
        longer = np.zeros(pages << PAGE_BITS, np.uint8)
        longer[:head] = self.alive[:head]
        self.alive = longer
        self.pages = _fenwick(longer.reshape(pages, -1).sum(axis=1, dtype=np.int64))


def _fenwick(counts: "NDArray[np.int64]") -> "NDArray[np.int64]":
    sums = np.concatenate([[0], np.cumsum(counts)])
    i = np.arange(1, len(sums))
    return np.concatenate([[0], sums[i] - sums[i - (i & -i)]])


def _add(tree: Any, page: int, count: int) -> None:
    i = page + 1
    while i < len(tree):
        tree[i] += count
        i += i & -i


def _total(tree: Any, page: int) -> int:
    """Blocks alive in the pages before `page`."""
    i, total = page, 0
    while i > 0:
        total += tree[i]
        i -= i & -i
    return total
