"""What a chapter's cells call: its parameters, its sentences, its headline numbers, its tables."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd

from kvmodel.cards import find_model
from kvmodel.report.chapters import Chapter, book_root
from kvmodel.report.execute import HEADLINE
from kvmodel.report.parameters import Value, check_values, named_values, parameters_hash
from kvmodel.report.record import Parameter
from kvmodel.units import KvError

Bundle = dict[str, Any]


@dataclass
class Setup:
    """The chapter that this kernel executes."""

    slug: str = ""
    values: dict[str, Value] = field(default_factory=dict)
    parameters: dict[str, Parameter] = field(default_factory=dict)
    headlines: set[str] = field(default_factory=set)
    figures: set[str] = field(default_factory=set)

    @property
    def hash(self) -> str:
        """The hash of the parameter values."""
        return parameters_hash(self.values)


current = Setup()


def chapter(slug: str, **values: Any) -> SimpleNamespace:
    """Return the checked parameters of a chapter by name, with `card` for a `model` and `node` for a `platform`; figures of this kernel carry their hash.

    Raises
    ------
    KvError : a value that its rule refuses
    """
    checked = check_values(slug, values)
    current.__init__(slug, checked, _described(slug, checked))  # type: ignore[misc]
    found = SimpleNamespace(**checked)
    if "model" in checked:
        found.card = find_model(str(checked["model"]))
    if "platform" in checked:
        from kvmodel.hardware import node  # chapters without a platform do without

        found.node = node(str(checked["platform"]))
    return found


def _described(slug: str, values: Mapping[str, Value]) -> dict[str, Parameter]:
    try:
        declared = Chapter(book_root() / "book" / f"{slug}.ipynb").parameters
    except (KvError, OSError):  # a notebook that is not part of the book
        declared = {}
    shown = named_values(values)
    return {n: Parameter(v, declared[n].default, declared[n].unit, declared[n].meaning) if n in declared else Parameter(v, v) for n, v in shown.items()}


class Shown:
    """An output with a media type for each reader."""

    def __init__(self, data: Bundle, metadata: Bundle | None = None) -> None:
        self.data, self.metadata = data, metadata or {}

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[Bundle, Bundle]:
        return self.data, self.metadata


def md(text: str) -> Shown:
    """Return a MyST text as the output of a cell: sentences whose numbers are live.

    Examples
    --------
    >>> md("One user keeps **32.8 GB**.").data["text/markdown"]
    'One user keeps **32.8 GB**.'
    """
    return Shown({"text/plain": text, "text/markdown": text})


def headline(id: str, value: float | int | None, unit: str, text: str, *, low: float | None = None, high: float | None = None) -> None:
    """Record a number that other pages use: its value, unit, text and range (none given: exact); the text is glued under `id`.

    Raises
    ------
    KvError : an id that this chapter has used already, an empty text
    """
    from IPython.display import display

    if id in current.headlines or not text.strip():
        raise KvError(f"headline: {id!r} is not accepted; accepted: an id used once, with a text")
    current.headlines.add(id)
    plain = [x if isinstance(x, int) or x is None else float(f"{float(x):.10g}") for x in (value, low, high)]
    record = {"id": id, "value": plain[0], "unit": unit, "text": text, "low": plain[1], "high": plain[2], "exact": low is None and high is None}
    glued = {"application/papermill.record/text/plain": repr(text)}
    display(glued | {HEADLINE: record}, metadata={"scrapbook": {"name": id, "mime_prefix": "application/papermill.record/"}}, raw=True)


def table(data: pd.DataFrame, *, caption: str, units: Mapping[str, str] | None = None, name: str = "") -> Shown:
    """Return a table as the output of a cell: caption, heads with units, numbers to the right; text is taken as MyST.

    Parameters
    ----------
    data : what is shown; format numbers before, since one column has one unit
    caption : what the table says
    units : unit of a column, put into its head
    name : label for references
    """
    units = units or {}
    number = [pd.api.types.is_numeric_dtype(data[c]) or _numeric(data[c]) for c in data.columns]
    heads = [f"{_cell(c)} ({units[c]})" if units.get(c) else _cell(c) for c in data.columns]
    rows = [[_cell(v) for v in row] for row in data.itertuples(index=False)]
    body = [f"| {' | '.join(r)} |" for r in [heads, ["--:" if n else ":--" for n in number], *rows]]
    return md("\n".join([f":::{{table}} {caption}", *([f":name: {name}"] if name else []), "", *body, ":::"]))


def _numeric(column: "pd.Series[Any]") -> bool:
    texts = [str(v) for v in column if str(v) not in ("", "-", "–")]
    return bool(texts) and all(t.lstrip("-+~<>≈ ")[:1].isdigit() for t in texts)


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and pd.isna(value)):
        return "–"
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else f"{value:,.10g}" if isinstance(value, float) else str(value)
    return " ".join(text.replace("|", "\\|").split())


def figures_folder() -> Path | None:
    """Return where this execution leaves figure files: of a run, of a build of the book; None where only outputs count (refresh, nbval)."""
    for name in ("KVMODEL_RUN", "KVMODEL_BUILD"):
        if os.environ.get(name):
            return Path(os.environ[name]) / "_figures" / "figures"
    return None


def interactive() -> bool:
    """True in a notebook that a person has open."""
    return figures_folder() is None and any(name in os.environ for name in ("JPY_SESSION_NAME", "VSCODE_PID", "VSCODE_CWD"))
