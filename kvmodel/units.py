"""Numbers with units, read and printed; and the one kind of refusal.

Units are the field's: tokens take `k K M` (decimal) and `Ki Mi` (binary), memory takes `kB` to `PB` (decimal) and `KiB` to `PiB` (binary).
"""

import re
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation

GB = 10**9
GiB = 2**30
LIMIT = 2**63  # results are int64 in arrays; scalars keep the same bound

TOKEN_UNITS = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "Ki": 2**10, "Mi": 2**20}
MEMORY_UNITS = {f"{p}B": 1000**n for n, p in enumerate("kMGTP", 1)} | {f"{p}iB": 1024**n for n, p in enumerate("KMGTP", 1)}
COUNT_UNITS = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}

_NUMBER = re.compile(r"([+-]?(?:\d+(?:_\d+)*)?\.?\d+(?:[eE][+-]?\d+)?)\s*([A-Za-z]*)", re.ASCII)
_FRACTION = re.compile(r"\+?(?:\d*\.\d+|\d+\.?)(?:[eE][+-]?\d+)?", re.ASCII)


class KvError(ValueError):
    """A refusal in one line: the field, its value, what is accepted, the nearest valid name."""


def refuse(field: str, value: object, accepted: str, options: Iterable[str] = ()) -> KvError:
    """Return the `KvError` for a value that is not accepted (the caller raises it).

    Parameters
    ----------
    field : name of the parameter or key at fault
    value : what was given
    accepted : what would be accepted, in words
    options : valid names; the nearest one is named

    Examples
    --------
    >>> print(refuse("tier", "moon", "a tier id", ["near-memory", "data-lake"]))
    tier: 'moon' is not accepted; accepted: a tier id; nearest: 'near-memory'
    """
    try:
        text, shown = str(value), repr(value)
    except ValueError:  # Python prints no integer of thousands of digits
        text = shown = "a number of thousands of digits"
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    near = nearest(text[:200], options)
    line = f"{field}: {shown} is not accepted; accepted: {accepted}" + (f"; nearest: {near!r}" if near else "")
    return KvError(" ".join(line.split()))


def nearest(name: str, options: Iterable[str]) -> str | None:
    """Return the valid name nearest to `name`, or None when there is none to choose from."""
    from difflib import get_close_matches  # only on the way to a refusal: start-up counts

    names = sorted(options)
    near = get_close_matches(name.lower(), names, n=1, cutoff=0.0)
    return near[0] if near else None


def _scaled(field: str, text: object, units: dict[str, int], accepted: str) -> Decimal:
    match = _NUMBER.fullmatch(str(text).strip())
    if not match or match[2] not in units:
        raise refuse(field, text, accepted)
    try:
        number = Decimal(match[1].replace("_", ""))
    except InvalidOperation:
        raise refuse(field, text, accepted) from None
    if number.adjusted() > 30:  # before scaling: an exponent must not cost time or memory
        raise refuse(field, text, f"{accepted}; below 2^63")
    return number * units[match[2]]


def _whole(field: str, text: object, units: dict[str, int], accepted: str) -> int:
    value = _scaled(field, text, units, accepted)
    if value <= 0 or value != value.to_integral_value() or value >= LIMIT:
        raise refuse(field, text, accepted)
    return int(value)


def parse_tokens(text: object, field: str = "context") -> int:
    """Return a number of tokens from text such as `100k`, `1M`, `128Ki` or `131072`.

    `k K M` are decimal, `Ki Mi` binary. Raises `KvError` for zero, negative, fractional or unknown values.

    Examples
    --------
    >>> parse_tokens("128Ki"), parse_tokens("128k"), parse_tokens("5e5")
    (131072, 128000, 500000)
    """
    return _whole(field, text, TOKEN_UNITS, "a whole number of tokens above 0, with k K M (decimal) or Ki Mi (binary), such as 128Ki")


def parse_count(text: object, field: str) -> int:
    """Return a whole number above 0 from text such as `4`, `70.6B` or `1.5T` (decimal units).

    Examples
    --------
    >>> parse_count("70.6B", "params")
    70600000000
    """
    return _whole(field, text, COUNT_UNITS, "a whole number above 0, with k M B T (decimal), such as 8 or 70.6B")


def parse_memory(text: object, field: str = "memory") -> int:
    """Return bytes from text such as `640GB` or `80GiB`; the unit is required and case counts (`Gb` is refused).

    A fraction of a byte is cut off, since a budget must not be overstated.

    Examples
    --------
    >>> parse_memory("640GB"), parse_memory("0.5 KiB")
    (640000000000, 512)
    """
    units = " ".join(MEMORY_UNITS)
    value = _scaled(field, text, MEMORY_UNITS, f"a size above 0 with one of {units}, case as written, such as 640GB")
    if value < 1 or value >= LIMIT:
        raise refuse(field, text, f"a size from 1 byte to 2^63 with one of {units}")
    return int(value)


def parse_fraction(text: object, field: str) -> float:
    """Return a number above 0 and at most 1, such as `0.9`."""
    plain = str(text).strip()
    value = float(plain) if _FRACTION.fullmatch(plain) else 0.0
    if not 0 < value <= 1:
        raise refuse(field, text, "a number above 0 and at most 1, such as 0.9")
    return value


def bounded(field: str, *results: int) -> None:
    """Refuse results of 2^63 bytes and more: arrays could not hold them, so scalars do not either.

    Examples
    --------
    >>> bounded("context", 2**63 - 1)
    """
    if max(results) >= LIMIT:
        raise KvError(f"{field}: a result of {Decimal(max(results)):.3g} bytes is not accepted; accepted: results below 2^63 bytes")


def format_bytes(n: float, *, binary: bool = False, digits: int = 3) -> str:
    """Return bytes in words with `digits` significant figures, decimal (`GB`) or binary (`GiB`) units.

    Examples
    --------
    >>> format_bytes(32_768_000_000), format_bytes(32_768_000_000, binary=True), format_bytes(0)
    ('32.8 GB', '30.5 GiB', '0 B')
    """
    step, names = (1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]) if binary else (1000, ["B", "kB", "MB", "GB", "TB", "PB", "EB"])
    return _format(n, step, names, digits)


def format_tokens(n: float, *, digits: int = 3) -> str:
    """Return tokens in words: `131,072` below a million, `1.05M` above.

    Examples
    --------
    >>> format_tokens(131072), format_tokens(1_048_576), format_tokens(2_500_000_000)
    ('131,072', '1.05M', '2.5B')
    """
    if abs(n) < 10**6:
        return f"{n:,.0f}"
    return _format(n / 10**6, 1000, ["M", "B", "T"], digits).replace(" ", "")


def format_seconds(s: float, *, digits: int = 3) -> str:
    """Return a time in words, in the unit that reads best.

    Examples
    --------
    >>> format_seconds(0.0123), format_seconds(75), format_seconds(90_000), format_seconds(2.5e-7)
    ('12.3 ms', '75 s', '25 h', '250 ns')
    """
    for size, unit in ((86400 * 365, "years"), (86400 * 2, "days"), (3600, "h"), (120, "min"), (1, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if abs(s) >= size:
            divisor = {"days": 86400, "min": 60}.get(unit, size)
            return f"{significant(s / divisor, digits)} {unit}"
    return f"{significant(s * 1e9, digits)} ns" if s else "0 s"


def significant(x: float, digits: int = 3) -> str:
    """Return `x` with `digits` significant figures, thousands separated, no exponent.

    Examples
    --------
    >>> significant(0.012345), significant(1234567), significant(2.0)
    ('0.0123', '1,230,000', '2')
    """
    if x == 0:
        return "0"
    value = Decimal(f"{float(x):.{digits - 1}e}")
    text = f"{value:,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _format(n: float, step: int, names: list[str], digits: int) -> str:
    value, unit = float(n), 0
    while unit < len(names) - 1 and max(abs(value), float(f"{abs(value):.{digits - 1}e}")) >= step:
        value, unit = value / step, unit + 1
    return f"{significant(value, digits)} {names[unit]}"
