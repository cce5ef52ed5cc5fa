"""A fleet on the pyramid: the bytes and rates that each tier must take, what overflows, and the least pyramid that serves."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from kvmodel.attention import Terms
from kvmodel.cards import Card
from kvmodel.dtypes import KvFormat
from kvmodel.hardware import Node, device
from kvmodel.movement import race, recompute_s
from kvmodel.tiers import capacity_bytes, rate, room, tier, tier_ids, units_needed, write_budget_bytes_per_s
from kvmodel.units import KvError, refuse

# Idle age at which KV leaves a tier [s]. Assumption: seconds beside the request, minutes in host memory, an hour in a pool, a day on flash, a month in a lake.
AGES = {"near-memory": 10.0, "main-memory": 300.0, "expansion-memory": 3600.0, "context-storage": 86_400.0, "data-lake": 30 * 86_400.0}


@dataclass(frozen=True, slots=True)
class Sessions:
    """Sessions of one kind that are alive at one time.

    A session cycles: `active_s` of computing, then an idle gap drawn from `gaps` (seconds, share of turns; shares add up to 1; `inf` is a session that never
    returns; a new one takes its place). It keeps `context_tokens`, of which `shared_tokens` are a prefix that the whole class has in common; a turn adds
    `new_tokens`, a mean over turns that counts a session's first prompt.
    """

    name: str
    sessions: float
    context_tokens: int
    new_tokens: int
    active_s: float
    gaps: tuple[tuple[float, float], ...]
    shared_tokens: int = 0

    def __post_init__(self) -> None:
        if not (self.sessions > 0 and self.active_s > 0 and 1 <= self.new_tokens <= self.context_tokens and 0 <= self.shared_tokens < self.context_tokens):
            raise refuse("sessions", self.name, "sessions and active_s above 0, 1 <= new_tokens <= context_tokens, shared_tokens below context_tokens")
        if not self.gaps or any(g < 0 or s < 0 for g, s in self.gaps) or abs(sum(s for _, s in self.gaps) - 1) > 1e-6:
            raise refuse("gaps", self.gaps, "pairs of idle seconds and share of turns, shares adding up to 1")

    @property
    def turn_s(self) -> float:
        """Mean seconds from one turn to the next; a session that ends is replaced at once, so what is kept or dropped does not change how often turns come."""
        return self.active_s + sum(share * gap for gap, share in self.gaps if gap < math.inf)

    def seconds_between(self, low: float, high: float) -> float:
        """Seconds per turn for which KV waits with an idle age from `low` to `high`; that of a session which ended waits too, since nobody knows."""
        return sum(share * max(0.0, min(gap, high) - low) for gap, share in self.gaps)

    def returning(self, low: float, high: float) -> float:
        """Share of turns that return after more than `low` and at most `high` idle seconds."""
        return sum(share for gap, share in self.gaps if low < gap <= high)

    def lost(self, drop_s: float) -> float:
        """Share of turns that return after their KV was dropped: the next turn computes, and writes, the whole of it again."""
        return sum(share for gap, share in self.gaps if drop_s < gap < math.inf)


@dataclass(frozen=True, slots=True)
class Load:
    """What one tier must take: bytes waiting in it, bytes held (itself and every nearer tier: copies are inclusive), and rates for the whole fleet."""

    tier: str
    resident_bytes: float
    held_bytes: float
    read_bytes_per_s: float
    write_bytes_per_s: float
    returns_per_s: float


def place(
    card: Card, fleet: Sequence[Sessions], *, kv_dtype: str | KvFormat = "bf16", ages: Mapping[str, float] | None = None, write_through: bool = False
) -> list[Load]:
    """Return the load of each tier named in `ages`, nearest first (Little's law).

    Resident: turns per second * private bytes * seconds with an idle age in the tier's band (near memory: active time too), and one copy of each shared prefix.
    Read: turns returning from the band * private bytes. Written: the bytes that turns add, once they reach the tier's age; with `write_through` at once;
    all private bytes after a drop. Private is what a stored prefix cannot give: growth behind it, windows, the whole recurrent state. Bytes are geometry:
    copies of latents on tensor-parallel ranks are not counted.

    Raises
    ------
    KvError : ages that do not rise from near to far, an unknown tier

    Examples
    --------
    >>> from kvmodel import card
    >>> chat = Sessions("chat", 1000, 8_000, 500, 10.0, ((60.0, 0.8), (7200.0, 0.2)))
    >>> [round(l.resident_bytes / 1e9) for l in place(card("llama-3.3-70b"), [chat])]
    [35, 171, 1155, 1260, 0]
    """
    ages, terms = _checked(AGES if ages is None else ages), card.terms(kv_dtype)
    drop, held, low = max(ages.values()), 0.0, 0.0
    loads: list[Load] = []
    for name, high in ages.items():
        resident = read = written = returns = 0.0
        for group in fleet:
            private, turns = _beyond(terms, group.context_tokens, group.shared_tokens), group.sessions / group.turn_s
            shared = terms.stored(group.shared_tokens) if group.shared_tokens else 0
            seconds = group.seconds_between(low, high) + (group.active_s if not loads else 0.0)
            resident += turns * private * seconds + (shared if not loads else 0)
            back = group.returning(low, high) if loads else 0.0
            returns += turns * back
            read += turns * back * private
            added = _beyond(terms, group.context_tokens, group.context_tokens - group.new_tokens)
            written += turns * _written(group, private, added, low, drop, write_through) if loads else 0.0
        held += resident
        loads.append(Load(name, resident, held, read, written, returns))
        low = high
    return loads


def _beyond(terms: Terms, tokens: int, prefix: int) -> int:
    """Bytes of a sequence of `tokens` that its first `prefix` tokens cannot give: later entries, windows as far as they reach back, the whole state."""
    kept = ((t.bytes, tokens // t.ratio - prefix // t.ratio, t.window) for t in terms.terms)
    return terms.state_bytes + sum(size * (n if window is None else min(n, window)) for size, n, window in kept)


def _written(group: Sessions, private: float, added: float, low: float, drop: float, write_through: bool) -> float:
    """Bytes written to a tier per turn: what turns add, in one go when the age is reached, never more than the session has."""
    lost = group.lost(drop)
    reach = 1.0 if write_through else group.returning(low, math.inf)
    return min(lost * private + (1 - lost) * min(added, private), private * reach)


def _checked(ages: Mapping[str, float]) -> dict[str, float]:
    names = [t for t in tier_ids() if t in ages]
    for name in ages:
        tier(name)
    rising = [ages[n] for n in names]
    if not names or names[0] != "near-memory" or rising != sorted(set(rising)) or rising[0] < 0:
        raise refuse("ages", dict(ages), "seconds that rise from near-memory outwards")
    return {n: ages[n] for n in names}


@dataclass(frozen=True, slots=True)
class Supply:
    """What `nodes` nodes offer in one tier [bytes, bytes/s]; `write_budget_bytes_per_s` is what flash endurance allows for ever, None where nothing wears."""

    tier: str
    capacity_bytes: float
    read_bytes_per_s: float
    write_bytes_per_s: float
    write_budget_bytes_per_s: float | None


def supply(node: Node, tier_id: str, card: Card, nodes: int = 1) -> Supply:
    """Return what `nodes` nodes offer in a tier: near memory after weights, the rest as the node is built."""
    held = room(node, card) if tier_id == "near-memory" else capacity_bytes(node, tier_id)
    rates = [nodes * node.accelerators * rate(node, tier_id, write=w) for w in (False, True)]
    dwpd = device(node.part("drive").id).get("endurance_dwpd") if tier_id == "context-storage" else None
    budget = write_budget_bytes_per_s(nodes * held, dwpd) if dwpd else None
    return Supply(tier_id, nodes * held, rates[0], rates[1], budget)


def overflow(load: Load, offered: Supply) -> dict[str, float]:
    """Return by how much a tier is short, as need / offer minus 1, for each of capacity, read, write and endurance that is short; empty if it serves.

    Examples
    --------
    >>> overflow(Load("main-memory", 0, 3e12, 1e9, 1e9, 1), Supply("main-memory", 2e12, 4e11, 4e11, None))
    {'capacity': 0.5}
    """
    pairs = {
        "capacity": (load.held_bytes, offered.capacity_bytes),
        "read": (load.read_bytes_per_s, offered.read_bytes_per_s),
        "write": (load.write_bytes_per_s, offered.write_bytes_per_s),
        "endurance": (load.write_bytes_per_s, offered.write_budget_bytes_per_s),
    }
    return {name: need / offer - 1 if offer else math.inf for name, (need, offer) in pairs.items() if offer is not None and need > offer}


def nodes_needed(load: Load, node: Node, card: Card) -> int | None:
    """Return the nodes whose share of a tier serves `load` in capacity, rates and endurance; None where even many cannot (nothing left after weights)."""
    one = supply(node, load.tier, card)
    needs = [(load.held_bytes, one.capacity_bytes), (load.read_bytes_per_s, one.read_bytes_per_s), (load.write_bytes_per_s, one.write_bytes_per_s)]
    if one.write_budget_bytes_per_s is not None:
        needs.append((load.write_bytes_per_s, one.write_budget_bytes_per_s))
    if any(need > 0 and not offer for need, offer in needs):
        return None
    return max((units_needed(need, offer) for need, offer in needs if need > 0), default=0)


@dataclass(frozen=True, slots=True)
class Pyramid:
    """One choice of tiers for a fleet: the nodes it needs, and the accelerators kept busy recomputing what was dropped."""

    tiers: tuple[str, ...]
    loads: tuple[Load, ...]
    nodes: int
    binding: str
    recompute_accelerators: float


def pyramids(
    card: Card, fleet: Sequence[Sessions], node: Node, *, tp: int = 1, kv_dtype: str | KvFormat = "bf16", ages: Mapping[str, float] | None = None
) -> list[Pyramid]:
    """Return every choice of tiers below near memory, fewest accelerators (nodes plus recomputation) first to a tenth, then fewest tiers.

    A tier left out passes its band to the next one kept; what no tier keeps is recomputed when it returns. A tier is kept only where a whole session loads
    from it faster than it is recomputed.

    Raises
    ------
    KvError : weights that do not fit the node
    """
    ages = _checked(AGES if ages is None else ages)
    context = max(fleet, key=lambda g: g.context_tokens).context_tokens
    worth = [t for t in list(ages)[1:] if race(card, context, t, node, tp=tp, kv_dtype=kv_dtype).speedup > 1]
    found = [_pyramid(card, fleet, node, chosen, ages, kv_dtype) for n in range(len(worth) + 1) for chosen in combinations(worth, n)]
    return sorted(found, key=lambda p: (round(p.nodes * node.accelerators + p.recompute_accelerators, 1), len(p.tiers)))


def _pyramid(card: Card, fleet: Sequence[Sessions], node: Node, chosen: tuple[str, ...], ages: Mapping[str, float], kv_dtype: str | KvFormat) -> Pyramid:
    kept = {"near-memory": ages["near-memory"]} | {t: ages[t] for t in chosen}
    loads = place(card, fleet, kv_dtype=kv_dtype, ages=kept)
    counts = {load.tier: nodes_needed(load, node, card) for load in loads}
    if any(n is None for n in counts.values()):
        raise KvError(
            f"platform: {node.id} has no near memory left beside the BF16 weights of {card.id}, on 8 accelerators at most; accepted: a platform that holds them"
        )
    binding = max(counts, key=lambda t: counts[t] or 0)
    drop = max(kept.values())
    recompute = 0.0
    for group in fleet:
        per_s = group.sessions / group.turn_s * group.lost(drop)
        if per_s:
            recompute += per_s * recompute_s(card, group.context_tokens - group.shared_tokens, group.shared_tokens, node.accelerator)
    return Pyramid(tuple(kept), tuple(loads), counts[binding] or 0, binding, recompute)
