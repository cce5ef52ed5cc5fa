"""What makes a figure refused, with the reason: before anything is drawn."""

import re
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pandas as pd

from kvmodel.report.record import FigureRecord
from kvmodel.units import KvError

ALT_LIMIT = 250
CJK = re.compile("[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]")


def check(record: FigureRecord, data: pd.DataFrame, foot: str) -> None:
    """Refuse a figure that could not be read, cited or drawn.

    Raises
    ------
    KvError : empty title or caption; alt missing, too long or only the title; a column without description or unit; no rows; a bar or an area on a log
        axis without a baseline (it would be invisible); Chinese, Japanese or Korean characters where no font has them
    """
    where = f"figure {record.id}"
    _check_words(record, where)
    _check_columns(record, data, where)
    for mark, side in bars_without_baseline(record.spec):
        raise KvError(f"{where}: {mark} on a log {side} axis without a baseline is not accepted; accepted: points, lines, ranges, or a bar with {side}2")
    found = CJK.search("".join([record.title, foot, *_drawn(record.spec)]))
    if found and not cjk_font():
        raise KvError(f"{where}: {found[0]!r} in the picture needs a font that has it; accepted: a machine with one, such as fonts-noto-cjk")


def _check_words(record: FigureRecord, where: str) -> None:
    if not record.title.strip() or not record.caption.strip():
        raise KvError(f"{where}: an empty title or caption is not accepted; accepted: the finding as title, what is drawn as caption")
    alt, title = (" ".join(text.split()).rstrip(".").casefold() for text in (record.alt, record.title))
    if not alt or len(record.alt) > ALT_LIMIT:
        raise KvError(f"{where}: alt of {len(record.alt)} characters is not accepted; accepted: 1 to {ALT_LIMIT}: kind of chart, of what, where to look")
    if alt == title:
        raise KvError(f"{where}: an alt that repeats the title is not accepted; accepted: kind of chart, of what, where the reason to look")


def _check_columns(record: FigureRecord, data: pd.DataFrame, where: str) -> None:
    if data.empty:
        raise KvError(f"{where}: no rows; accepted: data with at least one row")
    described, found = sorted(record.columns), sorted(map(str, data.columns))
    if described != found:
        raise KvError(f"{where}: columns describes {described}, the data has {found}; accepted: (unit, meaning) of every column")
    for name, pair in record.columns.items():
        unit, meaning = pair if isinstance(pair, tuple | list) and len(pair) == 2 else ("", "")
        number = pd.api.types.is_numeric_dtype(data[name]) and not pd.api.types.is_bool_dtype(data[name])
        if not str(meaning).strip() or (number and not str(unit).strip()):
            raise KvError(f"{where}: column {name}: {pair!r} is not accepted; accepted: (unit, meaning); a number has a unit, at least 'ratio'")


def _drawn(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts of a picture: those of the specification, and those of the data in the fields that it draws (a tooltip is not in the picture)."""
    channels = [item for units in views(spec) for _, _, encoding in units for item in encoding.items()]
    fields = {channel["field"] for name, channel in channels if name != "tooltip" and isinstance(channel, Mapping) and "field" in channel}
    yield from _texts({key: part for key, part in spec.items() if key not in ("data", "datasets")})
    for rows in spec.get("datasets", {}).values():
        yield from _texts([row.get(name) for row in rows for name in fields if isinstance(row, Mapping)])


def _texts(part: Any) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    elif isinstance(part, Mapping):
        for entry in part.values():
            yield from _texts(entry)
    elif isinstance(part, list):
        for entry in part:
            yield from _texts(entry)


Unit = tuple[str, Mapping[str, Any], Mapping[str, Any]]  # mark, its properties, encoding with that of the outer layers


def views(spec: Mapping[str, Any], above: Mapping[str, Any] | None = None) -> Iterator[list[Unit]]:
    """Yield the marks of a Vega-Lite specification, those that share their scales (the layers of one view) together."""
    encoding = dict(above or {}) | spec.get("encoding", {})
    if "mark" in spec:
        mark = spec["mark"]
        yield [(mark, {}, encoding) if isinstance(mark, str) else (mark["type"], mark, encoding)]
    if "layer" in spec:
        groups = [group for part in spec["layer"] for group in views(part, encoding)]
        yield from groups if "independent" in str(spec.get("resolve", {}).get("scale", "")) else [[unit for group in groups for unit in group]]
    for key in ("hconcat", "vconcat", "concat"):
        for part in spec.get(key, ()):
            yield from views(part, encoding)
    if isinstance(spec.get("spec"), Mapping):
        yield from views(spec["spec"], encoding)


def bars_without_baseline(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (mark, axis) of every bar or area whose length runs along a log axis and that has no second end: it would start at zero, which is nowhere."""
    for units in views(spec):
        log = {side for _, _, encoding in units for side in ("x", "y") if _scale(encoding, side).get("type") == "log"}
        for mark, properties, encoding in units:
            side = _length(properties, encoding)
            if mark in ("bar", "area") and side in log and f"{side}2" not in encoding:
                yield mark, side


def _scale(encoding: Mapping[str, Any], side: str) -> Mapping[str, Any]:
    channel = encoding.get(side)
    return (channel.get("scale") or {}) if isinstance(channel, Mapping) else {}


def _length(properties: Mapping[str, Any], encoding: Mapping[str, Any]) -> str:
    """Return the axis along which a bar has its length, as Vega-Lite decides it."""
    continuous = [s for s in ("x", "y") if isinstance(encoding.get(s), Mapping) and encoding[s].get("type") == "quantitative" and not encoding[s].get("bin")]
    if len(continuous) == 1:
        return continuous[0]
    ranged = [side for side in ("x", "y") if f"{side}2" in encoding]
    return ranged[0] if len(ranged) == 1 else "x" if properties.get("orient") == "horizontal" else "y"


@cache
def cjk_font() -> bool:
    """True where a font for Chinese is installed, as fontconfig says; without fontconfig none is found."""
    try:
        return bool(subprocess.run(["fc-list", ":lang=zh"], capture_output=True, check=False).stdout.strip())
    except OSError:
        return False
