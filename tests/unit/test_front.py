import json
import re
from pathlib import Path

import pytest

from kvmodel import KvError
from kvmodel.hardware import node
from kvmodel.report import front
from kvmodel.report.figure import csv_bytes
from kvmodel.report.frames_tiers import pyramid_frame

ROOT = Path(__file__).parents[2]


def test_readme_says_what_the_chapters_say():
    text = (ROOT / "README.md").read_text("utf-8")
    assert front.readme(text, front.headlines(ROOT / "book")) == text
    assert len(re.findall(r"^- .*\*\*", text, re.MULTILINE)) == len(front.README)


def test_readme_s_picture_has_the_data_of_the_front_page():
    """By its data, not its bytes: label positions depend on the fonts of a machine."""
    from hashlib import sha256

    lock = json.loads((ROOT / "book" / "figures.lock.json").read_text("utf-8"))
    digest = sha256(csv_bytes(pyramid_frame(node(front.PLATFORM)))).hexdigest()
    assert lock["figures"][front.PYRAMID]["data_sha256"] == digest
    picture = (ROOT / front.PICTURE).read_text("utf-8")
    assert front.PYRAMID in picture
    assert f"data sha256:{digest}" in picture


def test_front_page_s_numbers_exist_and_have_ranges_or_are_exact():
    found = front.headlines(ROOT / "book")
    table = front.selected(found)
    assert 8 <= len(table) <= 10
    assert all(t == "exact" or " to " in t for t in table["range"])


def test_a_missing_or_doubled_headline_is_refused(tmp_path):
    with pytest.raises(KvError, match="front page: no chapter records"):
        front.selected({})
    record = {"id": "a-b", "value": 1, "unit": "x", "text": "1", "low": None, "high": None, "exact": True}
    for name in ("one", "two"):
        cell = {"cell_type": "code", "outputs": [{"data": {"application/vnd.kvmodel.headline+json": record}}], "source": "", "metadata": {}}
        (tmp_path / f"{name}.ipynb").write_text(json.dumps({"cells": [cell]}))
    with pytest.raises(KvError, match="stands in one and in two"):
        front.headlines(tmp_path)
