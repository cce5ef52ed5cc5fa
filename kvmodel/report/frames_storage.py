"""Tables of numbers of the storage tiers: residence, endurance, refill, and what others published."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import pandas as pd

from kvmodel.cards import Card
from kvmodel.hardware import Node, device, devices, link
from kvmodel.movement import EFFICIENCY, recompute_s
from kvmodel.places import DATA
from kvmodel.report.frames_tiers import mark, recompute, tp_of
from kvmodel.specfile import Spec
from kvmodel.tiers import DAY, endurance_residence_s, narrowest, residence_s, tier, units_needed, write_budget_bytes_per_s
from kvmodel.units import KvError, format_bytes, format_seconds, significant


def residence_frame(drive: Spec, count: int) -> pd.DataFrame:
    """Return the residence in `count` drives that are overwritten oldest first, against the rate of writes, up to their full write speed."""
    capacity = drive.need("capacity_bytes") * count
    top = (drive.get("write_bytes_per_s") or drive.need("read_bytes_per_s")) * count
    rates = sorted({10 ** (k / 4) for k in range(28, 48) if 10 ** (k / 4) < top} | {top})
    return pd.DataFrame([{"name": "capacity / write rate", "write_rate": r, "seconds": residence_s(capacity, r), "kind": "derived"} for r in rates])


def shelf(place: Node, drive: Spec, count: int) -> dict[str, float]:
    """Return what `count` drives are together: capacity, write rate, full-speed fill time, write budget of the rating (0 without one), least residence.

    The least residence is that of the rating; without one, the fill time. A device that states no write rate is taken to write as it reads.
    """
    capacity = drive.need("capacity_bytes") * count
    write = (drive.get("write_bytes_per_s") or drive.need("read_bytes_per_s")) * count
    dwpd, fill = drive.get("endurance_dwpd"), residence_s(capacity, write)
    budget = write_budget_bytes_per_s(capacity, dwpd) if dwpd else 0.0
    least = endurance_residence_s(dwpd) if dwpd else fill
    return {
        "capacity": capacity,
        "write": write,
        "read": drive.need("read_bytes_per_s") * count,
        "count": count,
        "fill_s": fill,
        "budget": budget,
        "least_s": least,
    }


def shelf_load(place: Node, model: Card, context_tokens: int, kv_dtype: str, drives: Mapping[str, float]) -> dict[str, Any]:
    """Return the time to load one session from these drives in the node's slots, all accelerators loading at once, with its range and bottleneck."""
    slot, host = link(place.part("drive_slot").id).spec, place.accelerator.host_link
    slots = [v * drives["count"] / place.accelerators for v in _ends(slot)]
    own = drives["read"] / place.accelerators
    ways = {"the drives' own rate": (own, own, own), f"{slot.name}s": tuple(slots), host.spec.name: (host.read_bytes_per_s,) * 3}
    name, speeds = min(ways.items(), key=lambda w: w[1][0])
    low, high = (min(w[k] for w in ways.values()) for k in (1, 2))
    fixed, size = tier("context-storage").fixed_s, model.terms(kv_dtype, tp=tp_of(place)).stored(context_tokens)
    return {"value": fixed + size / speeds[0], "low": fixed + size / high, "high": fixed + size / low, "fixed_s": fixed, "rate": speeds[0], "bottleneck": name}


def lake_load(place: Node, model: Card, context_tokens: int, kv_dtype: str, drives: Mapping[str, float]) -> dict[str, Any]:
    """Return the time to load one session from a shared store of these drives, all of the node loading at once: as a client, or as fast as drives."""
    hop = narrowest(place, "data-lake")
    share = place.accelerators if hop.per == "node" else 1
    own = drives["read"] / place.accelerators
    name, speed = ("the drives' own rate", own) if own < hop.read / share else ("the way to the store", hop.read / share)
    fixed, size = tier("data-lake").fixed_s, model.terms(kv_dtype, tp=tp_of(place)).stored(context_tokens)
    low, high = (fixed + size / min(own, end / share) for end in (hop.high, hop.low))
    return {"value": fixed + size / speed, "low": low, "high": high, "fixed_s": fixed, "rate": speed, "bottleneck": name}


def _ends(slot: Spec) -> tuple[float, float, float]:
    value = slot.values.get("measured_bytes_per_s") or slot.values["nominal_bytes_per_s"]
    return (value.value or 0.0, *value.span)


def residence_marks(drives: Mapping[str, float]) -> pd.DataFrame:
    """Return the points of the residence line that matter: the write budget of the rating, and full write speed."""
    rows = [{"name": "full write speed", "write_rate": drives["write"], "seconds": drives["fill_s"], "kind": "mark"}]
    if drives["budget"]:
        rows.append({"name": "rating used up", "write_rate": drives["budget"], "seconds": drives["least_s"], "kind": "mark"})
    return pd.DataFrame(rows)


def prefill_write_frame(place: Node, models: list[Card], context_tokens: int, kv_dtype: str, capacity: float) -> pd.DataFrame:
    """Return the KV that all of a node makes if it only prefills, most first, and what that asks of drives of `capacity`: bytes/s and writes per day."""
    rows = []
    for m in models:
        try:
            seconds = [recompute_s(m, context_tokens, 0, place.accelerator, place.accelerators, share) for share in EFFICIENCY]
            stored = m.terms(kv_dtype).stored(context_tokens)
        except KvError:
            continue  # no sourced peak, no parameter count, or a format that this geometry cannot hold
        if stored:
            made = [stored / s for s in seconds]
            dwpd = made[0] * DAY / capacity
            row = {"name": m.id, "value": made[0], "low": made[1], "high": made[2], "dwpd": dwpd, "kind": "derived"}
            rows.append(row | {"label": f"{format_bytes(made[0])}/s, {significant(dwpd, 2)} DWPD"})
    columns = ["name", "value", "low", "high", "dwpd", "kind", "label"]
    return pd.DataFrame(rows, columns=columns).sort_values("value", ascending=False, kind="stable").reset_index(drop=True)


def drives_for(drive: Spec, slot_rate: float, needs: Sequence[float]) -> dict[str, list[int]]:
    """Return how many drives give each of `needs` bytes/s: by their own rate (`bare`) and as a slot passes it (`slotted`)."""
    own = drive.need("read_bytes_per_s")
    return {"bare": [units_needed(n, own) for n in needs], "slotted": [units_needed(n, min(own, slot_rate)) for n in needs]}


def zero_loss(place: Node, model: Card, context_tokens: int, kv_dtype: str, load: Mapping[str, Any], drives: Mapping[str, float]) -> str:
    """Return in words the three conditions for losing no throughput, with their numbers here: reads, writes, and work for a load to hide behind."""
    tp = tp_of(place)
    moved = tp * model.terms(kv_dtype, tp=tp).stored(context_tokens)
    reads = load["rate"] * place.accelerators / moved
    told = f"The drives deliver {significant(reads)} such sessions a second to the whole node"
    share = min(1.0, drives["budget"] / reads / moved)
    told += (
        f", and their rating pays for writing {significant(100 * share, 2)} % of each." if drives["budget"] else "; without a rating the writes have no bound."
    )
    again = recompute(place, model, context_tokens, kv_dtype)
    if not again:
        return f"{told} How long the work takes cannot be said here: a number of the model or of the platform has no source."
    ratio, batch = again / load["value"], 1_000
    busy = batch * load["value"] / recompute_s(model, batch, context_tokens, place.accelerator, tp)
    told += f" A load hides behind the prefill of {busy:,.0f} new tokens of other sessions like it."
    if ratio >= 1:
        return f"{told} Computing the same session again takes {significant(ratio, 2)} times as long as the load."
    return f"{told} A load takes {significant(1 / ratio, 2)} times as long as computing the session again: offloading to these drives would lose time."


def limits(drive: Spec, count: int, session_bytes: int, read: float) -> str:
    """Return in words what power and price say of `count` drives that read `read` bytes/s each in their slots."""
    power, capacity = drive.get("power_w"), drive.need("capacity_bytes")
    each = significant(power / capacity * 1e12, 2) if power else ""
    watt = (
        f"{count:,} x {drive.id} draw{'s' * (count == 1)} {significant(power * count)} W, {each} W for a TB" if power else f"No power of {drive.id} was found"
    )
    (flash, when, _), (dram, then, _) = price("tlc-gb-2026-q1"), price("rdimm64-gb-2026-q1")
    cost = f"TLC flash cost {flash:.3g} USD per GB ({when}), DRAM {dram:.3g} ({then}), {significant(dram / flash, 2)} times as much"
    mine = f"one session here takes {significant(session_bytes / 1e9 * flash, 2)} USD of flash"
    return f"{watt}. By press reports {cost}; {mine}. In its slot one drive reads {format_bytes(read)}/s."


def refill_frame(amount: float) -> pd.DataFrame:
    """Return the time to restore `amount` bytes at published rates: one client of an object store, one drive of each kind, a tuned flash store."""
    rates = {
        "cloud store, one client": device("object-store-coreweave"),
        "one nearline disk": device("nearline-hdd"),
        "one QLC drive": device("micron-6600-ion-245"),
        "flash store, 8 clients": device("object-store-flash-24pb"),
    }
    rows = []
    for name, d in rates.items():
        v = d.values["read_bytes_per_s"]
        low, high = v.span
        value = amount / d.need("read_bytes_per_s")
        rows.append(
            {
                "name": name,
                "value": value,
                "low": amount / high,
                "high": amount / low,
                "rate": d.need("read_bytes_per_s"),
                "kind": mark(v.kind),
                "label": format_seconds(value),
            }
        )
    return pd.DataFrame(rows)


def store_frame(amount: float) -> pd.DataFrame:
    """Return how many drives hold `amount` bytes, what they read and write together, and their power where it is stated."""
    rows = []
    for d in devices("data-lake"):
        if d.text["per"] == "drive":
            n = units_needed(amount, d.need("capacity_bytes"))
            write, power = d.get("write_bytes_per_s"), d.get("power_w")
            rows.append({
                "name": d.name, "drives": n, "read": n * d.need("read_bytes_per_s"), "write": n * write if write else None,
                "power": n * power if power else None, "fill_s": amount / (n * write) if write else None,
            })  # fmt: skip
    return pd.DataFrame(rows).sort_values("drives", kind="stable").reset_index(drop=True)


@cache
def prices() -> pd.DataFrame:
    """Return the dated price rows of `data/prices.csv`, by id."""
    return pd.read_csv(DATA / "prices.csv", keep_default_na=False).set_index("id")


def price(price_id: str) -> tuple[float, str, str]:
    """Return value, date and source of one price row."""
    row = prices().loc[price_id].to_dict()
    return float(row["value"]), str(row["date"]), str(row["source"])


def tests_frame() -> pd.DataFrame:
    """Return published throughput with KV offload against the same system without, in per cent: worst first. Pairs of rates become a change here."""
    rows = pd.read_csv(DATA / "kv_offload_tests.csv")
    change = rows["value"].where(rows["unit"] == "%", (rows["value"] / rows["baseline"] - 1) * 100)
    out = rows.assign(value=change, kind=rows["kind"].map(mark), label=[f"{v:+.0f} %" for v in change])
    return out.sort_values("value", kind="stable").reset_index(drop=True)[["name", "tiers", "value", "kind", "label", "source", "condition"]]


def benchmark_frame() -> pd.DataFrame:
    """Return the read rates of whole systems in a KV benchmark, three options each, and the best for one client [GB/s]."""
    rows = pd.read_csv(DATA / "kv_storage_reads.csv")
    best = rows[["option_1", "option_2", "option_3"]].max(axis=1) / rows["clients"]
    shown = rows[["system", "clients", "option_1", "option_2", "option_3"]].rename(columns=lambda c: c.replace("_", " "))
    return shown.assign(**{"best, each client": [float(significant(b)) for b in best]})


def store_prices(session_bytes: float) -> pd.DataFrame:
    """Return what a byte and one session cost in each kind of store, and its time to the first byte. Storage classes are rented by the month."""
    stores = {
        "nearline disk": ("hdd-gb-2026-q1", "nearline-hdd", ""),
        "TLC flash": ("tlc-gb-2026-q1", "micron-9550-max", ""),
        "object storage, standard": ("s3-standard-month", "s3-standard", " a month"),
        "object storage, fast": ("s3-express-month", "s3-express", " a month"),
    }
    rows = []
    for name, (row, device_id, term) in stores.items():
        usd, when, _ = price(row)
        low, high = device(device_id).values["latency_s"].span
        wait = format_seconds(low) if low == high else f"{format_seconds(low)} to {format_seconds(high)}"
        cost = f"{significant(usd * session_bytes / 1e9, 2)} USD{term}"
        rows.append({"store": name, "price per GB": f"{usd:.3g} USD{term}", "date": when, "one session here": cost, "first byte": wait})
    return pd.DataFrame(rows)
