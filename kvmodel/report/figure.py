"""One call for a figure: picture, alt text, caption, number, files, data table, citation."""

import base64
import csv
import io
import json
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from typing import Any

import pandas as pd

from kvmodel import __version__
from kvmodel.report import cite, draw, theme
from kvmodel.report.cells import Bundle, current, figures_folder, interactive
from kvmodel.report.checks import check
from kvmodel.report.parameters import READER_CONFIG
from kvmodel.report.record import MIME, FigureRecord, Source, load_sources
from kvmodel.units import KvError, refuse, significant

ROWS_SHOWN = 30
DIGITS_SHOWN = 4


class Figure:
    """A figure of the book; as the last expression of a cell it shows itself.

    Parameters
    ----------
    id : permanent id, kebab-case; its anchor is `fig-<id>`
    chart : Altair chart, without title and configuration
    data : the rows that are drawn, tidy
    title : the finding, as a sentence
    alt : kind of chart, of what, where the reason to look; at most 250 characters, not the title
    caption : what is drawn, conditions, how to read it; one paragraph of MyST
    columns : column of `data` to (unit, meaning); every column; a number has a unit (`ratio` or `1` where it has none)
    sources : ids of `data/sources.toml`
    processing : what we did to the sources' values: none, minor, major

    Raises
    ------
    KvError : an id that is no address or is used already, no or an unknown source, and all that `kvmodel.report.checks` refuses
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
        self.record = FigureRecord(
            id, " ".join(title.split()), current.slug, current.hash, caption=" ".join(caption.split()), alt=" ".join(alt.split()), columns=dict(columns),
            sources=_sources(id, sources), parameters=current.parameters, processing=processing, csv=csv_bytes(data), spec=_spec(chart, title),
        )  # fmt: skip
        check(self.record, data, draw.foot(self.record))
        if id in current.figures and not interactive():  # a person may run a cell again
            raise KvError(f"figure {id}: the id is used already; accepted: an id of its own for each figure of the book")
        current.figures.add(id)

    def markdown(self) -> str:
        """Return the MyST figure directive: picture with alt and caption, the bar of its files, its data."""
        r, title = self.record, escape(self.record.title)
        alt = json.dumps(r.alt, ensure_ascii=False)  # option lines are YAML
        head = [f":::{{figure}} ../_figures/figures/{r.id}/{r.id}.*", f":name: fig-{r.id}", f":alt: {alt}", ":figclass: kv-figure"]
        hidden = f'<span class="visually-hidden">{title}. </span>'  # it stands in the picture
        more = [f'<div class="kv-more" data-figure="{r.id}">', self._bar(title), *self._table(title), "</div>"]
        return "\n".join([*head, "", hidden + r.caption, "", *more, ":::"])

    def _bar(self, title: str) -> str:
        r, folder = self.record, f"../figures/{self.record.id}/"
        addresses = {word: f"{folder}{r.id}.{suffix}" for word, suffix in (("SVG", "svg"), ("PNG", "png"), ("CSV", "csv"), ("Spec", "vl.json"))}
        addresses |= {"Cite": f"{folder}index.html#cite", "Source": f"../_sources/book/{r.chapter}.ipynb"}
        links = " · ".join(f'<a href="{address}">{word}<span class="visually-hidden"> of figure: {title}</span></a>' for word, address in addresses.items())
        facts = f"{r.id} · v{__version__} · p:{r.parameters_hash} · {escape(cite.changes(r))}"
        return f'<p class="kv-bar">{links}</p>\n<p class="kv-facts">{facts}</p>'

    def _table(self, title: str) -> list[str]:
        columns = {name: self.record.columns[name] for name in map(str, self.data.columns)}
        heads = "".join(f'<th scope="col">{escape(c)}{f" ({escape(u)})" if u else ""}</th>' for c, (u, _) in columns.items())
        shown = self.data.head(ROWS_SHOWN)
        number = [pd.api.types.is_numeric_dtype(shown[c]) and not pd.api.types.is_bool_dtype(shown[c]) for c in shown.columns]
        tags = ['<td class="kv-number">' if n else "<td>" for n in number]
        rows = ["<tr>" + "".join(f"{tag}{_shown(v)}</td>" for tag, v in zip(tags, row)) + "</tr>" for row in shown.itertuples(index=False, name=None)]
        rest = f"; the first {ROWS_SHOWN} of {len(self.data):,} rows" if len(self.data) > ROWS_SHOWN else ""
        return [
            f"<details><summary>Data table<span class=\"visually-hidden\"> of figure: {title}</span></summary>",
            f"<p>Rounded to {DIGITS_SHOWN} digits{rest}; the CSV has all.</p>",
            f'<div class="kv-scroll" tabindex="0" role="region" aria-label="Data of figure: {title}">',
            f'<table><caption class="visually-hidden">Data of figure: {title}</caption>',
            f"<thead><tr>{heads}</tr></thead>",
            "<tbody>", *rows, "</tbody></table></div></details>",
        ]  # fmt: skip

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[Bundle, Bundle]:
        if (folder := figures_folder()) is not None:
            draw.draw(self.record, folder)
        r = self.record
        data: Bundle = {"text/plain": f"<Figure {r.id} p:{r.parameters_hash}>", "text/markdown": self.markdown(), MIME: r.meta()}
        if interactive():
            picture = base64.b64encode(draw.svg(self.record).encode()).decode()
            words = f'<img alt="{escape(r.alt)}" src="data:image/svg+xml;base64,{picture}"><figcaption>{escape(r.caption)}</figcaption>'
            data["text/html"] = f"<figure>{words}</figure>"
        return data, {}


def _spec(chart: Any, title: str) -> dict[str, Any]:
    spec: dict[str, Any] = chart.to_dict()
    if "title" in spec or spec.get("config", {}).keys() - {"view"}:
        raise KvError("chart: a title or a configuration of its own is not accepted; accepted: a plain chart, the figure brings both")
    return spec | {"config": theme.config(), "title": {"text": theme.wrap(title, theme.WIDTH, 16, bold=True)}}


def csv_bytes(data: pd.DataFrame) -> bytes:
    """Return the rows as CSV, the same bytes on every machine: floats with 10 significant digits, UTF-8, line feeds, missing values empty.

    Examples
    --------
    >>> csv_bytes(pd.DataFrame({"a": [1, 2], "b": [1 / 3, None]})).decode()
    'a,b\\n1,0.3333333333\\n2,\\n'
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(data.columns)
    writer.writerows([_plain(v) for v in row] for row in data.itertuples(index=False, name=None))
    return out.getvalue().encode()


def _plain(value: Any) -> str:
    if _missing(value):
        return ""
    kind = type(value).__name__  # numpy has bools and floats of its own
    if kind in ("bool", "bool_"):
        return str(bool(value)).lower()
    if kind.startswith("float"):
        return f"{float(value) + 0.0:.10g}"  # no -0
    if isinstance(value, pd.Timestamp):
        return value.strftime("%Y-%m-%d") if value == value.normalize() else value.isoformat()
    return str(value)


def _missing(value: Any) -> bool:
    return bool(pd.api.types.is_scalar(value) and pd.isna(value))


def _shown(value: Any) -> str:
    """One value of the data table, as HTML text."""
    if _missing(value):
        return "–"
    number = float(value) if type(value).__name__.startswith(("float", "int", "uint")) else None
    if number is None or number in (float("inf"), float("-inf")):
        return escape(_plain(value))
    if number.is_integer() and abs(number) < 1e15:
        return f"{int(value):,}" if abs(number) >= 10_000 else str(int(value))
    return significant(number, DIGITS_SHOWN)


@cache
def _known_sources() -> dict[str, Source]:
    return load_sources() | {READER_CONFIG: Source("Model configuration given by the reader of this run")}


def _sources(figure_id: str, ids: Sequence[str]) -> dict[str, Source]:
    known = _known_sources()
    if not ids or isinstance(ids, str):
        raise KvError(f"figure {figure_id}: sources {ids!r} is not accepted; accepted: a list of ids of data/sources.toml, at least one")
    for name in ids:
        if name not in known:
            raise refuse(f"figure {figure_id}: source", name, "an id of data/sources.toml", known)
    return {name: known[name] for name in dict.fromkeys(ids)}
