"""`kvmodel chapters`, `run`, `sweep`, `scenarios`."""

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kvmodel.cli.common import add_json, columns, emit
from kvmodel.report import chapters as book
from kvmodel.report.chapters import Chapter, Scenario
from kvmodel.report.cite import shown
from kvmodel.units import KvError


def register(commands: Any) -> None:
    """Add the four commands to the parser."""
    for name, what, function in (("chapters", "chapters and their parameters", run_chapters), ("scenarios", "named sets of values", run_scenarios)):
        listing = commands.add_parser(name, help=f"the {what}, or one in full")
        listing.add_argument("name", nargs="?")
        add_json(listing)
        _book(listing)
        listing.set_defaults(run=function)
    run = commands.add_parser("run", help="make a chapter, or the whole book, with other values")
    run.add_argument("chapter", nargs="?")
    run.add_argument("--all", action="store_true", help="the whole book")
    run.add_argument("--scenario", help="a scenario, or the path of a TOML file")
    run.add_argument("--fresh", action="store_true", help="run again even where the same run is there")
    _common(run, "name=value", "runs/CHAPTER--HASH")
    run.set_defaults(run=run_run)
    sweep = commands.add_parser("sweep", help="run a chapter over a grid of values")
    sweep.add_argument("chapter")
    where = sweep.add_mutually_exclusive_group()
    where.add_argument("--jobs", help="chapters at once on this machine; all cores if left out")
    where.add_argument("--dask", metavar="ADDRESS", help="scheduler of a Dask cluster, such as tcp://host:8786")
    _common(sweep, "name=v1,v2", "runs/CHAPTER--sweep-HASH")
    sweep.set_defaults(run=run_sweep)


def _common(parser: argparse.ArgumentParser, value: str, out: str) -> None:
    parser.add_argument("-p", dest="given", metavar=value, action="append", default=[], help="a parameter of the chapter")
    parser.add_argument("--out", metavar="DIR", help=f"folder of the result; {out} if left out")
    _book(parser)


def _book(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--book", metavar="DIR", help="the checkout of the book, where this folder is not in one")


def run_chapters(args: argparse.Namespace) -> None:
    """Print all chapters, or one with its parameters."""
    root = book.book_root(args.book)
    found = list(book.chapters(root).values()) if args.name is None else [book.chapter(root, args.name)]
    documents = [_chapter_json(c) for c in found]
    if args.name:
        emit(args, documents[0], [f"{found[0].slug}: {found[0].title}", *_parameter_lines(found[0])])
    else:
        emit(args, documents, columns([[c.slug, c.title, " ".join(c.parameters)] for c in found]))


def _chapter_json(c: Chapter) -> dict[str, Any]:
    return {"id": c.slug, "title": c.title, "parameters": [asdict(p) | {"accepted": p.accepted} for p in c.parameters.values()]}


def _parameter_lines(c: Chapter) -> list[str]:
    rows = [[p.name, p.type, shown(p.default), p.meaning, p.unit, p.accepted] for p in c.parameters.values()]
    return columns([["name", "type", "default", "meaning", "unit", "accepted"], *rows]) if rows else ["It has no parameters."]


def run_scenarios(args: argparse.Namespace) -> None:
    """Print all scenarios, or one with its values."""
    root = book.book_root(args.book)
    found = book.scenarios(root) if args.name is None else [book.scenario(root, args.name)]
    documents = [{"id": s.id, "title": s.title, "why": s.why, "parameters": s.parameters} for s in found]
    lines = [line for s in found for line in _scenario_lines(s)]
    emit(args, documents[0] if args.name else documents, lines)


def _scenario_lines(s: Scenario) -> list[str]:
    return [f"{s.id}: {s.title}", *([f"  {s.why}"] if s.why else []), *(f"  {name} = {value}" for name, value in s.parameters.items())]


def run_run(args: argparse.Namespace) -> int:
    """Make a chapter or the book; the folder of the result goes to stdout."""
    if bool(args.chapter) == args.all:
        raise KvError(f"chapter: {'both a chapter and --all' if args.all else 'nothing'} given; accepted: a chapter (kvmodel chapters lists them), or --all")
    root, given = book.book_root(args.book), pairs(args.given)
    _environment()
    from kvmodel.report.run import plan_all, plan_chapter, run

    plan = plan_all(root, given, args.scenario) if args.all else plan_chapter(root, args.chapter, given, args.scenario)
    return _guarded(lambda: _finished(run(plan, args.out, fresh=args.fresh, progress=_progress)), "the last good result is unchanged")


def _finished(result: Any) -> str:
    index = result.folder / "index.html"
    return f"{_short(index)}{' (made before; --fresh makes it again)' if result.reused else ''}"


def run_sweep(args: argparse.Namespace) -> int:
    """Run the grid; the table of headlines goes to stdout as a path."""
    root = book.book_root(args.book)
    _environment()
    from kvmodel.report.sweep import plan_sweep, sweep

    plan = plan_sweep(root, args.chapter, pairs(args.given), jobs=args.jobs, dask=args.dask)
    return _guarded(lambda: _swept(*sweep(plan, args.out, progress=_progress)), "the same command goes on from here")


def _swept(table: Path, points: int, failed: int) -> str:
    if failed:
        print(f"{failed} of {points} points failed; their rows say why", file=sys.stderr)
    return _short(table)


def pairs(given: list[str]) -> dict[str, str]:
    """Return `-p name=value` options as a dict; a missing `=` or a name given twice is refused."""
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise KvError(f"-p: {text!r} is not accepted; accepted: name=value, such as context_tokens=1M")
        if name.strip() in found:
            raise KvError(f"-p: {name.strip()!r} is given twice")
        found[name.strip()] = value
    return found


def _environment() -> None:
    if missing := [name for name in ("papermill", "jupyter_book", "altair") if find_spec(name) is None]:
        raise KvError(f"environment: {' '.join(missing)} not installed; accepted: an install of kvmodel[report]")


def _guarded(work: Callable[[], str], kept: str) -> int:
    from kvmodel.report.execute import RunError, Stopped

    try:
        done = work()
    except RunError as error:
        _progress("")
        print(f"{error}; {kept}", file=sys.stderr)
        return 130 if isinstance(error, Stopped) else 1
    except KeyboardInterrupt:
        _progress("")
        print(f"stopped by Ctrl-C; {kept}", file=sys.stderr)
        return 130
    _progress("")
    print(done)
    return 0


def _short(path: Path) -> str:
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)


def _progress(words: str) -> None:
    """Say on a terminal how far the work is, in one line; say nothing elsewhere, nor in CI."""
    if sys.stderr.isatty() and not os.environ.get("CI"):
        print(f"\r\x1b[K{words}", end="", file=sys.stderr, flush=True)
