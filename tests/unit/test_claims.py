import json
from pathlib import Path

import pytest

from kvmodel import KvError
from kvmodel.claim_tests import TESTS
from kvmodel.claims import VERDICTS, Claim, Outcome, claims, judge, judge_all
from kvmodel.cli import main
from kvmodel.report.record import load_sources

ROOT = Path(__file__).parents[2]
WORDS = """kv-formula llama-70b-100k llama-405b-1m medium-deployment multi-server reasoning-3-10x hbm-288gb-node inference-two-thirds inference-70-90-2030
    context-30x context-still-growing long-context-minority efficiency-reinvested agentic-10-40x hbm-20tbs weights-crowd-hbm million-token-deployments
    nvme-zero-loss recompute-uneconomic tier-4-fastest-growing data-lake-pb kv-compounds kv-main-memory-user kv-milliseconds hbm-fastest-dearest
    main-memory-above-hbm whole-pyramid"""
ARTICLE = WORDS.split() + [f"tier-{n}-{q}" for n in range(1, 6) for q in ("capacity", "bandwidth", "time")]


def test_every_claim_of_the_article_has_a_record_a_chapter_and_sources():
    assert sorted(claims()) == sorted(ARTICLE)
    known = load_sources()
    for c in claims().values():
        assert (ROOT / "book" / f"{c.chapter}.ipynb").is_file(), c.id
        assert c.sources, c.id
        assert all(s in known for s in c.sources), c.id
        assert all((c.change, c.text, c.confidence in ("high", "medium", "low"))), c.id


def test_figures_named_are_published():
    lock = json.loads((ROOT / "book" / "figures.lock.json").read_text("utf-8"))
    assert [c.figure for c in claims().values() if c.figure and c.figure not in lock["figures"]] == []


def test_every_test_is_used():
    assert {c.test for c in claims().values() if c.test} == set(TESTS)


def test_verdicts_are_computed_and_worded_safely():
    found = {j.claim.id: j for j in judge_all()}
    assert {j.verdict for j in found.values()} <= set(VERDICTS)
    assert found["llama-70b-100k"].verdict == "reproduced"
    assert found["llama-70b-100k"].outcome.value == 32_768_000_000
    assert found["hbm-288gb-node"].verdict == "unit-error"
    assert found["nvme-zero-loss"].verdict == "unsupported"
    assert found["agentic-10-40x"].condition == {"baseline": "Kimi chat 2024"}


def test_405b_is_neither_kv_nor_kv_and_weights():
    """516 GB of KV, 1.33 TB with weights; the printed formula with all 128 heads at one byte gives 2.06 TB."""
    j = judge(claims()["llama-405b-1m"])
    readings = {r.label.split(",")[0]: r.value for r in j.outcome.readings}
    assert j.verdict == "contradicted"
    assert readings["KV alone"] == 516_096_000_000
    assert j.outcome.value == pytest.approx(1.33e12, rel=0.005)
    assert readings["printed formula"] == 126 * 128 * 128 * 1_000_000


def test_verdicts_respond_to_parameters():
    swapped = judge(claims()["llama-70b-100k"], {"model": "deepseek-v3", "context_tokens": 1000})
    assert swapped.verdict == "reproduced-if"
    assert swapped.condition == {"context_tokens": 1_000_000}
    assert judge(claims()["weights-crowd-hbm"], {"platform": "b300-8"}).verdict == "reproduced-if"


PARAMETERS = [{"model": "mamba-codestral-7b-v0.1", "context_tokens": 1}, {"model": "deepseek-v4-pro", "platform": "gb200-nvl72", "context_tokens": 10_000_000}]


@pytest.mark.parametrize("parameters", PARAMETERS)
def test_extreme_parameters_give_verdicts(parameters):
    for j in judge_all(parameters):
        assert j.verdict in VERDICTS
        json.dumps(j.plain(), allow_nan=False)


def made(**changes):
    row = {"id": "x", "text": "t", "place": "p", "claimed": "c", "unit": "u", "chapter": "k", "change": "y", "confidence": "high", "low": 1.0, "high": 2.0}
    return Claim(**row | changes)


def test_one_rule_for_all_verdicts(monkeypatch):
    monkeypatch.setitem(TESTS, "half", lambda x=1.0, y=1.0: Outcome(x * y / 2, other=1.5 if x == 9 else None))
    cases = [
        ({"inputs": {"x": 3.0}}, "reproduced", {}),
        ({"inputs": {"x": 9}}, "unit-error", {}),
        ({"inputs": {"x": 1.0}, "search": {"x": (0.5, 4.0), "y": (2.0,)}}, "reproduced-if", {"x": 4.0}),
        ({"inputs": {"x": 1.0}, "search": {"x": (0.5,), "y": (1.5,)}}, "contradicted", {}),
        ({"inputs": {"x": 1.0}, "search": {"x": (1.6,), "y": (1.5,)}}, "reproduced-if", {"x": 1.6, "y": 1.5}),
    ]
    for changes, verdict, condition in cases:
        j = judge(made(test="half", **changes))
        assert (j.verdict, dict(j.condition)) == (verdict, condition)
    assert judge(made(looked="nowhere")).verdict == "unsupported"
    assert judge(made(would_test="a survey")).verdict == "not-testable"


def test_command(capsys):
    assert main(["claims", "llama-405b-1m"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 10
    assert lines[0] == "llama-405b-1m: contradicted"
    assert main(["claims", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {"id", "claimed", "unit", "value", "verdict", "inputs", "chapter"} <= set(rows[0])
    assert main(["claims", "llama-405"]) == 2
    assert "nearest" in capsys.readouterr().err


def test_a_record_without_a_reason_is_refused():
    from kvmodel.claims import _record

    row = {"id": "x", "text": "t", "place": "p", "claimed": "c", "unit": "u", "chapter": "k", "change": "y", "confidence": "high"}
    for bad in (row, row | {"test": "no_such_test"}, row | {"colour": "red"}, row | {"looked": "a", "would_test": "b"}):
        with pytest.raises(KvError, match=r"claims\.toml: x"):
            _record(bad)
