"""The grammar of chapters: what every committed notebook must look like. (That it says the same when it is run again is nbval's part.)"""

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import nbformat
import pytest

from kvmodel.report.chapters import Chapter
from kvmodel.report.record import MIME

BOOK = Path(__file__).parents[2] / "book"
PATHS = sorted(BOOK.glob("*.ipynb"))
ENDING = ["Change it", "How sure", "Next", "References"]
GATHER = {"index", "claims"}  # the front page and the ledger have a shape of their own
RESULT = re.compile(r"\d[\d.,]*\s?(?:[kMGTP]i?B|bytes|ms|µs|s|h|USD|EUR|%|MW|GW|kW|tokens|users|times|billion|million|trillion)\b(?!`)")

chapters = pytest.mark.parametrize("path", PATHS, ids=lambda p: p.stem)
questions = pytest.mark.parametrize("path", [p for p in PATHS if p.stem not in GATHER], ids=lambda p: p.stem)


def cells(path: Path, kind: str) -> list[dict[str, Any]]:
    return [c for c in Chapter(path).cells if c["cell_type"] == kind]


def prose(path: Path) -> str:
    """Markdown cells without code, formulas, tables, quotations and addresses."""
    text = "\n\n".join(c["source"] for c in cells(path, "markdown"))
    for part in (r"```.*?```", r"\$\$.*?\$\$", r"\$[^$\n]*\$", r"`[^`\n]*`", r'"[^"]{1,200}"', r"(?m)^\|.*$", r"\]\([^)]*\)"):
        text = re.sub(part, " ", text, flags=re.DOTALL if "(?m)" not in part else 0)
    return text


def headings(path: Path) -> list[tuple[int, str]]:
    text = re.sub(r"```.*?```", "", "\n\n".join(c["source"] for c in cells(path, "markdown")), flags=re.DOTALL)
    return [(len(m[1]), m[2]) for m in re.finditer(r"(?m)^(#+) +(.*?) *$", text)]


def test_there_are_chapters() -> None:
    assert PATHS


@chapters
def test_was_executed_in_order_and_carries_no_trace_of_a_machine(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [c for c in notebook.cells if c.cell_type == "code"]
    assert [c.execution_count for c in code] == list(range(1, len(code) + 1)), "make refresh"
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert notebook.metadata.language_info == {"name": "python"}
    assert all(set(c.metadata) <= {"tags", "mystnb"} for c in notebook.cells)
    outputs = [o for c in code for o in c.outputs]
    assert {o.output_type for o in outputs} <= {"execute_result", "display_data"}, "no prints, warnings or errors"
    assert not [o for o in outputs if {"text/html", "image/png", "image/svg+xml"} & set(o.data)], "outputs of an open notebook: make refresh"
    assert not re.search(r"/(work|tmp|root|home|Users)/|\bfile://|127\.0\.0\.1", path.read_text("utf-8"))


@chapters
def test_code_cells_are_short_and_folded(path: Path) -> None:
    for cell in cells(path, "code"):
        lines, tags = cell["source"].split("\n"), cell["metadata"].get("tags", [])
        assert len(lines) <= 15, lines[0]
        assert not any(line.rstrip().endswith(";") for line in lines), "a semicolon silences nothing in nbval"
        assert "parameters" in tags or {"hide-input", "remove-input"} & set(tags), lines[0]
        assert "raises-exception" not in tags


@chapters
def test_parameters_are_literals_and_come_first(path: Path) -> None:
    declared = Chapter(path).parameters  # refuses anything but literals with meaning and unit
    tagged = [n for n, c in enumerate(cells(path, "code")) if "parameters" in c["metadata"].get("tags", [])]
    assert tagged == ([0] if declared else [])
    if declared:
        assert re.search(r"= chapter\(", cells(path, "code")[1]["source"]), "the set-up cell checks the parameters"


@chapters
def test_every_figure_cell_has_its_figure(path: Path) -> None:
    for cell in cells(path, "code"):
        made = [o["data"][MIME] for o in cell["outputs"] if MIME in o["data"]]
        assert len(made) == len(re.findall(r"\bFigure\(", cell["source"])), cell["source"][:80]
        assert all(m["chapter"] == path.stem for m in made)


@chapters
def test_headings_are_in_order(path: Path) -> None:
    found = headings(path)
    assert [title for level, title in found if level == 1] == [found[0][1]]
    assert found[0][1].endswith("?")
    assert all(after <= before + 1 for (before, _), (after, _) in pairwise(found))
    assert all("{" not in title for _, title in found), "an anchor must not depend on a number"
    assert len({title.lower() for _, title in found}) == len(found)


@questions
def test_has_the_parts_of_a_chapter(path: Path) -> None:
    notebook = json.loads(path.read_text("utf-8"))
    said = ["".join(o["data"].get("text/markdown", "")) for c in notebook["cells"] for o in c.get("outputs", ())]
    assert next(text for text in said if text).startswith("**Answer"), "the first thing said is the answer"
    assert [title for level, title in headings(path) if level == 2][-4:] == ENDING
    text = "\n".join(c["source"] for c in cells(path, "markdown"))
    assert re.search(r"(?m)^:::\{admonition\} Takeaway", text)
    assert f"kvmodel run {path.stem}" in text + "".join(said)
    assert "{bibliography}" in text


@chapters
def test_no_result_is_typed(path: Path) -> None:
    text = prose(path)
    assert "{eval}" not in text
    assert not re.findall(RESULT, text), "sentences with numbers are outputs of code"
