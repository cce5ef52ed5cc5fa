"""Readers: both field sets, ids of both kinds, delta coding, and a refusal by line number for everything else."""

import csv
import gzip
import hashlib
import json
import re
import tracemalloc
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from kvmodel.traces import MOST_BLOCKS, Request, open_trace, spread_sessions
from kvmodel.units import KvError

TRACES = Path(__file__).parents[2] / "data/traces"
GOOD: dict[str, Any] = {"timestamp": 5, "input_length": 10, "output_length": 2, "hash_ids": [1, 2]}
HEADER = "trace,agent,t,model,inp,out,think,api,stop,keep,new_blocks,tail\n"


def read(path: Path, text: str | bytes) -> list[Request]:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return list(open_trace(path))


def lines(*items: Any) -> str:
    return "".join((i if isinstance(i, str) else json.dumps(i)) + "\n" for i in items)


def test_both_field_sets(tmp_path: Path) -> None:
    first = read(tmp_path / "a", lines(GOOD, GOOD | {"timestamp": 1500.5, "hash_ids": ["x", 2, 9], "more": None}))
    second = read(tmp_path / "b", lines({"ts": 5, "il": 10, "ol": 2, "bh": [1, 2]}, {"ts": 1500.5, "il": 10, "ol": 2, "bh": ["x", 2, 9]}))
    assert first == second
    assert [(r.seconds, list(r.blocks)) for r in first] == [(0.005, [0, 1]), (1.5005, [2, 1, 3])]


def test_valid_edges(tmp_path: Path) -> None:
    rows = read(tmp_path / "a", lines(GOOD | {"hash_ids": []}, GOOD | {"hash_ids": [-4, 2**80, "", "1", 1]}, GOOD | {"input_length": 0}).rstrip("\n"))
    assert [list(r.blocks) for r in rows] == [[], [0, 1, 2, 3, 4], [4, 5]]


def test_packed_by_content_not_by_name(tmp_path: Path) -> None:
    text = lines(GOOD)
    assert read(tmp_path / "plain.gz", text) == read(tmp_path / "packed.jsonl", gzip.compress(text.encode()))


BAD = {
    "missing": {k: v for k, v in GOOD.items() if k != "hash_ids"},
    "mixed names": {"timestamp": 5, "il": 10, "ol": 2, "bh": []},
    "text for a number": GOOD | {"timestamp": "5"},
    "boolean": GOOD | {"timestamp": True},
    "null": GOOD | {"input_length": None},
    "fraction of a token": GOOD | {"input_length": 10.0},
    "negative time": GOOD | {"timestamp": -1},
    "negative tokens": GOOD | {"output_length": -1},
    "too large": GOOD | {"input_length": 2**63},
    "infinite": '{"timestamp": 1e999, "input_length": 1, "output_length": 1, "hash_ids": []}',
    "NaN": '{"timestamp": NaN, "input_length": 1, "output_length": 1, "hash_ids": []}',
    "NaN elsewhere": '{"timestamp": 5, "input_length": 1, "output_length": 1, "hash_ids": [], "x": NaN}',
    "digits without end": '{"timestamp": 5, "input_length": ' + "9" * 5000 + ', "output_length": 1, "hash_ids": []}',
    "ids not a list": GOOD | {"hash_ids": "1 2"},
    "id of a wrong type": GOOD | {"hash_ids": [1, 2.0]},
    "boolean id": GOOD | {"hash_ids": [True]},
    "nested ids": GOOD | {"hash_ids": [[1]]},
    "unsorted": GOOD | {"timestamp": 4},
    "duplicate key": '{"timestamp": 5, "timestamp": 6, "input_length": 1, "output_length": 1, "hash_ids": []}',
    "not an object": "[1, 2]",
    "not JSON": "{oops",
    "cut off": json.dumps(GOOD)[:40],
    "two on a line": json.dumps(GOOD) * 2,
    "blank": "",
    "deep": "[" * 100_000,
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_refused_by_line_number(bad: Any, tmp_path: Path) -> None:
    with pytest.raises(KvError, match=r"^trace line 3, .* is not accepted; accepted: ") as error:
        read(tmp_path / "a", lines(GOOD, GOOD, bad, GOOD))
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400


def test_bad_bytes(tmp_path: Path) -> None:
    with pytest.raises(KvError, match=r"^trace line 2, text"):
        read(tmp_path / "a", lines(GOOD).encode() + b"\xff\xfe\n")


def test_truncated_gzip_names_the_line(tmp_path: Path) -> None:
    whole = (TRACES / "mooncake_synthetic.jsonl.gz").read_bytes()
    with pytest.raises(KvError, match=r"^trace line (\d+), ") as error:
        read(tmp_path / "a.jsonl.gz", whole[: len(whole) // 2])
    found = re.search(r"line (\d+)", str(error.value))
    assert found
    assert 1000 < int(found[1]) < 3993
    with pytest.raises(KvError, match="trace line"):
        read(tmp_path / "b.jsonl.gz", whole[:-6] + b"\0\0" + whole[-4:])  # a wrong checksum


@pytest.mark.parametrize(("text", "says"), [("", "empty"), ("a b\n", "JSON lines"), ("x,y\n1,2\n", "CSV"), (HEADER, "empty")])
def test_refused_files(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(KvError, match=says):
        read(tmp_path / "a", text)


def test_absent_and_directory(tmp_path: Path) -> None:
    (tmp_path / "trace.jsonl").touch()
    with pytest.raises(KvError, match=r"no such file; nearest: .*trace\.jsonl"):
        open_trace(tmp_path / "trace.json")
    with pytest.raises(KvError, match="directory"):
        open_trace(tmp_path)
    for name in ("a" * 5000, "a\0b", "no/such/folder/trace"):
        with pytest.raises(KvError, match="no such file"):
            open_trace(name)


def agent(*rows: str) -> str:
    return HEADER + "".join(r + "\n" for r in rows)


def test_delta_coding(tmp_path: Path) -> None:
    text = agent(
        "1,m,0.0,x,300,5,,,,0,4,10-13",
        "1,m,2.0,x,300,5,,,,2,2,40-41",
        "1,s,1.0,x,300,5,,,,0,4,12-13;9-9;11",  # another agent of the session shares ids; its clock is its own
        "2,m,0.0,x,300,5,,,,0,2,10-11",  # ids are local to a session
        "1,m,2.0,x,300,5,,,,4,0,",
        "1,m,9.0,x,300,5,,,,1,7,8-14",
    )
    assert [list(r.blocks) for r in read(tmp_path / "a", text)] == [
        [0, 1, 2, 3], [0, 1, 4, 5], [2, 3, 6, 1], [7, 8], [0, 1, 4, 5], [0, 9, 6, 0, 1, 2, 3, 10],
    ]  # fmt: skip


BAD_ROWS = {
    "unsorted": "1,m,1.0,x,300,5,,,,0,1,9-9",
    "keep": "1,m,3.0,x,300,5,,,,5,0,",
    "keep of another agent": "1,s,3.0,x,300,5,,,,1,0,",
    "count": "1,m,3.0,x,300,5,,,,0,3,9-10",
    "range": "1,m,3.0,x,300,5,,,,0,2,10-9",
    "id": "1,m,3.0,x,300,5,,,,0,1,a-b",
    "sign": "1,m,3.0,x,300,5,,,,0,1,-1",
    "cells": "1,m,3.0,x,300,5,,,,0,1",
    "time": "1,m,nan,x,300,5,,,,0,1,9-9",
    "negative time": "1,m,-1,x,300,5,,,,0,1,9-9",
    "tokens": "1,m,3.0,x,3e2,5,,,,0,1,9-9",
    "digits of another script": "1,m,3.0,x,٣,5,,,,0,1,9-9",
    "quote": '1,m,3.0,x,300,5,"a,,,0,1,9-9',
    "huge": f"1,m,3.0,x,300,5,,,,0,{MOST_BLOCKS + 1},1-{MOST_BLOCKS + 1}",
    "blank": "",
}


@pytest.mark.parametrize("bad", BAD_ROWS.values(), ids=BAD_ROWS.keys())
def test_bad_rows_by_line_number(bad: str, tmp_path: Path) -> None:
    with pytest.raises(KvError, match=r"^trace line 3, .* is not accepted; accepted: ") as error:
        read(tmp_path / "a", agent("1,m,2.0,x,300,5,,,,0,4,10-13", bad))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("header", [HEADER.replace("keep", "kept"), HEADER.replace("model", "t")])
def test_bad_header(header: str, tmp_path: Path) -> None:
    with pytest.raises(KvError, match="trace line 1, header"):
        read(tmp_path / "a", header + "1,m,2.0,x,300,5,,,,0,4,10-13\n")


def test_spread_keeps_every_request_and_sorts_them(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text(agent("1,m,0,x,300,5,,,,0,4,10-13", "1,m,9000,x,300,5,,,,4,1,14", "2,m,0,x,300,5,,,,0,2,10-11"))
    found = list(spread_sessions(path, hours=1, seed=3))
    assert sorted(len(r.blocks) for r in found) == [2, 4, 5]
    assert [r.seconds for r in found] == sorted(r.seconds for r in found)
    assert len({b for r in found for b in r.blocks}) == 7


def test_memory_is_bounded_by_unique_blocks(tmp_path: Path) -> None:
    def peak(repeats: int) -> int:
        path = tmp_path / f"{repeats}.jsonl.gz"
        with gzip.open(path, "wt") as file:
            for i in range(repeats):
                file.write(json.dumps(GOOD | {"timestamp": i, "hash_ids": [f"block-{(i + k) % 500}" for k in range(100)]}) + "\n")
        tracemalloc.start()
        assert sum(1 for _ in open_trace(path)) == repeats
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    assert peak(6000) < 1.5 * peak(600)  # ten times longer; read buffers differ a little


with (TRACES / "README.csv").open() as listing:
    FILES = list(csv.DictReader(listing))


@pytest.mark.parametrize("row", FILES, ids=lambda r: r["file"])
def test_files_are_as_listed(row: dict[str, str]) -> None:
    data = (TRACES / row["file"]).read_bytes()
    assert (str(len(data)), hashlib.sha256(data).hexdigest()) == (row["bytes"], row["sha256"])
    assert row["licence"] in ("Apache-2.0", "CC-BY-4.0")
    count = gzip.decompress(data).count(b"\n") if row["file"].endswith("jsonl.gz") else len(pd.read_csv(TRACES / row["file"]))
    assert count == int(row["rows"])


def test_every_trace_file_is_listed() -> None:
    assert {p.name for p in TRACES.glob("*.gz")} == {r["file"] for r in FILES}
