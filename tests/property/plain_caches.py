"""Plain simulations of one cache at a time: slow, obvious, and the reference for the one-pass replay."""

import heapq
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence


def simulate(requests: Iterable[Sequence[int]], present: Callable[[int], bool], touch: Callable[[int], None], tail_first: bool = False) -> int:
    """Hits are the leading blocks of a request that are present before it; then its blocks are touched one by one."""
    hits = 0
    for blocks in requests:
        for block in blocks:
            if not present(block):
                break
            hits += 1
        for block in reversed(blocks) if tail_first else blocks:
            touch(block)
    return hits


def lru(requests: Iterable[Sequence[int]], capacity: int, tail_first: bool = False) -> int:
    cache: OrderedDict[int, None] = OrderedDict()

    def touch(block: int) -> None:
        cache[block] = None
        cache.move_to_end(block)
        if len(cache) > capacity:
            cache.popitem(last=False)

    return simulate(requests, cache.__contains__, touch, tail_first)


def fifo(requests: Iterable[Sequence[int]], capacity: int) -> int:
    cache: OrderedDict[int, None] = OrderedDict()

    def touch(block: int) -> None:
        cache.setdefault(block)
        if len(cache) > capacity:
            cache.popitem(last=False)

    return simulate(requests, cache.__contains__, touch)


def lfu(requests: Iterable[Sequence[int]], capacity: int) -> int:
    """Frequencies are kept after eviction; of equal ones the least recently touched goes."""
    count: Counter[int] = Counter()
    key: dict[int, tuple[int, int]] = {}  # cached blocks: (uses, time of last touch)
    heap: list[tuple[int, int, int]] = []
    clock = 0

    def touch(block: int) -> None:
        nonlocal clock
        clock += 1
        count[block] += 1
        key[block] = (count[block], clock)
        heapq.heappush(heap, (*key[block], block))
        while len(key) > capacity:
            uses, when, victim = heapq.heappop(heap)
            if key.get(victim) == (uses, when):
                del key[victim]

    return simulate(requests, key.__contains__, touch)


def tiers(requests: Iterable[tuple[float, Sequence[int]]], capacities: Sequence[int]) -> list[tuple[int, list[float]]]:
    """Inclusive tiers, every touched block written to all: (blocks served, their idle times) of each, by the nearest that holds the block."""
    caches: list[OrderedDict[int, float]] = [OrderedDict() for _ in capacities]
    last: dict[int, float] = {}
    served: list[tuple[int, list[float]]] = [(0, []) for _ in capacities]
    for now, blocks in requests:
        for block in blocks:
            at = next((i for i, c in enumerate(caches) if block in c), None)
            if at is None:
                break
            served[at] = (served[at][0] + 1, [*served[at][1], now - last[block]])
        for block in blocks:
            last[block] = now
            for cache, capacity in zip(caches, capacities):
                cache[block] = now
                cache.move_to_end(block)
                if len(cache) > capacity:
                    cache.popitem(last=False)
    return served


def lifetime(requests: Iterable[tuple[float, Sequence[int]]], seconds: float) -> int:
    """A block idle for longer than `seconds` is dropped."""
    last: dict[int, float] = {}
    hits = 0
    for now, blocks in requests:
        for block in blocks:
            if block not in last or now - last[block] > seconds:
                break
            hits += 1
        last.update(dict.fromkeys(blocks, now))
    return hits
