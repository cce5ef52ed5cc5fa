"""What the survey printed beside what the code gives: reasoning, agents, shares; and drivers by hand."""

import math

import pytest

from kvmodel import KvError, card, kv_bytes
from kvmodel.claim_tests import published_share
from kvmodel.demand import byte_seconds_multiplier, end_multiplier, reasoning_multiplier, servegen
from kvmodel.drivers import (
    agent_multipliers,
    agent_sessions,
    chat_means,
    common_prefix,
    corpus,
    fact,
    facts,
    quoted,
    reasoning_request,
    sessions_for,
    tenants,
    things,
)
from kvmodel.report.record import load_sources

AGENT, REQUEST = agent_sessions(), reasoning_request()
R1 = reasoning_multiplier()


def ratio(name: str) -> float:
    table = agent_multipliers()
    return float(table.loc[table["compared"] == name, "value"].iloc[0])


PRINTED = [  # what, printed, ours, half of the last printed digit
    ("G2 Deloitte 2023", 1 / 3, lambda: published_share(2023, "Deloitte").value, 0.0005),
    ("G2 Deloitte 2025", 0.5, lambda: published_share(2025, "Deloitte").value, 0.05),
    ("G2 Deloitte 2026", 0.667, lambda: published_share(2026, "Deloitte").value, 0.0005),
    ("G3 Brookfield 2030", 0.75, lambda: published_share(2030, "Brookfield").value, 0.005),
    ("G3 McKinsey 2030, more than", 0.5, lambda: published_share(2030, "McKinsey").low, 0.05),
    ("G4 aggregate", 3.9, lambda: 1 / (1 - REQUEST[2]), 0.05),
    ("G4 inside 3 to 10", 0.38, lambda: R1.share(3, 10), 0.005),
    ("G4 below 3", 0.38, lambda: R1.share(0, 2.9999999), 0.005),
    ("G4 above 10", 0.24, lambda: R1.share(10.0000001, 1e9), 0.005),
    ("G4 mean share of reasoning", 0.7017, lambda: servegen("reason/deepseek-r1", "reason_ratio").mean, 0.0002),
    ("G4 Epoch", 8, lambda: quoted("Epoch: reasoning"), 0),
    ("G4 KV at the end", 1.68, lambda: end_multiplier(*REQUEST), 0.005),
    ("byte-seconds", 5.4, lambda: byte_seconds_multiplier(*REQUEST), 0.05),
    ("mean prompt of R1", 1268.2, lambda: REQUEST[0], 0.5),
    ("mean output of R1", 1527.4, lambda: REQUEST[1], 0.05),
    ("G5 Claude Code / Kimi chat", 10.2, lambda: ratio("Claude Code / Kimi chat 2024"), 0.05),
    ("G5 Claude Code / R1", 96, lambda: ratio("Claude Code / ServeGen DeepSeek-R1"), 0.5),
    ("G5 Claude Code / Azure", 106, lambda: ratio("Claude Code / Azure chat 2023"), 0.5),
    ("G5 Claude Code / m-large", 134, lambda: ratio("Claude Code / ServeGen m-large"), 0.5),
    ("G5 Kimi tool and agent / chat", 0.71, lambda: ratio("Kimi tool & agent / chat, 2024"), 0.005),
    ("G5 Anthropic agents", 4, lambda: ratio("agents / chat (Anthropic)"), 0),
    ("G5 Anthropic multi-agent", 15, lambda: ratio("multi-agent / chat (Anthropic)"), 0),
    ("G5 coding agents", 1000, lambda: ratio("coding agents / code chat"), 0),
    ("agent requests", 49334, lambda: AGENT["requests"], 0),
    ("agent sessions", 710, lambda: AGENT["sessions"], 0),
    ("agent prompt, mean", 122379, lambda: AGENT["mean_input"], 0.5),
    ("agent prompt, median", 103660, lambda: AGENT["median_input"], 1),
    ("agent prompt, tenth", 42_000, lambda: AGENT["p10_input"], 500),
    ("agent prompt, nine tenths", 234_000, lambda: AGENT["p90_input"], 500),
    ("agent output, mean", 440, lambda: AGENT["mean_output"], 0.5),
    ("agent output, median", 216, lambda: AGENT["median_output"], 0.5),
    ("agent input / output", 278, lambda: AGENT["input_per_output"], 0.5),
    ("agent peak, median", 147762, lambda: AGENT["median_peak"], 0.5),
    ("agent peak, nine tenths", 339673, lambda: AGENT["p90_peak"], 0.5),
    ("agent tokens in a session, median", 5.09e6, lambda: AGENT["median_processed"], 5e3),
    ("agent tokens in a session, mean", 8.50e6, lambda: AGENT["mean_processed"], 5e3),
    ("Azure chat prompt", 1154.7, lambda: chat_means()["Azure chat 2023"], 0.05),
    ("Kimi chat prompt", 12035, lambda: chat_means()["Kimi chat 2024"], 0.5),
    ("m-large prompt", 914.3, lambda: chat_means()["ServeGen m-large"], 0.2),
    ("OpenRouter prompt, early 2024", 1500, lambda: quoted("OpenRouter"), 0),
    ("OpenRouter prompt, late 2025", 6000, lambda: quoted("OpenRouter", 2), 0),
    ("Manus", 100, lambda: quoted("Manus"), 0),
    ("AIME tokens of R1", 12000, lambda: quoted("DeepSeek-R1 to R1-0528"), 0),
    ("AIME tokens of R1-0528", 23000, lambda: quoted("DeepSeek-R1 to R1-0528", 2), 0),
]


@pytest.mark.parametrize(("what", "printed", "ours", "rounding"), PRINTED, ids=[p[0] for p in PRINTED])
def test_printed_beside_ours(what, printed, ours, rounding):
    assert ours() == pytest.approx(printed, abs=rounding or 1e-9), what


@pytest.mark.parametrize(("q", "printed", "digits"), [(0.1, 1.57, 2), (0.25, 2.00, 2), (0.5, 4.25, 2), (0.75, 9.63, 2), (0.9, 21.8, 1)])
def test_printed_quantiles_lie_in_our_bins(q, printed, digits):
    """The histogram kept here has bins of 0.002 in the part that is reasoning; ours is the lower end of a bin, the survey read inside it."""
    low = R1.quantile(q)
    high = 1 / (1 - (1 - 1 / low + 0.002))
    assert round(low, digits) - 1e-9 <= printed <= round(high, digits) + 1e-9


def test_the_agent_factor_is_the_same_in_ledger_and_chapter():
    """10 to 40 holds one of the five comparisons of context."""
    table = agent_multipliers()
    context = table[table["what"] == "context"]["value"]
    assert list(context) == sorted(context)
    assert context.between(10, 40).sum() == 1


def test_facts_are_sourced_and_unknown_names_refused():
    known = load_sources()
    assert all(f.source in known and f.value > 0 and f.unit for f in facts().values())
    assert all(s in known for text in agent_multipliers()["source"] for s in text.split())
    assert all(s in known for s in things()["source"])
    for call in (lambda: fact("video_tokens"), lambda: quoted("no such measure"), lambda: quoted("Bailian trace"), lambda: quoted("Epoch")):
        with pytest.raises(KvError, match="accepted"):
            call()


def test_things_by_hand():
    tokens = things().set_index("thing")["tokens"]
    assert tokens["picture, Gemma 3"] == 256
    assert tokens["picture of 1024 x 1024, Qwen3-VL"] == (1024 // (16 * 2)) ** 2
    assert tokens["hour of video, Gemini"] == 263 * 3600
    assert tokens["code base of 50,000 lines"] == pytest.approx(50_000 * 80 * 6043 / 23023)
    assert tokens["code base of 50,000 lines"] == pytest.approx(1e6, rel=0.06), "the vendor's own statement"


def test_a_library_by_hand():
    table = corpus([card("llama-3.3-70b"), card("mamba-codestral-7b-v0.1")]).set_index("kept")
    assert table.loc["its text", "bytes"] == 30e9
    words = 5e9 * 6 * 171 / 803
    assert table.loc["vectors, one per chunk", "bytes"] == pytest.approx(words / 512 * 6144)
    each = round(words / 7_028_569)
    assert table.loc["KV, llama-3.3-70b", "bytes"] == kv_bytes(card("llama-3.3-70b"), each) * 7_028_569
    assert table.loc["KV, mamba-codestral-7b-v0.1", "bytes"] == kv_bytes(card("mamba-codestral-7b-v0.1"), 1) * 7_028_569, (
        "a state for each document, whatever its length"
    )
    assert (table["share_of_lake"] == table["bytes"] / 24e15).all()


def test_tenants_by_hand():
    one = card("llama-3.3-70b")
    token = 327_680
    assert tenants(one, 1, 100, 6000, 0) == 100 * 6000 * token
    assert tenants(one, 1, 100, 6000, 5000) == (5000 + 100 * 1000) * token
    assert tenants(one, 10, 10, 6000, 5000) == 10 * (5000 + 10 * 1000) * token
    assert tenants(one, 100, 1, 6000, 5000) == tenants(one, 1, 100, 6000, 0), "alone, a tenant shares with nobody"
    with pytest.raises(KvError, match="shared_tokens"):
        tenants(one, 1, 100, 6000, 6000)


def test_what_must_be_believed():
    """Dozens of users at a million tokens on 405B are tens of TB."""
    big = card("llama-3.1-405b")
    assert 10e12 < 24 * int(kv_bytes(big, 10**6)) < 96 * int(kv_bytes(big, 10**6)) < 100e12
    assert sessions_for(100e12, big, 10**6) == pytest.approx(10 * sessions_for(10e12, big, 10**6))
    assert math.floor(sessions_for(10e12, big, 10**6)) == 19


def test_everybody_shares_one_block():
    assert common_prefix() == 512
