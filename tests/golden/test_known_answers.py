"""Published KV sizes: each row that geometry, formats or whole blocks can give is computed here and compared at its printed rounding.

`data/known_answers.csv` holds the rows with their sources. One that says `reproduced = yes` is computed below or listed as needing an engine's own pool.
"""

import csv
from pathlib import Path

import pytest

from kvmodel import card, kv_bytes, size
from kvmodel.attention import LayerGroup, State, Store, Vectors, compile_terms
from kvmodel.dtypes import parse_kv_dtype
from kvmodel.sizing import allocated_bytes, deployment

GiB, MiB = 2**30, 2**20
ROWS = {r["id"]: r for r in csv.DictReader((Path(__file__).parents[2] / "data" / "known_answers.csv").open())}

# Rows that need an engine's own pool (page alignment of hybrid layers, groups that share blocks): not geometry, so not claimed.
ENGINE_POOL = {
    "26": "two groups of 18 layers share one block pool (vLLM)",
    "27": "attention page aligned to the state page (vLLM hybrid)",
    "28": "blocks of three groups in one pool, state blocks in align mode (vLLM hybrid)",
    "29": "as 28",
    "30": "page aligned to a state with speculative columns (vLLM hybrid)",
    "34": "attention page aligned to the state page (vLLM hybrid)",
}


def gqa(layers: int, heads: int, width: int) -> LayerGroup:
    return LayerGroup(layers, "gqa", (Store((Vectors("key", width, heads), Vectors("value", width, heads))),))


def stored(groups: list[LayerGroup], tokens: int, kv: str = "bf16", tp: int = 1) -> int:
    return compile_terms(groups, parse_kv_dtype(kv), tp=tp).stored(tokens)


def growing(model: str, kv: str = "bf16", **options: object) -> float:
    return card(model).terms(kv, **options).growing_bytes_per_token


def whole_blocks(gib: float, bytes_per_token: float, block: int = 16) -> range:
    """Whole blocks in a pool printed as `gib` with two decimals: every count that the rounding allows."""
    low, high = ((gib + half) * GiB // (bytes_per_token * block) for half in (-0.005, 0.005))
    return range(int(low), int(high) + 1)


LLAMA2_7B = [gqa(32, 32, 128)]
KIMI_K3_KDA = LayerGroup(69, "kda", states=(State("conv", 96, 3 * 3 * 128, 2), State("recurrent", 96, 128 * 128, 4)))
QWEN35_122B_GDN = LayerGroup(36, "gdn", states=(State("conv", 16, 3 * 2 * 128, 2), State("conv", 64, 3 * 128, 2), State("recurrent", 64, 128 * 128, 4)))

# id -> (computed value or range, printed value, digits printed after the point)
ANSWERS = {
    "1": lambda: (whole_blocks(3.81, growing("llama-3.1-8b")), 1952),
    "3": lambda: (1952 * 16 / 20_000, 1.56),
    "5": lambda: (kv_bytes(card("llama-3.1-8b"), 131_072) / GiB, 16.0),
    "6": lambda: (int(0.71 * GiB // (256 * growing("llama-3.1-8b"))) * 256, 5632),
    "10": lambda: ([b * 16 for b in whole_blocks(18.78, growing("qwen3-1.7b"))], 175_856),
    "11": lambda: (size(card("minimax-m2"), context_tokens=196_608, tp=2)["kv_bytes_per_device"] / GiB, 23.25),
    "16": lambda: (whole_blocks(11.12, growing("llama-3.1-8b")), 5691),
    "19": lambda: (size(card("qwen3-235b-a22b"), context_tokens=367_405, tp=4)["kv_bytes_per_device"] / 2 / GiB, 8.23),
    "36": lambda: (next(32 // 8 * s.per_head * s.bytes for g in card("qwen3.5-35b-a3b").groups for s in g.states if s.part == "recurrent"), 262_144),
    "40": lambda: ([b * 64 for b in whole_blocks(46.80, size(card("kimi-k2"), context_tokens=1, tp=8)["kv_bytes_per_device"], 64)], 715_072),
    "42": lambda: (allocated_bytes(card("deepseek-v3.2").terms("fp8_ds_mla"), 975_424, 64) / GiB, 43.67),
    "45": lambda: (growing("deepseek-v3", "fp8_ds_mla") / 61, 656),
    "49": lambda: (kv_bytes(card("deepseek-v4-pro"), 2**20, indexer_dtype="bf16") / GiB, 9.62),
    "51": lambda: (kv_bytes(card("deepseek-v3"), 131_072) / GiB, 8.58),
    "58": lambda: (kv_bytes(card("deepseek-r1"), 32_768, kv_dtype="q8_0") / MiB, 1166.62),
    "60": lambda: (kv_bytes(card("qwen2.5-32b"), 32_768, kv_dtype="q8_0") / MiB, 4352.00),
    "63": lambda: (kv_bytes(card("mixtral-8x7b-v0.1"), 2048) / MiB, 256),
    "65": lambda: (kv_bytes(card("llama-3.1-70b"), 2048) / MiB, 640),
    "75": lambda: (stored(LLAMA2_7B, 132_608), 69_524_783_104),
    "79": lambda: (tuple(kv_bytes(card("llama-3.1-8b"), t) / GiB for t in (1024, 16_000, 128_000)), (0.125, 1.95, 15.62)),
    "82": lambda: (stored([gqa(9, 8, 128)], 262_144) / GiB, 9),
    "85": lambda: (kv_bytes(card("mistral-large-2411"), 262_144) / GiB, 88),
    "91": lambda: (growing("phi-4-mini"), 131_072),
    "92": lambda: (growing("falcon-7b"), 8192),
    "97": lambda: (growing("deepseek-v3"), 70_272),
    "101": lambda: (kv_bytes(card("gemma-3-27b"), 131_072) / GiB, 10.41),
    "105": lambda: (kv_bytes(card("kimi-k2"), 262_144) / GiB, 17.16),
    "110": lambda: (stored([QWEN35_122B_GDN], 1) / MiB, 146.53),
    "120": lambda: (growing("llama-3.1-8b"), 131_072),
    "121": lambda: (stored([gqa(100, 128, 128)], 128_000) / 1e9, 838),
    "128": lambda: (growing("deepseek-v3") / 1024, 69),
    "129": lambda: (stored([KIMI_K3_KDA], 1) / GiB, 0.4),
}
PRINTED_DIGITS = {"129": 1, "121": -1, "82": 0, "85": 0, "128": 0, "1": 0}


def shown(value: float) -> int:
    """Digits after the point of a printed value."""
    text = f"{value!r}"
    return len(text.split(".")[1]) if "." in text else 0


@pytest.mark.parametrize("row", ANSWERS)
def test_row(row):
    got, printed = ANSWERS[row]()
    if isinstance(got, range | list):
        assert printed in got
        return
    pairs = zip(got, printed) if isinstance(got, tuple) else [(got, printed)]
    for value, text in pairs:
        step = 10 ** -PRINTED_DIGITS.get(row, shown(text))
        assert abs(value - text) <= step / 2 * 1.001, f"{value} is not {text} as printed"


def test_every_reproduced_row_is_computed_or_listed():
    wanted = {i for i, r in ROWS.items() if r["reproduced"] == "yes"}
    assert wanted == set(ANSWERS) | set(ENGINE_POOL)


def test_stage_split_of_a_published_case():
    """vLLM #34076: 24.0 GiB in all, 8.0 + 16.0 GiB on stages of 16 and 32 layers."""
    model = card("qwen3-0.6b")
    layers = len(model.layers)
    d = deployment(model, 262_144, pp=2, partition=[layers // 3, layers - layers // 3])
    assert sum(d["stage_bytes_per_device"]) == kv_bytes(model, 262_144)
