"""`kvmodel sweep`: a chapter over a grid of values, on this machine or on a Dask cluster, to one tidy table of its headlines."""

import csv
import hashlib
import io
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from threading import Event
from typing import Any

from kvmodel import __version__
from kvmodel.report import folder
from kvmodel.report.chapters import Chapter
from kvmodel.report.execute import HEADLINE, Lost, Progress, RunError, Stopped, cores, execute, inputs, quiet, records
from kvmodel.report.parameters import Value, check_values, parameters_hash, rule
from kvmodel.report.run import plan_chapter
from kvmodel.units import KvError, parse_count, refuse

LIMIT = 100_000  # points
TRIES = 2  # of a point whose kernel died
RESULTS = ("id", "value", "unit", "text", "low", "high", "error")  # columns of the table after the parameters
Point = dict[str, Value]


@dataclass(frozen=True)
class SweepPlan:
    """A sweep that has been checked: chapter, values by name, and where it runs (`jobs` threads here, or a Dask scheduler)."""

    root: Path
    chapter: Chapter
    grid: dict[str, list[Value]]
    jobs: int
    dask: str | None

    @property
    def points(self) -> list[Point]:
        """Every combination, the last name varying fastest; names that the grid leaves out have their published values."""
        return [self.chapter.defaults | dict(zip(self.grid, values)) for values in product(*self.grid.values())]


def plan_sweep(root: Path, slug: str, given: Mapping[str, str | Sequence[Any]], *, jobs: str | int | None = None, dask: str | None = None) -> SweepPlan:
    """Return the checked plan of a sweep.

    Parameters
    ----------
    root : the checkout of the book
    slug : the chapter
    given : values by name: text with commas between them, a value that holds a comma in double quotes (`"a, b",c`, as in CSV); or a sequence of values
    jobs : points at once on this machine; all cores if left out
    dask : address of a Dask scheduler, instead of `jobs`

    Raises
    ------
    KvError : a chapter, a name or a value that is not accepted, or more than 100,000 points
    """
    chapter = plan_chapter(root, slug, {}).chapters[slug]
    grid: dict[str, list[Value]] = {}
    for name, values in given.items():
        rule(name, chapter.parameters, slug)
        each = [check_values(chapter.parameters, {name: v})[name] for v in (_split(name, values) if isinstance(values, str) else values)]
        grid[name] = list(dict.fromkeys(each))
    if (size := prod(map(len, grid.values()))) > LIMIT:
        raise refuse("sweep", f"{size:,} points", f"at most {LIMIT:,} points")
    return SweepPlan(root, chapter, grid, parse_count(jobs or cores(), "jobs"), dask)


def _split(name: str, text: str) -> list[str]:
    try:
        rows = list(csv.reader([text], strict=True))
    except csv.Error:
        rows = []
    if len(rows) != 1:
        raise refuse(name, text, 'values with commas between them, one that holds a comma or a line break in double quotes, such as "a, b",c')
    return rows[0]


def sweep(plan: SweepPlan, out: str | None = None, progress: Progress = quiet) -> tuple[Path, int, int]:
    """Run every point that is not there yet; return the path of the table, the number of points and how many failed.

    The folder holds `headlines.csv` (one row per point and headline: parameters, then id, value, unit, text, low, high, error; a parameter whose name is also
    such a column is written `parameter.text`), `points/<hash>.ipynb` with the executed notebooks, and `run.json`. A point that fails is a row with its error.
    A sweep that was stopped goes on where it was; failed points are tried again.

    Raises
    ------
    KvError : a folder that is not accepted, or a scheduler that does not answer
    Stopped : Ctrl-C
    """
    named = hashlib.sha256(json.dumps([parameters_hash(p) for p in plan.points]).encode()).hexdigest()[:12]
    target = Path(out or f"runs/{plan.chapter.slug}--sweep-{named}").absolute()
    made_from = inputs(plan.root, [plan.chapter]) | {"version": __version__}
    points = {parameters_hash(p): p for p in plan.points}
    with folder.locked(target), _workers(plan) as submit:
        (target / "points").mkdir(parents=True, exist_ok=True)
        facts = {"sweep": plan.chapter.slug, "grid": plan.grid, "inputs": made_from}
        folder.write(target / folder.RECORD, json.dumps(facts, indent=1) + "\n")
        found = {key: record for key in points if (record := _done(target, key, made_from))}
        futures = {submit(plan.chapter.slug, plan.chapter.text, points[key], str(plan.root / "book")): key for key in points if key not in found}
        for count, future in enumerate(as_completed(futures), len(found) + 1):
            key = futures[future]
            found[key] = _store(target, key, points[key], made_from, _outcome(future))
            progress(f"{plan.chapter.slug}: point {count} of {len(points)}")
        table = target / "headlines.csv"
        folder.write(table, _table(plan.chapter, [found[key] for key in points]))
    return table, len(points), sum(1 for record in found.values() if record["error"])


def run_point(slug: str, text: str, values: Point, where: str) -> dict[str, Any]:
    """Return the executed notebook of one point as JSON text, its headlines and its error; it runs where the work is, so it takes and gives plain data."""
    return _point(slug, text, values, where, None)


def _point(slug: str, text: str, values: Point, where: str, stop: Event | None) -> dict[str, Any]:
    import nbformat

    with tempfile.TemporaryDirectory() as spare:  # a worker of a cluster may have no checkout
        for left in reversed(range(TRIES)):
            try:
                notebook = execute(slug, text, values, Path(where if Path(where).is_dir() else spare), stop=stop)
                return {"notebook": nbformat.writes(notebook), "headlines": records(notebook, HEADLINE), "error": ""}
            except Stopped:
                raise
            except Lost as error:
                if not left:
                    return {"notebook": "", "headlines": [], "error": str(error)}
            except RunError as error:
                return {"notebook": "", "headlines": [], "error": str(error)}
    raise AssertionError("TRIES is above 0")


@contextmanager
def _workers(plan: SweepPlan) -> Iterator[Callable[..., Future[dict[str, Any]]]]:
    stop = Event()
    pool: Any  # an executor of concurrent.futures, or Dask's, which cancels unless it waits
    with _cluster(plan.dask) if plan.dask else ThreadPoolExecutor(plan.jobs) as pool:
        try:
            yield (lambda *work: pool.submit(run_point, *work)) if plan.dask else (lambda *work: pool.submit(_point, *work, stop))
        except KeyboardInterrupt:
            stop.set()
            pool.shutdown(wait=False) if plan.dask else pool.shutdown(cancel_futures=True)
            raise Stopped("stopped by Ctrl-C") from None


@contextmanager
def _cluster(address: str) -> Iterator[Any]:
    try:
        from distributed import Client
    except ImportError:
        raise KvError("dask: not installed; accepted: an install of kvmodel[dask]") from None
    try:
        client = Client(address, timeout="10s", set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise refuse("dask", address, f"the address of a scheduler that answers, such as tcp://host:8786 ({type(error).__name__})") from None
    with client, client.get_executor(pure=False) as pool:
        yield pool


def _outcome(future: Future[dict[str, Any]]) -> dict[str, Any]:
    try:
        return future.result()
    except Stopped:
        raise
    except Exception as error:  # of the cluster: what a worker raised, or that it died too often
        return {"notebook": "", "headlines": [], "error": " ".join(f"{type(error).__name__}: {error}".split())[:300]}


def _done(target: Path, key: str, made_from: Mapping[str, str]) -> dict[str, Any] | None:
    try:
        record: dict[str, Any] = json.loads((target / "points" / f"{key}.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return record if record["inputs"] == made_from and not record["error"] else None


def _store(target: Path, key: str, values: Point, made_from: Mapping[str, str], outcome: dict[str, Any]) -> dict[str, Any]:
    if text := outcome.pop("notebook"):
        folder.write(target / "points" / f"{key}.ipynb", text + "\n")
    record = {"parameters": values, "inputs": dict(made_from)} | outcome
    folder.write(target / "points" / f"{key}.json", json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    return record


def _table(chapter: Chapter, found: list[dict[str, Any]]) -> str:
    names = {name: f"parameter.{name}" if name in RESULTS else name for name in chapter.parameters}
    text = io.StringIO()
    writer = csv.DictWriter(text, [*names.values(), *RESULTS], extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for record in found:
        point = {names[name]: value for name, value in record["parameters"].items()}
        for headline in record["headlines"] or [{}]:
            writer.writerow(point | headline | {"error": record["error"]})
    return text.getvalue()
