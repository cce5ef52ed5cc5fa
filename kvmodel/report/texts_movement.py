"""Sentences of the pyramid chapter: what the numbers of `frames_movement` say, true for every model, platform and fleet."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from kvmodel.cards import Card
from kvmodel.hardware import Node
from kvmodel.movement import EFFICIENCY, Race, matmul_params, prefill_flops
from kvmodel.report.frames_movement import CHATS_PER_AGENT, FAR, Placed, least
from kvmodel.report.frames_tiers import counted, load_frame, tp_of
from kvmodel.tiers import tier
from kvmodel.units import format_bytes, format_seconds, significant


def answer(node: Node, model: Card, tokens: int, kv_dtype: str, found: dict[str, Race], wins: Sequence[str]) -> str:
    """Return the first half of the answer: one session."""
    what = f"session of {counted(tokens, 'token')} of {model.id} ({kv_dtype}) on {counted(tp_of(node), 'accelerator')} of {node.id}"
    if not found:
        loads = _loads_only(node, model, tokens, kv_dtype)
        return f"**Answer.** For a {what} only the load can be computed: {loads}. Whether computing again is faster cannot be said."
    r = found["main-memory"]
    best = f"takes {format_seconds(r.load_s)} from main memory and {format_seconds(r.recompute_s)} to compute again"
    places = "every tier" if len(wins) == len(FAR) else _listed(wins) or "no tier"
    level = f"Break-even takes {format_bytes(r.breakeven_bytes_per_s)}/s for one accelerator, fixed part left out"
    return f"**Answer.** A {what} {best}: loading is {_times(r.speedup)}. Loading is faster from {places}. {level}."


def _times(speedup: float) -> str:
    return f"{significant(speedup)} times as fast" if speedup > 1 else f"{significant(1 / speedup)} times as slow"


def _listed(words: Sequence[str]) -> str:
    """Words in one phrase: `a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _loads_only(node: Node, model: Card, tokens: int, kv_dtype: str) -> str:
    loads = load_frame(node, model, tokens, kv_dtype)
    return ", ".join(f"{format_seconds(x['value'])} from {x['name'].lower()}" for x in loads.to_dict("records")[1:])


def answer_fleet(users: int, found: Placed, share: float | None) -> str:
    """Return the second half of the answer: the fleet."""
    who = f"{counted(users, 'coding agent')} and {counted(CHATS_PER_AGENT * users, 'chat')}"
    those = f"the {found.nodes:,} nodes'" if found.nodes > 1 else "one node's"
    flash = "" if share is None else f" Writing to flash what idles five minutes takes {least(100 * share)} % of what the rating of {those} drives allows."
    if not found.choices:
        return f"For {who} the least pyramid cannot be computed here.{flash}"
    p = found.choices[0]
    kept, busy = _listed([tier(t).name.lower() for t in p.tiers]), p.recompute_accelerators
    again = f", and keeps {least(busy)} accelerators busy with computing again what was dropped" if busy else ""
    return f"The least pyramid for {who} is {kept} on {counted(p.nodes, 'node')}{again}.{flash}"


def worked(model: Card, node: Node, tokens: int, r: Race) -> str:
    """Return one case step by step: bytes, load, FLOPs, recomputation."""
    linear, flops = 2 * matmul_params(model) * tokens, prefill_flops(model, tokens)
    peak, size = node.accelerator.bf16_flops or 0.0, format_bytes(r.bytes_per_device)
    copies = f", {format_bytes(r.kv_bytes)} on all {r.tp}" if r.tp > 1 else ""
    first = f"{counted(tokens, 'token')} of {model.id}: {size} on each accelerator{copies}."
    load = f"{format_seconds(r.fixed_s)} + {size} / {format_bytes(r.bandwidth_bytes_per_s)}/s = **{format_seconds(r.load_s)}**, limited by {r.bottleneck}"
    work = f"{_flops(linear)} with the weights and {_flops(flops - linear)} of attention and recurrence"
    over = f"over {counted(r.tp, 'accelerator')} of {significant(peak / 1e12)} TFLOPS at {EFFICIENCY[0]} of peak"
    ends = f"{format_seconds(r.recompute_low_s)} to {format_seconds(r.recompute_high_s)}"
    return f"**Worked.** {first} From main memory: {load}. Work: {work}; {over}: **{format_seconds(r.recompute_s)}** ({ends})."


def _flops(n: float) -> str:
    size, unit = next(((s, u) for s, u in ((1e18, "EFLOP"), (1e15, "PFLOP"), (1e12, "TFLOP")) if n >= s), (1e9, "GFLOP"))
    return f"{significant(n / size)} {unit}"


def crossing_title(found: dict[str, Race], tokens: int) -> str:
    """Return the finding of the crossing chart."""
    if not found:
        return "A load is flat while its fixed part rules, then grows with the context"
    near, far = (_times(found[t].speedup) for t in (FAR[0], FAR[-1]))
    return f"At {counted(tokens, 'token')} a load from main memory is {near} as computing again, from the data lake {far}"


def admission_words(flash: pd.DataFrame, budget: float) -> pd.DataFrame:
    """Return the rules of admission with the label of their bars."""
    words = [f"{format_bytes(w)}/s" + (f", {least(100 * w / budget)} %" if budget else "") for w in flash["written"]]
    return flash.assign(label=words)


def admission_title(flash: pd.DataFrame, budget: float) -> str:
    """Return the finding of the chart of writes: of budget, where a rating is known."""
    w = flash.set_index("rule")["written"]
    ends = float(w["everything at once"]), float(w["closed dropped, 5 min"])
    if budget:
        all_, few = (f"{least(100 * x / budget)} %" for x in ends)
        return f"Written at once: {all_} of the write budget; with closed sessions dropped: {few}"
    return f"Written at once: {format_bytes(ends[0])}/s; with closed sessions dropped: {format_bytes(ends[1])}/s"


def admission_advice(flash: pd.DataFrame, budget: float) -> str:
    """Return the rule of admission in words: what each way writes and reads back."""
    rules: dict[Any, Any] = flash.set_index("rule").to_dict("index")
    late, hour, closed = rules["after 5 min"], rules["after 1 h"], rules["closed dropped, 5 min"]
    spared = significant(100 * (1 - late["written"] / rules["everything at once"]["written"]), 2)
    each = f"{least(late['read'] / late['written'])} bytes are read back for each byte written" if late["written"] else "nothing is written"
    fits = _listed([f"*{name}*" for name, r in rules.items() if r["written"] <= budget]) or "none of these rules"
    return " ".join([
        f"Waiting five minutes spares {spared} % of the writes; then {each}. After an hour {format_bytes(hour['written'])}/s are still written,",
        f"for {format_bytes(hour['read'])}/s read. Where clients close their sessions and these are dropped,",
        f"{format_bytes(closed['written'])}/s serve the same reads.",
        "**Rule:** admit at the age at which the tier above lets go, never before; drop what was closed; if the budget is still passed, admit only the kind of",
        f"session that comes back.{f' Within the budget here: {fits}.' if budget else ''}",
    ])  # fmt: skip
