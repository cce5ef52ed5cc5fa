"""Charts of the growth chapter: releases over time with a fitted line and its band, growth factors with intervals, advertised against effective windows."""

from math import ceil, floor, log10

import altair as alt
import pandas as pd

from kvmodel.report.charts_sizing import MAIN, OTHER, SECOND, byte_axis, plot_width
from kvmodel.report.theme import CATEGORY_COLOURS, QUIET

WIDTH, HEIGHT = 350, 280
TOKEN_LABEL = "datum.value >= 1e6 ? format(datum.value / 1e6, '~r') + 'M' : datum.value >= 1e3 ? format(datum.value / 1e3, '~r') + 'K' : datum.value"
DATES = alt.Axis(format="%Y", tickCount="year", grid=False, labelOverlap=True)


def token_axis(low: float, high: float) -> alt.Axis:
    """Return an axis of tokens with a tick at each power of ten."""
    return alt.Axis(labelExpr=TOKEN_LABEL, values=[10.0**k for k in range(ceil(log10(low)), floor(log10(high)) + 1)])


def _band(line: pd.DataFrame, y: alt.Y, x: alt.X) -> tuple[alt.Chart, alt.Chart]:
    field = {"field": "low", "type": "quantitative", "scale": y.to_dict()["scale"], "title": y.to_dict()["title"], "axis": y.to_dict()["axis"]}
    area = alt.Chart(line).mark_area(opacity=0.18, color=MAIN).encode(x=x, y=alt.Y(**field), y2="high:Q")
    return area, alt.Chart(line).mark_line(color=MAIN, strokeWidth=2.5).encode(x=x, y=alt.Y(**(field | {"field": "value"})))


def releases(data: pd.DataFrame, line: pd.DataFrame, label: str) -> alt.LayerChart:
    """Return new windows by date: filled at the frontier, hollow where only claimed, small and grey below it; the fitted line with band and label."""
    low, high = float(data["context_tokens"].min()) / 1.6, float(max(data["context_tokens"].max(), line["high"].max())) * 2.5
    scale, axis = alt.Scale(type="log", domain=[low, high], nice=False, clamp=True), token_axis(low, high)
    x = alt.X("date:T", title=None, axis=alt.Axis(format="%b %Y", tickCount=5, grid=False, labelOverlap=True))
    y = alt.Y("context_tokens:Q", title="Context window (tokens, log scale)", scale=scale, axis=axis)
    base = alt.Chart(data).encode(x=x, y=y)
    other = base.transform_filter("datum.kind == 'other'").mark_point(filled=True, size=22, color="#b0b0b0", opacity=0.9)
    found = base.transform_filter("datum.kind == 'frontier'").mark_point(filled=True, size=60, color=SECOND, opacity=0.85)
    rings = base.transform_filter("datum.kind == 'claimed'").mark_point(filled=False, size=80, color=SECOND, strokeWidth=2, opacity=1)
    end = line.iloc[[len(line) // 2]].assign(text=label)
    text = (
        alt.Chart(end)
        .mark_text(align="right", dx=-6, dy=-26, color=MAIN, fontWeight="bold")
        .encode(x=x, y=alt.Y("value:Q", scale=scale, axis=axis), text="text:N")
    )
    return alt.layer(*_band(line, y, x), other, found, rings, text).properties(width=WIDTH, height=HEIGHT)


def factors(data: pd.DataFrame, *, title: str = "Growth (times a year, log scale)", mark: float | None = None, groups: str = "") -> alt.LayerChart:
    """Return a dot with its interval for each row, on a log axis of growth factors with a rule at 1, no growth; `mark` draws a second rule.

    Filled: our fit; hollow: published; tick: from two end points. With `groups` the dots of each value of that column share a colour.
    """
    order = list(data["name"])
    low, high = min(float(data["low"].min()), 0.8) / 1.2, max(float(data["high"].max()), 1.3) * 1.2
    room = (high / low) ** 0.28
    scale = alt.Scale(type="log", domain=[low, high * room], nice=False)
    ticks = [v for v in (0.01, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 100, 1000) if low <= v <= high]
    axis = alt.Axis(values=ticks[:: -(-len(ticks) // 7)] if len(ticks) > 7 else ticks, format="~r", labelOverlap=True)
    y = alt.Y("name:N", sort=order, title=None, axis=alt.Axis(labelLimit=235, domain=False, ticks=False, grid=True))
    names = list(dict.fromkeys(data[groups])) if groups else []
    colour = alt.Color(f"{groups}:N", scale=alt.Scale(domain=names, range=list(CATEGORY_COLOURS[: len(names)])), legend=None) if groups else alt.value(MAIN)
    x = alt.X("value:Q", title=title, scale=scale, axis=axis)
    dot = alt.Chart(data).encode(y=y, x=x)
    span = alt.Chart(data).mark_rule(strokeWidth=3, opacity=0.5).encode(y=y, x=alt.X("low:Q", scale=scale, title=title, axis=axis), x2="high:Q", color=colour)
    filled = dot.transform_filter("datum.kind == 'measured'").mark_point(filled=True, size=90, opacity=1).encode(color=colour)
    rings = dot.transform_filter("datum.kind == 'claimed'").mark_point(filled=False, size=90, strokeWidth=2, opacity=1).encode(color=colour)
    ends = dot.transform_filter("datum.kind == 'derived'").mark_tick(thickness=3, size=14).encode(color=colour)
    label = alt.Chart(data).encode(y=y, x=alt.X("high:Q", scale=scale), text="label:N")
    halo = label.mark_text(align="left", dx=7, stroke="white", strokeWidth=4)  # labels stay readable over the rules
    text = label.mark_text(align="left", dx=7)
    rules = [_rule(1.0, scale, QUIET)] + ([_rule(mark, scale, SECOND)] if mark and low < mark < high * room else [])
    return alt.layer(*rules, span, filled, rings, ends, halo, text).properties(width=plot_width(order), height=alt.Step(25))


def _rule(at: float, scale: alt.Scale, colour: str) -> alt.Chart:
    return alt.Chart(pd.DataFrame({"at": [at]})).mark_rule(color=colour, strokeDash=[4, 3]).encode(x=alt.X("at:Q", scale=scale))


def half_year_lines(data: pd.DataFrame) -> alt.LayerChart:
    """Return a line with points for each statistic of new windows by half-year, named at its right end."""
    names = list(dict.fromkeys(data["statistic"]))
    low, high = float(data["tokens"].min()) / 1.6, float(data["tokens"].max()) * 1.6
    x = alt.X("date:T", title="Half-year of release", axis=DATES)
    y = alt.Y("tokens:Q", title="New windows (tokens, log scale)", scale=alt.Scale(type="log", domain=[low, high], nice=False), axis=token_axis(low, high))
    colour = alt.Color("statistic:N", scale=alt.Scale(domain=names, range=[SECOND, MAIN, QUIET]), legend=None)
    dash = alt.StrokeDash("statistic:N", scale=alt.Scale(domain=names, range=[[1, 0], [7, 3], [2, 2]]), legend=None)
    base = alt.Chart(data).encode(x=x, y=y, color=colour)
    ends = data[data["date"] == data["date"].max()]
    shift = {"longest": 0, "geometric mean": -4, "median": 10}
    labels = [
        alt.Chart(ends[ends["statistic"] == n]).mark_text(align="left", dx=7, dy=shift[n]).encode(x=x, y=y, text="statistic:N", color=colour) for n in names
    ]
    return alt.layer(base.mark_line(strokeWidth=2.5).encode(strokeDash=dash), base.mark_point(filled=True, size=60), *labels).properties(
        width=300, height=HEIGHT
    )


def effective_dots(data: pd.DataFrame) -> alt.LayerChart:
    """Return effective against advertised windows on log axes, a shape and colour per benchmark, with the line where both are equal."""
    low, high = 700.0, 1.6e7
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    x = alt.X("claimed_tokens:Q", title="Advertised window (tokens, log scale)", scale=scale, axis=token_axis(1000, 1e7))
    y = alt.Y("effective_tokens:Q", title="Longest length passed (tokens, log scale)", scale=scale, axis=token_axis(1000, 1e7))
    names = list(dict.fromkeys(data["benchmark"]))
    colour = alt.Color("benchmark:N", scale=alt.Scale(domain=names, range=[MAIN, SECOND]), legend=None)
    shape = alt.Shape("benchmark:N", scale=alt.Scale(domain=names, range=["circle", "triangle-up"]), legend=None)
    many = alt.Size("count():Q", scale=alt.Scale(domain=[1, 12], range=[45, 330]), legend=None)
    dots = alt.Chart(data).encode(x=x, y=y, color=colour, shape=shape, size=many)
    sure = dots.transform_filter("datum.bound == ''").mark_point(filled=True, opacity=0.85)
    bounds = dots.transform_filter("datum.bound != ''").mark_point(filled=False, strokeWidth=2)
    diagonal = (
        alt.Chart(pd.DataFrame({"a": [low, high]})).mark_line(color=QUIET, strokeDash=[4, 3]).encode(x=alt.X("a:Q", scale=scale), y=alt.Y("a:Q", scale=scale))
    )
    marks = pd.DataFrame(
        {"x": [4_500.0, 2.4e6, 3.2e6], "y": [16_000.0, 240_000.0, 5_500.0], "text": ["all of it", names[0], names[-1]], "of": ["", names[0], names[-1]]}
    )
    words = alt.Chart(marks).mark_text(fontWeight="bold").encode(x=alt.X("x:Q", scale=scale), y=alt.Y("y:Q", scale=scale), text="text:N")
    labels = [words.transform_filter(f"datum.of == '{n}'").encode(color=alt.value(c)) for n, c in (("", QUIET), (names[0], MAIN), (names[-1], SECOND))]
    return alt.layer(diagonal, sure, bounds, *labels).properties(width=WIDTH, height=320)


SHAPES = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down"]


def per_token(data: pd.DataFrame, line: pd.DataFrame, families: list[str]) -> alt.LayerChart:
    """Return KV per token of model cards by release date, a shape and colour per family of attention, with the fitted line and its band."""
    low, high = float(data["bytes_per_token"].min()) / 1.6, float(data["bytes_per_token"].max()) * 1.6
    scale = alt.Scale(type="log", domain=[low, high], nice=False, clamp=True)
    axis = byte_axis()
    axis["values"] = [10.0**k for k in range(ceil(log10(low)), floor(log10(high)) + 1)]
    x = alt.X("date:T", title=None, axis=DATES)
    y = alt.Y("bytes_per_token:Q", title="KV per token (bytes, log scale)", scale=scale, axis=axis)
    colours = [OTHER, *CATEGORY_COLOURS]
    legend = alt.Legend(title=None, orient="bottom", columns=3, symbolSize=90)
    colour = alt.Color("family:N", scale=alt.Scale(domain=families, range=colours[: len(families)]), legend=legend)
    shape = alt.Shape("family:N", scale=alt.Scale(domain=families, range=SHAPES[: len(families)]), legend=legend)
    dots = alt.Chart(data).mark_point(filled=True, size=75, opacity=0.9).encode(x=x, y=y, color=colour, shape=shape)
    return alt.layer(*_band(line, y, x), dots).properties(width=WIDTH, height=HEIGHT)
