"""Tables of numbers of the reuse chapter: the published traces replayed, and the offload rules that users trip over."""

from array import array
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kvmodel import card, size
from kvmodel.cards import Card
from kvmodel.hardware import Node, device
from kvmodel.lru import LruStack
from kvmodel.movement import EFFICIENCY, race, recompute_s
from kvmodel.places import DATA
from kvmodel.reuse import LIFETIMES, Replay, block_bytes, pinned_bytes, replay, tokens_by_group
from kvmodel.sessions import Shape, hits_by_capacity, kept_by_lifetime, read_sessions, residence, shape
from kvmodel.tiers import capacity_bytes, rate, room, tier, tier_ids, write_budget_bytes_per_s
from kvmodel.traces import PUBLISHED, Request, open_trace, spread_sessions
from kvmodel.units import KvError, format_bytes, format_seconds, significant

GRID = tuple(sorted({*LIFETIMES, *(float(t) for t in np.geomspace(1, 259_200, 80))}))
SPREAD_HOURS, SEEDS = 8, (1, 2, 3)  # starts of coding sessions are not in the file


@dataclass(frozen=True, slots=True)
class Case:
    """A published trace, replayed."""

    name: str
    block_tokens: int
    source: str
    lengths: Shape
    seconds: float
    replay: Replay

    @property
    def ratio(self) -> float:
        """Share of prompt blocks that an unlimited cache finds."""
        return self.replay.ratio(self.replay.hits()) or 0.0

    def blocks_for(self, share: float) -> int:
        """The least LRU capacity in blocks that finds this share of what an unlimited cache finds."""
        return int(np.searchsorted(self.replay.curve, share * self.replay.hits()))


def folder() -> Path:
    """Return where the traces are."""
    return DATA / "traces"


_tiers_of: dict[str, tuple[int, ...]] = {}  # capacities that `cascade` asked for, so that one pass over a trace answers everything


def case(name: str) -> Case:
    """Return a published trace, replayed with the chapter's lifetimes (and through tiers, if `cascade` came first)."""
    return _replayed(name, _tiers_of.get(name, ()))


@cache
def _replayed(name: str, tiers: tuple[int, ...]) -> Case:
    file, block_tokens, source = PUBLISHED[name]
    path = folder() / file
    given: list[int] = []
    made: list[int] = []
    ends = [0.0]

    def watched() -> Any:
        for r in spread_sessions(path, SPREAD_HOURS, SEEDS[0]) if name == "coding-agent" else open_trace(path):
            given.append(r.input_tokens)
            made.append(r.output_tokens)
            ends[0] = r.seconds
            yield r

    done = replay(watched(), lifetimes=GRID, tiers=tiers)
    return Case(name, block_tokens, source, shape(given, made), ends[0], done)


def trace_rows() -> pd.DataFrame:
    """Return what the traces are, side by side."""
    rows = []
    for c in map(case, PUBLISHED):
        r, lengths = c.replay, c.lengths
        rows.append({
            "trace": c.name, "span": format_seconds(c.seconds, digits=2), "requests": f"{r.requests:,}", "mean input": f"{lengths.mean_input:,.0f}",
            "mean output": f"{lengths.mean_output:,.0f}", "block": str(c.block_tokens), "references": f"{r.block_references:,}",
            "unique": f"{r.unique_blocks:,}", "found": f"{100 * c.ratio:.1f} %",
        })  # fmt: skip
    return pd.DataFrame(rows)


def example() -> tuple[pd.DataFrame, Replay]:
    """Return four short prompts with the depth of each block before its request, and their replay: the worked case."""
    prompts, stack, rows = [[0, 1, 2], [3, 4], [0, 1, 5], [0, 1, 2]], LruStack(), []
    for n, blocks in enumerate(prompts):
        uses = stack.use(np.array(blocks), np.array([0, len(blocks)]), np.array([10.0 * n]))
        depths = [str(d) if d else "new" for d in uses.depth]
        needed = [str(d) if d else "–" for d in uses.needed_depth]
        letters = " ".join("ABCDEF"[b] for b in blocks)
        rows.append({"prompt": n + 1, "blocks": letters, "depth before": ", ".join(depths), "hit from capacity": ", ".join(needed)})
    return pd.DataFrame(rows), replay([Request(0, 0, 0, array("q", b)) for b in prompts])


def retention() -> tuple[dict[str, float], dict[str, float], float]:
    """Return what keeping coding-agent contexts for an hour and for a day finds and recomputes, and the share of the hour's recomputing that a day saves."""
    lives: dict[Any, Any] = kept_by_lifetime(sessions()).set_index("lifetime_s").to_dict("index")
    hour, day = lives[3_600.0], lives[86_400.0]
    return hour, day, 1 - day["recomputed_against_unlimited"] / hour["recomputed_against_unlimited"]


@cache
def mean_over_requests(name: str) -> float:
    """Return the mean over requests of the share of prompt blocks found, where `Case.ratio` is the share of all blocks."""
    seen: set[int] = set()
    shares = []
    for request in open_trace(folder() / PUBLISHED[name][0]):
        lead = next((i for i, b in enumerate(request.blocks) if b not in seen), len(request.blocks))
        seen.update(request.blocks)
        shares.append(lead / len(request.blocks) if len(request.blocks) else 1.0)
    return float(np.mean(shares))


def printed_rows() -> pd.DataFrame:
    """Return what the Mooncake paper prints beside what its published traces give here."""
    chat, made = case("chat"), case("synthetic")
    three, fifty = 3_000_000, 50_000_000

    def share(c: Case, tokens: int) -> str:
        return f"{100 * c.replay.hits(tokens // c.block_tokens) / c.replay.hits():.1f} % of the most"

    rows = [
        ("Table 2, cache ratio, conversation", "40 %", f"{100 * chat.ratio:.1f} %"),
        ("Table 2, cache ratio, synthetic", "66 %", f"{100 * made.ratio:.1f} %"),
        ("Figure 9, 3M tokens", "48 % of the most", f"{share(made, three)} (synthetic), {share(chat, three)} (conversation)"),
        ("Figure 9, 50M tokens", "nearly the most", f"{share(made, fifty)} (synthetic), {share(chat, fifty)} (conversation)"),
    ]
    return pd.DataFrame(rows, columns=["where", "printed", "here"])


def curve_rows(model: Card, kv_dtype: str) -> pd.DataFrame:
    """Return hit ratio by LRU capacity: one row per trace and capacity; `capacity_bytes` is missing where the model keeps no growing bytes."""
    rows = []
    for c in map(case, PUBLISHED):
        per_block = bytes_of_block(model, c.block_tokens, kv_dtype)
        for blocks in sorted({int(b) for b in np.geomspace(30, c.replay.unique_blocks, 45)}):
            rows.append({
                "trace": c.name, "capacity_blocks": blocks, "capacity_tokens": blocks * c.block_tokens,
                "capacity_bytes": blocks * per_block if per_block else None, "hit_percent": 100 * (c.replay.ratio(c.replay.hits(blocks)) or 0.0),
            })  # fmt: skip
    return pd.DataFrame(rows)


def bytes_of_block(model: Card, block_tokens: int, kv_dtype: str) -> int | None:
    """Return bytes per block, None for a model that keeps nothing that grows."""
    try:
        return block_bytes(model, block_tokens, kv_dtype)
    except KvError:
        return None


def lifetime_rows() -> pd.DataFrame:
    """Return hit ratio by lifetime after last use, per trace up to its own span (longer lives change nothing that it can show)."""
    rows = [
        {"trace": c.name, "lifetime_s": t, "hit_percent": 100 * (c.replay.ratio(n) or 0.0)}
        for c in map(case, PUBLISHED)
        for t, n in zip(c.replay.lifetimes, c.replay.lifetime_hits)
        if t <= 1.05 * c.seconds
    ]
    return pd.DataFrame(rows)


@cache
def sessions() -> pd.DataFrame:
    """Return the coding-agent sessions, one row per request."""
    return read_sessions(folder() / PUBLISHED["coding-agent"][0])


def context_lifetimes() -> pd.DataFrame:
    """Return what keeping whole contexts of coding agents for a time finds, and recomputes, in words."""
    found = kept_by_lifetime(sessions())
    words = found["lifetime_s"].map(lambda t: format_seconds(t))
    again = found["recomputed_against_unlimited"].map(lambda x: f"{x:.2f}")
    return pd.DataFrame({"kept after last use": words, "found": found["hit_ratio"].map(lambda x: f"{100 * x:.2f}"), "recomputed": again})


def residence_rows() -> pd.DataFrame:
    """Return the shares of time that contexts of coding agents are held active and idle, by length of idling."""
    shares = residence(sessions())
    return pd.DataFrame({"state": [s if s == "active" else f"idle {s}" for s in shares.index], "percent": 100 * shares.to_numpy()})


def context_capacity() -> list[tuple[int, float, float]]:
    """Return (tokens, least, most over the seeds): share of the unlimited hits that an LRU cache of whole contexts finds."""
    sizes = [10**6, 3 * 10**6, 10**7, 3 * 10**7]
    runs = [hits_by_capacity(sessions(), sizes, hours=SPREAD_HOURS, seed=s) for s in SEEDS]
    return [(n, min(r[i] for r in runs), max(r[i] for r in runs)) for i, n in enumerate(sizes)]


def cascade(name: str, model: Card, kv_dtype: str, place: Node) -> pd.DataFrame | None:
    """Return what each tier of one node serves of a trace; None for a model without growing bytes.

    Near memory is what weights leave; the other tiers are the node's. `read_s` is the time to read a tier's hits with all accelerators at once, and
    `p10_s` to `p90_s` say how long blocks waited in it before they were used again.
    """
    block_tokens = PUBLISHED[name][1]
    per_block = bytes_of_block(model, block_tokens, kv_dtype)
    if per_block is None:
        return None
    sizes = {t: _room(place, model) if t == "near-memory" else capacity_bytes(place, t) for t in tier_ids()}
    _tiers_of[name] = tuple(n // per_block for n in sizes.values())
    done = case(name).replay
    rows = []
    for (tier_id, held), served in zip(sizes.items(), done.tiers):
        low, high = tier(tier_id).article("time_scale").span
        moved = served.hit_blocks * per_block
        rows.append({
            "tier": tier(tier_id).name, "rank": tier(tier_id).rank, "capacity_bytes": held, "capacity_blocks": served.capacity_blocks,
            "hit_blocks": served.hit_blocks, "hit_percent": 100 * (done.ratio(served.hit_blocks) or 0.0), "read_bytes": moved,
            "read_s": moved / (place.accelerators * rate(place, tier_id)), "p10_s": served.wait(0.1), "p50_s": served.wait(0.5), "p90_s": served.wait(0.9),
            "article_low_s": low, "article_high_s": high,
        })  # fmt: skip
    return pd.DataFrame(rows)


def cascade_words(tiers: pd.DataFrame) -> pd.DataFrame:
    """Return `cascade` in words, with the article's time scale and whether half of the waits end inside it."""
    rows = []
    for t in tiers.to_dict("records"):
        half = None if pd.isna(t["p50_s"]) else float(t["p50_s"])
        inside = "–" if half is None else "shorter" if half < t["article_low_s"] else "longer" if half > t["article_high_s"] else "inside"
        rows.append({
            "tier": f"{t['tier']} ({t['rank']})", "capacity": format_bytes(t["capacity_bytes"]), "blocks": f"{t['capacity_blocks']:,}",
            "found": f"{t['hit_percent']:.2f}", "read": format_bytes(t["read_bytes"]), "reading takes": format_seconds(t["read_s"], digits=2),
            "half wait at most": "–" if half is None else format_seconds(half, digits=2), "article": words_of(t["tier"]), "half is": inside,
        })  # fmt: skip
    return pd.DataFrame(rows)


def words_of(tier_name: str) -> str:
    """Return the article's time scale of a tier in its words."""
    return next(tier(i).article("time_scale").words for i in tier_ids() if tier(i).name == tier_name)


def _room(place: Node, model: Card) -> int:
    try:
        return room(place, model)
    except KvError:  # no count of weights on the card: the whole memory, and the page says so
        return capacity_bytes(place, "near-memory")


def saved(name: str, model: Card, place: Node, tiers: pd.DataFrame) -> dict[str, float] | str:
    """Return accelerator-seconds of the hits: recomputed (with its range) and loaded from the tiers below near memory; or why there are none to give.

    Recomputing is counted at the rate of a prompt of the trace's mean length, an estimate: attention makes long prompts dearer per token than short ones.
    """
    length, tokens = round(case(name).lengths.mean_input), int(tiers["hit_blocks"].sum()) * PUBLISHED[name][1]
    try:
        base, low, high = (tokens / length * recompute_s(model, length, 0, place.accelerator, 1, e) for e in EFFICIENCY)
    except KvError as error:
        return str(error)
    loaded = float(tiers.loc[tiers["rank"] > 1, "read_s"].sum()) * place.accelerators
    return {"tokens": tokens, "recompute": base, "recompute_high": low, "recompute_low": high, "load": loaded}


def truths(place: Node) -> pd.DataFrame:
    """Return the rules of offloading that users trip over, each with one case computed here."""
    mla = size(card("deepseek-v3"), context_tokens=8_192, tp=8, block_tokens=64)
    floor = size(card("llama-3.1-8b"), context_tokens=1_000, block_tokens=256)
    groups, pool, shares = tokens_by_group(card("gpt-oss-120b"), 64 * 10**9)
    knob = pinned_bytes(40 * 10**9, ranks=8)
    scan = replay([Request(float(i), 0, 0, array("q", [i % 1000])) for i in range(5000)])
    inverted = replay(open_trace(folder() / PUBLISHED["synthetic"][0]), tiers=[10_000, 5_000])
    chat = case("chat")
    write = chat.replay.unique_blocks * block_bytes(card("llama-3.3-70b"), chat.block_tokens) / chat.seconds
    drive = device(place.part("drive").id)
    budget = write_budget_bytes_per_s(capacity_bytes(place, "context-storage"), drive.need("endurance_dwpd"))
    rows = [
        ("Tensor parallelism copies an MLA latent to every rank", f"deepseek-v3, {mla['context_tokens']:,} tokens, 8 ranks",
         f"{format_bytes(mla['written_bytes_per_user'])} written for {format_bytes(mla['kv_bytes_per_user'])} of cache"),
        ("Only whole chunks are offloaded", "llama-3.1-8b, 1,000 tokens, chunks of 256",
         f"{format_bytes(floor['written_bytes_per_user'])} of {format_bytes(floor['kv_bytes_per_user'])}; {1_000 % 256} tokens are computed again"),
        ("A tier divided among KV groups fills with the group that grows", f"gpt-oss-120b, 64 GB, {groups} groups",
         f"{shares:,} tokens in equal shares, {pool:,} in one pool"),
        ("A size given per rank is not a total", "40 GB for each of 8 ranks", f"{format_bytes(knob)} of the node's {format_bytes(place.host_memory_bytes)}"),
        ("A lower tier smaller than the one above serves nothing", "synthetic trace, 10,000 blocks above 5,000",
         f"{inverted.tiers[0].hit_blocks:,} hits above, {inverted.tiers[1].hit_blocks:,} below"),
        ("A scan larger than the tier never hits under LRU", "1,000 blocks read in turn, five times",
         f"{scan.hits(999):,} hits with 999 blocks, {scan.hits(1000):,} with 1,000"),
        ("Loading can be slower than computing again", *_slow(place)),
        ("Flash has a budget of writes", f"chat trace, llama-3.3-70b, every block written once; {place.drives} drives",
         f"{format_bytes(write)}/s written, {format_bytes(budget)}/s allowed by a rating of {significant(drive.need('endurance_dwpd'))} drive writes a day"),
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["rule", "case", "number"])


def _slow(place: Node) -> tuple[str, str]:
    what = "llama-3.1-8b, 1,000 tokens, from the data lake"
    try:
        r = race(card("llama-3.1-8b"), 1_000, "data-lake", place)
    except KvError as error:
        return what, str(error)
    return what, f"{format_seconds(r.load_s)} to load, {format_seconds(r.recompute_s)} to compute"
