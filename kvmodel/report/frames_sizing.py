"""Tables of numbers of the sizing chapters, one row for each thing compared: everything is computed by `kvmodel.sizing` and `kvmodel.attention`."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from kvmodel.attention import entry_bytes
from kvmodel.cards import Card, card, card_ids
from kvmodel.dtypes import NAMES, parse_kv_dtype
from kvmodel.hardware import Node, node, node_ids
from kvmodel.sizing import fit, kv_bytes
from kvmodel.units import KvError, format_bytes

EXAMPLES = ("llama-3.3-70b", "deepseek-v3", "gpt-oss-120b", "deepseek-v4-pro", "mamba-codestral-7b-v0.1")  # one of each kind of growth
RANKS = (1, 2, 4, 8, 16, 32)


def kv_of_all_cards(tokens: int, kv_dtype: str, chosen: Card) -> tuple[pd.DataFrame, list[str]]:
    """Return one row per card that can hold `kv_dtype` (model, attention, kv_bytes of one user), and the ids of those that cannot."""
    rows, left_out = [], []
    for one in [*map(card, card_ids()), *([] if chosen.id in card_ids() else [chosen])]:
        try:
            rows.append({"model": one.id, "attention": one.attention, "kv_bytes": kv_bytes(one, tokens, kv_dtype=kv_dtype)})
        except KvError:
            left_out.append(one.id)
    frame = pd.DataFrame(rows)
    return frame[frame["kv_bytes"] > 0].reset_index(drop=True), left_out  # a log axis has no zero: fewer tokens than a compressed group and no window


def kv_of_contexts(chosen: Card, kv_dtype: str, most: int) -> pd.DataFrame:
    """Return the KV bytes of the chosen card and of up to four others that grow otherwise, from 1,000 tokens to `most` (10,000 at least), four a decade."""
    most = max(most, 10_000)
    contexts = sorted({n for n in (round(10 ** (k / 4)) for k in range(12, 37)) if n < most} | {most})
    others = [c for c in map(card, EXAMPLES) if c.attention != chosen.attention]
    rows = []
    for one in [chosen, *others[:4]]:
        try:
            rows += [{"model": one.id, "context_tokens": n, "kv_bytes": kv_bytes(one, n, kv_dtype=kv_dtype)} for n in contexts]
        except KvError:
            continue  # the format cannot hold this geometry
    return pd.DataFrame(rows)


def kv_of_formats(one: Card, tokens: int) -> pd.DataFrame:
    """Return the KV bytes of one user in each storage format that the card's geometry can hold, most first."""
    rows = []
    for name in NAMES:
        try:
            stored = kv_bytes(one, tokens, kv_dtype=name)
        except KvError:
            continue
        rows.append({"kv_dtype": name, "kv_bytes": stored, "label": format_bytes(stored)})
    return pd.DataFrame(rows).sort_values("kv_bytes", ascending=False, kind="stable").reset_index(drop=True)


def layer_rows(one: Card, tokens: int, kv_dtype: str) -> pd.DataFrame:
    """Return how the bytes of one user add up: a row for each part that the layers of a group keep, in the order of the groups.

    Columns: kind, layers, part (`8 x 128 keys`), per_entry (bytes of one kept token in one layer, or of a state), kept (tokens or groups), kv_bytes.
    """
    kv, rows = parse_kv_dtype(kv_dtype), []
    for group in one.groups:
        for store in group.stores:
            part = " + ".join(f"{v.heads} x {v.width} {v.role}" if v.heads > 1 else f"{v.width} {v.role}" for v in store.entry)
            each = entry_bytes(store.entry, kv)
            kept = min(tokens // store.ratio, store.window or tokens)
            rows.append((group.kind, group.count, part, each, kept, group.count * each * kept))
        for state in group.states:
            each = state.heads * state.per_head * state.bytes
            rows.append((group.kind, group.count, f"{state.part} state", each, 1, group.count * each))
        if not group.stores and not group.states:
            rows.append((group.kind, group.count, "nothing", 0, 0, 0))
    return pd.DataFrame(rows, columns=["kind", "layers", "part", "per_entry", "kept", "kv_bytes"])


def article_readings(one: Card, tokens: int, weights: int) -> pd.DataFrame:
    """Return the sizes that the article's printed formula gives in each reading (head count, bytes per element, with or without factor 2), least first.

    The right one, K and V of the KV heads in 16 bits, is `kv_bytes` itself; it is there once alone and once with the weights.
    """
    group = one.groups[0]
    key = group.stores[0].entry[0]
    printed = group.count * key.width * tokens
    query = group.work.query_heads
    right = kv_bytes(one, tokens)
    rows = [
        ("as printed", "KV heads", 1, printed * key.heads),
        ("as printed", "KV heads", 2, 2 * printed * key.heads),
        ("right", "KV heads, K and V", 2, right),
        ("right", "the same, with weights", 2, right + weights),
        ("as printed", "all heads", 1, printed * query),
        ("as printed", "all heads", 2, 2 * printed * query),
        ("no sharing", "all heads, K and V", 2, 4 * printed * query),
    ]
    frame = pd.DataFrame(rows, columns=["formula", "heads", "bytes_per_element", "kv_bytes"])
    frame["reading"] = [f"{f}: {h}, {b} byte{'s' * (b > 1)}" for f, h, b, _ in rows]
    frame["label"] = frame["kv_bytes"].map(format_bytes)
    return frame


def node_fit(one: Card, place: Node, tokens: int, kv_dtype: str, weights_dtype: str = "bf16") -> dict[str, Any]:
    """Return what `kvmodel fit --platform` does for a node: users, KV budget and weights of all replicas, and the memory that is kept back [bytes]."""
    tp = min(8, place.accelerators)
    return fit(
        one, tp * place.accelerator.memory_bytes, context_tokens=tokens, kv_dtype=kv_dtype, tp=tp, replicas=place.accelerators // tp,
        usable=0.9, weights_dtype=weights_dtype,
    )  # fmt: skip


def node_rows(one: Card, tokens: int, kv_dtype: str) -> pd.DataFrame:
    """Return `node_fit` for every node, fewest users first."""
    rows = [{"platform": n} | node_fit(one, node(n), tokens, kv_dtype) for n in node_ids()]
    return pd.DataFrame(rows).sort_values(["max_users", "memory_bytes"], kind="stable").reset_index(drop=True)


def share_rows(nodes: pd.DataFrame) -> pd.DataFrame:
    """Return the parts of each node's HBM (weights, KV cache, kept back) as shares of it, from the rows of `node_rows`."""
    rows = []
    for n in nodes.to_dict("records"):
        budget, memory = n["kv_budget_bytes"], n["memory_bytes"]
        back = round(memory * (1 - n["usable"]))
        label = format_bytes(budget) if budget else "weights do not fit"
        parts = {"weights": memory - back - budget, "KV cache": budget, "kept back": back}
        rows += [(n["platform"], part, rank, size, size / memory, label) for rank, (part, size) in enumerate(parts.items())]
    return pd.DataFrame(rows, columns=["platform", "part", "rank", "bytes", "share", "label"])


def rank_rows(models: Mapping[str, Card], tokens: int, kv_dtype: str) -> pd.DataFrame:
    """Return the bytes of all tensor-parallel ranks over those of one copy, for 1 to 32 ranks and each named model."""
    rows = []
    for name, one in models.items():
        whole = kv_bytes(one, tokens, kv_dtype=kv_dtype)
        for tp in RANKS:
            held = tp * one.terms(kv_dtype, tp=tp).stored(tokens)
            rows.append((name, tp, held, held / whole if whole else 1.0))
    return pd.DataFrame(rows, columns=["model", "ranks", "kv_bytes_all_ranks", "copies"])


def reasoning_rows(one: Card, prompts: Mapping[str, int], answer_tokens: int, kv_dtype: str) -> pd.DataFrame:
    """Return the KV bytes at the end of a request whose model generates 1 to 10 times the answer, and their ratio to those without reasoning."""
    rows = []
    for name, prompt in prompts.items():
        plain = kv_bytes(one, prompt + answer_tokens, kv_dtype=kv_dtype)
        for factor in range(1, 11):
            stored = kv_bytes(one, prompt + factor * answer_tokens, kv_dtype=kv_dtype)
            rows.append((name, prompt, factor, stored, stored / plain if plain else 1.0))
    return pd.DataFrame(rows, columns=["request", "prompt_tokens", "generated_per_answer", "kv_bytes", "growth"])
