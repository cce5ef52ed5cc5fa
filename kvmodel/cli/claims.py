"""`kvmodel claims`: the ledger, or one claim explained in ten lines."""

import argparse
from typing import Any

from kvmodel.claims import Judgement, claims, judge, judge_all, shown, told, with_unit
from kvmodel.cli.common import add_json, columns, emit
from kvmodel.units import refuse


def register(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("claims", help="the claims of the article with their verdicts, or one explained")
    parser.add_argument("name", nargs="?")
    add_json(parser)
    parser.set_defaults(run=run_claims)


def run_claims(args: argparse.Namespace) -> None:
    """Print all verdicts, or explain one."""
    if args.name is None:
        found = judge_all()
        rows = [[j.claim.id, j.claim.claimed, "" if j.outcome is None else shown(j.outcome.value, j.claim.unit), j.verdict, j.claim.chapter] for j in found]
        emit(args, [j.plain() for j in found], columns([["id", "claimed", "ours", "verdict", "chapter"], *rows], right=(2,)))
        return
    if args.name not in claims():
        raise refuse("claim", args.name, "the id of a claim (kvmodel claims lists them)", claims())
    j = judge(claims()[args.name])
    emit(args, j.plain(), explained(j))


def explained(j: Judgement) -> list[str]:
    """Return one claim in ten lines at most."""
    c, o = j.claim, j.outcome
    lines = [f"{c.id}: {j.verdict}", f"claim: {c.text} ({c.claimed})"]
    if o is not None:
        low, high = o.span
        span = f", range {shown(low, c.unit)} to {shown(high, c.unit)}" if low != high else ""
        lines.append(f"ours: {shown(o.value, c.unit)}{span} [{c.unit}]")
        lines.append(f"inputs: {told(j.inputs)}")
    if j.condition:
        lines.append(f"holds if: {told(j.condition)}")
    if o is not None and o.readings:
        lines.append(f"readings: {'; '.join(f'{r.label} {with_unit(r.value, r.unit)}' for r in o.readings)}")
    lines += [f"note: {j.note}"] if j.note else []
    return [*lines, f"would change it: {c.change}", f"confidence: {c.confidence}; chapter: {c.chapter}; sources: {' '.join(c.sources)}"]
