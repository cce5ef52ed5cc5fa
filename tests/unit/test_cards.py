"""Model cards: rebuilt from their configs without a difference, sourced, and right where others are not."""

import csv
import re
import tomllib
from pathlib import Path

import pytest

from kvmodel import KvError, card, card_ids, kv_bytes, read_config
from kvmodel.cards import SPECS, find_model, from_toml, to_toml
from kvmodel.places import DATA
from kvmodel.report.build_cards import CONFIGS, FACTS, build_all, card_id, index, text

BUILT = {c.id: c for c in build_all()}
SOURCES = tomllib.loads((DATA / "sources.toml").read_text())
KINDS = {"model-config", "paper", "datasheet", "vendor-claim", "press", "measured", "estimate", "forecast", "derived", "assumption"}


def test_a_card_for_each_config_and_no_other():
    assert sorted(BUILT) == list(card_ids())
    assert len(BUILT) == len(index()) >= 70


@pytest.mark.parametrize("name", BUILT)
def test_card_is_what_its_config_and_facts_give(name):
    assert card(name) == BUILT[name]
    assert Path(SPECS, f"{name}.toml").read_text() == text(BUILT[name])
    assert from_toml(to_toml(card(name))) == card(name)


@pytest.mark.parametrize("name", BUILT)
def test_every_value_has_a_kind_and_a_source_or_is_an_estimate(name):
    made = card(name)
    for field in ("native_context_tokens", "release_date", "params_total", "params_active"):
        if getattr(made, field) is not None:
            assert made.kinds[field] in KINDS
            assert made.kinds[field] == "estimate" or made.sources[field]
    assert made.sources["geometry"]
    assert {s for ids in made.sources.values() for s in ids} <= set(SOURCES)
    assert set(made.kinds.values()) <= KINDS
    if made.release_date:
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", made.release_date)


def test_facts_belong_to_cards_and_derived_ones_are_computed():
    with FACTS.open() as file:
        rows = list(csv.DictReader(file))
    assert {r["id"] for r in rows} <= set(BUILT)
    assert len({(r["id"], r["field"]) for r in rows}) == len(rows)
    derived = [r for r in rows if r["kind"] == "derived" and r["field"] == "params_total"]
    assert len(derived) >= 15
    for row in derived:
        expression = row["note"].split(",")[0]
        assert re.fullmatch(r"[\d*+() ]+", expression)
        assert eval(expression) == int(row["value"])


@pytest.mark.parametrize("name", sorted(set(BUILT) - {"mamba-codestral-7b-v0.1", "rwkv-5-world-3b"}))
def test_native_context_is_known(name):
    assert 2048 <= card(name).native_context_tokens <= 10_485_760


# Bytes that the architecture must store: bf16, one sequence, windows capped, recurrent state in fp32, no draft layers, no pages.
MUST_STORE = {
    ("llama-3.3-70b", 100_000): 32_768_000_000,
    ("llama-3.1-405b", 1_000_000): 516_096_000_000,
    ("deepseek-v3", 131_072): 9_210_691_584,
    ("gpt-oss-120b", 131_072): 4_836_556_800,
    ("gemma-3-27b", 131_072): 11_173_625_856,
    ("qwen3-next-80b-a3b", 262_144): 6_519_717_888,
    ("llama-4-scout-17b-16e", 1_000_000): 50_359_959_552,
    ("kimi-k2", 131_072): 9_210_691_584,
    ("mistral-7b-v0.1", 32_768): 536_870_912,
    ("falcon-40b", 2_048): 251_658_240,
    ("minimax-m1-40k", 1_000_000): 41_253_601_280,
}


@pytest.mark.parametrize("case", MUST_STORE, ids=lambda c: c[0])
def test_models_that_other_tools_get_wrong(case):
    assert kv_bytes(card(case[0]), case[1]) == MUST_STORE[case]


def test_jamba_large_the_twelfth_of_them():
    large = read_config({"model_type": "jamba", "num_hidden_layers": 72, "hidden_size": 8192, "num_attention_heads": 64, "num_key_value_heads": 8})
    assert kv_bytes(large, 262_144) == 9_735_929_856


@pytest.mark.parametrize(
    ("name", "kv_dtype", "indexer_dtype", "per_token"),
    [
        ("deepseek-v3.2", "bf16", "fp8", 78_324),
        ("deepseek-v3.2", "fp8_ds_mla", "fp8", 48_068),
        ("deepseek-v3.2", "bf16", "bf16", 85_888),
        ("minimax-m3", "bf16", "fp8", 137_472),
        ("qwen3.5-27b", "bf16", "fp8", 65_690),
        ("qwen3.5-27b", "fp8", "fp8", 32_922),
        ("gemma-4-26b-a4b", "bf16", "fp8", 20_690),
        ("gemma-4-26b-a4b", "fp8", "fp8", 10_345),
        ("deepseek-v4-pro", "bf16", "bf16", 9_856),
    ],
)
def test_average_bytes_per_token_at_a_million(name, kv_dtype, indexer_dtype, per_token):
    assert round(kv_bytes(card(name), 1_000_000, kv_dtype=kv_dtype, indexer_dtype=indexer_dtype) / 1e6) == per_token


def test_attention_kinds_of_the_cards():
    kinds = {
        "llama-3.3-70b": "gqa",
        "bloom": "mha",
        "falcon-7b": "mqa",
        "step3": "mfa",
        "deepseek-v3": "mla",
        "mistral-7b-v0.1": "window",
        "gpt-oss-120b": "gqa+window",
        "llama-4-scout-17b-16e": "gqa+chunked",
        "glm-5.2": "mla+dsa",
        "minimax-m3": "gqa+msa",
        "deepseek-v4-pro": "window+csa+hca",
        "tencent-hunyuan-large": "gqa+shared",
        "gemma-3n-e4b": "gqa+window+shared",
        "ai21-jamba-1.5-mini": "gqa+mamba1",
        "falcon-h1-7b": "gqa+mamba2",
        "qwen3.6-27b": "gqa+gdn",
        "kimi-linear-48b-a3b": "mla+kda",
        "minimax-m1-40k": "gqa+lightning",
        "rwkv-5-world-3b": "rwkv",
        "mamba-codestral-7b-v0.1": "mamba2",
        "llama-3_3-nemotron-super-49b-v1": "gqa",
    }
    assert {name: card(name).attention for name in kinds} == kinds


@pytest.mark.parametrize("model", ["llama-3.3-70b", str(CONFIGS / "Qwen__Qwen3-8B.json")])
def test_find_model_takes_an_id_or_a_path(model):
    assert find_model(model).layers


def test_unknown_card_names_the_nearest():
    with pytest.raises(KvError, match=r"nearest: 'llama-3\.3-70b'"):
        card("llama-3.3-70")
    with pytest.raises(KvError):
        card("../secrets")


@pytest.mark.parametrize(
    ("repository", "name"),
    [
        ("meta-llama/Meta-Llama-3.1-8B", "llama-3.1-8b"),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "nvidia-nemotron-3-nano-30b-a3b"),
        ("meta-llama/Llama-2-7b-hf", "llama-2-7b"),
        ("mistralai/Mistral-Large-Instruct-2411", "mistral-large-2411"),
        ("google/gemma-3-1b-it", "gemma-3-1b"),
        ("mistralai/Mamba-Codestral-7B-v0.1 (class defaults)", "mamba-codestral-7b-v0.1"),
        ("nvidia/Qwen3.6-27B-NVFP4", "qwen3.6-27b"),
    ],
)
def test_card_id(repository, name):
    assert card_id(repository) == name


def test_a_card_file_with_wrong_counts_is_refused():
    data = to_toml(card("gpt-oss-120b"))
    with pytest.raises(KvError, match="order"):
        from_toml(data | {"order": "17a18b"})
    with pytest.raises(KvError, match="unexpected"):
        from_toml(data | {"colour": "red"})


def test_stages_add_up_to_the_model():
    whole = card("gemma-3-27b")
    counts = [sum(g.count for g in whole.stage_groups(a, b)) for a, b in ((0, 20), (20, 62))]
    assert counts == [20, 42]
