"""Parameters of chapters: what a chapter declares, which values are accepted, and the hash that names a set of them.

A chapter declares its parameters in one cell tagged `parameters`, as literals: `name: type = default  # meaning [unit]`.
What a name may hold, in every chapter, is said once, in `RULES`.
"""

import ast
import datetime
import hashlib
import io
import json
import math
import os
import re
import tokenize
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from kvmodel.cards import Card, card_ids, find_model
from kvmodel.dtypes import NAMES as KV_FORMATS
from kvmodel.dtypes import parse_kv_dtype
from kvmodel.sizing import kv_bytes
from kvmodel.units import KvError, parse_count, parse_tokens, refuse

Value = int | float | str | bool
MODELS = "a card id (kvmodel cards lists them) or the path of a config.json, with @ and its number of parameters where weights count (config.json@70.6B)"
READER_CONFIG = "reader-config"  # the source of a card that is made from a reader's own config.json
TYPES: dict[str, type] = {"int": int, "float": float, "str": str, "bool": bool}
TEXT_LIMIT = 200_000
TEXT_RECORDED = 2_000  # a longer text is named by its hash in records, as a file is


@dataclass(frozen=True, slots=True)
class Rule:
    """What a parameter of one name accepts: its type, the values in words, and the function that reads one (a `KvError` for any other)."""

    type: str
    accepted: Callable[[], str]
    read: Callable[[str, Any], Value]


def _whole(low: int, high: int, parse: Callable[[object, str], int], units: str) -> Rule:
    words = f"a whole number from {low} to {high}{units}" if high < 10_000 else f"a whole number from {low:,} to {high:,}{units}"  # a year has no comma

    def read(name: str, value: Any) -> int:
        number = low - 1 if isinstance(value, bool) else parse(value, name)
        if not low <= number <= high:
            raise refuse(name, value, words)
        return number

    return Rule("int", lambda: words, read)


def _real(low: float, high: float, of: str) -> Rule:
    words = f"a number from {low:g} to {high:g}, {of}"

    def read(name: str, value: Any) -> float:
        try:
            number = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not low <= number <= high:
            raise refuse(name, value, words)
        return number

    return Rule("float", lambda: words, read)


def _choice(options: Callable[[], Iterable[str]], what: str) -> Rule:
    def read(name: str, value: Any) -> str:
        if value not in (names := list(options())):
            raise refuse(name, value, f"{what}: {' '.join(names)}", names)
        return str(value)

    return Rule("str", lambda: f"{what}: {' '.join(options())}", read)


def _date(name: str, value: Any) -> str:
    text = value.isoformat() if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime) else value
    try:
        day = datetime.date.fromisoformat(text) if re.fullmatch(r"\d{4}-\d\d-\d\d", text) else None
    except (TypeError, ValueError):
        day = None
    if day is None or not 2017 <= day.year <= 2035:  # the transformer is of 2017
        raise refuse(name, value, "a date from 2017-01-01 to 2035-12-31, as 2024-06-30")
    return day.isoformat()


def _text(name: str, value: Any) -> str:
    words = f"text of 1 to {TEXT_LIMIT:,} characters"
    if not isinstance(value, str) or not 0 < len(value) <= TEXT_LIMIT or not value.strip():
        raise refuse(name, value, words)
    if any("\ud800" <= c <= "\udfff" or (c < " " and c not in "\t\n\r") for c in value):
        raise refuse(name, value, f"{words}, in valid Unicode, without control characters")
    return value


def _model(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise refuse(name, value, MODELS, card_ids())
    try:
        model_card(value)  # reads and understands it now, or refuses
    except KvError as error:
        raise KvError(str(error) if str(error).startswith(name) else f"{name}: {error}") from None
    if value in card_ids():
        return value
    file, count = _file_and_count(value)
    path = Path(file).resolve()  # the kernel of a notebook starts in another folder
    return str(path / "config.json" if path.is_dir() else path) + (f"@{parse_count(count, name)}" if count else "")


def _file_and_count(model: str) -> tuple[str, str]:
    file, _, count = model.rpartition("@")
    return (file, count) if file and count and not os.path.exists(model) and os.path.exists(file) else (model, "")


def model_card(model: str) -> Card:
    """Return the card of a value of `model`: a card id, or the path of a config, with `@` and the number of parameters where weights matter.

    A card that is not of the book names `reader-config` as its source.
    """
    file, count = _file_and_count(model)
    found = find_model(file)
    if model in card_ids():
        return found
    return replace(found, sources={"geometry": [READER_CONFIG]}, params_total=parse_count(count, "model") if count else found.params_total)


def _kv_dtype(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise refuse(name, value, f"one of {' '.join(KV_FORMATS)}", KV_FORMATS)
    return parse_kv_dtype(value).name


def _flag() -> Rule:
    def read(name: str, value: Any) -> bool:
        if str(value) not in ("true", "false", "True", "False") or not isinstance(value, (bool, str)):
            raise refuse(name, value, "true or false", ("true", "false"))
        return str(value).lower() == "true"

    return Rule("bool", lambda: "true or false", read)


def _nodes() -> Iterable[str]:
    from kvmodel.hardware import node_ids  # what a chapter without a platform never needs

    return node_ids()


def _drives() -> Iterable[str]:
    from kvmodel.hardware import devices

    return (d.id for d in devices() if d.text["per"] == "drive")


def _tiers() -> Iterable[str]:
    from kvmodel.tiers import tier_ids

    return tier_ids()


def _traces() -> Iterable[str]:
    from kvmodel.traces import PUBLISHED

    return PUBLISHED


_count = partial(_whole, parse=parse_count, units=", with k M B (decimal)")
RULES: dict[str, Rule] = {
    "model": Rule("str", lambda: MODELS, _model),
    "context_tokens": _whole(1, 10**9, parse_tokens, ", with k K M (decimal) or Ki Mi (binary)"),
    "users": _count(1, 10**7),
    "kv_dtype": Rule("str", lambda: f"one of {' '.join(KV_FORMATS)}, or K:V for a pair", _kv_dtype),
    "platform": _choice(_nodes, "a node id"),
    "device": _choice(_drives, "a drive"),
    "tier": _choice(_tiers, "a tier id"),
    "count": _count(1, 10**6),
    "trace": _choice(_traces, "a trace of data/traces"),
    "case": _choice(lambda: ("low", "base", "high"), "one of"),
    "growth_rule": _choice(lambda: ("flat", "windows", "article"), "one of"),
    "year": _whole(2023, 2030, parse_count, ""),
    "rule": _choice(lambda: ("epoch", "record", "all"), "one of"),
    "start": Rule("str", lambda: "a date from 2017-01-01 to 2035-12-31", _date),
    "end": Rule("str", lambda: "a date from 2017-01-01 to 2035-12-31", _date),
    "top_k": _count(1, 1000),
    "text": Rule("str", lambda: f"text of 1 to {TEXT_LIMIT:,} characters", _text),
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One declared parameter of a chapter."""

    name: str
    type: str
    default: Value
    meaning: str
    unit: str

    @property
    def accepted(self) -> str:
        """The accepted values, in words."""
        return RULES[self.name].accepted()


def rule(name: str, known: Iterable[str] = RULES, where: str = "the book") -> Rule:
    """Return the rule of a parameter; a name that is not among `known` is refused with the nearest one of them."""
    names = sorted(known)
    if name not in names or name not in RULES:
        raise refuse("parameter", name, f"a parameter of {where}: {' '.join(names) or 'it has none'}", names)
    return RULES[name]


def check_values(chapter: str | Iterable[str], values: Mapping[str, Any]) -> dict[str, Value]:
    """Return the values of parameters, parsed by their types and checked.

    Parameters
    ----------
    chapter : slug of a chapter, for messages (any parameter of the book is then accepted); or the names that are accepted
    values : text as a command line has it (`1M`), or values as a notebook or a TOML file has them

    Raises
    ------
    KvError : unknown name, wrong type, value out of range, a model that the format cannot hold or whose cache passes 2^63 bytes

    Examples
    --------
    >>> check_values("kv-size", {"context_tokens": "1M", "users": 5e5})
    {'context_tokens': 1000000, 'users': 500000}
    """
    known, where = (RULES, "the book") if isinstance(chapter, str) else (list(chapter), "the chapter")
    parsed = {name: rule(name, known, where).read(name, value) for name, value in values.items()}
    if "model" in parsed:  # what values cannot say alone: kv_bytes refuses what it cannot compute
        sizes: dict[str, Any] = {"tokens": parsed.get("context_tokens", 1), "users": parsed.get("users", 1), "kv_dtype": parsed.get("kv_dtype", "bf16")}
        kv_bytes(model_card(str(parsed["model"])), **sizes)
    if {"rule", "start", "end", "top_k"} <= parsed.keys():
        from kvmodel.growth import fit, windows  # pandas: only the growth chapter needs it

        fit(windows(), str(parsed["rule"]), str(parsed["start"]), str(parsed["end"]), int(parsed["top_k"]), draws=1)
    return parsed


def named_values(values: Mapping[str, Value]) -> dict[str, Value]:
    """Return the values as records and hashes keep them: a model that is a file, and a long text, are named by the hash of their content."""
    named = dict(values)
    if len(text := str(named.get("text", ""))) > TEXT_RECORDED:
        named["text"] = "sha256:" + hashlib.sha256(text.encode()).hexdigest()
    if (model := named.get("model")) is not None and model not in card_ids() and not str(model).startswith("sha256:"):
        file, count = _file_and_count(str(model))
        content = json.dumps(json.loads(Path(file).read_bytes()), sort_keys=True, separators=(",", ":"))
        named["model"] = "sha256:" + hashlib.sha256(content.encode()).hexdigest() + (f"@{count}" if count else "")
    return named


def parameters_hash(values: Mapping[str, Value]) -> str:
    """Return 12 hex digits that name a set of parsed values: sha256 over canonical JSON (sorted keys, no spaces) of `named_values`.

    Examples
    --------
    >>> parameters_hash({"users": 1, "context_tokens": 100_000}) == parameters_hash({"context_tokens": 100_000, "users": 1})
    True
    """
    text = json.dumps(named_values(values), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def declared(source: str, where: str) -> dict[str, Parameter]:
    """Return the parameters that the source of a `parameters` cell declares, in order.

    Raises
    ------
    KvError : anything but `name: type = literal  # meaning [unit]`, a name without a rule, or a default that its rule refuses

    Examples
    --------
    >>> declared("users: int = 1  # sessions held at once [users]", "kv-size")["users"].unit
    'users'
    """
    try:
        body = ast.parse(source).body
    except SyntaxError as error:
        raise KvError(f"{where}: parameters cell, line {error.lineno}: {error.msg}") from None
    comments = _comments(source)
    found = [_parameter(statement, comments, where) for statement in body]
    if len({p.name for p in found}) < len(found):
        raise KvError(f"{where}: parameters cell declares a name twice")
    return {p.name: p for p in found}


def _parameter(statement: ast.stmt, comments: dict[int, str], where: str) -> Parameter:
    at = f"{where}: parameters cell, line {statement.lineno}"
    match statement:
        case ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id=kind), value=ast.expr() as literal) if kind in TYPES:
            comment = re.fullmatch(r"#\s*(.*?\S)(?:\s*\[([^\]]*)\])?\s*", comments.get(statement.end_lineno or 0, ""))
            default = _literal(literal, at)
        case _:
            raise KvError(f"{at}: accepted: name: type = literal  # meaning [unit], with a type of {' '.join(TYPES)}")
    if comment is None:
        raise KvError(f"{at}: {name} needs a comment: # meaning [unit]")
    try:
        if type(default) is not TYPES[kind] or rule(name, where="the table in kvmodel.report.parameters").type != kind:
            raise KvError(f"{name} is declared {kind}, holds {type(default).__name__} and is {RULES[name].type} in the book")
        return Parameter(name, kind, RULES[name].read(name, default), comment[1], comment[2] or "")
    except KvError as error:
        raise KvError(f"{at}: {error}") from None


def _literal(node: ast.expr, at: str) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        raise KvError(f"{at}: {ast.unparse(node)} is not a literal") from None


def _comments(source: str) -> dict[int, str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {t.start[0]: t.string for t in tokens if t.type == tokenize.COMMENT}


def rewritten(source: str, values: Mapping[str, Value]) -> str:
    """Return the source of a `parameters` cell with other values as its literals.

    Examples
    --------
    >>> rewritten("users: int = 1  # sessions [users]", {"users": 20_000})
    'users: int = 20_000  # sessions [users]'
    """
    lines = source.encode().split(b"\n")  # ast counts columns in bytes, and only these as line ends
    for s in reversed(ast.parse(source).body):
        if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name) and s.value is not None and s.target.id in values:
            value, node = values[s.target.id], s.value
            literal = f"{value:_}" if type(value) is int and abs(value) >= 10_000 else repr(value)
            first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
            lines[first : last + 1] = [lines[first][: node.col_offset] + literal.encode() + lines[last][node.end_col_offset :]]
    return b"\n".join(lines).decode()
