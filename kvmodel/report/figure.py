"""One call for a figure: picture, alt text, caption, number, files, data table, citation."""

import base64
import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from html import escape
from typing import Any

import pandas as pd

from kvmodel import __version__
from kvmodel.report import theme
from kvmodel.report.cells import Bundle, current, figures_folder, interactive
from kvmodel.report.publish import write_folder
from kvmodel.report.record import MIME, FigureRecord, Source, load_sources
from kvmodel.units import KvError, refuse

ROWS_SHOWN = 30
ALT_LIMIT = 250


class Figure:
    """A figure of the book; as the last expression of a cell it shows itself.

    Parameters
    ----------
    id : permanent id, kebab-case; its anchor is `fig-<id>`
    chart : Altair chart, without title and configuration
    data : the rows that are drawn, tidy
    title : the finding, as a sentence
    alt : kind of chart, of what, where the reason to look; at most 250 characters, not the title
    caption : what is drawn, conditions, how to read it
    columns : column of `data` to (unit, meaning); every column
    sources : ids of `data/sources.toml`
    processing : what we did to the sources' values: none, minor, major

    Raises
    ------
    KvError : duplicate id, missing or useless alt, no or unknown source, a column without description, a bar on a log axis without a baseline
    """

    def __init__(
        self,
        id: str,
        chart: Any,
        data: pd.DataFrame,
        *,
        title: str,
        alt: str,
        caption: str,
        columns: Mapping[str, tuple[str, str]],
        sources: Sequence[str],
        processing: str = "major",
    ) -> None:
        self.chart, self.data = chart, data
        spec = self._spec(chart, title)
        self.record = FigureRecord(
            id, title, current.slug, current.hash, caption=caption, alt=alt, columns=dict(columns), sources=_sources(id, sources),
            parameters=current.parameters, processing=processing, csv=csv_bytes(data), spec=spec,
        )  # fmt: skip
        _check(self.record, data)
        current.figures.add(id)

    @staticmethod
    def _spec(chart: Any, title: str) -> dict[str, Any]:
        spec: dict[str, Any] = chart.to_dict()
        if "title" in spec or spec.get("config", {}).keys() - {"view"}:
            raise KvError("chart: a title or a configuration of its own is not accepted; accepted: a plain chart, the figure brings both")
        return spec | {"config": theme.config(), "title": {"text": theme.wrap(title, theme.WIDTH, 16, bold=True)}}

    @property
    def foot(self) -> str:
        """The line inside the picture: id, version, who made the data."""
        makers = ", ".join(dict.fromkeys(s.credit for s in self.record.sources.values()))
        return f"{self.record.id} · v{__version__} · p:{self.record.parameters_hash} · data: {makers}"

    def svg(self) -> str:
        """Return the static picture."""
        import vl_convert  # only where pictures are drawn

        return theme.plate(vl_convert.vegalite_to_svg(json.dumps(self.record.spec)), self.foot)

    def save(self) -> None:
        """Write the folder of the figure where this execution leaves its files."""
        folder = figures_folder()
        if folder is None:
            return
        import vl_convert

        svg = self.svg()
        place = write_folder(self.record, svg, vl_convert.svg_to_png(svg, scale=2), folder)
        live = json.dumps(self._live(), ensure_ascii=False, sort_keys=True).replace("</", "<\\/")
        (place / f"{self.record.id}.js").write_text(f"kvFigure({json.dumps(self.record.id)}, {live});\n", "utf-8")

    def _live(self) -> dict[str, Any]:
        """The chart as a reader explores it: tooltips, and zoom where both axes are continuous."""
        zoom = getattr(self.chart, "interactive", None)
        scales = list(_encodings(self.record.spec))
        continuous = all(any(e.get(side, {}).get("type") == "quantitative" for _, e in scales) for side in ("x", "y"))
        if zoom is None or not continuous or type(self.chart).__name__ not in ("Chart", "LayerChart"):
            return dict(self.record.spec)
        return self._spec(zoom(), self.record.title)

    def markdown(self) -> str:
        """Return the MyST figure directive: picture with alt, caption, bar of files, data table."""
        r = self.record
        caption = " ".join(r.caption.split())
        alt, more = " ".join(r.alt.split()), f'<div class="kv-more" data-figure="{r.id}">{self._bar()}{self._table()}</div>'
        head = [f":::{{figure}} ../_figures/figures/{r.id}/{r.id}.*", f":name: fig-{r.id}", f":alt: {alt}", ":figclass: kv-figure"]
        return "\n".join([*head, "", caption, "", more, ":::"])

    def _bar(self) -> str:
        r, folder = self.record, f"../figures/{self.record.id}/"
        files = {
            "SVG": f"{folder}{r.id}.svg",
            "PNG": f"{folder}{r.id}.png",
            "CSV": f"{folder}{r.id}.csv",
            "Spec": f"{folder}{r.id}.vl.json",
            "Cite": f"{folder}index.html",
        }
        files["Source"] = f"{folder}index.html#reproduce"
        title = escape(r.title)
        links = [f'<a href="{address}">{word}<span class="visually-hidden"> of figure: {title}</span></a>' for word, address in files.items()]
        state = "default parameters" if not r.changed else ", ".join(f"{n} = {p.value}" for n, p in r.changed.items())
        facts = f'<span class="kv-facts">{r.id} · v{__version__} · {escape(state)}</span>'
        return f'<p class="kv-bar">{" ".join(links)} {facts}</p>'

    def _table(self) -> str:
        heads = "".join(f'<th scope="col">{escape(c)}{f" ({escape(u)})" if u else ""}</th>' for c, (u, _) in self.record.columns.items())
        rows = self.record.csv.decode().splitlines()
        import csv

        cells = list(csv.reader(rows))[1 : ROWS_SHOWN + 1]
        body = "".join("<tr>" + "".join(f"<td>{escape(v) or '–'}</td>" for v in row) + "</tr>" for row in cells)
        rest = self.record.rows - len(cells)
        more = f'<p class="kv-rest">{rest:,} more rows in the CSV.</p>' if rest > 0 else ""
        label = escape(f"Data of figure: {self.record.title}")
        box = f'<div class="kv-scroll" tabindex="0" role="region" aria-label="{label}"><table aria-label="{label}">'
        return f"<details><summary>Data table</summary>{box}<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>{more}</details>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[Bundle, Bundle]:
        self.save()
        r = self.record
        data: Bundle = {"text/plain": f"<Figure {r.id} p:{r.parameters_hash}>", "text/markdown": self.markdown(), MIME: r.meta()}
        if interactive():
            picture = base64.b64encode(self.svg().encode()).decode()
            words = f'<img alt="{escape(r.alt)}" src="data:image/svg+xml;base64,{picture}"><figcaption>{escape(r.caption)}</figcaption>'
            data["text/html"] = f"<figure>{words}</figure>"
        return data, {}


def csv_bytes(data: pd.DataFrame) -> bytes:
    """Return the rows as CSV, the same bytes on every machine: floats with 10 significant digits, UTF-8, line feeds, missing values empty.

    Examples
    --------
    >>> csv_bytes(pd.DataFrame({"a": [1, 2], "b": [1 / 3, None]})).decode()
    'a,b\\n1,0.3333333333\\n2,\\n'
    """
    import csv
    import io

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(data.columns)
    writer.writerows([_plain(v) for v in row] for row in data.itertuples(index=False, name=None))
    return out.getvalue().encode()


def _plain(value: Any) -> str:
    if value is None or value is pd.NaT or (isinstance(value, float) and pd.isna(value)):
        return ""
    if isinstance(value, bool) or type(value).__name__ == "bool":
        return str(bool(value)).lower()
    if isinstance(value, float) or type(value).__name__.startswith("float"):
        return f"{float(value):.10g}"
    if isinstance(value, pd.Timestamp):
        return value.strftime("%Y-%m-%d") if value == value.normalize() else value.isoformat()
    return str(value)


def _sources(figure_id: str, ids: Sequence[str]) -> dict[str, Source]:
    known = load_sources()
    if not ids:
        raise KvError(f"figure {figure_id}: no sources; accepted: ids of data/sources.toml, at least one")
    for name in ids:
        if name not in known:
            raise refuse(f"figure {figure_id}: source", name, "an id of data/sources.toml", known)
    return {name: known[name] for name in dict.fromkeys(ids)}


def _check(r: FigureRecord, data: pd.DataFrame) -> None:
    where = f"figure {r.id}"
    if r.id in current.figures and not interactive():
        raise KvError(f"{where}: the id is used already; accepted: an id of its own for each figure")
    if not r.alt.strip() or len(r.alt) > ALT_LIMIT or r.alt.strip().rstrip(".") == r.title.strip().rstrip("."):
        raise KvError(f"{where}: alt of {len(r.alt)} characters is not accepted; accepted: 1 to {ALT_LIMIT} that say more than the title")
    if not r.title.strip() or not r.caption.strip():
        raise KvError(f"{where}: title or caption is empty; accepted: a finding as title, what is drawn as caption")
    if list(r.columns) != list(data.columns):
        raise KvError(f"{where}: columns {list(data.columns)} are not those described, {list(r.columns)}; accepted: (unit, meaning) for every column, in order")
    if data.empty:
        raise KvError(f"{where}: no rows; accepted: data with at least one row")
    for mark, encoding in _encodings(r.spec):
        for side in ("x", "y"):
            scale = encoding.get(side, {}).get("scale") or {}
            if mark in ("bar", "area") and scale.get("type") == "log" and f"{side}2" not in encoding:
                raise KvError(f"{where}: a {mark} on a log {side} axis has no baseline; accepted: points, lines, ranges, or a {side}2")
    words = r.title + r.alt + json.dumps(r.spec, ensure_ascii=False)
    if any("\u4e00" <= c <= "\u9fff" for c in words) and not _han_font():
        raise KvError(f"{where}: Chinese characters need a font that has them; accepted: a machine with one, such as fonts-noto-cjk")


def _encodings(spec: Mapping[str, Any], above: Mapping[str, Any] | None = None) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (mark, encoding) of every view, encodings of outer layers included."""
    encoding = dict(above or {}) | spec.get("encoding", {})
    if "mark" in spec:
        mark = spec["mark"]
        yield (mark if isinstance(mark, str) else mark["type"]), encoding
    for key in ("layer", "hconcat", "vconcat", "concat"):
        for part in spec.get(key, ()):
            yield from _encodings(part, encoding)
    if isinstance(spec.get("spec"), Mapping):
        yield from _encodings(spec["spec"], encoding)


@cache
def _han_font() -> bool:
    try:
        return bool(subprocess.run(["fc-list", ":lang=zh"], capture_output=True, check=False, env=os.environ).stdout.strip())
    except OSError:
        return False
