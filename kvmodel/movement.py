"""Load or recompute: the work of prefill, the time to move a cache, and where one beats the other."""

from dataclasses import dataclass

from kvmodel.attention import LayerGroup, Store, Vectors
from kvmodel.cards import Card
from kvmodel.units import KvError

STATE_FLOPS = 6  # per element of a recurrent matrix and token: decay or delta 2, outer product 2, read-out 2 (4 to 6 in the literature)
CONTENT = ("key", "latent", "shared")  # roles that attention reads; the others are index keys or parts of these


def attended_pairs(new: int, cached: int = 0, *, window: int | None = None, ratio: int = 1, most: int | None = None, chunk: int | None = None) -> int:
    """Return the (query, key) pairs that `new` tokens on `cached` ones attend to in one layer.

    Sum over positions t = cached + 1 .. cached + new of: t (causal), min(t, window), t // ratio (compressed keys), min(t // ratio, most) (top-k), or the
    position inside its chunk. Full attention: N*C + N*(N+1)/2.

    Examples
    --------
    >>> attended_pairs(4), attended_pairs(2, 2), attended_pairs(4, window=2), attended_pairs(8, ratio=4), attended_pairs(5, chunk=4)
    (10, 7, 7, 6, 11)
    """

    def upto(x: int) -> int:
        if chunk:
            return x // chunk * _triangle(chunk) + _triangle(x % chunk)
        limit = min(n for n in (window, most, x // ratio) if n is not None)
        if limit < x // ratio:  # full up to limit * ratio - 1, then flat
            return _floors(limit * ratio - 1, ratio) + limit * (x - limit * ratio + 1)
        return _floors(x, ratio)

    return upto(cached + new) - upto(cached)


def _triangle(n: int) -> int:
    return n * (n + 1) // 2


def _floors(x: int, ratio: int) -> int:
    """Sum of t // ratio for t = 1 .. x."""
    q = x // ratio
    return ratio * q * (q - 1) // 2 + q * (x - q * ratio + 1)


def layer_flops(group: LayerGroup, new: int, cached: int = 0) -> int:
    """Return the FLOPs of one layer's attention, indexer and recurrence for `new` tokens on `cached` ones, weight products left out.

    2 * n_q * (d_qk + d_v) per attended pair, with query heads (sharing KV heads saves bytes, not FLOPs). MLA is expanded, and a loaded prefix pays its
    up-projection; with an indexer it is absorbed (latent + rope, latent) over the top-k keys. Indexers score every pair. Recurrent layers are linear.
    """
    w = group.work
    stores = [s for s in group.stores if any(v.role in CONTENT for v in s.entry)]
    if not stores and w.query_heads:  # shares another layer's KV
        stores = [Store((), w.window or None)]
    qk, v = _widths(group)
    attention = sum(2 * w.query_heads * (qk + v) * _store_pairs(group, s, new, cached) for s in stores)
    index = sum(2 * w.index_heads * w.index_width * attended_pairs(new, cached, ratio=s.ratio) for s in group.stores if _find(s, ("index", "msa-index")))
    prefix = 2 * w.latent * w.query_heads * (w.qk_width - _rope(group) + w.v_width) * cached if w.latent and not w.topk else 0
    return attention + index + prefix + STATE_FLOPS * w.state_heads * w.state_key * w.state_value * new


def _store_pairs(group: LayerGroup, store: Store, new: int, cached: int) -> int:
    if "chunked" in group.kind and store.window:
        return attended_pairs(new, cached, chunk=store.window)
    top = (group.work.topk or None) if store.window is None else None
    return attended_pairs(new, cached, window=store.window, ratio=store.ratio, most=top)


def _widths(group: LayerGroup) -> tuple[int, int]:
    w = group.work
    return (w.latent + _rope(group), w.latent) if w.latent and w.topk else (w.qk_width, w.v_width)


def _rope(group: LayerGroup) -> int:
    return next((v.width for s in group.stores for v in s.entry if v.role == "rope"), 0)


def _find(store: Store, roles: tuple[str, ...]) -> Vectors | None:
    return next((v for v in store.entry if v.role in roles), None)


def matmul_params(card: Card) -> int:
    """Return the weights that every prefilled token is multiplied with: active parameters without input embedding and LM head.

    Raises
    ------
    KvError : the card has no count of active parameters
    """
    if card.params_active is None:
        raise KvError(f"params: the active parameters of {card.id} have no source; accepted: a model with a parameter count on its card")
    tables = 0 if not (card.hidden_size and card.vocab_size) else card.hidden_size * card.vocab_size * (1 if card.tied_embeddings else 2)
    return max(card.params_active - tables, 0)


def prefill_flops(card: Card, new: int, cached: int = 0) -> int:
    """Return the FLOPs to prefill `new` tokens on `cached` ones that are in the cache: 2 * P_mm * N plus every layer's attention.

    Examples
    --------
    >>> from kvmodel import card
    >>> flops = prefill_flops(card("llama-3.1-8b"), 100_000)
    >>> 3.9e15 < flops < 4.1e15
    True
    """
    return 2 * matmul_params(card) * new + sum(g.count * layer_flops(g, new, cached) for g in card.groups)


@dataclass(frozen=True, slots=True)
class Range:
    """A value with its plausible range."""

    value: float
    low: float
    high: float
