"""`kvmodel tiers`, `hardware`."""

import argparse
from typing import Any

from kvmodel.claims import claims, judge, told
from kvmodel.cli.common import add_json, columns, emit
from kvmodel.hardware import node, spec_ids
from kvmodel.report.record import SOURCE_KEYS, load_sources
from kvmodel.specfile import SPECS, Spec, Value, read_spec, shown
from kvmodel.tier_checks import checks
from kvmodel.tiers import Tier, narrowest, rate, tier, tier_ids
from kvmodel.units import format_seconds, refuse

LISTED = ("memory_bytes", "capacity_bytes", "host_memory_bytes", "bandwidth_bytes_per_s", "read_bytes_per_s", "measured_bytes_per_s", "nominal_bytes_per_s")


def register(commands: Any) -> None:
    """Add the two commands to the parser."""
    for name, text, run in (
        ("tiers", "the five tiers, or one with the article's ranges checked", run_tiers),
        ("hardware", "accelerators, links, devices and nodes, or one with its sources", run_hardware),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("name", nargs="?")
        add_json(command)
        command.set_defaults(run=run)


def run_tiers(args: argparse.Namespace) -> None:
    """Print the tiers, or one in full with its three checks."""
    if args.name is not None:
        t = tier(args.name)
        found = [(c, judge(claims()[c.id])) for c in checks() if c.tier == t.id]
        documents = [c.plain() | {"verdict": j.verdict, "inputs": dict(j.inputs), "condition": dict(j.condition)} for c, j in found]
        table = [[c.quantity, c.words, _range(c.ours_low, c.ours_high, c.quantity), c.per, j.verdict, told(j.condition)] for c, j in found]
        lines = [*_tier_lines(t), *_cited_lines(t.spec), *columns([["checked", "article", "devices", "per", "verdict", "if"], *table])]
        emit(args, _tier_json(t) | {"checks": documents, "references": _cited(t.spec)}, lines)
        return
    tiers = [tier(i) for i in tier_ids()]
    rows = [["tier", "article: capacity", "article: bandwidth", "article: time", "fixed part of a load"]]
    rows += [[t.id, *(t.article(q).words for q in ("capacity", "bandwidth", "time_scale")), format_seconds(t.fixed_s)] for t in tiers]
    emit(args, [_tier_json(t) for t in tiers], columns(rows, right=(4,)))


def _tier_json(t: Tier) -> dict[str, Any]:
    return t.spec.plain() | {"fixed_s": t.fixed_s}


def _tier_lines(t: Tier) -> list[str]:
    head = [f"{t.id}: {t.name}, tier {t.rank}", *(f"{k}: {_words(v)}" for k, v in t.spec.text.items() if k != "rank")]
    return [*head, f"fixed part of a load: {format_seconds(t.fixed_s)}", *_value_lines(t.spec)]


def _range(low: float, high: float, quantity: str) -> str:
    base = {"capacity": "bytes", "bandwidth": "bytes_per_s"}.get(quantity, "seconds")
    return shown(base, low) if low == high else f"{shown(base, low)} to {shown(base, high)}"


def run_hardware(args: argparse.Namespace) -> None:
    """Print all hardware specs, or one with its values and sources."""
    if args.name is not None:
        if args.name not in spec_ids():
            raise refuse("hardware", args.name, "an id that kvmodel hardware lists", spec_ids())
        found = _read(args.name)
        ways = _ways(found)
        document = found.plain() | ({"tiers": ways} if ways else {}) | {"references": _cited(found)}
        told = [f"from {t} to one accelerator: {shown('bytes_per_s', w['bytes_per_s_per_accelerator'])}, through {w['bottleneck']}" for t, w in ways.items()]
        emit(args, document, [f"{found.id}: {found.name} ({found.kind})", *_text_lines(found), *_value_lines(found), *told, *_cited_lines(found)])
        return
    specs = sorted((_read(i) for i in spec_ids()), key=lambda s: (("node", "accelerator", "link", "device").index(s.kind), s.id))
    rows = [["id", "class", "name", "capacity", "rate"], *([s.id, s.kind, s.name, _first(s, "bytes"), _first(s, "bytes_per_s")] for s in specs)]
    emit(args, [s.plain() for s in specs], columns(rows, right=(3, 4)))


def _ways(found: Spec) -> dict[str, dict[str, Any]]:
    """What each tier delivers to one accelerator of a node, and the hop that limits it; nothing for other specs."""
    if found.kind != "node":
        return {}
    hops = {t: narrowest(node(found.id), t) for t in tier_ids()}
    return {t: {"bytes_per_s_per_accelerator": rate(node(found.id), t), "bottleneck": hop.name} for t, hop in hops.items()}


def _read(spec_id: str) -> Spec:
    return read_spec(SPECS / "hardware" / f"{spec_id}.toml", "hardware")


def _first(s: Spec, base: str) -> str:
    value = next((s.values[k] for k in LISTED if k in s.values and s.values[k].base == base), None)
    return "" if value is None or value.value is None else shown(base, value.value)


def _text_lines(s: Spec) -> list[str]:
    return [f"{k}: {_words(v)}" for k, v in s.text.items()]


def _words(v: Any) -> str:
    if isinstance(v, list):
        return ", ".join(map(str, v))
    return "; ".join(f"{k} {_words(x)}" for k, x in v.items()) if isinstance(v, dict) else str(v)


def _value_lines(s: Spec) -> list[str]:
    rows = [[k, _shown(v), v.kind, v.date, " ".join(v.sources), v.note] for k, v in s.values.items()]
    return columns([["value", "", "kind", "date", "sources", "note"], *rows])


def _cited(s: Spec) -> dict[str, dict[str, str]]:
    """The sources of a spec by id: title, producer, address and dates, as far as they are known."""
    known = load_sources()
    return {name: {key: text for key in SOURCE_KEYS if (text := getattr(known[name], key))} for name in s.sources}


def _cited_lines(s: Spec) -> list[str]:
    return [f"source {name}: {', '.join(facts.values())}" for name, facts in _cited(s).items()]


def _shown(v: Value) -> str:
    low, high = (shown(v.base, x) if x is not None else "" for x in (v.low, v.high))
    if v.value is None:
        return f"{low} to {high}" if low and high else f"{low} and more" if low else f"below {high}"
    return shown(v.base, v.value) + (f" ({low} to {high})" if low and high else f" (from {low})" if low else f" (to {high})" if high else "")
