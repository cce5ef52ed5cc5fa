"""`kvmodel size`, `fit`, `cards`."""

import argparse
from typing import Any

from kvmodel import sizing
from kvmodel.cards import Card, card, card_ids, find_model
from kvmodel.cli.common import add_json, columns, emit
from kvmodel.units import KvError, format_bytes, format_tokens, parse_count, parse_fraction, parse_memory, parse_tokens, significant


def register(commands: Any) -> None:
    """Add the three commands to the parser."""
    size = commands.add_parser("size", help="bytes of KV cache that one model, context and number of users need")
    _model_options(size)
    size.add_argument("--users", default="1")
    size.add_argument("--indexer-dtype", default="fp8")
    size.add_argument("--tp", default="1", help="tensor-parallel ranks")
    size.add_argument("--mtp", action="store_true", help="count multi-token-prediction layers too")
    size.set_defaults(run=run_size)
    fit = commands.add_parser("fit", help="users, or context, that fit a memory or a platform")
    _model_options(fit)
    fit.add_argument("--users")
    fit.add_argument("--memory", help="such as 640GB; or --platform")
    fit.add_argument("--platform", help="a node id, such as h100-8")
    fit.add_argument("--tp", help="tensor-parallel ranks (1 with --memory, up to 8 with --platform)")
    fit.add_argument("--usable", help="share of the memory for weights and KV (1 with --memory, 0.9 with --platform)")
    fit.set_defaults(run=run_fit)
    cards = commands.add_parser("cards", help="the model cards, or one in full")
    cards.add_argument("name", nargs="?")
    add_json(cards)
    cards.set_defaults(run=run_cards)


def _model_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="a card id, or the path of a config.json or its folder")
    parser.add_argument("--context", help="tokens, such as 100k or 128Ki, or native, the default")
    parser.add_argument("--kv-dtype", default="bf16")
    parser.add_argument("--block-tokens", default="16")
    parser.add_argument("--weights-dtype", default="bf16")
    parser.add_argument("--params", help="number of parameters, such as 70.6B")
    add_json(parser)


def run_size(args: argparse.Namespace) -> None:
    """Print what one request, all users, one device and a lower tier hold."""
    model = find_model(args.model)
    result = sizing.size(
        model,
        context_tokens=_tokens(args.context),
        users=parse_count(args.users, "users"),
        kv_dtype=args.kv_dtype,
        indexer_dtype=args.indexer_dtype,
        block_tokens=parse_tokens(args.block_tokens, "block_tokens"),
        tp=parse_count(args.tp, "tp"),
        mtp=args.mtp,
        weights_dtype=args.weights_dtype,
        params=_params(args.params),
    )
    emit(args, result, _size_lines(result))


def _size_lines(r: dict[str, Any]) -> list[str]:
    beyond = " (beyond the native context)" if r["beyond_native"] else ""
    rows = [
        ["stored, one user", r["kv_bytes_per_user"]],
        [f"stored, {r['users']:,} user{'s' * (r['users'] != 1)}", r["kv_bytes"]],
        [f"reserved in blocks of {r['block_tokens']:,} tokens, one user", r["allocated_bytes_per_user"]],
        [f"on the fullest of {r['tp']:,} tensor-parallel rank{'s' * (r['tp'] != 1)}, all users", r["kv_bytes_per_device"]],
        ["written to a lower tier by all ranks, one user", r["written_bytes_per_user"]],
        ["constant state, one user", r["state_bytes_per_user"]],
    ] + ([["weights, one copy", r["weights_bytes"]]] if r["weights_bytes"] is not None else [])
    rates = [
        ["growing", r["growing_bytes_per_token"]],
        *([f"in a window of {w['window_tokens']:,} tokens", w["bytes_per_token"]] for w in r["windowed"]),
        ["the next token adds (marginal)", r["marginal_bytes_per_token"]],
        ["average", r["average_bytes_per_token"]],
    ]
    table = [[n, f"{b:,} B", format_bytes(b), format_bytes(b, binary=True)] for n, b in rows]
    per_token = [[n, f"{significant(b, 6)} B/token", "", ""] for n, b in rates]
    assumed = [f"assumed (defaults of the architecture's class): {' '.join(r['assumed'])}"] if r["assumed"] else []
    return [f"{r['model']}: {r['attention']}, {r['context_tokens']:,} tokens{beyond}, {r['kv_dtype']}", *columns(table + per_token, right=(1, 2, 3)), *assumed]


def run_fit(args: argparse.Namespace) -> None:
    """Print the most users at a context, and the longest context for a number of users."""
    if args.context is not None and args.users is not None:
        raise KvError(f"users: {args.users!r} is not accepted; accepted: --context or --users, not both")
    if (args.memory is None) == (args.platform is None):
        given = "neither" if args.memory is None else "both"
        raise KvError(f"memory: {given} of --memory and --platform given; accepted: exactly one, such as --memory 640GB or --platform h100-8")
    model = find_model(args.model)
    if model.params_total is None and args.params is None:
        raise KvError(f"params: {model.id} has no parameter count; accepted: --params with a number of parameters, such as 70.6B")
    place = _memory(args)
    result = sizing.fit(
        model,
        context_tokens=_tokens(args.context),
        users=None if args.users is None else parse_count(args.users, "users"),
        kv_dtype=args.kv_dtype,
        block_tokens=parse_tokens(args.block_tokens, "block_tokens"),
        weights_dtype=args.weights_dtype,
        params=_params(args.params),
        **place,
    )
    emit(args, result, _fit_lines(result))


def _memory(args: argparse.Namespace) -> dict[str, Any]:
    tp = None if args.tp is None else parse_count(args.tp, "tp")
    if args.memory is not None:
        usable = 1.0 if args.usable is None else parse_fraction(args.usable, "usable")
        return {"memory_bytes": parse_memory(args.memory), "tp": tp or 1, "usable": usable}
    from kvmodel.hardware import node

    place = node(args.platform)
    tp = tp or min(8, place.accelerators)
    if tp > place.accelerators:
        raise KvError(f"tp: {tp} is not accepted; accepted: 1 to {place.accelerators}, the accelerators of {place.id}")
    usable = 0.9 if args.usable is None else parse_fraction(args.usable, "usable")
    return {"memory_bytes": tp * place.accelerator.memory_bytes, "tp": tp, "usable": usable, "replicas": place.accelerators // tp}


def _fit_lines(r: dict[str, Any]) -> list[str]:
    copies = f"{r['replicas']} cop{'ies' if r['replicas'] != 1 else 'y'} of the weights, tensor parallel {r['tp']}"
    head = f"{r['model']}: {format_bytes(r['memory_bytes'])} x {r['usable']:g} usable, {copies} ({format_bytes(r['weights_bytes'])} each), {r['kv_dtype']}"
    if not r["kv_budget_bytes"]:
        return [head, "The weights do not fit: nothing is left for KV cache."]
    lines = [head, f"left for KV cache: {format_bytes(r['kv_budget_bytes'])} ({r['kv_budget_bytes']:,} B)"]
    if r["max_users"] is not None:
        lines.append(f"users at {r['context_tokens']:,} tokens: {r['max_users']:,}")
    limit = "any: the cache stops growing" if r["max_context_tokens"] is None else f"{r['max_context_tokens']:,}"
    return [*lines, f"longest context for {r['users']:,} user{'s' * (r['users'] != 1)}, tokens: {limit}"]


def run_cards(args: argparse.Namespace) -> None:
    """Print all cards, or one with its layers and sources."""
    if args.name is not None:
        emit(args, _card_json(card(args.name)), _card_lines(card(args.name)))
        return
    cards = [card(i) for i in card_ids()]
    head = ["id", "attention", "native context", "growing bytes/token (bf16)", "parameters"]
    rows = [_card_row(c) for c in cards]
    emit(args, [_card_json(c) for c in cards], columns([head, *rows], right=(2, 3, 4)))


def _card_row(c: Card) -> list[str]:
    growing = f"{c.terms().growing_bytes_per_token:,.10g}"
    return [c.id, c.attention, _known(c.native_context_tokens, format_tokens), growing, _known(c.params_total, format_tokens)]


def _card_json(c: Card) -> dict[str, Any]:
    return {
        "id": c.id,
        "name": c.name,
        "attention": c.attention,
        "params_total": c.params_total,
        "params_active": c.params_active,
        "native_context_tokens": c.native_context_tokens,
        "release_date": c.release_date,
        "growing_bytes_per_token": c.terms().growing_bytes_per_token,
        "sources": sorted({s for ids in c.sources.values() for s in ids}),
    }


def _card_lines(c: Card) -> list[str]:
    layers = [f"  {g.count} x {g.kind}" for g in c.groups]
    sources = [f"  {what}: {' '.join(ids)}{f' ({c.kinds[what]})' if what in c.kinds else ''}" for what, ids in c.sources.items()]
    facts = [f"{k}: {v}" for k, v in _card_json(c).items() if k != "sources"]
    return [*facts, f"layers ({len(c.layers)}): {c.order}", *layers, "sources:", *sources]


def _known(value: int | None, show: Any) -> str:
    return "unknown" if value is None else str(show(value))


def _tokens(text: str | None) -> int | None:
    return None if text in (None, "native") else parse_tokens(text)


def _params(text: str | None) -> int | None:
    return None if text is None else parse_count(text, "params")
