"""Tables of numbers of the tier chapters: everything is computed from the specs by `kvmodel.tiers`, `tier_checks` and `movement`."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pandas as pd

from kvmodel.cards import Card
from kvmodel.hardware import Node, accelerator, device, devices, link, node, spec_ids
from kvmodel.movement import prefill_flops, race
from kvmodel.sizing import allocated_bytes
from kvmodel.specfile import Spec, Value, shown
from kvmodel.tier_checks import checks
from kvmodel.tiers import (
    capacity_bytes,
    compute_bound_users,
    convert,
    decode_tokens_per_s,
    link_transfer,
    narrowest,
    path,
    rate,
    room,
    tier,
    tier_ids,
    weights_read_bytes,
)
from kvmodel.units import KvError, format_seconds, format_tokens

NODES = ("h100-8", "h200-8", "b200-8", "b300-8", "mi355x-8", "gb200-nvl72")  # the platforms that charts compare, with the chosen one
ARTICLE = "micron-article-token-economy"
OPEN_END = 1e16  # where a range without an upper end stops on a chart [bytes]
OPEN_START = 2e8  # where a bandwidth without a lower end starts [bytes/s]
MARKS = {"measured": "measured", "derived": "derived", "assumption": "derived", "estimate": "derived"}


def mark(kind: str) -> str:
    """Return how a kind of value is drawn: measured, derived or claimed."""
    return MARKS.get(kind, "claimed")


def counted(n: int, noun: str) -> str:
    """Return a count with its noun.

    Examples
    --------
    >>> counted(1, "token"), counted(100_000, "token"), counted(2_500_000, "token")
    ('1 token', '100,000 tokens', '2.5M tokens')
    """
    return f"{format_tokens(n)} {noun}{'s' * (n != 1)}"


def spread(low: float, high: float) -> str:
    """Return a range of seconds as words; that none was published where both ends are the same."""
    return f"{format_seconds(low)} to {format_seconds(high)} over the published range" if low != high else "no range was published"


def platforms(chosen: Node) -> list[Node]:
    """Return the platforms of the charts, with the chosen one among them."""
    ids = NODES if chosen.id in NODES else (chosen.id, *NODES)
    return [node(i) for i in ids]


def tp_of(place: Node) -> int:
    """Return the tensor-parallel ranks a chapter assumes: eight, or all where there are fewer."""
    return min(8, place.accelerators)


def pyramid_frame(place: Node) -> pd.DataFrame:
    """Return capacity and bandwidth for one accelerator: the article's ranges, devices, and the tiers of `place` [bytes, bytes/s].

    Columns: mark (article, device, platform), tier, rank, name, kind, capacity_low, capacity_high, bandwidth_low, bandwidth_high.
    """
    rows = [_article_row(place, t) for t in tier_ids()]
    for t in tier_ids():
        cap, speed = capacity_bytes(place, t) / place.accelerators, rate(place, t)
        kind = mark(narrowest(place, t).kind)
        rows.append(_point("platform", t, place.name, kind, cap, speed))
    rows += [_point("device", t, name, mark(value.kind), cap, speed) for t, _, name, cap, speed, value in _device_points(place)]
    return pd.DataFrame(rows)


def _point(what: str, tier_id: str, name: str, kind: str, capacity: float, speed: float) -> dict[str, Any]:
    t = tier(tier_id)
    return {
        "mark": what, "tier": t.name, "rank": t.rank, "name": name, "kind": kind,
        "capacity_low": capacity, "capacity_high": capacity, "bandwidth_low": speed, "bandwidth_high": speed,
    }  # fmt: skip


def _article_row(place: Node, tier_id: str) -> dict[str, Any]:
    t = tier(tier_id)
    size, speed = t.article("capacity"), t.article("bandwidth")
    server = min(8, place.accelerators)  # the article's node, client and system are servers, not racks
    share = 1 if size.per == "accelerator" else server
    low, high = (size.low or 1e9) / share, size.high / share if size.high else OPEN_END
    each = convert(1.0, speed.per, place)["accelerator"] if speed.per in ("package", "accelerator", "socket") else 1 / server
    slow, fast = (b * each if b else None for b in (speed.low, speed.high))
    row = _point("article", tier_id, t.name, "claimed", low, slow or OPEN_START)
    return row | {"capacity_high": high, "bandwidth_high": fast or 5e13}


def _device_points(place: Node) -> list[tuple[str, Spec, str, float, float, Value]]:
    """Tier, spec, name, capacity and rate for one accelerator: the packages and host memories of the platforms, and the devices the article names."""
    out = []
    for n in platforms(place):
        package, host = n.accelerator.spec, narrowest(n, "main-memory")
        out.append(
            ("near-memory", package, package.name, package.need("memory_bytes"), package.need("bandwidth_bytes_per_s"), package.values["bandwidth_bytes_per_s"])
        )
        value = n.spec.values["host_bandwidth_bytes_per_s"] if host.name == "host DRAM" else _rate_of(n.accelerator.host_link.spec)
        out.append(("main-memory", n.spec, n.name, n.host_memory_bytes / n.accelerators, rate(n, "main-memory"), value))
    slot = path(place, "context-storage")[1].per_accelerator(place.accelerators)
    for d in devices():
        if not ({"capacity_bytes", "read_bytes_per_s"} <= d.values.keys()) or d.text["technology"] not in ("ssd-tlc", "ssd-qlc", "cxl", "pool", "hdd"):
            continue
        share = 8 if d.text["per"] == "node" else 1  # a pool server serves one node of eight; a drive or a module serves one accelerator
        speed = d.need("read_bytes_per_s") / share
        value = d.values["read_bytes_per_s"]
        out.append((str(d.text["tier"]), d, d.name, d.need("capacity_bytes") / share, min(speed, slot) if d.text["per"] == "drive" else speed, value))
    return out


def _rate_of(spec: Spec) -> Value:
    return spec.values.get("measured_bytes_per_s") or spec.values["nominal_bytes_per_s"]


def pyramid_sources(place: Node) -> list[str]:
    """Return the source ids behind `pyramid_frame`, the article first."""
    used = {s for _, spec, _, _, _, value in _device_points(place) for s in (*value.sources, *_capacity_sources(spec))}
    used |= {s for t in tier_ids() for s in hop_sources(place, t)}
    return [ARTICLE, *sorted(used - {ARTICLE})]


def _capacity_sources(spec: Spec) -> tuple[str, ...]:
    return next((spec.values[k].sources for k in ("capacity_bytes", "memory_bytes", "host_memory_bytes") if k in spec.values), ())


def hop_sources(place: Node, tier_id: str) -> list[str]:
    """Return the source ids of what limits one accelerator's load from a tier."""
    parts = {
        "near-memory": [place.accelerator.spec.values["bandwidth_bytes_per_s"]],
        "main-memory": [place.spec.values["host_bandwidth_bytes_per_s"], _rate_of(place.accelerator.host_link.spec)],
        "expansion-memory": [_rate_of(place.part("nic"))],
        "context-storage": [place.part("drive").values["read_bytes_per_s"], _rate_of(place.part("drive_slot"))],
        "data-lake": [_rate_of(place.part("lake"))],
    }
    return sorted({s for v in parts[tier(tier_id).id] for s in v.sources})


def check_frame(tier_id: str, model: Card | None = None) -> pd.DataFrame:
    """Return the three checks of one tier as text: what the article prints, what devices give, by which denominator, and what the range is of."""
    bases = {"capacity": "bytes", "bandwidth": "bytes_per_s", "time_scale": "seconds"}
    rows = []
    for c in checks(model):
        if c.tier == tier_id:
            text = partial(shown, bases[c.quantity])
            ours, each = _ends(text, c.ours_low, c.ours_high), _ends(text, c.accelerator_low, c.accelerator_high)
            rows.append({
                "quantity": c.quantity.replace("_", " "), "article": c.words, "devices": f"{ours}, {c.per}",
                "one accelerator": each, "basis": c.basis,
            })  # fmt: skip
    return pd.DataFrame(rows)


def _ends(text: Callable[[float], str], low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return ""
    return text(low) if text(low) == text(high) else f"{text(low)} to {text(high)}"


def load_frame(place: Node, model: Card, context_tokens: int, kv_dtype: str) -> pd.DataFrame:
    """Return the time to bring one session to its accelerators from each tier: tensor parallel on up to eight, all of the node loading at once.

    Columns: name (tier), value, low, high [s], fixed_s, rate (bytes/s for one accelerator), bottleneck, kind, label. Near memory: one read of the session.
    """
    per_device = model.terms(kv_dtype, tp=tp_of(place)).stored(context_tokens)
    rows = []
    for t in tier_ids():
        hop = narrowest(place, t)
        share = place.accelerators if hop.per == "node" else 1
        fixed, speeds = tier(t).fixed_s, (hop.read / share, hop.high / share, hop.low / share)
        value, low, high = (fixed + per_device / s for s in speeds)
        kind = mark(hop.kind)
        rows.append(
            {
                "name": tier(t).name,
                "value": value,
                "low": low,
                "high": high,
                "fixed_s": fixed,
                "rate": speeds[0],
                "bottleneck": hop.name,
                "kind": kind,
                "label": format_seconds(value),
            }
        )
    return pd.DataFrame(rows)


def host_link_frame(place: Node) -> pd.DataFrame:
    """Return the rate from host memory to one accelerator on each platform, all loading at once, slowest first; Grace Hopper too, where C2C was measured."""
    rows = []
    for n in (*platforms(place), *(() if place.id == "gh200-1" else (node("gh200-1"),))):
        hop = narrowest(n, "main-memory")
        share = n.accelerators if hop.per == "node" else 1
        row = {"name": n.id, "value": hop.read / share, "low": hop.low / share, "high": hop.high / share, "bottleneck": hop.name}
        rows.append(row | {"nominal": (hop.nominal or hop.read) / share, "kind": mark(hop.kind), "label": shown("bytes_per_s", hop.read / share)})
    return pd.DataFrame(rows).sort_values("value", kind="stable").reset_index(drop=True)


def recompute(place: Node, model: Card, context_tokens: int, kv_dtype: str) -> float | None:
    """Return the seconds to compute the session again, or None where the model or the platform lacks a sourced number."""
    try:
        return race(model, context_tokens, "main-memory", place, tp=tp_of(place), kv_dtype=kv_dtype).recompute_s
    except KvError:
        return None


def device_frame(tier_id: str, key: str) -> pd.DataFrame:
    """Return one row for each device of a tier that states `key`: value and range, as `ranges` draws them."""
    rows = []
    for d in sorted(devices(tier_id), key=lambda d: (not d.text.get("named"), d.name)):
        v = d.values.get(key)
        if v is not None and v.value is not None:
            rows.append(_range_row(d, v, v.value))
    return pd.DataFrame(rows, columns=["name", "per", "value", "low", "high", "kind", "label", "source"])


def _range_row(d: Spec, v: Value, value: float) -> dict[str, Any]:
    per = f"per {d.text['per']}"
    return {
        "name": d.name,
        "per": per,
        "value": value,
        "low": v.span[0],
        "high": v.span[1],
        "kind": mark(v.kind),
        "label": shown(v.base, value),
        "source": v.sources[0],
    }


def package_frame() -> pd.DataFrame:
    """Return memory bandwidth and capacity of every accelerator that does not rest on a weak source, slowest first."""
    rows = []
    for a in (accelerator(i).spec for i in spec_ids("accelerator")):
        if not a.text.get("weak"):
            v, size = a.values["bandwidth_bytes_per_s"], int(a.need("memory_bytes"))
            low, high = v.span
            row = {"name": a.name, "memory": a.text["memory"], "capacity_bytes": size, "value": a.need("bandwidth_bytes_per_s"), "low": low, "high": high}
            rows.append(row | {"kind": mark(v.kind), "label": shown(v.base, v.value or high), "source": v.sources[0]})
    return pd.DataFrame(rows).sort_values("value", kind="stable").reset_index(drop=True)


def near_frame(place: Node, model: Card, context_tokens: int, kv_dtype: str, weights_dtype: str = "bf16") -> pd.DataFrame:
    """Return how the accelerator memory of each platform divides: weights, KV room, reserve; and the sessions that the room holds."""
    rows = []
    for n in platforms(place):
        total = n.accelerators * n.accelerator.memory_bytes
        left = room(n, model, weights_dtype=weights_dtype)
        copies = n.accelerators // tp_of(n)
        each = tp_of(n) * allocated_bytes(model.terms(kv_dtype, tp=tp_of(n)), context_tokens, 16)
        copies_fit = left // copies // each * copies if each else 0
        rows.append({
            "platform": n.id, "memory_bytes": total, "weights_bytes": weights(model) * copies, "room_bytes": left,
            "room_per_accelerator": left / n.accelerators, "weights_share": weights(model) * copies / total, "sessions": copies_fit,
        })  # fmt: skip
    return pd.DataFrame(rows)


def weights(model: Card) -> int:
    """Return the BF16 weights of one copy [bytes]; refuses a card without a parameter count."""
    if model.params_total is None:
        raise KvError(f"params: {model.id} has no parameter count; accepted: a model whose card has one")
    return 2 * model.params_total


def decode_frame(place: Node, model: Card, contexts: dict[str, int], kv_dtype: str) -> pd.DataFrame:
    """Return the tokens per second of one user against the number of users, for each named context: the bound of memory bandwidth on up to eight accelerators.

    Weights are read once a step, each user's KV once a token. Rows end where memory is full.
    """
    tp, speed = tp_of(place), tp_of(place) * place.accelerator.bandwidth_bytes_per_s
    budget = room(place, model) // (place.accelerators // tp)
    active = 2 * (model.params_active or model.params_total or 0)
    rows = []
    for name, tokens in contexts.items():
        kv = tp * model.terms(kv_dtype, tp=tp).stored(tokens)
        most = budget // kv if kv else 10**6
        counts = sorted({round(10 ** (k / 6)) for k in range(37) if 10 ** (k / 6) <= most} | ({most} if 1 <= most <= 10**6 else set()))
        for users in counts:
            each = decode_tokens_per_s(weights_read_bytes(weights(model), active, users), kv, users, speed)
            rows.append({"context": name, "users": users, "tokens_per_s": each, "total_tokens_per_s": users * each, "kind": "derived"})
    return pd.DataFrame(rows, columns=["context", "users", "tokens_per_s", "total_tokens_per_s", "kind"])


def decode_at(place: Node, model: Card, context_tokens: int, kv_dtype: str, users: int) -> dict[str, Any]:
    """Return the decode bound at one number of users with what it rests on: bytes read, share of KV, seconds of one pass over one session."""
    tp, peak = tp_of(place), place.accelerator.bandwidth_bytes_per_s
    kv = tp * model.terms(kv_dtype, tp=tp).stored(context_tokens)
    read = weights_read_bytes(weights(model), 2 * (model.params_active or model.params_total or 0), users)
    each = decode_tokens_per_s(read, kv, users, tp * peak)
    share = users * kv / (read + users * kv)
    return {"accelerators": tp, "bandwidth": peak, "weights": read, "kv": kv, "tokens_per_s": each, "kv_share": share, "sweep_s": kv / (tp * peak)}


def roofline(place: Node, model: Card, context_tokens: int, kv_dtype: str) -> float | None:
    """Return the number of users at which arithmetic binds instead of memory in decode, or None where it never does or a number is missing."""
    tp, peak = tp_of(place), place.accelerator.bf16_flops
    if peak is None:
        return None
    try:
        work = prefill_flops(model, 1, context_tokens)
    except KvError:
        return None
    kv = tp * model.terms(kv_dtype, tp=tp).stored(context_tokens)
    return compute_bound_users(weights(model), kv, work, tp * place.accelerator.bandwidth_bytes_per_s, tp * peak)


def block_frame(link_id: str = "pcie5-x16") -> pd.DataFrame:
    """Return measured rates by block size with one copy per block and with one gather kernel, and the fitted curve of each [bytes, bytes/s]."""
    rows = []
    for method, name in (("dma", "one copy per block"), ("kernel", "one gather kernel")):
        fitted = link_transfer(link_id, method)
        rows += [{"method": name, "block_bytes": b, "rate": r * 1e9, "kind": "measured"} for b, r in link(link_id).spec.text["by_block"][method]]
        rows += [{"method": name, "block_bytes": 2**k, "rate": fitted.effective(2**k), "kind": "derived"} for k in range(10, 26)]
    return pd.DataFrame(rows)


def sharing_frame(place: Node, most: int) -> pd.DataFrame:
    """Return the rate of one accelerator, and the load of one GB, while up to `most` nodes (eight at least) read one pool server or one appliance at once."""
    own = rate(place, "expansion-memory") * place.accelerators
    pools = {"pool server": device("ddr5-pool-8x400g").need("read_bytes_per_s"), "appliance": device("enfabrica-emfasys").need("read_bytes_per_s")}
    counts = sorted({*range(1, 9), *(round(max(most, 8) * k / 8) for k in range(1, 9)), most})
    rows = []
    for name, total in pools.items():
        for nodes in counts:
            each = min(own, total / nodes) / place.accelerators
            rows.append({"pool": name, "nodes": nodes, "rate": each, "load_s": tier("expansion-memory").fixed_s + 1e9 / each, "kind": "derived"})
    return pd.DataFrame(rows)


def reach_frame(place: Node) -> pd.DataFrame:
    """Return the time of one read against its size over four ways to memory outside the package: fixed latency plus bytes / rate for one accelerator."""
    ways = {
        "CXL module": (link("cxl2-x8").spec.need("latency_s"), link("cxl2-x8").read_bytes_per_s),
        "host link": (tier("main-memory").spec.need("latency_s"), rate(place, "main-memory")),
        "RDMA": (tier("expansion-memory").spec.need("latency_s"), rate(place, "expansion-memory")),
        "NVMe drive": (tier("context-storage").spec.need("latency_s"), rate(place, "context-storage")),
    }
    sizes = [2**k for k in range(9, 31)]
    return pd.DataFrame([{"way": name, "bytes": b, "seconds": fixed + b / speed, "kind": "derived"} for name, (fixed, speed) in ways.items() for b in sizes])
