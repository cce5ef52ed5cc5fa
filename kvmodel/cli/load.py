"""`kvmodel load`: is a cache faster loaded from a tier or computed again?"""

import argparse
from typing import Any

from kvmodel.cards import find_model
from kvmodel.cli.common import add_json, columns, emit
from kvmodel.dtypes import parse_kv_dtype
from kvmodel.hardware import node
from kvmodel.movement import Race, race
from kvmodel.sizing import native_context
from kvmodel.tiers import tier
from kvmodel.units import KvError, format_bytes, format_seconds, parse_count, parse_tokens, significant


def register(commands: Any) -> None:
    """Add the command to the parser."""
    load = commands.add_parser("load", help="load from a tier, or recompute: seconds of one request alone")
    load.add_argument("model", help="a card id, or the path of a config.json or its folder")
    load.add_argument("--context", required=True, help="tokens, such as 100k or 128Ki, or native")
    load.add_argument("--tier", required=True, help="a tier id, such as main-memory")
    load.add_argument("--platform", required=True, help="a node id, such as h100-8")
    load.add_argument("--tp", default="1", help="tensor-parallel ranks")
    load.add_argument("--kv-dtype", default="bf16")
    load.add_argument("--params", help="number of active parameters, where the model has no card, such as 37B")
    add_json(load)
    load.set_defaults(run=run_load)


def run_load(args: argparse.Namespace) -> None:
    """Print both times, what limits the load, and the bandwidth at which they meet."""
    model = find_model(args.model)
    if args.params is not None:
        from dataclasses import replace

        model = replace(model, params_active=parse_count(args.params, "params"))
    if model.params_active is None:
        raise KvError(f"params: {model.id} has no count of active parameters; accepted: --params with a number of parameters, such as 37B")
    context = native_context(model) if args.context == "native" else parse_tokens(args.context)
    place, kv = node(args.platform), parse_kv_dtype(args.kv_dtype)
    found = race(model, context, tier(args.tier).id, place, tp=parse_count(args.tp, "tp"), kv_dtype=kv)
    document = {
        "model": model.id,
        "context_tokens": context,
        "tier": args.tier,
        "platform": place.id,
        "tp": found.tp,
        "kv_dtype": kv.name,
        "kv_bytes": found.kv_bytes,
        "load_s": found.load_s,
        "recompute_s": found.recompute_s,
        "recompute_range_s": [found.recompute_low_s, found.recompute_high_s],
        "speedup": found.speedup,
        "breakeven_bytes_per_s": found.breakeven_bytes_per_s,
        "fixed_s": found.fixed_s,
        "bandwidth_bytes_per_s": found.bandwidth_bytes_per_s,
        "bottleneck": found.bottleneck,
    }
    emit(args, document, _lines(document, found))


def _lines(d: dict[str, Any], r: Race) -> list[str]:
    low, high = (format_seconds(s) for s in d["recompute_range_s"])
    winner = f"loading is {significant(r.speedup)}x as fast" if r.speedup > 1 else f"recomputing is {significant(1 / r.speedup)}x as fast"
    rows = [
        ["moved, replicas included", format_bytes(r.kv_bytes)],
        ["load", f"{format_seconds(r.load_s)}, of which fixed {format_seconds(r.fixed_s)}"],
        ["limited by", f"{r.bottleneck}, {format_bytes(r.bandwidth_bytes_per_s)}/s for one accelerator"],
        ["recompute", f"{format_seconds(r.recompute_s)} (estimate, {low} to {high})"],
        ["break-even", f"{format_bytes(r.breakeven_bytes_per_s)}/s for one accelerator"],
    ]
    head = f"{d['model']}: {d['context_tokens']:,} tokens from {d['tier']} of {d['platform']}, tensor parallel {r.tp}, {d['kv_dtype']}: {winner}"
    return [head, *columns(rows)]
