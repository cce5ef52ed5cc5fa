"""Executed notebooks as pages in the book's look: Jupyter Book with its own configuration, chapters not executed again.

Sphinx has a process of its own (`python -m kvmodel.report.page`), which makes ready while the kernels compute and then takes one job as JSON from stdin.
"""

import html
import json
import posixpath
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from kvmodel.report.execute import cores, helper, running

ADDRESS = re.compile(r'(\s(?:href|src|srcset|data-content_root)=")([^"#][^"]*)"')


@contextmanager
def builder() -> Iterator[Callable[..., None]]:
    """Yield the function that builds pages as `build` does, by its keywords.

    Raises
    ------
    RunError : Sphinx could not build the pages (from the function)
    """
    with helper("page") as finish:
        yield lambda **job: finish(json.dumps(job, default=str))


def build(root: Path, work: Path, slugs: list[str], notice: str, pages: Mapping[str, str] | None) -> int:
    """Write the pages of executed notebooks, and the notebooks, into `work/html`, and return 0 where that went well.

    Parameters
    ----------
    root : the checkout of the book
    work : the folder of this run; `work/source/book` holds the executed notebooks, `work/source/_figures` their figure files
    slugs : the notebooks; one alone is `index.html` too
    notice : a line for the top of every page, empty for none
    pages : for the whole book: further pages by name, in MyST; the book's own pages come with them
    """
    from jupyter_book.sphinx import build_sphinx

    source, site = work / "source", work / "html"
    _stage(root, source, slugs, pages)
    overrides: dict[str, Any] = {
        "external_toc_path": str(source / "_toc.yml"),
        "latex_individualpages": False,
        "nb_execution_mode": "off" if pages is None else "force",
        "nb_execution_excludepatterns": ["*.ipynb"],  # chapters are executed; reference pages that compute are not
        "html_theme_options": {"announcement": html.escape(notice)} if notice else {},
    }
    jobs = cores() if pages is not None else 1
    with running(source):
        result = build_sphinx(source, site, noconfig=True, path_config=root / "_config.yml", confoverrides=overrides, really_quiet=True, jobs=jobs)
    if result:
        return 1
    for slug in slugs:
        shutil.copy(source / "book" / f"{slug}.ipynb", site)
    if pages is None:
        _open_at(site, *slugs)
    return 0


def main() -> int:
    """Import what Sphinx needs, wait for the job, do it."""
    for name in ("jupyter_book.sphinx", "myst_nb", "sphinx_book_theme"):
        import_module(name)
    job = json.load(sys.stdin)
    return build(Path(job["root"]), Path(job["work"]), job["slugs"], job["notice"], job["pages"])


def _stage(root: Path, source: Path, slugs: list[str], pages: Mapping[str, str] | None) -> None:
    (source / "_figures").mkdir(parents=True, exist_ok=True)
    for path in (root / "book").iterdir():
        if path.stem not in slugs and (pages is not None or path.suffix not in (".ipynb", ".md")):
            (source / "book" / path.name).symlink_to(path)
    for name, text in (pages or {}).items():
        (source / "book" / f"{name}.md").write_text(text, "utf-8")
    (source / "_toc.yml").write_text(_toc(*slugs) if pages is None else _whole_toc(root, pages), "utf-8")


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


if __name__ == "__main__":
    sys.exit(main())
