"""Tables of numbers of the growth chapter: fits by rule and dates, half-years, effective windows, KV of dated model cards."""

from typing import Any

import numpy as np
import pandas as pd

from kvmodel.architecture import FAMILIES, trend
from kvmodel.architecture import models as dated_cards
from kvmodel.cards import card
from kvmodel.growth import EPOCH_CUTOFF, Fit, decimal_year, effective, fit, frontier, half_years, line
from kvmodel.units import format_tokens, significant

EPOCH = (30.0, 10.0, 50.0)  # source epoch-context-windows: times a year, 90 % interval
CLAIMED = (4_000_000, 10_000_000)  # announced windows that no first-party service offers
RULE_NAMES = {"epoch": "among the {k} longest at release", "record": "longest at release", "all": "all new models"}
SPLITS = (("2023-06-01", "2024-06-30"), ("2024-07-01", EPOCH_CUTOFF), ("2025-04-06", "2026-06-30"))


def fold(x: float) -> str:
    """Return a growth factor as prose has it.

    Examples
    --------
    >>> fold(11.05), fold(0.3959), fold(3.2e9)
    ('11.1-fold', '0.396-fold', 'over a million-fold')
    """
    return "over a million-fold" if x > 1e6 else f"{significant(x)}-fold" if x >= 1e-6 else "less than a millionth-fold"


def fell(x: float) -> str:
    """Return what KV per token did at a growth of `x` per year.

    Examples
    --------
    >>> fell(0.3959), fell(1.2)
    ('falls to 0.40 times each year', 'grows 1.2-fold each year')
    """
    return f"falls to {x:.2f} times each year" if x < 1 else f"grows {fold(x)} each year"


def grew(x: float) -> str:
    """Return what windows did at a growth of `x` per year.

    Examples
    --------
    >>> grew(11.05), grew(0.94), grew(1.0)
    ('grew 11.1-fold a year', 'shrank to 0.94 of themselves a year', 'stood still')
    """
    if abs(x - 1) < 0.005:
        return "stood still"
    return f"grew {fold(x)} a year" if x > 1 else f"shrank to {significant(x)} of themselves a year"


def rule_name(rule: str, top_k: int) -> str:
    """Return a rule in words; the longest one is the record.

    Examples
    --------
    >>> rule_name("epoch", 10), rule_name("epoch", 1)
    ('among the 10 longest at release', 'longest at release')
    """
    return RULE_NAMES["record" if rule == "epoch" and top_k == 1 else rule].format(k=f"{top_k:,}")


def scatter(front: pd.DataFrame, found: Fit) -> str:
    """Return the factor by which half of the fitted windows lie above or below the line."""
    off = np.log10(front["context_tokens"].to_numpy()) - np.log10(found.window(front["year"].to_numpy()))
    return significant(10 ** float(np.median(np.abs(off))), 2)


def few(front: pd.DataFrame) -> str:
    """Return a warning where the fitted models are few or span less than a year; nothing where neither is so."""
    days = (front["date"].max() - front["date"].min()).days
    short = [f"the models span {days} days, so a rate per year is an extrapolation"] if days < 365 else []
    small = [f"{len(front)} models are few, so the interval is too narrow"] if len(front) < 10 else []
    return f"Take it with care: {'; '.join(small + short)}." if small + short else ""


def window_rows(models: pd.DataFrame, found: Fit, top_k: int) -> pd.DataFrame:
    """Return the new models of the fitted dates: `model date context_tokens kind`, kind being frontier, claimed (at the frontier, not served) or other."""
    inside = models[models["date"].between(found.start, found.end)]
    kept = set(frontier(models, found.rule, found.start, found.end, top_k).index)
    claimed = inside["context_tokens"].isin(CLAIMED)
    kinds = np.where(~inside.index.isin(kept), "other", np.where(claimed, "claimed", "frontier"))
    rows = pd.DataFrame({"model": inside["name"], "date": inside["date"], "context_tokens": inside["context_tokens"], "kind": kinds})
    return rows.reset_index(drop=True)


def fitted_line(x: "pd.Series[Any]", y: "pd.Series[Any]", *, points: int = 25) -> pd.DataFrame:
    """Return a fitted line of log10(y) over dates with a pointwise 90 % bootstrap band: `date value low high`."""
    years, logs = decimal_year(x).to_numpy(), np.log10(y.to_numpy(dtype="float64"))
    slope, intercept, _ = line(years, logs)
    dates = pd.Series(pd.date_range(x.min(), x.max(), periods=points).normalize())
    at = decimal_year(dates).to_numpy()
    rng = np.random.default_rng(1)
    picks = rng.integers(0, len(years), (500, len(years)))
    drawn = [line(years[p], logs[p]) for p in picks]
    cloud = np.array([a + b * (at - years.mean()) for b, a in ((s, i + s * years.mean()) for s, i, _ in drawn)])
    low, high = np.percentile(cloud, [5, 95], axis=0)
    middle = intercept + slope * at
    return pd.DataFrame({"date": dates, "value": 10**middle, "low": 10 ** np.minimum(low, middle), "high": 10 ** np.maximum(high, middle)})


def fit_rows(models: pd.DataFrame) -> pd.DataFrame:
    """Return published readings and our fits by rule, dates and sample, times a year: `name value low high kind label models r2`."""
    whole = ("2023-06-01", EPOCH_CUTOFF)
    long_only = models[models["context_tokens"] > 8_200]
    fits = [
        ("Epoch's rule, its dates", fit(models, "epoch", *whole)),
        ("same, no window up to 8K", fit(long_only, "epoch", *whole)),
        ("same, to mid-2026", fit(models, "epoch", whole[0], "2026-06-30")),
        ("records only", fit(models, "record", *whole)),
        ("records only, 2023 to 2026", fit(models, "record", "2023-01-01", "2026-06-30")),
        ("all new models, its dates", fit(models, "all", *whole)),
        ("all new models, to mid-2026", fit(models, "all", "2023-01-01", "2026-06-30")),
        *((f"ten longest, {a[2:7]} to {b[2:7]}", fit(models, "epoch", a, b, pool="all")) for a, b in SPLITS),
    ]
    article = (1_000_000 / 128_000) ** 0.5
    rows = [
        ("Epoch, as published", *EPOCH, "claimed", f"{EPOCH[0]:g}", 123.0, 0.76),
        ("article: 128K to 1M", article, article, article, "derived", significant(article, 2), np.nan, np.nan),
    ]
    rows += [(name, f.per_year, f.low, f.high, "measured", significant(f.per_year, 3), float(f.models), f.r2) for name, f in fits]
    return pd.DataFrame(rows, columns=["name", "value", "low", "high", "kind", "label", "models", "r2"])


def typical_rows(models: pd.DataFrame) -> pd.DataFrame:
    """Return longest, mean and median new window of each half-year from 2023 on: `half_year date statistic tokens models`."""
    table = half_years(models[models["date"] >= "2023-01-01"])
    table["date"] = [pd.Timestamp(f"{h[:4]}-{'04-01' if h.endswith('1') else '10-01'}") for h in table["half_year"]]
    names = {"longest": "longest", "mean": "geometric mean", "median": "median"}
    parts = [table[["half_year", "date", "models"]].assign(statistic=name, tokens=table[column].astype("float64")) for column, name in names.items()]
    return pd.concat(parts, ignore_index=True)[["half_year", "date", "statistic", "tokens", "models"]]


def tail_rows(tail: pd.DataFrame) -> pd.DataFrame:
    """Return the fits since the last record with the columns of an interval chart, and 30 a year beside them."""
    words = [
        "as its makers list them",
        "1,000,000 = 1,048,576",
        "one row of Grok 4.20 as resold",
        "Grok 4.20 as resold",
        "ranked from the last record on",
        "all new models",
    ]
    rows = tail.assign(name=words, value=tail["per_year"], kind="measured", label=[significant(x) for x in tail["per_year"]])
    return rows[["name", "choice", "value", "low", "high", "kind", "label", "models"]]


def effective_rows() -> pd.DataFrame:
    """Return advertised and effective windows of two benchmarks: `benchmark model claimed_tokens effective_tokens ratio bound`."""
    return effective()[["benchmark", "model", "claimed_tokens", "effective_tokens", "ratio", "bound"]]


def token_rows() -> pd.DataFrame:
    """Return the dated cards: `model family date bytes_per_token native_tokens native_kv_bytes`."""
    return dated_cards()[["model", "family", "date", "bytes_per_token", "native_tokens", "native_kv_bytes"]]


def family_rows() -> pd.DataFrame:
    """Return per family of attention: cards, first release, and the median bytes per token, with how many times less that is than in MHA."""
    found = dated_cards().groupby("family").agg(cards=("model", "count"), first=("date", "min"), median=("bytes_per_token", "median"))
    found = found.reindex([f for f in FAMILIES if f in found.index]).reset_index()
    found["first"] = found["first"].dt.strftime("%Y-%m")
    return found.assign(factor=found["median"].iloc[0] / found["median"])


SAMPLES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("all cards", "", ()),
    ("since 2024", "2024-01-01", ()),
    ("all but Llama 4", "", ("llama-4-scout-17b-16e", "llama-4-maverick-17b-128e")),
)


def balance_rows() -> pd.DataFrame:
    """Return growth of windows, of KV per token and of their product for three samples of cards: `name measure sample value low high kind label models`."""
    rows = []
    for sample, since, drop in SAMPLES:
        for per, measure in (("window", "window"), ("token", "KV per token"), ("native window", "full window")):
            t = trend(per, since=since, drop=drop)
            rows.append((f"{measure}, {sample}", measure, sample, t.per_year, t.low, t.high, "measured", significant(t.per_year), t.models))
    return pd.DataFrame(rows, columns=["name", "measure", "sample", "value", "low", "high", "kind", "label", "models"])


def spent_again(balance: pd.DataFrame, sample: str) -> float:
    """Return the share of the saving per token that longer windows took back: log(growth of windows) / -log(growth of KV per token)."""
    rows = balance[balance["sample"] == sample].set_index("measure")["value"]
    return float(-np.log(rows["window"]) / np.log(rows["KV per token"]))


def span(low: float, high: float) -> str:
    """Return an interval in three figures.

    Examples
    --------
    >>> span(7.7037, 15.88)
    '7.7 to 15.9'
    """
    return " to ".join(fold(x).removesuffix("-fold") for x in (low, high))


def against(value: float, found: Fit) -> str:
    """Return where a published value lies against the interval of a fit."""
    return "above" if value > found.high else "below" if value < found.low else "inside"


def window_sources(models: pd.DataFrame) -> list[str]:
    """Return the source ids of windows and dates, the one with most rows first."""
    ids = (models["date_sources"] + " " + models["context_sources"]).str.split().explode()
    return [str(i) for i in ids.value_counts().index]


def card_sources() -> list[str]:
    """Return the source ids of the release dates and native windows of the dated cards, the one with most cards first."""
    ids = [i for m in dated_cards()["model"] for field in ("release_date", "native_context_tokens") for i in card(m).sources[field]]
    return [str(i) for i in pd.Series(ids).value_counts().index]


def sizes(tokens: float) -> str:
    """Return a window as prose has it: `128K`, `1M`, `10M`.

    Examples
    --------
    >>> sizes(131_072), sizes(2_097_152), sizes(9_000)
    ('131K', '2.1M', '9K')
    """
    return f"{significant(tokens / 1000)}K" if tokens < 1e6 else format_tokens(tokens, digits=2)
