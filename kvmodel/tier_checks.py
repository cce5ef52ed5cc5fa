"""The article's tier table against devices: fifteen checks (capacity, bandwidth and time scale of five tiers), each computed from the specs.

The range of the devices is here, and the number of one node under a stated reading; what follows for the article is judged by the ledger (`kvmodel.claims`).
For the time column the number on our side is the least residence: how long the tier takes to fill at the full write speed of its devices. KV can stay longer
when less is written, never shorter, so a printed time below it would be impossible and one above it needs a slower stream of writes.
"""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from kvmodel.cards import Card, card
from kvmodel.hardware import Node, accelerator, device, devices, link, node, node_ids, spec_ids
from kvmodel.specfile import Value
from kvmodel.tiers import DAY, LAKE_CLIENTS, capacity_bytes, endurance_residence_s, rate, residence_s, room, tier, tier_ids
from kvmodel.units import refuse

QUANTITIES = ("capacity", "bandwidth", "time_scale")
REFERENCE_MODEL = "llama-3.3-70b"  # the model the article sizes; its weights decide what near memory leaves
Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Check:
    """One cell of the article's table against our range, in bytes, bytes/s or seconds.

    `per` is the denominator of both ranges. `relation` compares ours with the article's: inside, covers, overlaps, below, above.
    `accelerator_low` and `accelerator_high` are our range for one accelerator, where that differs.
    """

    id: str
    tier: str
    quantity: str
    words: str
    unit: str
    per: str
    article_low: float | None
    article_high: float | None
    ours_low: float
    ours_high: float
    accelerator_low: float | None
    accelerator_high: float | None
    relation: str
    basis: str

    def plain(self) -> dict[str, Any]:
        """Return the check as JSON data."""
        return asdict(self)


def relation(ours: Span, article: Value) -> str:
    """Return how our range lies to the article's: `inside`, `covers`, `overlaps`, `below` or `above`.

    Examples
    --------
    >>> relation((48, 375), tier("main-memory").article("bandwidth"))
    'below'
    """
    low = article.low if article.low is not None else 0.0
    high = article.high if article.high is not None else float("inf")
    if ours[1] < low or ours[0] > high:
        return "below" if ours[1] < low else "above"
    if low <= ours[0] and ours[1] <= high:
        return "inside"
    return "covers" if ours[0] <= low and high <= ours[1] else "overlaps"


def checks(model: Card | None = None) -> tuple[Check, ...]:
    """Return the fifteen checks, tier by tier: capacity, bandwidth, time scale.

    Parameters
    ----------
    model : whose weights take near memory; Llama-3.3-70B if left out

    Examples
    --------
    >>> len(checks()), checks()[0].id
    (15, 'tier-1-capacity')
    """
    reference = model or card(REFERENCE_MODEL)
    return tuple(_check(t, q, reference) for t in tier_ids() for q in QUANTITIES)


def strong_nodes() -> list[Node]:
    """Return the nodes whose accelerator does not rest on a weak source."""
    return [n for n in map(node, node_ids()) if not n.accelerator.spec.text.get("weak")]


def _check(tier_id: str, quantity: str, model: Card) -> Check:
    t = tier(tier_id)
    article = t.article(quantity)
    ours, each, basis = _RULES[tier_id, quantity](model)
    words, per = _article_text(t.id, quantity)
    name = {"time_scale": "time"}.get(quantity, quantity)
    base = {"capacity": "bytes", "bandwidth": "bytes/s", "time_scale": "s"}[quantity]
    low, high = each or (None, None)
    return Check(
        f"tier-{t.rank}-{name}", t.id, quantity, words, base, per, article.low, article.high, ours[0], ours[1], low, high, relation(ours, article), basis
    )  # fmt: skip


def reading(tier_id: str, quantity: str, place: Node, model: Card, *, per: str = "accelerator", write_share: float = 1.0) -> float:
    """Return one cell of the table for one node, read in one way: capacity, bandwidth to accelerators that all load, or residence [bytes, bytes/s, s].

    Parameters
    ----------
    per : `accelerator` or `node`; for the bandwidth of main memory also `socket`, the CPU's own
    write_share : for the time: the share of its write rate at which the full tier is overwritten; 1 is the least residence

    Examples
    --------
    >>> h100, llama = node("h100-8"), card("llama-3.3-70b")
    >>> [round(reading("main-memory", "bandwidth", h100, llama, per=per) / 1e9, 1) for per in ("accelerator", "socket", "node")]
    [44.2, 307.2, 353.6]
    >>> round(reading("context-storage", "time_scale", h100, llama) / 60, 1)
    36.6
    """
    ways = ("accelerator", "node", "socket") if (tier_id, quantity) == ("main-memory", "bandwidth") else ("accelerator", "node")
    if per not in ways:
        raise refuse("per", per, f"one of {' '.join(ways)}", ways)
    whole = room(place, model) if tier(tier_id).id == "near-memory" else capacity_bytes(place, tier_id)
    if quantity == "time_scale":
        return whole / (rate(place, tier_id, write=True) * place.accelerators * write_share)
    if per == "socket":
        return place.host_bandwidth_bytes_per_s / place.sockets
    total = whole if quantity == "capacity" else rate(place, tier_id) * place.accelerators
    return total / (place.accelerators if per == "accelerator" else 1)


def _article_text(tier_id: str, quantity: str) -> tuple[str, str]:
    value = tier(tier_id).article(quantity)
    return value.words, value.per


def _span(values: Iterable[float]) -> Span:
    found = list(values)
    return min(found), max(found)


def _union(values: Iterable[Value]) -> Span:
    return _span(end for v in values for end in v.span)


def _named(tier_id: str, key: str) -> list[Value]:
    return [d.values[key] for d in devices(tier_id) if d.text.get("named") and key in d.values]


Result = tuple[Span, Span | None, str]


def _near_capacity(model: Card) -> Result:
    left = [room(n, model) / n.accelerators for n in strong_nodes()]
    span = _span([b for b in left if b] or [0.0])
    return (
        span,
        span,
        f"0.9 of the package minus the weights of {model.id}, in nodes that hold them",
    )


def _near_bandwidth(model: Card) -> Result:
    packages = [accelerator(i).spec for i in spec_ids("accelerator")]
    span = _union(p.values["bandwidth_bytes_per_s"] for p in packages if p.text["memory"] in ("gddr7", "hbm3e", "hbm4") and not p.text.get("weak"))
    return span, span, "packages with the memories named, from a GDDR7 card to Rubin"


def _near_time(model: Card) -> Result:
    sweep = _span([room(n, model) / n.accelerators / n.accelerator.bandwidth_bytes_per_s for n in strong_nodes() if room(n, model)] or [0.0])
    return sweep, sweep, "all KV room read or written once at memory bandwidth"


def _main_capacity(model: Card) -> Result:
    span = _span(n.host_memory_bytes / n.accelerators for n in strong_nodes())
    return span, span, "host DRAM of each node / accelerators"


def _main_bandwidth(model: Card) -> Result:
    sockets = _union(d.values["read_bytes_per_s"] for d in devices("main-memory") if d.text["per"] == "socket")
    return sockets, _rates("main-memory"), "CPU sockets"


def _expansion_capacity(model: Card) -> Result:
    return (
        _union(d.values["capacity_bytes"] for d in devices("expansion-memory") if "capacity_bytes" in d.values),
        None,
        "one CXL module to the DRAM of one server",
    )


def _expansion_bandwidth(model: Card) -> Result:
    pools = _union(d.values["read_bytes_per_s"] for d in devices("expansion-memory") if d.text["per"] == "node")
    return pools, _rates("expansion-memory"), "measured RDMA reads of whole nodes"


def _storage_capacity(model: Card) -> Result:
    drives = node("h100-8").drives
    low, high = _union(_named("context-storage", "capacity_bytes"))
    return (low * drives, high * drives), None, f"{drives} drives of the models named"


def _storage_bandwidth(model: Card) -> Result:
    drives = node("h100-8").drives
    low, high = _span(v.value or 0.0 for v in _named("context-storage", "read_bytes_per_s"))
    ours = (low * drives, high * drives)
    return (
        ours,
        _rates("context-storage"),
        f"{drives} drives of the models named, sequential reads",
    )


def _lake_capacity(model: Card) -> Result:
    whole = float(capacity_bytes(node("h100-8"), "data-lake") * LAKE_CLIENTS)
    return (whole, whole), None, "one published flash store; five drives of 245.76 TB pass one PB"


def _lake_bandwidth(model: Card) -> Result:
    client = link("object-store-client").spec.values["measured_bytes_per_s"].span
    ours = (client[0] * 8, client[1] * 8)
    return (
        ours,
        _rates("data-lake"),
        "client nodes of eight accelerators: a cloud object store to a tuned flash store",
    )


def _fill(tier_id: str) -> Callable[[Card], Result]:
    def result(model: Card) -> Result:
        span = _span(residence_s(capacity_bytes(n, tier_id), n.accelerators * rate(n, tier_id, write=True)) for n in strong_nodes())
        return span, None, "capacity of the tier / write rate of the node, in all nodes"

    return result


def _storage_time(model: Card) -> Result:
    fill = residence_s(device("micron-9650-pro").need("capacity_bytes"), device("micron-9650-pro").need("write_bytes_per_s"))
    rated = max(endurance_residence_s(v.value or 1.0) for v in _named("context-storage", "endurance_dwpd"))
    return (fill, rated), None, "low: a drive filled at full write speed; high: 24 h / 1 drive write per day"


def _lake_time(model: Card) -> Result:
    drives = [d for d in devices("data-lake") if d.text.get("named")]
    span = _span(residence_s(d.need("capacity_bytes"), d.need("write_bytes_per_s")) for d in drives)
    return span, None, f"a drive of the family named filled at full write speed (one day is {DAY} s)"


def _rates(tier_id: str) -> Span:
    return _span(rate(n, tier_id) for n in strong_nodes())


_RULES: dict[tuple[str, str], Callable[[Card], Result]] = {
    ("near-memory", "capacity"): _near_capacity,
    ("near-memory", "bandwidth"): _near_bandwidth,
    ("near-memory", "time_scale"): _near_time,
    ("main-memory", "capacity"): _main_capacity,
    ("main-memory", "bandwidth"): _main_bandwidth,
    ("main-memory", "time_scale"): _fill("main-memory"),
    ("expansion-memory", "capacity"): _expansion_capacity,
    ("expansion-memory", "bandwidth"): _expansion_bandwidth,
    ("expansion-memory", "time_scale"): _fill("expansion-memory"),
    ("context-storage", "capacity"): _storage_capacity,
    ("context-storage", "bandwidth"): _storage_bandwidth,
    ("context-storage", "time_scale"): _storage_time,
    ("data-lake", "capacity"): _lake_capacity,
    ("data-lake", "bandwidth"): _lake_bandwidth,
    ("data-lake", "time_scale"): _lake_time,
}
