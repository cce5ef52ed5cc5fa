"""Charts of the reuse chapter: hit curves with the capacities of a node's tiers, and how long blocks wait in each tier."""

from math import ceil, floor, log10

import altair as alt
import pandas as pd

from kvmodel.report.charts import log_axis
from kvmodel.report.charts_sizing import WIDTH, lines
from kvmodel.report.theme import QUIET, TIER_COLOURS

HITS = "Prompt blocks found (%)"


def _hits(top: float = 100) -> alt.Y:
    return alt.Y("hit_percent:Q", title=HITS, scale=alt.Scale(domain=[0, top], nice=False), axis=alt.Axis(values=[0, 20, 40, 60, 80, 100]))


def by_blocks(data: pd.DataFrame) -> alt.LayerChart:
    """Return hits by LRU capacity in blocks, a line per trace."""
    axis = _counts(data["capacity_blocks"])
    x = alt.X("capacity_blocks:Q", title="LRU capacity (blocks, log scale)", scale=alt.Scale(type="log", nice=False), axis=axis)
    return lines(data, x=x, y=_hits(), series="trace")


def by_memory(data: pd.DataFrame, tiers: pd.DataFrame | None) -> alt.LayerChart:
    """Return hits by LRU capacity in bytes, with a dashed rule and the rank at the capacity of each tier of a node; in tokens where there are no tiers."""
    field, unit = ("capacity_bytes", "bytes") if tiers is not None else ("capacity_tokens", "tokens")
    ends = pd.concat([data[field], tiers.loc[tiers["capacity_bytes"] > 0, "capacity_bytes"]]) if tiers is not None else data[field]
    scale = alt.Scale(type="log", nice=False, domain=[float(ends.min()), float(ends.max()) * 1.2])
    axis = log_axis("bytes", float(ends.min()), float(ends.max())) if tiers is not None else _counts(ends)
    x = alt.X(f"{field}:Q", title=f"LRU capacity ({unit}, log scale)", scale=scale, axis=axis)
    drawn = lines(data, x=x, y=_hits(112), series="trace")
    if tiers is None:
        return drawn
    tiers = tiers[tiers["capacity_bytes"] > 0]
    places = tiers[["rank", "tier", "capacity_bytes"]].assign(top=[104 + 6 * (r % 2) for r in tiers["rank"]])
    colour = alt.Color("rank:O", scale=alt.Scale(domain=list(range(1, 6)), range=list(TIER_COLOURS)), legend=None)
    base = alt.Chart(places).encode(x=alt.X("capacity_bytes:Q", scale=scale))
    rules = base.mark_rule(strokeDash=[3, 3], strokeWidth=1.5).encode(color=colour)
    ranks = base.mark_text(fontWeight="bold", dx=7).encode(y=alt.Y("top:Q"), text="rank:O", color=colour)
    return alt.layer(rules, *drawn.layer, ranks).resolve_scale(color="independent", strokeDash="independent").properties(width=WIDTH, height=270)


def by_lifetime(data: pd.DataFrame) -> alt.LayerChart:
    """Return hits by lifetime after last use, a line per trace."""
    axis = _times([1, 10, 60, 600, 3600, 36_000, 86_400])
    x = alt.X("lifetime_s:Q", title="Kept after last use (log scale)", scale=alt.Scale(type="log", nice=False), axis=axis)
    return lines(data, x=x, y=_hits(), series="trace")


def waits(data: pd.DataFrame) -> alt.LayerChart:
    """Return, per tier, how long blocks waited before reuse (line: 80 % of them, dot: half) over the article's time scale (outlined)."""
    order = list(data["tier"])
    y = alt.Y("tier:N", sort=order, title=None, axis=alt.Axis(labelLimit=200, domain=False, ticks=False, grid=False))
    low, high = 1e-3, float(data["article_high_s"].max())
    scale = alt.Scale(type="log", domain=[low, high], nice=False, clamp=True)
    axis = _times([1e-3, 1, 60, 3600, 86_400, 2_592_000])
    title = "Wait before the next use (log scale)"
    colour = alt.Color("tier:N", scale=alt.Scale(domain=order, range=list(TIER_COLOURS)), legend=None)
    base = alt.Chart(data).encode(y=y)
    starts, ends = (alt.X(f"{name}:Q", scale=scale, title=title, axis=axis) for name in ("article_low_s", "p10_s"))
    article = base.mark_bar(height=18, filled=False, stroke=QUIET, strokeDash=[3, 2]).encode(x=starts, x2="article_high_s:Q")
    used, unused = (base.transform_filter(f"datum.p50_s {sign} null") for sign in ("!=", "=="))
    span = used.mark_rule(strokeWidth=5, opacity=0.6).encode(x=ends, x2="p90_s:Q", color=colour)
    middle = used.mark_point(filled=True, size=130, opacity=1).encode(x=alt.X("p50_s:Q", scale=scale, title=title, axis=axis), color=colour)
    note = unused.mark_text(align="left", dx=4, fontStyle="italic").encode(x=alt.XDatum(low, scale=scale), text=alt.value("no reuse from here"))
    return alt.layer(article, span, middle, note).properties(width=WIDTH, height=alt.Step(34))


def _counts(values: "pd.Series[float]") -> alt.Axis:
    first, last = ceil(log10(float(values.min()))), floor(log10(float(values.max())))
    return alt.Axis(format="~s", values=[10.0**k for k in range(first, last + 1, 2 if last - first > 5 else 1)])


def _times(values: list[float]) -> alt.Axis:
    axis = log_axis("seconds", values[0], values[-1])
    axis["values"] = values
    return axis
