"""Every chapter with other values, one set of them extreme: no error, and no number of the published page left in its sentences, figures and tables."""

import json
import re
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import nbformat
import pytest

from kvmodel.report.chapters import INDEX, book_root, chapters
from kvmodel.report.execute import HEADLINE, execute, records, running

ROOT = book_root()
CHAPTERS = chapters(ROOT)
SETS: dict[str, dict[str, Any]] = {
    "large": {
        "model": "deepseek-v4-pro", "context_tokens": "10M", "users": 7, "kv_dtype": "fp8", "platform": "gb200-nvl72", "device": "kioxia-lc9-245", "count": 37,
        "text": "# 数据 `code` *stars* | bars $x$ <b> {curly} 😀\n\nend", "trace": "synthetic", "case": "high", "year": 2029, "growth_rule": "article",
        "start": "2024-06-01", "end": "2025-12-31", "top_k": 3,
    },
    "least": {
        "model": "mamba-codestral-7b-v0.1", "context_tokens": 1, "users": 2, "kv_dtype": "fp32", "platform": "gh200-1", "device": "nearline-hdd", "count": 1,
        "text": "a", "trace": "chat", "case": "low", "year": 2023, "growth_rule": "flat", "start": "2023-03-01", "end": "2024-12-31", "top_k": 1,
    },
}  # fmt: skip


CONSTANT = {  # published numbers that hold whatever the parameters are, since the sentence names its own case
    "kv-size": {"32.8 GB"},  # the article's first case, Llama-3.3-70B at 100,000 tokens
    "tier-main-memory": {"44.2 GB/s"},  # the chart of all platforms
    "reuse": {"96.3 %"},  # the coding-agent trace in the table of all traces
}


@cache
def folder(name: str) -> Path:
    return Path(mkdtemp(prefix=f"kvmodel-{name}-"))


@cache
def executed(name: str, slug: str) -> Any:
    """Return one chapter executed with a set of values, figure files and all."""
    chapter = CHAPTERS[slug]
    known = {n: v for n, v in SETS[name].items() if n in chapter.parameters}
    with running(folder(name)):
        notebook = execute(slug, chapter.text, chapter.values({}, known), ROOT / "book")
    (folder(name) / "book").mkdir(exist_ok=True)
    nbformat.write(notebook, folder(name) / "book" / f"{slug}.ipynb")
    return notebook


def words(notebook: Any) -> str:
    """Return what the outputs of a notebook say."""
    outputs = [o for c in notebook["cells"] for o in c.get("outputs", ())]
    texts = [o["data"].get("text/markdown", "") for o in outputs if "data" in o]
    return "\n".join("".join(t) if isinstance(t, list) else t for t in texts)


def telling(text: str) -> bool:
    """True for a text with three digits or more: a shorter one can be there by chance."""
    return len(re.findall(r"\d", text)) >= 3


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("slug", [s for s in CHAPTERS if s != INDEX])
def test_a_chapter_follows_its_parameters(slug: str, name: str) -> None:
    notebook = executed(name, slug)
    published = {h["id"]: h for h in records(json.loads(CHAPTERS[slug].text), HEADLINE)}
    found = {h["id"]: h for h in records(notebook, HEADLINE)}
    assert found.keys() == published.keys()
    said = words(notebook)
    changed = [h for h in found.values() if h["text"] != published[h["id"]]["text"]]
    if SETS[name].keys() & CHAPTERS[slug].parameters.keys():
        assert changed or not found, "no headline follows the parameters"
    texts = {published[h["id"]]["text"] for h in changed} - CONSTANT.get(slug, set())
    left = [text for text in texts if telling(text) and re.search(rf"(?<![\d.,]){re.escape(text)}(?![\d.,]*\d)", said)]
    assert not left, f"numbers of the published page are still there: {left}"


@pytest.mark.parametrize("name", SETS)
def test_the_front_page_follows_the_run(name: str) -> None:
    for slug in CHAPTERS:
        if slug != INDEX:
            executed(name, slug)
    if INDEX in CHAPTERS:
        assert words(executed(name, INDEX)) != words(json.loads(CHAPTERS[INDEX].text))
