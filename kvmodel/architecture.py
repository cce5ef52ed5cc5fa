"""KV per token of released models against their dates: how far attention kinds cut it, and whether longer windows took the saving back."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from kvmodel.cards import card, card_ids
from kvmodel.growth import DRAWS, SEED, bootstrap, decimal_year, line
from kvmodel.sizing import kv_bytes
from kvmodel.units import KvError, refuse

MEASURES = {  # what is fitted: column of `models()`, its unit, which rows
    "native window": ("native_kv_bytes", "bytes of KV at the full native window"),
    "maximum": ("native_kv_bytes", "bytes of KV at the full native window, largest model of each half-year"),
    "token": ("bytes_per_token", "bytes of KV per token, at the full native window"),
    "active parameter": ("bytes_per_token_per_gparam", "bytes of KV per token and billion active parameters"),
    "window": ("native_tokens", "tokens of the native window"),
}
STEPS = {"mha": "MHA", "gqa": "GQA", "mqa": "GQA", "mfa": "GQA", "mla": "MLA", "dsa": "sparse or compressed", "msa": "sparse or compressed",
    "csa": "sparse or compressed", "hca": "sparse or compressed", "window": "windows", "chunked": "windows"}  # fmt: skip
FAMILIES = ("MHA", "GQA", "windows", "MLA", "linear layers", "sparse or compressed")


@dataclass(frozen=True, slots=True)
class Trend:
    """log10(measure) = a + b * year by least squares over models; `per_year` = 10^b with the 5th and 95th percentile of seeded bootstrap draws."""

    per: str
    models: int
    per_year: float
    low: float
    high: float
    r2: float
    intercept: float
    slope: float

    def value(self, years: Any) -> Any:
        """Return the fitted measure at a decimal year."""
        return 10 ** (self.intercept + self.slope * years)


@cache
def models() -> pd.DataFrame:
    """Return the cards whose release date and native window are sourced, oldest first, with KV in bf16.

    Columns: `model family date year native_tokens params_active native_kv_bytes bytes_per_token` (stored at the full window over its tokens)
    `bytes_per_token_per_gparam` (None where active parameters are unknown).

    Examples
    --------
    >>> found = models().set_index("model")
    >>> int(found.loc["llama-3.3-70b", "bytes_per_token"])
    327680
    """
    rows = []
    for one in map(card, card_ids()):
        if one.release_date is None or one.native_context_tokens is None or not {"release_date", "native_context_tokens"} <= one.sources.keys():
            continue
        stored = kv_bytes(one, one.native_context_tokens)
        rows.append((one.id, family(one.attention), one.release_date, one.native_context_tokens, one.params_active, stored, stored / one.native_context_tokens))
    found = pd.DataFrame(rows, columns=["model", "family", "date", "native_tokens", "params_active", "native_kv_bytes", "bytes_per_token"])
    found["date"] = pd.to_datetime(found["date"], format="ISO8601")
    found["year"] = decimal_year(found["date"])
    found["bytes_per_token_per_gparam"] = found["bytes_per_token"] / found["params_active"].astype("float64") * 1e9
    return found.sort_values(["date", "model"], kind="stable").reset_index(drop=True)


def family(attention: str) -> str:
    """Return the family that a card's attention kinds belong to: the step that cut KV most recently in the history of the field.

    Examples
    --------
    >>> family("gqa"), family("gqa+window"), family("mla+dsa"), family("gqa+gdn")
    ('GQA', 'windows', 'sparse or compressed', 'linear layers')
    """
    steps = [STEPS.get(kind, "linear layers") for kind in attention.split("+") if kind != "shared"]
    return max(steps or ["linear layers"], key=FAMILIES.index)


def left_out() -> int:
    """Return how many cards lack a sourced date or native window."""
    return len(card_ids()) - len(models())


def trend(per: str = "native window", *, since: str = "", drop: Collection[str] = (), draws: int = DRAWS, seed: int = SEED) -> Trend:
    """Return the growth of a measure over released models as a factor per year, with a seeded 90 % bootstrap interval over models.

    Parameters
    ----------
    per : `native window`, `maximum`, `token`, `active parameter` or `window` (the tokens themselves)
    since : first release date that counts
    drop : ids of cards left out

    Raises
    ------
    KvError : another measure; fewer than three models left

    Examples
    --------
    >>> token, window, both = (trend(per).per_year for per in ("token", "window", "native window"))
    >>> round(token * window / both, 9)
    1.0
    """
    if per not in MEASURES:
        raise refuse("per", per, " or ".join(MEASURES), MEASURES)
    column = MEASURES[per][0]
    found = models()
    found = found[(found["date"] >= pd.Timestamp(since or "1900-01-01")) & ~found["model"].isin(drop)]
    if per == "maximum":
        found = found.loc[found.groupby(half_year(found["date"]))[column].idxmax()]
    found = found[found[column] > 0]
    if len(found) < 3:
        raise KvError(f"model cards: since {since!r} leaves {len(found)} models with a sourced date and window; accepted: a date that leaves three")
    x, y = found["year"].to_numpy(), np.log10(found[column].to_numpy(dtype="float64"))
    slope, intercept, r2 = line(x, y)
    low, high = bootstrap(x, y, draws, seed)
    return Trend(per, len(found), 10**slope, 10**low, 10**high, r2, intercept, slope)


def half_year(dates: "pd.Series[Any]") -> "pd.Series[Any]":
    """Return `2024H1` for a date up to 30 June, `2024H2` from 1 July."""
    return pd.Series([f"{d.year}H{1 + (d.month > 6)}" for d in dates], index=dates.index)
