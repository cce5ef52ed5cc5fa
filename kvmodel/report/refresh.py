"""`make refresh`: run every chapter again, keep its outputs, and rewrite what is made from them."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kvmodel.report.chapters import book_root
from kvmodel.report.execute import cores, side_by_side

KEPT = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}, "language_info": {"name": "python"}}


def refresh(path: Path) -> None:
    """Execute one notebook in place; its outputs are kept, times and versions of the machine are not."""
    import nbformat
    from nbclient import NotebookClient

    notebook: Any = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}).execute()
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        cell.metadata = {k: v for k, v in cell.metadata.items() if k in ("tags", "mystnb")}
    notebook.metadata = KEPT
    nbformat.validate(notebook)
    nbformat.write(notebook, path)


def main(names: Iterable[str]) -> None:
    """Refresh the chapters named, or all; `index` comes last, since it reads what the others say."""
    root = book_root()
    paths = {p.stem: p for p in sorted((root / "book").glob("*.ipynb"))}
    wanted = list(names) or list(paths)
    late = [n for n in ("claims", "index") if n in wanted]
    side_by_side(lambda name, _: refresh(paths[name]), [n for n in wanted if n not in late], cores())
    for name in late:
        refresh(paths[name])
    _derived(root)


def _derived(root: Path) -> None:
    from kvmodel.report.front import write_readme
    from kvmodel.report.lock import write_lock

    write_lock(root)
    write_readme(root)


if __name__ == "__main__":
    main(sys.argv[1:])
