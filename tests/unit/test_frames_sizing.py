"""What the sizing chapters show adds up, for every card, and user text cannot break a page."""

from itertools import pairwise

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvmodel import card, card_ids, kv_bytes
from kvmodel.hardware import node, node_ids
from kvmodel.report import frames_sizing as frames
from kvmodel.report import frames_tokens, texts
from kvmodel.report.cells import table
from kvmodel.units import KvError

TEXT = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=60)


@pytest.mark.parametrize("model", card_ids())
@pytest.mark.parametrize("tokens", [1, 127, 100_000])
def test_steps_and_parts_add_up_to_what_a_user_stores(model: str, tokens: int) -> None:
    stored = kv_bytes(card(model), tokens)
    assert frames.layer_rows(card(model), tokens, "bf16")["kv_bytes"].sum() == stored
    steps = frames.build_up(card(model), tokens, 3, "bf16").set_index("step")["kv_bytes"]
    assert (steps["one user"], steps["3 users"]) == (stored, 3 * stored)
    assert f"{stored:,}".replace(",", "{,}") in frames.sum_tex(frames.layer_rows(card(model), tokens, "bf16"))


def test_every_step_of_the_plain_case() -> None:
    steps = frames.build_up(card("llama-3.3-70b"), 100_000, 1, "bf16")["kv_bytes"].tolist()
    assert steps == [2 * 128, 2 * 8 * 128 * 2, 80 * 4096, 80 * 4096 * 100_000, 32_768_000_000]


def test_readings_of_the_printed_formula() -> None:
    read = frames.article_readings(card("llama-3.1-405b"), 10**6, 810 * 10**9).set_index("reading")["kv_bytes"]
    assert read["K and V of KV heads, 2 bytes"] == 516_096_000_000
    assert read["printed, all heads, 1 byte"] == 126 * 128 * 128 * 10**6 == 2_064_384_000_000
    assert read["same, with weights, 2 bytes"] == 516_096_000_000 + 810 * 10**9
    assert read["K and V of all heads, 2 bytes"] == 16 * read["K and V of KV heads, 2 bytes"]


def test_wrong_numbers_are_wrong_and_their_factor_is_printed_over_computed() -> None:
    wrong = frames.wrong_rows().set_index(["model", "where"])["factor"]
    assert wrong["llama-3.1-405b", "HF blog table"] == pytest.approx(2, rel=1e-3)
    assert wrong["deepseek-v3", "Mooncake benchmark preset"] == pytest.approx(24.9, rel=1e-2)
    assert (wrong != 1).all()


@pytest.mark.parametrize("model", ["llama-3.3-70b", "deepseek-v4-pro", "mamba-codestral-7b-v0.1"])
def test_shares_of_a_node_are_the_whole_node(model: str) -> None:
    nodes = frames.node_rows(card(model), 100_000, "bf16")
    assert sorted(nodes["platform"]) == sorted(node_ids())
    shares = frames.share_rows(nodes)
    assert shares.groupby("platform")["share"].sum().tolist() == pytest.approx([1.0] * len(nodes))
    for row in nodes.to_dict("records"):
        assert row["memory_bytes"] == node(row["platform"]).accelerators * node(row["platform"]).accelerator.memory_bytes
        assert row["max_users"] == row["replicas"] * (row["kv_budget_bytes"] // row["replicas"] // frames.user_bytes(row, card(model)))


def test_heads_divide_and_latents_are_copied() -> None:
    copies = frames.rank_rows({m: card(m) for m in ("llama-3.3-70b", "deepseek-v3")}, 1000, "bf16").set_index(["model", "ranks"])["copies"]
    assert [copies["llama-3.3-70b", n] for n in frames.RANKS] == [1, 1, 1, 1, 2, 4]
    assert [copies["deepseek-v3", n] for n in frames.RANKS] == list(frames.RANKS)


def test_a_format_that_some_cannot_hold_leaves_them_out_by_name() -> None:
    kept, left_out = frames.kv_of_all_cards(1000, "fp8_ds_mla", card("deepseek-v3"))
    assert len(kept) + len(left_out) == len(card_ids())
    assert "llama-3.3-70b" in left_out
    with pytest.raises(KvError):
        kv_bytes(card(left_out[0]), 1000, kv_dtype="fp8_ds_mla")
    assert set(frames.rank_rows({m: card(m) for m in ("llama-3.3-70b", "deepseek-v3")}, 1000, "fp8_ds_mla")["model"]) == {"deepseek-v3"}


def test_a_longer_prompt_is_moved_less_by_reasoning() -> None:
    ten = frames.reasoning_rows(card("llama-3.3-70b"), {"short": 100, "long": 10_000}, 400, "bf16").set_index(["request", "generated_per_answer"])["growth"]
    assert ten["short", 10] == pytest.approx((100 + 4000) / 500)
    assert ten["long", 10] == pytest.approx((10_000 + 4000) / 10_400)
    assert ten["short", 1] == ten["long", 1] == 1
    traffic = frames.reasoning_traffic()
    assert traffic["prompt"] == pytest.approx(1268, abs=1)  # as the publisher's data gives, computed by another program
    assert traffic["output"] == pytest.approx(1527.4, abs=0.1)


def test_our_tokenizer_gives_the_published_count() -> None:
    check = frames_tokens.tokenizer_check()
    assert check["live"] == check["stored"]
    assert check["chars"] == check["stored_chars"]


def test_every_language_is_there_and_differs() -> None:
    rows = frames_tokens.language_rows(card("llama-3.3-70b"))
    assert set(rows["language"]) == set(texts.LANGUAGES.values())
    assert len({texts.sample(f"languages/{code}.txt") for code in texts.LANGUAGES}) == len(texts.LANGUAGES)
    assert (rows["kv_bytes"] == rows["tokens"] * 327_680).all()


@given(TEXT)
@settings(max_examples=150, deadline=None)
def test_pieces_are_the_text(text: str) -> None:
    assert b"".join(texts.token_pieces(texts.token_ids(text))) == text.encode()


@given(TEXT)
@settings(max_examples=150, deadline=None)
def test_no_piece_of_any_text_breaks_a_table(text: str) -> None:
    from myst_parser.config.main import MdParserConfig
    from myst_parser.mdit_to_docutils.base import DocutilsRenderer
    from myst_parser.parsers.mdit import create_md_parser

    pieces = [texts.visible(p) for p in texts.token_pieces(texts.token_ids(text))]
    shown = table(pd.DataFrame({"piece": ["x", *map(texts.escaped, pieces)]}), caption="c").data["text/markdown"]
    body = shown.removeprefix(":::{table} c\n").removesuffix(":::")
    config = MdParserConfig(enable_extensions={"amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath", "substitution", "tasklist"})
    tokens = create_md_parser(config, DocutilsRenderer).parse(body)
    cells = [t.children for before, t in pairwise(tokens) if before.type == "td_open"]
    assert [" ".join("".join(c.content for c in cell).split()) for cell in cells] == ["x", *(" ".join(p.split()) for p in pieces)]
    assert {c.type for cell in cells for c in cell} <= {"text", "text_special"}


def test_visible_shows_what_cannot_be_seen() -> None:
    assert [texts.visible(p) for p in (b" a\n", b"\t", b"\xf0\x9f", "\u202e".encode())] == ["␣a⏎", "⇥", "bytes F0 9F", "U+202E"]
