"""Citations of a figure, as text: in-line, full, BibTeX, CSL-JSON. Pure functions of the record and the edition.

A citation always names the producers of the data, and no field is ever a placeholder: what is not known is left out.
"""

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from kvmodel.report.record import AUTHORS, BOOK, LICENCE, UNDATED, Edition, FigureRecord, Source

MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
LATEX = str.maketrans({
    "\\": r"\textbackslash{}", "{": r"\textbraceleft{}", "}": r"\textbraceright{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "$": r"\$",
})  # fmt: skip
NAMED_IN_LINE = 3  # more producers than this, and the first stands for all
LISTED_IN_FULL = 8  # more sources than this, and their producers and years stand for them; titles are with the figure


def inline(record: FigureRecord, edition: Edition) -> str:
    """Return the citation for a sentence or a slide."""
    if edition.recomputed:
        return f"{_recomputed(record, edition)}{_credit(record)}."
    return f"{BOOK} ({edition.year}), fig. {record.id}, v{edition.version}{_credit(record)}."


def full(record: FigureRecord, edition: Edition) -> str:
    """Return the citation for a list of references.

    Where the figure has no public address the whole data hash stands in for it.
    """
    address, data = edition.address(record.id), record.data_sha256
    if edition.recomputed:
        head = f"{_recomputed(record, edition)}. {_quoted(record.title)} [data sha256:{data}]. Book by {AUTHORS} ({edition.year})."
    else:
        facts = f"figure {record.id}, parameters p:{record.parameters_hash}, data sha256:{data[:12] if address else data}"
        head = f"{AUTHORS} ({edition.year}). {_quoted(record.title)} [{facts}]. In: {BOOK}, version {edition.version}."
    return " ".join(part for part in (head, address, _based(record), f"Licence {LICENCE}.") if part)


def bibtex(record: FigureRecord, edition: Edition) -> str:
    """Return one BibTeX entry; text is escaped for LaTeX, the address is left as it is."""
    published = f"In: {BOOK}, version {edition.version}"
    fields = {
        "author": f"{{{{{_latex(AUTHORS)}}}}}",
        "title": f"{{{{{_latex(_line(record.title))}}}}}",
        "howpublished": f"{{{_latex(published.replace('In:', 'Recomputed from:') if edition.recomputed else published)}}}",
        "year": f"{{{edition.year}}}",
        "month": MONTHS[edition.month - 1],
        "version": f"{{{_latex(edition.version)}}}",
        "url": f"{{{edition.address(record.id)}}}" if edition.address(record.id) else "",
        "note": f"{{{_latex(_note(record, edition))}}}",
    }
    lines = ",\n".join(f"  {name} = {value}" for name, value in fields.items() if value)
    return f"@misc{{{key(record, edition)},\n{lines}\n}}\n"


def csl(record: FigureRecord, edition: Edition) -> list[dict[str, Any]]:
    """Return the CSL-JSON document: a list with one item of type `graphic`."""
    item = {
        "id": key(record, edition),
        "type": "graphic",
        "title": _line(record.title),
        "author": [{"literal": AUTHORS}],
        "issued": {"date-parts": [[int(edition.year), edition.month]]},
        "container-title": BOOK,
        "version": edition.version,
        "URL": edition.address(record.id),
        "note": _note(record, edition),
    }
    return [{name: value for name, value in item.items() if value}]


def csl_text(record: FigureRecord, edition: Edition) -> str:
    """Return the CSL-JSON document as text."""
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in csl(record, edition)[0].items())
    return f"[\n {{\n{lines}\n }}\n]\n"


def key(record: FigureRecord, edition: Edition) -> str:
    """Return the citation key; a recomputed figure carries its parameter hash, so that it cannot pass for the published one."""
    return f"kvbook-fig-{record.id}-{edition.version}" + (f"-p{record.parameters_hash}" if edition.recomputed else "")


def command(record: FigureRecord) -> str:
    """Return the shell command that makes the figure again."""
    return run_command(record.chapter, {name: p.value for name, p in record.changed.items()})


def run_command(what: str, values: Mapping[str, int | float | str | bool]) -> str:
    """Return the shell command that runs a chapter (or `--all`) with these values."""
    return " ".join([f"kvmodel run {what}", *(f"-p {shlex.quote(f'{name}={_typed(value)}')}" for name, value in values.items())])


def changes(record: FigureRecord) -> str:
    """Return the parameters that differ from their defaults, in words."""
    return ", ".join(f"{name} = {shown(p.value)}" for name, p in record.changed.items()) or "default parameters"


def shown(value: int | float | str | bool) -> str:
    """Return a parameter value as prose has it: thousands separated, long text cut.

    Examples
    --------
    >>> shown(2_000_000), shown(2030), shown(True), shown("a " * 40)
    ('2,000,000', '2030', 'true', 'a a a a a a a a a a a a a a a a a a a a …')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    text = _line(str(value))
    return text if len(text) <= 60 else f"{text[:40].rstrip()} …"


def credits(sources: Iterable[Source]) -> list[str]:
    """Return each producer once with the years of its sources, such as `Micron (2025, 2026)`, in order of first use."""
    years: dict[str, list[str]] = {}
    for source in sources:
        years.setdefault(_line(source.credit), []).append(source.year)
    dated = {name: sorted(set(found) - {UNDATED}) or [UNDATED] for name, found in years.items()}
    return [f"{name} ({', '.join(found)})" for name, found in dated.items()]


def producers(record: FigureRecord) -> str:
    """Return the producers with years, as a foot line or an in-line citation names them: at most three, else the first and other sources."""
    named = credits(record.sources.values())
    return ", ".join(named) if len(named) <= NAMED_IN_LINE else f"{named[0]} and other sources"


def _credit(record: FigureRecord) -> str:
    return f"; data: {producers(record)}{_processing(record)}" if record.sources else ""


def _based(record: FigureRecord) -> str:
    sources = list(record.sources.values())
    if len(sources) > LISTED_IN_FULL:
        return f"Based on {len(sources)} sources: {', '.join(credits(sources))}{_processing(record)}."
    return f"Based on: {'; '.join(map(_work, sources))}{_processing(record)}." if sources else ""


def _processing(record: FigureRecord) -> str:
    return "" if record.processing == "none" else f" – with {record.processing} processing"


def _recomputed(record: FigureRecord, edition: Edition) -> str:
    return f"Recomputed from {BOOK} v{edition.version}, fig. {record.id}, with {changes(record)} (p:{record.parameters_hash}); command: {command(record)}"


def _note(record: FigureRecord, edition: Edition) -> str:
    facts = [f"Figure {record.id}", f"parameters p:{record.parameters_hash}", f"data sha256:{record.data_sha256}", edition.commit_words]
    if edition.recomputed:
        facts[1:2] = [f"recomputed with {changes(record)} (p:{record.parameters_hash})", f"command: {command(record)}"]
    return "; ".join(fact for fact in facts if fact) + _credit(record) + f". Licence {LICENCE}."


def _work(source: Source) -> str:
    named = [_line(source.producer)] if source.producer else []
    return ", ".join([*named, _quoted(source.title), source.year])


def _typed(value: int | float | str | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def _quoted(title: str) -> str:
    return '"' + _line(title).replace('"', "'") + '"'


def _latex(text: str) -> str:
    return text.translate(LATEX)
