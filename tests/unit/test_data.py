"""The data package: valid for Frictionless, rebuilt from data/raw with the same bytes, every row sourced, wrong input refused with table, line and rule."""

import csv
import json
import re
import shutil
from hashlib import sha256
from pathlib import Path

import pandas as pd
import pytest
from frictionless import Package, system

from kvmodel import KvError
from kvmodel.report.record import load_sources
from kvmodel.report.tables import build, files, ids, numbers, page, specs
from kvmodel.tables import DATA, check, package, read, resource, source_ids

ROOT = DATA.parent
TABLES = [r["name"] for r in package()["resources"] if "schema" in r]
tables = pytest.mark.parametrize("name", TABLES)


def test_frictionless_finds_no_fault():
    with system.use_context(trusted=True):
        report = Package(str(DATA / "datapackage.json")).validate()
    assert report.valid, report.flatten(["name", "rowNumber", "fieldName", "note"])[:5]
    assert len(report.tasks) == len(package()["resources"])


def test_frictionless_would_find_one(tmp_path):
    """The check above can fail: one negative window in a copy of the package."""
    found = json.loads((DATA / "datapackage.json").read_text("utf-8"))
    found["resources"] = [{k: v for k, v in r.items() if k not in ("hash", "bytes")} for r in found["resources"] if r["name"] == "effective_context"]
    (tmp_path / "datapackage.json").write_text(json.dumps(found), "utf-8")
    text = (DATA / "effective_context.csv").read_text("utf-8")
    (tmp_path / "effective_context.csv").write_text(text.replace(",256000,", ",-5,", 1), "utf-8")
    with system.use_context(trusted=True):
        assert not Package(str(tmp_path / "datapackage.json")).validate().valid


def test_rebuilt_with_the_same_bytes():
    made = files()
    assert made == files()
    for path, content in made.items():
        assert (ROOT / path).read_bytes() == content, f"{path}: edit data/raw or data/tables.toml, then make data"


def test_raw_inputs_are_those_of_the_manifest():
    with (DATA / "raw" / "manifest.csv").open(encoding="utf-8", newline="") as file:
        rows = {r["file"]: r for r in csv.DictReader(file)}
    assert rows.keys() == {p.name for p in (DATA / "raw").iterdir()} - {"manifest.csv"}
    for name, row in rows.items():
        content = (DATA / "raw" / name).read_bytes()
        assert (str(len(content)), sha256(content).hexdigest()) == (row["bytes"], row["sha256"]), f"{name}: correct data/raw/manifest.csv with it"
        assert "" not in (row["licence"], row["sources"], row["what"])
        known = [i for i in row["sources"].split() if re.fullmatch(r"[a-z0-9-]*-[a-z0-9-]*", i)]
        assert set(known) <= load_sources().keys()
    assert {spec["raw"] for spec in specs().values()} | {"source_names.csv"} == rows.keys()


@tables
def test_every_field_is_described_and_every_number_has_a_unit(name):
    about = resource(name)
    assert "" not in (about["title"], about["description"], about["licenses"][0]["title"])
    assert about["sources"]
    fields = about["schema"]["fields"]
    assert about["schema"]["primaryKey"]
    for field in fields:
        assert field["description"]
        if field["type"] in ("integer", "number"):
            assert field.get("unit") or any(f["name"] == "unit" for f in fields), f"{field['name']}: which unit"


@tables
def test_rows_keep_the_rules(name):
    table, known = read(name), load_sources()
    assert len(table) == resource(name)["rows"] > 0
    assert source_ids(table), "no row names a source"
    assert source_ids(table) <= known.keys()
    assert not table.duplicated(resource(name)["schema"]["primaryKey"]).any()
    for column in table:
        if column.startswith("price") or column.endswith("ratio") or (name == "prices" and column in ("value", "low", "high")):
            assert not (table[column] < 0).any()
        if pd.api.types.is_datetime64_any_dtype(table[column]):
            assert table[column].dropna().between("2017-01-01", "2026-12-31").all()
    if {"low", "high"} <= set(table):
        both = table.dropna(subset=["low", "high"])
        assert (both["low"] <= both["high"]).all()


def test_ratios_are_the_quotients_of_their_prices():
    for name, rows in (("cache_price_history", read("cache_price_history")),):
        paid = rows[rows["price_input"] > 0]
        wrong = (paid["read_ratio"] - paid["price_cache_read"] / paid["price_input"]).abs() > 1e-3
        assert not wrong.any(), f"{name}: {paid[wrong].iloc[0].to_dict()}"


def test_derived_prices_are_what_their_expression_gives():
    """An expression is numbers with * and / alone: computed here, not evaluated."""
    rows = read("prices")
    checked = 0
    for _, row in rows[rows["expression"] != ""].iterrows():
        parts = re.split(r" ([*/]) ", row["expression"])
        value = float(parts[0])
        for sign, number in zip(parts[1::2], parts[2::2], strict=True):
            value = value * float(number) if sign == "*" else value / float(number)
        assert row["value"] == pytest.approx(value, rel=2e-3), row["id"]
        checked += 1
    assert checked >= 8


def test_the_sources_have_all_that_a_citation_needs():
    for key, source in load_sources().items():
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", key), key
        assert "" not in (source.title, source.producer, source.licence, source.accessed), key  # dates: test_sources.py
        assert source.url.startswith("http"), key
        assert not re.search(r"\s", source.url), key


WINDOWS = "context_windows"


def changed(tmp_path, **values):
    """A copy of the table of windows whose third row has other values."""
    rows = pd.read_csv(DATA / "context_windows.csv", dtype=str, keep_default_na=False)
    for column, value in values.items():
        rows.loc[2, column] = value
    path = tmp_path / "context_windows.csv"
    rows.to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("column", "value", "rule"),
    [
        ("release_date", "2024-13-01", "a date from 2012 to 2035"),
        ("release_date", "2023-02-30", "a date from 2012 to 2035"),
        ("release_date", "1999-01-01", "a date from 2012 to 2035"),
        ("release_date", "yesterday", "a date from 2012 to 2035"),
        ("context_tokens", "-1", "a whole number from 0"),
        ("context_tokens", "1e5", "a whole number"),
        ("context_tokens", "many", "a whole number"),
        ("context_tokens", "", "a value, which this field needs"),
        ("context_tokens", "10000000000", "to 100,000,000"),
        ("reasoning", "True", "true or false"),
        ("window_kind", "largest", "one of max default"),
        ("date_sources", "Some Page", "ids of data/sources.toml"),
        ("lab", "", "a value, which this field needs"),
    ],
)
def test_a_wrong_value_is_refused_with_table_line_and_rule(tmp_path, column, value, rule):
    with pytest.raises(KvError) as refusal:
        read(WINDOWS, changed(tmp_path, **{column: value}))
    said = str(refusal.value)
    assert said.startswith(f"context_windows, line 4: {column}: {value!r} is not accepted")
    assert rule in said
    assert "\n" not in said


def test_wrong_tables_are_refused(tmp_path):
    rows = pd.read_csv(DATA / "context_windows.csv", dtype=str, keep_default_na=False)
    path = tmp_path / "context_windows.csv"
    rows.assign(context_length="1").to_csv(path, index=False)
    with pytest.raises(KvError, match=r"context_windows: column 'context_length' is not accepted.*nearest: 'context_tokens'"):
        read(WINDOWS, path)
    rows.drop(columns="lab").to_csv(path, index=False)
    with pytest.raises(KvError, match="context_windows: column 'lab' is missing"):
        read(WINDOWS, path)
    pd.concat([rows, rows.iloc[[5]]]).to_csv(path, index=False)
    with pytest.raises(KvError, match=rf"context_windows, line {len(rows) + 2}: .* is there already"):
        read(WINDOWS, path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(KvError, match="cannot be read as UTF-8 CSV"):
        read(WINDOWS, path)
    path.write_text("", "utf-8")
    with pytest.raises(KvError, match="cannot be read as UTF-8 CSV"):
        read(WINDOWS, path)
    with pytest.raises(KvError, match="cannot be read"):
        read(WINDOWS, tmp_path / "missing.csv")
    with pytest.raises(KvError, match="nearest: 'context_windows'"):
        read("context_window")


def test_an_empty_table_keeps_its_types(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text((DATA / "context_windows.csv").read_text("utf-8").split("\n")[0] + "\n", "utf-8")
    assert read(WINDOWS, path).empty
    assert read(WINDOWS, path)["context_tokens"].dtype == "int64"


def test_negative_prices_are_refused():
    about = resource("cache_price_history")["schema"]
    rows = pd.read_csv(DATA / "cache_price_history.csv", dtype=str, keep_default_na=False).head(3)
    rows.loc[1, "price_input"] = "-0.8"
    with pytest.raises(KvError, match=r"cache_price_history, line 3: price_input: '-0.8' is not accepted; accepted: a number from 0"):
        check("cache_price_history", rows, about)


def test_raw_texts_become_numbers_or_stay_texts():
    assert numbers("12000") == ("12000", "", "")
    assert numbers("0.70-0.90") == ("", "0.70", "0.90")
    assert numbers(">6000") == ("6000", "6000", "")
    assert numbers("2,097,152 (Jun 2024)") == ("2097152", "", "")
    assert numbers("5.09e6") == ("5.09e6", "", "")
    assert numbers("30x per year, 128K") == numbers("") == numbers("-") == ("", "", "")
    with pytest.raises(KvError, match=r"here: source 'nowhere' is not accepted"):
        ids("nowhere", "here")


def test_a_source_that_is_not_known_is_refused(monkeypatch):
    monkeypatch.setattr("kvmodel.report.tables.load_sources", dict)
    with pytest.raises(KvError, match=r"effective_context: source '.*' is not accepted; accepted: an id of data/sources.toml"):
        build("effective_context", specs()["effective_context"])


def test_the_page_names_every_table_and_field():
    text = page(package())
    for name in TABLES:
        about = resource(name)
        assert f"`data/{about['path']}`" in text
        for field in about["schema"]["fields"]:
            assert f"| {field['name']} | " in text
    assert (ROOT / "book" / "data.md").read_text("utf-8") == text


def test_no_checkout_is_said(monkeypatch, tmp_path):
    shutil.copy(DATA / "context_windows.csv", tmp_path)
    monkeypatch.setattr("kvmodel.tables.DATA", Path(tmp_path))
    package.cache_clear()
    try:
        with pytest.raises(KvError, match=r"datapackage.json is neither in the package nor beside it"):
            read(WINDOWS)
    finally:
        package.cache_clear()


# Numbers of the survey that rows of these tables give


def test_tokens_per_character_of_the_survey():
    rows = read("tokenizers").set_index("tokenizer")
    printed = {
        "deepseek V4 (129k)": (0.213, 0.566, 0.263, 0.433), "llama4 (200k)": (0.213, 0.578, 0.261, 0.437), "qwen (151k)": (0.213, 0.630, 0.267, 0.500),
        "o200k_base (GPT-4o+)": (0.213, 0.687, 0.261, 0.437), "llama3 (128k)": (0.213, 0.727, 0.261, 0.437),
        "mistral tekken 240911 (131k)": (0.214, 0.863, 0.272, 0.500), "anthropic (Claude 2 era)": (0.217, 0.877, 0.264, 0.423),
        "cl100k_base (GPT-3.5/4)": (0.213, 0.948, 0.261, 0.437),
    }  # fmt: skip
    assert rows.index.size == len(printed)
    for name, values in printed.items():
        for text, value in zip(("english", "chinese_article", "python_heapq", "json"), values, strict=True):
            ratio = rows.loc[name, f"{text}_tokens"] / rows.loc[name, f"{text}_chars"]
            assert ratio == pytest.approx(value, abs=0.00055), (name, text)
    chinese = rows["chinese_article_tokens"]
    assert round(chinese["cl100k_base (GPT-3.5/4)"] / chinese["deepseek V4 (129k)"], 2) == 1.67


def test_cache_prices_of_the_survey():
    rows = read("cache_prices")
    ratio = rows[rows["metric"] == "cache_read/input"].set_index(["provider", "scope"])["value"]
    printed = {
        ("Anthropic", "Claude 3.x"): 0.10, ("Anthropic", "Opus 5.5, Sonnet 5.5"): 0.05, ("Anthropic", "Fable 5.1, Mythos 5.1"): 0.025,
        ("OpenAI", "GPT-4.1 family"): 0.25, ("OpenAI", "GPT-5 family"): 0.10, ("OpenAI", "GPT-6.1 sol/terra"): 0.05, ("Google", "Gemini 1.5 Pro"): 0.25,
        ("DeepSeek", "deepseek-chat (V2)"): 0.10, ("DeepSeek", "V4 Pro repriced"): 0.0083, ("DeepSeek", "V4 Flash repriced"): 0.02,
        ("DeepSeek", "V4 Pro"): 0.0333, ("DeepSeek", "V4 Flash"): 0.02, ("xAI", "Grok 2"): 1.0, ("Moonshot", "Kimi K2"): 0.25,
    }  # fmt: skip
    assert {key: ratio[key] for key in printed} == printed
    storage = rows[rows["metric"] == "storage"]
    assert sorted(storage.loc[storage["unit"] == "CNY/Mtok/min", "value"]) == [5, 10]
    assert set(storage.loc[storage["unit"] == "USD/Mtok/h", "value"]) == {0, 4.5}


def test_every_surcharge_on_long_context_is_twofold():
    """72 catalogue entries. The survey counts 18 distinct price lines among them; by vendor, input and output price there are 17."""
    rows = read("cache_price_snapshot")
    long = rows[rows["long_context_input_ratio"].notna()]
    assert len(long) == 72
    assert (long["long_context_input_ratio"] == 2).all()
    assert len(long.drop_duplicates(["provider", "price_input", "price_output"])) == 17


def test_first_party_maxima_of_the_survey():
    longest = read("cache_price_snapshot").groupby("provider")["max_input_tokens"].max()
    assert longest["openai"] == 1_050_000
    assert set(longest[["gemini", "moonshot", "zai", "dashscope", "mistral"]]) == {1_048_576}
    assert set(longest[["anthropic", "deepseek", "xai", "minimax"]]) == {1_000_000}


def test_published_shares_of_inference():
    rows = read("inference_share").set_index(["publisher", "year"])
    assert [rows.loc[("Deloitte", y), "value"] for y in (2023, 2025, 2026)] == [0.333, 0.5, 0.667]
    assert rows.loc[("Brookfield", 2030), "value"] == 0.75
    assert rows.loc[("McKinsey", 2030), "low"] == 0.5
    assert tuple(rows.loc[("Micron article", 2030), ["low", "high"]]) == (0.7, 0.9)
    assert set(rows["kind"]) == {"claim", "estimate", "forecast"}
