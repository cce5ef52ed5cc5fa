"""Growth of context windows: frontier fits as a factor per year, with intervals; what carries them; advertised against effective context."""

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kvmodel.tables import read
from kvmodel.units import KvError, refuse

DRAWS, SEED = 2000, 1
RULES = ("epoch", "record", "all")  # epoch: among the top_k longest at release; record: the longest; all: every new model
EPOCH_CUTOFF = "2025-06-25"  # day of Epoch's published fit
LEAST_DAYS = 90  # a factor per year from less than a quarter says nothing


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
    KvError : unknown rule or pool, a date that is none, start not before end, top_k below 1, nothing left

    Examples
    --------
    >>> frontier(windows(), "record", "2024-01-01", "2026-06-30", pool="all")["name"].tolist()[-1]
    'Llama 4 Scout'
    """
    if rule not in RULES:
        raise refuse("rule", rule, " ".join(RULES), RULES)
    if pool not in ("window", "all"):
        raise refuse("pool", pool, "window or all", ("window", "all"))
    if isinstance(top_k, bool) or not isinstance(top_k, int | np.integer) or top_k < 1:
        raise refuse("top_k", top_k, "a whole number from 1")
    if day("start", start) >= day("end", end):
        raise refuse("start", start, f"a date before end, {end}")
    first, last = pd.Timestamp(start), pd.Timestamp(end)
    ranked = models[models["date"] <= last] if pool == "all" else models[models["date"].between(first, last)]
    keep = {"epoch": top_k, "record": 1, "all": len(ranked) or 1}[rule]
    values, dates = ranked["context_tokens"].to_numpy(), ranked["date"].to_numpy()
    least = [np.sort(values[dates <= d])[-min(keep, (dates <= d).sum())] for d in dates]  # the k-th longest so far
    found = ranked[(values >= np.array(least, dtype="int64")) & ranked["date"].between(first, last).to_numpy()]
    if found.empty:
        span = f"{models['release_date'].min()} to {models['release_date'].max()}" if len(models) else "no date"
        raise KvError(f"context_windows: rule {rule!r} from {start} to {end} leaves none of {len(models)} rows; accepted: dates with models, {span}")
    return found


def day(field: str, text: object) -> date:
    """Return the date that `text` names as YYYY-MM-DD; any other text is refused with its field."""
    try:
        if isinstance(text, str) and len(text) == len("2024-06-30"):
            return date.fromisoformat(text)
    except ValueError:
        pass
    raise refuse(field, text, "a date as YYYY-MM-DD, such as 2024-06-30")


def fit(models: pd.DataFrame, rule: str, start: str, end: str, top_k: int = 10, *, pool: str = "window", draws: int = DRAWS, seed: int = SEED) -> Fit:
    """Return the growth of the frontier from `start` to `end` as a factor per year, with a seeded 90 % bootstrap interval over models.

    log10(window) = a + b * year by least squares over the models that `frontier` keeps; times a year = 10^b.

    Raises
    ------
    KvError : what `frontier` refuses; fewer than three models, or models released within less than 90 days

    Examples
    --------
    >>> round(fit(windows(), "epoch", "2023-06-01", "2025-06-25", 10).per_year, 2)
    11.05
    """
    chosen = frontier(models, rule, start, end, top_k, pool=pool)
    days = (chosen["date"].max() - chosen["date"].min()).days
    if len(chosen) < 3 or days < LEAST_DAYS:
        raise KvError(
            f"context_windows: rule {rule!r} from {start} to {end} leaves {len(chosen)} models within {days} days; "
            f"accepted: dates with three or more over at least {LEAST_DAYS} days"
        )
    x, y = chosen["year"].to_numpy(), np.log10(chosen["context_tokens"].to_numpy())
    slope, intercept, r2 = line(x, y)
    low, high = bootstrap(x, y, draws, seed)
    return Fit(rule, start, end, len(chosen), 10**slope, r2, 10**low, 10**high, intercept, slope)


def line(x: Any, y: Any) -> tuple[float, float, float]:
    """Return slope, intercept and R2 of the least-squares line; R2 is not a number where all `y` are equal."""
    centre = x - x.mean()
    spread = float((centre**2).sum())
    if not spread:
        return 0.0, float(y.mean()), float("nan")
    slope = float((centre * (y - y.mean())).sum() / spread)
    total = float(((y - y.mean()) ** 2).sum())
    return slope, float(y.mean() - slope * x.mean()), slope**2 * spread / total if total else float("nan")


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


def records(models: pd.DataFrame) -> pd.DataFrame:
    """Return the models whose window was longer than any before, oldest first.

    Examples
    --------
    >>> records(windows())["context_tokens"].tolist()[-3:]
    [2097152, 4000000, 10000000]
    """
    longest = models.sort_values(["date", "context_tokens"], kind="stable")
    before = longest["context_tokens"].cummax().shift(fill_value=0)
    found = longest[longest["context_tokens"] > before]
    return found.groupby("date").tail(1).reset_index(drop=True)


def half_years(models: pd.DataFrame) -> pd.DataFrame:
    """Return the typical and the longest new window of each half-year (1 July belongs to the second): `half_year models median mean share_1m longest`.

    `mean` is geometric; the median jumps between sizes on offer, the mean does not.

    Examples
    --------
    >>> half_years(windows()).set_index("half_year").loc["2026H1", "median"]
    np.float64(262144.0)
    """
    names = [half_year(d) for d in models["date"]]
    grouped = models.groupby(names)["context_tokens"]
    parts = {"models": grouped.count(), "median": grouped.median(), "longest": grouped.max()}
    parts["mean"] = grouped.agg(lambda v: float(10 ** np.log10(v).mean()))
    parts["share_1m"] = grouped.agg(lambda v: float((v >= MILLION).mean()))
    return pd.DataFrame(parts).rename_axis("half_year").reset_index()[["half_year", "models", "median", "mean", "share_1m", "longest"]]


def half_year(when: date) -> str:
    """Return the half-year of a date, as 2024H2.

    Examples
    --------
    >>> half_year(date(2024, 6, 30)), half_year(date(2024, 7, 1))
    ('2024H1', '2024H2')
    """
    return f"{when.year}H{1 + (when.month > 6)}"


MILLION = 1_000_000
# first and last model of each reading of "times a year", by id in the table
READINGS = (
    ("claude-1 (9k)", "llama-4-scout"),
    ("gpt-4-0314", "llama-4-scout"),
    ("llama-2-70b", "gemini-2.5-pro-preview-05-06"),
    ("claude-1-100k", "llama-4-scout"),
    ("claude-1-100k", "gemini-1.5-pro-2M"),
    ("gpt-4-0314", "gpt-5.4"),
    ("claude-1 (9k)", "claude-opus-4-6"),
    ("gpt-4-1106-preview", "gemini-1.5-pro (1M preview)"),
    ("gpt-4-1106-preview", "gemini-1.5-flash"),
    ("gpt-4-1106-preview", "gpt-4.1"),
)


def readings(models: pd.DataFrame) -> pd.DataFrame:
    """Return growth between two named models, times a year = (last / first) ^ (365.25 / days): which pair gives 30, and what the article's 128K to 1M gives.

    Examples
    --------
    >>> round(readings(windows())["per_year"].iloc[0], 1)
    np.float64(30.0)
    """
    by_id = models.drop_duplicates("model_id").set_index("model_id")
    rows = []
    for first, last in READINGS:
        a, b = by_id.loc[first], by_id.loc[last]
        days = (b["date"] - a["date"]).days
        factor = float((b["context_tokens"] / a["context_tokens"]) ** (365.25 / days))
        rows.append((a["name"], a["context_tokens"], a["release_date"], b["name"], b["context_tokens"], b["release_date"], days, factor))
    return pd.DataFrame(rows, columns=["first", "first_tokens", "first_date", "last", "last_tokens", "last_date", "days", "per_year"])


def tail(models: pd.DataFrame, *, top_k: int = 10) -> pd.DataFrame:
    """Return the growth since the last record under choices that all look harmless: `choice models per_year low high`.

    The slope of the longest windows since then is set by the choice, not by the data: which pool they are ranked in, whether 1,000,000 is less than
    1,048,576, and one model's window, which resellers list at 2,000,000 and its maker at 1,000,000.
    """
    start, end = (records(models)["date"].max() + pd.Timedelta(days=1)).strftime("%Y-%m-%d"), models["release_date"].max()
    disputed = models["model_id"].str.startswith("grok-4.20")
    one = models.index == models.index[disputed & models["model_id"].str.endswith("0309-reasoning")][0]
    listed = listed_window("grok-4-20|grok-4.20")
    near = models["context_tokens"].between(0.95 * MILLION, 1.05 * MILLION)
    choices = (
        ("as listed by the makers, ranked among all since 2020", models, "epoch", "all"),
        ("the same, 1,000,000 and 1,048,576 taken as equal", _with(models, near, MILLION), "epoch", "all"),
        ("the same, one of three rows of Grok 4.20 as resold", _with(models, one, listed), "epoch", "all"),
        ("the same, Grok 4.20 as resold", _with(models, disputed, listed), "epoch", "all"),
        ("as listed by the makers, ranked from the last record on", models, "epoch", "window"),
        ("all new models", models, "all", "window"),
    )
    fits = [(name, fit(table, rule, start, end, top_k, pool=pool)) for name, table, rule, pool in choices]
    return pd.DataFrame([(name, f.models, f.per_year, f.low, f.high) for name, f in fits], columns=["choice", "models", "per_year", "low", "high"])


def listed_window(pattern: str) -> int:
    """Return the longest window at which any provider lists the models whose id matches a pattern."""
    rows = read("window_listings")
    return int(rows.loc[rows["model_id"].str.contains(pattern, case=False), "context_tokens"].max())


def _with(models: pd.DataFrame, which: Any, tokens: int) -> pd.DataFrame:
    return models.assign(context_tokens=models["context_tokens"].mask(which, tokens))


def effective() -> pd.DataFrame:
    """Return the models of two benchmarks with `ratio` = effective over advertised window, a bound where `bound` says so.

    Examples
    --------
    >>> effective().groupby("benchmark")["ratio"].median().round(3).to_dict()
    {'NoLiMa': 0.008, 'RULER': 0.25}
    """
    table = read("effective_context")
    return table.assign(ratio=table["effective_tokens"] / table["claimed_tokens"])
