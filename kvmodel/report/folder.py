"""A folder of results that is either the last good one or the new one, never a mixture."""

import fcntl
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kvmodel.units import refuse

RECORD = "run.json"


def read_record(out: Path) -> dict[str, Any] | None:
    """Return what `run.json` of a folder says, or None."""
    try:
        record = json.loads((out / RECORD).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """Hold `out` while no other run works on it; a second run waits.

    Raises
    ------
    KvError : `out` cannot be written, or holds something else than a run
    """
    if (out.exists() and not out.is_dir()) or (out.is_dir() and any(out.iterdir()) and read_record(out) is None):
        raise refuse("out", str(out), f"a new or empty folder, or one of an earlier run (with {RECORD})")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        lock = _lock(out.with_name(f".{out.name}.lock"))
    except OSError as error:
        raise refuse("out", str(out), f"a folder that can be written ({error.strerror})") from None
    try:
        yield
    finally:
        Path(lock.name).unlink(missing_ok=True)
        lock.close()


@contextmanager
def exclusive(out: Path) -> Iterator[Path]:
    """Yield an empty folder beside `out` to work in, with `out` held as by `locked`."""
    work, old = (out.with_name(f".{out.name}.{part}") for part in ("work", "old"))
    with locked(out):
        try:
            if old.exists() and not out.exists():  # a run was killed between the two steps of `publish`
                old.rename(out)
            for left in (work, old):
                shutil.rmtree(left, ignore_errors=True)
            work.mkdir()
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)


def _lock(path: Path) -> Any:
    while True:
        handle = path.open("w")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for another run into {path.name[1:-5]}", file=sys.stderr)
            fcntl.flock(handle, fcntl.LOCK_EX)
        if path.exists() and os.path.samestat(os.fstat(handle.fileno()), path.stat()):
            return handle
        handle.close()  # the other run has removed this file: take the next


def write(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all."""
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(content.encode() if isinstance(content, str) else content)
    part.replace(path)


def publish(site: Path, out: Path) -> None:
    """Put the finished folder in the place of the last one."""
    old = out.with_name(f".{out.name}.old")
    if out.exists():
        out.rename(old)
    site.rename(out)
    shutil.rmtree(old, ignore_errors=True)
