"""Tables of numbers of the sizing chapters, one row for each thing compared: everything is computed by `kvmodel.sizing` and `kvmodel.attention`."""

import re
from collections.abc import Callable, Iterable, Mapping
from math import prod
from typing import Any

import pandas as pd

from kvmodel.attention import entry_bytes
from kvmodel.cards import Card, card, card_ids
from kvmodel.dtypes import FORMATS, NAMES, parse_kv_dtype
from kvmodel.hardware import Node, node, node_ids
from kvmodel.places import DATA
from kvmodel.sizing import allocated_bytes, deployment, fit, kv_bytes
from kvmodel.units import KvError, format_bytes, significant

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


def card_sources(models: Iterable[str], chosen: Card) -> list[str]:
    """Return the source ids of the geometry of these cards and of the chosen one, sorted, each once."""
    known = [card(m) for m in set(models) if m in card_ids()]
    return sorted({s for one in [*known, chosen] for s in one.sources.get("geometry", [])})


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

    Columns: kind, layers, part (`8 x 128 key + 8 x 128 value`), per_entry (bytes of one entry in one layer), kept (entries), entry (what one is), kv_bytes.
    """
    kv, rows = parse_kv_dtype(kv_dtype), []
    for group in one.groups:
        for store in group.stores:
            part = " + ".join(f"{v.heads} x {v.width} {v.role}" if v.heads > 1 else f"{v.width} {v.role}" for v in store.entry)
            each, kept = entry_bytes(store.entry, kv), min(tokens // store.ratio, store.window or tokens)
            rows.append((group.kind, group.count, part, each, kept, "token" if store.ratio == 1 else f"group of {store.ratio}", group.count * each * kept))
        for state in group.states:
            each = state.heads * state.per_head * state.bytes
            rows.append((group.kind, group.count, f"{state.part} state", each, 1, "state", group.count * each))
        if not group.stores and not group.states:
            rows.append((group.kind, group.count, "nothing", 0, 0, "token", 0))
    return pd.DataFrame(rows, columns=["kind", "layers", "part", "per_entry", "kept", "entry", "kv_bytes"])


def build_up(one: Card, tokens: int, users: int, kv_dtype: str) -> pd.DataFrame:
    """Return the steps from one vector to all users, for the part of the model that keeps most: step, calculation in words, bytes."""
    parts = layer_rows(one, tokens, kv_dtype).to_dict("records")
    most, total = max(parts, key=lambda p: p["kv_bytes"]), sum(p["kv_bytes"] for p in parts)
    count, each, kept, what = most["layers"], most["per_entry"], most["kept"], most["entry"]
    steps = _vector_step(most["part"], kv_dtype)
    steps += [(f"one layer, one {what}", most["part"], each), (f"all {count} such layers, one {what}", f"{count} x {each:,}", count * each)]
    if what != "state":
        steps.append((f"what they keep of {tokens:,} token{'s' * (tokens != 1)}", f"{kept:,} x {count * each:,}", most["kv_bytes"]))
    if total > most["kv_bytes"]:
        steps.append(("all other parts", "see the next table", total - most["kv_bytes"]))
    steps.append(("one user", "sum", total))
    if users > 1:
        steps.append((f"{users:,} users", f"{users:,} x {total:,}", users * total))
    return pd.DataFrame(steps, columns=["step", "calculation", "kv_bytes"])


def _vector_step(part: str, kv_dtype: str) -> list[tuple[str, str, int]]:
    """The bytes of a single head's first vector, where a format stores vectors one by one."""
    first = re.match(r"(?:\d+ x )?(\d+) (\S+)", part)
    if not first or parse_kv_dtype(kv_dtype).key not in FORMATS:  # a state, or a whole record such as fp8_ds_mla
        return []
    width, key = int(first[1]), parse_kv_dtype(kv_dtype).key
    return [(f"one {first[2]} vector", f"{width} elements in {key}", FORMATS[key].vector(width))]


def sum_tex(parts: pd.DataFrame) -> str:
    """Return the sum of `layer_rows` as a LaTeX formula, one line a part that keeps anything."""
    kept = parts[parts["kv_bytes"] > 0].to_dict("records")
    rows = [
        rf"{'+' if n else ''}\;& {p['layers']}\ \text{{layers}} \times {tex(p['per_entry'])}\ \text{{bytes}}"
        + rf" \times {tex(p['kept'])}\ \text{{{p['entry'].replace('group', 'groups') if p['entry'] != 'token' else 'tokens'}}}"
        for n, p in enumerate(kept)
    ]
    total = rf"=\;& {tex(parts['kv_bytes'].sum())}\ \text{{bytes}}"
    return r"\begin{aligned} " + r" \\ ".join([*rows, total]) + r" \end{aligned}"


def tex(n: float) -> str:
    """Return a whole number for LaTeX, its thousands apart by commas without space.

    Examples
    --------
    >>> tex(32_768_000)
    '32{,}768{,}000'
    """
    return f"{n:,.0f}".replace(",", "{,}")


def name_rows(found: Mapping[str, Any]) -> pd.DataFrame:
    """Return the numbers of `kvmodel.size` that people call "the KV cache size", each under its name: name, meaning, bytes."""
    tp, block, users = found["tp"], found["block_tokens"], found["users"]
    rows = [
        ("stored", "what one user's tokens keep, geometry only", found["kv_bytes_per_user"]),
        ("all users", f"stored, times {users:,}", found["kv_bytes"]),
        ("growing", "per token, for ever", found["growing_bytes_per_token"]),
        ("marginal", f"what token {found['context_tokens'] + 1:,} adds, windows that are not full included", found["marginal_bytes_per_token"]),
        ("average", "stored, over the tokens", found["average_bytes_per_token"]),
        ("reserved", f"one user in whole blocks of {block} tokens", found["allocated_bytes_per_user"]),
        ("per rank", f"all users, on the fullest of {tp} tensor-parallel ranks", found["kv_bytes_per_device"]),
        ("written", f"one user's whole blocks, as {tp} ranks write them to a lower tier", found["written_bytes_per_user"]),
    ]
    words = [format_bytes(b) + (" a token" if n in ("growing", "marginal", "average") else "") for n, _, b in rows]
    sizes = pd.Series([round(b, 2) if b != int(b) else int(b) for _, _, b in rows], dtype=object)  # whole numbers stay exact beside fractions
    return pd.DataFrame({"name": [n for n, _, _ in rows], "meaning": [m for _, m, _ in rows], "bytes": sizes, "words": words})


# id in data/known_answers.csv: model, our formula, bytes of the printed unit, what went wrong
WRONG: dict[str, tuple[str, Callable[[Card], float], int, str]] = {
    "81": ("llama-3.1-405b", lambda c: kv_bytes(c, 128_000), 2**30, "twice too much: the first upload of the config named 16 KV heads, the model has 8"),
    "111": ("qwen3-32b", lambda c: kv_bytes(c, 1), 1, "head dim taken as hidden size over heads (80); the config says 128. The author shows it as a mistake"),
    "113": ("deepseek-v3", lambda c: kv_bytes(c, 1), 1, "neither the latents that are cached (MLA) nor the expanded heads"),
    "115": ("llama-3.1-405b", lambda c: kv_bytes(c, 1), 1, "a slip in the arithmetic, harmless"),
    "123": ("deepseek-v3", lambda c: kv_bytes(c, 1) / (2 * len(c.layers)), 1, "sized as 16 KV heads of 512, K and V; one latent of 576 elements is kept"),
}


def wrong_rows() -> pd.DataFrame:
    """Return published KV sizes that are wrong, each beside what its model's card gives: model, source, printed, ours, factor, why."""
    published = pd.read_csv(DATA / "known_answers.csv", dtype=str).set_index("id")
    rows = []
    for key, (model, formula, unit, why) in WRONG.items():
        row, ours = published.loc[key], formula(card(model)) / unit
        last = row["printed"].split("/")[-1]  # the longest context of a series
        printed = float(prod(float(x) for x in last.split("x")))
        label = {1: row["unit"], 2**30: "GiB"}[unit]
        shown = [f"{significant(x, 7 if unit == 1 else 5)} {label}" for x in (printed, ours)]
        rows.append((model, row["engine"], row["quantity"], *shown, printed / ours, why, row["source_url"]))
    return pd.DataFrame(rows, columns=["model", "where", "quantity", "printed", "computed", "factor", "why", "url"])


def article_readings(one: Card, tokens: int, weights: int) -> pd.DataFrame:
    """Return the sizes that the article's printed formula gives in each reading, and the right one (bf16) alone and with `weights` bytes of weights.

    Printed: layers x heads x head dim x tokens x bytes per element. For cards whose layers are all alike, such as Llama's.
    """
    group = one.groups[0]
    key = group.stores[0].entry[0]
    rows = [
        (f"{text}, {b} byte{'s' * (b > 1)}", heads, factor, b, factor * group.count * heads * key.width * tokens * b)
        for text, heads, factor, b in (
            ("printed, KV heads", key.heads, 1, 1), ("printed, KV heads", key.heads, 1, 2), ("printed, all heads", group.work.query_heads, 1, 1),
            ("printed, all heads", group.work.query_heads, 1, 2), ("K and V of all heads", group.work.query_heads, 2, 2),
        )
    ]  # fmt: skip
    right = kv_bytes(one, tokens)
    rows += [(f"{text}, 2 bytes", key.heads, 2, 2, total) for text, total in (("K and V of KV heads", right), ("same, with weights", right + weights))]
    frame = pd.DataFrame(rows, columns=["reading", "kv_heads", "factor", "bytes_per_element", "kv_bytes"])
    return frame.assign(label=frame["kv_bytes"].map(format_bytes))


def node_fit(one: Card, place: Node, tokens: int, kv_dtype: str, weights_dtype: str = "bf16") -> dict[str, Any]:
    """Return what `kvmodel fit --platform` does for a node: users, KV budget and weights of all replicas, and the memory that is kept back [bytes]."""
    tp = min(8, place.accelerators)
    return fit(
        one, tp * place.accelerator.memory_bytes, context_tokens=tokens, kv_dtype=kv_dtype, tp=tp, replicas=place.accelerators // tp,
        usable=0.9, weights_dtype=weights_dtype,
    )  # fmt: skip


def users_span(one: Card, place: Node, tokens: int, kv_dtype: str, users: int) -> tuple[int, int]:
    """Return the least and most users over the two readings of a package's memory, as marketed and as reported, and 0.85 to 0.95 of it usable."""
    tp, memory = min(8, place.accelerators), place.accelerator.memory_bytes
    ends = ((memory, 0.85), (max(memory, place.accelerator.memory_reported_bytes or 0), 0.95))
    found = [
        fit(one, tp * m, context_tokens=tokens, kv_dtype=kv_dtype, tp=tp, replicas=place.accelerators // tp, usable=share)["max_users"] for m, share in ends
    ]
    return min(users, *found), max(users, *found)


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
        label = format_bytes(budget) if budget else "no room"
        parts = {"weights": memory - back - budget, "KV cache": budget, "kept back": back}
        rows += [(n["platform"], part, rank, size, size / memory, label) for rank, (part, size) in enumerate(parts.items())]
    return pd.DataFrame(rows, columns=["platform", "part", "rank", "bytes", "share", "label"])


def rank_rows(models: Mapping[str, Card], tokens: int, kv_dtype: str) -> pd.DataFrame:
    """Return the bytes of all tensor-parallel ranks over those of one copy, for 1 to 32 ranks and each named model that can hold the format."""
    rows = []
    for name, one in models.items():
        try:
            whole = kv_bytes(one, tokens, kv_dtype=kv_dtype)
        except KvError:
            continue
        for tp in RANKS:
            held = tp * one.terms(kv_dtype, tp=tp).stored(tokens)
            rows.append((name, tp, held, held / whole if whole else 1.0))
    return pd.DataFrame(rows, columns=["model", "ranks", "kv_bytes_all_ranks", "copies"])


def split_rows(models: Mapping[str, Card], ranks: int, tokens: int, kv_dtype: str) -> pd.DataFrame:
    """Return the KV of one user for each of `ranks` devices, spread in three ways: on the fullest device, on all, and the fullest over an even share."""
    rows = []
    for name, one in models.items():
        try:
            stored = kv_bytes(one, tokens, ranks, kv_dtype=kv_dtype)
        except KvError:
            continue
        stages = min(ranks, len(one.layers))
        ways = [(f"tensor parallel, {ranks}", ranks, 1, 1), (f"pipeline, stages: {stages}", 1, stages, 1), (f"data-parallel attention, {ranks}", 1, 1, ranks)]
        for way, tp, pp, dp in ways:
            found = deployment(one, tokens, ranks, kv_dtype=kv_dtype, tp=tp, pp=pp, dp=dp)
            even = found["kv_bytes_per_device"] * tp * pp * dp / stored
            rows.append((name, way, found["kv_bytes_per_device"], found["kv_bytes_all_devices"], significant(even)))
    return pd.DataFrame(rows, columns=["model", "split", "fullest device", "all devices", "fullest / even share"], dtype=object)


def reasoning_rows(one: Card, prompts: Mapping[str, int], answer_tokens: int, kv_dtype: str) -> pd.DataFrame:
    """Return the KV bytes at the end of a request whose model generates 1 to 10 times the answer, and their ratio to those without reasoning."""
    rows = []
    for name, prompt in prompts.items():
        plain = kv_bytes(one, prompt + answer_tokens, kv_dtype=kv_dtype)
        for factor in range(1, 11):
            stored = kv_bytes(one, prompt + factor * answer_tokens, kv_dtype=kv_dtype)
            rows.append((name, prompt, factor, stored, stored / plain if plain else 1.0))
    return pd.DataFrame(rows, columns=["request", "prompt_tokens", "generated_per_answer", "kv_bytes", "growth"])


def reasoning_traffic() -> dict[str, float]:
    """Return the mean request of a served reasoning model (DeepSeek-R1 at Alibaba, ServeGen): tokens in and out, share of reasoning, and its spread.

    The histograms are of single fields, so `answer` is mean output x (1 - mean share): an estimate that neglects how length and share go together.
    """
    hist = pd.read_csv(DATA / "traces" / "servegen_hist.csv.gz")
    hist = hist[hist["pool"] == "reason/deepseek-r1"]
    means = {f: float((g["value"] * g["weight"]).sum() / g["weight"].sum()) for f, g in hist.groupby("field")}
    ratio = hist[hist["field"] == "reason_ratio"]
    times = 1 / (1 - ratio["value"].clip(upper=0.999))
    within = float(ratio["weight"][(times >= 3) & (times <= 10)].sum() / ratio["weight"].sum())
    prompt, output, share = (means[f] for f in ("input_tokens", "output_tokens", "reason_ratio"))
    return {"prompt": prompt, "output": output, "share": share, "answer": output * (1 - share), "within_3_10": within}


def user_bytes(found: Mapping[str, Any], one: Card) -> int:
    """Return the bytes that one user takes from a copy's budget in `node_fit`: whole blocks on the fullest rank, times the ranks."""
    rank = one.terms(found["kv_dtype"], tp=found["tp"])
    return int(found["tp"] * allocated_bytes(rank, found["context_tokens"], found["block_tokens"]))


def node_sources(nodes: Iterable[str], one: Card) -> list[str]:
    """Return the source ids of the memory of these nodes and of the card's geometry, sorted, each once."""
    memory = {s for n in nodes for s in node(n).accelerator.spec.values["memory_bytes"].sources}
    return sorted(memory | set(card_sources([], one)))


def block_rows(one: Card, tokens: int, kv_dtype: str) -> pd.DataFrame:
    """Return what blocks of several sizes reserve for one user, for `tokens` and one more, and by how much that exceeds what is stored [bytes, %]."""
    terms, rows = one.terms(kv_dtype), []
    for block in (1, 16, 64, 256, 512):
        held = [(allocated_bytes(terms, n, block), terms.stored(n)) for n in (tokens, tokens + 1)]
        loss = [f"{significant(100 * (a / s - 1), 2)} %" for a, s in held]
        rows.append((block, held[0][0], loss[0], held[1][0], loss[1]))
    return pd.DataFrame(rows, columns=["block", "reserved", "lost", "with one more token", "then lost"])


def card_rows(tokens: int) -> pd.DataFrame:
    """Return every card in words: parameters (`~` before an estimate), native context, release, growing and constant bytes, KV of `tokens` in bf16."""
    rows = []
    for one in map(card, card_ids()):
        terms = one.terms()
        about = {field: "~" if one.kinds.get(field) == "estimate" else "" for field in ("params_total", "params_active")}
        weights = [f"{about[f]}{significant(n / 1e9)}" if (n := getattr(one, f)) else "–" for f in about]
        context = f"{one.native_context_tokens:,}" if one.native_context_tokens else "–"
        grows, window = significant(terms.growing_bytes_per_token, 7), sum(rate for _, rate in terms.windowed)
        constant = format_bytes(terms.state_bytes) if terms.state_bytes else "–"
        sources = " ".join(sorted({s for ids in one.sources.values() for s in ids}))
        stored = format_bytes(terms.stored(tokens))
        rows.append((f"`{one.id}`", one.attention, *weights, context, one.release_date or "–", grows, significant(window, 7), constant, stored, sources))
    columns = ["card", "attention", "parameters", "active", "native context", "released", "growing", "in windows", "state", "KV", "sources"]
    return pd.DataFrame(rows, columns=columns)
