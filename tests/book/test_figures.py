"""The figures of the real book: lock file, citations and addresses; and the extension on a small book."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from citeproc.source.json import CiteProcJSON
from pybtex.database import parse_string
from sphinx.application import Sphinx

import kvmodel
from kvmodel.report import cite, lock, publish
from kvmodel.report.parameters import parameters_hash
from kvmodel.report.record import AUTHORS, BOOK, Edition, FigureRecord, Source

ROOT = Path(__file__).parents[2]
SITE = ROOT / "_build" / "html"
LOCK = lock.read_lock(ROOT)
SAME = ("title", "parameters_hash", "data_sha256")
CURRENT = [figure for figure, entry in LOCK["figures"].items() if "retired" not in entry]


def test_the_lock_is_what_the_executed_chapters_give() -> None:
    assert lock.lock_text(lock.derive_lock(ROOT)) == (ROOT / lock.LOCK).read_text("utf-8"), "write it with: make refresh"
    assert CURRENT


def test_no_id_that_was_ever_committed_is_lost() -> None:
    """Every commit of the lock file is read: an id in any of them is still listed (without git, the file's own history is all there is)."""
    if not (ROOT / ".git").exists():
        return
    commits = subprocess.run(["git", "log", "--format=%H", "--", lock.LOCK], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    for commit in commits:
        past = subprocess.run(["git", "show", f"{commit}:{lock.LOCK}"], cwd=ROOT, capture_output=True, text=True, check=False)
        if past.returncode == 0:  # a commit that deleted the file has none
            assert not json.loads(past.stdout)["figures"].keys() - LOCK["figures"].keys(), f"lost since {commit[:12]}"


@pytest.mark.parametrize("figure", CURRENT)
def test_every_figure_can_be_cited_and_was_drawn_with_default_parameters(figure: str) -> None:
    record, edition = lock.locked(LOCK, figure), Edition(LOCK["version"], "0a1b2c3d4e5f", base=lock.base_address(ROOT))
    assert record.changed == {}
    assert record.parameters_hash == parameters_hash({name: p.value for name, p in record.parameters.items()})
    assert (ROOT / "book" / f"{record.chapter}.ipynb").is_file()
    assert record.sources
    entry = parse_string(cite.bibtex(record, edition), "bibtex").entries[cite.key(record, edition)]
    assert {"title", "howpublished", "year", "month", "version", "note"} <= entry.fields.keys()
    assert cite.key(record, edition).lower() in CiteProcJSON(cite.csl(record, edition))
    texts = [cite.inline(record, edition), cite.full(record, edition), entry.fields["note"]]
    assert all(record.id in text for text in texts)
    assert not any(word in text.lower() for text in texts for word in ("doi", "todo", "xxx", "none,", "unknown", "example.org"))


def test_the_citation_file_is_valid_and_says_what_the_package_says() -> None:
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.citation-file-format", "CITATION.cff"]
    done = subprocess.run(check, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    text = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f'title: "{BOOK}"' in text
    assert f"name: {AUTHORS}" in text
    assert f"\nversion: {kvmodel.__version__}\n" in text
    year, month, _ = kvmodel.__version__.split(".")
    assert f'date-released: "{year}-{int(month):02}-' in text
    assert "doi" not in text.lower()


# the built site


def site_figures() -> Iterator[Path]:
    assert SITE.is_dir(), "build it with: make book"
    yield from (SITE / "figures" / figure for figure in CURRENT)


def addresses(part: Any) -> list[str]:
    if isinstance(part, dict):
        own = [v for k, v in part.items() if k in ("url", "contentUrl", "thumbnailUrl", "acquireLicensePage")]
        return own + [a for v in part.values() for a in addresses(v)]
    return [a for v in part for a in addresses(v)] if isinstance(part, list) else []


def test_the_built_figures_are_those_of_the_lock_and_their_addresses_exist() -> None:
    for folder in site_figures():
        facts = json.loads((folder / "figure.json").read_text("utf-8"))
        assert [facts[key] for key in SAME] == [LOCK["figures"][folder.name][key] for key in SAME]
        page = (folder / "index.html").read_text("utf-8")
        graph = json.loads(re.search(r'<script type="application/ld\+json">(.*?)</script>', page, re.DOTALL)[1])
        outside = {source["url"] for source in facts["sources"].values() if "url" in source}
        frozen = facts.get("address", "").removesuffix(f"figures/{folder.name}/")
        for address in set(addresses(graph)) - outside:
            local = SITE / address.removeprefix(frozen) if frozen and address.startswith(frozen) else folder / urlsplit(address).path
            assert local.resolve().is_file(), f"{folder.name}: {address}"
        chapter = (SITE / "book" / f"{facts['chapter']}.html").read_text("utf-8")
        assert f'id="fig-{folder.name}"' in chapter
        assert len(facts["alt"]) <= 250
        assert facts["alt"] != facts["title"]
        assert {path.name for path in folder.iterdir()} == {name.rsplit("/", 1)[1] for name in lock.published(LOCK, folder.name)["files"]}


def test_the_list_of_figures_shows_each_once() -> None:
    page = (SITE / "book" / "figures.html").read_text("utf-8")
    assert len(re.findall(r'<img class="kv-thumb"', page)) == len(CURRENT)
    assert all(f'href="../figures/{figure}/index.html"' in page for figure in CURRENT)


# the extension, on a book of two pages


@pytest.mark.parametrize("own", [True, False], ids=["the book", "a run elsewhere"])
def test_the_extension_lists_figures_with_their_number_and_writes_their_pages(tmp_path: Path, own: bool) -> None:
    """Built from its own folder it is the published book; from another folder, as `kvmodel run` does, it is recomputed."""
    source = tmp_path / "source"
    extension = (source if own else tmp_path / "checkout") / "book" / "_ext"
    (source / "book").mkdir(parents=True)
    shutil.copytree(ROOT / "book" / "_ext", extension)
    record = FigureRecord("kv-size-of-all", "A & B", "kv-size", "0" * 12, "c", "alt", {"a": ("", "b")}, {"s": Source("T", "P")}, csv=b"a\n1\n")
    chunks = [(b"IHDR", b"\0\0\0\1\0\0\0\1\x08\0\0\0\0"), (b"IDAT", zlib.compress(b"\0\0")), (b"IEND", b"")]
    pixel = b"\x89PNG\r\n\x1a\n" + b"".join(publish._chunk(kind, data) for kind, data in chunks)
    publish.write_folder(record, "<svg></svg>", pixel, source / "_figures" / "figures")
    (source / "index.md").write_text("# Book\n\n```{toctree}\n:numbered:\nbook/kv-size\nbook/figures\n```\n")
    (source / "book/kv-size.md").write_text("# Size\n\n:::{figure} x.png\n:name: fig-kv-size-of-all\ncaption\n:::\n")
    (source / "book/x.png").write_bytes(pixel)
    (source / "book/figures.md").write_text("# Figures\n\n```{kvfigures}\n```\n")
    settings = {
        "extensions": ["myst_parser", "kvfigures"], "myst_enable_extensions": ["colon_fence"], "numfig": True, "html_extra_path": ["_figures"],
        "html_baseurl": "https://kv.example.org/", "exclude_patterns": ["_figures", "book/_ext"],
    }  # fmt: skip
    sys.path.insert(0, str(extension))
    sys.modules.pop("kvfigures", None)
    try:
        app = Sphinx(source, None, tmp_path / "html", tmp_path / "tree", "html", settings, status=None, warning=None, parallel=2)
        app.build()
    finally:
        sys.path.pop(0)
    assert app.statuscode == 0
    page = (tmp_path / "html/book/figures.html").read_text("utf-8")
    assert "A &amp; B" in page
    assert '<a href="../book/kv-size.html#fig-kv-size-of-all">Fig. 1.1, in its chapter</a>' in page
    assert 'href="../figures/kv-size-of-all/index.html"' in page
    landing = (tmp_path / "html/figures/kv-size-of-all/index.html").read_text("utf-8")
    assert (f"https://kv.example.org/v/{kvmodel.__version__}/figures/kv-size-of-all/" in landing) == own
    assert ("Recomputed" in landing) != own
    assert "../../book/kv-size.html#fig-kv-size-of-all" in landing
    assert "../../_sources/book/kv-size.md.txt" not in landing  # a page that is no notebook is not offered as one


def test_every_source_of_the_lock_is_a_source_of_the_book() -> None:
    known = tomllib.loads((ROOT / "data" / "sources.toml").read_text("utf-8"))
    assert LOCK["sources"].keys() <= known.keys()
