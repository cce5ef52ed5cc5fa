"""The tables of `data/`: read by name, every value checked against what `data/datapackage.json` says of its field."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from kvmodel.places import DATA
from kvmodel.units import KvError, nearest, refuse

DAY = r"\d{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?"  # a date to the precision known
IDS = r"[a-z0-9][a-z0-9-]*( [a-z0-9][a-z0-9-]*)*"


@cache
def package() -> dict[str, Any]:
    """Return the data package: tables with their fields, sources and licences (Frictionless)."""
    path = DATA / "datapackage.json"
    if not path.is_file():
        raise KvError("data: datapackage.json is neither in the package nor beside it; accepted: a whole install or checkout")
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def resource(name: str) -> dict[str, Any]:
    """Return what the data package says of one table; an unknown name is refused with the nearest."""
    found = {r["name"]: r for r in package()["resources"] if "schema" in r}
    if name not in found:
        raise refuse("table", name, f"a table of data/: {' '.join(found)}", found)
    about: dict[str, Any] = found[name]
    return about


def read(name: str, path: Path | None = None) -> pd.DataFrame:
    """Return a table with the types of its fields: text, float or whole numbers, booleans, timestamps for full dates; text where a value is missing is ''.

    Parameters
    ----------
    name : of the table, as `context_windows`
    path : another CSV file with the same fields

    Raises
    ------
    KvError : unknown table; a file that is not UTF-8 CSV; an unknown or missing column; a value that its field refuses, or a key that comes twice, with line

    Examples
    --------
    >>> int(read("tokenizers")["english_tokens"].min())
    171
    """
    about = resource(name)
    file = path or DATA / about["path"]
    try:
        raw = pd.read_csv(file, dtype=str, keep_default_na=False)
    except (OSError, UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise KvError(f"{name}: {file.name} cannot be read as UTF-8 CSV: {' '.join(str(error).split())}") from None
    return check(name, raw, about["schema"])


def check(name: str, raw: pd.DataFrame, schema: Mapping[str, Any]) -> pd.DataFrame:
    """Return the typed table of text columns `raw`, or refuse it with table, line and rule."""
    fields = {f["name"]: f for f in schema["fields"]}
    for column in raw.columns:
        if column not in fields:
            raise KvError(f"{name}: column {column!r} is not accepted; accepted: {' '.join(fields)}; nearest: {nearest(column, fields)!r}")
    for column in fields:
        if column not in raw:
            raise KvError(f"{name}: column {column!r} is missing; accepted: a table with {' '.join(fields)}")
    typed = pd.DataFrame({column: _typed(name, raw[column], field) for column, field in fields.items()})
    key = schema.get("primaryKey", [])
    twice = raw.duplicated(key) if key else pd.Series(False, index=raw.index)
    if twice.any():
        row = int(twice.to_numpy().argmax())
        raise KvError(f"{name}, line {row + 2}: {' '.join(f'{k} {raw[k].iloc[row]!r}' for k in key)} is there already; accepted: a key once ({' '.join(key)})")
    return typed


def _typed(name: str, column: "pd.Series[Any]", field: Mapping[str, Any]) -> "pd.Series[Any]":
    rules, kind = field.get("constraints", {}), field["type"]
    given = column != ""
    _refuse(name, field, column, given | (not rules.get("required", False)), "a value, which this field needs")
    if kind == "boolean":
        _refuse(name, field, column, ~given | column.isin(["true", "false"]), "true or false")
        return column.map({"true": True, "false": False}) if given.all() else column.map({"true": True, "false": False, "": None})
    if kind == "date":
        dates = pd.to_datetime(column.where(column.str.fullmatch(r"\d{4}-\d\d-\d\d")), format="%Y-%m-%d", errors="coerce")
        _refuse(name, field, column, ~given | dates.between("2017-01-01", "2035-12-31"), "a date from 2017-01-01 to 2035-12-31, as 2024-06-30")
        return dates
    if kind in ("integer", "number"):
        return _number(name, column, field, rules, given)
    if pattern := rules.get("pattern"):
        _refuse(name, field, column, ~given | column.str.fullmatch(pattern), PATTERNS.get(pattern, f"text as {pattern}"))
        if pattern == DAY:  # the calendar has the last word, and data/ is about our time
            whole = pd.to_datetime(column, format="ISO8601", errors="coerce")
            _refuse(name, field, column, ~given | whole.between("2012-01-01", "2035-12-31"), PATTERNS[DAY])
    if options := rules.get("enum"):
        _refuse(name, field, column, ~given | column.isin(options), f"one of {' '.join(options)}")
    return column


PATTERNS = {DAY: "a date from 2012 to 2035, as 2024, 2024-06 or 2024-06-30", IDS: "ids of data/sources.toml, a space between them"}


def _number(name: str, column: "pd.Series[Any]", field: Mapping[str, Any], rules: Mapping[str, Any], given: "pd.Series[Any]") -> "pd.Series[Any]":
    low, high = rules.get("minimum", float("-inf")), rules.get("maximum", float("inf"))
    whole = field["type"] == "integer"
    looks = column.str.fullmatch(r"-?\d+" if whole else r"-?\d+(\.\d+)?([eE][+-]?\d+)?")
    values = pd.to_numeric(column.where(looks), errors="coerce")
    ends = f" from {low:,}" * (low > float("-inf")) + f" to {high:,}" * (high < float("inf"))
    _refuse(name, field, column, ~given | values.between(low, high), f"a {'whole ' * whole}number{ends} in {field.get('unit') or 'the unit of its row'}")
    return values.astype("int64") if whole and given.all() else values.astype("float64")


def _refuse(name: str, field: Mapping[str, Any], column: "pd.Series[Any]", good: "pd.Series[Any]", accepted: str) -> None:
    if not good.all():
        row = int((~good.astype(bool)).to_numpy().argmax())
        raise refuse(f"{name}, line {row + 2}: {field['name']}", column.iloc[row], accepted)


def source_ids(table: pd.DataFrame) -> set[str]:
    """Return the ids that the source columns of a table name."""
    columns = [c for c in table if str(c) in ("source", "date_sources", "context_sources")]
    return {i for c in columns for cell in table[c] for i in str(cell).split()}
