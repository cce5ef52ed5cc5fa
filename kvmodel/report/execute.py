"""One chapter executed with other values: papermill underneath, values passed as Python literals, failures told in one line."""

import hashlib
import os
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from threading import Event, Lock
from typing import Any

from kvmodel.report.chapters import Chapter
from kvmodel.report.parameters import Value, rewritten

Notebook = Any  # nbformat.NotebookNode: a dict that is its own namespace
RUN_ENV = "KVMODEL_RUN"
IMPORTS = Lock()  # these packages import each other in circles: two threads at once would meet half a module
HEADLINE = "application/vnd.kvmodel.headline+json"
Progress = Callable[[str], None]  # is told in a few words how far the work is


class RunError(Exception):
    """A run that failed, in one line: which chapter, which cell, why."""


class Lost(RunError):
    """A kernel that died under its work, as when memory runs out."""


class Stopped(RunError):
    """A run that was stopped before its end."""


def quiet(_words: str) -> None:
    """Show no progress."""


def execute(slug: str, text: str, values: Mapping[str, Value], folder: Path, progress: Progress = quiet, stop: Event | None = None) -> Notebook:
    """Return the executed notebook of a chapter, given as JSON text, with these values (all of them, already checked); its kernel works in `folder`.

    The values go to papermill as Python objects, which it writes as literals, so that no text can become code. The parameters cell of the result shows
    the values that were used; run times and paths are left out.

    Raises
    ------
    RunError : a cell failed
    Lost : the kernel died
    Stopped : Ctrl-C, or `stop` was set
    """
    with IMPORTS:  # after the checks: a refusal should not wait for these
        import nbformat
        import papermill
        from nbclient.exceptions import DeadKernelError
        from papermill.exceptions import PapermillExecutionError

    notebook = nbformat.reads(text, as_version=4)
    shift, cells, now = int(bool(values)), len(notebook.cells), [0]

    def started(cell: Notebook, cell_index: int) -> None:
        now[0] = max(1, cell_index + 1 - (shift if cell_index > _parameters_cell(notebook) else 0))
        if stop and stop.is_set():
            raise Stopped(f"{slug}: stopped in cell {now[0]} of {cells}")
        progress(f"{slug}: cell {now[0]} of {cells}")

    try:
        done = papermill.execute_notebook(
            notebook, None, parameters=dict(values), kernel_name="python3", language="python", progress_bar=False,
            on_cell_start=started, record_timing=False, kernel_manager_class=_silent(), resources={"metadata": {"path": str(folder)}},
        )  # fmt: skip
    except PapermillExecutionError as error:
        raise RunError(f"{slug}: cell {now[0]} of {cells} failed: {_line(f'{error.ename}: {error.evalue}')}") from None
    except DeadKernelError as error:
        raise Lost(f"{slug}: cell {now[0]} of {cells} failed: {_line(f'{type(error).__name__}: {error}')}") from None
    except KeyboardInterrupt:
        raise Stopped(f"{slug}: stopped by Ctrl-C {f'in cell {now[0]} of {cells}' if now[0] else 'before its first cell'}") from None
    return _tidy(done, values)


def _silent() -> type:
    """Return a manager of kernels whose own log, which tells of every early end, stays off the terminal; what cells write to stderr is output all the same."""
    from jupyter_client.manager import AsyncKernelManager

    async def start_kernel(manager: AsyncKernelManager, **options: Any) -> None:
        await AsyncKernelManager.start_kernel(manager, stderr=DEVNULL, **options)

    return type("Silent", (AsyncKernelManager,), {"start_kernel": start_kernel})


@contextmanager
def running(source: Path) -> Iterator[None]:
    """Tell kernels that are started meanwhile where the notebooks (`book/`) and figure files (`_figures/`) of this run are."""
    os.environ[RUN_ENV] = str(source)
    try:
        yield
    finally:
        del os.environ[RUN_ENV]


@contextmanager
def helper(module: str, *words: str) -> Iterator[Callable[[str], None]]:
    """Run a module of this package in a process of its own; the function yielded sends it the last it has to know and waits for its end.

    Raises
    ------
    RunError : it failed (from the function); what it said is the reason
    """
    process = Popen([sys.executable, "-m", f"kvmodel.report.{module}", *words], stdin=PIPE, stdout=DEVNULL, stderr=PIPE, text=True, start_new_session=True)

    def finish(told: str = "") -> None:
        _, said = process.communicate(told)
        if process.returncode:
            raise RunError(f"{module}: failed: {' '.join(said.split())[-300:]}")

    try:
        yield finish
    finally:
        process.kill()
        process.wait()


def _parameters_cell(notebook: Notebook) -> int:
    return next((n for n, c in enumerate(notebook.cells) if "parameters" in c.metadata.get("tags", [])), -1)


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 300 else line[:297] + "..."


def _tidy(notebook: Notebook, values: Mapping[str, Value]) -> Notebook:
    notebook.metadata.pop("papermill", None)
    for cell in notebook.cells:
        cell.metadata.pop("papermill", None)
        tags = cell.metadata.get("tags", [])
        if "injected-parameters" in tags:
            cell.id = "injected-parameters"
            tags.append("remove-cell")  # the page shows the values in the parameters cell
        elif "parameters" in tags:
            cell.source = rewritten(cell.source, values)
        if not tags:
            cell.metadata.pop("tags", None)
    return notebook


def side_by_side(work: Callable[[str, Event], None], names: Iterable[str], threads: int) -> None:
    """Do `work(name, stop)` for all names in threads (in this one for 0); at the first failure or Ctrl-C, set `stop`, let running cells end, and raise."""
    stop = Event()
    if not threads:
        for name in names:
            work(name, stop)
        return
    with ThreadPoolExecutor(threads) as pool:
        try:
            for future in as_completed([pool.submit(work, name, stop) for name in names]):
                future.result()
        except BaseException as error:
            stop.set()
            pool.shutdown(cancel_futures=True)
            if isinstance(error, KeyboardInterrupt):
                raise Stopped("stopped by Ctrl-C") from None
            raise


def records(notebook: Notebook, mime: str) -> list[dict[str, Any]]:
    """Return what the outputs of an executed notebook carry under one media type, in order."""
    outputs = (output for cell in notebook["cells"] for output in cell.get("outputs", ()))
    return [output["data"][mime] for output in outputs if mime in output.get("data", {})]


def inputs(root: Path, chapters: Iterable[Chapter]) -> dict[str, str]:
    """Return the sha256 of what a run is made from, besides its parameters: package, data, chapters, look of the book, pinned versions."""
    package = Path(__file__).parents[1]
    return {
        "package": _digest(_files(package)),
        "data": _digest(_files(root / "data")),
        "chapters": _digest(c.path for c in chapters),
        "book": _digest([root / "_config.yml", root / "_toc.yml", *_files(root / "book/_ext"), *_files(root / "book/_assets")]),
        "constraints": _digest(p for p in (root / "constraints.txt",) if p.is_file()),
        "python": platform.python_version(),
    }


def _files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file() and not {"__pycache__", "vendor"} & set(p.parts))  # what a build makes is no input


def _digest(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
