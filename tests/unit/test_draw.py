"""Pictures drawn beside the kernels of a run: the same files, all there at the end, and a failure is told."""

import json
from pathlib import Path
from typing import Any

import pytest

from kvmodel.report import draw
from kvmodel.report.execute import RunError
from kvmodel.report.record import SUFFIXES, FigureRecord, Source

POINT: dict[str, Any] = {
    "data": {"values": [{"a": 1, "b": 2}]},
    "mark": "point",
    "encoding": {"x": {"field": "a", "type": "quantitative"}, "y": {"field": "b", "type": "quantitative"}},
}


def record(name: str, spec: dict[str, Any]) -> FigureRecord:
    facts = {
        "caption": "What is drawn.",
        "alt": "One point.",
        "columns": {"a": ("1", "first"), "b": ("1", "second")},
        "sources": {"some": Source("Some data", "Somebody")},
    }
    return FigureRecord(name, "One point stands alone", "kv-size", "0123456789ab", csv=b"a,b\n1,2\n", spec=spec, **facts)  # type: ignore[arg-type]


def test_a_run_draws_the_same_files_as_a_build(tmp_path: Path) -> None:
    one, two = tmp_path / "build/figures", tmp_path / "run/figures"
    draw.draw(record("one-point", POINT), one)
    with draw.beside(two):
        draw.draw(record("one-point", POINT), two)
        draw.draw(record("other-point", POINT), two)
    files = {p.relative_to(one.parent).as_posix(): p.read_bytes() for p in one.parent.rglob("*") if p.is_file()}
    assert {f"figures/one-point/one-point.{suffix}" for suffix in SUFFIXES} | {"figures/one-point/figure.json", "live/one-point.js"} == set(files)
    assert {
        p.relative_to(two.parent).as_posix(): p.read_bytes()
        for p in two.parent.rglob("*")
        if p.is_file() and "other" not in p.name and "other" not in p.parent.name
    } == files
    assert (two / "other-point/other-point.png").is_file()
    assert sorted(p.name for p in two.parent.iterdir()) == ["figures", "live"]


def test_a_picture_that_cannot_be_drawn_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="draw: failed"), draw.beside(tmp_path / "figures"):
        draw.draw(record("no-picture", {"mark": "nothing"}), tmp_path / "figures")


def test_a_failing_run_does_not_wait_for_pictures(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="a cell"), draw.beside(tmp_path / "figures"):
        raise RunError("a cell")


def test_zoom_is_for_one_view_with_two_continuous_axes() -> None:
    assert draw.live(POINT)["params"][0]["bind"] == "scales"
    layered = draw.live({"data": POINT["data"], "encoding": POINT["encoding"], "layer": [{"mark": "rule", "params": [{"name": "old"}]}, {"mark": "point"}]})
    assert [p["name"] for p in layered["layer"][0]["params"]] == ["zoom", "old"]
    assert "params" not in layered["layer"][1]
    names = json.loads(json.dumps(POINT))
    names["encoding"]["x"]["type"] = "nominal"
    for spec in (names, {"hconcat": [POINT, POINT]}, {"facet": {"field": "a"}, "spec": POINT}):
        assert draw.live(spec) == spec
