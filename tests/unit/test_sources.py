"""The list of sources and what names it: whole entries, each used, dated or saying why not, and a kind with its grounds for every sourced value."""

import csv
import re
import tomllib
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SPECS = ROOT / "kvmodel" / "specs"
SOURCES: dict[str, dict[str, str]] = tomllib.loads((ROOT / "data" / "sources.toml").read_text("utf-8"))
KEYS = {"title", "producer", "url", "published", "accessed", "licence"}
EXTRA = {"undated", "note", "original_title"}
KINDS = {
    *("model-config", "paper", "datasheet", "vendor-claim", "press", "measured", "estimate", "forecast"),
    *("list-price", "contract-price", "spot-price", "derived", "assumption"),
}
COMPUTABLE = re.compile(r"[\d.*+/() ]+")


def day(text: str) -> date:
    """The first day that YYYY, YYYY-MM or YYYY-MM-DD may mean; an error for any other text."""
    assert re.fullmatch(r"\d{4}(-\d\d){0,2}", text), text
    return date.fromisoformat((text + "-01-01")[:10])


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_has_its_keys_dates_and_address(name):
    entry = SOURCES[name]
    assert KEYS <= entry.keys() <= KEYS | EXTRA
    assert all(entry[key].strip() == entry[key] for key in entry)
    assert all(entry[key] for key in KEYS - {"published"})
    assert re.fullmatch(r"https?://[^/\s]+\.[^\s]+", entry["url"])
    assert entry["title"] not in (entry["producer"], entry["url"])
    assert not re.search(r"(^|\s)(file://)?/\w", " ".join(entry.values())), "a path of a machine"
    read = day(entry["accessed"])
    if entry["published"]:
        assert date(1970, 1, 1) <= day(entry["published"])
        assert day(entry["published"]).year <= read.year
    else:
        assert len(entry["undated"]) > 20


def test_no_two_entries_for_the_same_thing():
    assert [pair for pair, n in Counter((s["url"].rstrip("/"), s["title"]) for s in SOURCES.values()).items() if n > 1] == []
    assert [url for url, n in Counter(s["url"].rstrip("/") for s in SOURCES.values()).items() if n > 1] == []


@pytest.mark.parametrize("field", ["producer", "licence"])
def test_one_spelling_each(field):
    spellings = {s[field] for s in SOURCES.values()}
    assert len({re.sub(r"[\W_]", "", text).casefold() for text in spellings}) == len(spellings)


def users() -> str:
    """Everything that may name a source: specs, tables and their raw inputs, notes on texts, package, notebooks as executed."""
    places = ["kvmodel/specs/**/*.toml", "kvmodel/**/*.py", "data/*.csv", "data/raw/*.csv", "data/configs/INDEX.csv", "data/traces/README.csv"]
    paths = {p for pattern in [*places, "data/texts/README.md", "book/*.ipynb"] for p in ROOT.glob(pattern)}
    return "\n".join(p.read_text("utf-8") for p in sorted(paths))


def test_every_source_is_used():
    words = set(re.findall(r"[a-z0-9]+(?:-[a-z0-9]+)*", users()))
    assert len(SOURCES) > 100
    assert sorted(set(SOURCES) - words) == []


def sourced(value: Any, where: str) -> list[tuple[str, dict[str, Any]]]:
    """Every table with a kind inside a spec, with its place."""
    if isinstance(value, list):
        return [found for n, item in enumerate(value) for found in sourced(item, f"{where}[{n}]")]
    if not isinstance(value, dict):
        return []
    here = [(where, value)] if "value" in value and "kind" in value else []
    return here + [found for key, item in value.items() for found in sourced(item, f"{where}.{key}")]


FILES = ["demand.toml", "drivers.toml", "predictions.toml"]
VALUES = [found for name in FILES for found in sourced(tomllib.loads((SPECS / name).read_text("utf-8")), name)]


@pytest.mark.parametrize(("where", "value"), VALUES, ids=[where for where, _ in VALUES])
def test_a_value_of_a_spec_has_kind_grounds_source_and_date(where, value):
    assert value["kind"] in KINDS
    assert value["kind"] != "derived" or value["expression"]
    assert value["kind"] != "assumption" or value["reason"]
    named = value["source"] if isinstance(value["source"], list) else [value["source"]]
    assert named
    assert set(named) <= set(SOURCES)
    day(value["date"])


def rows(name: str) -> list[dict[str, str]]:
    with (ROOT / "data" / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", ["model_facts.csv", "prices.csv", "kv_offload_tests.csv", "kv_storage_reads.csv"])
def test_a_row_of_a_table_has_kind_and_sources(name):
    found = rows(name)
    assert found
    for row in found:
        assert row["kind"] in KINDS, row
        assert set(row["source"].split()) <= set(SOURCES), row
        assert row["source"], row


def test_a_derived_fact_of_a_model_is_what_its_expression_gives():
    """A dense model computes with all its weights; every other derived count is written out and comes to the value."""
    computed = 0
    for row in (r for r in rows("model_facts.csv") if r["kind"] == "derived"):
        expression = row["note"].split(", ")[0]
        if row["field"] == "params_active" and expression == "all weights of a dense model":
            assert row["value"] == next(r["value"] for r in rows("model_facts.csv") if (r["id"], r["field"]) == (row["id"], "params_total"))
            continue
        assert COMPUTABLE.fullmatch(expression), row
        assert eval(expression) == int(row["value"]), row
        computed += 1
    assert computed >= 35


def test_a_derived_price_is_what_its_expression_gives():
    derived = [r for r in rows("prices.csv") if r["kind"] == "derived"]
    assert len(derived) >= 10
    for row in derived:
        assert COMPUTABLE.fullmatch(row["expression"]), row
        assert eval(row["expression"]) == pytest.approx(float(row["value"]), abs=10 ** -len(row["value"].split(".")[1])), row


@pytest.mark.parametrize(("text", "right"), [("2026", True), ("2026-08", True), ("2026-08-21", True), ("2026-13", False), ("August 2026", False), ("", False)])
def test_the_check_of_dates_can_fail(text, right):
    if right:
        assert day(text).year == 2026
    else:
        with pytest.raises((AssertionError, ValueError)):
            day(text)
