"""Charts of the pyramid chapter: where loading crosses recomputing, predicted against measured, and what a fleet asks of each tier."""

from typing import Any

import altair as alt
import pandas as pd

from kvmodel.report.charts import log_axis, rate_axis
from kvmodel.report.charts_sizing import MAIN, OTHER, SECOND, WIDTH, lines, plot_width
from kvmodel.report.theme import INK, TIER_COLOURS
from kvmodel.tiers import tier, tier_ids

NAMES = [tier(t).name for t in tier_ids()]
SHAPES = {"capacity": "square", "read": "circle", "write": "triangle-down", "endurance": "diamond"}


def _tokens(data: pd.DataFrame) -> alt.X:
    low, high = float(data["tokens"].min()), float(data["tokens"].max())
    axis = alt.Axis(format="~s", values=[10.0**k for k in range(10) if low <= 10.0**k <= high])
    return alt.X("tokens:Q", title="Context (tokens, log scale)", scale=alt.Scale(type="log", nice=False, domain=[low, high]), axis=axis)


def crossing(data: pd.DataFrame, again: str) -> alt.LayerChart:
    """Return seconds against context on log axes: one line per tier in its colour, and recomputing in black with the range of its efficiency."""
    x = _tokens(data)
    ends = pd.concat([data["seconds"], data["low"], data["high"]]).dropna()
    low, high = float(ends.min()), float(ends.max())
    y = alt.Y("seconds:Q", title="Time (log scale)", scale=alt.Scale(type="log", nice=False, domain=[low, high]), axis=log_axis("seconds", low, high))
    order = [again, *NAMES]
    colour = alt.Color("way:N", scale=alt.Scale(domain=order, range=[INK, *TIER_COLOURS]), legend=None)
    computed, loads = data[data["way"] == again], data[data["way"] != again]
    drawn = [alt.Chart(loads).mark_line(strokeWidth=2.5).encode(x=x, y=y, color=colour)]
    if len(computed):
        span = y.copy(deep=True)
        span["shorthand"] = "low:Q"
        drawn.insert(0, alt.Chart(computed).mark_area(opacity=0.15, color=INK).encode(x=x, y=span, y2="high:Q"))
        drawn.append(alt.Chart(computed).mark_line(strokeWidth=3, color=INK).encode(x=x, y=y))
    return alt.layer(*drawn, *_names_at_ends(data, x, y, low, high)).properties(width=plot_width(NAMES, least=250), height=300)


def _names_at_ends(data: pd.DataFrame, x: alt.X, y: alt.Y, low: float, high: float) -> list[alt.Chart]:
    """Names at the right ends of lines, at least a line of text apart."""
    from math import log

    colours = dict(zip(NAMES, TIER_COLOURS))
    ends = data.loc[data.groupby("way", sort=False)["tokens"].idxmax()].sort_values("seconds", ascending=False)
    out, last = [], float("-inf")
    for row in ends.to_dict("records"):
        at = 300 * (log(high) - log(row["seconds"])) / (log(high) - log(low) or 1.0)
        last = max(at, last + 17)
        text = alt.Chart(pd.DataFrame([row])).mark_text(align="left", dx=6, dy=round(last - at), color=colours.get(row["way"], INK))
        out.append(text.encode(x=x, y=y, text="way:N"))
    return out


def breakeven(data: pd.DataFrame, rates: pd.DataFrame) -> alt.LayerChart:
    """Return the break-even rate against context, a line per model; dashed: what each tier gives, with its rank at the left."""
    x, both = _tokens(data), pd.concat([data["rate"], rates["rate"]])
    low, high = float(both.min()) / 1.3, float(both.max()) * 1.5
    axis = rate_axis()
    axis["values"] = [10.0**k for k in range(5, 13) if low <= 10.0**k <= high]
    y = alt.Y("rate:Q", title="Bytes per second, one accelerator (log scale)", scale=alt.Scale(type="log", nice=False, domain=[low, high]), axis=axis)
    drawn = lines(data, x=x, y=y, series="model", log=True)
    colour = alt.Color("tier:N", scale=alt.Scale(domain=NAMES, range=list(TIER_COLOURS)), legend=None)
    marks = alt.Chart(rates.assign(tokens=float(data["tokens"].max()))).encode(y=y)
    rules = marks.mark_rule(strokeDash=[4, 3], strokeWidth=1.5).encode(color=colour)
    names = _haloed(marks.encode(x=x, text="tier:N"), colour, align="right", dx=-3, dy=-8, fontSize=12)
    width = plot_width(data["model"], least=220)
    return alt.layer(rules, *drawn.layer, names).resolve_scale(color="independent", strokeDash="independent").properties(width=width, height=320)


def _haloed(text: alt.Chart, colour: alt.Color | None = None, **place: Any) -> alt.LayerChart:
    """Text that can be read over lines."""
    letters = text.mark_text(**place)
    return alt.layer(text.mark_text(**place, stroke="white", strokeWidth=4, strokeOpacity=0.9), letters if colour is None else letters.encode(color=colour))


def _limit(field: str, value: float, x: alt.X, name: str) -> alt.LayerChart:
    """A dashed rule across, named above the plot."""
    at = alt.Chart(pd.DataFrame({field: [value], "name": [name]})).encode(x=x)
    rule = at.mark_rule(color=SECOND, strokeDash=[4, 3], strokeWidth=2)
    return alt.layer(rule, at.mark_text(color=SECOND, fontSize=12, baseline="bottom").encode(y=alt.value(-3), text="name:N"))


def efficiency(data: pd.DataFrame) -> alt.LayerChart:
    """Return the efficiency that each prompt length needs, a line per way of counting FLOPs."""
    x = alt.X("tokens:Q", title="Prompt (tokens)", axis=alt.Axis(format="~s", values=[20_000, 40_000, 60_000, 80_000, 100_000]), scale=alt.Scale(zero=False))
    y = alt.Y("efficiency:Q", title="Share of peak that the time implies", scale=alt.Scale(domain=[0, 1.05], nice=False), axis=alt.Axis(tickCount=6))
    return lines(data, x=x, y=y, series="way")


def agreement(data: pd.DataFrame, names: pd.DataFrame) -> alt.LayerChart:
    """Return predicted against measured seconds on log axes, the line where both agree, ranges, and names of the misses (`names`: row, text, align, dy).

    Filled points were measured, rings are vendors' claims; grey ones were fitted.
    """
    ends = pd.concat([data["measured"], data["predicted"], data["low"], data["high"]])
    low, high = float(ends.min()) / 2, float(ends.max()) * 30  # room for names
    scale, axis = alt.Scale(type="log", nice=False, domain=[low, high]), log_axis("seconds", low, high)
    x, y = (
        alt.X("measured:Q", title="Measured (log scale)", scale=scale, axis=axis),
        alt.Y("predicted:Q", title="Predicted (log scale)", scale=scale, axis=axis),
    )
    colour = alt.Color("use:N", scale=alt.Scale(domain=["fitted", "predicted"], range=[OTHER, MAIN]), legend=alt.Legend(title=None))
    equal = alt.Chart(pd.DataFrame({"measured": [low, high], "predicted": [low, high]})).mark_line(color=OTHER, strokeDash=[4, 3], strokeWidth=1.5)
    base = alt.Chart(data).encode(x=x, y=y, color=colour)
    ranges = alt.Chart(data).mark_rule(opacity=0.5, strokeWidth=2).encode(x=x, y=alt.Y("low:Q", scale=scale, axis=axis, title=""), y2="high:Q", color=colour)
    filled = base.transform_filter("datum.kind == 'measured'").mark_point(filled=True, size=60, opacity=0.9)
    rings = base.transform_filter("datum.kind != 'measured'").mark_point(filled=False, size=80, strokeWidth=2, opacity=1)
    texts = [
        alt.Chart(names.loc[[i]])
        .mark_text(align=row["align"], dx=9 if row["align"] == "left" else -9, dy=row["dy"], fontSize=12)
        .encode(x=x, y=y, text="text:N")
        for i, row in names.iterrows()
    ]
    return alt.layer(equal.encode(x=x, y=y), ranges, filled, rings, *texts).properties(width=370, height=370)


def needs(data: pd.DataFrame, nodes: int | None) -> alt.LayerChart:
    """Return how many nodes' share of each tier a fleet needs, a shape for each resource, on a log axis; dashed: the nodes of the least pyramid."""
    order = [n for n in NAMES if n in set(data["tier"])]
    ends = [float(data["nodes"].min()), float(data["nodes"].max()), *([float(nodes)] if nodes else [])]
    scale = alt.Scale(type="log", domain=[min(ends) / 2, max(ends) * 2], nice=False)
    powers = [10.0**k for k in range(-12, 13) if min(ends) / 2 <= 10.0**k <= max(ends) * 2]
    axis = alt.Axis(values=powers[:: -(-len(powers) // 6) or 1], format="~r")
    x = alt.X("nodes:Q", title="Nodes whose share is needed (log scale)", scale=scale, axis=axis)
    y = alt.Y("tier:N", sort=order, title=None, axis=alt.Axis(labelLimit=200, domain=False, ticks=False, grid=True))
    kinds = [k for k in SHAPES if k in set(data["resource"])]
    shape = alt.Shape("resource:N", scale=alt.Scale(domain=kinds, range=[SHAPES[k] for k in kinds]), legend=alt.Legend(title=None))
    colour = alt.Color("tier:N", scale=alt.Scale(domain=NAMES, range=list(TIER_COLOURS)), legend=None)
    lane = alt.YOffset("resource:N", sort=kinds, scale=alt.Scale(domain=kinds))
    dots = alt.Chart(data).mark_point(filled=True, size=110, opacity=0.9).encode(x=x, y=y, yOffset=lane, shape=shape, color=colour)
    layers: list[alt.Chart | alt.LayerChart] = [dots, *([_limit("nodes", nodes, x, "least pyramid")] if nodes else [])]
    return alt.layer(*layers).properties(width=plot_width(order), height=alt.Step(15, **{"for": "offset"}))


def admission(data: pd.DataFrame, budget: float) -> alt.LayerChart:
    """Return bytes per second written to flash by rule of admission, each with its label, against the budget of the rating (dashed)."""
    order = list(data["rule"])
    top = max(float(data["written"].max()), budget) * 1.75 or 1.0
    axis = rate_axis(4)
    x = alt.X("written:Q", title="Written to flash", scale=alt.Scale(domain=[0, top], nice=False), axis=axis)
    y = alt.Y("rule:N", sort=order, title=None, axis=alt.Axis(labelLimit=200, domain=False, ticks=False))
    base = alt.Chart(data).encode(x=x, y=y)
    drawn: list[alt.Chart | alt.LayerChart] = [base.mark_bar(height={"band": 0.6}, color=TIER_COLOURS[3])]
    drawn += [_limit("written", budget, x, "budget")] if budget else []
    drawn.append(_haloed(base.encode(text="label:N"), align="left", dx=5))
    return alt.layer(*drawn).properties(width=min(WIDTH, plot_width(order)), height=alt.Step(28))
