"""Load or recompute: the work of prefill, the time to move a cache, and where one beats the other."""

from dataclasses import dataclass

from kvmodel.attention import LayerGroup, Store, Vectors
from kvmodel.cards import Card
from kvmodel.dtypes import KvFormat
from kvmodel.hardware import Accelerator, Node
from kvmodel.tiers import path, tier
from kvmodel.units import KvError, bounded, refuse

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

    Where a config states no vocabulary the two tables stay in: a few per cent too much (3.7 % for a 7B model with 32,768 tokens).

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

    Raises
    ------
    KvError : no count of active parameters; a config that says what attention stores but not the widths it computes with

    Examples
    --------
    >>> from kvmodel import card
    >>> flops = prefill_flops(card("llama-3.1-8b"), 100_000)
    >>> 3.9e15 < flops < 4.1e15
    True
    """
    if any(g.stores and not g.work.query_heads for g in card.groups):
        raise KvError(f"model: the config of {card.id} lacks the widths of attention (qk_nope_head_dim, v_head_dim); accepted: a model whose config has them")
    return 2 * matmul_params(card) * new + sum(g.count * layer_flops(g, new, cached) for g in card.groups)


EFFICIENCY = (0.595, 0.40, 0.70)  # share of dense BF16 peak in prefill: derived from ten measured points (a test refits it); low and high are an assumption


@dataclass(frozen=True, slots=True)
class Race:
    """One request alone: the time to load its cache from a tier, and to compute it again [seconds, bytes, bytes/s]."""

    kv_bytes: int
    bytes_per_device: int
    fixed_s: float
    bandwidth_bytes_per_s: float
    bottleneck: str
    load_s: float
    recompute_s: float
    recompute_low_s: float
    recompute_high_s: float
    tp: int

    @property
    def speedup(self) -> float:
        """recompute_s / load_s: above 1, loading wins."""
        return self.recompute_s / self.load_s

    @property
    def breakeven_bytes_per_s(self) -> float:
        """Bandwidth per accelerator at which loading, without its fixed part, takes as long as recomputing."""
        return self.bytes_per_device / self.recompute_s

    @property
    def breakeven_after_fixed_bytes_per_s(self) -> float | None:
        """As above with the fixed part paid first; None where the fixed part alone takes longer than recomputing."""
        left = self.recompute_s - self.fixed_s
        return self.bytes_per_device / left if left > 0 else None

    @property
    def load_accelerator_s(self) -> float:
        """Accelerator-seconds that a load occupies if nothing else runs meanwhile."""
        return self.load_s * self.tp

    @property
    def recompute_accelerator_s(self) -> float:
        """Accelerator-seconds of the recomputation."""
        return self.recompute_s * self.tp


def recompute_s(card: Card, new: int, cached: int, accelerator: Accelerator, tp: int = 1, efficiency: float = EFFICIENCY[0]) -> float:
    """Return the seconds to prefill `new` tokens on `cached` ones on `tp` accelerators: FLOPs / (tp * peak * efficiency), no communication.

    Raises
    ------
    KvError : the accelerator has no sourced BF16 peak, the card no active parameters, efficiency outside (0, 1]

    Examples
    --------
    >>> from kvmodel import card
    >>> from kvmodel.hardware import accelerator
    >>> 6.0 < recompute_s(card("llama-3.1-8b"), 100_000, 0, accelerator("h100-sxm")) < 7.2
    True
    """
    if accelerator.bf16_flops is None:
        raise KvError(f"platform: {accelerator.id} has no sourced dense BF16 peak; accepted: a platform whose accelerator has one, such as h100-8")
    if not 0 < efficiency <= 1:
        raise refuse("efficiency", efficiency, "a number above 0 and at most 1")
    return prefill_flops(card, new, cached) / (tp * accelerator.bf16_flops * efficiency)


def race(
    card: Card,
    context_tokens: int,
    tier_id: str,
    node: Node,
    *,
    tp: int = 1,
    kv_dtype: str | KvFormat = "bf16",
    indexer_dtype: str = "fp8",
    sharing: int | None = None,
) -> Race:
    """Return the load from `tier_id` against the recomputation of one request of `context_tokens` on `tp` accelerators of `node`.

    load_s = fixed part of the tier + bytes per device / bandwidth of one accelerator on the narrowest hop. A node-wide hop counts 1 / `sharing`
    (all accelerators of the node unless said). Replicas on the ranks are moved too: kv_bytes = tp * bytes per device.

    Raises
    ------
    KvError : unknown tier, tp above the node's accelerators, no BF16 peak, no parameter count

    Examples
    --------
    >>> from kvmodel import card
    >>> from kvmodel.hardware import node
    >>> r = race(card("llama-3.1-8b"), 50_000, "main-memory", node("h100-8"))
    >>> 0.15 < r.load_s < 0.18, 2.0 < r.recompute_s < 2.5, r.bottleneck
    (True, True, 'PCIe 5.0 x16')
    """
    if not 1 <= tp <= node.accelerators:
        raise refuse("tp", tp, f"1 to {node.accelerators}, the accelerators of {node.id}")
    per_device = card.terms(kv_dtype, indexer_dtype, tp=tp).stored(context_tokens)
    bounded("context", tp * per_device)
    shared = node.accelerators if sharing is None else sharing
    hop = min(path(node, tier_id), key=lambda h: h.per_accelerator(shared))
    bandwidth, fixed = hop.per_accelerator(shared), tier(tier_id).fixed_s
    seconds = [recompute_s(card, context_tokens, 0, node.accelerator, tp, share) for share in EFFICIENCY]
    return Race(tp * per_device, per_device, fixed, bandwidth, hop.name, fixed + per_device / bandwidth, seconds[0], seconds[2], seconds[1], tp)


def breakeven_context(card: Card, tier_id: str, node: Node, *, tp: int = 1, kv_dtype: str | KvFormat = "bf16", most: int = 10_000_000) -> int | None:
    """Return the shortest context from which loading beats recomputing, up to `most` tokens; None where recomputing wins throughout.

    Attention work grows with the square of the context and bytes grow with it linearly, so one crossing is expected; both ends are checked.

    Examples
    --------
    >>> from kvmodel import card
    >>> from kvmodel.hardware import node
    >>> 1 < breakeven_context(card("llama-3.1-8b"), "main-memory", node("h100-8")) < 2000
    True
    """

    def wins(tokens: int) -> bool:
        return race(card, tokens, tier_id, node, tp=tp, kv_dtype=kv_dtype).speedup > 1

    if not wins(most):
        return None
    low, high = 0, most
    while low < high - 1:
        middle = (low + high) // 2
        low, high = (low, middle) if wins(middle) else (middle, high)
    return high
