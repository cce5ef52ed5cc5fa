"""Predicted against measured: every row of `data/offload_results.csv`, with one efficiency and no further fitting, or the reason why it cannot be predicted."""

import csv
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from kvmodel.cards import Card, card, card_ids, from_toml
from kvmodel.movement import EFFICIENCY, layer_flops, matmul_params, prefill_flops
from kvmodel.places import DATA
from kvmodel.specfile import SPECS
from kvmodel.tiers import tier
from kvmodel.units import KvError

BASE = {"ms": 1e-3, "s": 1.0, "GB": 1e9, "GB/s": 1e9, "x": 1.0}
UNITS = {"recompute": "s", "load": "s", "move": "s", "read": "s", "size": "bytes", "rate": "bytes/s"}
SLACK_S, SLACK = 0.015, 0.05  # how far a load may be off before it counts as a miss: the fixed part again, and 5 %
Range = tuple[float, float, float]  # value, low, high


@dataclass(frozen=True, slots=True)
class Prediction:
    """One row of the file: what was measured, and what the model says, with its range [s, bytes, bytes/s or a ratio]."""

    row: str
    item: str
    metric: str
    kind: str
    source: str
    measured: float
    predicted: float
    low: float
    high: float
    unit: str
    fitted: bool
    inside: bool
    likely: str

    @property
    def ratio(self) -> float:
        """Predicted / measured."""
        return self.predicted / self.measured


@cache
def spec() -> dict[str, Any]:
    """Return the parsed `specs/predictions.toml`."""
    with (SPECS / "predictions.toml").open("rb") as file:
        return tomllib.load(file)


@cache
def results() -> tuple[dict[str, str], ...]:
    """Return the rows of `data/offload_results.csv`."""
    with (DATA / "offload_results.csv").open(encoding="utf-8") as file:
        return tuple(csv.DictReader(file))


def entries(row_id: str) -> list[dict[str, Any]]:
    """Return the entries that match a row: one, in a file without gaps and overlaps."""
    found = [*spec()["predict"], *spec()["unpredicted"]]
    return [e for e in found if any(fnmatchcase(row_id, p) for p in ([e["rows"]] if isinstance(e["rows"], str) else e["rows"]))]


def reasons() -> list[tuple[str, list[str]]]:
    """Return the reasons why rows cannot be predicted, each with its rows, in the order of the spec."""
    names: dict[str, list[str]] = {e["reason"]: [] for e in spec()["unpredicted"]}
    for r in results():
        for e in entries(r["id"]):
            if "reason" in e:
                names[e["reason"]].append(r["id"])
    return [(reason, rows) for reason, rows in names.items() if rows]


@cache
def predictions() -> tuple[Prediction, ...]:
    """Return a prediction for every row that names what it takes."""
    pairs = ((r, e) for r in results() for e in entries(r["id"]) if "what" in e)
    return tuple(_predict(r, e) for r, e in pairs)


def _predict(row: Mapping[str, str], entry: Mapping[str, Any]) -> Prediction:
    measured = float(row["value"]) * BASE[row["unit"]] * entry.get("scale", 1.0)
    value, low, high = _value(row["id"], entry)
    bound = entry.get("bound")
    inside = high >= measured if bound == "above" else low <= measured if bound == "below" else low <= measured <= high
    unit = "ratio" if "/" in entry["what"] else UNITS[entry["what"].split("+")[0]]
    return Prediction(
        row["id"], row["item"], row["metric"], row["kind"], row["source"], measured, value, low, high, unit, entry.get("fitted", False), inside,
        "" if inside else entry.get("likely", ""),
    )  # fmt: skip


def _value(row_id: str, entry: Mapping[str, Any]) -> Range:
    parts = re.split(r"([/+])", entry["what"])
    first = _part(parts[0], row_id, entry)
    if len(parts) == 1:
        return first
    second = _part(parts[2], row_id, entry)
    if parts[1] == "+":
        return first[0] + second[0], first[1] + second[1], first[2] + second[2]
    return first[0] / second[0], first[1] / second[2], first[2] / second[1]


def _part(what: str, row_id: str, entry: Mapping[str, Any]) -> Range:
    users = entry.get("users", 1)
    if what == "recompute":
        model, tokens = model_of(entry["model"]), _tokens(row_id, entry)
        peak = entry.get("tp", 1) * number("accelerator", entry["accelerator"], "bf16_flops")
        base, slow, fast = (users * prefill_flops(model, tokens) / peak / e for e in EFFICIENCY)
        return base, fast, slow
    if what == "rate" and "model" not in entry:
        return _slack(number("link", entry["link"], "rate"))
    size = users * int(model_of(entry["model"]).terms(entry.get("kv_dtype", "bf16")).stored(_tokens(row_id, entry)))
    if what == "size":
        return _slack(size)
    if what == "read":
        return _slack(tier("near-memory").fixed_s + size / number("accelerator", entry["accelerator"], "bandwidth"))
    moved = size / number("link", entry["link"], "rate")
    if what == "load":
        value = tier("main-memory").fixed_s + moved
        return value, value * (1 - SLACK) - SLACK_S, value * (1 + SLACK) + SLACK_S
    moved += tier("expansion-memory").spec.need("latency_s") if entry["link"].startswith("eight") else 0.0
    return _slack(size / moved if what == "rate" else moved)


def _slack(value: float) -> Range:
    return value, value * (1 - SLACK), value * (1 + SLACK)


def _tokens(row_id: str, entry: Mapping[str, Any]) -> int:
    if "tokens" in entry:
        return int(entry["tokens"])
    found = re.search(r"-(\d+)(k?)-", row_id)
    if found is None:
        raise KvError(f"predictions.toml: {row_id} has no tokens; accepted: tokens, or a number in the row's id")
    return int(found[1]) * (1000 if found[2] else 1)


def number(group: str, name: str, key: str) -> float:
    """Return a value of an accelerator or a link of the spec."""
    return float(spec()[group][name][key]["value"])


def model_of(name: str) -> Card:
    """Return the card, or the one that the spec brings for a model without a card."""
    return card(name) if name in card_ids() else from_toml(spec()["model"][name]["card"], "predictions.toml")


WAYS = {"as here": "query heads, causal half", "KV heads": "KV heads in the place of query heads", "full square": "every pair, not the causal half"}


def calibration() -> list[tuple[str, int, float]]:
    """Return (way of counting, tokens, efficiency that the measured recomputation needs) for the ten published prompt lengths.

    Where a count of FLOPs is right, one efficiency serves all lengths. With KV heads attention is four times too small here, without the causal half twice too
    large: both leave a slope.
    """
    model, peak = card("llama-3.1-8b"), number("accelerator", "h100", "bf16_flops")
    heads = tuple(replace(g, work=replace(g.work, query_heads=next(v.heads for s in g.stores for v in s.entry))) for g in model.groups)
    rows = []
    for p in predictions():
        if p.fitted and p.metric == "TTFT, recompute":
            n = _tokens(p.row, {})
            whole = 2 * matmul_params(model) * n + 2 * sum(g.count * layer_flops(g, n) for g in model.groups)
            counts = (prefill_flops(model, n), prefill_flops(replace(model, groups=heads), n), whole)
            rows += [(way, n, flops / peak / p.measured) for way, flops in zip(WAYS, counts)]
    return sorted(rows, key=lambda r: (list(WAYS).index(r[0]), r[1]))


def best_fit(way: str) -> tuple[float, float]:
    """Return the one efficiency that fits a way of counting best (least squares of the relative error) and the largest relative error that it leaves."""
    found = [e for w, _, e in calibration() if w == way]
    efficiency = sum(e * e for e in found) / sum(found)
    return efficiency, max(abs(e / efficiency - 1) for e in found)
