"""Frames, charts and entries of the claims chapter."""

import math
from collections.abc import Sequence

import altair as alt
import pandas as pd

from kvmodel.claims import DEFAULTS, VERDICTS, Claim, Judgement, claims, judge, shown, told, with_unit
from kvmodel.report.theme import CATEGORY_COLOURS

MEANING = {
    "reproduced": "our number lies in what is claimed",
    "reproduced-if": "it does under a condition, which the entry names",
    "unit-error": "it does for another unit or denominator",
    "contradicted": "it does not, under any inputs searched",
    "unsupported": "no public source was found",
    "not-testable": "no number could settle it",
}
GREEN, PINK, BLUE, ROSE, OLIVE = CATEGORY_COLOURS
COLOURS = {"reproduced": GREEN, "reproduced-if": OLIVE, "contradicted": PINK, "unit-error": ROSE, "unsupported": BLUE, "not-testable": "#595959"}


def verdict_frame(judged: Sequence[Judgement]) -> pd.DataFrame:
    """Return one row per verdict: how many claims have it, and what it means."""
    counts = {v: sum(j.verdict == v for j in judged) for v in VERDICTS}
    return pd.DataFrame([{"verdict": v, "claims": n, "meaning": MEANING[v], "label": f"{n}: {MEANING[v]}"} for v, n in counts.items() if n])


def verdict_chart(data: pd.DataFrame) -> alt.LayerChart:
    """Return bars of the number of claims by verdict, each with its count and meaning."""
    order = list(data["verdict"])
    y = alt.Y("verdict:N", sort=order, title=None, axis=alt.Axis(domain=False, ticks=False))
    base = alt.Chart(data).encode(
        y=y, x=alt.X("claims:Q", title="Claims", scale=alt.Scale(domain=[0, 1.15 * float(data["claims"].max())]), axis=alt.Axis(tickCount=5))
    )
    colour = alt.Color("verdict:N", scale=alt.Scale(domain=list(COLOURS), range=list(COLOURS.values())), legend=None)
    bars = base.mark_bar(height={"band": 0.6}).encode(color=colour)
    return alt.layer(bars, base.mark_text(align="left", dx=5).encode(text="claims:Q")).properties(width=330, height=alt.Step(32))


def distance(j: Judgement) -> float | None:
    """Return our number over the nearest end of what is claimed, 1 where it lies inside; None where there is no number or no bound."""
    if j.outcome is None or j.outcome.value <= 0:
        return None
    value, low, high = j.outcome.value, j.claim.low, j.claim.high
    if low is None and high is None:
        return None
    if low is not None and value < low:
        return value / low
    return value / high if high is not None and value > high else 1.0


def distance_frame(judged: Sequence[Judgement]) -> pd.DataFrame:
    """Return the claims with a number whose value lies outside what is claimed, and how far, farthest below first."""
    rows = []
    for j in judged:
        far = distance(j)
        if far is not None and far != 1 and j.outcome is not None:
            label = f"{shown(j.outcome.value, j.claim.unit)} for {j.claim.claimed}"
            rows.append({"claim": j.claim.id, "ratio": far, "ours": j.outcome.value, "unit": j.claim.unit, "verdict": j.verdict, "label": label})
    return pd.DataFrame(rows, columns=["claim", "ratio", "ours", "unit", "verdict", "label"]).sort_values("ratio", kind="stable").reset_index(drop=True)


def distance_chart(data: pd.DataFrame) -> alt.LayerChart:
    """Return points on a log axis: 1 is the nearest end of what is claimed."""
    ends = [min(0.3, data["ratio"].min() / 1.5), max(10.0, data["ratio"].max() * 30)]
    order = list(data["claim"])
    x = alt.X(
        "ratio:Q",
        title="Ours over the nearest end claimed (log scale)",
        scale=alt.Scale(type="log", domain=ends, nice=False),
        axis=alt.Axis(values=[0.1, 0.3, 1, 3, 10, 100]),
    )
    base = alt.Chart(data).encode(y=alt.Y("claim:N", sort=order, title=None, axis=alt.Axis(labelLimit=230)), x=x)
    colour = alt.Color("verdict:N", scale=alt.Scale(domain=list(COLOURS), range=list(COLOURS.values())), legend=None)
    points = base.mark_point(filled=True, size=90, opacity=1).encode(color=colour)
    rule = alt.Chart(pd.DataFrame({"ratio": [1.0]})).mark_rule(strokeDash=[4, 3], color="#595959").encode(x="ratio:Q")
    return alt.layer(rule, points, base.mark_text(align="left", dx=8, fontSize=12).encode(text="verdict:N")).properties(width=300, height=alt.Step(28))


def entry(j: Judgement) -> str:
    """Return one claim as MyST: what is claimed, ours, the verdict, what would change it, and where it is worked out."""
    c, o = j.claim, j.outcome
    lines = [f"(claim-{c.id})=", f"**`{c.id}` — {j.verdict}.** {c.text}.", ""]
    ours = f"*Ours:* {number(c, o.value)}{_range(j)}, with {told(j.inputs) or 'nothing to choose'}." if o is not None else ""
    lines.append(f"- *Claimed:* {c.claimed}. {ours}".rstrip())
    if j.condition:
        lines.append(f"- *Holds if:* {told(j.condition)}.")
    if o is not None and o.readings:
        lines.append(f"- *Other readings:* {'; '.join(f'{r.label}: {with_unit(r.value, r.unit)}' for r in o.readings)}.")
    lines += [f"- {j.note[0].upper()}{j.note[1:]}."] if j.note else []
    figure = f", {{numref}}`fig-{c.figure}`" if c.figure else ""
    lines.append(f"- *Would change it:* {c.change}. *Confidence:* {c.confidence}. *Worked out in* [{c.chapter}]({c.chapter}.ipynb){figure}.")
    return "\n".join(lines)


def entries(judged: Sequence[Judgement]) -> str:
    """Return the entries of several claims, one paragraph each."""
    return "\n\n".join(entry(j) for j in judged)


def number(c: Claim, value: float) -> str:
    """Return a value with its unit as prose has it."""
    return with_unit(value, c.unit)


def _range(j: Judgement) -> str:
    low, high = j.outcome.span if j.outcome else (0.0, 0.0)
    return "" if math.isclose(low, high) else f" ({shown(low, j.claim.unit)} to {shown(high, j.claim.unit)})"


def of_chapter(slug: str, chosen: object) -> pd.DataFrame:
    """Return the claims of the article that a chapter tests, as the ledger judges them with the chapter's parameters.

    `chosen` is what `chapter()` returned; a parameter that the chapter does not have keeps the ledger's default.
    """
    given = {name: getattr(chosen, name) for name in DEFAULTS if getattr(chosen, name, None) is not None}
    rows = []
    for j in (judge(c, given) for c in claims().values() if c.chapter == slug):
        ours = "–" if j.outcome is None else number(j.claim, j.outcome.value)
        named = {"claim": f"[{j.claim.id}](claims.ipynb)", "the article": j.claim.claimed}
        rows.append(named | {"ours": ours, "verdict": j.verdict, "holds if": told(j.condition)})
    return pd.DataFrame(rows)


def short_table(judged: Sequence[Judgement]) -> pd.DataFrame:
    """Return the ledger in short: one row per claim, its id linked to its entry."""
    rows = []
    for j in judged:
        ours = "–" if j.outcome is None else f"{number(j.claim, j.outcome.value)}"
        rows.append(
            {"claim": f"[{j.claim.id}](#claim-{j.claim.id})", "claimed": j.claim.claimed, "ours": ours, "verdict": j.verdict, "confidence": j.claim.confidence}
        )
    return pd.DataFrame(rows)


def counted(n: int, what: str) -> str:
    """Return a number of things in words.

    Examples
    --------
    >>> counted(1, "claim"), counted(2, "claim")
    ('1 claim is', '2 claims are')
    """
    return f"{n} {what} is" if n == 1 else f"{n} {what}s are"
