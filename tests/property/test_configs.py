"""Any JSON document is read or refused in one line; any damage to a real config is too; a card survives its file."""

import json
import re
import tomllib
from dataclasses import replace

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from kvmodel import KvError, kv_bytes, read_config
from kvmodel.cards import Card, from_toml, to_toml
from kvmodel.hf_config import ARCHITECTURES, FAMILIES, TEXT_PARTS
from kvmodel.hf_keys import ALIASES, CONTEXT_KEYS
from kvmodel.report.build_cards import CONFIGS

REAL = {p.stem: json.loads(p.read_text()) for p in sorted(CONFIGS.glob("*.json"))}
NAMES = sorted(
    {key for config in REAL.values() for part in (config, config.get("text_config", {})) for key in part} | set(ALIASES) | set(CONTEXT_KEYS) | set(TEXT_PARTS)
)
WORDS = st.sampled_from(
    ["full_attention", "sliding_attention", "mamba", "attention", "hybrid", "full", "shared", "M*-E", "F", "auto", "float32", "", "x" * 300]
)
numbers = st.integers(-3, 300) | st.sampled_from([2**31, 2**63, 10**40, -(10**30), 10**400]) | st.floats()
scalars = st.none() | st.booleans() | numbers | WORDS | st.text(max_size=5)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=5), inner, max_size=5), max_leaves=20
)
kinds = st.sampled_from([*FAMILIES, *(f"{f}_text" for f in FAMILIES)])
documents = st.dictionaries(st.sampled_from(NAMES), values, max_size=12)


def read(config: object) -> Card | None:
    """Return the card, or None after a refusal that is one short line with a field in it."""
    refusal = None
    try:
        card = read_config(config)
    except KvError as error:
        refusal = str(error)
    if refusal is not None:
        assert re.match(r"\w+: ", refusal)
        assert "\n" not in refusal
        assert len(refusal) < 3000
        return None
    assert card.attention == "" or card.terms()
    return card


@given(documents)
def test_any_document(document):
    read(document)


@given(documents, kinds)
def test_any_document_of_a_known_family(document, kind):
    read(document | {"model_type": kind})


@given(documents, st.sampled_from([*ARCHITECTURES, "Mistral3ForConditionalGeneration"]))
def test_any_document_of_a_known_architecture(document, architecture):
    read({k: v for k, v in document.items() if k != "model_type"} | {"architectures": [architecture]})


@given(st.sampled_from(sorted(REAL)), st.data())
def test_one_damaged_value_of_a_real_config(name, data):
    config = json.loads(json.dumps(REAL[name]))
    part = config[data.draw(st.sampled_from([k for k in TEXT_PARTS if k in config] or ["text_config"]))] if any(k in config for k in TEXT_PARTS) else config
    key = data.draw(st.sampled_from(sorted(part)))
    if data.draw(st.booleans()):
        part[key] = data.draw(values)
    else:
        del part[key]
    read(config)


@given(st.sampled_from(sorted(n for n, c in REAL.items() if any(isinstance(v, list) for v in (c | c.get("text_config", {})).values()))), st.data())
def test_layer_lists_of_the_wrong_length_are_refused(name, data):
    config = json.loads(json.dumps(REAL[name]))
    part = config.get("text_config", config)
    lists = [
        k
        for k in ("layer_types", "attn_type_list", "hybrid_layer_pattern", "layers_block_type", "block_configs", "indexer_types", "compress_ratios")
        if k in part
    ]
    if not lists:
        return
    key = data.draw(st.sampled_from(lists))
    part[key] = part[key] + part[key][-1:] * data.draw(st.integers(4, 6)) if data.draw(st.booleans()) else part[key][: -data.draw(st.integers(2, 5))]
    with pytest.raises(KvError):
        read_config(config)


@given(st.binary(max_size=200))
def test_any_file(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("config") / "config.json"
    path.write_bytes(content)
    try:
        read_config(path)
    except KvError:
        return
    pytest.fail("no config can be this short")


@given(st.sampled_from(sorted(REAL)))
def test_a_card_survives_its_file(name):
    card = read_config(REAL[name], name)
    card = replace(card, sources={"geometry": ["some-source"]}, kinds={"geometry": "model-config"}, release_date="2026-01-02")
    assert from_toml(tomllib.loads(tomli_w.dumps(to_toml(card)))) == card


@given(st.sampled_from(sorted(REAL)), st.integers(1, 4))
def test_more_layers_of_a_plain_model_keep_more(name, more):
    config = json.loads(json.dumps(REAL[name]))
    if config.get("model_type") not in ("llama", "qwen3", "olmo2", "deepseek_v3"):
        return
    longer = config | {"num_hidden_layers": config["num_hidden_layers"] * (1 + more)}
    assert kv_bytes(read_config(longer), 1000) == (1 + more) * kv_bytes(read_config(config), 1000)
