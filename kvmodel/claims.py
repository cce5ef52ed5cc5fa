"""The claims ledger: every claim of the article, the test that judges it, and the verdict that follows.

A record of `specs/claims.toml` says what was claimed and which test of `claim_tests` judges it with which inputs. The verdict is computed here, in one place.
"""

import itertools
import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from kvmodel.specfile import Value
from kvmodel.tiers import tier, tier_ids
from kvmodel.units import KvError, format_bytes, format_seconds, refuse, significant

SPEC = Path(__file__).parent / "specs" / "claims.toml"
VERDICTS = ("reproduced", "reproduced-if", "contradicted", "unit-error", "unsupported", "not-testable")
DEFAULTS: dict[str, Any] = {"model": "llama-3.3-70b", "context_tokens": 100_000, "kv_dtype": "bf16", "platform": "h100-8"}


@dataclass(frozen=True, slots=True)
class Reading:
    """Another way to read a claim: what it would mean, and the number it gives."""

    label: str
    value: float
    unit: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a test finds: our number (with its range where truth is a range), the same in another unit or denominator, and other readings."""

    value: float
    low: float | None = None
    high: float | None = None
    other: float | None = None
    readings: tuple[Reading, ...] = ()
    note: str = ""

    @property
    def span(self) -> tuple[float, float]:
        """Low and high end; the value itself where it is exact."""
        return (self.value if self.low is None else self.low, self.value if self.high is None else self.high)


@dataclass(frozen=True, slots=True)
class Claim:
    """One record: what the article claims, and how it is judged. `low` and `high` bound the claimed value; None is no bound."""

    id: str
    text: str
    place: str
    claimed: str
    unit: str
    chapter: str
    change: str
    confidence: str
    low: float | None = None
    high: float | None = None
    test: str = ""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    search: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    ends: bool = False  # the whole range must lie inside, not only the value
    figure: str = ""
    sources: tuple[str, ...] = ()
    looked: str = ""  # where a source was looked for, when none was found
    would_test: str = ""

    def holds(self, outcome: Outcome, *, other: bool = False) -> bool:
        """True where our number lies in what is claimed."""
        ends = (outcome.other,) if other else outcome.span if self.ends else (outcome.value,)
        low, high = -math.inf if self.low is None else self.low, math.inf if self.high is None else self.high
        return all(x is not None and low <= x <= high for x in ends)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A claim with its verdict: our number, the inputs that gave it, and under `condition` those that reproduce it."""

    claim: Claim
    verdict: str
    outcome: Outcome | None
    inputs: Mapping[str, Any]
    condition: Mapping[str, Any] = field(default_factory=dict)
    refused: str = ""  # why the test cannot run with these inputs

    @property
    def note(self) -> str:
        """What a reader should know beside the number."""
        c = self.claim
        return self.outcome.note if self.outcome else self.refused or c.looked or c.would_test

    def plain(self) -> dict[str, Any]:
        """Return the judgement as JSON data: the keys of `kvmodel claims --json` and what explains them."""
        c, o = self.claim, self.outcome
        return {
            "id": c.id,
            "text": c.text,
            "claimed": c.claimed,
            "unit": c.unit,
            "value": None if o is None else o.value,
            "low": None if o is None else o.span[0],
            "high": None if o is None else o.span[1],
            "verdict": self.verdict,
            "inputs": dict(self.inputs),
            "condition": dict(self.condition),
            "readings": [{"label": r.label, "value": r.value, "unit": r.unit} for r in o.readings] if o else [],
            "note": self.note,
            "change": c.change,
            "confidence": c.confidence,
            "chapter": c.chapter,
            "figure": c.figure or None,
            "sources": list(c.sources),
        }


@cache
def claims() -> dict[str, Claim]:
    """Return every claim by id, in the order of the article.

    Raises
    ------
    KvError : a record that lacks a key, names an unknown test, or has neither a test nor the reason why there is none
    """
    with SPEC.open("rb") as file:
        rows = tomllib.load(file)["claim"]
    found = {row["id"]: _record(row) for row in rows}
    if len(found) < len(rows):
        raise KvError("claims.toml: an id is used twice; accepted: one record for each claim")
    return found


def _record(row: Mapping[str, Any]) -> Claim:
    from kvmodel.claim_tests import TESTS

    data = dict(row)
    where = f"claims.toml: {data.get('id', 'a record without id')}"
    data["search"] = {k: tuple(v) for k, v in data.get("search", {}).items()}
    data["sources"] = tuple(data.get("sources", ()))
    if data.get("test") == "tier_check":  # the printed ranges are in the specs of the tiers
        printed = article_range(data["id"])
        data |= {"low": printed.low, "high": printed.high}
    try:
        made = Claim(**data)
    except TypeError as error:
        raise KvError(f"{where}: {error}") from None
    if made.test and made.test not in TESTS:
        raise refuse(f"{where}: test", made.test, "a test of kvmodel.claim_tests", TESTS)
    if not made.test and bool(made.looked) == bool(made.would_test):
        raise KvError(f"{where}: no test; accepted: `looked`, where a source was sought in vain, or `would_test`, what would test it")
    return made


def article_range(claim_id: str) -> Value:
    """Return the range that the article prints for a cell of its tier table, from the spec of the tier.

    Examples
    --------
    >>> article_range("tier-2-bandwidth").span
    (100000000000.0, 500000000000.0)
    """
    tier_id, quantity = cell(claim_id)
    return tier(tier_id).article(quantity)


def cell(claim_id: str) -> tuple[str, str]:
    """Return the tier and the quantity that a claim such as `tier-2-time` is about.

    Examples
    --------
    >>> cell("tier-2-time")
    ('main-memory', 'time_scale')
    """
    _, rank, quantity = claim_id.split("-")
    return tier_ids()[int(rank) - 1], {"time": "time_scale"}.get(quantity, quantity)


def shown(value: float, unit: str) -> str:
    """Return a value of the ledger in words.

    Examples
    --------
    >>> shown(32_768_000_000, "bytes"), shown(0.0153, "s"), shown(4, "x")
    ('32.8 GB', '15.3 ms', '4')
    """
    if unit in ("bytes", "bytes/s"):
        return format_bytes(value) + ("/s" if unit == "bytes/s" else "")
    return format_seconds(value) if unit == "s" else significant(value)


def with_unit(value: float, unit: str) -> str:
    """Return a value of the ledger in words, with its unit where the words do not say it.

    Examples
    --------
    >>> with_unit(46.3, "accelerator-seconds"), with_unit(0.667, "share")
    ('46.3 accelerator-seconds', '0.667')
    """
    plain = unit in ("bytes", "bytes/s", "s", "share", "ratio", "printed over right", "rank")
    return shown(value, unit) + ("" if plain else f" {unit}")


def told(inputs: Mapping[str, Any]) -> str:
    """Return inputs in words.

    Examples
    --------
    >>> told({"per": "socket", "context_tokens": 100_000, "id": "tier-2-bandwidth"})
    'per = socket, context tokens = 100,000'
    """
    values = {k.replace("_", " "): f"{v:,}" if isinstance(v, int) and k != "year" else str(v) for k, v in inputs.items() if k != "id"}
    return ", ".join(f"{k} = {v}" for k, v in values.items())


def judge(claim: Claim, parameters: Mapping[str, Any] | None = None) -> Judgement:
    """Return the verdict on one claim.

    `reproduced`: our number under the stated inputs lies in what is claimed. `unit-error`: it does not, but the same quantity in another unit or for another
    denominator does. `reproduced-if`: some combination of the inputs in `search` gives it; the first is named. `contradicted`: none does.
    `unsupported`: no public source was found. `not-testable`: no number could settle it, or the test does not apply to these inputs; the record says why.

    Parameters
    ----------
    claim : the record
    parameters : `model context_tokens kv_dtype platform`, for the inputs that a record leaves to the reader (written `$model` and so on)

    Examples
    --------
    >>> judge(claims()["llama-70b-100k"]).verdict
    'reproduced'
    """
    if not claim.test:
        return Judgement(claim, "unsupported" if claim.looked else "not-testable", None, {})
    given = DEFAULTS | dict(parameters or {})
    stated = {k: given[v[1:]] if isinstance(v, str) and v.startswith("$") else v for k, v in claim.inputs.items()}
    refused = ""
    try:
        outcome: Outcome | None = _run(claim, stated)
    except KvError as error:  # such as a model without attention, which a claim about heads does not concern
        outcome, refused = None, str(error)
    if outcome is not None:
        if claim.holds(outcome):
            return Judgement(claim, "reproduced", outcome, stated)
        if outcome.other is not None and claim.holds(outcome, other=True):
            return Judgement(claim, "unit-error", outcome, stated)
    for changed in _combinations(claim.search):
        try:
            if claim.holds(_run(claim, stated | changed)):
                return Judgement(claim, "reproduced-if", outcome, stated, changed, refused)
        except KvError:  # a combination that does not exist, such as a format that a model cannot hold
            continue
    return Judgement(claim, "contradicted" if outcome else "not-testable", outcome, stated, {}, refused)


def judge_all(parameters: Mapping[str, Any] | None = None) -> list[Judgement]:
    """Return the verdicts on all claims, in the order of the article."""
    return [judge(c, parameters) for c in claims().values()]


def _run(claim: Claim, inputs: Mapping[str, Any]) -> Outcome:
    from kvmodel.claim_tests import TESTS

    return TESTS[claim.test](**inputs)


def _combinations(search: Mapping[str, tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
    for n in range(1, len(search) + 1):  # fewest changes first
        for names in itertools.combinations(search, n):
            for values in itertools.product(*(search[name] for name in names)):
                yield dict(zip(names, values))
