"""Sweeps: a grid, one tidy table, resumed where it stopped, here and on a cluster of separate processes."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from distributed import LocalCluster

from kvmodel.cli import main
from kvmodel.report.sweep import RESULTS, plan_sweep, sweep
from kvmodel.units import KvError
from tests.unit.small_book import make


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return make(tmp_path / "checkout")


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as made:
        yield made


def rows(table: Path) -> list[dict[str, str]]:
    with table.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_grid_becomes_one_tidy_table_and_a_failed_point_is_a_row(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sweep", "sizes", "-p", "context_tokens=1k,1Ki", "-p", "users=1,13,2e0", "--jobs", "2", "--book", str(root), "--out", "out"]
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert out == "out/headlines.csv\n"
    assert err == "2 of 6 points failed; their rows say why\n"
    found = rows(Path("out/headlines.csv"))
    assert list(found[0]) == ["context_tokens", "users", *RESULTS]
    assert [(r["context_tokens"], r["users"], r["value"]) for r in found] == [
        ("1000", "1", "2000"), ("1000", "13", ""), ("1000", "2", "4000"), ("1024", "1", "2048"), ("1024", "13", ""), ("1024", "2", "4096"),
    ]  # fmt: skip
    assert found[0]["id"] == "bytes-all"
    assert found[0]["unit"] == "bytes"
    assert found[0]["text"] == "2,000 bytes"
    assert found[1]["error"] == "sizes: cell 4 of 5 failed: ValueError: unlucky number"
    assert len(list(Path("out/points").glob("*.ipynb"))) == 4


def test_a_value_with_a_comma_is_quoted_and_a_name_of_a_column_is_marked(root: Path) -> None:
    plan = plan_sweep(root, "words", {"text": '"a, b",c,"say ""d""\nnow"'}, jobs=2)
    assert plan.grid == {"text": ["a, b", "c", 'say "d"\nnow']}
    table, points, failed = sweep(plan, "out")
    assert (points, failed) == (3, 0)
    assert [(r["parameter.text"], r["id"], r["value"]) for r in rows(table) if r["id"] == "words"] == [
        ("a, b", "words", "2"),
        ("c", "words", "1"),
        ('say "d"\nnow', "words", "3"),
    ]


def test_only_points_that_are_missing_run(root: Path) -> None:
    def calls(values: str) -> int:
        ran: list[str] = []
        sweep(plan_sweep(root, "sizes", {"users": values}, jobs=2), "out", progress=ran.append)
        return len(ran)

    assert calls("1,2,13") == 3
    assert calls("1,2,13,3") == 2, "the failed one again, and the new one"
    assert [r["users"] for r in rows(Path("out/headlines.csv"))] == ["1", "2", "13", "3"]
    (root / "_config.yml").write_text((root / "_config.yml").read_text() + "# changed\n")
    assert calls("1,2") == 2, "the book has changed"


def test_ctrl_c_stops_and_the_same_command_goes_on(root: Path) -> None:
    words = [
        sys.executable,
        "-m",
        "kvmodel",
        "sweep",
        "sizes",
        "-p",
        "users=" + ",".join(map(str, range(20, 40))),
        "--jobs",
        "2",
        "--book",
        str(root),
        "--out",
        "out",
    ]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while len(list(Path("out/points").glob("*.json") if Path("out/points").is_dir() else [])) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.startswith("stopped by Ctrl-C")
    assert err.count("\n") == 1
    kept = {p: p.stat().st_mtime_ns for p in Path("out/points").glob("*.json")}
    assert 2 <= len(kept) < 20
    assert not Path("out/headlines.csv").exists()
    assert subprocess.run(words, check=False, capture_output=True).returncode == 0
    assert len(rows(Path("out/headlines.csv"))) == 20
    assert {p: p.stat().st_mtime_ns for p in kept} == kept


def test_a_dead_kernel_is_tried_again_and_then_a_row(root: Path) -> None:
    table, points, failed = sweep(plan_sweep(root, "sizes", {"users": "66,1"}, jobs=2), "out")
    assert (points, failed) == (2, 1)
    assert "DeadKernelError" in rows(table)[0]["error"]
    assert rows(table)[1]["value"] == "200000"


def test_a_cluster_of_processes_gives_the_same_table(root: Path, cluster: LocalCluster) -> None:
    given = {"users": "1,13,2", "context_tokens": "10,20"}
    here = sweep(plan_sweep(root, "sizes", given, jobs=2), "here")[0].read_text()
    there = sweep(plan_sweep(root, "sizes", given, dask=cluster.scheduler_address), "there")[0].read_text()
    assert here == there
    one = {json.loads(p.read_text())["parameters"]["users"]: p.with_suffix(".ipynb").exists() for p in Path("there/points").glob("*.json")}
    assert one == {1: True, 2: True, 13: False}


def test_the_points_of_a_lost_worker_are_done_by_another(root: Path, cluster: LocalCluster) -> None:
    killed: list[int] = []

    def kill(_words: str) -> None:
        if not killed:  # after the first point: a worker dies with its work
            worker = next(iter(cluster.workers.values()))
            killed.append(worker.process.pid)
            os.kill(worker.process.pid, signal.SIGKILL)

    table, points, failed = sweep(plan_sweep(root, "sizes", {"users": "1,2,3,4,5,6"}, dask=cluster.scheduler_address), "out", progress=kill)
    assert killed
    assert (points, failed) == (6, 0)
    assert [r["value"] for r in rows(table)] == [str(200_000 * n) for n in range(1, 7)]


@pytest.mark.parametrize(
    ("given", "options", "said"),
    [
        ({"users": "1,0"}, {}, "users: '0'"),
        ({"users": "1,,2"}, {}, "users: ''"),
        ({"usrs": "1"}, {}, "nearest: 'users'"),
        ({"users": "1"}, {"jobs": "0"}, "jobs"),
        ({"users": ",".join(map(str, range(1, 1001))), "context_tokens": ",".join(map(str, range(1, 102)))}, {}, "101,000 points"),
    ],
)
def test_a_bad_grid_is_refused_before_anything_runs(root: Path, given: dict[str, str], options: dict[str, str], said: str) -> None:
    with pytest.raises(KvError, match=said):
        plan_sweep(root, "sizes", given, **options)  # type: ignore[arg-type]


def test_text_that_is_not_a_list_is_refused(root: Path) -> None:
    with pytest.raises(KvError, match="double quotes"):
        plan_sweep(root, "words", {"text": "one\ntwo"})
    with pytest.raises(KvError, match="double quotes"):
        plan_sweep(root, "words", {"text": '"open'})


def test_a_scheduler_that_does_not_answer_is_refused(root: Path) -> None:
    with pytest.raises(KvError, match="dask: 'tcp://127"):
        sweep(plan_sweep(root, "sizes", {}, dask="tcp://127.0.0.1:9"), "out")
