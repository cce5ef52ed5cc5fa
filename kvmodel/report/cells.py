"""What a chapter's cells call: its parameters, its sentences, its headline numbers, its tables."""

import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd

from kvmodel.report.chapters import Chapter, book_root
from kvmodel.report.execute import HEADLINE, records
from kvmodel.report.parameters import Value, check_values, model_card, named_values, parameters_hash
from kvmodel.report.record import Parameter
from kvmodel.units import KvError

Bundle = dict[str, Any]
GLUED = "application/papermill.record/"  # prefix of what MyST-NB keeps to paste, and does not show
HEADLINE_ID = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


@dataclass
class Setup:
    """The chapter that this kernel executes."""

    slug: str = ""
    values: dict[str, Value] = field(default_factory=dict)
    parameters: dict[str, Parameter] = field(default_factory=dict)
    headlines: set[str] = field(default_factory=set)
    figures: set[str] = field(default_factory=set)

    def begin(self, slug: str, values: dict[str, Value], parameters: dict[str, Parameter]) -> None:
        """Start a chapter: nothing is recorded in it yet."""
        self.slug, self.values, self.parameters, self.headlines, self.figures = slug, values, parameters, set(), set()

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
    current.begin(slug, checked, _described(slug, checked))
    found = SimpleNamespace(**checked)
    if "model" in checked:
        found.card = model_card(str(checked["model"]))
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

    Parameters
    ----------
    id : kebab-case, used once in the book
    value : the number; None, or one that is not finite, is recorded as null
    unit : its unit
    text : number and unit as prose has them
    low, high : range, where the value is not exact

    Raises
    ------
    KvError : an id that is no name or that this chapter has used already, an empty text, a range that does not hold the value
    """
    from IPython.display import display

    if not HEADLINE_ID.fullmatch(id) or (id in current.headlines and not interactive()):
        raise KvError(f"headline: {id!r} is not accepted; accepted: an id of a-z 0-9 -, a letter first, used once")
    if not text.strip():
        raise KvError(f"headline {id}: an empty text is not accepted; accepted: number and unit as prose has them, such as '32.8 GB'")
    number, least, most = (_number(x) for x in (value, low, high))
    if not all(a <= b for a, b in ((least, number), (number, most)) if a is not None and b is not None):
        raise KvError(f"headline {id}: {value} is not accepted; accepted: a value in its range, from {low} to {high}")
    current.headlines.add(id)
    record = {"id": id, "value": number, "unit": unit, "text": text, "low": least, "high": most, "exact": low is None and high is None}
    display({GLUED + "text/plain": repr(text)}, metadata={"scrapbook": {"name": id, "mime_prefix": GLUED}}, raw=True)
    display({HEADLINE: record}, raw=True)  # an output of its own: MyST-NB takes the glued one out of the notebooks it keeps


def _number(x: Any) -> float | int | None:
    if x is None or isinstance(x, Integral):
        return None if x is None else int(x)
    return float(f"{float(x):.10g}") if math.isfinite(x) else None


def read_headlines(notebook: Path) -> list[dict[str, Any]]:
    """Return the headlines of an executed notebook, in order: id, value, unit, text, low, high, exact, and the chapter they stand in."""
    found = records(json.loads(notebook.read_text("utf-8")), HEADLINE)
    return [{"chapter": notebook.stem} | headline for headline in found]


def executed_notebooks() -> Path:
    """Return the folder of the notebooks as this execution has them: of a run, of a build of the book (which reads gathering chapters last), else committed."""
    for name in ("KVMODEL_RUN", "KVMODEL_EXECUTED"):
        if os.environ.get(name):
            return Path(os.environ[name]) / "book"
    return book_root() / "book"


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
    heads = [f"{_cell(c)} ({units[c]})" if units.get(c) not in (None, "", c) else _cell(c) for c in data.columns]
    rows = [[_cell(v) for v in row] for row in data.itertuples(index=False)]
    body = [f"| {' | '.join(r)} |" for r in [heads, ["--:" if n else ":--" for n in number], *rows]]
    text = "\n".join([f":::{{table}} {' '.join(caption.split())}", *([f":name: {name}"] if name else []), "", *body, ":::"])
    return Shown({"text/plain": f"<Table of {len(rows)} rows>", "text/markdown": text})


def _numeric(column: "pd.Series[Any]") -> bool:
    texts = [str(v) for v in column if str(v) not in ("", "-", "–")]
    return bool(texts) and all(t.lstrip("-+~<>≈* ")[:1].isdigit() and len(t) <= 24 for t in texts)  # longer ones are words that begin with a number


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
    """True in a notebook that a person has open: its front end can answer questions, those that only execute cannot."""
    from IPython.core.getipython import get_ipython

    kernel = getattr(get_ipython(), "kernel", None)
    request = kernel.get_parent("shell") if kernel is not None and figures_folder() is None else {}
    return bool(request.get("content", {}).get("allow_stdin"))
