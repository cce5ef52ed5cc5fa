"""The one formula: bytes(S) = entry_bytes * retained(S) + state_bytes, for every kind of attention layer.

A layer group is a number of equal layers. What such a layer keeps for one sequence is any number of *stores* (vectors per kept token, in a window or
one per `ratio` tokens) and *states* (a constant). `compile_terms` adds the groups up to a few integers; `Terms.stored` evaluates them for scalars and arrays.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from kvmodel.dtypes import DS_MLA, FORMATS, KvFormat, check_indexer, ds_mla_record, index_key_bytes
from kvmodel.units import KvError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Role = Literal["key", "value", "latent", "rope", "shared", "index", "msa-index"]
ROLES = ("key", "value", "latent", "rope", "shared", "index", "msa-index")


@dataclass(frozen=True, slots=True)
class Vectors:
    """What one layer stores for one kept token: `heads` vectors of `width` elements.

    `key` and `value` are split over tensor-parallel ranks by head; all other roles are whole on every rank. `shared` is one vector used as K and V
    (DeepSeek-V4), of which the last `rope` elements carry the rotary part.
    """

    role: Role
    width: int
    heads: int = 1
    rope: int = 0


@dataclass(frozen=True, slots=True)
class Store:
    """Vectors kept for min(S, window) tokens, or for one in `ratio` tokens: retained(S) = min(S // ratio, window)."""

    entry: tuple[Vectors, ...]
    window: int | None = None
    ratio: int = 1


@dataclass(frozen=True, slots=True)
class State:
    """A constant per sequence: `heads` x `per_head` elements of `bytes` bytes (conv 2, recurrent 4, token shift 4).

    Heads are split over tensor-parallel ranks, ceil(heads / tp) on the fullest.
    """

    part: Literal["conv", "recurrent", "shift"]
    heads: int
    per_head: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Work:
    """What prefill computes in one layer beside the weight products: `kvmodel.movement` turns it into FLOPs.

    `query_heads * (qk_width + v_width)` multiply-adds per (query, key) pair. An indexer adds `index_heads * index_width` per pair it scores and leaves
    `topk` keys to attention. `latent` is the MLA latent that a loaded prefix up-projects. A recurrent layer updates `state_heads` matrices of
    `state_key * state_value`. `window` bounds the pairs of a layer that stores nothing itself (shared KV); other layers have it in their store.
    """

    query_heads: int = 0
    qk_width: int = 0
    v_width: int = 0
    index_heads: int = 0
    index_width: int = 0
    topk: int = 0
    latent: int = 0
    state_heads: int = 0
    state_key: int = 0
    state_value: int = 0
    window: int = 0


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """`count` equal layers of one attention kind; `chunked` windows restart (Llama 4) where sliding ones move."""

    count: int
    kind: str
    stores: tuple[Store, ...] = ()
    states: tuple[State, ...] = ()
    work: Work = Work()


@dataclass(frozen=True, slots=True)
class Term:
    """`bytes` for each of min(S // ratio, window) retained tokens."""

    bytes: int
    window: int | None
    ratio: int


@dataclass(frozen=True, slots=True)
class Terms:
    """A whole model as a sum of terms plus a constant: all integers, exact."""

    terms: tuple[Term, ...]
    state_bytes: int

    @property
    def growing_bytes_per_token(self) -> float:
        """Bytes added by each token for ever (linear rate: 1 / ratio), an int when it is whole."""
        return _whole(sum(t.bytes / t.ratio for t in self.terms if t.window is None))

    @property
    def windowed(self) -> tuple[tuple[int, float], ...]:
        """(window_tokens, bytes_per_token) of each window, shortest first."""
        widths = sorted({t.window * t.ratio for t in self.terms if t.window is not None})
        return tuple((w, _whole(sum(t.bytes / t.ratio for t in self.terms if t.window is not None and t.window * t.ratio == w))) for w in widths)

    def marginal_bytes_per_token(self, tokens: int) -> float:
        """Bytes that the next token adds at `tokens`: the growing rate plus each window that is not yet full."""
        return _whole(self.growing_bytes_per_token + sum(rate for w, rate in self.windowed if tokens < w))

    def stored(self, tokens: "Any") -> "Any":
        """Return the bytes of one sequence of `tokens` tokens; int for int, int64 array for an array."""
        if isinstance(tokens, int):
            return self.state_bytes + sum(t.bytes * _least(tokens // t.ratio, t.window) for t in self.terms)
        return self._stored_array(tokens)

    def _stored_array(self, tokens: "NDArray[Any]") -> "NDArray[Any]":
        import numpy as np

        total = np.full(tokens.shape, self.state_bytes, dtype=np.int64)
        flat_in, flat_out = tokens.reshape(-1), total.reshape(-1)
        step = 1 << 15  # a few hundred kB at a time stay in cache, whatever the number of terms
        for start in range(0, flat_in.size, step):
            part, out = flat_in[start : start + step], flat_out[start : start + step]
            for t in self.terms:
                kept = part if t.ratio == 1 else part // t.ratio
                out += t.bytes * (kept if t.window is None else np.minimum(kept, t.window))
        return total


def compile_terms(groups: Iterable[LayerGroup], kv: KvFormat, indexer_dtype: str = "fp8", tp: int = 1) -> Terms:
    """Return the terms of a list of layer groups on the fullest of `tp` tensor-parallel ranks.

    Per rank: ceil(heads / tp) of keys and values, everything else whole, ceil(H / tp) state heads. With tp = 1 this is the whole model.
    Raises `KvError` when the format cannot hold the geometry.
    """
    check_indexer(indexer_dtype)  # also where no layer has an indexer: a slip must not pass unseen
    sums: dict[tuple[int | None, int], int] = {}
    state = 0
    for group in groups:
        for store in group.stores:
            key = (store.window, store.ratio)
            sums[key] = sums.get(key, 0) + group.count * entry_bytes(store.entry, kv, indexer_dtype, tp)
        state += group.count * sum(state_part_bytes(s, tp) for s in group.states)
    return Terms(tuple(Term(b, w, r) for (w, r), b in sorted(sums.items(), key=lambda i: (i[0][0] or 0, i[0][1]))), state)


def state_part_bytes(state: State, tp: int = 1) -> int:
    """Return the bytes of one part of a layer's state on the fullest of `tp` ranks; a token shift, which holds the whole hidden vector, is not split."""
    heads = state.heads if state.part == "shift" else _ceil(state.heads, tp)
    return heads * state.per_head * state.bytes


def entry_bytes(entry: tuple[Vectors, ...], kv: KvFormat, indexer_dtype: str = "fp8", tp: int = 1) -> int:
    """Return the bytes that one layer stores for one kept token on the fullest of `tp` ranks.

    Examples
    --------
    >>> from kvmodel.dtypes import parse_kv_dtype
    >>> entry_bytes((Vectors("key", 128, 8), Vectors("value", 128, 8)), parse_kv_dtype("bf16"))
    4096
    >>> entry_bytes((Vectors("latent", 512), Vectors("rope", 64)), parse_kv_dtype("fp8_ds_mla"))
    656
    """
    widths = {v.role: v.width for v in entry}
    total = 0
    for v in entry:
        if v.role == "index":
            total += v.heads * index_key_bytes(v.width, indexer_dtype)
        elif v.role == "msa-index":  # bf16 in every format (vLLM minimax_m3)
            total += v.heads * 2 * v.width
        elif kv.key == DS_MLA:
            total += _record(v, widths)
        else:
            name = kv.value if v.role == "value" else kv.key
            total += (_ceil(v.heads, tp) if v.role in ("key", "value") else v.heads) * FORMATS[name].vector(v.width)
    return total


def _record(v: Vectors, widths: "dict[Role, int]") -> int:
    if v.role == "latent":
        return ds_mla_record(v.width, widths.get("rope", 0))
    if v.role == "rope":
        return 0  # inside the latent's record
    if v.role == "shared":
        return ds_mla_record(v.width - v.rope, v.rope)
    raise KvError(f"kv_dtype: {DS_MLA!r} is not accepted; accepted: {DS_MLA} only where every vector is a latent, not {v.role}s of {v.width}; nearest: 'fp8'")


def _least(kept: int, window: int | None) -> int:
    return kept if window is None else min(kept, window)


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def _whole(x: float) -> float:
    return int(x) if x == int(x) else x
