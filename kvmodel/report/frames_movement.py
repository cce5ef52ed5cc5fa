"""Tables of numbers of the pyramid chapter: load against recompute, predicted against measured, and one fleet on all tiers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from kvmodel.cards import Card, card
from kvmodel.demand import agent_use, chat_use, inputs
from kvmodel.hardware import Node, device
from kvmodel.movement import Race, breakeven_context, race
from kvmodel.placement import AGES, Load, Pyramid, Sessions, overflow, place, pyramids, supply
from kvmodel.report.chapters import book_root
from kvmodel.report.frames_tiers import load_frame, tp_of
from kvmodel.report.predictions import calibration, predictions, reasons, spec
from kvmodel.sessions import read_sessions
from kvmodel.tiers import rate, tier, tier_ids
from kvmodel.traces import AGENT_BLOCK_TOKENS
from kvmodel.units import KvError, format_bytes, format_seconds, format_tokens, significant

FAR = tier_ids()[1:]
AGAIN = "compute again"
COMPARED = ("llama-3.2-1b", "llama-3.1-8b", "llama-3.1-405b", "deepseek-v3", "deepseek-v4-pro", "qwen3-next-80b-a3b", "mamba-codestral-7b-v0.1")
CHATS_PER_AGENT = 10


def why_not(model: Card, node: Node, kv_dtype: str) -> str:
    """Return why recomputing cannot be computed here; empty where it can."""
    try:
        race(model, 1, "main-memory", node, tp=tp_of(node), kv_dtype=kv_dtype)
    except KvError as error:
        return str(error)
    return ""


def races(node: Node, model: Card, tokens: int, kv_dtype: str) -> dict[str, Race]:
    """Return load against recompute by tier id, main memory outwards; empty where recomputing cannot be computed."""
    if why_not(model, node, kv_dtype):
        return {}
    return {t: race(model, tokens, t, node, tp=tp_of(node), kv_dtype=kv_dtype) for t in FAR}


def race_words(node: Node, model: Card, tokens: int, kv_dtype: str) -> pd.DataFrame:
    """Return the race of one session in words: seconds, accelerator-seconds, break-even bandwidth and context of each tier below near memory."""
    found: dict[str, Race] = races(node, model, tokens, kv_dtype)
    loads: dict[Any, Any] = load_frame(node, model, tokens, kv_dtype).set_index("name").to_dict("index")
    rows = []
    for t in FAR:
        name, r = tier(t).name, found.get(t)
        row = {"tier": name, "load": format_seconds(loads[name]["value"]), "its rate": f"{format_bytes(loads[name]['rate'])}/s"}
        if r:
            need = r.breakeven_after_fixed_bytes_per_s
            row |= {
                "loading": format_seconds(r.load_accelerator_s), "computing": format_seconds(r.recompute_accelerator_s),
                "speed-up": significant(r.speedup), "break-even rate": f"{format_bytes(need)}/s" if need else "none is enough",
                "loads win from": _from(breakeven_context(model, t, node, tp=tp_of(node), kv_dtype=kv_dtype)),
            }  # fmt: skip
        rows.append(row)
    return pd.DataFrame(rows)


def _from(tokens: int | None) -> str:
    return "never" if tokens is None else format_tokens(tokens)


def crossing_frame(node: Node, model: Card, tokens: int, kv_dtype: str) -> pd.DataFrame:
    """Return seconds against context: computing again (with the range of its efficiency) and loading from each tier below near memory."""
    most = max(1_000_000, tokens)
    contexts = sorted({int(n) for n in np.geomspace(min(100, tokens), most, 41)} | {tokens})
    rows: list[dict[str, Any]] = []
    for n in contexts:
        found = races(node, model, n, kv_dtype)
        if found:
            r = found[FAR[0]]
            rows.append({"way": AGAIN, "tokens": n, "seconds": r.recompute_s, "low": r.recompute_low_s, "high": r.recompute_high_s})
        loads = load_frame(node, model, n, kv_dtype).set_index("name")["value"]
        rows += [{"way": tier(t).name, "tokens": n, "seconds": loads[tier(t).name], "low": None, "high": None} for t in FAR]
    return pd.DataFrame(rows).astype({"low": float, "high": float})


def compared(model: Card, node: Node, kv_dtype: str) -> list[Card]:
    """Return the models of the comparisons that this format and platform allow, the chosen one first."""
    others = [card(i) for i in COMPARED if i != model.id]
    return [m for m in (model, *others) if not why_not(m, node, kv_dtype)]


def winners(model: Card, node: Node, kv_dtype: str) -> pd.DataFrame:
    """Return from how many tokens on loading wins, by model and tier, in words."""
    rows = []
    for m in compared(model, node, kv_dtype):
        cells = {tier(t).name: _from(breakeven_context(m, t, node, tp=tp_of(node), kv_dtype=kv_dtype)) for t in FAR}
        rows.append({"model": m.id, "attention": m.attention, **cells})
    return pd.DataFrame(rows)


def breakeven_frame(node: Node, model: Card, tokens: int, kv_dtype: str) -> pd.DataFrame:
    """Return the rate for one accelerator at which loading takes as long as computing again, fixed parts left out, against context; five models at most."""
    contexts = sorted({int(n) for n in np.geomspace(1000, max(1_000_000, tokens), 25)})
    rows = []
    for m in compared(model, node, kv_dtype)[:5]:
        for n in contexts:
            r = race(m, n, "main-memory", node, tp=tp_of(node), kv_dtype=kv_dtype)
            rows.append({"model": m.id, "tokens": n, "rate": r.breakeven_bytes_per_s})
    return pd.DataFrame(rows)


def tier_rates(node: Node) -> pd.DataFrame:
    """Return what each tier below near memory gives one accelerator [bytes/s]."""
    return pd.DataFrame([{"tier": tier(t).name, "rank": tier(t).rank, "rate": rate(node, t)} for t in FAR])


def calibration_frame() -> pd.DataFrame:
    """Return the efficiency that each published prompt length needs, for three ways of counting FLOPs."""
    return pd.DataFrame(calibration(), columns=["way", "tokens", "efficiency"])


def times_frame() -> pd.DataFrame:
    """Return predicted against measured seconds, fitted points too: rows of `predictions` whose unit is seconds."""
    rows = [
        {"row": p.row, "measured": p.measured, "predicted": p.predicted, "low": max(p.low, p.predicted / 1000), "high": p.high, "kind": p.kind,
         "use": "fitted" if p.fitted else "predicted", "inside": "inside" if p.inside else "miss"}
        for p in predictions() if p.unit == "s"
    ]  # fmt: skip
    return pd.DataFrame(rows)


BOUNDS = {"below)": "under ", "above)": "over "}  # a metric that ends so states a bound


def prediction_words() -> pd.DataFrame:
    """Return every prediction that was not fitted, in words, misses with their likely reason."""
    rows = [
        {"row": f"`{p.row}`", "measured": BOUNDS.get(p.metric.split("(")[-1], "") + _shown(p.measured, p.unit) + ("" if p.kind == "measured" else " (claim)"),
         "predicted": _shown(p.predicted, p.unit), "ratio": significant(p.ratio, 2), "inside": "yes" if p.inside else "no", "likely reason": p.likely}
        for p in predictions() if not p.fitted
    ]  # fmt: skip
    return pd.DataFrame(rows)


def _shown(x: float, unit: str) -> str:
    if unit == "s":
        return format_seconds(x)
    return f"{significant(x)} x" if unit == "ratio" else format_bytes(x) + unit.removeprefix("bytes")


def reason_words() -> pd.DataFrame:
    """Return why the other rows cannot be predicted, with how many they are and the patterns of their ids."""
    patterns = {e["reason"]: e["rows"] for e in spec()["unpredicted"]}
    rows = [{"reason": reason, "rows": len(ids), "which": ", ".join(f"`{i}`" for i in patterns[reason])} for reason, ids in reasons()]
    return pd.DataFrame(rows)


@cache
def agent_new_tokens() -> int:
    """Return the mean prompt tokens that a request of the coding agents adds, first requests included (measured)."""
    path = book_root() / "data" / "traces" / "weka_cc_requests.csv.gz"
    return round(float(read_sessions(path)["new_blocks"].mean()) * AGENT_BLOCK_TOKENS)


def fleet(context_tokens: int, agents: int) -> list[Sessions]:
    """Return the fleet: `agents` coding agents at the chosen context with measured gaps, and ten chats for each of them with assumed gaps."""
    v = {name: i.value for name, i in inputs().items()}
    length = round(v["chat_tokens_2025"])
    agent = replace(agent_use(), sessions=agents, context_tokens=context_tokens, new_tokens=min(context_tokens, agent_new_tokens()))
    chat = replace(chat_use(v), sessions=CHATS_PER_AGENT * agents, context_tokens=length, new_tokens=round(length / v["chat_turns"]))
    return [agent, chat]


def fleet_words(sessions: Sequence[Sessions]) -> pd.DataFrame:
    """Return the fleet in words."""
    rows = []
    for s in sessions:
        ended = sum(share for gap, share in s.gaps if gap == math.inf)
        half = next(g for g, _ in s.gaps if sum(b for a, b in s.gaps if a <= g) >= 0.5)
        rows.append({
            "kind": s.name, "sessions": f"{s.sessions:,}", "context": format_tokens(s.context_tokens), "added by a turn": format_tokens(s.new_tokens),
            "computing": format_seconds(s.active_s), "half pause at most": format_seconds(half), "turns that end one": f"{100 * ended:.1f} %",
            "turns": f"{significant(s.sessions / s.turn_s)}",
        })  # fmt: skip
    return pd.DataFrame(rows)


@dataclass(frozen=True, slots=True)
class Placed:
    """A fleet on all tiers of a platform, and the choices of tiers, fewest accelerators first (none, and why, where they cannot be computed)."""

    loads: list[Load]
    through: list[Load]
    choices: list[Pyramid]
    why: str

    @property
    def nodes(self) -> int:
        """Nodes of the least pyramid; 1 where there is none."""
        return max(1, self.choices[0].nodes) if self.choices else 1


def placed(node: Node, model: Card, kv_dtype: str, sessions: Sequence[Sessions]) -> Placed:
    """Return the fleet on the tiers, admitted by age and written through, and every choice of tiers."""
    loads, through = (place(model, sessions, kv_dtype=kv_dtype, write_through=w) for w in (False, True))
    try:
        return Placed(loads, through, pyramids(model, sessions, node, tp=tp_of(node), kv_dtype=kv_dtype), "")
    except KvError as error:
        return Placed(loads, through, [], str(error))


def least(x: float) -> str:
    """Return a number in words that says when it is next to nothing.

    Examples
    --------
    >>> least(2e-9), least(0), least(20.1)
    ('under 0.01', '0', '20.1')
    """
    return "under 0.01" if 0 < x < 0.01 else significant(x)


def needs_words(found: Placed) -> pd.DataFrame:
    """Return what each tier must take, in words."""
    rows = [
        {"tier": tier(one.tier).name, "idle age up to": format_seconds(AGES[one.tier]), "waiting": format_bytes(one.resident_bytes),
         "with copies": format_bytes(one.held_bytes), "read": f"{format_bytes(one.read_bytes_per_s)}/s", "written": f"{format_bytes(one.write_bytes_per_s)}/s",
         "written through": f"{format_bytes(also.write_bytes_per_s)}/s"}
        for one, also in zip(found.loads, found.through)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def need_frame(node: Node, model: Card, found: Placed) -> pd.DataFrame:
    """Return how many nodes' share of each tier the fleet needs, by resource; what nothing is asked of, or a node has none of, is left out."""
    rows = []
    for one in found.loads:
        try:
            offer = supply(node, one.tier, model)
        except KvError:
            continue  # no count of weights: what is left of near memory is not known
        pairs = (
            ("capacity", one.held_bytes, offer.capacity_bytes), ("read", one.read_bytes_per_s, offer.read_bytes_per_s),
            ("write", one.write_bytes_per_s, offer.write_bytes_per_s), ("endurance", one.write_bytes_per_s, offer.write_budget_bytes_per_s or 0.0),
        )  # fmt: skip
        for what, need, has in pairs:
            if need > 0 and has > 0:
                name = f"{tier(one.tier).name}, {what}"
                rows.append({"name": name, "tier": tier(one.tier).name, "resource": what, "need": need, "offer": has, "nodes": need / has})
    return pd.DataFrame(rows, columns=["name", "tier", "resource", "need", "offer", "nodes"])


def overflow_words(node: Node, model: Card, found: Placed) -> str:
    """Return what overflows if the fleet runs on one node, and by how much, in words."""
    over = []
    for one in found.loads:
        try:
            short = overflow(one, supply(node, one.tier, model))
        except KvError:
            continue
        over += [
            f"{what} of {tier(one.tier).name.lower()}" + ("" if by == math.inf else f" ({significant(1 + by)} times what it has)")
            for what, by in short.items()
        ]
    return "; ".join(over)


def choice_words(node: Node, found: Placed, most: int = 6) -> pd.DataFrame:
    """Return the choices of tiers in words: nodes for KV, what binds, accelerators that only recompute what was dropped."""
    rows = [
        {"kept in": " + ".join(tier(t).name.lower() for t in p.tiers), "nodes": p.nodes, "bound by": tier(p.binding).name.lower(),
         "recomputing": least(p.recompute_accelerators), "in all": significant(p.nodes * node.accelerators + p.recompute_accelerators)}
        for p in [*found.choices[:most], *found.choices[most:][-1:]]
    ]  # fmt: skip
    return pd.DataFrame(rows)


def admission_frame(model: Card, kv_dtype: str, sessions: Sequence[Sessions]) -> pd.DataFrame:
    """Return what flash is written and read, by rule of admission: all at once, by idle age, agents alone, and sessions that end without being kept."""
    agents = [s for s in sessions if s.name == "agent"]
    closed = [replace(s, gaps=tuple((0.0 if gap == math.inf else gap, share) for gap, share in s.gaps)) for s in sessions]
    rules = (("everything at once", sessions, 0.0), ("after 10 s", sessions, 10.0), ("after 5 min", sessions, 300.0), ("after 1 h", sessions, 3600.0),
        ("agents after 5 min", agents, 300.0), ("closed dropped, 5 min", closed, 300.0))  # fmt: skip
    rows = []
    for name, kept, age in rules:
        ages = {"near-memory": age or 1e-3, "context-storage": AGES["context-storage"]}
        flash = place(model, kept, kv_dtype=kv_dtype, ages=ages, write_through=not age)[1]
        rows.append({"rule": name, "age_s": age, "written": flash.write_bytes_per_s, "read": flash.read_bytes_per_s})
    return pd.DataFrame(rows)


def flash_budget(node: Node, model: Card, nodes: int) -> float:
    """Return what the drives of `nodes` nodes may be written for ever [bytes/s]; 0 where their rating has no source."""
    return supply(node, "context-storage", model, nodes).write_budget_bytes_per_s or 0.0


def drive_sources(node: Node) -> list[str]:
    """Return the source ids of the drives of a node."""
    return list(device(node.part("drive").id).sources)


def joined(lines: pd.DataFrame, rates: pd.DataFrame) -> pd.DataFrame:
    """Return the break-even lines and the tiers' rates in one table."""
    return pd.concat([lines.rename(columns={"model": "name"}), rates.rename(columns={"tier": "name"})[["name", "rate"]]], ignore_index=True)


def times_names() -> pd.DataFrame:
    """Return which points of `times_frame` are named, and where the name stands."""
    named = [
        ("h20-64k-gpu", "H20, 64k, hit in GPU", "left", 0), ("h20-1k-gpu", "H20, 1k, hit in GPU", "left", 0),
        ("h20-64k-miss", "H20, 64k, computed", "right", -6),
        ("mpd-1024-ttft", "8 ranks, 1k", "left", 4), ("mpd-32768-ttft", "8 ranks, 33k", "left", 8), ("mpd-1024-ms", "transfer, 1k", "left", 8),
        ("m1m-1m", "1M on B200", "left", 0), ("m1m-10k", "under 1 s", "left", 0), ("peg-h800-base", "queue", "left", -3),
    ]  # fmt: skip
    frame = pd.DataFrame(named, columns=["row", "text", "align", "dy"])
    return frame.merge(times_frame()[["row", "measured", "predicted"]], on="row", how="left")
