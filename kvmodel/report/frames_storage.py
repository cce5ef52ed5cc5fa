"""Tables of numbers of the storage tiers: residence, endurance, refill, and what others published."""

from functools import cache
from pathlib import Path

import pandas as pd

from kvmodel.cards import Card
from kvmodel.hardware import Node, device, devices
from kvmodel.movement import prefill_flops
from kvmodel.report.frames_tiers import mark
from kvmodel.specfile import Spec
from kvmodel.tiers import endurance_residence_s, residence_s, units_needed, write_budget_bytes_per_s
from kvmodel.units import KvError, format_bytes, format_seconds, significant

DATA = Path(__file__).parents[2] / "data"


def residence_frame(drive: Spec, count: int) -> pd.DataFrame:
    """Return the residence in `count` drives that are overwritten oldest first, against the rate of writes, up to their full write speed."""
    capacity = drive.need("capacity_bytes") * count
    top = (drive.get("write_bytes_per_s") or drive.need("read_bytes_per_s")) * count
    rates = sorted({10 ** (k / 4) for k in range(28, 48) if 10 ** (k / 4) < top} | {top})
    return pd.DataFrame([{"name": f"{count} x {drive.id}", "write_rate": r, "seconds": residence_s(capacity, r), "kind": "derived"} for r in rates])


def endurance_frame(count: int) -> pd.DataFrame:
    """Return, for each rated drive of tiers 4 and 5, the least residence, the write budget of `count` drives and the time to fill them at full speed."""
    rows = []
    for d in devices():
        for key, pattern in (("endurance_dwpd", "random"), ("sequential_dwpd", "sequential")):
            dwpd, capacity, write = d.get(key), d.get("capacity_bytes"), d.get("write_bytes_per_s")
            if dwpd and capacity:
                least = endurance_residence_s(dwpd)
                fill = residence_s(capacity, write) if write else None
                budget = write_budget_bytes_per_s(capacity * count, dwpd)
                row = {"name": f"{d.name}, {pattern}", "dwpd": dwpd, "value": least, "low": fill, "high": least, "budget": budget}
                rows.append(row | {"kind": "derived", "label": format_seconds(least)})
    return pd.DataFrame(rows).sort_values("value", kind="stable").reset_index(drop=True)


def prefill_write_frame(place: Node, models: list[Card], context_tokens: int, kv_dtype: str, efficiency: float) -> pd.DataFrame:
    """Return the KV that prefill makes on all of a node without pause, and what that asks of its drives: bytes/s and drive writes per day."""
    rows = []
    drives = device(place.part("drive").id).need("capacity_bytes") * place.drives
    peak = place.accelerator.bf16_flops
    for m in models:
        try:
            seconds = prefill_flops(m, context_tokens) / (place.accelerators * (peak or 0) * efficiency) if peak else 0.0
        except KvError:
            continue
        if seconds:
            made = m.terms(kv_dtype).stored(context_tokens) / seconds
            rows.append(
                {
                    "name": m.id,
                    "value": made,
                    "low": made,
                    "high": made,
                    "dwpd": made * 86400 / drives,
                    "kind": "derived",
                    "label": f"{format_bytes(made)}/s, {significant(made * 86400 / drives, 2)} DWPD",
                }
            )
    return pd.DataFrame(rows, columns=["name", "value", "low", "high", "dwpd", "kind", "label"])


def refill_frame(amount: float) -> pd.DataFrame:
    """Return the time to restore `amount` bytes at published rates: one client of an object store, one drive of each kind, a tuned flash store."""
    rates = {
        "one client node, cloud object store": device("object-store-coreweave"),
        "one nearline disk": device("nearline-hdd"),
        "one QLC drive": device("micron-6600-ion-245"),
        "a flash store, eight client nodes": device("object-store-flash-24pb"),
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
