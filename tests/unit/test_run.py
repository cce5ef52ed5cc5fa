"""Runs: refused before anything runs, atomic, found again, and in the book's look."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import pytest

from kvmodel.cli import main
from kvmodel.report import chapters as book
from kvmodel.report.execute import HEADLINE, execute, records
from kvmodel.report.run import plan_all, plan_chapter, run
from kvmodel.units import KvError
from tests.unit.small_book import make
from tests.unit.test_parameters import NASTY


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return make(tmp_path / "checkout")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One finished run of `sizes` with other values."""
    root = make(tmp_path_factory.mktemp("run") / "checkout")
    return run(plan_chapter(root, "sizes", {"context_tokens": "1M", "users": "3"}), str(root.parent / "out")).folder


def test_the_folder_holds_page_notebook_and_record(done: Path) -> None:
    record = json.loads((done / "run.json").read_text())
    assert record["parameters"] == {"context_tokens": 1_000_000, "users": 3}
    assert record["command"] == "kvmodel run sizes -p context_tokens=1000000 -p users=3"
    assert record["headlines"][0]["value"] == 6_000_000
    assert record["published_numbers"] is False
    assert re.fullmatch("[0-9a-f]{12}", record["parameters_hash"])
    assert set(record["seconds"]) == {"notebooks", "pages", "total"}
    notebook = nbformat.read(done / "sizes.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert records(notebook, HEADLINE)[0]["text"] == "6,000,000 bytes"
    assert "papermill" not in json.dumps(notebook.metadata)
    page = (done / "index.html").read_text()
    assert "6,000,000 bytes" in page
    assert "1_000_000" in page
    assert "100_000" not in page
    assert "not the published numbers" in page
    assert not [p for p in done.parent.iterdir() if p.name.startswith(".")], "nothing is left beside the result"


def test_every_address_of_the_page_is_a_file(done: Path) -> None:
    for page in ("index.html", "book/sizes.html"):
        text = (done / page).read_text()
        addresses = re.findall(r'(?:href|src)="([^"]+)"', text)
        for address in addresses:
            parts = urlsplit(address)
            if parts.scheme in ("http", "https"):
                assert "<link" not in address
                continue
            assert not parts.path or ((done / page).parent / unquote(parts.path)).exists(), f"{page}: {address}"
        assert len(addresses) > 10


def test_values_of_the_default_are_the_published_numbers(root: Path) -> None:
    result = run(plan_chapter(root, "sizes", {"users": 1}, "published"))
    assert result.record["published_numbers"]
    assert "not the published" not in (result.folder / "index.html").read_text()
    assert re.fullmatch("sizes--[0-9a-f]{12}", result.folder.name)
    assert result.folder.parent == Path.cwd() / "runs"


def test_the_same_run_is_found_again(root: Path) -> None:
    def again(**kwargs: bool) -> bool:
        return run(plan_chapter(root, "sizes", {"users": 4}), "out", **kwargs).reused

    assert [again(), again(), again(fresh=True)] == [False, True, False]
    assert not run(plan_chapter(root, "sizes", {"users": 5}), "out").reused, "other values"
    assert not again(), "the folder holds the other values now"
    (root / "_config.yml").write_text((root / "_config.yml").read_text() + "# changed\n")
    assert not again(), "the book has changed"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sizes", "-p", "contxt_tokens=1M"], "nearest: 'context_tokens'"),
        (["sizes", "-p", "users=0"], "users: '0' is not accepted"),
        (["sizes", "-p", "users=two"], "users: 'two'"),
        (["sizes", "-p", "text=a"], "parameter: 'text'"),
        (["sizes", "-p", "users"], "name=value"),
        (["sizes", "-p", "users=1", "-p", "users=2"], "given twice"),
        (["size", "-p", "users=1"], "nearest: 'sizes'"),
        (["index"], "kvmodel run --all"),
        (["--all", "-p", "year=2030"], "parameter: 'year'"),
        (["--all", "-p", "year=x"], "parameter: 'year'"),
        (["sizes", "--all"], "both"),
        ([], "nothing"),
        (["sizes", "--scenario", "bussy"], "nearest: 'busy'"),
        (["sizes", "--scenario", "own.toml"], "'uusers'"),
        (["sizes", "--scenario", "nested.toml"], "nested"),
        (["sizes", "--scenario", "broken.toml"], "not TOML"),
        (["sizes", "--scenario", "typed.toml"], "users"),
        (["sizes", "--book", "nowhere"], "--book DIR"),
        (["sizes", "--out", "full"], "out:"),
        (["sizes", "--out", "own.toml"], "out:"),
        (["sizes", "--frsh"], "--fresh"),
    ],
)
def test_bad_input_is_one_line_and_nothing_runs(root: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    Path("own.toml").write_text("uusers = 3\n")
    Path("nested.toml").write_text("[sizes]\nusers = 3\n")
    Path("broken.toml").write_text("users = \n")
    Path("typed.toml").write_text('users = "many"\n')
    Path("full").mkdir()
    Path("full/mine.txt").write_text("precious")
    before = sorted(Path().rglob("*"))
    assert main(["run", *words, *([] if "--book" in words else ["--book", str(root)])]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert said in err
    assert sorted(Path().rglob("*")) == before


def test_a_scenario_gives_what_a_chapter_declares_and_p_wins(root: Path) -> None:
    assert plan_chapter(root, "sizes", {}, "busy").values["sizes"]["users"] == 500
    assert plan_chapter(root, "sizes", {"users": "7"}, "busy").values["sizes"]["users"] == 7
    assert plan_chapter(root, "words", {}, "busy").values["words"] == {"text": "one two"}
    Path("own.toml").write_text('title = "Mine"\nusers = 2e3\n')
    assert plan_chapter(root, "sizes", {}, "own.toml").values["sizes"]["users"] == 2000


def test_a_failing_cell_keeps_the_last_good_result(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "sizes", "--book", str(root), "--out", "out", "-p", "users=2"]) == 0
    good = (Path("out") / "index.html").read_text()
    capsys.readouterr()
    assert main(["run", "sizes", "--book", str(root), "--out", "out", "-p", "users=13"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "sizes: cell 4 of 5 failed: ValueError: unlucky number; the last good result is unchanged\n"
    assert (Path("out") / "index.html").read_text() == good
    assert [p.name for p in Path().iterdir() if p.name.startswith(".")] == []
    assert main(["run", "sizes", "--book", str(root), "-p", "users=66"]) == 1, "a kernel that dies"
    assert "cell 4 of 5 failed: DeadKernelError" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["sizes"], ["--all"]])
def test_ctrl_c_says_where_and_keeps_the_last_good_result(root: Path, words: list[str]) -> None:
    if words == ["--all"]:  # the cell must end by itself, since it runs in a thread
        path = root / "book/sizes.ipynb"
        path.write_text(path.read_text().replace("sleep(600)", "sleep(4)"))
    Path("out").mkdir()
    Path("out/run.json").write_text("{}")
    process = subprocess.Popen(
        [sys.executable, "-m", "kvmodel", "run", *words, "--book", str(root), "--out", "out", "-p", "users=77"], stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not (root / "book/asleep").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.startswith("sizes: stopped by Ctrl-C in cell 4 of 5" if words == ["sizes"] else "stopped by Ctrl-C")
    assert err.count("\n") == 1
    assert [p.name for p in Path("out").iterdir()] == ["run.json"]
    assert not Path(".out.work").exists()


def test_two_runs_into_one_folder_do_not_mix(root: Path) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-m", "kvmodel", "run", "sizes", "--book", str(root), "--out", "out", "-p", f"users={n}"], stdout=subprocess.DEVNULL)
        for n in (2, 3)
    ]
    assert [p.wait(timeout=120) for p in processes] == [0, 0]
    record = json.loads(Path("out/run.json").read_text())
    text = f"{record['parameters']['users'] * 200_000:,} bytes"
    assert text in Path("out/index.html").read_text()
    assert text in Path("out/sizes.ipynb").read_text()


def test_text_cannot_become_code(root: Path) -> None:
    chapter = book.chapter(root, "words")
    for text in NASTY:
        notebook = execute("words", chapter.text, chapter.values({}, {"text": text}), root / "book")
        said = {h["id"]: h for h in records(notebook, HEADLINE)}
        assert said["length"]["value"] == len(text)
        assert said["length"]["text"] == ascii(text)


def test_the_whole_book_is_marked_and_compared(root: Path) -> None:
    (root / "book/sizes.ipynb").write_text(
        json.dumps(execute("sizes", book.chapter(root, "sizes").text, {"context_tokens": 100_000, "users": 1}, root / "book"))
    )
    result = run(plan_all(root, {"text": "a b c"}, "busy"), "out")
    assert result.record["changed"] == {"users": 500, "text": "a b c"}
    for page in ("book/index.html", "book/sizes.html", "book/words.html", "book/notes.html", "book/comparison.html"):
        text = (result.folder / page).read_text()
        assert "These are not the published numbers: a re-run (scenario busy) with users = 500 (published: 1)" in text, page
    compared = re.sub(r"<[^>]+>", " ", (result.folder / "book/comparison.html").read_text())
    assert re.search(r"bytes-all\s+200,000 bytes\s+100,000,000 bytes\s+500\s+bytes", compared)
    assert re.search(r"words\s+new\s+3 words", compared)
    assert (result.folder / "index.html").is_file()
    assert [h["published"] for h in result.record["headlines"] if h["id"] == "bytes-all"] == [{"value": 200_000, "text": "200,000 bytes"}]


def test_lists_in_json(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chapters", "--json", "--book", str(root)]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [c["id"] for c in listed] == ["index", "sizes", "words"]
    assert main(["chapters", "sizes", "--json", "--book", str(root)]) == 0
    one = json.loads(capsys.readouterr().out)
    assert one["title"] == "How big is it?"
    assert set(one["parameters"][0]) == {"name", "type", "default", "meaning", "unit", "accepted"}
    assert main(["scenarios", "--json", "--book", str(root)]) == 0
    assert json.loads(capsys.readouterr().out)[0] == {"id": "published", "title": "As published", "why": "", "parameters": {}}
    assert main(["scenarios", "busy", "--json", "--book", str(root)]) == 0
    assert json.loads(capsys.readouterr().out)["parameters"] == {"users": 500}
    assert main(["chapters", "sises", "--book", str(root)]) == 2


def test_without_a_book_the_commands_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(book, "__file__", str(tmp_path / "site-packages/kvmodel/report/chapters.py"))
    with pytest.raises(KvError, match="--book DIR"):
        book.book_root()
    make(tmp_path / "checkout")
    monkeypatch.chdir(tmp_path / "checkout/book")
    assert book.book_root() == tmp_path / "checkout"
