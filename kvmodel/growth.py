"""Growth of context windows: frontier fits as a factor per year, with intervals; advertised against effective context."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kvmodel.tables import read
from kvmodel.units import KvError, refuse

DRAWS, SEED = 2000, 1
RULES = ("epoch", "record", "all")  # epoch: among the top_k longest at release; record: the longest; all: every new model
EPOCH_CUTOFF = "2025-06-25"  # day of Epoch's published fit


@dataclass(frozen=True, slots=True)
class Fit:
    """log10(window) = a + b * year by least squares; `per_year` = 10^b, with the 5th and 95th percentile of seeded bootstrap draws."""

    rule: str
    start: str
    end: str
    models: int
    per_year: float
    r2: float
    low: float
    high: float
    intercept: float
    slope: float

    def window(self, years: Any) -> Any:
        """Return the fitted window in tokens at a decimal year."""
        return 10 ** (self.intercept + self.slope * years)


def windows(path: Path | None = None) -> pd.DataFrame:
    """Return the models that enter fits: one row per (lab, name, window, month), with `date` and decimal `year`, oldest first.

    Raises
    ------
    KvError : a column, a date or a window that the table refuses, with line; a row that enters fits without the day of its release

    Examples
    --------
    >>> len(windows())
    263
    """
    table = read("context_windows", path)
    fitted = table[table["left_out_because"] == ""].copy()
    days = fitted["release_date"].str.len() == len("2024-06-30")
    if not days.all():
        row = fitted.index[~days][0]
        raise refuse(f"context_windows, line {row + 2}: release_date", fitted.loc[row, "release_date"], "a full date, YYYY-MM-DD, where a row enters fits")
    fitted["date"] = pd.to_datetime(fitted["release_date"], format="%Y-%m-%d")
    fitted["year"] = decimal_year(fitted["date"])
    name = fitted["name"].str.replace("(latest)", "", regex=False).str.strip().str.lower()
    key = pd.concat([fitted["lab"], name, fitted["context_tokens"], fitted["release_date"].str[:7]], axis=1, keys=list("abcd"))
    return fitted[~key.duplicated()].sort_values(["date", "lab", "name"], kind="stable").reset_index(drop=True)


def decimal_year(dates: "pd.Series[Any]") -> "pd.Series[Any]":
    """Return year + (day of the year - 1) / 365.25."""
    years: pd.Series[Any] = dates.dt.year + (dates.dt.day_of_year - 1) / 365.25
    return years


def frontier(models: pd.DataFrame, rule: str, start: str, end: str, top_k: int = 10, *, pool: str = "window") -> pd.DataFrame:
    """Return the models released from `start` to `end` that were at the frontier when they were released.

    `epoch` keeps those among the `top_k` longest windows so far, ties in; `record` is top_k = 1; `all` keeps every one. The ranking starts with the window of
    dates (`pool="window"`) or with all models since 2020 (`pool="all"`).

    Raises
    ------
    KvError : unknown rule or pool, start after end, nothing left
    """
    if rule not in RULES:
        raise refuse("rule", rule, " ".join(RULES), RULES)
    if pool not in ("window", "all"):
        raise refuse("pool", pool, "window or all", ("window", "all"))
    if start >= end:
        raise refuse("start", start, f"a date before end, {end}")
    first, last = pd.Timestamp(start), pd.Timestamp(end)
    ranked = models[models["date"] <= last] if pool == "all" else models[models["date"].between(first, last)]
    keep = {"epoch": top_k, "record": 1, "all": len(ranked) or 1}[rule]
    values, dates = ranked["context_tokens"].to_numpy(), ranked["date"].to_numpy()
    least = [np.sort(values[dates <= d])[-min(keep, (dates <= d).sum())] for d in dates]  # the k-th longest so far
    found = ranked[(values >= np.array(least, dtype="int64")) & ranked["date"].between(first, last).to_numpy()]
    if len(found) < 2:
        raise KvError(f"context_windows.csv: rule {rule!r} from {start} to {end} leaves {len(found)} models; accepted: a range of dates with two or more")
    return found


def fit(models: pd.DataFrame, rule: str, start: str, end: str, top_k: int = 10, *, pool: str = "window", draws: int = DRAWS, seed: int = SEED) -> Fit:
    """Return the growth of the frontier from `start` to `end` as a factor per year, with a seeded 90 % bootstrap interval over models."""
    chosen = frontier(models, rule, start, end, top_k, pool=pool)
    x, y = chosen["year"].to_numpy(), np.log10(chosen["context_tokens"].to_numpy())
    slope, intercept, r2 = line(x, y)
    low, high = bootstrap(x, y, draws, seed)
    return Fit(rule, start, end, len(chosen), 10**slope, r2, 10**low, 10**high, intercept, slope)


def line(x: Any, y: Any) -> tuple[float, float, float]:
    centre = x - x.mean()
    spread = float((centre**2).sum())
    if not spread:
        return 0.0, float(y.mean()), 0.0
    slope = float((centre * (y - y.mean())).sum() / spread)
    total = float(((y - y.mean()) ** 2).sum())
    return slope, float(y.mean() - slope * x.mean()), slope**2 * spread / total if total else 1.0


def bootstrap(x: Any, y: Any, draws: int = DRAWS, seed: int = SEED, low: float = 5, high: float = 95) -> tuple[float, float]:
    """Return two percentiles of the slope over `draws` resamples of the points, seeded: the same on every machine."""
    rng = np.random.default_rng(seed)
    picks = rng.integers(0, len(x), (draws, len(x)))
    xs, ys = x[picks], y[picks]
    centre = xs - xs.mean(axis=1, keepdims=True)
    spread = (centre**2).sum(axis=1)
    slopes = (centre * (ys - ys.mean(axis=1, keepdims=True))).sum(axis=1)[spread > 0] / spread[spread > 0]
    ends = np.percentile(slopes, [low, high])
    return float(ends[0]), float(ends[1])
