"""Readers for request traces with prefix-block ids: JSON lines, and the delta-coded CSV of coding-agent sessions. Plain or gzip, one line at a time.

Block ids become dense numbers 0, 1, 2 ... in order of first appearance, so memory is bounded by the unique blocks, however long the trace.
"""

import csv
import gzip
import json
import math
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, NoReturn

from kvmodel.units import LIMIT, refuse

NAMES = (("timestamp", "input_length", "output_length", "hash_ids"), ("ts", "il", "ol", "bh"))
COLUMNS = ("trace", "agent", "t", "inp", "out", "keep", "new_blocks", "tail")
FORMATS = f"JSON lines with {' '.join(NAMES[0])} (or {' '.join(NAMES[1])}), or a CSV with the columns {' '.join(COLUMNS)}"
AGENT_BLOCK_TOKENS = 64  # the CSV format's own block size
MOST_BLOCKS = 10**7  # in one request: a few bytes of text must not claim gigabytes

PUBLISHED = {  # the traces in data/traces by name: file, block size in tokens, source
    "chat": ("mooncake_conversation.jsonl.gz", 512, "mooncake-traces"),
    "online-log": ("rtp_llm_online.jsonl.gz", 1024, "rtp-llm-trace"),
    "coding-agent": ("weka_cc_requests.csv.gz", AGENT_BLOCK_TOKENS, "kv-cache-tester"),
    "synthetic": ("mooncake_synthetic.jsonl.gz", 512, "mooncake-traces"),
}

Lines = Generator[tuple[int, str], None, None]


class Request(NamedTuple):
    """One request: start in seconds, prompt and output tokens, and the prompt's blocks as dense numbers in prompt order."""

    seconds: float
    input_tokens: int
    output_tokens: int
    blocks: "array[int]"


class AgentRow(NamedTuple):
    """One row of the coding-agent CSV: the blocks are the first `keep` of the agent's previous request, then `tail` (first id, last id)."""

    line: int
    trace: str
    agent: str
    seconds: float
    input_tokens: int
    output_tokens: int
    keep: int
    tail: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace file: iterate over it for its requests. `block_tokens` is the format's own block size, None where the format does not say."""

    path: Path
    kind: str
    block_tokens: int | None

    def __iter__(self) -> Iterator[Request]:
        found = agent_requests(agent_rows(self.path)) if self.kind == "agent" else _json_requests(_lines(self.path))
        first = next(found, None)
        if first is None:
            raise _empty(self.path)
        yield from chain((first,), found)


def open_trace(path: str | Path) -> Trace:
    """Return the trace in a file; only its first line is read now.

    Parameters
    ----------
    path : JSON lines (`timestamp` in ms, `input_length`, `output_length`, `hash_ids`; or `ts il ol bh`) or the delta-coded CSV, plain or gzip

    Raises
    ------
    KvError : absent file, directory, empty file, unknown format; while iterating, a bad line by its number

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "t.jsonl"
    ...     _ = path.write_text('{"ts": 1500, "il": 100, "ol": 5, "bh": ["a", "b"]}')
    ...     list(open_trace(path))
    [Request(seconds=1.5, input_tokens=100, output_tokens=5, blocks=array('q', [0, 1]))]
    """
    path = Path(path)
    try:
        folder, there = path.is_dir(), path.exists()
    except (OSError, ValueError):  # a name that no file can have
        folder = there = False
    if folder:
        raise refuse("trace", str(path), "the path of a trace file; this is a directory")
    if not there:
        raise refuse("trace", str(path), "the path of a trace file; there is no such file", _beside(path))
    lines = _lines(path)
    first = next(lines, None)
    lines.close()
    if first is None:
        raise _empty(path)
    if first[1].lstrip().startswith("{"):
        return Trace(path, "json", None)
    if "trace" in first[1].strip().split(","):
        return Trace(path, "agent", AGENT_BLOCK_TOKENS)
    raise refuse("trace line 1", first[1].strip(), FORMATS)


def _beside(path: Path) -> list[str]:
    try:
        return [str(path.parent / p.name) for p in path.parent.iterdir() if p.is_file()]
    except (OSError, ValueError):
        return []


def _empty(path: Path) -> Exception:
    return refuse("trace", str(path), "a trace with at least one request; this one is empty")


def _lines(path: Path) -> Lines:
    number = 0
    try:
        with path.open("rb") as probe:
            packed = probe.read(2) == b"\x1f\x8b"  # by content: names lie
        with gzip.open(path) if packed else path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                yield number, raw.decode("utf-8")
    except UnicodeDecodeError as error:
        _bad(number, "text", error.reason, "UTF-8 text")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        _bad(number + 1, "gzip", str(error), "a whole gzip file; this one is cut off or damaged here")
    except OSError as error:
        raise refuse("trace", str(path), f"a file that can be read: {error.strerror}") from None


def _bad(line: int, field: str, value: object, accepted: str, options: Iterable[str] = ()) -> NoReturn:
    raise refuse(f"trace line {line}, {field}", value, accepted, options)


def _json_requests(lines: Lines) -> Iterator[Request]:
    numbers: dict[int | str, int] = {}
    before = 0.0
    for line, text in lines:
        item = _json_object(line, text)
        names = next((n for n in NAMES if all(k in item for k in n)), None)
        if names is None:
            nearest = max(NAMES, key=lambda n: sum(k in item for k in n))
            missing = next(k for k in nearest if k not in item)
            _bad(line, missing, list(item), f"the fields {' '.join(NAMES[0])}, or {' '.join(NAMES[1])}; {missing} is missing")
        when, tokens, output, ids = (item[k] for k in names)
        if type(when) not in (int, float) or not 0 <= when < LIMIT:
            _bad(line, names[0], when, "milliseconds from 0")
        if when < before:
            _bad(line, names[0], when, f"timestamps in order, so {before} or more")
        for name, value in ((names[1], tokens), (names[2], output)):
            if type(value) is not int or not 0 <= value < LIMIT:
                _bad(line, name, value, "a whole number of tokens from 0")
        if type(ids) is not list or not set(map(type, ids)) <= {int, str}:
            _bad(line, names[3], ids, "a list of block ids, each a whole number or a string")
        before = when
        yield Request(when / 1000, tokens, output, array("q", [numbers.setdefault(i, len(numbers)) for i in ids]))


def _json_object(line: int, text: str) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [k for k, _ in pairs]
            _bad(line, next(k for k in names if names.count(k) > 1), text.strip(), "each field once")
        return found

    def constant(name: str) -> NoReturn:
        _bad(line, "number", name, "finite numbers")

    try:
        item = json.loads(text, object_pairs_hook=unique, parse_constant=constant)
    except (json.JSONDecodeError, RecursionError):
        _bad(line, "JSON", text.strip(), "one whole JSON object a line")
    except ValueError as error:
        raise error if type(error) is not ValueError else refuse(f"trace line {line}, number", text.strip(), "numbers below 2^63") from None
    if type(item) is not dict:
        _bad(line, "JSON", text.strip(), "one whole JSON object a line")
    return item


def agent_rows(path: str | Path) -> Iterator[AgentRow]:
    """Yield the rows of a coding-agent CSV; a bad one is refused by its line number."""
    lines = _lines(Path(path))
    _, header = next(lines, (1, ""))
    columns = _cells(1, header)
    missing = [c for c in COLUMNS if c not in columns]
    if missing or len(set(columns)) < len(columns):
        _bad(1, "header", header.strip(), f"each of the columns {' '.join(COLUMNS)} once", missing)
    at = [columns.index(c) for c in COLUMNS]
    for line, text in lines:
        cells = _cells(line, text)
        if len(cells) != len(columns):
            _bad(line, "row", text.strip(), f"{len(columns)} cells; this row has {len(cells)}")
        trace, agent, t, inp, out, keep, new, tail = (cells[i] for i in at)
        ranges = _ranges(line, tail)
        listed = sum(b - a + 1 for a, b in ranges)
        if listed != _count(line, "new_blocks", new):
            _bad(line, "new_blocks", new, f"the number of ids in tail, {listed}")
        yield AgentRow(line, trace, agent, _seconds(line, t), _count(line, "inp", inp), _count(line, "out", out), _count(line, "keep", keep), ranges)


def _cells(line: int, text: str) -> list[str]:
    try:
        return next(csv.reader([text], strict=True), [])
    except csv.Error as error:
        _bad(line, "row", text.strip(), f"one CSV row a line: {error}")


def _seconds(line: int, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < LIMIT:
        _bad(line, "t", text, "seconds from 0")
    return value


def _count(line: int, name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        _bad(line, name, text, "a whole number from 0, below 10^18")
    return int(text)


def _ranges(line: int, text: str) -> tuple[tuple[int, int], ...]:
    found = []
    for part in text.split(";") if text else ():
        first, dash, last = part.partition("-")
        a = _count(line, "tail", first)
        b = _count(line, "tail", last) if dash else a
        if b < a:
            _bad(line, "tail", text, "ranges first-last separated by ;")
        found.append((a, b))
    if sum(b - a + 1 for a, b in found) > MOST_BLOCKS:
        _bad(line, "tail", text, f"at most {MOST_BLOCKS:,} blocks in one request")
    return tuple(found)


@dataclass
class _Numbering:
    """Dense numbers for the integer ids of one session, kept as ranges: `first[k] .. last[k]` is `dense[k]` and on."""

    first: list[int] = field(default_factory=list)
    last: list[int] = field(default_factory=list)
    dense: list[int] = field(default_factory=list)

    def number(self, a: int, b: int, unused: int) -> Iterator[tuple[int, int]]:
        """Yield (dense number, count) pieces for the ids a .. b; ids not seen before take numbers from `unused` on."""
        while a <= b:
            k = bisect_right(self.first, a) - 1
            if k >= 0 and a <= self.last[k]:
                stop, start = min(b, self.last[k]), self.dense[k] + a - self.first[k]
            else:
                stop = min(b, self.first[k + 1] - 1) if k + 1 < len(self.first) else b
                start, unused = unused, unused + stop - a + 1
                self.first.insert(k + 1, a)
                self.last.insert(k + 1, stop)
                self.dense.insert(k + 1, start)
            yield start, stop - a + 1
            a = stop + 1


def agent_requests(rows: Iterable[AgentRow]) -> Iterator[Request]:
    """Yield the requests of coding-agent rows in the order given; ids are local to a trace, and each agent's times must not go back."""
    sessions: dict[str, _Numbering] = {}
    agents: dict[tuple[str, str], tuple[float, array[int]]] = {}
    unused = 0
    for row in rows:
        before, previous = agents.get((row.trace, row.agent), (0.0, array("q")))
        if row.seconds < before:
            _bad(row.line, "t", row.seconds, f"times of one agent in order, so {before} or more")
        if row.keep > len(previous):
            _bad(row.line, "keep", row.keep, f"at most the {len(previous)} blocks of the agent's previous request")
        blocks = previous[: row.keep]
        for a, b in row.tail:
            for start, count in sessions.setdefault(row.trace, _Numbering()).number(a, b, unused):
                blocks.extend(range(start, start + count))
                unused = max(unused, start + count)
        agents[row.trace, row.agent] = (row.seconds, blocks)
        yield Request(row.seconds, row.input_tokens, row.output_tokens, blocks)


def spread_sessions(path: str | Path, hours: float, seed: int) -> Iterator[Request]:
    """Yield the requests of a coding-agent CSV as one stream: each session starts at a time drawn uniformly over `hours` (the file has no start times)."""
    rows = list(agent_rows(path))
    draw = Random(seed)
    start = {trace: draw.uniform(0, hours * 3600) for trace in dict.fromkeys(r.trace for r in rows)}
    moved = (r._replace(seconds=start[r.trace] + r.seconds) for r in rows)
    yield from agent_requests(sorted(moved, key=lambda r: r.seconds))
