"""Speed of runs, as ratios measured in one run: `make bench`, or `python benchmarks/bench_run.py [CHAPTER]`."""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from kvmodel.report.chapters import GATHER, book_root, chapters

ROOT = book_root()
POINTS = 20
JB = [str(Path(sys.executable).with_name("jb")), "build"]
BARE = """
import sys, nbformat
from nbclient import NotebookClient
for path in sys.argv[1:]:
    NotebookClient(nbformat.read(path, 4), kernel_name="python3", resources={"metadata": {"path": "book"}}).execute()
"""
OURS = """
import sys
from pathlib import Path
from kvmodel.report.run import notebooks, plan_chapter
notebooks(plan_chapter(Path(), sys.argv[1], {}), Path(sys.argv[2]))
"""
SERIAL = """
from jupyter_book.cli.main import main
import kvmodel.report.execute as execute
execute.cores = lambda: 1
main(["build", ".", "--all", "--quiet"])
"""


def seconds(command: list[str]) -> float:
    """Wall time of a whole process in the checkout."""
    start = time.perf_counter()
    subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def python(code: str, *words: str) -> float:
    return seconds([sys.executable, "-c", code, *words])


def best(*calls: Callable[[], float], times: int = 3) -> list[float]:
    """Least seconds of each call, taken in turn so that a busy moment does not fall on one alone."""
    return [min(spans) for spans in zip(*([call() for call in calls] for _ in range(times)))]


def one_chapter(slug: str, place: Path) -> list[tuple[str, float, str]]:
    """The notebook part of a run beside nbclient, and its page part beside `jb build` of the executed page."""
    ours, bare = best(lambda: python(OURS, slug, tempfile.mkdtemp(dir=place)), lambda: python(BARE, f"book/{slug}.ipynb"))
    seconds([sys.executable, "-m", "kvmodel", "run", slug, "--out", str(place / "run")])
    page = _page(slug, place)
    alone = [*JB, str(page), "--all", "--quiet"]
    built, added = best(lambda: seconds(alone), lambda: _pages_of_run(slug, place))
    return [
        (f"{slug}: parsing, papermill, figure files / bare nbclient", ours / bare, "at most 1.3"),
        (f"{slug}: page / jb build of the executed page", added / built, "at most 1"),
    ]


def _page(slug: str, place: Path) -> Path:
    """A book of the one executed page, with the configuration of the book and execution off."""
    page = place / "page"
    (page / "book").mkdir(parents=True)
    for name in ("_assets", "_ext", "references.bib"):
        (page / "book" / name).symlink_to(ROOT / "book" / name)
    shutil.copy(place / "run" / f"{slug}.ipynb", page / "book")
    shutil.copytree(place / "run" / "figures", page / "_figures" / "figures")
    config = (ROOT / "_config.yml").read_text("utf-8").replace("execute_notebooks: force", 'execute_notebooks: "off"')
    (page / "_config.yml").write_text(config, "utf-8")
    (page / "_toc.yml").write_text(f"format: jb-book\nroot: book/{slug}\n")
    return page


def _pages_of_run(slug: str, place: Path) -> float:
    seconds([sys.executable, "-m", "kvmodel", "run", slug, "--fresh", "--out", str(place / "run")])
    return float(json.loads((place / "run/run.json").read_text("utf-8"))["seconds"]["pages"])


def whole_book() -> list[tuple[str, float, str]]:
    """The book as `make book` builds it, beside chapters executed one after another, and beside the same build in one process."""
    order = sorted(chapters(ROOT), key=lambda slug: GATHER.index(slug) if slug in GATHER else -1)
    book, serial = best(lambda: seconds([*JB, ".", "--all", "--quiet"]), lambda: python(SERIAL), times=1)
    executed = python(BARE, *(f"book/{slug}.ipynb" for slug in order))
    return [("make book / the same, one after another", book / serial, "at most 0.7"), ("make book / execution alone, one after another", book / executed, "")]


def grid(slug: str, place: Path) -> list[tuple[str, float, str]]:
    """A sweep of 20 points on one core and on two."""
    values = "context_tokens=" + ",".join(str(1000 * n) for n in range(1, POINTS + 1))
    sweep = [sys.executable, "-m", "kvmodel", "sweep", slug, "-p", values, "--out"]
    one = seconds(["taskset", "-c", "0", *sweep, str(place / "one-core"), "--jobs", "1"])
    two = seconds([*sweep, str(place / "two-cores"), "--jobs", "2"])
    return [(f"{slug}: sweep of {POINTS} points, one core / two cores", one / two, "at least 1.7")]


def main() -> None:
    slug = sys.argv[1] if len(sys.argv) > 1 else "kv-size"
    with tempfile.TemporaryDirectory() as name:
        for part in (lambda: one_chapter(slug, Path(name)), lambda: grid(slug, Path(name)), whole_book):
            for what, ratio, limit in part():
                print(f"{ratio:8.2f}  {what}{f'  ({limit})' if limit else ''}", flush=True)


if __name__ == "__main__":
    main()
