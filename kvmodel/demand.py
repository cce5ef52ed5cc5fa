"""What drives demand for KV memory: reasoning, agents, and a fleet of users, sessions, contexts and residence from 2023 to 2030."""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kvmodel.growth import fit, windows
from kvmodel.placement import AGES, Sessions
from kvmodel.places import DATA
from kvmodel.units import KvError, refuse

SPEC = Path(__file__).parent / "specs" / "demand.toml"
TRACES = DATA / "traces"
BASE_YEAR = 2025  # of the inputs
CASES = ("low", "base", "high")
GROWTH_RULES = ("flat", "windows", "article")  # growth of the tokens in a request: none; as the windows of all new models; as the article says of the frontier
YEARS = range(2023, 2031)
CONTEXT_LIMIT = 10_000_000  # the longest window ever announced for a released model
DAY = 86_400


@dataclass(frozen=True, slots=True)
class Histogram:
    """Values with weights: a measured distribution."""

    values: Any
    weights: Any

    @property
    def mean(self) -> float:
        """Weighted mean."""
        return float((self.values * self.weights).sum() / self.weights.sum())

    def quantile(self, q: float) -> float:
        """Least value at or below which a share `q` of the weight lies."""
        return float(self.values[int(np.searchsorted(np.cumsum(self.weights) / self.weights.sum(), q))])

    def share(self, low: float, high: float) -> float:
        """Share of the weight with low <= value <= high."""
        return float(self.weights[(self.values >= low) & (self.values <= high)].sum() / self.weights.sum())


@cache
def servegen(pool: str, field: str) -> Histogram:
    """Return a request-weighted histogram of ServeGen: pools `reason/deepseek-r1`, `language/m-large`, ...; fields input_tokens, output_tokens, reason_ratio.

    Examples
    --------
    >>> round(servegen("reason/deepseek-r1", "reason_ratio").mean, 2)
    0.7
    """
    table = _servegen()
    rows = table[(table["pool"] == pool) & (table["field"] == field)].sort_values("value")
    if rows.empty:
        known = sorted({f"{p} {f}" for p, f in zip(table["pool"], table["field"])})
        raise refuse("pool", f"{pool} {field}", "a pool and a field of ServeGen", known)
    return Histogram(rows["value"].to_numpy(), rows["weight"].to_numpy())


@cache
def _servegen() -> pd.DataFrame:
    return pd.read_csv(TRACES / "servegen_hist.csv.gz")


def reasoning_multiplier() -> Histogram:
    """Return how many tokens a reasoning model generates for each that it returns: 1 / (1 - reasoning share), per request of DeepSeek-R1 in production.

    Examples
    --------
    >>> round(reasoning_multiplier().quantile(0.5), 2)
    4.24
    """
    ratio = servegen("reason/deepseek-r1", "reason_ratio")
    return Histogram(1 / (1 - np.minimum(ratio.values, 0.999)), ratio.weights)


def end_multiplier(input_tokens: float, output_tokens: float, reasoning_share: float) -> float:
    """Return the KV at the end of a request over that without its reasoning tokens: (in + out) / (in + answer).

    Examples
    --------
    >>> round(end_multiplier(1268.2, 1527.4, 0.7434), 2)
    1.68
    """
    _share(reasoning_share)
    return (input_tokens + output_tokens) / (input_tokens + output_tokens * (1 - reasoning_share))


def byte_seconds_multiplier(input_tokens: float, output_tokens: float, reasoning_share: float) -> float:
    """Return the KV byte-seconds of decoding over those without reasoning: out * (in + out / 2) over answer * (in + answer / 2), at one speed of decoding.

    Examples
    --------
    >>> round(byte_seconds_multiplier(1268.2, 1527.4, 0.7434), 1)
    5.4
    """
    _share(reasoning_share)
    answer = output_tokens * (1 - reasoning_share)
    return output_tokens * (input_tokens + output_tokens / 2) / (answer * (input_tokens + answer / 2))


def _share(value: float) -> None:
    if not 0 <= value < 1:
        raise refuse("reasoning_share", value, "a number from 0 to below 1")


@dataclass(frozen=True, slots=True)
class Input:
    """One input of the fleet model with its range and where it comes from."""

    value: float
    low: float
    high: float
    unit: str
    kind: str
    sources: tuple[str, ...]
    why: str
    more_is_less: bool = False

    def at(self, case: str, year: int = BASE_YEAR) -> float:
        """The value of a case: the end that lowers the total for `low`, that raises it for `high`. Faster growth up to 2025 means less before it."""
        falls = self.more_is_less != (self.unit.startswith("x/year") and year < BASE_YEAR)
        return {"low": self.high if falls else self.low, "base": self.value, "high": self.low if falls else self.high}[case]


@cache
def inputs() -> dict[str, Input]:
    """Return the inputs of `specs/demand.toml` by name; refuses a file whose values are not low <= value <= high or lack a source or a reason."""
    with SPEC.open("rb") as file:
        return {name: _input(name, entry) for name, entry in tomllib.load(file).items()}


def _input(name: str, e: Mapping[str, Any]) -> Input:
    why = e.get("reason") or e.get("expression") or e.get("note", "")
    sources = e.get("source", ())
    if not (0 < e["low"] <= e["value"] <= e["high"]) or not sources or (e["kind"] == "assumption" and "reason" not in e):
        raise KvError(f"demand.toml: {name} is not accepted; accepted: 0 < low <= value <= high, a source, and a reason for an assumption")
    named = (sources,) if isinstance(sources, str) else tuple(sources)
    return Input(e["value"], e["low"], e["high"], e["unit"], e["kind"], named, why, e.get("more_is_less", False))


def fleet(case: str = "base", year: int = 2026, growth_rule: str = "flat", *, override: Mapping[str, float] | None = None) -> pd.DataFrame:
    """Return the KV that the world's chat and agents keep at one time, by kind of use and tier (waiting in a tier, copies not counted).

    turns per second * tokens per request * bytes per token * seconds that a turn's KV waits with an idle age of the tier, until the next turn or the end of
    its retention (Little's law). Inputs and ranges: `inputs()`. Ages of tiers: `kvmodel.placement.AGES`, cut off at the retention.

    Parameters
    ----------
    case : `low`, `base` or `high`: every input at the end that lowers or raises the total, together: an envelope, not a probability
    year : 2023 to 2030; before 2025 a back-cast from the inputs of 2025
    growth_rule : growth of tokens per request from 2025 on, and back: `flat`, `windows`, `article`
    override : values that replace inputs by name

    Returns
    -------
    DataFrame with `kind`, `tier`, `bytes`, `turns_per_s`, `tokens` of a request, `bytes_per_token`

    Examples
    --------
    >>> bool(fleet("base", 2026)["bytes"].sum() > fleet("low", 2026)["bytes"].sum())
    True
    """
    if case not in CASES:
        raise refuse("case", case, " ".join(CASES), CASES)
    if year not in YEARS:
        raise refuse("year", year, f"{YEARS[0]} to {YEARS[-1]}")
    v = {name: i.at(case, year) for name, i in inputs().items()} | dict(override or {})
    years = year - BASE_YEAR
    messages = v["messages_2025"] * v["message_growth" if years > 0 else "message_growth_until_2025"] ** years
    chat_turns = min(messages, v["message_limit"]) / DAY
    share = min(v["agent_share_2025"] * v["agent_growth"] ** years, v["share_limit"])
    bytes_per_token = max(v["bytes_per_token_2025"] * v["bytes_trend"] ** years, v["bytes_floor"])
    rows = []
    for kind, turns, tokens, use in (
        ("chat", chat_turns, v["chat_tokens_2025"], chat_use(v)),
        ("agent", chat_turns * share, v["agent_tokens_2025"], agent_use()),
    ):
        context = min(tokens * yearly_growth(growth_rule) ** years, CONTEXT_LIMIT)
        for tier, seconds in seconds_by_tier(use, v["retention"]).items():
            rows.append((kind, tier, turns * context * bytes_per_token * seconds, turns, context, bytes_per_token))
    return pd.DataFrame(rows, columns=["kind", "tier", "bytes", "turns_per_s", "tokens", "bytes_per_token"])


def monthly_tokens(table: pd.DataFrame) -> float:
    """Return the prompt tokens that a fleet sends in 30 days, re-read ones counted each time as a token meter does: turns per second * tokens."""
    each = table.drop_duplicates("kind")
    return float((each["turns_per_s"] * each["tokens"]).sum() * 30 * DAY)


def envelope(growth_rule: str = "flat") -> pd.DataFrame:
    """Return the total bytes of each year in the three cases: columns `year low base high`."""
    rows = [(year, *(float(fleet(case, year, growth_rule)["bytes"].sum()) for case in CASES)) for year in YEARS]
    return pd.DataFrame(rows, columns=["year", *CASES])


@cache
def yearly_growth(growth_rule: str) -> float:
    """Return the growth of the tokens in a request, times a year: 1, the fit over all new models from 2023 to mid-2026, or the article's 30.

    Examples
    --------
    >>> yearly_growth("flat"), yearly_growth("article"), 2 < yearly_growth("windows") < 4
    (1.0, 30.0, True)
    """
    if growth_rule not in GROWTH_RULES:
        raise refuse("growth_rule", growth_rule, " ".join(GROWTH_RULES), GROWTH_RULES)
    if growth_rule == "windows":
        return fit(windows(), "all", "2023-01-01", "2026-06-30").per_year
    return 1.0 if growth_rule == "flat" else 30.0


def chat_use(v: Mapping[str, float]) -> Sessions:
    """Return one chat session: a pause between turns, and the last turn of a conversation never returns."""
    last = 1 / v["chat_turns"]
    return Sessions("chat", 1, 2, 1, v["chat_active"], ((v["chat_pause"], 1 - last), (math.inf, last)))


@cache
def _agent_times() -> tuple[pd.DataFrame, "pd.Series[float]"]:
    """The requests of the Claude Code trace, and the idle seconds after each (NaN after a context's last)."""
    table = pd.read_csv(TRACES / "weka_cc_requests.csv.gz", usecols=["trace", "agent", "t", "inp", "api"])
    follow = -table.groupby(["trace", "agent"], sort=False)["t"].diff(-1)
    return table, (follow - table["api"].fillna(0)).clip(lower=0)


def longer_wait_longer(retention_s: float) -> float:
    """Return the seconds that the trace's contexts are kept weighted by their tokens, over the plain mean: what the fleet leaves out by multiplying means.

    Examples
    --------
    >>> round(longer_wait_longer(3600), 1)
    1.2
    """
    table, idle = _agent_times()
    kept = table["api"].fillna(0) + idle.fillna(math.inf).clip(upper=retention_s)
    return float((table["inp"] * kept).sum() / table["inp"].sum() / kept.mean())


@cache
def agent_use() -> Sessions:
    """Return one coding-agent session as measured: request time and idle gaps of the Claude Code trace, in 200 equal shares and the share that ends."""
    table, idle = _agent_times()
    ends = float(idle.isna().mean())
    gaps = np.quantile(idle.dropna(), (np.arange(200) + 0.5) / 200)
    return Sessions("agent", 1, 2, 1, float(table["api"].mean()), (*((float(g), (1 - ends) / 200) for g in gaps), (math.inf, ends)))


def seconds_by_tier(use: Sessions, retention_s: float) -> dict[str, float]:
    """Return the seconds per turn that KV waits in each tier, dropped after `retention_s` idle seconds; the first tier holds the active time too."""
    low = 0.0
    found: dict[str, float] = {}
    for tier, age in AGES.items():
        high = max(low, min(age, retention_s))
        found[tier] = use.seconds_between(low, high) + (use.active_s if not found else 0.0)
        low = high
    return found


def effects(year: int, growth_rule: str = "flat") -> pd.DataFrame:
    """Return each input's effect on the base total: total with the input at its low and high end, largest span first."""
    base = fleet("base", year, growth_rule)["bytes"].sum()
    rows = []
    for name, i in inputs().items():
        low, high = (float(fleet("base", year, growth_rule, override={name: x})["bytes"].sum()) for x in (i.low, i.high))
        rows.append((name, low, high))
    rows.sort(key=lambda row: -abs(math.log(row[2] / row[1])))  # no effect, such as a limit not reached, comes last
    return pd.DataFrame(rows, columns=["input", "low_bytes", "high_bytes"]).assign(base_bytes=base)
