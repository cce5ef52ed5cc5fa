"""How many bytes: one request, one user, one device, one deployment; and how much fits a memory."""

from collections.abc import Sequence
from fractions import Fraction
from operator import index
from typing import Any

from kvmodel.attention import Terms, compile_terms
from kvmodel.cards import Card
from kvmodel.dtypes import KvFormat, parse_kv_dtype, weight_bytes
from kvmodel.units import LIMIT, KvError, bounded, parse_fraction, refuse


def kv_bytes(card: Card, tokens: Any, users: Any = 1, *, kv_dtype: str | KvFormat = "bf16", indexer_dtype: str = "fp8", mtp: bool = False) -> Any:
    """Return the bytes of KV cache and state that `users` sequences of `tokens` tokens store.

    users * (sum over layer groups of count * entry_bytes * retained(tokens) + state_bytes); geometry only, before blocks, replicas and allocators.

    Parameters
    ----------
    card : model card, from `card()` or `read_config()`
    tokens : whole tokens per sequence, 1 or more; int or integer array
    users : sequences, 1 or more; int or integer array, broadcast against `tokens`
    kv_dtype : storage format of K and V, see `kvmodel.dtypes.NAMES`
    indexer_dtype : format of DSA and CSA indexer keys, `fp8` or `bf16`
    mtp : count the multi-token-prediction layers too

    Returns
    -------
    int for scalars, int64 array for arrays [bytes]

    Raises
    ------
    KvError : zero, negative or fractional counts; a format that the geometry cannot hold; a result past 2^63

    Examples
    --------
    >>> from kvmodel import card
    >>> kv_bytes(card("llama-3.3-70b"), tokens=100_000)
    32768000000
    >>> kv_bytes(card("llama-3.3-70b"), tokens=100_000, users=[1, 10]).tolist()
    [32768000000, 327680000000]
    """
    terms = _model(card).terms(kv_dtype, indexer_dtype, mtp=mtp)
    tokens, users = _counts("tokens", tokens), _counts("users", users)
    largest = terms.stored(_most(tokens))
    bounded("tokens", largest)
    stored = terms.stored(tokens)
    if isinstance(users, int) and users == 1:
        return stored
    _products_bounded(stored, users, largest)
    if not isinstance(stored, int) and (isinstance(users, int) or users.shape == stored.shape):
        stored *= users  # our own fresh array: no second one
        return stored
    return stored * users


def size(
    card: Card,
    *,
    context_tokens: int | None = None,
    users: int = 1,
    kv_dtype: str | KvFormat = "bf16",
    indexer_dtype: str = "fp8",
    block_tokens: int = 16,
    tp: int = 1,
    mtp: bool = False,
    weights_dtype: str = "bf16",
    params: int | None = None,
) -> dict[str, Any]:
    """Return every number that "the KV cache size" may mean for one request, under its own name.

    Keys and meanings are the contract of `kvmodel size --json`: stored, all users, growing, windowed, state, marginal, average, allocated (whole blocks),
    per device (fullest of `tp` ranks), written to a lower tier (all ranks, whole blocks, state once), weights.
    Bytes are exact integers; rates may be fractions.

    Examples
    --------
    >>> from kvmodel import card
    >>> size(card("llama-3.3-70b"), context_tokens=1000, tp=16)["kv_bytes_per_device"]
    40960000
    """
    context = native_context(_model(card)) if context_tokens is None else _scalar("context", context_tokens)
    users, tp, block = _scalar("users", users), _scalar("tp", tp), _scalar("block_tokens", block_tokens)
    kv = parse_kv_dtype(kv_dtype)
    whole, rank = (_model(card).terms(kv, indexer_dtype, tp=n, mtp=mtp) for n in (1, tp))
    stored = whole.stored(context)
    flushed = context // block * block
    written = tp * (rank.stored(flushed) - rank.state_bytes) + whole.state_bytes
    allocated = allocated_bytes(whole, context, block)
    bounded("context", stored * users, written)
    bounded("block_tokens", allocated)
    total = card.params_total if params is None else _scalar("params", params)
    return {
        "model": card.id,
        "attention": card.attention,
        "context_tokens": context,
        "beyond_native": card.native_context_tokens is not None and context > card.native_context_tokens,
        "users": users,
        "kv_dtype": kv.name,
        "kv_bytes_per_user": stored,
        "kv_bytes": stored * users,
        "growing_bytes_per_token": whole.growing_bytes_per_token,
        "windowed": [{"window_tokens": w, "bytes_per_token": rate} for w, rate in whole.windowed],
        "state_bytes_per_user": whole.state_bytes,
        "marginal_bytes_per_token": whole.marginal_bytes_per_token(context),
        "average_bytes_per_token": stored / context,
        "block_tokens": block,
        "allocated_bytes_per_user": allocated,
        "tp": tp,
        "kv_bytes_per_device": rank.stored(context) * users,
        "written_bytes_per_user": written,
        "weights_bytes": None if total is None else weight_bytes(total, weights_dtype),
        "assumed": list(card.assumed),
    }


def allocated_bytes(terms: Terms, tokens: int, block_tokens: int) -> int:
    """Return the bytes that whole blocks of `block_tokens` reserve: S and min(S, W) rounded up, state as it is.

    Examples
    --------
    >>> from kvmodel import card
    >>> allocated_bytes(card("llama-3.3-70b").terms(), 17, 16) == 32 * 327_680
    True
    """
    total = terms.state_bytes
    for t in terms.terms:
        held = tokens if t.window is None else min(tokens, t.window * t.ratio)
        total += t.bytes * (_round_up(held, block_tokens) // t.ratio)
    return total


def stage_layers(layers: int, stages: int, partition: Sequence[int] | None = None) -> list[int]:
    """Return how many layers each pipeline stage holds.

    `partition` gives them outright. Otherwise layers / stages each, and the rest one each to the stages before the last, from the back (as vLLM does).

    Examples
    --------
    >>> stage_layers(61, 4), stage_layers(48, 2, [16, 32])
    ([15, 15, 16, 15], [16, 32])
    """
    if partition is not None:
        if not all(isinstance(n, int) and n >= 0 for n in partition) or len(partition) != stages or sum(partition) != layers:
            raise refuse("partition", list(partition), f"{stages} whole numbers that add up to {layers} layers")
        return list(partition)
    if not 1 <= stages <= layers:
        raise refuse("pp", stages, f"1 to {layers} stages, one layer at least in each")
    counts = [layers // stages] * stages
    for i in range(2, layers % stages + 2):
        counts[-i] += 1
    return counts


def deployment(
    card: Card,
    tokens: int,
    users: int = 1,
    *,
    tp: int = 1,
    pp: int = 1,
    dp: int = 1,
    partition: Sequence[int] | None = None,
    kv_dtype: str | KvFormat = "bf16",
    indexer_dtype: str = "fp8",
    mtp: bool = False,
) -> dict[str, Any]:
    """Return the KV bytes of `users` sequences over tp x pp x dp devices: per stage, on the fullest device, and in all.

    Tensor parallel: ceil(n_kv / tp) heads per rank, latents whole on each. Pipeline parallel: each stage holds its own layers, the last one the MTP layers;
    size the worst. Data-parallel attention: each of `dp` ranks holds its own sequences, ceil(users / dp) at most; a sequence is never divided by dp.

    Returns
    -------
    dict with `stage_bytes_per_device` (list, fullest replica) `kv_bytes_per_device` (their maximum) `kv_bytes_all_devices` (replicas included) `stage_layers`

    Examples
    --------
    >>> from kvmodel import card
    >>> d = deployment(card("deepseek-v3"), 1000, 8, tp=8)
    >>> d["kv_bytes_per_device"] == 8 * 70_272_000, deployment(card("deepseek-v3"), 1000, 8, dp=8)["kv_bytes_per_device"] == 70_272_000
    (True, True)
    """
    kv, tokens, users = parse_kv_dtype(kv_dtype), _scalar("tokens", tokens), _scalar("users", users)
    tp, pp, dp = _scalar("tp", tp), _scalar("pp", pp), _scalar("dp", dp)
    counts = stage_layers(len(_model(card).layers), pp, partition)
    stages, start = [], 0
    for i, count in enumerate(counts):
        groups = card.stage_groups(start, start + count) + (card.mtp if mtp and i == pp - 1 else ())
        stages.append(compile_terms(groups, kv, indexer_dtype, tp).stored(tokens))
        start += count
    bounded("tokens", sum(stages) * users * tp)
    return {
        "stage_layers": counts,
        "stage_bytes_per_device": [s * _ceil(users, dp) for s in stages],
        "kv_bytes_per_device": max(stages) * _ceil(users, dp),
        "kv_bytes_all_devices": sum(stages) * users * tp,
    }


def fit(
    card: Card,
    memory_bytes: int,
    *,
    context_tokens: int | None = None,
    users: int | None = None,
    kv_dtype: str | KvFormat = "bf16",
    indexer_dtype: str = "fp8",
    tp: int = 1,
    replicas: int = 1,
    usable: float = 1.0,
    block_tokens: int = 16,
    weights_dtype: str = "bf16",
    params: int | None = None,
) -> dict[str, Any]:
    """Return how many users, or how long a context, fit `replicas` copies of a model in `memory_bytes` each.

    kv_budget = replicas * max(0, usable * memory - weights). A user takes whole blocks on the fullest of `tp` ranks, so tp times that of a replica's budget.
    Give `context_tokens` or `users` or neither, not both; the unnamed one keeps its default (native context, one user).

    Returns
    -------
    dict with `max_users` (at context_tokens), `max_context_tokens` (for `users`, in whole blocks; None where KV stops growing), and what they rest on

    Raises
    ------
    KvError : both given; no parameter count; native context unknown and no context given

    Examples
    --------
    >>> from kvmodel import card
    >>> fit(card("llama-3.3-70b"), 640 * 10**9, context_tokens=128_000)["max_users"]
    11
    """
    if context_tokens is not None and users is not None:
        raise KvError(f"users: {users} is not accepted; accepted: context or users, not both (the other one is what fit finds)")
    total = _model(card).params_total if params is None else _scalar("params", params)
    if total is None:
        raise KvError(f"params: not given and not on the card of {card.id}; accepted: a number of parameters, such as 70.6B")
    context = _scalar("context", context_tokens) if context_tokens is not None else (card.native_context_tokens if users is not None else native_context(card))
    wanted = 1 if users is None else _scalar("users", users)
    tp, replicas, block = _scalar("tp", tp), _scalar("replicas", replicas), _scalar("block_tokens", block_tokens)
    weights, memory_bytes, usable = weight_bytes(total, weights_dtype), _scalar("memory", memory_bytes), parse_fraction(usable, "usable")
    budget = max(0, int(Fraction(str(usable)) * memory_bytes) - weights)
    rank = card.terms(kv_dtype, indexer_dtype, tp=tp)
    return {
        "model": card.id,
        "max_users": None if context is None else replicas * _users_that_fit(rank, budget, tp, context, block),
        "max_context_tokens": _longest_context(rank, budget // (tp * _ceil(wanted, replicas)), block),
        "kv_budget_bytes": replicas * budget,
        "weights_bytes": weights,
        "context_tokens": context,
        "users": wanted,
        "kv_dtype": parse_kv_dtype(kv_dtype).name,
        "tp": tp,
        "replicas": replicas,
        "usable": usable,
        "memory_bytes": replicas * memory_bytes,
        "block_tokens": block,
    }


def _model(card: Any) -> Card:
    if not isinstance(card, Card):
        raise refuse("card", card, "a model card, from card() or read_config()")
    return card


def native_context(card: Card) -> int:
    """Return the card's native context in tokens; refuses, naming `context`, where it is unknown."""
    if card.native_context_tokens is None:
        raise KvError(f"context: the native context of {card.id} has no source; accepted: a number of tokens given with --context, such as 128k")
    return card.native_context_tokens


def _users_that_fit(rank: Terms, budget: int, tp: int, context: int, block: int) -> int:
    each = tp * allocated_bytes(rank, context, block)
    return budget // each if each else 0


def _longest_context(rank: Terms, budget: int, block: int) -> int | None:
    """Largest number of tokens, in whole blocks, whose blocks on one rank fit `budget` bytes; None when no length exceeds it."""
    if rank.growing_bytes_per_token:
        bound = int(budget / rank.growing_bytes_per_token * (1 + 1e-12)) + max(t.ratio for t in rank.terms)  # compressed stores count whole groups
    else:
        bound = max((w for w, _ in rank.windowed), default=1)
        if allocated_bytes(rank, bound, block) <= budget:
            return None
    low, high = 0, bound // block + 2  # in blocks; low always fits or is 0
    while low < high - 1:
        middle = (low + high) // 2
        low, high = (middle, high) if allocated_bytes(rank, middle * block, block) <= budget else (low, middle)
    return low * block


def _counts(field: str, value: Any) -> Any:
    """An int, or an int64 array, of whole numbers from 1 up; anything else is refused."""
    if isinstance(value, int) and not isinstance(value, bool):
        return _scalar(field, value)
    import numpy as np

    try:
        array = np.asarray(value)
    except ValueError:  # rows of unequal length
        raise refuse(field, value, "a whole number above 0, or an array of them") from None
    if array.dtype.kind not in "iuf" or array.size == 0:
        raise refuse(field, value, "a whole number above 0, or an array of them")
    least, most = array.min().item(), array.max().item()
    if not (least >= 1 and most < LIMIT):
        raise refuse(field, least if not least >= 1 else most, "whole numbers above 0 and below 2^63")
    if array.dtype.kind == "f" and (array != np.floor(array)).any():
        raise refuse(field, array[array != np.floor(array)].flat[0].item(), "whole numbers: a fraction of a token is not stored")
    return int(array) if array.ndim == 0 else array.astype(np.int64, copy=False)


def _products_bounded(stored: Any, users: Any, largest: int) -> None:
    """Refuse shapes that do not broadcast, and any product of 2^63 or more; `largest` is the largest of `stored`."""
    pairs = not isinstance(stored, int) and not isinstance(users, int)
    if pairs:
        import numpy as np

        try:
            np.broadcast_shapes(stored.shape, users.shape)
        except ValueError:
            raise refuse("users", f"shape {users.shape}", f"a shape that broadcasts against the shape of tokens, {stored.shape}") from None
    if largest * _most(users) < LIMIT:  # the usual case, without a look at the pairs
        return
    if not pairs:
        bounded("tokens", largest * _most(users))
    for size, count in zip(*(a[stored > (LIMIT - 1) // users] for a in np.broadcast_arrays(stored, users))):
        bounded("tokens", int(size) * int(count))


def _scalar(field: str, value: Any) -> int:
    """An int from an integer of Python or NumPy, or from a whole float."""
    try:
        number = int(value) if isinstance(value, float) and value.is_integer() else index(value)
    except TypeError:
        number = 0
    if isinstance(value, bool) or not 0 < number < LIMIT:
        raise refuse(field, value, "a whole number above 0 and below 2^63")
    return number


def _most(counts: Any) -> int:
    return counts if isinstance(counts, int) else int(counts.max())


def _round_up(tokens: int, block: int) -> int:
    return _ceil(tokens, block) * block


def _ceil(a: int, b: int) -> int:
    return -(-a // b)
