"""Spec files: data in TOML whose every value has a unit, a kind, a source and a date.

`specs/schema/<family>.schema.json` says which keys and units a file may have and in which physical range a value lies. This reader applies the schema with the
standard library only; editors and the tests apply the same file with a JSON Schema validator.
"""

import json
import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from kvmodel.units import MEMORY_UNITS, KvError, format_bytes, format_seconds, refuse, significant

SPECS = Path(__file__).parent / "specs"
KINDS = (
    "model-config", "paper", "datasheet", "vendor-claim", "press", "measured", "estimate", "forecast",
    "list-price", "contract-price", "spot-price", "derived", "assumption",
)  # fmt: skip
_BYTES = {"B": 1, **MEMORY_UNITS}
_COUNTS = ("accelerators", "sockets", "NICs", "drives", "stacks", "modules")
FACTORS: dict[str, dict[str, Fraction]] = {
    "bytes": {u: Fraction(n) for u, n in _BYTES.items()},
    "bytes_per_s": {f"{u}/s": Fraction(n) for u, n in _BYTES.items()} | {"Gb/s": Fraction(10**9, 8), "Tb/s": Fraction(10**12, 8)},
    "flops": {"TFLOPS": Fraction(10**12), "PFLOPS": Fraction(10**15)},
    "seconds": {
        u: Fraction(n)
        for u, n in (("ns", "1e-9"), ("us", "1e-6"), ("ms", "1e-3"), ("s", "1"), ("min", "60"), ("h", "3600"), ("d", "86400"), ("years", "31536000"))
    },
    "watts": {"W": Fraction(1), "kW": Fraction(1000)},
    "drive_writes_per_day": {"DWPD": Fraction(1)},
    "per_s": {"IOPS": Fraction(1), "req/s": Fraction(1)},
    "count": dict.fromkeys(_COUNTS, Fraction(1)),
}
_DATE = re.compile(r"\d{4}(-\d{2}(-\d{2})?)?")
SPEC_ID = re.compile(r"(?=.{1,99}\Z)[a-z0-9]+([.-][a-z0-9]+)*")  # short enough for the name of a file


def shown(base: str, x: float) -> str:
    """Return a number in base units as text.

    Examples
    --------
    >>> shown("bytes_per_s", 44.2e9), shown("flops", 989e12), shown("count", 8)
    ('44.2 GB/s', '989 TFLOPS', '8')
    """
    if base in ("bytes", "bytes_per_s"):
        return format_bytes(x) + ("/s" if base == "bytes_per_s" else "")
    if base == "seconds":
        return format_seconds(x)
    if base == "flops":
        return f"{significant(x / 1e12, 4)} TFLOPS"
    return significant(x) + {"watts": " W", "drive_writes_per_day": " DWPD", "per_s": " /s"}.get(base, "")


@dataclass(frozen=True, slots=True)
class Value:
    """One sourced value in its base unit (bytes, bytes per second, FLOPs per second, seconds, watts, DWPD, counts).

    `value` is None only for a range without a middle; `low` and `high` are None where no range is known. `stated` and `unit` are as the spec writes them.
    """

    value: float | None
    low: float | None
    high: float | None
    stated: float | None
    unit: str
    base: str
    kind: str
    sources: tuple[str, ...]
    date: str
    note: str = ""
    words: str = ""
    per: str = ""

    @property
    def span(self) -> tuple[float, float]:
        """Low and high end; the value itself where there is no range."""
        known = [x for x in (self.value, self.low, self.high) if x is not None]
        return min(known), max(known)

    def plain(self) -> dict[str, Any]:
        """Return the value as JSON data."""
        fields = ("value", "low", "high", "stated", "unit", "base", "kind", "date", "words", "per", "note")
        return {k: getattr(self, k) for k in fields if getattr(self, k) not in (None, "")} | {"sources": list(self.sources)}


@dataclass(frozen=True, slots=True)
class Spec:
    """One spec file: its texts, its values, and for links the rates by block size."""

    id: str
    kind: str
    name: str
    text: Mapping[str, Any]
    values: Mapping[str, Value]

    def get(self, key: str) -> float | None:
        """The value in base units, or None where the spec has none."""
        return self.values[key].value if key in self.values else None

    def need(self, key: str) -> float:
        """The value in base units; refuses, naming spec and key, where there is none."""
        found = self.get(key)
        if found is None:
            raise KvError(f"{self.id}: {key} has no sourced value; accepted: a spec that states it")
        return found

    @property
    def sources(self) -> tuple[str, ...]:
        """All source ids of this spec, sorted."""
        return tuple(sorted({s for v in self.values.values() for s in v.sources}))

    def plain(self) -> dict[str, Any]:
        """Return the spec as JSON data."""
        return {
            "id": self.id,
            "class": self.kind,
            "name": self.name,
            **self.text,
            "values": {k: v.plain() for k, v in self.values.items()},
            "sources": list(self.sources),
        }


def read_spec(path: Path, family: str) -> Spec:
    """Return the spec in a TOML file; refuses it, with file and key, when it breaks `specs/schema/<family>.schema.json`.

    Refused: unknown or missing keys, a value without source or date, an unknown unit or kind, a value outside its physical range or its own low and high,
    a derived value without expression, an assumption without reason.
    """
    where = f"{family}/{path.name}"
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise KvError(f"{where}: not TOML: {error}") from None
    schema = _schema(family)
    definitions = schema["$defs"]
    classes = [n for n, d in definitions.items() if "class" in d.get("properties", {})]
    if data.get("class") not in classes:
        raise refuse(f"{where}: class", data.get("class"), f"one of {' '.join(classes)}", classes)
    rules = definitions[data["class"]]
    _keys(where, data, rules)
    if data["id"] != path.stem:
        raise refuse(f"{where}: id", data["id"], f"the name of the file, {path.stem}")
    values, text = {}, {}
    for key, item in data.items():
        rule = rules["properties"][key]
        name = rule.get("$ref", "").removeprefix("#/$defs/")
        base = "seconds" if name == "time" else name
        if base in FACTORS:
            values[key] = _value(f"{where}: {key}", item, base, rule["x-range"], definitions[name])
        elif key not in ("id", "class", "name"):
            text[key] = _text(f"{where}: {key}", item, rule)
    return Spec(data["id"], data["class"], data["name"], text, values)


@cache
def _schema(family: str) -> dict[str, Any]:
    return dict(json.loads((SPECS / "schema" / f"{family}.schema.json").read_text(encoding="utf-8")))


def _keys(where: str, data: Mapping[str, Any], rules: Mapping[str, Any]) -> None:
    for key in data:
        if key not in rules["properties"]:
            raise refuse(f"{where}: key", key, "a key of the schema", rules["properties"])
    for key in rules["required"]:
        if key not in data:
            raise KvError(f"{where}: {key} is missing; accepted: a spec with {' '.join(rules['required'])}")
    if "anyOf" in rules and not any(set(option["required"]) <= set(data) for option in rules["anyOf"]):
        raise KvError(f"{where}: none of {' '.join(o['required'][0] for o in rules['anyOf'])} is given; accepted: a spec with one of them at least")


def _value(where: str, item: Any, base: str, limits: list[float], definition: Mapping[str, Any]) -> Value:
    if not isinstance(item, dict):
        raise refuse(where, item, "a table with value, unit, kind, source and date")
    _keys(where, item, definition)
    factors = FACTORS[base]
    if item.get("unit") not in factors:
        raise refuse(f"{where}.unit", item.get("unit"), f"one of {' '.join(factors)}", factors)
    _provenance(where, item)
    numbers = {k: _number(f"{where}.{k}", item[k], factors[item["unit"]], limits, base) if k in item else None for k in ("value", "low", "high")}
    known = [x for x in (numbers["low"], numbers["value"], numbers["high"]) if x is not None]
    if known != sorted(known):
        raise refuse(f"{where}.value", item.get("value"), "low <= value <= high")
    sources = (item["source"],) if isinstance(item["source"], str) else tuple(item["source"])
    return Value(
        numbers["value"],
        numbers["low"],
        numbers["high"],
        item.get("value"),
        item["unit"],
        base,
        item["kind"],
        sources,
        item["date"],
        _remark(item),
        item.get("words", ""),
        item.get("per", ""),
    )


def _number(where: str, number: Any, factor: Fraction, limits: list[float], base: str) -> float:
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
        raise refuse(where, number, "a finite number")
    exact = Fraction(str(number)) * factor
    if not limits[0] <= exact <= limits[1]:
        raise refuse(where, number, f"a value in the physical range, {limits[0]:g} to {limits[1]:g} {base}")
    return round(exact) if base in ("bytes", "count") else float(exact)


def _provenance(where: str, item: Mapping[str, Any]) -> None:
    if item.get("kind") not in KINDS:
        raise refuse(f"{where}.kind", item.get("kind"), f"one of {' '.join(KINDS)}", KINDS)
    sources = item.get("source")
    named = [sources] if isinstance(sources, str) else sources
    if not isinstance(named, list) or not named or not all(isinstance(s, str) and SPEC_ID.fullmatch(s) for s in named):
        raise refuse(f"{where}.source", sources, "a source id of data/sources.toml, or a list of them")
    if not isinstance(item.get("date"), str) or not _DATE.fullmatch(item["date"]):
        raise refuse(f"{where}.date", item.get("date"), "a date such as 2026, 2026-03 or 2026-03-31")
    for kind, key in (("derived", "expression"), ("assumption", "reason")):
        if item["kind"] == kind and not item.get(key):
            raise KvError(f"{where}.{key} is missing; accepted: {'how a derived value was computed' if kind == 'derived' else 'why it is assumed'}")


def _remark(item: Mapping[str, Any]) -> str:
    parts = [str(item[k]) for k in ("expression", "reason", "reading", "note") if item.get(k)]
    return "; ".join(parts)


def _text(where: str, item: Any, rule: Mapping[str, Any]) -> Any:
    if "enum" in rule and item not in rule["enum"]:
        raise refuse(where, item, f"one of {' '.join(rule['enum'])}", rule["enum"])
    if rule.get("$ref") == "#/$defs/id" and not (isinstance(item, str) and SPEC_ID.fullmatch(item)):
        raise refuse(where, item, "an id in lower case, such as pcie5-x16")
    types = {"string": str, "boolean": bool, "integer": int, "array": list, "object": dict}
    if "type" in rule and not isinstance(item, types[rule["type"]]):
        raise refuse(where, item, f"a {rule['type']}")
    if rule.get("type") == "object":
        _keys(where, item, rule)
        _provenance(where, item)
    return item
