"""Executed notebooks as pages in the book's look: Jupyter Book with its own configuration and execution off."""

import html
import posixpath
import re
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

from kvmodel.report.execute import Notebook, RunError, cores

ADDRESS = re.compile(r'(\s(?:href|src|srcset|data-content_root)=")([^"#][^"]*)"')


def build(root: Path, work: Path, notebooks: Mapping[str, Notebook], notice: str, pages: Mapping[str, str] | None = None) -> None:
    """Write the pages of executed notebooks, and the notebooks, into `work/html`; figure folders that are in `work` come with them.

    Parameters
    ----------
    root : the checkout of the book
    work : the folder of this run; `work/source/book` holds the executed notebooks, `work/source/_figures` their figure files
    notebooks : executed notebooks by slug; one makes a page of its own, which is then `index.html` too
    notice : a line for the top of every page, empty for none
    pages : for the whole book: further pages by name, in MyST; the book's own pages come with them

    Raises
    ------
    RunError : Sphinx could not build the pages
    """
    import nbformat
    from jupyter_book.sphinx import build_sphinx  # a second of imports

    source, site = work / "source", work / "html"
    _stage(root, source, notebooks, pages)
    overrides: dict[str, Any] = {
        "external_toc_path": str(source / "_toc.yml"),
        "latex_individualpages": False,
        "nb_execution_mode": "off",
        "html_theme_options": {"announcement": html.escape(notice)} if notice else {},
    }
    said = StringIO()
    with redirect_stderr(said), redirect_stdout(StringIO()):
        jobs = cores() if pages is not None else 1
        result = build_sphinx(source, site, noconfig=True, path_config=root / "_config.yml", confoverrides=overrides, really_quiet=True, jobs=jobs)
    if result:
        raise RunError(f"page: not built: {' '.join(said.getvalue().split())[:300] or result}")
    for slug, notebook in notebooks.items():
        nbformat.write(notebook, site / f"{slug}.ipynb")
    if pages is None:
        _open_at(site, *notebooks)


def warm() -> None:
    """Import what `build` needs."""
    for name in ("jupyter_book.sphinx", "myst_nb", "sphinx_book_theme"):
        import_module(name)


def _stage(root: Path, source: Path, notebooks: Mapping[str, Notebook], pages: Mapping[str, str] | None) -> None:
    (source / "_figures").mkdir(parents=True, exist_ok=True)
    (source / "book").mkdir(exist_ok=True)
    for path in (root / "book").iterdir():
        if path.stem not in notebooks and (pages is not None or path.suffix not in (".ipynb", ".md")):
            (source / "book" / path.name).symlink_to(path)
    for name, text in (pages or {}).items():
        (source / "book" / f"{name}.md").write_text(text, "utf-8")
    (source / "_toc.yml").write_text(_toc(*notebooks) if pages is None else _whole_toc(root, pages), "utf-8")


def _toc(slug: str) -> str:
    return f"format: jb-book\nroot: book/{slug}\n"


def _whole_toc(root: Path, pages: Mapping[str, str]) -> str:
    import yaml

    toc = yaml.safe_load((root / "_toc.yml").read_text("utf-8"))
    extra = [{"file": f"book/{name}"} for name in pages]
    if "parts" in toc:
        toc["parts"].append({"caption": "This run", "chapters": extra})
    else:
        toc["chapters"] = [*toc.get("chapters", []), *extra]
    return str(yaml.safe_dump(toc, sort_keys=False))


def _open_at(site: Path, slug: str) -> None:
    """Write the page as `index.html` too: the same page one folder up."""
    page = (site / "book" / f"{slug}.html").read_text("utf-8")

    def moved(match: re.Match[str]) -> str:
        address = match[2]
        if re.match(r"[a-z]+:|//", address):
            return match[0]
        return f'{match[1]}{posixpath.normpath(posixpath.join("book", address))}{"/" * address.endswith("/")}"'

    (site / "index.html").write_text(ADDRESS.sub(moved, page), "utf-8")
