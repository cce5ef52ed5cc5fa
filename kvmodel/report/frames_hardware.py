"""Tables of the hardware page: every spec as a row, each value with its kind, each row with its sources."""

from collections.abc import Sequence

import pandas as pd

from kvmodel.cards import Card
from kvmodel.hardware import accelerator, node, node_ids, spec, spec_ids
from kvmodel.report.record import load_sources
from kvmodel.specfile import Spec, shown
from kvmodel.tiers import narrowest, rate, room, tier, tier_ids

COLUMNS = {
    "accelerator": ("memory_bytes", "bandwidth_bytes_per_s", "bf16_flops", "fp8_flops", "latency_s", "power_w"),
    "node": ("accelerators", "host_memory_bytes", "host_bandwidth_bytes_per_s", "sockets", "nics", "drives"),
    "link": ("nominal_bytes_per_s", "measured_bytes_per_s", "measured_write_bytes_per_s", "latency_s"),
    "device": ("capacity_bytes", "read_bytes_per_s", "write_bytes_per_s", "latency_s", "endurance_dwpd", "power_w"),
}
SHORT = {"datasheet": "d", "vendor-claim": "v", "press": "p", "paper": "a", "measured": "m", "derived": "c", "estimate": "e", "assumption": "s"}
KINDS = "d data sheet, v vendor claim, p press, a paper, m measured, c computed from others, e estimate, s assumption"


def _heads(keys: Sequence[str]) -> dict[str, str]:
    words = (("_bytes_per_s", ""), ("_bytes", ""), ("_flops", " peak"), ("_s", ""), ("_w", ""), ("_dwpd", ""))
    out = {}
    for key in keys:
        ending, instead = next(((e, w) for e, w in words if key.endswith(e)), ("", ""))
        out[key] = key.removesuffix(ending).replace("_", " ") + instead
    return out


def spec_rows(kind: str, tier_id: str | None = None) -> pd.DataFrame:
    """Return the specs of one class (devices: of one tier) with their main values; a letter says what kind of statement each value is, see `KINDS`."""
    specs = [spec(i, kind) for i in spec_ids(kind)]
    heads = _heads(COLUMNS[kind])
    if kind == "link":
        heads["measured_bytes_per_s"] = "measured, to the accelerator"
        heads["measured_write_bytes_per_s"] = "measured, away from it"
    rows = []
    for s in specs:
        if tier_id is None or s.text["tier"] == tier_id:
            per = {"per": str(s.text["per"])} if "per" in s.text else {}
            values = {heads[k]: _cell(s, k) for k in heads}
            rows.append({"id": f"`{s.id}`", "name": s.name + (" (weak)" if s.text.get("weak") else "")} | per | values | {"sources": " ".join(s.sources)})
    return pd.DataFrame(rows)


def _cell(s: Spec, key: str) -> str:
    value = s.values.get(key)
    if value is None or value.value is None:
        return "–"
    return f"{shown(value.base, value.value)} {SHORT[value.kind]}"


def memory_rows(model: Card) -> pd.DataFrame:
    """Return both readings of accelerator memory, and the KV room that eight of them leave beside one copy of a model's BF16 weights."""
    rows = []
    for a in map(accelerator, spec_ids("accelerator")):
        other = a.memory_reported_bytes
        if other:
            room_of = [max(0, int(0.9 * 8 * b) - 2 * (model.params_total or 0)) for b in (a.memory_bytes, other)]
            more = f"{100 * (room_of[1] / room_of[0] - 1):.0f} %" if room_of[0] else "–"
            rows.append({
                "accelerator": a.spec.name, "marketed": shown("bytes", a.memory_bytes), "reported": shown("bytes", other),
                "KV room, marketed": shown("bytes", room_of[0]), "KV room, reported": shown("bytes", room_of[1]), "difference": more,
            })  # fmt: skip
    return pd.DataFrame(rows)


def path_rows(model: Card) -> pd.DataFrame:
    """Return, for each node, the rate from every tier to one accelerator while all load, and the KV room beside a model's weights."""
    rows = []
    for n in map(node, node_ids()):
        rates = {tier(t).name.lower(): shown("bytes_per_s", rate(n, t)) for t in tier_ids()}
        rows.append(
            {"node": f"`{n.id}`"} | rates | {"narrowest way to main memory": narrowest(n, "main-memory").name, "KV room": shown("bytes", room(n, model))}
        )
    return pd.DataFrame(rows)


def source_rows() -> pd.DataFrame:
    """Return the sources behind the specs: id, title with its address, producer, date, and the specs that use each."""
    known = load_sources()
    users: dict[str, list[str]] = {}
    for s in (spec(i, k) for k in COLUMNS for i in spec_ids(k)):
        for source in s.sources:
            users.setdefault(source, []).append(s.id)
    for t in map(tier, tier_ids()):
        for source in t.spec.sources:
            users.setdefault(source, []).append(t.id)
    rows = []
    for source, used in sorted(users.items()):
        entry = known[source]
        title = entry.title.replace("[", "(").replace("]", ")")
        link = f"[{title}]({entry.url})"
        rows.append({"source": f"`{source}`", "title": link, "producer": entry.producer, "published": entry.published, "specs": str(len(set(used)))})
    return pd.DataFrame(rows)
