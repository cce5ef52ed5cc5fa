"""The folder of a figure, `figures/<id>/`: picture, data, specification, citations, facts, landing page.

`write_folder` is called where the figure is drawn (a kernel of the book build or of `kvmodel run`); `finish` when the site around it exists.
"""

import json
import struct
import tomllib
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any

from kvmodel import __version__
from kvmodel.report import cite
from kvmodel.report.landing import Place, landing, moved
from kvmodel.report.lock import LOCK, read_lock
from kvmodel.report.record import AUTHORS, LICENCE, LICENCE_URL, SUFFIXES, Edition, FigureRecord, from_meta, source


def write_folder(record: FigureRecord, svg: str, png: bytes, figures: Path) -> Path:
    """Return the folder of a figure below `figures`, with its picture, data, specification and facts written."""
    folder = figures / record.id
    folder.mkdir(parents=True, exist_ok=True)
    edition = Edition(__version__)
    spec = json.dumps(record.spec, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    content = {"svg": tag_svg(svg, record, edition).encode(), "png": tag_png(png, record, edition), "csv": record.csv, "vl.json": spec.encode()}
    for suffix in SUFFIXES:
        (folder / f"{record.id}.{suffix}").write_bytes(content[suffix])
    _write_facts(folder, record, edition)
    return folder


def read_folder(folder: Path) -> FigureRecord:
    """Return the record of a figure as its folder holds it, data and specification included."""
    facts = json.loads((folder / "figure.json").read_text("utf-8"))
    record = from_meta(facts, {name: source(entry) for name, entry in facts["sources"].items()})
    spec = json.loads((folder / f"{record.id}.vl.json").read_text("utf-8"))
    return replace(record, csv=(folder / f"{record.id}.csv").read_bytes(), spec=spec)


def finish(site: Path, root: Path, edition: Edition) -> list[FigureRecord]:
    """Write citations, facts and landing page into every figure folder of a built site, and a page that points on for every retired id.

    Parameters
    ----------
    site : the built site, with `book/` pages and `figures/` in it
    root : the checkout, for the lock file and for the kinds of value that each source gives
    """
    lock = read_lock(root) if (root / LOCK).is_file() else {"figures": {}}
    kinds = source_kinds(root)
    done = []
    for folder in sorted(path.parent for path in site.glob("figures/*/figure.json")):
        record = read_folder(folder)
        record = replace(record, sources={name: replace(s, kinds=tuple(sorted(kinds[name]))) for name, s in record.sources.items()})
        (folder / "cite.txt").write_text(f"{cite.full(record, edition)}\n\n{cite.inline(record, edition)}\n", "utf-8")
        (folder / "cite.bib").write_text(cite.bibtex(record, edition), "utf-8")
        (folder / "cite.json").write_text(cite.csl_text(record, edition), "utf-8")
        _write_facts(folder, record, edition)
        place = _place(site, record.id, record.chapter, lock["figures"].get(record.id, {}))
        (folder / "index.html").write_text(landing(record, edition, place, _inline(record.caption)), "utf-8")
        done.append(record)
    if not edition.recomputed:
        _retired(site, lock)
    return done


def source_kinds(root: Path) -> defaultdict[str, set[str]]:
    """Return the kinds of value (`datasheet`, `measured`, ...) that specs and data take from each source, by source id."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for path in sorted((Path(__file__).parents[1] / "specs").rglob("*.toml")):
        for name, kind in _kinds(tomllib.loads(path.read_text("utf-8"))):
            found[name].add(kind)
    for path in sorted((root / "data").glob("*.csv")):
        import csv

        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if row.get("kind") and (row.get("source") or row.get("source_id")):
                    found[row.get("source") or row["source_id"]].add(row["kind"])
    return found


def _kinds(part: Any) -> Iterator[tuple[str, str]]:
    """Yield (source id, kind) from tables that hold `kind` and `source` or `sources`, and from cards, whose `kinds` and `sources` go by field."""
    if isinstance(part, list):
        for entry in part:
            yield from _kinds(entry)
    if not isinstance(part, Mapping):
        return
    for entry in part.values():
        yield from _kinds(entry)
    named, kind, sources = part.get("source", ()), part.get("kind"), part.get("sources", ())
    if isinstance(kind, str):
        names = [named] if isinstance(named, str) else list(named) + (list(sources) if isinstance(sources, list) else [])
        yield from ((name, kind) for name in names if isinstance(name, str))
    if isinstance(sources, Mapping) and isinstance(part.get("kinds"), Mapping):
        yield from ((name, k) for key, k in part["kinds"].items() for name in sources.get(key, ()))


def _write_facts(folder: Path, record: FigureRecord, edition: Edition) -> None:
    names = [path.name for path in sorted(folder.iterdir()) if path.name not in ("figure.json", "index.html")]
    facts = record.meta() | {
        "sources": {name: {k: v for k, v in asdict(s).items() if v} for name, s in record.sources.items()},
        "caption": record.caption,
        "alt": record.alt,
        "columns": {name: {"unit": unit, "meaning": meaning} for name, (unit, meaning) in record.columns.items()},
        "rows": record.rows,
        "version": edition.version,
        "commit": edition.commit,
        "uncommitted_changes": edition.dirty,
        "recomputed": edition.recomputed,
        "address": edition.address(record.id),
        "command": cite.command(record),
        "licence": LICENCE,
        "files": {name: sha256((folder / name).read_bytes()).hexdigest() for name in names},
    }
    plain = {key: value for key, value in facts.items() if value != ""}  # no commit, no address: no key
    (folder / "figure.json").write_text(json.dumps(plain, indent=1, ensure_ascii=False) + "\n", "utf-8")


def _place(site: Path, figure_id: str, chapter: str, entry: Mapping[str, Any]) -> Place:
    up = "../../"
    every = f"{up}book/figures.html" if (site / "book/figures.html").is_file() else f"{up}index.html"
    notebook = next((f"{up}{path.relative_to(site).as_posix()}" for path in site.glob(f"_sources/book/{chapter}.ipynb*")), "")
    return Place(f"{up}book/{chapter}.html#fig-{figure_id}", f"{up}index.html", every, notebook, versions(site, figure_id, entry))


def versions(site: Path, figure_id: str, entry: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return the frozen and earlier versions of a figure, newest first: version, address or empty, how the next version differs from it."""
    known: dict[str, Mapping[str, Any]] = {past["version"]: past for past in entry.get("history", ())}
    for path in site.glob(f"v/*/figures/{figure_id}/figure.json"):
        known[path.parents[2].name] = json.loads(path.read_text("utf-8"))
    rows, after = [], entry
    for version in sorted(known, key=lambda v: [int(n) if n.isdigit() else 0 for n in v.split(".")], reverse=True):
        past = known[version]
        frozen = f"../../v/{version}/figures/{figure_id}/index.html" if (site / "v" / version / "figures" / figure_id).is_dir() else ""
        rows.append((version, frozen, _difference(past, after, version)))
        after = past
    return rows


def _difference(past: Mapping[str, Any], after: Mapping[str, Any], version: str) -> str:
    if not after or after.get("version") == version:
        return "this version, frozen"
    changed = [word for key, word in (("data_sha256", "data"), ("parameters_hash", "default parameters")) if past[key] != after[key]]
    return f"{' and '.join(changed)} changed after it" if changed else "the same data as the version after it"


def _retired(site: Path, lock: Mapping[str, Any]) -> None:
    for figure_id, entry in lock["figures"].items():
        if "retired" in entry:
            folder = site / "figures" / figure_id
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "index.html").write_text(moved(figure_id, entry, _place(site, figure_id, entry["chapter"], entry)), "utf-8")


def _inline(markdown: str) -> str:
    from markdown_it import MarkdownIt

    return str(MarkdownIt("commonmark", {"html": False}).renderInline(markdown))


def _marks(record: FigureRecord, edition: Edition) -> dict[str, str]:
    """Return what a picture says of itself when it is found alone; no commit, so that the bytes do not change with it."""
    return {
        "Title": record.title,
        "Description": record.alt,
        "Source": f"{cite.inline(record, edition)} Parameters p:{record.parameters_hash}; data sha256:{record.data_sha256}.",
        "Author": AUTHORS,
        "Copyright": f"{LICENCE} {LICENCE_URL}",
    }


def tag_svg(svg: str, record: FigureRecord, edition: Edition) -> str:
    """Return the picture with `<title>`, `<desc>` and `<metadata>` as first children, and the role of an image."""
    marks = _marks(record, edition)
    start = svg.index("<svg") + len("<svg")
    body = svg.index(">", start)
    kept = svg[start:body] if " role=" in svg[start:body] else f' role="img"{svg[start:body]}'
    facts = escape("; ".join(f"{name}: {marks[name]}" for name in ("Source", "Author", "Copyright")))
    inside = f"<title>{escape(marks['Title'])}</title><desc>{escape(marks['Description'])}</desc><metadata>{facts}</metadata>"
    return f"{svg[:start]}{kept}>{inside}{svg[body + 1 :]}"


def tag_png(png: bytes, record: FigureRecord, edition: Edition) -> bytes:
    """Return the picture with its facts as international text chunks, right after the header chunk."""
    if not png.startswith(b"\x89PNG\r\n\x1a\n"):
        raise ValueError("not a PNG picture")
    after_header = 8 + 12 + struct.unpack(">I", png[8:12])[0]
    chunks = b"".join(_chunk(b"iTXt", name.encode() + b"\0\0\0\0\0" + text.encode()) for name, text in _marks(record, edition).items())
    return png[:after_header] + chunks + png[after_header:]


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
