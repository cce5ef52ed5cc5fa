"""What chapters call: parameters, sentences, headlines, tables; and who is reading."""

import json
from pathlib import Path
from typing import Any

import nbformat
import pandas as pd
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from kvmodel.report import chapter, headline, md, table
from kvmodel.report.cells import GLUED, current, executed_notebooks, interactive, read_headlines
from kvmodel.report.parameters import parameters_hash
from kvmodel.units import KvError


def test_chapter_gives_checked_values_and_what_they_name() -> None:
    p = chapter("kv-size", model="llama-3.3-70b", context_tokens=100_000, users=1, kv_dtype="bf16")
    assert (p.model, p.card.id, p.context_tokens) == ("llama-3.3-70b", "llama-3.3-70b", 100_000)
    assert current.hash == parameters_hash({"model": "llama-3.3-70b", "context_tokens": 100_000, "users": 1, "kv_dtype": "bf16"})
    assert chapter("serving", platform="h100-8").node.accelerators == 8


@pytest.mark.parametrize(
    ("values", "said"), [({"users": 0}, "users: 0"), ({"modle": "x"}, "nearest: 'model'"), ({"model": "llama"}, "model: 'llama'"), ({"users": True}, "users")]
)
def test_chapter_refuses_other_values(values: dict[str, Any], said: str) -> None:
    with pytest.raises(KvError, match=said):
        chapter("kv-size", **values)


def test_a_sentence_is_markdown_and_a_table_can_be_read() -> None:
    assert md("**5 GB**").data == {"text/plain": "**5 GB**", "text/markdown": "**5 GB**"}
    data = pd.DataFrame({"name": ["a | b", "c"], "kv_bytes": [1, 2_000_000], "share": ["5 %", "–"]})
    text = table(data, caption="Two\nrows", units={"kv_bytes": "bytes"}).data["text/markdown"]
    assert text.split("\n") == [
        ":::{table} Two rows", "", "| name | kv_bytes (bytes) | share |", "| :-- | --: | --: |", "| a \\| b | 1 | 5 % |", "| c | 2,000,000 | – |", ":::",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("id", "value", "text", "rest", "said"),
    [
        ("Upper", 1, "1 GB", {}, "an id of a-z"),
        ("double--dash", 1, "1 GB", {}, "an id of a-z"),
        ("no-text", 1, " ", {}, "empty text"),
        ("out-of-range", 5, "5 GB", {"low": 6, "high": 7}, "in its range"),
        ("upside-down", 5, "5 GB", {"low": 7}, "in its range"),
    ],
)
def test_a_headline_is_refused_with_the_reason(id: str, value: Any, text: str, rest: dict[str, Any], said: str) -> None:
    with pytest.raises(KvError, match=said):
        headline(id, value, "GB", text, **rest)


CODE = """
import numpy as np
from kvmodel.report import chapter, headline
from kvmodel.report.cells import interactive
chapter("kv-size", users=1)
headline("whole-number", np.int64(2**53 + 1), "bytes", "9 PB")
headline("with-range", 1 / 3, "ratio", "0.33", low=0.3, high=np.float64(0.4))
headline("no-end", float("inf"), "users", "any number of users")
assert not interactive()
"""
AGAIN = """
try:
    headline("with-range", 1, "", "1")
except ValueError as error:
    said = str(error)
said
"""


def test_headlines_are_recorded_in_a_notebook_and_read_back(tmp_path: Path) -> None:
    notebook = new_notebook(cells=[new_code_cell(CODE), new_code_cell(AGAIN)])
    NotebookClient(notebook, kernel_name="python3").execute()
    nbformat.validate(notebook)
    nbformat.write(notebook, tmp_path / "some-chapter.ipynb")
    assert read_headlines(tmp_path / "some-chapter.ipynb") == [
        {"chapter": "some-chapter", "id": "whole-number", "value": 2**53 + 1, "unit": "bytes", "text": "9 PB", "low": None, "high": None, "exact": True},
        {"chapter": "some-chapter", "id": "with-range", "value": 0.3333333333, "unit": "ratio", "text": "0.33", "low": 0.3, "high": 0.4, "exact": False},
        {"chapter": "some-chapter", "id": "no-end", "value": None, "unit": "users", "text": "any number of users", "low": None, "high": None, "exact": True},
    ]
    glued = [o["metadata"]["scrapbook"]["name"] for o in notebook.cells[0].outputs if GLUED + "text/plain" in o["data"]]
    assert glued == ["whole-number", "with-range", "no-end"]
    assert "used once" in json.dumps(notebook.cells[1].outputs)


def test_only_a_front_end_that_can_answer_is_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    class Kernel:
        asks = True

        def get_parent(self, channel: str) -> dict[str, Any]:
            return {"content": {"allow_stdin": self.asks}}

    class Shell:
        kernel = Kernel()

    assert not interactive()
    monkeypatch.setattr("IPython.core.getipython.get_ipython", Shell)
    assert interactive()
    monkeypatch.setenv("KVMODEL_BUILD", "somewhere")
    assert not interactive()
    monkeypatch.delenv("KVMODEL_BUILD")
    Kernel.asks = False
    assert not interactive()


def test_gathering_pages_read_the_notebooks_of_their_own_execution(monkeypatch: pytest.MonkeyPatch) -> None:
    assert executed_notebooks() == Path(__file__).parents[2] / "book"
    monkeypatch.setenv("KVMODEL_EXECUTED", "/b")
    assert executed_notebooks() == Path("/b/book")
    monkeypatch.setenv("KVMODEL_RUN", "/r")
    assert executed_notebooks() == Path("/r/book")
