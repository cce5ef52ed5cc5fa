"""Parameters: declared as literals, parsed by type, checked before anything runs."""

import ast
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmodel.report.parameters import RULES, check_values, declared, model_card, parameters_hash, rewritten
from kvmodel.units import KvError

NASTY = [
    "it's",
    'say "no"',
    "__import__('os').system('true')",
    "a\\nb\\",
    "line\nbreak\r\n\ttab",
    "a\u2028b\u2029c",
    "\"\"\"\n'''",
    "{users}",
    "汉字 😀",
    "#!%$`",
]


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("context_tokens", "1M", 1_000_000),
        ("context_tokens", "128Ki", 131_072),
        ("context_tokens", "5e5", 500_000),
        ("context_tokens", 5e5, 500_000),
        ("context_tokens", 1, 1),
        ("users", "10k", 10_000),
        ("model", "llama-3.3-70b", "llama-3.3-70b"),
        ("kv_dtype", "bf16:bf16", "bf16"),
        ("kv_dtype", "q8_0:q4_0", "q8_0:q4_0"),
        ("year", "2030", 2030),
        ("start", "2024-02-29", "2024-02-29"),
    ],
)
def test_values_are_parsed_by_the_declared_type(name: str, given: object, value: object) -> None:
    assert check_values("kv-size", {name: given}) == {name: value}
    assert type(check_values("kv-size", {name: given})[name]) is type(value)


REFUSED: dict[str, list[object]] = {
    "context_tokens": ["0", -1, "1.5", True, "1e10", "1e-1", None, "1 Gb", [1], "", float("nan"), float("inf")],
    "users": ["10000001", "many"],
    "model": ["lama", 7, "/no/such/config.json"],
    "kv_dtype": ["fp7", 16, "bf16:bf16:bf16"],
    "platform": ["h100", 8],
    "year": [2031, "2022", True],
    "start": ["2024-02-30", "2024", 20240101],
    "end": ["20240101", "2024-W01-1"],
    "text": ["", "   ", "x" * 200_001, "\ud800", "nul\x00", 5],
    "case": ["medium", True],
    "top_k": [0],
}


@pytest.mark.parametrize(("name", "given"), [(name, value) for name, values in REFUSED.items() for value in values])
def test_other_values_are_refused_in_one_line(name: str, given: object) -> None:
    with pytest.raises(KvError) as refusal:
        check_values("kv-size", {name: given})
    assert "\n" not in str(refusal.value)
    assert name in str(refusal.value)


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(KvError, match="nearest: 'context_tokens'"):
        check_values(["model", "context_tokens"], {"contxt_tokens": 5})
    with pytest.raises(KvError, match="'users' is not accepted"):
        check_values(["model", "context_tokens"], {"users": 5})


def test_values_that_do_not_go_together_are_refused() -> None:
    assert check_values("kv-size", {"model": "deepseek-v3.2", "kv_dtype": "fp8_ds_mla"})
    with pytest.raises(KvError, match="fp8_ds_mla"):
        check_values("kv-size", {"model": "llama-3.3-70b", "kv_dtype": "fp8_ds_mla"})
    with pytest.raises(KvError, match="2\\^63"):
        check_values("kv-size", {"model": "llama-3.3-70b", "context_tokens": 10**9, "users": 10**7})


@pytest.mark.parametrize("text", NASTY)
def test_text_stays_text(text: str) -> None:
    assert check_values("tokens", {"text": text}) == {"text": text}
    source = 'text: str = "x"  # sample [text]\nusers: int = 1  # users [users]'
    changed = rewritten(source, {"text": text, "users": 2})
    assert [ast.literal_eval(s.value) for s in ast.parse(changed).body] == [text, 2]  # type: ignore[attr-defined]
    assert changed.count("# sample [text]") == 1


@given(st.text(min_size=1, max_size=200))
def test_any_text_survives_rewriting(text: str) -> None:
    source = 'text: str = ("x"\n   "é")  # 文 [text]'
    changed = rewritten(source, {"text": text})
    assert ast.literal_eval(ast.parse(changed).body[0].value) == text  # type: ignore[attr-defined]


def test_the_declared_cell_is_read() -> None:
    cell = '# what can change\nmodel: str = "llama-3.3-70b"  # model card, or path of a config.json [card id]\n'
    cell += "context_tokens: int = 100_000  # tokens (one # user) [tokens]\n"
    found = declared(cell, "kv-size")
    assert [(p.name, p.type, p.default, p.meaning, p.unit) for p in found.values()] == [
        ("model", "str", "llama-3.3-70b", "model card, or path of a config.json", "card id"),
        ("context_tokens", "int", 100_000, "tokens (one # user)", "tokens"),
    ]


@pytest.mark.parametrize(
    "cell",
    [
        "users = 1  # users [users]",
        "users: int = 1 + 1  # users [users]",
        "users: int = True  # users [users]",
        "users: float = 1.0  # users [users]",
        "users: int = 1",
        "users: int | None = 1  # users [users]",
        "users: int = 0  # users [users]",
        "unheard_of: int = 1  # what [x]",
        "users: int = 1  # a [b]\nusers: int = 2  # a [b]",
        "import os",
        "users: int = (",
        "users: int = len('a')  # users [users]",
    ],
)
def test_a_cell_that_is_not_plain_declarations_is_refused(cell: str) -> None:
    with pytest.raises(KvError, match="kv-size: parameters cell"):
        declared(cell, "kv-size")


def test_the_hash_names_values_not_order_nor_path(tmp_path) -> None:  # type: ignore[no-untyped-def]
    from kvmodel.cards import card_ids

    assert parameters_hash({"users": 1, "model": card_ids()[0]}) == parameters_hash({"model": card_ids()[0], "users": 1})
    assert parameters_hash({"users": 1}) != parameters_hash({"users": 2})
    one, two = tmp_path / "a.json", tmp_path / "b.json"
    one.write_text(json.dumps({"a": 1, "b": 2}))
    two.write_text(json.dumps({"b": 2, "a": 1}, indent=2))
    assert parameters_hash({"model": str(one)}) == parameters_hash({"model": str(two)})
    two.write_text(json.dumps({"b": 3, "a": 1}))
    assert parameters_hash({"model": str(one)}) != parameters_hash({"model": str(two)})


def test_a_config_can_bring_its_number_of_parameters(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    config = next(Path(__file__).parents[2].glob("data/configs/*Qwen3-0.6B.json"))
    monkeypatch.chdir(tmp_path)
    Path("mine").mkdir()
    Path("mine/config.json").write_bytes(config.read_bytes())
    plain, counted = (str(check_values("serving", {"model": given})["model"]) for given in ("mine", "mine/config.json@0.6B"))
    assert plain == str(tmp_path / "mine/config.json")
    assert counted == f"{plain}@600000000"
    assert (model_card(plain).params_total, model_card(counted).params_total) == (None, 600_000_000)
    assert model_card(counted).sources
    assert check_values("serving", {"model": counted}) == {"model": counted}, "a notebook reads what the command line made"
    assert parameters_hash({"model": plain}) == parameters_hash({"model": str(config)}) != parameters_hash({"model": counted})
    for wrong in ("mine@", "mine@many", "mine@0", "llama-3.3-70b@70B", "mine/config.json@1@2"):
        with pytest.raises(KvError, match="model"):
            check_values("serving", {"model": wrong})


def test_every_rule_says_what_it_accepts() -> None:
    for name, rule in RULES.items():
        assert rule.type in ("int", "float", "str", "bool")
        assert rule.accepted(), name
