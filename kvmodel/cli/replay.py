"""`kvmodel replay`: what an LRU cache of given capacities, or a cascade of tiers, would have served of a trace."""

import argparse
from typing import Any

from kvmodel.cli.common import add_json, columns, emit
from kvmodel.units import KvError, format_bytes, format_seconds, parse_count, parse_tokens, refuse

BLOCK_TOKENS = 512  # JSON traces do not say; the Mooncake traces use 512
SHARES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))


def register(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("replay", help="hit ratio of a trace by cache capacity, and through tiers")
    parser.add_argument("trace", help="JSON lines (timestamp input_length output_length hash_ids, or ts il ol bh) or coding-agent CSV, plain or .gz")
    parser.add_argument("--block-tokens", help=f"tokens per block: {BLOCK_TOKENS} for JSON lines; the CSV says its own")
    parser.add_argument("--capacity-blocks", default="1000,10000", help="LRU capacities in blocks")
    parser.add_argument("--model", help="a card id or config.json, to turn bytes into blocks; with --tier-capacity")
    parser.add_argument("--tier-capacity", help="tiers near to far, such as near-memory=80GB,main-memory=1TB; with --model")
    parser.add_argument("--kv-dtype", default="bf16")
    add_json(parser)
    parser.set_defaults(run=run_replay)


def run_replay(args: argparse.Namespace) -> None:
    """Print hits by capacity, and by tier when a model and tiers are given."""
    if (args.model is None) != (args.tier_capacity is None):
        missing = "model" if args.model is None else "tier_capacity"
        raise KvError(f"{missing}: None is not accepted; accepted: --model and --tier-capacity together, or neither")
    capacities = [parse_count(c, "capacity_blocks") for c in args.capacity_blocks.split(",")]
    tiers, kept = _tiers(args)
    from kvmodel.traces import open_trace  # readers, then numpy: not before the arguments are known to be good

    trace = open_trace(args.trace)
    block_tokens = trace.block_tokens or BLOCK_TOKENS if args.block_tokens is None else parse_tokens(args.block_tokens, "block_tokens")
    if trace.block_tokens not in (None, block_tokens):
        raise refuse("block_tokens", args.block_tokens, f"{trace.block_tokens}, the block size of this format")
    from kvmodel.reuse import block_bytes, replay

    per_block = block_bytes(kept, block_tokens, args.kv_dtype) if kept else 0
    done = replay(trace, tiers=[size // per_block for _, size in tiers])
    document: dict[str, Any] = {
        "requests": done.requests,
        "block_references": done.block_references,
        "unique_blocks": done.unique_blocks,
        "ideal_hit_ratio": done.ratio(done.hits()),
        "block_tokens": block_tokens,
        "capacities": [{"capacity_blocks": c, "hit_blocks": done.hits(c), "hit_ratio": done.ratio(done.hits(c))} for c in capacities],
    }
    if kept:
        rows = [_tier(name, size, served, done.ratio(served.hit_blocks), per_block) for (name, size), served in zip(tiers, done.tiers)]
        document |= {"model": kept.id, "kv_dtype": args.kv_dtype, "bytes_per_block": per_block, "tiers": rows}
    emit(args, document, _text(document))


def _tiers(args: argparse.Namespace) -> tuple[list[tuple[str, int]], Any]:
    if args.model is None:
        return [], None
    from kvmodel.cards import find_model
    from kvmodel.dtypes import parse_kv_dtype
    from kvmodel.reuse import parse_tiers
    from kvmodel.tiers import tier_ids

    parse_kv_dtype(args.kv_dtype)
    return parse_tiers(args.tier_capacity, tier_ids()), find_model(args.model)


def _tier(name: str, size: int, served: Any, ratio: float | None, per_block: int) -> dict[str, Any]:
    return {
        "tier": name,
        "capacity_bytes": size,
        "capacity_blocks": served.capacity_blocks,
        "hit_blocks": served.hit_blocks,
        "hit_ratio": ratio,
        "bytes_read": served.hit_blocks * per_block,
        "wait_s": {label: served.wait(share) for label, share in SHARES},
    }


def _text(d: dict[str, Any]) -> list[str]:
    head = f"{d['requests']:,} requests, {d['block_references']:,} block references, {d['unique_blocks']:,} unique blocks of {d['block_tokens']:,} tokens"
    rows = [["LRU capacity", "hits", "hit ratio"]]
    rows += [[f"{c['capacity_blocks']:,} blocks", f"{c['hit_blocks']:,}", _ratio(c["hit_ratio"])] for c in d["capacities"]]
    lines = [head, f"hit ratio without any eviction: {_ratio(d['ideal_hit_ratio'])}", *columns(rows, right=(0, 1, 2))]
    if "tiers" not in d:
        return lines
    table = [["tier", "capacity", "blocks", "own hit ratio", "read", "reused within (50 %)", "(90 %)"]]
    for t in d["tiers"]:
        waits = ["-" if w is None else format_seconds(w, digits=2) for w in (t["wait_s"]["p50"], t["wait_s"]["p90"])]
        table.append([t["tier"], format_bytes(t["capacity_bytes"]), f"{t['capacity_blocks']:,}", _ratio(t["hit_ratio"]), format_bytes(t["bytes_read"]), *waits])
    model = f"{d['model']}, {d['kv_dtype']}: {d['bytes_per_block']:,} bytes per block (growing bytes only), tiers inclusive"
    return [*lines, model, *columns(table, right=range(1, 7))]


def _ratio(x: float | None) -> str:
    return "no blocks" if x is None else f"{x:.4f}"
