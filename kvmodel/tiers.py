"""The five tiers on one denominator: what a tier holds, how fast it delivers to one accelerator, how long KV can stay in it.

A bandwidth may be stated per package, socket, node, drive or client. Everything here is turned into bytes per second for one accelerator of a node that loads
together with its neighbours: a link of its own counts in full, a node-wide one counts 1 / accelerators.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from kvmodel.cards import Card
from kvmodel.dtypes import KvFormat
from kvmodel.hardware import Link, Node, device, link
from kvmodel.sizing import fit, kv_bytes
from kvmodel.specfile import SPEC_ID, SPECS, Spec, Value, read_spec
from kvmodel.units import KvError, refuse

DAY = 86400
USABLE = 0.9  # share of accelerator memory that engines use; the default of `fit --platform`
LAKE_CLIENTS = 8  # client nodes of the published flash store behind `object-store-flash-24pb`


@dataclass(frozen=True, slots=True)
class Tier:
    """One tier: fixed load times, and the article's printed ranges as data."""

    spec: Spec

    @property
    def id(self) -> str:
        """The tier's id."""
        return self.spec.id

    @property
    def name(self) -> str:
        """The tier's name."""
        return self.spec.name

    @property
    def rank(self) -> int:
        """1 is nearest to the accelerator, 5 farthest."""
        return int(self.spec.text["rank"])

    @property
    def fixed_s(self) -> float:
        """Fixed part of loading one request from here: engine plus first byte of device and network [s]."""
        return self.spec.need("engine_s") + self.spec.need("latency_s")

    def article(self, quantity: str) -> Value:
        """The article's range: `capacity` [bytes], `bandwidth` [bytes/s] or `time_scale` [s]."""
        if quantity not in ("capacity", "bandwidth", "time_scale"):
            raise refuse("quantity", quantity, "capacity, bandwidth or time_scale", ("capacity", "bandwidth", "time_scale"))
        return self.spec.values[quantity]


@cache
def tier(tier_id: str) -> Tier:
    """Return the tier with this id.

    Raises
    ------
    KvError : unknown id, with the nearest known one; a spec that breaks its schema

    Examples
    --------
    >>> tier("main-memory").rank, round(tier("main-memory").fixed_s, 4)
    (2, 0.015)
    """
    path = SPECS / "tiers" / f"{tier_id}.toml"
    if not SPEC_ID.fullmatch(tier_id) or not path.is_file():
        raise refuse("tier", tier_id, f"one of {' '.join(tier_ids())}", tier_ids())
    return Tier(read_spec(path, "tiers"))


@cache
def tier_ids() -> tuple[str, ...]:
    """Return the ids of the five tiers, nearest first.

    Examples
    --------
    >>> tier_ids()
    ('near-memory', 'main-memory', 'expansion-memory', 'context-storage', 'data-lake')
    """
    found = [Tier(read_spec(path, "tiers")) for path in (SPECS / "tiers").glob("*.toml")]
    return tuple(t.id for t in sorted(found, key=lambda t: t.rank))


@dataclass(frozen=True, slots=True)
class Hop:
    """One step on the way from a tier to an accelerator. Rates belong to one accelerator (`per` = accelerator) or to the whole node (`per` = node).

    `read` and `write` are what the model uses: measured where known, else nominal. `low` and `high` are the published range of `read`,
    `kind` its kind of statement.
    """

    name: str
    per: str
    read: float
    write: float
    nominal: float | None
    measured: bool
    low: float
    high: float
    kind: str

    def per_accelerator(self, accelerators: int, *, write: bool = False) -> float:
        """Return the rate for one of `accelerators` that load together [bytes/s]."""
        return (self.write if write else self.read) / (accelerators if self.per == "node" else 1)


def path(node: Node, tier_id: str) -> tuple[Hop, ...]:
    """Return the hops that KV takes from a tier to the accelerators of `node`, the tier's own device first."""
    kind = tier(tier_id).id
    if kind == "near-memory":
        memory = node.accelerator.spec.values["bandwidth_bytes_per_s"]
        rate = node.accelerator.bandwidth_bytes_per_s
        return (Hop(f"{node.accelerator.id} memory", "accelerator", rate, rate, rate, memory.kind == "measured", *memory.span, memory.kind),)
    host = _link_hop(node.accelerator.host_link, 1, "accelerator")
    network = _link_hop(link(node.part("nic").id), node.nics, "node")
    if kind == "main-memory":
        dram = node.spec.values["host_bandwidth_bytes_per_s"]
        rate = node.host_bandwidth_bytes_per_s
        return (Hop("host DRAM", "node", rate, rate, rate, dram.kind == "measured", *dram.span, dram.kind), host)
    if kind == "expansion-memory":
        return (network, host)
    if kind == "context-storage":
        return (_drive_hop(node), _link_hop(link(node.part("drive_slot").id), node.drives, "node"), host)
    return (_link_hop(link(node.part("lake").id), 1, "accelerator"), network, host)


def _link_hop(way: Link, count: int, per: str) -> Hop:
    stated = way.spec.values["measured_bytes_per_s" if way.measured else "nominal_bytes_per_s"]
    nominal = way.nominal_bytes_per_s
    times = f"{count} x " if count > 1 else ""
    low, high = (end * count for end in stated.span)
    return Hop(
        times + way.spec.name,
        per,
        way.read_bytes_per_s * count,
        way.write_bytes_per_s * count,
        nominal and nominal * count,
        way.measured,
        low,
        high,
        stated.kind,
    )


def _drive_hop(node: Node) -> Hop:
    drive = device(node.part("drive").id)
    read, write = drive.need("read_bytes_per_s") * node.drives, drive.need("write_bytes_per_s") * node.drives
    return Hop(f"{node.drives} x {drive.name}", "node", read, write, read, False, read, read, "vendor-claim")


def narrowest(node: Node, tier_id: str, *, write: bool = False) -> Hop:
    """Return the hop that limits one accelerator while all of the node load (or, with `write`, store).

    Examples
    --------
    >>> from kvmodel.hardware import node
    >>> narrowest(node("h100-8"), "main-memory").name, narrowest(node("b300-8"), "main-memory").name
    ('PCIe 5.0 x16', 'host DRAM')
    """
    return min(path(node, tier_id), key=lambda hop: hop.per_accelerator(node.accelerators, write=write))


def rate(node: Node, tier_id: str, *, write: bool = False) -> float:
    """Return the bytes per second between a tier and one accelerator while all of the node move data, through the narrowest hop.

    Examples
    --------
    >>> from kvmodel.hardware import node
    >>> [round(rate(node("h100-8"), t) / 1e9, 1) for t in tier_ids()]
    [3350.0, 44.2, 24.2, 14.1, 1.2]
    """
    return narrowest(node, tier_id, write=write).per_accelerator(node.accelerators, write=write)


def convert(bytes_per_s: float, per: str, node: Node) -> dict[str, float]:
    """Return a bandwidth stated per accelerator, package, socket, nic, drive, client or node as `{"accelerator": ..., "node": ...}` [bytes/s].

    A package is one accelerator; a client is one node. Raises `KvError` for another denominator.

    Examples
    --------
    >>> from kvmodel.hardware import node
    >>> convert(307.2e9, "socket", node("h100-8"))
    {'accelerator': 76800000000.0, 'node': 614400000000.0}
    """
    counts = {
        "accelerator": node.accelerators,
        "package": node.accelerators,
        "socket": node.sockets,
        "nic": node.nics,
        "drive": node.drives,
        "client": 1,
        "node": 1,
    }
    if per not in counts:
        raise refuse("per", per, f"one of {' '.join(counts)}", counts)
    total = bytes_per_s * counts[per]
    return {"accelerator": total / node.accelerators, "node": total}


def capacity_bytes(node: Node, tier_id: str) -> int:
    """Return what a tier of this node can hold in all, before weights [bytes].

    Near memory: packages. Main memory: host DRAM. Expansion: one pool server for each eight accelerators. Context storage: the node's drives.
    Data lake: the node's share of a published flash store, 24 PB over eight client nodes of eight accelerators each.

    Examples
    --------
    >>> from kvmodel.hardware import node
    >>> [capacity_bytes(node("h100-8"), t) // 10**9 for t in tier_ids()]
    [640, 2199, 3000, 245760, 3000000]
    """
    kind, eights = tier(tier_id).id, max(1, -(-node.accelerators // 8))
    if kind == "near-memory":
        return node.accelerators * node.accelerator.memory_bytes
    if kind == "main-memory":
        return node.host_memory_bytes
    if kind == "expansion-memory":
        return int(device("ddr5-pool-8x400g").need("capacity_bytes")) * eights
    if kind == "context-storage":
        return int(device(node.part("drive").id).need("capacity_bytes")) * node.drives
    return int(device("object-store-flash-24pb").need("capacity_bytes")) // LAKE_CLIENTS * eights


def room(node: Node, card: Card, *, weights_dtype: str = "bf16", params: int | None = None) -> int:
    """Return the near memory that weights leave for KV on the whole node: `fit` at 0.9 usable, tensor parallel 8 at most [bytes].

    Examples
    --------
    >>> from kvmodel import card
    >>> from kvmodel.hardware import node
    >>> room(node("h100-8"), card("llama-3.3-70b")) // 10**9
    434
    """
    tp = min(8, node.accelerators)
    copies, memory = node.accelerators // tp, tp * node.accelerator.memory_bytes
    found = fit(card, memory, users=1, tp=tp, replicas=copies, usable=USABLE, weights_dtype=weights_dtype, params=params)
    return int(found["kv_budget_bytes"])


def holds(capacity: int, card: Card, context_tokens: int, *, kv_dtype: str | KvFormat = "bf16") -> dict[str, int]:
    """Return how many whole sessions of `context_tokens` a capacity holds, and their tokens: stored geometry, no blocks, no replicas.

    Examples
    --------
    >>> from kvmodel import card
    >>> holds(640 * 10**9, card("llama-3.3-70b"), 100_000)
    {'session_bytes': 32768000000, 'sessions': 19, 'tokens': 1900000}
    """
    each = int(kv_bytes(card, context_tokens, kv_dtype=kv_dtype))
    sessions = capacity // each if each else 0
    return {"session_bytes": each, "sessions": sessions, "tokens": sessions * context_tokens}


def residence_s(capacity: float, write_bytes_per_s: float) -> float:
    """Return how long a byte stays in a full tier that is overwritten oldest first: capacity / write rate (Little's law) [s].

    Examples
    --------
    >>> round(residence_s(30.72e12, 14e9) / 60, 1)
    36.6
    """
    return _positive("capacity", capacity) / _positive("write_bytes_per_s", write_bytes_per_s)


def endurance_residence_s(dwpd: float) -> float:
    """Return the least residence that a drive's rating allows: 24 h / drive writes per day [s].

    Examples
    --------
    >>> endurance_residence_s(3) / 3600
    8.0
    """
    return DAY / _positive("dwpd", dwpd)


def write_budget_bytes_per_s(capacity: float, dwpd: float) -> float:
    """Return the write rate that uses up a rating exactly: capacity * DWPD / 24 h [bytes/s].

    Examples
    --------
    >>> round(write_budget_bytes_per_s(8 * 30.72e12, 1) / 1e9, 2)
    2.84
    """
    return _positive("capacity", capacity) * _positive("dwpd", dwpd) / DAY


def units_needed(need: float, each: float) -> int:
    """Return how many drives, modules or adapters give at least `need`: ceil(need / each).

    Examples
    --------
    >>> units_needed(1e15, 245.76e12), units_needed(200e9, 28e9)
    (5, 8)
    """
    return math.ceil(_positive("need", need) / _positive("each", each))


@dataclass(frozen=True, slots=True)
class Transfer:
    """A link as fixed time per block plus time per byte: seconds(b) = fixed_s + b / bytes_per_s."""

    fixed_s: float
    bytes_per_s: float

    def effective(self, block_bytes: float) -> float:
        """Return the rate with blocks of `block_bytes` [bytes/s]."""
        return block_bytes / (self.fixed_s + _positive("block_bytes", block_bytes) / self.bytes_per_s)


def fit_transfer(points: Sequence[Sequence[float]]) -> Transfer:
    """Return the `Transfer` that fits pairs of (block bytes, bytes/s) with the least sum of squared relative errors in time.

    Raises
    ------
    KvError : fewer than two block sizes

    Examples
    --------
    >>> t = fit_transfer([(4096, 1.0e9), (1 << 20, 40e9)])
    >>> round(t.effective(4096) / 1e9, 3), round(t.effective(1 << 20) / 1e9, 3)
    (1.0, 40.0)
    """
    if len({b for b, _ in points}) < 2:
        raise KvError(f"points: {len(points)} is not accepted; accepted: two block sizes or more")
    rows = [(r / b, r) for b, r in points]  # (fixed + b * slope) / time = 1, with time = b / r
    saa, sab, sbb = (sum(x * y for x, y in pairs) for pairs in ([(a, a) for a, _ in rows], rows, [(b, b) for _, b in rows]))
    sa, sb = sum(a for a, _ in rows), sum(b for _, b in rows)
    determinant = saa * sbb - sab * sab
    return Transfer((sa * sbb - sb * sab) / determinant, determinant / (saa * sb - sab * sa))


def link_transfer(link_id: str, method: str = "dma") -> Transfer:
    """Return the fit to a link's measured rates by block size; `dma` is one copy per block, `kernel` one gather kernel for all.

    Examples
    --------
    >>> t = link_transfer("pcie5-x16")
    >>> round(t.effective(4096) / 1e9, 1), round(t.effective(2 << 20) / 1e9)
    (1.2, 48)
    """
    measured = link(link_id).spec.text.get("by_block")
    if measured is None or method not in ("dma", "kernel"):
        raise refuse(
            "link", f"{link_id} {method}", "a link with rates by block size, such as pcie5-x16, and dma or kernel", ("pcie5-x16 dma", "pcie5-x16 kernel")
        )
    return fit_transfer([(b, r * 1e9) for b, r in measured[method]])


def weights_read_bytes(total: float, active: float, users: int) -> float:
    """Return the most weight bytes that one decode step of `users` sequences reads: min(total, users * active).

    Dense models read all. In a mixture of experts each sequence reads its active experts; where none overlap, `users` of them read users * active.
    """
    return min(total, users * active)


def decode_tokens_per_s(weights_read: float, kv_read_per_user: float, users: int, bandwidth: float) -> float:
    """Return the tokens per second of one user that memory bandwidth allows: bandwidth / (weights + users * KV).

    An upper bound: peak bandwidth, no communication, no computation. All arguments for the same set of accelerators [bytes, bytes, count, bytes/s].

    Examples
    --------
    >>> round(decode_tokens_per_s(141.2e9, 32.768e9, 1, 8 * 3.35e12))
    154
    """
    return bandwidth / (_positive("weights_read", weights_read) + users * kv_read_per_user)


def compute_bound_users(weights_read: float, kv_read_per_user: float, flops_per_token: float, bandwidth: float, flops: float) -> float | None:
    """Return the batch at which arithmetic takes as long as reading memory; None where reading always takes longer.

    users * F / flops = (weights + users * KV) / bandwidth. Once a user's KV takes longer to read than its token takes to compute, no batch is compute bound.

    Examples
    --------
    >>> round(compute_bound_users(141.2e9, 0.0, 141.2e9, 3.35e12, 989e12))
    295
    """
    spare = flops_per_token / flops - kv_read_per_user / bandwidth
    return weights_read / bandwidth / spare if spare > 0 else None


def _positive(field: str, value: float) -> float:
    if not (value > 0 and math.isfinite(value)):
        raise refuse(field, value, "a number above 0")
    return value
