"""Charts of the pyramid and its tiers: points with ranges on log axes, bands for the article's ranges. The frames they draw are made in `frames_tiers`.

A mark says what kind of statement it is: filled for measured, hollow for a vendor's claim or the press, a line for derived or assumed.
"""

from typing import Any, Literal

import altair as alt
import pandas as pd

from kvmodel.report.charts_sizing import MAIN, OTHER, SECOND, bars, byte_axis, plot_width
from kvmodel.report.theme import TIER_COLOURS
from kvmodel.tiers import tier, tier_ids

HEIGHT = 260
__all__ = ["bars", "block_axis", "byte_axis", "changes", "curves", "log_axis", "pairs", "pyramid", "ranges", "rate_axis", "residence"]
LABELS: dict[int, tuple[Literal["left", "right"], int, int]] = {
    1: ("right", -12, 0),
    2: ("right", -12, -8),
    3: ("right", -12, 10),
    4: ("left", -20, -20),
    5: ("right", -12, 8),
}
TIME_UNITS = ((31_536_000.0, "y"), (86_400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
TIME_TICKS = [*(10.0**k for k in range(-9, 2)), 60.0, 600.0, 3600.0, 36_000.0, 86_400.0, 864_000.0, 8_640_000.0, 31_536_000.0, 315_360_000.0]


def rate_axis(ticks: int = 5) -> alt.Axis:
    """Return an axis whose numbers are bytes per second, in decimal units."""
    axis = byte_axis(ticks).to_dict()
    return alt.Axis(labelExpr=f"({axis['labelExpr']}) + '/s'", tickCount=ticks, labelOverlap=True)


def log_axis(base: str, low: float, high: float) -> alt.Axis:
    """Return an axis from `low` to `high` with few round ticks, labelled as `bytes`, `bytes_per_s` or `seconds`."""
    if base == "seconds":
        steps = " : ".join(f"datum.value >= {size * 0.999:g} ? format(datum.value / {size:g}, '~r') + ' {unit}'" for size, unit in TIME_UNITS)
        ticks = [t for t in TIME_TICKS if low <= t <= high]
        return alt.Axis(labelExpr=f"{steps} : '0'", labelOverlap=True, values=ticks[:: -(-len(ticks) // 5) or 1])
    from math import ceil, floor
    from math import log10 as lg

    powers = [10.0**k for k in range(ceil(lg(low)), floor(lg(high)) + 1)]
    axis = rate_axis() if base == "bytes_per_s" else byte_axis()
    axis["values"] = powers[:: -(-len(powers) // 4) or 1]
    return axis


def block_axis() -> alt.Axis:
    """Return an axis of block sizes in binary units, from 1 KiB to 1 GiB."""
    steps = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
    words = " : ".join(f"datum.value >= {size} ? format(datum.value / {size}, '~r') + ' {unit}'" for size, unit in steps)
    return alt.Axis(values=[2**k for k in range(10, 31, 4)], labelExpr=f"{words} : datum.value + ' B'", labelOverlap=True)


def _tier_colour() -> alt.Color:
    names = [tier(t).name for t in tier_ids()]
    return alt.Color("tier:N", scale=alt.Scale(domain=names, range=list(TIER_COLOURS)), legend=None)


def pyramid(data: pd.DataFrame) -> alt.LayerChart:
    """Return capacity against bandwidth for one accelerator: the article's ranges as bands, devices as points, the platform's tiers joined near to far.

    `data` is `frames_tiers.pyramid_frame`: rows of mark `article`, `device` and `platform`.
    """
    x = alt.Scale(type="log", domain=[1e9, 1e16], clamp=True)
    y = alt.Scale(type="log", domain=[2e8, 5e13], clamp=True)
    x_axis, y_axis = byte_axis(7), rate_axis(6)
    x_axis["values"], y_axis["values"] = [10.0**k for k in range(9, 17)], [10.0**k for k in range(9, 14)]
    axes = {
        "x": alt.X("capacity_low:Q", scale=x, title="Capacity for one accelerator (bytes, log scale)", axis=x_axis),
        "y": alt.Y("bandwidth_low:Q", scale=y, title="Bandwidth to one accelerator (log scale)", axis=y_axis),
    }
    bands, devices, places = (data[data["mark"] == m] for m in ("article", "device", "platform"))
    colour = _tier_colour()
    band = alt.Chart(bands).mark_rect(opacity=0.22, strokeWidth=1).encode(**axes, x2="capacity_high:Q", y2="bandwidth_high:Q", color=colour)
    kinds = alt.Chart(devices).encode(**axes, color=colour)
    filled = kinds.transform_filter("datum.kind == 'measured'").mark_point(filled=True, size=45, opacity=0.9)
    hollow = kinds.transform_filter("datum.kind != 'measured'").mark_point(filled=False, size=45, opacity=0.9)
    line = alt.Chart(places).mark_line(color="#555555", strokeWidth=1.5, strokeDash=[4, 3]).encode(**axes, order="rank:Q")
    spot = alt.Chart(places).mark_point(shape="diamond", filled=True, size=190, opacity=1, stroke="white", strokeWidth=1).encode(**axes, color=colour)
    names = [_beside(places[places["rank"] == rank], axes, colour, *where) for rank, where in LABELS.items()]
    return alt.layer(band, filled, hollow, line, spot, *names).properties(width=380, height=380)


def _beside(place: pd.DataFrame, axes: dict[str, Any], colour: alt.Color, align: Literal["left", "right"], dx: int, dy: int) -> alt.LayerChart:
    text = alt.Chart(place).encode(**axes, text="tier:N")
    halo = text.mark_text(align=align, dx=dx, dy=dy, fontWeight="bold", stroke="white", strokeWidth=4, strokeOpacity=0.9)
    return alt.layer(halo, text.mark_text(align=align, dx=dx, dy=dy, fontWeight="bold").encode(color=colour))


def ranges(
    data: pd.DataFrame,
    *,
    title: str,
    base: str = "bytes_per_s",
    name: str = "name",
    band: tuple[float | None, float | None] = (None, None),
    tiered: bool = False,
) -> alt.LayerChart:
    """Return a dot with its range for each row, on a log axis, each with its label; a pale band marks the article's range.

    `data` has `name`, `value`, `low`, `high`, `kind` (measured, claimed, derived) and `label`; with `tiered`, names are tiers in their colours.
    """
    order = list(dict.fromkeys(data[name]))
    values = pd.concat([data["value"], data["low"], data["high"]]).dropna()
    ends = [float(values.min()), float(values.max()), *(b for b in band if b)]
    low, high = min(ends) / 2, max(ends) * 2
    span = (high / low) ** 0.35  # room for the labels
    scale, axis = alt.Scale(type="log", domain=[low, high * span], nice=False, clamp=True), log_axis(base, low, high * span)
    y = alt.Y(f"{name}:N", sort=order, title=None, axis=alt.Axis(labelLimit=200, domain=False, ticks=False, grid=True))
    colour = alt.Color(f"{name}:N", scale=alt.Scale(domain=order, range=list(TIER_COLOURS)), legend=None) if tiered else alt.value(MAIN)
    dot = alt.Chart(data).encode(y=y, x=alt.X("value:Q", title=title, scale=scale, axis=axis))
    rule = alt.Chart(data).mark_rule(strokeWidth=3, opacity=0.5).encode(y=y, x=alt.X("low:Q", scale=scale, title=title, axis=axis), x2="high:Q", color=colour)
    dots = dot.transform_filter("datum.kind == 'measured'").mark_point(filled=True, size=90, opacity=1).encode(color=colour)
    rings = dot.transform_filter("datum.kind == 'claimed'").mark_point(filled=False, size=90, strokeWidth=2, opacity=1).encode(color=colour)
    ticks = dot.transform_filter("datum.kind == 'derived'").mark_tick(thickness=3, size=14).encode(color=colour)
    text = (
        alt.Chart(data.assign(end=data[["value", "high"]].max(axis=1))).mark_text(align="left", dx=9).encode(y=y, x=alt.X("end:Q", scale=scale), text="label:N")
    )
    layers: list[alt.Chart] = [rule, dots, rings, ticks, text]
    if any(band):
        box = pd.DataFrame({"low": [band[0] or low], "high": [band[1] or high]})
        layers.insert(0, alt.Chart(box).mark_rect(color=SECOND, opacity=0.12).encode(x=alt.X("low:Q", scale=scale, title=title, axis=axis), x2="high:Q"))
    return alt.layer(*layers).properties(width=plot_width(order), height=alt.Step(26))


def curves(data: pd.DataFrame, *, x: alt.X, y: alt.Y, series: str, tiered: bool = False) -> alt.LayerChart:
    """Return lines (rows of kind `derived`) and points (`measured` filled, `claimed` hollow) in the same axes, each series named at its right end."""
    names = list(dict.fromkeys(data[series]))
    palette = list(TIER_COLOURS) if tiered else [MAIN, SECOND, "#3586ff", "#be7c8a", "#7d9a0e"]
    colour = alt.Color(f"{series}:N", scale=alt.Scale(domain=names, range=palette[: len(names)]), legend=None)
    dash = alt.StrokeDash(f"{series}:N", scale=alt.Scale(domain=names, range=[[1, 0], [7, 3], [2, 2], [9, 2, 2, 2], [4, 4]][: len(names)]), legend=None)
    base = alt.Chart(data).encode(x=x, y=y, color=colour)
    lines = data[data["kind"] == "derived"]
    drawn = alt.Chart(lines).mark_line(strokeWidth=2.5).encode(x=x, y=y, color=colour, strokeDash=dash)
    dots = base.transform_filter("datum.kind == 'measured'").mark_point(filled=True, size=80, opacity=1)
    rings = base.transform_filter("datum.kind == 'claimed'").mark_point(filled=False, size=80, opacity=1)
    names_at_ends = [
        alt.Chart(end).mark_text(align="left", dx=6, dy=dy).encode(x=x, y=y, text=f"{series}:N", color=colour) for end, dy in _ends(lines, x, y, series)
    ]
    return alt.layer(drawn, dots, rings, *names_at_ends).properties(width=plot_width(names, least=220), height=HEIGHT)


def _ends(lines: pd.DataFrame, x: alt.X, y: alt.Y, series: str) -> list[tuple[pd.DataFrame, int]]:
    """Return the last point of each line and how far down its name moves (px), so that names stand at least a line of text apart."""
    from math import log

    (xs, _), (ys, logarithmic) = ((d["field"], d.get("scale", {}).get("type") == "log") for d in (x.to_dict(), y.to_dict()))
    into = log if logarithmic else float
    low, high = into(float(lines[ys].min())), into(float(lines[ys].max()))
    ends = [lines.loc[[i]] for i in lines.groupby(series, sort=False)[xs].idxmax()]
    at = [HEIGHT * (high - into(float(e[ys].iloc[0]))) / ((high - low) or 1.0) for e in ends]
    out, last = [], float("-inf")
    for n in sorted(range(len(ends)), key=lambda n: (round(at[n] / 8), -float(ends[n][xs].iloc[0]))):
        last = max(at[n], last + 17)
        out.append((ends[n], round(last - at[n])))
    return out


def changes(data: pd.DataFrame, *, title: str) -> alt.LayerChart:
    """Return published changes in per cent, one dot a test (`name`, `value`, `kind`, `label`), with a line at no change."""
    order = list(data["name"])
    y = alt.Y("name:N", sort=order, title=None, axis=alt.Axis(labelLimit=230, domain=False, ticks=False, grid=True))
    room = 0.35 * float(data["value"].max() - data["value"].min() or 1)
    scale = alt.Scale(domain=[float(data["value"].min()) - room / 3, float(data["value"].max()) + room], nice=False)
    base = alt.Chart(data).encode(y=y, x=alt.X("value:Q", title=title, scale=scale))
    zero = alt.Chart(pd.DataFrame({"x": [0]})).mark_rule(color=OTHER, strokeDash=[4, 3]).encode(x=alt.X("x:Q", scale=scale, title=title))
    dots = base.transform_filter("datum.kind == 'measured'").mark_point(filled=True, size=90, opacity=1, color=MAIN)
    rings = base.transform_filter("datum.kind != 'measured'").mark_point(filled=False, size=90, strokeWidth=2, opacity=1, color=MAIN)
    return alt.layer(zero, dots, rings, base.mark_text(align="left", dx=9).encode(text="label:N")).properties(width=plot_width(order), height=alt.Step(26))


def residence(data: pd.DataFrame, *, x: alt.X, y: alt.Y) -> alt.LayerChart:
    """Return residence against write rate: a line (rows of kind `derived`) and named points on it (`mark`)."""
    line = alt.Chart(data[data["kind"] == "derived"]).mark_line(strokeWidth=2.5, color=MAIN).encode(x=x, y=y)
    marks = alt.Chart(data[data["kind"] == "mark"]).encode(x=x, y=y)
    return alt.layer(
        line, marks.mark_point(filled=True, size=110, opacity=1, color=SECOND), marks.mark_text(align="right", dx=-9, dy=12).encode(text="name:N")
    ).properties(width=300, height=HEIGHT)


def pairs(data: pd.DataFrame, *, title: str) -> alt.LayerChart:
    """Return two dots for each row, `what` being read (circle) or write (triangle), filled where measured, on a log axis of bytes per second."""
    order = list(dict.fromkeys(data["name"]))
    low, high = float(data["value"].min()) / 1.6, float(data["value"].max()) * 1.6
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    ticks = alt.Axis(values=[k * 10.0**p for p in range(8, 13) for k in (1, 2, 5) if low <= k * 10.0**p <= high], labelExpr=rate_axis().to_dict()["labelExpr"])
    kinds = alt.Scale(domain=["read", "write"], range=["circle", "triangle-down"])
    base = alt.Chart(data).encode(
        y=alt.Y("name:N", sort=order, title=None, axis=alt.Axis(labelLimit=220, domain=False, ticks=False, grid=True)),
        x=alt.X("value:Q", title=title, scale=scale, axis=ticks),
        shape=alt.Shape("what:N", scale=kinds, legend=None),
        color=alt.Color("what:N", scale=alt.Scale(domain=["read", "write"], range=[MAIN, SECOND]), legend=None),
    )
    filled = base.transform_filter("datum.kind == 'measured'").mark_point(filled=True, size=90, opacity=1)
    hollow = base.transform_filter("datum.kind != 'measured'").mark_point(filled=False, size=90, strokeWidth=2, opacity=1)
    first = base.transform_filter(alt.FieldEqualPredicate(field="name", equal=order[0]))
    named = [
        first.transform_filter(f"datum.what == '{what}'").mark_text(dy=-13, align=align, dx=dx, fontWeight="bold").encode(text="what:N")
        for what, align, dx in (("read", "left", -4), ("write", "right", 4))
    ]
    return alt.layer(filled, hollow, *named).properties(width=plot_width(order), height=alt.Step(26))
