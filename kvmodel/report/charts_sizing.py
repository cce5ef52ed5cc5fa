"""Charts of the sizing chapters: bars, lines, ticks and dots with direct labels. The frames they draw are made in `frames_sizing`."""

from collections.abc import Iterable, Sequence

import altair as alt
import pandas as pd

from kvmodel.report.theme import CATEGORY_COLOURS

MAIN, SECOND, OTHER = CATEGORY_COLOURS[0], CATEGORY_COLOURS[1], "#8a8a8a"
DASHES = [[1, 0], [7, 3], [2, 2], [9, 2, 2, 2], [4, 4]]
WIDTH, WHOLE, LETTER = 290, 470, 7.3  # of a plot with short labels, of plot and labels, of a letter [px]: more would be too small to read on a phone
BYTE_UNITS = ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def byte_axis(ticks: int = 4) -> alt.Axis:
    """Return an axis whose numbers are bytes, in decimal units."""
    steps = " : ".join(f"datum.value >= {size:g} ? format(datum.value / {size:g}, '~r') + ' {unit}'" for size, unit in BYTE_UNITS)
    return alt.Axis(labelExpr=f"{steps} : format(datum.value, '~r') + ' B'", tickCount=ticks, labelOverlap=True)


def plot_width(labels: Iterable[object], *, least: int = 150) -> int:
    """Return the width that labels beside a plot leave to it [px]."""
    return max(least, min(WIDTH, round(WHOLE - 55 - LETTER * max(len(str(label)) for label in labels))))


def bars(data: pd.DataFrame, *, value: str, name: str, label: str, title: str, marked: str = "", axis: alt.Axis | None = None) -> alt.LayerChart:
    """Return horizontal bars from zero in the order of the rows, each with its label at its end; with `marked`, only the bar of that name in colour."""
    order = list(data[name])
    room = 1.4 * float(data[value].max()) or 1.0
    base = alt.Chart(data).encode(
        y=alt.Y(f"{name}:N", sort=order, title=None, axis=alt.Axis(labelLimit=230, domain=False, ticks=False)),
        x=alt.X(f"{value}:Q", title=title, scale=alt.Scale(domain=[0, room], nice=False), axis=axis or alt.Axis(tickCount=4)),
    )
    colour = alt.condition(alt.FieldOneOfPredicate(name, [marked] if marked else order), alt.value(MAIN), alt.value(OTHER))
    drawn = base.mark_bar(height={"band": 0.6}).encode(color=colour)
    return alt.layer(drawn, base.mark_text(align="left", dx=5).encode(text=f"{label}:N")).properties(width=plot_width(order), height=alt.Step(26))


def lines(data: pd.DataFrame, *, x: alt.X, y: alt.Y, series: str, log: bool = False) -> alt.LayerChart:
    """Return one line per series (five at most), named at its right end in its own colour; names are moved apart where lines end close together."""
    names = list(dict.fromkeys(data[series]))
    xs, ys = x.to_dict()["field"], y.to_dict()["field"]
    colour = alt.Color(f"{series}:N", scale=alt.Scale(domain=names, range=list(CATEGORY_COLOURS[: len(names)])), legend=None)
    dash = alt.StrokeDash(f"{series}:N", scale=alt.Scale(domain=names, range=DASHES[: len(names)]), legend=None)
    drawn = alt.Chart(data).mark_line(strokeWidth=2.5).encode(x=x, y=y, color=colour, strokeDash=dash)
    ends = data.loc[data.groupby(series, sort=False)[xs].idxmax()].copy()
    ends["label_y"] = _apart(ends[ys].tolist(), data[ys].tolist(), log=log)
    text = alt.Chart(ends).mark_text(align="left", dx=5).encode(x=f"{xs}:Q", y="label_y:Q", text=f"{series}:N", color=colour)
    return alt.layer(drawn, text).properties(width=plot_width(names, least=220), height=250)


def _apart(values: Sequence[float], all_values: Sequence[float], *, log: bool) -> list[float]:
    """Move values at least a line of text apart (1 / 14 of the axis), upwards from the lowest."""
    from math import exp
    from math import log as ln

    into, back = (ln, exp) if log else (float, float)
    low, high = into(min(all_values)), into(max(all_values))
    step, placed, last = (high - low) / 14 or 1.0, {}, float("-inf")
    for i in sorted(range(len(values)), key=lambda n: values[n]):
        last = placed[i] = max(into(values[i]), last + step)
    return [back(placed[i]) for i in range(len(values))]


def kind_ticks(data: pd.DataFrame, chosen: str) -> alt.LayerChart:
    """Return a row of ticks for each kind of attention, one tick a model, rows in order of their least model; the chosen model stands out."""
    order = list(dict.fromkeys(data.sort_values("kv_bytes")["attention"]))
    rows = alt.Y("attention:N", sort=order, title=None, axis=alt.Axis(labelLimit=190, grid=True, domain=False, ticks=False))
    size = alt.X("kv_bytes:Q", title="KV cache of one user (bytes, log scale)", scale=alt.Scale(type="log", nice=True), axis=byte_axis(5))
    mine = data[data["model"] == chosen]
    row_end = mine.assign(kv_bytes=data.loc[data["attention"].isin(mine["attention"]), "kv_bytes"].max())  # beside the row, where no tick is
    drawn = (
        alt.Chart(data).mark_tick(thickness=2, size=14, color=MAIN).encode(x=size, y=rows),
        alt.Chart(mine).mark_tick(thickness=4, size=18, color=SECOND).encode(x=size, y=rows),
        alt.Chart(row_end).mark_text(align="left", dx=7, fontWeight="bold", color=SECOND).encode(x=size, y=rows, text="model:N"),
    )
    return alt.layer(*drawn).properties(width=plot_width([*order, chosen], least=220), height=alt.Step(22))


def vocabulary_dots(data: pd.DataFrame) -> alt.LayerChart:
    """Return a row per vocabulary with a filled dot for each text (measured counts), the texts named above the first row."""
    order = list(dict.fromkeys(data["vocabulary"]))
    texts = list(dict.fromkeys(data["text"]))
    colour = alt.Color("text:N", scale=alt.Scale(domain=texts, range=list(CATEGORY_COLOURS[: len(texts)])), legend=None)
    base = alt.Chart(data).encode(
        y=alt.Y("vocabulary:N", sort=order, title=None, axis=alt.Axis(labelLimit=220, grid=True, domain=False, ticks=False)),
        x=alt.X("tokens_per_100_chars:Q", title="Tokens per 100 characters", scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=5)),
        color=colour,
    )
    shape = alt.Shape("text:N", scale=alt.Scale(domain=texts, range=["circle", "triangle-up"][: len(texts)]), legend=None)
    dots = base.mark_point(filled=True, size=90, opacity=1).encode(shape=shape)
    names = base.transform_filter(alt.FieldEqualPredicate(field="vocabulary", equal=order[0])).mark_text(dy=-15, fontWeight="bold").encode(text="text:N")
    return alt.layer(dots, names).properties(width=plot_width(order), height=alt.Step(28))


def shares(data: pd.DataFrame) -> alt.LayerChart:
    """Return a full-length bar per platform, split into its parts; each part is named above the first row, the size of KV's part at the end of the row."""
    order, parts = list(dict.fromkeys(data["platform"])), list(dict.fromkeys(data["part"]))
    legend = alt.Legend(title=None, orient="top", symbolType="square", columns=3)
    colour = alt.Color("part:N", scale=alt.Scale(domain=parts, range=[OTHER, MAIN, "#d9d9d9"]), legend=legend)
    base = alt.Chart(data).encode(y=alt.Y("platform:N", sort=order, title=None, axis=alt.Axis(labelLimit=170, domain=False, ticks=False)))
    across = alt.X("share:Q", stack="zero", title="Share of the node's HBM", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%", tickCount=5))
    drawn = base.mark_bar(height={"band": 0.6}).encode(x=across, color=colour, order=alt.Order("rank:Q"))
    label = base.transform_filter(alt.FieldEqualPredicate(field="part", equal=parts[1])).mark_text(align="left", dx=5)
    width = plot_width(f"{p}{text}" for p, text in zip(data["platform"], data["label"], strict=True))
    return alt.layer(drawn, label.encode(x=alt.value(width), text="label:N")).properties(width=width, height=alt.Step(26))
