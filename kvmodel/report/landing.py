"""The landing page of a figure, as HTML text. Pure functions; the page needs no script, no network and no other file than the figure's own."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from kvmodel.report import cite
from kvmodel.report.record import AUTHORS, BOOK, LICENCE, LICENCE_URL, Edition, FigureRecord, Source

PROCESSING_WORDS = {
    "none": "none: the values are shown as the sources give them",
    "minor": "minor: selected, converted or rounded",
    "major": "major: computed from the sources' values by the model",
}


@dataclass(frozen=True)
class Place:
    """Where a landing page stands: addresses relative to the page itself.

    `versions` lists the earlier ones: (version, address or empty, what changed after it), newest first.
    """

    chapter: str  # the figure on its chapter page
    home: str  # the front page of the book
    every: str  # the page that lists every figure
    code: str = ""  # the chapter as a notebook, where the site has it
    versions: Sequence[tuple[str, str, str]] = ()


def landing(figure: FigureRecord, edition: Edition, place: Place, caption_html: str) -> str:
    """Return the landing page of a figure: finding, picture, citations, how to reproduce it, parameters, data, sources, licence."""
    citations = [
        ("In-line", "inline", "", cite.inline(figure, edition)),
        ("Full", "full", "cite.txt", cite.full(figure, edition)),
        ("BibTeX", "bibtex", "cite.bib", cite.bibtex(figure, edition).rstrip()),
        ("CSL-JSON", "csl-json", "cite.json", cite.csl_text(figure, edition).rstrip()),
    ]
    return _render(
        "figure.html",
        figure=figure, edition=edition, place=place, caption=caption_html, axes=axes(figure.spec), linked=json_ld(figure, edition, place),
        citations=citations, processing=PROCESSING_WORDS[figure.processing], cite=cite,
    )  # fmt: skip


def moved(figure_id: str, entry: Mapping[str, Any], place: Place) -> str:
    """Return the page of a retired figure, which points on."""
    return _render("retired.html", id=figure_id, entry=entry, place=place)


def listing(figures: Sequence[Mapping[str, Any]]) -> str:
    """Return the list of the page of every figure: in order of reading, each with id, title, alt, parameters_hash,
    order and title of its chapter, number, picture, page and anchor.
    """
    return _render("listing.html", figures=figures)


@cache
def _environment() -> Environment:
    loader = FileSystemLoader(Path(__file__).parent / "templates")
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.globals |= {"BOOK": BOOK, "AUTHORS": AUTHORS, "LICENCE": LICENCE, "LICENCE_URL": LICENCE_URL}
    return made


def _render(template: str, **values: Any) -> str:
    return _environment().get_template(template).render(**values)


def json_ld(figure: FigureRecord, edition: Edition, place: Place) -> dict[str, Any]:
    """Return the JSON-LD of a figure: the picture, its data, the code and the book, each under its own role.

    Addresses are those of the frozen copy where the site has a public address, else relative to the page.
    """
    base = edition.address(figure.id)
    at = {suffix: f"{base}{figure.id}.{suffix}" for suffix in ("svg", "png", "csv")}
    common = {"license": LICENCE_URL, "creator": {"@type": "Organization", "name": AUTHORS}, "version": edition.version}
    image = {
        "@type": "ImageObject", "@id": "#image", "identifier": f"fig:{figure.id}", "name": figure.title, "caption": figure.caption, "description": figure.alt,
        "contentUrl": at["svg"], "encodingFormat": "image/svg+xml", "thumbnailUrl": at["png"], "acquireLicensePage": f"{base}index.html",
        "creditText": cite.inline(figure, edition), "isPartOf": {"@id": "#report"}, "isBasedOn": [{"@id": "#data"}, {"@id": "#code"}],
    }  # fmt: skip
    data = {
        "@type": "Dataset", "@id": "#data", "identifier": f"sha256:{figure.data_sha256}", "name": f"Data of figure {figure.id}",
        "description": f"Data of the figure: {figure.title}. {figure.alt}", "citation": cite.full(figure, edition),
        "variableMeasured": [_drop({"@type": "PropertyValue", "name": n, "description": m, "unitText": u}) for n, (u, m) in figure.columns.items()],
        "distribution": [{"@type": "DataDownload", "contentUrl": at["csv"], "encodingFormat": "text/csv", "sha256": figure.data_sha256}],
        "isBasedOn": [_work(source) for source in figure.sources.values()],
    }  # fmt: skip
    code = {
        "@type": "SoftwareSourceCode", "@id": "#code", "name": "kvmodel", "version": edition.version, "identifier": edition.commit,
        "programmingLanguage": "Python", "url": place.code and urljoin(base, place.code),
    }  # fmt: skip
    report = {
        "@type": "Report", "@id": "#report", "name": BOOK, "datePublished": f"{edition.year}-{edition.month:02}", "url": urljoin(base, place.home),
        "description": "Recomputed by a reader; not the published edition" if edition.recomputed else "",
    }  # fmt: skip
    return {"@context": "https://schema.org", "@graph": [_drop(part) for part in (image | common, data | common, code, report | common)]}


def axes(spec: Any) -> dict[str, list[str]]:
    """Return the axis titles that a Vega-Lite specification names, for `x` and `y`, in order of first use."""
    found: dict[str, dict[str, None]] = {"x": {}, "y": {}}
    for encoding in _encodings(spec):
        for channel, titles in found.items():
            entry = encoding.get(channel)
            if isinstance(entry, Mapping):
                axis = entry.get("axis")
                title = entry.get("title") or (axis.get("title") if isinstance(axis, Mapping) else None)
                titles |= {" ".join(title) if isinstance(title, list) else title: None} if title else {}
    return {channel: list(titles) for channel, titles in found.items()}


def _encodings(spec: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(spec, Mapping):
        if isinstance(spec.get("encoding"), Mapping):
            yield spec["encoding"]
        for name, part in spec.items():
            if name not in ("data", "datasets", "encoding"):
                yield from _encodings(part)
    elif isinstance(spec, list):
        for part in spec:
            yield from _encodings(part)


def _drop(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if value not in ("", [], None)}


def _work(source: Source) -> dict[str, Any]:
    publisher = {"@type": "Organization", "name": source.producer} if source.producer else ""
    dated = source.published if re.fullmatch(r"\d{4}(-\d\d){0,2}", source.published) else ""
    return _drop({"@type": "CreativeWork", "name": source.title, "publisher": publisher, "datePublished": dated, "url": source.url})
