from collections import Counter
from fnmatch import fnmatchcase

import pytest

from kvmodel import card
from kvmodel.report.predictions import best_fit, calibration, entries, model_of, predictions, reasons, results, spec

ROWS = {r["id"]: r for r in results()}


def test_every_row_is_predicted_or_has_a_reason():
    wrong = {row: len(entries(row)) for row in ROWS if len(entries(row)) != 1}
    assert wrong == {}
    told = [row for _, rows in reasons() for row in rows]
    assert Counter([*(p.row for p in predictions()), *told]) == Counter(dict.fromkeys(ROWS, 1))


def test_no_pattern_is_idle():
    named = [e["rows"] for e in [*spec()["predict"], *spec()["unpredicted"]]]
    patterns = [p for rows in named for p in ([rows] if isinstance(rows, str) else rows)]
    assert [p for p in patterns if not any(fnmatchcase(row, p) for row in ROWS)] == []


def test_misses_are_named():
    """A prediction outside its own range says why; the calibration rows are inside, and they are the only ones that were fitted."""
    assert all(p.likely for p in predictions() if not p.inside)
    fitted = [p for p in predictions() if p.fitted]
    assert len(fitted) == 21
    assert all(p.inside for p in fitted)
    assert all(p.row.startswith("vllm-cpu-") for p in fitted)
    assert {p.row for p in predictions() if not p.inside} >= {"h20-64k-miss", "m1m-1m", "mpd-1024-ms"}


def test_units_and_hand_values():
    found = {p.row: p for p in predictions()}
    assert found["mpd-32768-kv"].predicted == 32_768 * 147_456
    assert found["mpd-32768-kv"].measured == pytest.approx(4.5 * 2**30)
    assert found["h20-64k-cpu"].predicted == pytest.approx(0.015 + 98_304 * 64_000 / 54e9, rel=1e-3)
    assert found["mpd-32768-ms"].predicted == pytest.approx(32_768 * 147_456 / 174e9, rel=1e-3)
    assert found["vmoon-100k"].predicted == 61 * 576 * 100_000
    assert found["m1m-10x250k"].predicted < found["m1m-10x250k"].measured
    assert not found["m1m-10x250k"].inside
    assert found["m1m-10k"].inside


def test_the_model_without_a_card_is_the_one_of_the_rows():
    model = model_of("qwen3-coder-30b-a3b")
    assert model.terms().growing_bytes_per_token == 98_304
    layer = 2 * 2048 * 4096 + 2 * 2048 * 512 + 8 * 3 * 2048 * 768 + 128 * 2048
    assert model.params_active == 48 * layer + 2 * 151_936 * 2048
    assert model_of("qwen3-8b") == card("qwen3-8b")


def test_only_one_way_of_counting_fits_one_efficiency():
    """Within 4 % with query heads and the causal half; with KV heads or the full square a slope of tens of per cent remains."""
    assert best_fit("as here") == (pytest.approx(0.595, rel=0.01), pytest.approx(0.04, abs=0.006))
    assert best_fit("KV heads")[1] > 0.3
    assert best_fit("full square")[1] > 0.15
    needs = {way: [e for w, _, e in calibration() if w == way] for way in ("KV heads", "full square")}
    assert needs["KV heads"] == sorted(needs["KV heads"], reverse=True)
    assert needs["full square"] == sorted(needs["full square"])
