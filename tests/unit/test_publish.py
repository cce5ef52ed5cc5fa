"""Figure folders, the lock file, `figures` and `cite`, and frozen versions, on a small book made here."""

import json
import re
import subprocess
import sys
import zlib
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from kvmodel import __version__
from kvmodel.cli import main
from kvmodel.report import cite, landing, lock, publish, release
from kvmodel.report.parameters import parameters_hash
from kvmodel.report.record import LICENCE_URL, MIME, Edition, FigureRecord, Parameter, Source
from kvmodel.units import KvError

SVG = '<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg" width="4" height="4"><rect/></svg>'
PIXEL = [(b"IHDR", b"\0\0\0\1\0\0\0\1\x08\0\0\0\0"), (b"IDAT", zlib.compress(b"\0\0")), (b"IEND", b"")]
PNG = b"\x89PNG\r\n\x1a\n" + b"".join(publish._chunk(kind, data) for kind, data in PIXEL)
SOURCES = {
    "micron": Source("9650 & brief </script>", "Micron", "https://example.org/a?b=1&c=2", "2026-02", "2026-11-01", "proprietary"),
    "own": Source("Undated note"),
}
SPEC = {
    "layer": [
        {"encoding": {"x": {"title": "Context (tokens, log scale)"}, "y": {"axis": {"title": "KV cache (GB)"}}}},
        {"encoding": {"x": {"field": "a", "title": None}}},
    ]
}


def figure(figure_id: str = "kv-by-attention", rows: str = "x,1\n", **values: Any) -> FigureRecord:
    parameters = {"context_tokens": Parameter(values.get("context_tokens", 100_000), 100_000, "tokens", "length of one request")}
    digest = parameters_hash({name: p.value for name, p in parameters.items()})
    return FigureRecord(
        figure_id,
        'KV <of> one "request" & more',
        "kv-size",
        digest,
        "A *caption* with <b>.",
        "Dot plot of the cache, log scale",
        {"bytes": ("bytes", "KV & cache")},
        SOURCES,
        parameters,
        csv=f"name,bytes\n{rows}".encode(),
        spec=SPEC,
    )


def notebook(path: Path, *records: FigureRecord) -> None:
    outputs = [{"output_type": "display_data", "metadata": {}, "data": {MIME: record.meta(), "text/plain": record.id}} for record in records]
    path.write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": "# x"}, {"cell_type": "code", "outputs": outputs}], "nbformat": 4}))


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with one chapter, two figures, their sources, and a lock file; the current folder is in it."""
    root = tmp_path / "checkout"
    (root / "book").mkdir(parents=True)
    (root / "data").mkdir()
    (root / "_config.yml").write_text("title: x\nhtml:\n  use_repository_button: false\n")
    (root / "data" / "sources.toml").write_text(
        "".join(f"[{k}]\n" + "".join(f"{n} = {json.dumps(v)}\n" for n, v in vars(s).items() if v and n != "kinds") for k, s in SOURCES.items())
    )
    (root / "data" / "prices.csv").write_text("value,kind,source\n1,list-price,micron\n2,estimate,micron\n")
    notebook(root / "book" / "kv-size.ipynb", figure(), figure("per-rank", "y,2\n"))
    monkeypatch.chdir(root)
    lock.write_lock(Path.cwd())
    return root


def site(root: Path, *records: FigureRecord, edition: Edition | None = None) -> Path:
    made = root / "_build" / "html"
    for page in ("index.html", "book/kv-size.html", "book/figures.html", "_sources/book/kv-size.ipynb"):
        (made / page).parent.mkdir(parents=True, exist_ok=True)
        (made / page).write_text(f"<title>{page}</title>")
    for record in records or (figure(), figure("per-rank", "y,2\n")):
        publish.write_folder(record, SVG, PNG, made / "figures")
    publish.finish(made, root, edition or Edition(__version__, "0a1b2c3d4e5f"))
    return made


def kvmodel(*argv: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(list(argv))
    out, err = capsys.readouterr()
    return code, out, err


# folder and landing page


def test_a_folder_holds_every_file_and_the_hashes_are_theirs(book: Path) -> None:
    folder = site(book) / "figures" / "kv-by-attention"
    names = {f"kv-by-attention.{s}" for s in ("svg", "png", "csv", "vl.json")} | {"cite.txt", "cite.bib", "cite.json", "figure.json", "index.html"}
    assert {p.name for p in folder.iterdir()} == names
    facts = json.loads((folder / "figure.json").read_text())
    assert {n: sha256((folder / n).read_bytes()).hexdigest() for n in names - {"figure.json", "index.html"}} == facts["files"]
    assert facts["data_sha256"] == facts["files"]["kv-by-attention.csv"]
    assert facts["columns"] == {"bytes": {"unit": "bytes", "meaning": "KV & cache"}}
    assert facts["sources"]["micron"]["kinds"] == ["estimate", "list-price"]
    assert facts["command"] == "kvmodel run kv-size"
    assert "address" not in facts
    assert publish.read_folder(folder).meta() == figure().meta()


def test_files_are_the_same_bytes_from_run_to_run(book: Path) -> None:
    first = {p.name: p.read_bytes() for p in (site(book) / "figures" / "per-rank").iterdir()}
    assert {p.name: p.read_bytes() for p in (site(book) / "figures" / "per-rank").iterdir()} == first


class Reader(HTMLParser):
    """Headings, links and images of a page, and whether tags close as they opened."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.headings: list[int] = []
        self.links: list[str] = []
        self.alts: list[str] = []
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.ids += [found["id"]] if found.get("id") else []
        if re.fullmatch(r"h\d", tag):
            self.headings.append(int(tag[1]))
        if tag == "a":
            self.links.append(found["href"] or "")
        if tag == "img":
            self.alts.append(found["alt"] or "")
        if tag not in ("meta", "link", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def linked(page: str) -> dict[str, Any]:
    return json.loads(re.search(r'<script type="application/ld\+json">(.*?)</script>', page, re.DOTALL)[1])


def addresses(part: Any) -> list[str]:
    if isinstance(part, dict):
        own = [v for k, v in part.items() if k in ("url", "contentUrl", "thumbnailUrl", "acquireLicensePage", "license")]
        return own + [a for v in part.values() for a in addresses(v)]
    return [a for v in part for a in addresses(v)] if isinstance(part, list) else []


@pytest.mark.parametrize("base", ["", "https://kv.example.org/"])
def test_the_landing_page_is_whole_and_every_address_of_ours_exists(book: Path, base: str) -> None:
    made = site(book, edition=Edition(__version__, "0a1b2c3d4e5f", base=base))
    folder = made / "figures" / "kv-by-attention"
    page = (folder / "index.html").read_text()
    read = Reader(page)
    assert read.open == []
    assert read.headings[0] == 1
    assert read.headings.count(1) == 1
    assert all(after <= before + 1 for before, after in zip(read.headings, read.headings[1:]))
    assert read.alts == ["Dot plot of the cache, log scale"]
    assert len(set(read.ids)) == len(read.ids)
    frozen = f"{base}v/{__version__}/" if base else None
    graph = linked(page)
    outside = {LICENCE_URL, SOURCES["micron"].url} | ({f"{frozen}figures/kv-by-attention/"} if frozen else set())
    for address in {*read.links, *addresses(graph)} - outside:
        local = made / address.removeprefix(frozen) if frozen and address.startswith(frozen) else folder / urlsplit(address).path
        assert local.resolve().is_file(), address
    kinds = {part["@type"]: part for part in graph["@graph"]}
    assert {"ImageObject", "Dataset", "SoftwareSourceCode", "Report"} == set(kinds)
    assert kinds["ImageObject"]["name"] == 'KV <of> one "request" & more'
    assert kinds["Dataset"]["distribution"][0]["sha256"] == figure().data_sha256
    assert kinds["Dataset"]["variableMeasured"] == [{"@type": "PropertyValue", "name": "bytes", "description": "KV & cache", "unitText": "bytes"}]
    assert kinds["Dataset"]["isBasedOn"][0]["name"] == "9650 & brief </script>"
    assert kinds["SoftwareSourceCode"]["identifier"] == "0a1b2c3d4e5f"
    for text in (
        "<code>p:",
        figure().data_sha256,
        "../../book/kv-size.html#fig-kv-by-attention",
        "accessed 2026-11-01",
        "kind: estimate, list-price",
        "licence: proprietary",
        "no date of publication given",
        "Processing major",
        "Context (tokens, log scale)",
        "KV cache (GB)",
        "A <em>caption</em> with &lt;b&gt;.",
    ):
        assert text in page
    assert "10.5281" not in page
    assert "<b>" not in page


def test_without_git_the_page_says_so_and_the_citation_leaves_it_out(book: Path) -> None:
    folder = site(book, edition=Edition(__version__)) / "figures" / "per-rank"
    assert "commit not recorded" in (folder / "index.html").read_text()
    assert "commit" not in (folder / "cite.bib").read_text()
    assert "identifier" not in {p["@type"]: p for p in linked((folder / "index.html").read_text())["@graph"]}["SoftwareSourceCode"]


def test_a_recomputed_figure_is_marked_and_has_no_published_address(book: Path) -> None:
    edition = Edition(__version__, base="https://kv.example.org/", recomputed=True)
    folder = site(book, figure(context_tokens=2_000_000), edition=edition) / "figures" / "kv-by-attention"
    page = (folder / "index.html").read_text()
    assert "These are not the published numbers" in page
    assert "kvmodel run kv-size -p context_tokens=2000000" in page
    assert not any("kv.example.org" in p.read_text() for p in folder.iterdir() if p.suffix != ".png")
    assert "Recomputed from" in (folder / "cite.txt").read_text()


def test_pictures_say_what_they_are_when_found_alone(book: Path) -> None:
    folder = site(book) / "figures" / "kv-by-attention"
    svg = (folder / "kv-by-attention.svg").read_text()
    assert '<svg role="img" xmlns' in svg
    assert "<title>KV &lt;of&gt; one &quot;request&quot; &amp; more</title><desc>Dot plot" in svg
    assert svg.endswith("<rect/></svg>")
    png = (folder / "kv-by-attention.png").read_bytes()
    chunks, at = {}, 8
    while at < len(png):
        size = int.from_bytes(png[at : at + 4], "big")
        kind, data = png[at + 4 : at + 8], png[at + 8 : at + 8 + size]
        assert int.from_bytes(png[at + 8 + size : at + 12 + size], "big") == zlib.crc32(kind + data)
        chunks[data.split(b"\0")[0] if kind == b"iTXt" else kind] = data
        at += 12 + size
    assert next(iter(chunks)) == b"IHDR"
    assert list(chunks)[-1] == b"IEND"
    assert {b"Title", b"Source", b"Description", b"Copyright"} <= chunks.keys()
    assert b"Micron (2026)" in chunks[b"Source"]


def test_axes_are_read_from_layers_and_never_from_data() -> None:
    assert landing.axes(SPEC | {"data": {"values": [{"encoding": {"x": {"title": "no"}}}]}}) == {"x": ["Context (tokens, log scale)"], "y": ["KV cache (GB)"]}


# lock file


def test_the_lock_is_stable_and_holds_no_commit(book: Path) -> None:
    text = (book / lock.LOCK).read_text()
    assert lock.lock_text(lock.derive_lock(book)) == text
    assert "commit" not in text
    assert list(json.loads(text)["figures"]) == ["kv-by-attention", "per-rank"]


def test_an_id_is_never_lost_unless_it_is_retired(book: Path) -> None:
    notebook(book / "book" / "kv-size.ipynb", figure())
    with pytest.raises(KvError, match=r"figure per-rank: published, but no executed chapter draws it; .*retired"):
        lock.write_lock(Path.cwd())
    held = json.loads((book / lock.LOCK).read_text())
    held["figures"]["per-rank"]["retired"] = {"since": "2026.12.0", "to": "kv-by-attention", "why": "told twice"}
    (book / lock.LOCK).write_text(json.dumps(held))
    lock.write_lock(Path.cwd())
    assert json.loads((book / lock.LOCK).read_text())["figures"]["per-rank"]["retired"]["to"] == "kv-by-attention"
    made = site(book, figure())
    page = (made / "figures" / "per-rank" / "index.html").read_text()
    assert 'href="../kv-by-attention/index.html"' in page
    assert Reader(page).open == []
    with pytest.raises(KvError, match=r"retired in version .*told twice.*use kv-by-attention"):
        lock.locked(lock.read_lock(book), "per-rank")


def test_earlier_versions_stay_listed(book: Path) -> None:
    old = lock.read_lock(book)
    changed = [figure(rows="x,2\n").meta(), figure("per-rank", "y,2\n").meta()]
    new = lock.make_lock(old, changed, SOURCES, "2027.1.0")
    assert new["figures"]["kv-by-attention"]["history"] == [
        {"version": __version__, "parameters_hash": figure().parameters_hash, "data_sha256": figure().data_sha256}
    ]
    again = lock.make_lock(new, changed, SOURCES, "2027.1.0")
    assert again == new
    later = lock.make_lock(new, [figure(rows="x,3\n").meta(), changed[1]], SOURCES, "2027.2.0")
    assert [h["version"] for h in later["figures"]["kv-by-attention"]["history"]] == [__version__, "2027.1.0"]


def test_two_figures_of_one_id_and_unknown_sources_are_refused(book: Path) -> None:
    notebook(book / "book" / "serving.ipynb", figure())
    with pytest.raises(KvError, match="figure kv-by-attention: two figures carry this id"):
        lock.write_lock(Path.cwd())
    (book / "book" / "serving.ipynb").unlink()
    with pytest.raises(KvError, match="nearest: 'micron'"):
        lock.make_lock({}, [figure().meta() | {"sources": ["micro"]}], SOURCES, __version__)


# commands


def test_figures_lists_and_shows_one_without_a_build(book: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = kvmodel("figures", "--json", capsys=capsys)
    rows = json.loads(out)
    assert (code, err) == (0, "")
    assert [r["id"] for r in rows] == ["kv-by-attention", "per-rank"]
    assert rows[0].keys() == {"id", "title", "chapter", "files", "parameters_hash", "data_sha256", "version"}
    made = site(book)
    assert all((made / name).is_file() for row in rows for name in row["files"])
    assert json.loads(kvmodel("figures", "per-rank", "--json", capsys=capsys)[1]) == rows[1]
    assert "per-rank" in kvmodel("figures", capsys=capsys)[1]


def test_cite_prints_each_format_and_the_same_as_the_landing_page(book: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = site(book, edition=Edition(__version__)) / "figures" / "per-rank"
    printed = {f: kvmodel("cite", "per-rank", "--format", f, capsys=capsys)[1] for f in ("text", "inline", "bibtex", "csl-json")}
    assert printed["bibtex"] == (folder / "cite.bib").read_text()
    assert printed["csl-json"] == (folder / "cite.json").read_text()
    assert f"{printed['text']}\n{printed['inline']}" == (folder / "cite.txt").read_text()
    assert kvmodel("cite", "fig:per-rank", capsys=capsys)[1] == printed["text"]
    document = json.loads(kvmodel("cite", "per-rank", "--json", capsys=capsys)[1])
    assert document["bibtex"] == printed["bibtex"]


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["cite", "per-rnk"], "figure: 'per-rnk' is not accepted; accepted: the id of a published figure (kvmodel figures lists them); nearest: 'per-rank'"),
        (["figures", "kv"], "nearest: 'kv-by-attention'"),
        (["cite", "per-rank", "--format", "bibtx"], "nearest: 'bibtex'"),
        (["cite"], "exactly one of FIGURE and --verify"),
        (["cite", "per-rank", "--verify", "x.csv"], "exactly one of FIGURE and --verify"),
        (["cite", "--verify", "absent.csv"], "file: 'absent.csv'"),
        (["cite", "--verify", "."], "file: '.'"),
        (["figures", "--book", "absent"], "--book DIR"),
    ],
)
def test_bad_input_is_refused_in_one_line(book: Path, argv: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = kvmodel(*argv, capsys=capsys)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert line in err


def test_a_damaged_lock_is_refused_in_one_line(book: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("{", "[]", '{"figures": 3, "sources": {}}'):
        (book / lock.LOCK).write_text(text)
        assert kvmodel("figures", capsys=capsys)[0] == 2


def test_the_book_is_found_from_below_and_by_option(book: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(book / "data")
    assert len(json.loads(kvmodel("figures", "--json", capsys=capsys)[1])) == 2
    monkeypatch.chdir("/")
    assert len(json.loads(kvmodel("figures", "--json", "--book", str(book), capsys=capsys)[1])) == 2


def test_the_commands_start_without_anything_that_is_slow(book: Path) -> None:
    code = "import sys; from kvmodel.cli import main; main(['cite', 'per-rank']); print(*sorted({m.split('.')[0] for m in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()[-1].split()
    assert not {"numpy", "pandas", "altair", "jinja2", "sphinx", "yaml", "nbformat"} & set(loaded)


# verify


def verify(file: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    code, out, _ = kvmodel("cite", "--verify", str(file), "--json", capsys=capsys)
    assert code == 0
    return json.loads(out)


def test_verify_knows_published_rerun_and_unknown(book: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = site(book)
    published = made / "figures" / "per-rank" / "per-rank.csv"
    found = verify(published, capsys)
    assert (found["status"], found["exact"], found["matches"][0]["figure"], found["matches"][0]["version"]) == ("published", True, "per-rank", __version__)
    again = figure(rows="x,20\n", context_tokens=2_000_000)
    run = book / "runs" / "kv-size--abc"
    run.mkdir(parents=True)
    (run / "run.json").write_text(json.dumps({"version": __version__, "figures": [again.meta()]}))
    (book / "runs" / "broken").mkdir()
    (book / "runs" / "broken" / "run.json").write_text("{")
    mine = book / "mine.csv"
    mine.write_bytes(again.csv)
    match = verify(mine, capsys)["matches"][0]
    assert (match["status"], match["figure"], match["where"]) == ("re-run", "kv-by-attention", "runs/kv-size--abc")
    assert match["changed"] == {"context_tokens": 2_000_000}
    assert "context_tokens = 2,000,000" in kvmodel("cite", "--verify", "mine.csv", capsys=capsys)[1]
    mine.write_bytes(again.csv + b"z,3\n")
    assert verify(mine, capsys) == {"file": str(mine), "data_sha256": sha256(mine.read_bytes()).hexdigest(), "status": "unknown", "exact": True, "matches": []}
    assert kvmodel("cite", "--verify", "mine.csv", capsys=capsys)[1].startswith("unknown: mine.csv")


def test_verify_sees_through_a_spreadsheets_line_ends(book: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = book / "saved.csv"
    file.write_bytes(b"\xef\xbb\xbf" + figure().csv.replace(b"\n", b"\r\n"))
    found = verify(file, capsys)
    assert (found["status"], found["exact"]) == ("published", False)
    assert "the line ends or the byte order mark were changed" in kvmodel("cite", "--verify", "saved.csv", capsys=capsys)[1]


def test_verify_knows_earlier_versions_from_the_lock_and_from_frozen_sites(book: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = figure(rows="x,0\n")
    held = json.loads((book / lock.LOCK).read_text())
    held["figures"]["kv-by-attention"]["history"] = [{"version": "2026.6.0", "parameters_hash": old.parameters_hash, "data_sha256": old.data_sha256}]
    (book / lock.LOCK).write_text(json.dumps(held))
    frozen = figure("per-rank", "y,0\n")
    publish.write_folder(frozen, SVG, PNG, book / "dist/site/v/2026.6.0/figures")
    for record in (old, frozen):
        (book / "old.csv").write_bytes(record.csv)
        match = verify(book / "old.csv", capsys)["matches"][0]
        assert (match["status"], match["figure"]) == ("published", record.id)


# release


def test_release_freezes_a_version_once_and_lays_out_all(book: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    made = site(book)
    assert release.main([]) == 0
    archive = book / "dist" / f"site-{__version__}.zip"
    first = archive.read_bytes()
    assert (book / "dist" / f"site-{__version__}.zip.sha256").read_text() == f"{sha256(first).hexdigest()}  {archive.name}\n"
    manifest = json.loads((book / "dist" / f"site-{__version__}.manifest.json").read_text())
    frozen = book / "dist" / "site" / "v" / __version__
    assert {p: sha256((frozen / p).read_bytes()).hexdigest() for p in manifest["files"]} == {p: f["sha256"] for p, f in manifest["files"].items()}
    assert {p.relative_to(frozen).as_posix() for p in frozen.rglob("*") if p.is_file()} == {*manifest["files"], "manifest.json"}
    (made / "index.html").write_text("changed")
    capsys.readouterr()
    assert release.main([]) == 2
    assert "a frozen one is never rewritten" in capsys.readouterr().err
    assert archive.read_bytes() == first

    next_version = "2027.1.0"
    for module in (release, publish):
        monkeypatch.setattr(module, "__version__", next_version)
    monkeypatch.setattr("kvmodel.__version__", next_version)
    before = {p: p.read_bytes() for p in frozen.rglob("*") if p.is_file()}
    notebook(book / "book" / "kv-size.ipynb", figure(rows="x,9\n"), figure("per-rank", "y,2\n"))
    lock.write_lock(Path.cwd())
    site(book, figure(rows="x,9\n"), figure("per-rank", "y,2\n"), edition=Edition(next_version))
    assert release.main([]) == 0
    assert {p: p.read_bytes() for p in before} == before
    pages = {i: (book / "dist" / "site" / "figures" / i / "index.html").read_text() for i in ("kv-by-attention", "per-rank")}
    assert f'<a href="../../v/{__version__}/figures/kv-by-attention/index.html">{__version__}</a>: data changed after it' in pages["kv-by-attention"]
    assert f"{__version__}</a>: the same data as the version after it" in pages["per-rank"]
    assert f'<a href="../../v/{next_version}/figures/per-rank/index.html">{next_version}</a>: this version, frozen' in pages["per-rank"]
    assert (book / "dist" / "site" / "figures" / "kv-by-attention" / "kv-by-attention.csv").read_text().endswith("x,9\n")


def test_the_same_site_gives_the_same_archive(book: Path) -> None:
    made, edition = site(book), Edition(__version__)
    first = release.freeze(made, book / "one", edition).read_bytes()
    for path in made.rglob("*"):
        path.touch()
    assert release.freeze(made, book / "two", edition).read_bytes() == first


def test_release_refuses_what_does_not_belong_together(book: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert release.main([]) == 2
    assert "make book" in capsys.readouterr().err
    site(book, edition=Edition("2020.1.0"))
    assert release.main([]) == 2
    assert "of version 2020.1.0" in capsys.readouterr().err
    notebook(book / "book" / "kv-size.ipynb", figure(rows="x,7\n"), figure("per-rank", "y,2\n"))
    assert release.main(["--check"]) == 2
    assert "make refresh" in capsys.readouterr().err
    assert not (book / "dist").exists()
    assert release.main(["--layout"]) == 2


@pytest.mark.parametrize(
    "line", ["html:\n  baseurl: {}/\n", 'html:\n  # the address\n  baseurl: "{}"  # public\n', "html: {{favicon: x, baseurl: {}, use_x: false}}\n"]
)
def test_a_frozen_citation_carries_the_frozen_address(book: Path, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    (book / "_config.yml").write_text(line.format("https://kv.example.org/book"))
    address = f"https://kv.example.org/book/v/{__version__}/figures/per-rank/"
    assert address in kvmodel("cite", "per-rank", capsys=capsys)[1]
    assert address in kvmodel("cite", "per-rank", "--format", "csl-json", capsys=capsys)[1]


def test_kinds_come_from_tables_lists_and_cards() -> None:
    card = {"sources": {"release_date": ["a"], "hidden_size": ["b", "c"]}, "kinds": {"release_date": "press", "hidden_size": "model-config"}}
    spec = {"memory": {"value": 1, "kind": "datasheet", "source": "d"}, "rows": [{"kind": "measured", "sources": ["e", "f"]}, 3], "title": "x", "card": card}
    assert set(publish._kinds(spec)) == {("a", "press"), ("b", "model-config"), ("c", "model-config"), ("d", "datasheet"), ("e", "measured"), ("f", "measured")}


def test_producers_in_a_foot_line() -> None:
    assert cite.producers(figure()) == "Micron (2026), Undated note (n.d.)"
    assert cite.producers(replace(figure(), sources={})) == ""


@pytest.mark.parametrize("line", ["", "html:\n  # baseurl: https://kv.example.org\n", "html:\n  baseurl:\n  favicon: x\n", 'html:\n  baseurl: ""\n'])
def test_no_address_is_made_up(book: Path, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    (book / "_config.yml").write_text(line)
    assert "http" not in kvmodel("cite", "per-rank", "--format", "bibtex", capsys=capsys)[1]
