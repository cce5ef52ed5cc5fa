import math

import pytest

from kvmodel import KvError
from kvmodel.demand import (
    CASES,
    GROWTH_RULES,
    YEARS,
    agent_use,
    byte_seconds_multiplier,
    effects,
    end_multiplier,
    envelope,
    fleet,
    inputs,
    longer_wait_longer,
    monthly_tokens,
    reasoning_multiplier,
    seconds_by_tier,
    servegen,
    yearly_growth,
)
from kvmodel.placement import AGES
from kvmodel.report.record import load_sources


def test_reasoning_of_a_production_service():
    """DeepSeek-R1 in ServeGen: the percentiles, and the shares inside and outside 3 to 10, of the survey."""
    m = reasoning_multiplier()
    assert [round(m.quantile(q), 2) for q in (0.1, 0.25, 0.5, 0.75)] == [1.56, 2.0, 4.24, 9.62]
    assert m.quantile(0.9) == pytest.approx(21.8, rel=0.01)
    assert [round(m.share(*ends), 2) for ends in ((3, 10), (0, 2.9999), (10.0001, 1e9))] == [0.38, 0.38, 0.24]
    ratio, tokens = servegen("reason/deepseek-r1", "reason_ratio"), [servegen("reason/deepseek-r1", f) for f in ("input_tokens", "output_tokens")]
    assert round(ratio.mean, 4) == pytest.approx(0.7017, abs=2e-4)
    assert [t.mean for t in tokens] == pytest.approx([1268.2, 1527.4], rel=1e-3)


def test_means_of_the_other_pools():
    expected = {"m-large": (914, 155), "m-mid": (307, 51), "m-small": (120, 15)}
    for pool, pair in expected.items():
        assert [round(servegen(f"language/{pool}", f).mean) for f in ("input_tokens", "output_tokens")] == list(pair)


def test_memory_is_not_the_token_multiplier():
    """Four times the tokens is 1.7 times the KV at the end, since the input is cached too; byte-seconds rise more than tokens do."""
    assert round(end_multiplier(1268.2, 1527.4, 0.7434), 2) == 1.68
    assert byte_seconds_multiplier(1268.2, 1527.4, 0.7434) > 1 / (1 - 0.7434)
    assert end_multiplier(100, 100, 0) == byte_seconds_multiplier(100, 100, 0) == 1
    with pytest.raises(KvError, match="reasoning_share"):
        end_multiplier(1, 1, 1)


def test_every_input_is_sourced():
    known = load_sources()
    for name, value in inputs().items():
        assert value.low <= value.value <= value.high, name
        assert all(s in known for s in value.sources), name
        assert value.why, name


def test_little_s_law_by_hand():
    """Base, 2025, chat: turns a second x tokens x bytes x seconds held."""
    v = {n: i.value for n, i in inputs().items()}
    last = 1 / v["chat_turns"]
    held = v["chat_active"] + (1 - last) * v["chat_pause"] + last * v["retention"]
    found = fleet("base", 2025)
    chat = found[found["kind"] == "chat"]["bytes"].sum()
    assert chat == pytest.approx(v["messages_2025"] / 86_400 * v["chat_tokens_2025"] * v["bytes_per_token_2025"] * held)


@pytest.mark.parametrize("year", YEARS)
@pytest.mark.parametrize("rule", GROWTH_RULES)
def test_a_case_is_an_envelope(year, rule):
    """No input at either of its ends takes the total out of the range of the cases, in any year."""
    low, base, high = (fleet(case, year, rule)["bytes"].sum() for case in CASES)
    assert 0 < low < base < high < math.inf
    ends = effects(year, rule)
    assert ends[["low_bytes", "high_bytes"]].min(axis=1).between(low, base * (1 + 1e-9)).all()
    assert ends[["low_bytes", "high_bytes"]].max(axis=1).between(base * (1 - 1e-9), high).all()
    for name, value in inputs().items():
        cheap, dear = (fleet("base", year, rule, override={name: value.at(case, year)})["bytes"].sum() for case in ("low", "high"))
        assert cheap <= dear * (1 + 1e-9), name


def test_years_join_at_2025_and_growth_turns_round_before():
    v = inputs()
    assert [v["message_growth_until_2025"].at("low", year) for year in (2024, 2025)] == [8, 3]
    assert v["chat_turns"].at("low") == v["chat_turns"].high
    for rule in GROWTH_RULES:
        table = envelope(rule).set_index("year")
        assert list(table.index) == list(YEARS)
        assert table.loc[2025, "base"] == pytest.approx(envelope("flat").set_index("year").loc[2025, "base"])
    chat = {year: fleet("base", year)["turns_per_s"].iloc[0] for year in (2023, 2024, 2025, 2026)}
    assert chat[2025] / chat[2024] == pytest.approx(chat[2024] / chat[2023]) == pytest.approx(5.8)
    assert chat[2026] / chat[2025] == pytest.approx(1.6)


def test_growth_has_an_end():
    """Messages, the share of agents, tokens and cuts all stop at their limits."""
    rows = fleet("high", 2030, "article").drop_duplicates("kind").set_index("kind")
    assert rows.loc["chat", "turns_per_s"] * 86_400 == pytest.approx(1e11)
    assert rows.loc["agent", "turns_per_s"] == pytest.approx(5 * rows.loc["chat", "turns_per_s"])
    assert (rows["tokens"] == 10_000_000).all()
    assert fleet("low", 2030)["bytes_per_token"].iloc[0] == 2000


def test_tokens_a_month_against_the_one_count_that_is_published():
    """Google, May 2026: 3.2 quadrillion. The base case has less than half of it with requests of today's length, about as much with growing ones."""
    assert 0.3 < monthly_tokens(fleet("base", 2026)) / 3.2e15 < 0.5
    assert 0.8 < monthly_tokens(fleet("base", 2026, "windows")) / 3.2e15 < 1.3
    v = inputs()
    by_hand = 30 * v["messages_2025"].value * (v["chat_tokens_2025"].value + v["agent_share_2025"].value * v["agent_tokens_2025"].value)
    assert monthly_tokens(fleet("base", 2025)) == pytest.approx(by_hand)


def test_two_hundred_shares_stand_for_all_gaps():
    """Binning the measured gaps costs under 3 % of the seconds kept; longer contexts wait longer, which the fleet leaves out."""
    assert sum(seconds_by_tier(agent_use(), 3600).values()) == pytest.approx(145.72, rel=0.03)
    assert longer_wait_longer(3600) == pytest.approx(176.36 / 145.72, rel=1e-3)


def test_a_longer_retention_only_adds_to_far_tiers():
    hour, day = (seconds_by_tier(agent_use(), s) for s in (3600, 86_400))
    assert [hour[t] for t in list(AGES)[:3]] == pytest.approx([day[t] for t in list(AGES)[:3]])
    assert hour["context-storage"] == 0 < day["context-storage"]
    assert sum(hour.values()) == pytest.approx(agent_use().active_s + agent_use().seconds_between(0, 3600))


def test_effects_name_the_inputs_that_matter():
    table = effects(2026)
    assert set(table["input"]) == set(inputs())
    assert table["input"].iloc[0] == "retention"
    assert (table["base_bytes"] > 0).all()


def test_refusals():
    for call in (
        lambda: fleet("mid"),
        lambda: fleet("base", 2040),
        lambda: fleet("base", 2026, "wild"),
        lambda: servegen("x", "y"),
        lambda: yearly_growth("x"),
    ):
        with pytest.raises(KvError, match="accepted"):
            call()
