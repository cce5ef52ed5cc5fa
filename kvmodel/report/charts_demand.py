"""Charts of the chapter on demand: published shares, factors against a claimed range, and the fleet's bytes by year, tier and input."""

from math import ceil, floor, log10

import altair as alt
import pandas as pd

from kvmodel.report.charts_sizing import BYTE_UNITS, MAIN, OTHER, SECOND, plot_width
from kvmodel.report.theme import TIER_COLOURS

UNITS = ((1e21, "ZB"), (1e18, "EB"), *BYTE_UNITS)


def _byte_axis(low: float, high: float) -> alt.Axis:
    words = " : ".join(f"datum.value >= {size:g} ? format(datum.value / {size:g}, '~r') + ' {unit}'" for size, unit in UNITS)
    powers = [10.0**k for k in range(ceil(log10(low)), floor(log10(high)) + 1)]
    return alt.Axis(values=powers[:: -(-len(powers) // 5) or 1], labelExpr=f"{words} : datum.value + ' B'", labelOverlap=True)


def shares(data: pd.DataFrame) -> alt.LayerChart:
    """Return published shares by year: rings for estimates and forecasts, open triangles for lower bounds, a bar from low to high for a claimed range."""
    years = alt.Scale(domain=[2022.5, 2030.6], nice=False)
    x = alt.X("year:Q", title="Year that is spoken of", scale=years, axis=alt.Axis(format="d", values=[2023, 2025, 2027, 2029]))
    percent = alt.Scale(domain=[0, 100], nice=False)
    y = alt.Y("percent:Q", title="Inference, share of AI compute (%)", scale=percent)
    base = alt.Chart(data).encode(x=x, y=y)
    band = (
        base.transform_filter("datum.mark == 'claim'")
        .mark_rule(strokeWidth=14, opacity=0.25, color=SECOND)
        .encode(y=alt.Y("low:Q", scale=percent), y2="high:Q")
    )
    rings = base.transform_filter("datum.mark == 'estimate' || datum.mark == 'forecast'").mark_point(
        filled=False, size=100, strokeWidth=2, opacity=1, color=MAIN
    )
    bounds = base.transform_filter("datum.mark == 'bound'").mark_point(filled=False, shape="triangle-up", size=100, strokeWidth=2, opacity=1, color=MAIN)
    said = data[data["mark"] != "claim"]
    low, late = said["mark"] == "bound", said["year"] > 2028
    words = [
        alt.Chart(said[which]).mark_text(align=align, dx=dx, dy=dy).encode(x=x, y=y, text="label:N")
        for which, align, dx, dy in (
            (~low & (said["year"] < 2025), "left", 9, 4), (~low & (said["year"] >= 2025), "right", -9, -3),
            (low & ~late, "left", 9, -6), (low & late, "right", -9, 14),
        )
    ]  # fmt: skip
    named = alt.Chart(data[data["mark"] == "claim"]).mark_text(align="right", dx=-9, dy=-9, color=SECOND, fontWeight="bold")
    claim = named.encode(x=x, y=alt.Y("high:Q", scale=percent), text="label:N")
    return alt.layer(band, rings, bounds, *words, claim).properties(width=390, height=270)


def factors(data: pd.DataFrame, *, name: str, band: tuple[float, float], title: str) -> alt.LayerChart:
    """Return a dot per row on a log axis of factors (filled: measured, ring: claimed) with its label, over a pale band of a claimed range."""
    order = list(data[name])
    low, high = min(0.5, float(data["value"].min()) / 1.5), max(float(data["value"].max()), band[1]) * 8
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    ticks = alt.Axis(values=[t for t in (0.1, 1, 10, 100, 1000, 10_000) if low <= t <= high], format="~r")
    x = alt.X("value:Q", title=title, scale=scale, axis=ticks)
    y = alt.Y(f"{name}:N", sort=order, title=None, axis=alt.Axis(labelLimit=230, domain=False, ticks=False, grid=True))
    box = alt.Chart(pd.DataFrame([{"low": band[0], "high": band[1]}])).mark_rect(color=SECOND, opacity=0.15)
    base = alt.Chart(data).encode(x=x, y=y)
    dots = base.transform_filter("datum.kind == 'measured'").mark_point(filled=True, size=90, opacity=1, color=MAIN)
    rings = base.transform_filter("datum.kind != 'measured'").mark_point(filled=False, size=90, strokeWidth=2, opacity=1, color=MAIN)
    across = box.encode(x=alt.X("low:Q", scale=scale, title=title, axis=ticks), x2="high:Q")
    return alt.layer(across, dots, rings, base.mark_text(align="left", dx=9).encode(text="label:N")).properties(width=plot_width(order), height=alt.Step(28))


def years(data: pd.DataFrame, *, year: int, case: str, supply: float) -> alt.LayerChart:
    """Return bytes by year: pale band from the low to the high case, line of the base case, dot at the chosen year and case, dashed line at a supply."""
    low, high = min(float(data["low"].min()), supply) / 2, max(float(data["high"].max()), supply) * 3
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    x = alt.X("year:Q", title="Year (before 2025: a back-cast)", axis=alt.Axis(format="d", values=[2023, 2025, 2027, 2029]), scale=alt.Scale(nice=False))
    axis, title = _byte_axis(low, high), "KV kept at one time (log scale)"
    base = alt.Chart(data).encode(x=x)
    band = base.mark_area(opacity=0.18, color=MAIN).encode(y=alt.Y("low:Q", scale=scale, title=title, axis=axis), y2="high:Q")
    middle = base.mark_line(color=MAIN, strokeWidth=2.5).encode(y=alt.Y("base:Q", scale=scale, title=title, axis=axis))
    ends = data[data["year"] == data["year"].max()].melt("year", ["low", "base", "high"], "name", "bytes")
    names = alt.Chart(ends).mark_text(align="left", dx=5, color=MAIN).encode(x=x, y=alt.Y("bytes:Q", scale=scale), text="name:N")
    chosen = data.loc[data["year"] == year, ["year", case]].rename(columns={case: "bytes"})
    dot = alt.Chart(chosen).mark_point(filled=True, size=120, opacity=1, color=SECOND).encode(x=x, y=alt.Y("bytes:Q", scale=scale))
    line = pd.DataFrame([{"year": int(data["year"].min()), "bytes": supply, "name": "HBM shipped in 2026, forecast"}])
    rule = alt.Chart(line).mark_rule(strokeDash=[5, 4], color=OTHER, strokeWidth=1.5).encode(y=alt.Y("bytes:Q", scale=scale))
    word = alt.Chart(line).mark_text(align="left", dy=-8, dx=4, color="#595959").encode(x=x, y=alt.Y("bytes:Q", scale=scale), text="name:N")
    return alt.layer(band, middle, rule, word, names, dot).properties(width=330, height=290)


def tiers(data: pd.DataFrame) -> alt.LayerChart:
    """Return a row per tier, near to far: a line from the least to the most of the cases that keep anything there, a mark at each, named in the first row."""
    order = list(dict.fromkeys(data["tier"]))
    held = data[data["bytes"] > 0]
    low, high = float(held["bytes"].min()) / 3, float(held["bytes"].max()) * 3
    scale, axis = alt.Scale(type="log", domain=[low, high], nice=False), _byte_axis(low, high)
    title = "KV waiting in the tier (log scale)"
    y = alt.Y("tier:N", sort=order, title=None, scale=alt.Scale(domain=order), axis=alt.Axis(labelLimit=200, domain=False, ticks=False, grid=True))
    colour = alt.Color("tier:N", scale=alt.Scale(domain=order, range=list(TIER_COLOURS)), legend=None)
    ends = held.groupby("tier", sort=False)["bytes"].agg(["min", "max"]).reset_index()
    span = alt.Chart(ends).mark_rule(strokeWidth=4, opacity=0.45).encode(y=y, x=alt.X("min:Q", scale=scale, title=title, axis=axis), x2="max:Q", color=colour)
    shape = alt.Shape("case:N", scale=alt.Scale(domain=["low", "base", "high"], range=["triangle-left", "diamond", "triangle-right"]), legend=None)
    spot = alt.Chart(held).encode(y=y, x=alt.X("bytes:Q", scale=scale, title=title, axis=axis))
    points = spot.mark_point(filled=True, size=95, opacity=1).encode(color=colour, shape=shape)
    names = spot.transform_filter(alt.FieldEqualPredicate(field="tier", equal=order[0])).mark_text(dy=-13, fontWeight="bold").encode(text="case:N")
    empty = sorted(set(order) - set(held["tier"]), key=order.index)
    note = alt.Chart(pd.DataFrame({"tier": empty, "text": ["nothing is kept that long"] * len(empty)})).mark_text(align="left", dx=4, fontStyle="italic")
    layers = [span, points, names] + ([note.encode(y=y, x=alt.value(0), text="text:N")] if empty else [])
    return alt.layer(*layers).properties(width=plot_width(order), height=alt.Step(34))


def effects(data: pd.DataFrame) -> alt.LayerChart:
    """Return a line per input from the total at one end of its range to that at the other, a tick at the base total, the factor between them as label."""
    order = list(data["input"])
    low, high = float(data["low"].min()) / 1.5, float(data["high"].max()) * 8
    scale, axis = alt.Scale(type="log", domain=[low, high], nice=False), _byte_axis(low, high)
    title = "KV kept at one time (log scale)"
    y = alt.Y("input:N", sort=order, title=None, axis=alt.Axis(labelLimit=230, domain=False, ticks=False, grid=True))
    base = alt.Chart(data).encode(y=y)
    span = base.mark_rule(strokeWidth=7, opacity=0.55, color=MAIN).encode(x=alt.X("low:Q", scale=scale, title=title, axis=axis), x2="high:Q")
    tick = base.mark_tick(thickness=2, size=16, color=SECOND).encode(x=alt.X("value:Q", scale=scale, title=title, axis=axis))
    text = base.mark_text(align="left", dx=7).encode(x=alt.X("high:Q", scale=scale), text="label:N")
    return alt.layer(span, tick, text).properties(width=plot_width(order), height=alt.Step(24))
