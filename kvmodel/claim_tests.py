"""The tests of the claims ledger: each takes the inputs of a record and returns our number, by the package's own functions."""

import csv
import math
from collections.abc import Callable
from functools import cache

from kvmodel import demand, drivers, growth
from kvmodel.cards import find_model
from kvmodel.claims import Outcome, Reading, cell
from kvmodel.hardware import accelerator, device, node, spec_ids
from kvmodel.movement import race
from kvmodel.placement import Sessions, pyramids
from kvmodel.places import DATA
from kvmodel.sizing import fit, kv_bytes
from kvmodel.tier_checks import checks, reading
from kvmodel.tiers import USABLE, capacity_bytes, endurance_residence_s, rate, tier
from kvmodel.units import KvError


def printed_formula(model: str, heads: str) -> Outcome:
    """The printed formula over the right one: layers x heads x head dim x tokens x bytes, with KV heads or query heads."""
    group = max(find_model(model).groups, key=lambda g: g.count)
    parts = {v.role: v for s in group.stores for v in s.entry}
    if "key" not in parts:
        raise KvError(f"model: {model} stores no keys and values by head; accepted: a model with full attention")
    right = sum(v.heads * v.width for v in parts.values())
    count = parts["key"].heads if heads == "KV heads" else group.work.query_heads
    readings = tuple(
        Reading(f"with {name}", n * parts["key"].width / right, "x") for name, n in (("KV heads", parts["key"].heads), ("query heads", group.work.query_heads))
    )
    return Outcome(count * parts["key"].width / right, readings=readings, note="the printed formula leaves out the factor 2 for K and V")


def request_bytes(model: str, context_tokens: int, kv_dtype: str) -> Outcome:
    """KV of one request."""
    return Outcome(float(kv_bytes(find_model(model), context_tokens, kv_dtype=kv_dtype)))


def system_bytes(model: str, context_tokens: int, kv_dtype: str, weights_dtype: str) -> Outcome:
    """KV of one user and one copy of the weights: what one system must hold; with the readings that others may have meant."""
    m = find_model(model)
    kv = float(kv_bytes(m, context_tokens, kv_dtype=kv_dtype))
    weights = fit(m, 1, context_tokens=1, weights_dtype=weights_dtype)["weights_bytes"]
    group = max(m.groups, key=lambda g: g.count)
    heads, width, layers = group.work.query_heads, group.work.qk_width, len(m.layers)
    printed = layers * heads * width * context_tokens
    readings = (
        Reading("KV alone", kv, "bytes"),
        Reading("KV and weights", kv + weights, "bytes"),
        Reading(f"printed formula, all {heads} attention heads, one byte per element", float(printed), "bytes"),
        Reading(f"K and V of all {heads} attention heads, two bytes per element", 4.0 * printed, "bytes"),
    )
    return Outcome(kv + weights, readings=readings, note="the article states neither format nor head count: what it meant cannot be told")


def dozens_bytes(model: str, context_tokens: int, kv_dtype: str, least_users: int, most_users: int) -> Outcome:
    """KV of dozens of users on one deployment."""
    low, high = (float(kv_bytes(find_model(model), context_tokens, n, kv_dtype=kv_dtype)) for n in (least_users, most_users))
    return Outcome(math.sqrt(low * high), low, high)


def servers_factor(model: str, context_tokens: int, servers: int) -> Outcome:
    """KV of several servers, each with as many users, over that of one: users add up and nothing more."""
    m = find_model(model)
    return Outcome(kv_bytes(m, context_tokens, servers) / kv_bytes(m, context_tokens))


def reasoning(quantile: float) -> Outcome:
    """Tokens generated over tokens returned, per request of DeepSeek-R1 in production."""
    m = demand.reasoning_multiplier()
    memory = demand.end_multiplier(*drivers.reasoning_request())
    readings = (Reading("share of requests inside 3 to 10", m.share(3, 10), "share"), Reading("KV at the end of a request", memory, "x"))
    return Outcome(m.quantile(quantile), m.quantile(0.1), m.quantile(0.9), readings=readings, note="KV rises less: the prompt is cached too")


def node_hbm(platform: str) -> Outcome:
    """HBM of a node; and of the largest package with HBM3E, which is the other reading of the number."""
    place = node(platform)
    packages = [accelerator(i) for i in spec_ids("accelerator")]
    largest = max(a.memory_bytes for a in packages if a.spec.text["memory"] == "hbm3e" and not a.spec.text.get("weak"))
    return Outcome(float(place.accelerators * place.accelerator.memory_bytes), other=float(largest), note="288 GB is one package, not one node")


@cache
def _shares() -> list[dict[str, str]]:
    with (DATA / "inference_share.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def published_share(year: int, publisher: str) -> Outcome:
    """Inference share of AI compute that a publisher states for a year; with `any`, the middle of all."""
    rows = [r for r in _shares() if r["year"] == str(year) and r["kind"] in ("estimate", "forecast") and publisher in (r["publisher"], "any")]
    if not rows:
        raise KvError(f"publisher: {publisher!r} is not accepted; accepted: a publisher of data/inference_share.csv with a value for {year}")
    values = [(float(r["low"] or r["value"]), float(r["high"] or r["value"])) for r in rows]
    low, high = min(v[0] for v in values), max(v[1] for v in values)
    return Outcome((low + high) / 2, low, high, readings=tuple(Reading(r["publisher"], float(r["value"] or r["low"]), "share") for r in rows))


def window_growth(rule: str, start: str, end: str, top_k: int) -> Outcome:
    """Growth of frontier context windows, times a year, by a rule over a range of dates."""
    f = growth.fit(growth.windows(), rule, start, end, top_k)
    readings = (
        Reading("from 128K to 1M in two years", (1_000_000 / 128_000) ** 0.5, "times a year"),
        Reading("Claude 1 to Llama 4 Scout, 9K to 10M", _between(9_000, "2023-03-14", 10**7, "2025-04-05"), "times a year"),
    )
    return Outcome(f.per_year, f.low, f.high, readings=readings)


def _between(first: int, start: str, last: int, end: str) -> float:
    from datetime import date

    years = (date.fromisoformat(end) - date.fromisoformat(start)).days / 365.25
    return float((last / first) ** (1 / years))


def window_growth_low(rule: str, start: str, end: str, top_k: int, pool: str) -> Outcome:
    """Lower end of the interval of that growth: above 1, windows are still growing beyond doubt."""
    f = growth.fit(growth.windows(), rule, start, end, top_k, pool=pool)
    return Outcome(f.low, readings=(Reading("best estimate", f.per_year, "times a year"),))


def agent_context(baseline: str) -> Outcome:
    """Tokens in an agent's request over those in a chat request of a baseline."""
    agent = demand.inputs()["agent_tokens_2025"].value
    means = drivers.chat_means()
    readings = tuple(Reading(f"against {name}", agent / mean, "x") for name, mean in means.items())
    return Outcome(agent / means[baseline], min(r.value for r in readings), max(r.value for r in readings), readings=readings)


def tier_check(id: str, model: str, platform: str, per: str = "accelerator", write_share: float = 1.0) -> Outcome:
    """One cell of the tier table, for one node and one denominator; and the range of the devices that the tier names."""
    c = next(c for c in checks(find_model(model)) if c.id == id)
    value = reading(*cell(id), node(platform), find_model(model), per=per, write_share=write_share)
    readings = [Reading(f"devices, per {c.per}, {end}", v, c.unit) for end, v in (("low", c.ours_low), ("high", c.ours_high))]
    if id == "tier-4-time":
        rated = device(node(platform).part("drive").id).get("endurance_dwpd")
        readings += [Reading("written at the drives' rating", endurance_residence_s(rated), "s")] if rated else []
    if id == "tier-5-bandwidth":
        readings.append(Reading("one drive of the family named", device("micron-6600-ion-245").need("read_bytes_per_s"), c.unit))
    return Outcome(value, readings=tuple(readings), note=f"range of the devices: {c.basis}")


def fastest_package(memory: str) -> Outcome:
    """Highest bandwidth of an accelerator package with this memory."""
    found = [accelerator(i) for i in spec_ids("accelerator")]
    sure = [a.bandwidth_bytes_per_s for a in found if a.spec.text["memory"] == memory and not a.spec.text.get("weak")]
    return Outcome(max(sure))


def weights_share(model: str, platform: str, weights_dtype: str) -> Outcome:
    """Share of a node's HBM that one copy of the weights takes."""
    place = node(platform)
    hbm = place.accelerators * place.accelerator.memory_bytes
    return Outcome(fit(find_model(model), hbm, context_tokens=1, weights_dtype=weights_dtype)["weights_bytes"] / hbm)


def kv_share(model: str, platform: str, weights_dtype: str) -> Outcome:
    """Share of usable HBM that is left for KV on a full node, one copy of the weights per eight accelerators."""
    place = node(platform)
    tp = min(8, place.accelerators)
    usable = USABLE * tp * place.accelerator.memory_bytes
    left = fit(find_model(model), tp * place.accelerator.memory_bytes, context_tokens=1, tp=tp, usable=USABLE, weights_dtype=weights_dtype)["kv_budget_bytes"]
    return Outcome(left / usable)


def load_speedup(model: str, context_tokens: int, platform: str, tier: str, kv_dtype: str) -> Outcome:
    """Time to recompute a whole history over the time to load it; the same in accelerator-seconds, since both occupy the same accelerators."""
    place = node(platform)
    r = race(find_model(model), context_tokens, tier, place, tp=min(8, place.accelerators), kv_dtype=kv_dtype)
    readings = (Reading("load", r.load_s, "s"), Reading("recompute", r.recompute_s, "s"), Reading("recompute", r.recompute_accelerator_s, "accelerator-s"))
    return Outcome(r.speedup, r.recompute_low_s / r.load_s, r.recompute_high_s / r.load_s, readings=readings)


def sweep_ms(model: str, context_tokens: int, platform: str, kv_dtype: str) -> Outcome:
    """Time to read one user's KV once from near memory: what every decoded token waits for [ms]; and from host memory."""
    place = node(platform)
    tp = min(8, place.accelerators)
    per_device = find_model(model).terms(kv_dtype, tp=tp).stored(context_tokens)
    far = tier("main-memory").fixed_s + per_device / rate(place, "main-memory")
    return Outcome(per_device / place.accelerator.bandwidth_bytes_per_s * 1e3, readings=(Reading("one load from main memory", far * 1e3, "ms"),))


def doubling(model: str, context_tokens: int, kv_dtype: str) -> Outcome:
    """KV when tokens and users both double, over KV before."""
    m = find_model(model)
    base = kv_bytes(m, context_tokens, 100, kv_dtype=kv_dtype)
    one = kv_bytes(m, 2 * context_tokens, 100, kv_dtype=kv_dtype) / base
    return Outcome(
        kv_bytes(m, 2 * context_tokens, 200, kv_dtype=kv_dtype) / base,
        readings=(Reading("tokens alone double", one, "x"),),
        note="factors multiply; each alone is linear, nothing is exponential",
    )


def lake_bytes(platform: str) -> Outcome:
    """A published flash store, whole: eight clients' shares."""
    from kvmodel.tiers import LAKE_CLIENTS

    return Outcome(float(capacity_bytes(node(platform), "data-lake") * LAKE_CLIENTS))


def dram_over_hbm(platform: str) -> Outcome:
    """Host DRAM over HBM, per accelerator."""
    place = node(platform)
    return Outcome(place.host_memory_bytes / (place.accelerators * place.accelerator.memory_bytes))


def price_rank(when: str) -> Outcome:
    """USD per GB of HBM over that of the dearest other memory of the pyramid, at the last dated prices up to a month; forecasts left out."""
    with (DATA / "prices.csv").open(encoding="utf-8", newline="") as file:
        rows = [r for r in csv.DictReader(file) if r["unit"] == "USD/GB" and r["kind"] != "forecast" and r["date"] <= when]
    last = {
        group: max((r for r in rows if r["id"].startswith(group)), key=lambda r: r["date"], default=None)
        for group in ("hbm3e-gb", "rdimm64-gb", "tlc-gb", "hdd-gb")
    }
    prices = {group: float(r["value"]) for group, r in last.items() if r}
    others = {g: p for g, p in prices.items() if g != "hbm3e-gb"}
    if "hbm3e-gb" not in prices or not others:
        raise KvError(f"when: {when!r} is not accepted; accepted: a month with a price of HBM and of another memory")
    readings = tuple(Reading(f"{g} ({last[g]['date']})", p, "USD/GB") for g, p in prices.items())  # type: ignore[index]
    return Outcome(prices["hbm3e-gb"] / max(others.values()), readings=readings, note="on stack and module prices; different buyers and dates")


def tiers_needed(model: str, platform: str, kv_dtype: str) -> Outcome:
    """Tiers in the least pyramid that serves a fleet of agents and chat: accelerators of nodes and of recomputation counted."""
    fleet = [Sessions("agent", 500, 120_000, 4_500, 10.0, demand.agent_use().gaps), Sessions("chat", 5_000, 8_000, 700, 15.0, ((60.0, 0.72), (math.inf, 0.28)))]
    place = node(platform)
    found = pyramids(find_model(model), fleet, place, tp=min(8, place.accelerators), kv_dtype=kv_dtype)
    needs = {p.tiers: p.nodes * place.accelerators + p.recompute_accelerators for p in found}
    alone = needs[("near-memory",)]
    readings = (
        Reading("accelerators, least pyramid", needs[found[0].tiers], "accelerators"),
        Reading("accelerators, near memory alone", alone, "accelerators"),
    )
    return Outcome(float(len(found[0].tiers)), readings=readings, note=f"500 agents and 5,000 chats; least: {' + '.join(found[0].tiers)}")


def native_kv_growth(per: str, since: str) -> Outcome:
    """Growth of KV at the full native window over models released since a date, times a year: above 1, windows outran the cuts per token."""
    from kvmodel.architecture import trend

    found, every = trend(per, since=since), trend(per)
    readings = (
        Reading("over all released models with a sourced date", every.per_year, "times a year"),
        Reading("lower end of its interval", every.low, "times a year"),
    )
    return Outcome(found.per_year, found.low, found.high, readings=readings, note="windows that are offered stand in for KV that is held")


TESTS: dict[str, Callable[..., Outcome]] = {
    f.__name__: f
    for f in (
        printed_formula, request_bytes, system_bytes, dozens_bytes, servers_factor, reasoning, node_hbm, published_share, window_growth, window_growth_low,
        agent_context, tier_check, fastest_package, weights_share, kv_share, load_speedup, sweep_ms, doubling, lake_bytes, dram_over_hbm, price_rank,
        tiers_needed, native_kv_growth,
    )
}  # fmt: skip
