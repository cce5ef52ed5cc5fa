"""What the front page, `headlines.json` and README gather from the executed chapters."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from kvmodel import __version__
from kvmodel.report.cells import executed_notebooks, read_headlines
from kvmodel.report.record import BOOK
from kvmodel.units import KvError

PYRAMID = "memory-pyramid"
PLATFORM = "h100-8"  # the node of the pyramid picture
# What the front page says, in its order: headline id, and the words before its number, with the parameters of its chapter.
SELECTED = {
    "kv-llama-70b-100k": "KV cache of one request of 100,000 tokens on Llama-3.3-70B",
    "kv-llama-405b-1m": "The same at one million tokens on Llama-3.1-405B",
    "serving-users": "Users of {context_tokens} tokens on {model} that one {platform} node holds beside the weights",
    "main-load": "One session of {context_tokens} tokens on {model} back from host memory",
    "context-load": "The same session back from flash in the server",
    "pyramid-speedup": "Recomputing a session of {context_tokens} tokens against loading it from host memory",
    "reuse-hour": "Prompt blocks that coding agents find again if KV is kept for an hour",
    "growth-windows": "Growth of context windows released from {start} to {end}",
    "growth-kv-per-token": "KV bytes per token of new models, against those of the year before",
    "demand-world-bytes": "KV that chat and agents worldwide keep at one time in {year} (estimate; the range is an envelope)",
}
README = ("kv-llama-70b-100k", "kv-llama-405b-1m", "serving-users")
PICTURE = "book/_assets/pyramid.svg"
README_MARKS = ("<!-- headlines -->", "<!-- /headlines -->")


def headlines(folder: Path | None = None) -> dict[str, dict[str, Any]]:
    """Return every headline of the executed chapters by id, in reading order of the files, each with its chapter's `parameters` in words.

    Raises
    ------
    KvError : an id used by two chapters
    """
    found: dict[str, dict[str, Any]] = {}
    for path in sorted((folder or executed_notebooks()).glob("*.ipynb")):
        records = read_headlines(path)
        parameters = _parameters(path) if records else {}
        for record in records:
            if record["id"] in found:
                raise KvError(f"headline: {record['id']!r} stands in {found[record['id']]['chapter']} and in {record['chapter']}; accepted: an id used once")
            found[record["id"]] = record | {"parameters": parameters}
    return found


def _parameters(notebook: Path) -> dict[str, str]:
    from kvmodel.report.chapters import Chapter
    from kvmodel.report.cite import shown

    return {p.name: shown(p.default) for p in Chapter(notebook).parameters.values()}


def words(name: str, record: Mapping[str, Any]) -> str:
    """Return what the front page says before the number of a headline."""
    return SELECTED[name].format(**record["parameters"])


def selected(found: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """Return the front page's table: what, number, range, where it is worked out, and the id to cite.

    Raises
    ------
    KvError : a headline that no chapter records
    """
    missing = [name for name in SELECTED if name not in found]
    if missing:
        raise KvError(f"front page: no chapter records the headline {missing[0]!r}; accepted: an id that a chapter records")
    rows = [(f"{words(i, found[i])} `{i}`", found[i]["text"], span(found[i]), f"[{found[i]['chapter']}]({found[i]['chapter']}.ipynb)") for i in SELECTED]
    return pd.DataFrame(rows, columns=["what, and the id to cite", "number", "range", "worked out in"])


def span(record: Mapping[str, Any]) -> str:
    """Return the range of a headline in words; `exact` where it has none.

    Examples
    --------
    >>> span({"low": None, "high": None, "unit": "bytes", "exact": True}), span({"low": 1.5, "high": 2, "unit": "x", "exact": False})
    ('exact', '1.5 to 2 x')
    """
    if record["exact"]:
        return "exact"
    return " to ".join("?" if record[end] is None else _words(record[end], record["unit"]) for end in ("low", "high")) + _tail(record["unit"])


def _words(value: float, unit: str) -> str:
    from kvmodel.units import format_bytes, format_seconds, significant

    if unit in ("bytes", "bytes/s"):
        return format_bytes(value)
    return format_seconds(value) if unit == "s" else significant(value)


def _tail(unit: str) -> str:
    return "/s" if unit == "bytes/s" else "" if unit in ("bytes", "s", "ratio", "share") else f" {unit}"


def pyramid_words(data: pd.DataFrame) -> dict[str, Any]:
    """Return title, alt, caption, columns and sources of the pyramid picture, with live numbers."""
    from kvmodel.hardware import node
    from kvmodel.report.frames_tiers import pyramid_sources
    from kvmodel.units import format_bytes, significant

    tiers = data[data["mark"] == "platform"]
    near, far = tiers.iloc[0], tiers.iloc[-1]
    capacity, speed = far["capacity_low"] / near["capacity_low"], near["bandwidth_low"] / far["bandwidth_low"]
    ends = " to ".join(f"{format_bytes(t['capacity_low'])} at {format_bytes(t['bandwidth_low'])}/s" for t in (near, far))
    return {
        "title": f"From HBM to the data lake, capacity rises {significant(capacity, 2)}-fold and bandwidth falls {significant(speed, 2)}-fold",
        "alt": f"Scatter plot, log scales, of capacity against bandwidth for one accelerator: five tiers run from {ends}.",
        "caption": f"For one accelerator of {node(PLATFORM).name}. Bands: the ranges of the article, converted. Rings: vendor claims; filled points: measured."
        " Dashed: the five tiers of this server, near to far.",
        "columns": {
            "mark": ("", "article, device or platform"), "tier": ("", "tier"), "rank": ("rank", "1 is nearest"), "name": ("", "what is drawn"),
            "kind": ("", "kind of the value"), "capacity_low": ("bytes", "capacity, low end"), "capacity_high": ("bytes", "capacity, high end"),
            "bandwidth_low": ("bytes/s", "bandwidth, low end"), "bandwidth_high": ("bytes/s", "bandwidth, high end"),
        },
        "sources": pyramid_sources(node(PLATFORM)),
    }  # fmt: skip


def write_headlines(site: Path, folder: Path) -> Path:
    """Write `headlines.json` of a built site: every headline with unit, range, chapter and the hash of its chapter's parameters; returns its path."""
    rows = [r | {"parameters_hash": _hash(folder / f"{r['chapter']}.ipynb")} for r in headlines(folder).values()]
    document = {"book": BOOK, "version": __version__, "headlines": rows}
    path = site / "headlines.json"
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return path


def _hash(notebook: Path) -> str:
    from kvmodel.report.chapters import Chapter
    from kvmodel.report.parameters import parameters_hash

    return parameters_hash({p.name: p.default for p in Chapter(notebook).parameters.values()})


def readme(text: str, found: Mapping[str, Mapping[str, Any]]) -> str:
    """Return README with its three headline numbers as the chapters have them."""
    lines = [f"- {words(i, found[i])}: **{found[i]['text']}** ({span(found[i])})" for i in README]
    before, rest = text.split(README_MARKS[0])
    return f"{before}{README_MARKS[0]}\n{chr(10).join(lines)}\n{README_MARKS[1]}{rest.split(README_MARKS[1])[1]}"


def pyramid_svg() -> str:
    """Return the pyramid picture as README shows it: the same figure as on the front page."""
    from kvmodel.hardware import node
    from kvmodel.report import charts, draw
    from kvmodel.report.cells import chapter
    from kvmodel.report.figure import Figure
    from kvmodel.report.frames_tiers import pyramid_frame
    from kvmodel.report.publish import tag_svg
    from kvmodel.report.record import Edition

    chapter("index")
    data = pyramid_frame(node(PLATFORM))
    figure = Figure(PYRAMID, charts.pyramid(data), data, **pyramid_words(data))
    return tag_svg(draw.svg(figure.record), figure.record, Edition(__version__))


def write_readme(root: Path) -> None:
    """Write README's headline numbers and its picture from the committed chapters."""
    path = root / "README.md"
    path.write_text(readme(path.read_text("utf-8"), headlines(root / "book")), "utf-8")
    (root / PICTURE).write_text(pyramid_svg(), "utf-8")
