"""The lock file of every figure ever published, `book/figures.lock.json`; and which figure a CSV file is.

It is written from the committed, executed chapters, so that a test can derive it again. It holds no commit: a file cannot hold the hash of the commit it is in.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from kvmodel.report.cite import command
from kvmodel.report.record import BOOK, CITE_FILES, MIME, SUFFIXES, Edition, FigureRecord, Source, edition_here, from_meta, load_sources, source
from kvmodel.units import KvError, refuse

LOCK = "book/figures.lock.json"
Lock = dict[str, Any]


def find_book(folder: str | None = None) -> Path:
    """Return the folder that holds `book/`: the one named, else the nearest above this one, else the checkout this package stands in.

    Raises
    ------
    KvError : no lock file there
    """
    places = [Path(folder)] if folder else [Path.cwd(), *Path.cwd().parents, Path(__file__).parents[2]]
    found = next((place for place in places if (place / LOCK).is_file()), None)
    if found is None:
        raise refuse("book", folder or str(Path.cwd()), f"a folder that holds {LOCK}; this command needs the book: run it in a checkout or give --book DIR")
    return found.resolve()


def read_lock(root: Path) -> Lock:
    """Return the lock file of the book at `root`."""
    try:
        lock: Lock = json.loads((root / LOCK).read_text("utf-8"))
        return lock | {"figures": dict(lock["figures"]), "sources": dict(lock["sources"])}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise KvError(f"{LOCK}: not readable as a lock file: {' '.join(str(error).split())}; write it with: make refresh") from None


def locked(lock: Lock, figure_id: str) -> FigureRecord:
    """Return the record of one published figure; a retired id is refused with what took its place."""
    entry = lock["figures"].get(figure_id)
    if entry is None:
        raise refuse("figure", figure_id, "the id of a published figure (kvmodel figures lists them)", lock["figures"])
    if retired := entry.get("retired"):
        instead = f"; use {retired['to']}" if retired.get("to") else ""
        raise KvError(f"figure: {figure_id!r} was retired in version {retired['since']} ({retired['why']}){instead}; version {entry['version']} had it last")
    return from_meta(entry | {"id": figure_id}, {name: source(s) for name, s in lock["sources"].items()})


def published(lock: Lock, figure_id: str) -> dict[str, Any]:
    """Return one figure as `kvmodel figures --json` shows it; addresses are relative to the site."""
    entry = lock["figures"][figure_id]
    names = [f"{figure_id}.{suffix}" for suffix in SUFFIXES] + [*CITE_FILES, "figure.json", "index.html"]
    return {
        "id": figure_id,
        "title": entry["title"],
        "chapter": entry["chapter"],
        "files": ["figures/" + figure_id + "/" + name for name in names],
        "parameters_hash": entry["parameters_hash"],
        "data_sha256": entry["data_sha256"],
        "version": entry["version"],
    } | ({"retired": entry["retired"]} if "retired" in entry else {})


def base_address(root: Path) -> str:
    """Return `html.baseurl` of `_config.yml`, the public address of the site; empty where it is not set."""
    config = root / "_config.yml"
    found = re.search(r"^[^#\n]*\bbaseurl:[ ]*[\"']?([^\"'\s,}#]+)", config.read_text("utf-8"), re.MULTILINE) if config.is_file() else None
    return found[1] if found else ""


def edition_of(root: Path, lock: Lock) -> Edition:
    """Return the edition of the lock file, with the commit of the checkout at `root` and its public address."""
    return replace(edition_here(root, base_address(root)), version=lock["version"])


def notebook_figures(notebooks: Iterable[Path]) -> list[dict[str, Any]]:
    """Return the figure records that executed notebooks carry, in order.

    Raises
    ------
    KvError : an id that two outputs carry
    """
    found: dict[str, dict[str, Any]] = {}
    for path in notebooks:
        cells = json.loads(path.read_text("utf-8"))["cells"]
        outputs = (output for cell in cells for output in cell.get("outputs", ()))
        for meta in (output["data"][MIME] for output in outputs if MIME in output.get("data", {})):
            if meta["id"] in found:
                raise KvError(f"figure {meta['id']}: two figures carry this id, in {found[meta['id']]['chapter']} and {meta['chapter']}")
            found[meta["id"]] = meta
    return list(found.values())


def make_lock(old: Lock, metas: Iterable[Mapping[str, Any]], sources: Mapping[str, Source], version: str) -> Lock:
    """Return the lock file for these figures: ids never disappear, and the hashes of earlier versions stay listed.

    Raises
    ------
    KvError : an id of the old lock that no chapter draws and that is not marked as retired; a source id that is not in `data/sources.toml`
    """
    before = old.get("figures", {})
    figures = {meta["id"]: _entry(meta, before.get(meta["id"], {}), version) for meta in metas}
    for lost in sorted(before.keys() - figures.keys()):
        if "retired" not in before[lost]:
            example = '"retired": {"since": "' + version + '", "to": "<the id that took its place, or empty>", "why": "<reason>"}'
            raise KvError(f"figure {lost}: published, but no executed chapter draws it; draw it, or keep its entry in {LOCK} and add {example}")
        figures[lost] = before[lost]
    used = sorted({name for entry in figures.values() for name in entry["sources"]})
    if unknown := [name for name in used if name not in sources]:
        raise refuse("source", unknown[0], "an id in data/sources.toml", sources)
    plain = {name: {k: v for k, v in asdict(sources[name]).items() if v} for name in used}
    return {"book": BOOK, "version": version, "figures": dict(sorted(figures.items())), "sources": plain}


def _entry(meta: Mapping[str, Any], before: Mapping[str, Any], version: str) -> dict[str, Any]:
    history = list(before.get("history", ()))
    if before and before["version"] != version:
        history.append({key: before[key] for key in ("version", "parameters_hash", "data_sha256")})
    return {key: value for key, value in meta.items() if key != "id"} | {"version": version} | ({"history": history} if history else {})


def derive_lock(root: Path) -> Lock:
    """Return the lock file that the executed chapters at `root` give, on top of the one that is there."""
    from kvmodel import __version__

    old = read_lock(root) if (root / LOCK).is_file() else {}
    metas = notebook_figures(sorted((root / "book").glob("*.ipynb")))
    return make_lock(old, metas, load_sources(root / "data" / "sources.toml"), __version__)


def lock_text(lock: Lock) -> str:
    """Return the lock file as text."""
    return json.dumps(lock, indent=1, ensure_ascii=False) + "\n"


def write_lock(root: Path) -> None:
    """Write the lock file of the executed chapters at `root`, as a whole or not at all."""
    text = lock_text(derive_lock(root))
    (root / LOCK).write_text(text, "utf-8")


def identify(file: Path, root: Path) -> dict[str, Any]:
    """Return which figure a CSV file is: `status` is `published`, `re-run` or `unknown`, and `matches` lists every match with version and parameters.

    It looks in the lock file, in the frozen versions under `dist/site/v`, and in the runs of the book's folder and of the current one. A file whose line ends
    or byte order mark were changed by a spreadsheet is still known; `exact` is then false.
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        raise refuse("file", str(file), f"a readable CSV file ({error.strerror})") from None
    plain = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")
    hashes = [sha256(d).hexdigest() for d in dict.fromkeys((data, plain))]
    known = [*_in_lock(root), *_frozen(root), *(m for place in dict.fromkeys((root, Path.cwd().resolve())) for m in _runs(place))]
    matches = {json.dumps(m, sort_keys=True): m for m in known if m["data_sha256"] in hashes}
    found = sorted(matches.values(), key=lambda m: m["status"])  # published comes before re-run
    first = found[0] if found else {"status": "unknown", "data_sha256": hashes[0]}
    exact = first["data_sha256"] == hashes[0]
    return {"file": str(file), "data_sha256": hashes[0], "status": first["status"], "exact": exact, "matches": found}


def _match(status: str, figure: str, entry: Mapping[str, Any], version: str, where: str) -> dict[str, Any]:
    facts = {"status": status, "figure": figure, "version": version, "where": where}
    facts |= {key: entry[key] for key in ("title", "chapter", "parameters_hash", "data_sha256") if key in entry}
    if "parameters" not in entry:
        return facts
    record = from_meta(dict(entry) | {"id": figure, "sources": []}, {})
    values = {name: p.value for name, p in record.parameters.items()}
    return facts | {"parameters": values, "changed": {name: p.value for name, p in record.changed.items()}, "command": command(record)}


def _in_lock(root: Path) -> Iterable[dict[str, Any]]:
    for figure, entry in read_lock(root)["figures"].items():
        yield _match("published", figure, entry, entry["version"], LOCK)
        for past in entry.get("history", ()):
            yield _match("published", figure, past, past["version"], LOCK)


def _frozen(root: Path) -> Iterable[dict[str, Any]]:
    for path in sorted(root.glob("dist/site/v/*/figures/*/figure.json")):
        entry = _json(path)
        if "data_sha256" in entry:  # the page of a retired id has no data
            yield _match("published", entry["id"], entry, entry["version"], path.parent.relative_to(root).as_posix())


def _runs(place: Path) -> Iterable[dict[str, Any]]:
    for path in sorted(place.glob("runs/*/run.json")):
        run = _json(path)
        for entry in run.get("figures", ()):
            yield _match("re-run", entry["id"], entry, run["version"], path.parent.relative_to(place).as_posix())


def _json(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):  # a run that is being written, or was damaged, matches nothing
        return {}
    return document if isinstance(document, dict) else {}


if __name__ == "__main__":
    write_lock(Path.cwd())
