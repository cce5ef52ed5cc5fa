"""Commands `figures` and `cite`: the figures of the book and their citations, from the lock file alone."""

import argparse
from pathlib import Path
from typing import Any

from kvmodel.cli.common import add_json, columns, emit
from kvmodel.report import cite
from kvmodel.report.lock import edition_of, find_book, identify, locked, published, read_lock
from kvmodel.units import KvError, refuse

FORMATS = {"text": cite.full, "inline": cite.inline, "bibtex": cite.bibtex, "csl-json": cite.csl_text}


def register(commands: Any) -> None:
    """Add the sub-parsers of `figures` and `cite`."""
    parser = commands.add_parser("figures", help="list the figures of the book, or show one")
    parser.add_argument("name", nargs="?", metavar="NAME", help="id of a figure")
    _shared(parser, figures)
    parser = commands.add_parser("cite", help="cite a figure, or say which figure a CSV file is")
    parser.add_argument("figure", nargs="?", metavar="FIGURE", help="id of a figure")
    parser.add_argument("--format", default="text", help=f"one of {' '.join(FORMATS)} (default text)")
    parser.add_argument("--verify", metavar="FILE.csv", help="say whether this file is a published figure's data, a re-run's, or unknown")
    _shared(parser, cite_figure)


def _shared(parser: argparse.ArgumentParser, run: Any) -> None:
    parser.add_argument("--book", metavar="DIR", help="folder that holds book/ (default: the current one, else this package's checkout)")
    add_json(parser)
    parser.set_defaults(run=run)


def figures(args: argparse.Namespace) -> None:
    """Print the published figures, or one of them."""
    lock = read_lock(find_book(args.book))
    if args.name is None:
        rows = [published(lock, figure) for figure in lock["figures"]]
        text = [[f["id"], f["chapter"], f"v{f['version']}", f"p:{f['parameters_hash']}", f["title"] + (" (retired)" if "retired" in f else "")] for f in rows]
        return emit(args, rows, columns(text))
    name = args.name.removeprefix("fig:")
    if name not in lock["figures"]:
        raise refuse("figure", args.name, "the id of a published figure (kvmodel figures lists them)", lock["figures"])
    one = published(lock, name)
    return emit(args, one, [f"{key}: {value}" for key, value in one.items() if key != "files"] + ["files:", *(f"  {name}" for name in one["files"])])


def cite_figure(args: argparse.Namespace) -> None:
    """Print the citation of one figure, or what a CSV file is."""
    if (args.figure is None) == (args.verify is None):
        raise KvError("cite: exactly one of FIGURE and --verify FILE.csv is needed")
    root = find_book(args.book)
    if args.verify:
        found = identify(Path(args.verify), root)
        return emit(args, found, _verdict(found))
    if args.format not in FORMATS:
        raise refuse("format", args.format, f"one of {' '.join(FORMATS)}", FORMATS)
    lock = read_lock(root)
    record, edition = locked(lock, args.figure.removeprefix("fig:")), edition_of(root, lock)
    document: dict[str, Any] = {"id": record.id, "text": cite.full(record, edition), "inline": cite.inline(record, edition)}
    document |= {"bibtex": cite.bibtex(record, edition), "csl-json": cite.csl(record, edition)}
    return emit(args, document, [FORMATS[args.format](record, edition).rstrip("\n")])


def _verdict(found: dict[str, Any]) -> list[str]:
    if not found["matches"]:
        return [f"unknown: {found['file']} (sha256 {found['data_sha256']}) is the data of no published figure and of no run known here"]
    changed = "" if found["exact"] else " (same data; the line ends or the byte order mark were changed)"
    return [_sentence(match) + changed for match in found["matches"]]


def _sentence(match: dict[str, Any]) -> str:
    if match["status"] == "published":
        return f"published: figure {match['figure']}, version {match['version']}, parameters p:{match['parameters_hash']} ({match['where']})"
    values = ", ".join(f"{name} = {cite.shown(value)}" for name, value in match.get("changed", {}).items()) or "default parameters"
    told = f"re-run: figure {match['figure']}, version {match['version']}, with {values} (p:{match['parameters_hash']})"
    return "; ".join(part for part in (told, match["where"], match.get("command", "")) if part)
