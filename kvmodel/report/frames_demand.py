"""Tables of numbers of the chapter on demand: shares of compute, reasoning, agents, the fleet, and what requests carry."""

from collections.abc import Iterable

import pandas as pd

from kvmodel import card
from kvmodel.demand import (
    CASES,
    GROWTH_RULES,
    YEARS,
    Input,
    byte_seconds_multiplier,
    effects,
    end_multiplier,
    fleet,
    inputs,
    longer_wait_longer,
    monthly_tokens,
    reasoning_multiplier,
)
from kvmodel.drivers import agent_sessions, chat_means, common_prefix, corpus, facts, quoted, reasoning_request, sessions_for, tenants, things
from kvmodel.sizing import kv_bytes
from kvmodel.tables import read
from kvmodel.tiers import tier, tier_ids
from kvmodel.units import format_bytes, format_seconds, format_tokens, significant

MODELS = ("llama-3.3-70b", "deepseek-v3", "deepseek-v4-flash")  # a large cache per token, a usual one of 2025, the least of 2026
BINS = ((1, 1.5), (1.5, 2), (2, 3), (3, 10), (10, 20), (20, 50), (50, 1001))
ARTICLE = "3 to 10"
WORDS = {
    "messages_2025": "chat messages a day, 2025", "message_growth_until_2025": "message growth before 2025",
    "message_growth": "message growth from 2025", "message_limit": "most messages a day", "chat_tokens_2025": "tokens of a chat request",
    "agent_tokens_2025": "tokens of an agent request", "agent_share_2025": "agent requests per message", "agent_growth": "growth of that share",
    "share_limit": "most agent requests per message", "bytes_per_token_2025": "KV per token, 2025", "bytes_trend": "change of KV per token",
    "bytes_floor": "least KV per token", "retention": "time kept after use", "chat_turns": "turns of a conversation", "chat_pause": "pause between turns",
    "chat_active": "time of one answer",
}  # fmt: skip


def big(n: float) -> str:
    """Return bytes in words up to zettabytes, three digits.

    Examples
    --------
    >>> big(28.1e15), big(3.75e18), big(4.6e22)
    ('28.1 PB', '3.75 EB', '46 ZB')
    """
    for size, unit in ((1e21, "ZB"), (1e18, "EB")):
        if n >= size * 0.9995:
            return f"{significant(n / size)} {unit}"
    return format_bytes(n)


def many(n: float) -> str:
    """Return a count of tokens in words: T is 10^12."""
    return f"{significant(n / 1e12)}T" if n < 999.5e12 else f"{significant(n / 1e12, 4)}T"


def part_of(ratio: float) -> str:
    """Return a ratio as `0.75 % of` or `140 times`, to stand before what it is a ratio to.

    Examples
    --------
    >>> part_of(0.00749), part_of(140), part_of(1e-9)
    ('0.749 % of', '140 times', 'less than a millionth of')
    """
    return f"{significant(ratio)} times" if ratio >= 2 else f"{significant(100 * ratio)} % of" if ratio >= 1e-6 else "less than a millionth of"


def share_rows() -> pd.DataFrame:
    """Return what was published on the share of inference: one row per statement about a year, the article's range as low and high."""
    table = read("inference_share")
    found = table[table["year"].notna()].copy()
    percent = {c: 100 * found[c] for c in ("value", "low", "high")}
    bound = found["low"].notna() & found["high"].isna()
    marks = ["claim" if k == "claim" else "bound" if b else k for k, b in zip(found["kind"], bound)]
    words = [
        p if m == "claim" else f"{p}, over {v:.0f} %" if m == "bound" else f"{p}, {v:.0f} %" for p, m, v in zip(found["publisher"], marks, percent["value"])
    ]
    rows = pd.DataFrame({
        "publisher": found["publisher"], "year": found["year"].astype(int), "percent": percent["value"], "low": percent["low"], "high": percent["high"],
        "mark": marks, "label": words, "source": found["source"],
    })  # fmt: skip
    rows.loc[rows["mark"] == "claim", "label"] = [f"{a:.0f}-{b:.0f} %" for a, b in rows.loc[rows["mark"] == "claim", ["low", "high"]].itertuples(index=False)]
    return rows.sort_values(["year", "publisher"], ignore_index=True)


def share_words() -> pd.DataFrame:
    """Return every published statement in words."""
    table = read("inference_share")
    years = ["not said" if pd.isna(y) else str(int(y)) for y in table["year"]]
    return pd.DataFrame(
        {"who": table["publisher"], "of year": years, "said": table["stated"], "of": table["population"], "kind": table["kind"], "source": table["source"]}
    )


def reasoning_bins() -> pd.DataFrame:
    """Return the share of requests by tokens generated for one returned, DeepSeek-R1 in production; each bin without its upper end, 3 to 10 with it."""
    m = reasoning_multiplier()
    total = m.weights.sum()
    rows = []
    for low, high in BINS:
        inside = (m.values > low if low == 10 else m.values >= low) & (m.values <= high if high == 10 else m.values < high)
        percent = 100 * float(m.weights[inside].sum() / total)
        rows.append((f"{low:g} to {high:g}" if high < 1000 else f"over {low:g}", percent, f"{percent:.0f} %"))
    return pd.DataFrame(rows, columns=["generated_per_returned", "percent", "label"])


def reasoning_words() -> pd.DataFrame:
    """Return the multipliers of reasoning side by side: tokens, KV at the end, byte-seconds; and what others say."""
    m, request = reasoning_multiplier(), reasoning_request()
    prompt, out, share = request
    aime = quoted("DeepSeek-R1 to R1-0528"), quoted("DeepSeek-R1 to R1-0528", 2)
    epoch = quoted("Epoch: reasoning vs non-reasoning")
    rows = [
        ("tokens generated / returned, median request", m.quantile(0.5), "measured", "servegen"),
        ("the same, a tenth of requests below", m.quantile(0.1), "measured", "servegen"),
        ("the same, a tenth of requests above", m.quantile(0.9), "measured", "servegen"),
        ("tokens generated / returned, all requests added up", 1 / (1 - share), "derived", "servegen"),
        ("KV at the end of a request, with / without reasoning", end_multiplier(*request), "derived", "servegen"),
        ("KV byte-seconds while decoding, with / without", byte_seconds_multiplier(*request), "derived", "servegen"),
        ("length of answers on three benchmarks, reasoning / other models", epoch, "measured", "epoch-output-length"),
        ("tokens per AIME question, R1-0528 / R1", aime[1] / aime[0], "claimed", "deepseek-r1-0528"),
    ]
    table = pd.DataFrame([(w, significant(v), k, s) for w, v, k, s in rows], columns=["what", "times", "kind", "source"])
    return table.assign(basis=["", "", "", "", f"{prompt:,.0f} prompt, {out:,.0f} generated tokens", "", "", f"{aime[0]:,.0f} to {aime[1]:,.0f} tokens"])


def agent_words() -> pd.DataFrame:
    """Return what the coding-agent trace holds, in words."""
    a = agent_sessions()
    rows = [
        ("prompt of a request", "mean", a["mean_input"]), ("prompt of a request", "median", a["median_input"]),
        ("prompt of a request", "a tenth above", a["p90_input"]),
        ("output of a request", "mean", a["mean_output"]), ("output of a request", "median", a["median_output"]),
        ("longest context of a session", "median", a["median_peak"]), ("longest context of a session", "a tenth above", a["p90_peak"]),
        ("prompt tokens sent in a session", "median", a["median_processed"]), ("prompt tokens sent in a session", "mean", a["mean_processed"]),
    ]  # fmt: skip
    return pd.DataFrame([(what, stat, f"{n:,.0f}") for what, stat, n in rows], columns=["what", "of", "tokens"])


def case_totals(year: int, rule: str) -> dict[str, float]:
    """Return the bytes of the whole fleet in each case."""
    return {case: float(fleet(case, year, rule)["bytes"].sum()) for case in CASES}


def tier_rows(year: int, rule: str) -> pd.DataFrame:
    """Return bytes by tier in the three cases, near to far: columns `tier case bytes`, zero where nothing is kept that long."""
    held = {case: fleet(case, year, rule).groupby("tier")["bytes"].sum().to_dict() for case in CASES}
    return pd.DataFrame([(tier(t).name, case, float(held[case].get(t, 0))) for t in tier_ids() for case in CASES], columns=["tier", "case", "bytes"])


def kind_words(year: int, rule: str) -> pd.DataFrame:
    """Return what each kind of use is in the three cases: requests, tokens, bytes per token, bytes, part of the total."""
    rows = []
    for case in CASES:
        table = fleet(case, year, rule)
        for kind, part in table.groupby("kind", sort=False):
            first, n = part.to_dict("records")[0], float(part["bytes"].sum())
            rows.append({
                "case": case, "use": kind, "billion a day": significant(first["turns_per_s"] * 86_400 / 1e9), "tokens": format_tokens(round(first["tokens"])),
                "KV per token": format_bytes(first["bytes_per_token"]), "kept at a time": big(n), "part": f"{100 * n / table['bytes'].sum():.0f}",
            })  # fmt: skip
    return pd.DataFrame(rows)


def rule_words(year: int) -> pd.DataFrame:
    """Return totals of a year and of 2030 under each growth rule."""
    words = {"flat": "none", "windows": "as the windows of all new models", "article": "30 times a year, to 10M at most"}
    rows = []
    for rule, meaning in words.items():
        for when in sorted({year, YEARS[-1]}):
            rows.append({"rule": rule, "growth of tokens in a request": meaning, "year": str(when)} | {c: big(n) for c, n in case_totals(when, rule).items()})
    return pd.DataFrame(rows)


def past_requests() -> pd.DataFrame:
    """Return the tokens of a chat request of 2023 that each growth rule's back-cast gives, beside the mean that Azure measured then: `of tokens kind`."""
    rows = [(f"back-cast, rule {rule}", fleet("base", 2023, rule)["tokens"].iloc[0], "derived") for rule in GROWTH_RULES]
    rows.append(("Azure chat, November 2023", chat_means()["Azure chat 2023"], "measured"))
    return pd.DataFrame([(name, significant(float(n)), kind) for name, n, kind in rows], columns=["of", "tokens", "kind"])


def effect_rows(year: int, rule: str) -> pd.DataFrame:
    """Return the inputs that move the base total by over one per cent, most first: bytes with the input at its ends, and the factor between them."""
    found = effects(year, rule)
    low, high = found[["low_bytes", "high_bytes"]].min(axis=1), found[["low_bytes", "high_bytes"]].max(axis=1)
    rows = pd.DataFrame({"input": [WORDS[i] for i in found["input"]], "low": low, "value": found["base_bytes"], "high": high, "factor": high / low})
    rows = rows[rows["factor"] > 1.01].reset_index(drop=True)
    return rows.assign(label=[f"{significant(f)} x" for f in rows["factor"]])


def input_words() -> pd.DataFrame:
    """Return the inputs of the fleet in words: value and ends, kind, and why, with the sources."""
    rows = []
    for name, i in inputs().items():
        unit = "" if i.unit == "s" else i.unit.replace("x/year", "times a year")
        value = f"**{_shown(i, i.value)}** ({_shown(i, i.low)} to {_shown(i, i.high)}) {unit}"
        rows.append((WORDS[name], value, i.kind, f"{i.why} ({', '.join(i.sources)})"))
    return pd.DataFrame(rows, columns=["input", "value (low to high end)", "kind", "why, and sources"])


def _shown(i: Input, value: float) -> str:
    if i.unit == "s":
        return format_seconds(value)
    return f"{value / 1e9:,.3g} billion" if value >= 1e9 else f"{value:,.0f}" if value >= 1000 else f"{value:g}"


def fleet_sources() -> list[str]:
    """Return the sources of all inputs of the fleet, and of its agents' times."""
    return sorted({s for i in inputs().values() for s in i.sources} | {"kv-cache-tester"})


def google_rows(rule: str) -> pd.DataFrame:
    """Return the tokens a month that one company counts beside the model's prompt tokens of the same year: `counted low base high`, and `where` it falls."""
    rows = []
    for name, f in facts().items():
        if name.startswith("google_tokens"):
            low, base, high = (monthly_tokens(fleet(c, int(f.date[:4]), rule)) for c in CASES)
            where = "inside" if low <= f.value <= high else "below" if f.value < low else "above"
            rows.append((f.date, f.value, low, base, high, where, f.source))
    return pd.DataFrame(rows, columns=["date", "counted", "low", "base", "high", "where", "source"]).sort_values("date", ignore_index=True)


def google_words(rule: str) -> pd.DataFrame:
    """Return `google_rows` in words."""
    rows = google_rows(rule)
    words = {name: rows[name].map(many) for name in ("counted", "low", "base", "high")}
    names = {"counted": "one company counts", "low": "model, low", "base": "model, base", "high": "model, high"}
    more = {"the count is": rows["where"] + " the range", "source": rows["source"]}
    return pd.DataFrame({"month": rows["date"]} | {names[n]: w for n, w in words.items()} | more)


def deployment_words(totals: Iterable[float] = (1e13, 1e14)) -> pd.DataFrame:
    """Return how many sessions of which kind fill 10 TB and 100 TB."""
    agent, chat = round(agent_sessions()["mean_input"]), round(inputs()["chat_tokens_2025"].value)
    uses = [("the article's user", "llama-3.1-405b", 10**6)]
    uses += [("coding agent", m, agent) for m in ("llama-3.1-405b", *MODELS)] + [("chat", m, chat) for m in MODELS]
    rows = []
    for use, model, tokens in uses:
        counts = {f"sessions in {format_bytes(n)}": f"{sessions_for(n, card(model), tokens):,.0f}" for n in totals}
        rows.append({"session": use, "model": model, "tokens": format_tokens(tokens), "KV of one": format_bytes(int(kv_bytes(card(model), tokens)))} | counts)
    return pd.DataFrame(rows)


def thing_words() -> pd.DataFrame:
    """Return what requests may carry, in tokens and in KV of three models."""
    table = things()
    sizes = {f"KV, {m}": [format_bytes(int(kv_bytes(card(m), round(t)))) for t in table["tokens"]] for m in MODELS}
    return pd.DataFrame(
        {
            "thing": table["thing"],
            "tokens": [f"{t:,.0f}" for t in table["tokens"]],
            **sizes,
            "basis": [f"{kind}: {basis} ({source})" for kind, basis, source in zip(table["kind"], table["basis"], table["source"])],
        }
    )


def corpus_rows() -> pd.DataFrame:
    """Return what a library for retrieval takes by what is kept of it."""
    return corpus([card(m) for m in MODELS])


def corpus_words() -> pd.DataFrame:
    """Return `corpus_rows` in words, with the share of one flash store."""
    table = corpus_rows()
    sizes = {"bytes per token": table["bytes_per_token"].map(significant), "in all": table["bytes"].map(big)}
    return pd.DataFrame({"kept": table["kept"]} | sizes | {"part of the store": [f"{100 * s:.2g}" for s in table["share_of_lake"]]})


def tenant_words(sessions: int = 1000) -> pd.DataFrame:
    """Return what sessions of tenants keep, by how many tenants they belong to and how long a tenant's prefix is."""
    tokens = round(inputs()["chat_tokens_2025"].value)
    rows = []
    for shared in (common_prefix(), tokens // 2, round(0.9 * tokens)):
        for count in (1, 10, sessions):
            kept = tenants(card(MODELS[0]), count, sessions / count, tokens, shared)
            apart = sessions * int(kv_bytes(card(MODELS[0]), tokens))
            rows.append((f"{shared:,}", f"{count:,}", f"{sessions // count:,}", format_bytes(kept), f"{100 * (1 - kept / apart):.0f}"))
    return pd.DataFrame(rows, columns=["prefix", "tenants", "sessions of each", "kept", "saved"])


def doubts() -> str:
    """Return the table of how sure the inputs are, with their ranges."""
    i, at = inputs(), effect_rows(2026, "flat").set_index("input")["factor"]

    def span(name: str, scale: float = 1) -> str:
        return f"{significant(scale * i[name].low)} to {significant(scale * i[name].high)}"

    def moves(name: str) -> str:
        return f"{significant(float(at[WORDS[name]]), 2)} times in the base case of 2026"

    rows = [
        ("messages a day", "paper, one service, consumer plans", f"{span('messages_2025', 1e-9)} billion", moves("messages_2025")),
        ("growth of messages from 2025", "assumption", f"{span('message_growth')} a year", f"{moves('message_growth')}, more each year"),
        ("agent requests per message", "assumption", f"{span('agent_share_2025', 100)} %", f"{moves('agent_share_2025')}, more each year"),
        ("tokens of a chat request", "measured in some services, one router", span("chat_tokens_2025"), moves("chat_tokens_2025")),
        ("agent's times", "measured, one tool, the 29 longest files missing", "longer in truth", "agents' part"),
        ("KV per token", "derived from cards; what is served is not published", f"{span('bytes_per_token_2025')} bytes", moves("bytes_per_token_2025")),
        ("time kept after use", "sold by vendors", f"{format_seconds(i['retention'].low)} to {format_seconds(i['retention'].high)}", moves("retention")),
        (
            "tokens and waiting times independent",
            "assumption",
            f"agents: {longer_wait_longer(i['retention'].value):.2f} times as long, by tokens",
            "agents' part",
        ),
        ("ages of the tiers", "assumption", "see the pyramid", "moves bytes between tiers, not the total"),
        ("search, office, batch jobs, own servers, copies", "left out", "unknown", "the total is too low"),
    ]
    head = "| input | kind | range | effect on the answer |\n|---|---|---|---|\n"
    return head + "\n".join(f"| {' | '.join(row)} |" for row in rows)
