"""The same replay as `lru.LruStack._request`, compiled: imported only when a trace is replayed and numba is there."""

from typing import Any

import numpy as np
from numba import njit

from kvmodel import lru

PAGE_BITS = lru.PAGE_BITS
_add = njit(cache=True)(lru._add)
_total = njit(cache=True)(lru._total)


def _replay_chunk(
    ids: Any, starts: Any, seconds: Any, tail_first: bool, last: Any, when: Any, alive: Any, pages: Any, size: Any,
    depth: Any, needed_depth: Any, idle: Any, needed_idle: Any,
) -> None:  # fmt: skip
    step = -1 if tail_first else 1
    blocks, head = size[0], size[1]
    for r in range(len(seconds)):
        a, b, now = starts[r], starts[r + 1], seconds[r]
        at, deep, deepest, longest = -2, 0, 0, 0.0
        for i in range(a, b):  # the leading blocks, before anything is touched
            place = last[ids[i]]
            if place < 0:
                break
            if i > a and place == at + step:
                deep -= step
            else:
                page = place >> PAGE_BITS
                below = _total(pages, page)
                for j in range(page << PAGE_BITS, place):
                    below += alive[j]
                deep = blocks - below
            at = place
            waited = max(now - when[ids[i]], 0.0)
            deepest, longest = max(deepest, deep), max(longest, waited)
            depth[i], needed_depth[i], idle[i], needed_idle[i] = deep, deepest, waited, longest
        old_page, old_count, new_page, new_count = -1, 0, -1, 0
        for k in range(b - a):  # touch; page counts are passed on when the page changes
            block = ids[b - 1 - k if tail_first else a + k]
            place = last[block]
            if place < 0:
                blocks += 1
            else:
                alive[place] = 0
                if place >> PAGE_BITS != old_page:
                    if old_count:
                        _add(pages, old_page, -old_count)
                    old_page, old_count = place >> PAGE_BITS, 0
                old_count += 1
            alive[head] = 1
            if head >> PAGE_BITS != new_page:
                if new_count:
                    _add(pages, new_page, new_count)
                new_page, new_count = head >> PAGE_BITS, 0
            new_count += 1
            last[block], when[block] = head, now
            head += 1
        if old_count:
            _add(pages, old_page, -old_count)
        if new_count:
            _add(pages, new_page, new_count)
    size[0], size[1] = np.int64(blocks), np.int64(head)


replay_chunk = njit(cache=True)(_replay_chunk)
