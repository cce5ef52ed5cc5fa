"""Chapters and ledger agree: each claim is judged on the page of its chapter, and no page states a verdict that the ledger does not give."""

import json
import re
from pathlib import Path

import pytest

from kvmodel.claims import VERDICTS, claims, judge

BOOK = Path(__file__).parents[2] / "book"
PAGES = {path.stem: json.loads(path.read_text("utf-8"))["cells"] for path in sorted(BOOK.glob("*.ipynb"))}
ROW = re.compile(r"(?m)^\| \[([a-z0-9-]+)\]\((?:claims\.ipynb)?(?:#claim-[a-z0-9-]+)?\) \|.*$")
ENTRY = re.compile(r"\*\*`([a-z0-9-]+)` — ([a-z-]+)\.\*\*")
OWN_WORD = re.compile(r"\b(?:reproduced-if|unit-error|not-testable)\b")  # no other text would use them


def said(cells: list[dict]) -> str:
    outputs = [o["data"].get("text/markdown", "") for c in cells for o in c.get("outputs", ()) if "data" in o]
    prose = [c["source"] for c in cells if c["cell_type"] == "markdown"]
    return "\n\n".join("".join(part) for part in [*outputs, *prose])


def stated(text: str) -> list[tuple[str, str]]:
    """Every (claim, verdict) that a page states, in rows of tables and in entries of the ledger."""
    rows = [(m[1], next(cell for cell in m[0].split(" | ") if cell.strip() in VERDICTS).strip()) for m in ROW.finditer(text)]
    return rows + [(m[1], m[2]) for m in ENTRY.finditer(text)]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_states_the_verdicts_of_the_ledger(page):
    for claim, verdict in stated(said(PAGES[page])):
        assert verdict == judge(claims()[claim]).verdict, f"{page}: {claim}"


@pytest.mark.parametrize("claim", claims())
def test_a_claim_is_judged_in_its_chapter_and_in_the_ledger(claim):
    for page in (claims()[claim].chapter, "claims"):
        assert claim in dict(stated(said(PAGES[page]))), page


@pytest.mark.parametrize("page", [p for p in PAGES if p != "claims"])
def test_no_verdict_is_typed(page):
    """Outside the rows that name their claim, a page does not use the words of verdicts, and prose names no claim's id."""
    rest = ROW.sub("", said(PAGES[page]))
    assert not OWN_WORD.findall(rest)


def test_another_verdict_would_be_found():
    text = "| [kv-compounds](claims.ipynb) | above 3 x | 4 x | contradicted |  |\n**`nvme-zero-loss` — reproduced.** Text."
    assert stated(text) == [("kv-compounds", "contradicted"), ("nvme-zero-loss", "reproduced")]
    assert all(verdict != judge(claims()[claim]).verdict for claim, verdict in stated(text))
