"""The chapters of a book and the scenarios beside it: where they are, what they declare, which values a run gives them."""

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from kvmodel.report.parameters import RULES, Parameter, Value, check_values, declared, rule
from kvmodel.units import KvError, refuse

ABOUT = ("title", "why")  # keys of a scenario that are no parameters
INDEX = "index"
GATHER = ("claims", INDEX)  # chapters made from what the others say: they come last, in this order


@dataclass(frozen=True)
class Chapter:
    """One chapter that can be run: its file, and the notebook as read."""

    path: Path

    @property
    def slug(self) -> str:
        """The address of the chapter."""
        return self.path.stem

    @cached_property
    def text(self) -> str:
        """The notebook as JSON text."""
        return self.path.read_text("utf-8")

    @cached_property
    def cells(self) -> list[dict[str, Any]]:
        """The cells of the notebook, sources joined to text."""
        try:
            cells = json.loads(self.text)["cells"]
            return [cell | {"source": "".join(cell["source"])} for cell in cells]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise KvError(f"{self.slug}: {self.path.name} is not a notebook: {type(error).__name__}: {error}") from None

    @property
    def title(self) -> str:
        """The first heading."""
        found = (re.search(r"^#\s+(.+?)\s*$", c["source"], re.MULTILINE) for c in self.cells if c["cell_type"] == "markdown")
        return next((m[1] for m in found if m), self.slug)

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        """What the cell tagged `parameters` declares, in order; empty where there is none."""
        cells = [c for c in self.cells if c["cell_type"] == "code" and "parameters" in c.get("metadata", {}).get("tags", [])]
        if len(cells) > 1:
            raise KvError(f"{self.slug}: {len(cells)} cells are tagged parameters; accepted: one")
        return declared(cells[0]["source"], self.slug) if cells else {}

    @property
    def defaults(self) -> dict[str, Value]:
        """The published values."""
        return {p.name: p.default for p in self.parameters.values()}

    def values(self, scenario: Mapping[str, Value], given: Mapping[str, Any]) -> dict[str, Value]:
        """Return all values of a run: defaults, then the scenario where it names a declared one, then what was given (an undeclared name is refused)."""
        for name in given:
            rule(name, self.parameters, self.slug)
        taken = {name: value for name, value in scenario.items() if name in self.parameters}
        return check_values(self.parameters, self.defaults | taken | dict(given))


@dataclass(frozen=True)
class Scenario:
    """A named set of parameter values."""

    id: str
    title: str
    why: str
    parameters: dict[str, Value]


def book_root(given: str | None = None) -> Path:
    """Return the folder that holds the book: the one given, else the nearest above this folder, else the checkout that this package belongs to.

    Raises
    ------
    KvError : there is none, as after an install without a checkout
    """
    here = Path.cwd()
    places = [Path(given).resolve()] if given else [here, *here.parents, Path(__file__).parents[2]]
    found = next((p for p in places if (p / "_toc.yml").is_file() and (p / "book").is_dir()), None)
    if found is None:
        raise refuse("book", given or str(here), "--book DIR with a checkout of the book (a folder with _toc.yml and book/), which this command needs")
    return found


def chapters(root: Path) -> dict[str, Chapter]:
    """Return the chapters of a book by slug, in the order of `_toc.yml`."""
    listed = re.findall(r"^\s*-?\s*(?:root|file):\s*['\"]?([^'\"\s#]+)", (root / "_toc.yml").read_text("utf-8"), re.MULTILINE)
    order = {Path(name).name.removesuffix(".ipynb"): n for n, name in enumerate(listed)}
    paths = sorted((root / "book").glob("*.ipynb"), key=lambda p: (order.get(p.stem, len(order)), p.stem))
    return {p.stem: Chapter(p) for p in paths}


def chapter(root: Path, slug: str) -> Chapter:
    """Return one chapter; an unknown slug is refused with the nearest."""
    known = chapters(root)
    if slug not in known:
        raise refuse("chapter", slug, f"a chapter: {' '.join(known)}", known)
    return known[slug]


def scenario(root: Path, name: str) -> Scenario:
    """Return a scenario by id (a file of `scenarios/`) or by the path of a TOML file, its values checked.

    Raises
    ------
    KvError : no such scenario, not flat TOML, a name that no chapter declares, a value that its name refuses
    """
    shipped = {p.stem: p for p in sorted((root / "scenarios").glob("*.toml"))}
    path = shipped.get(name) or Path(name)
    if not path.is_file():
        raise refuse("scenario", name, f"a scenario: {' '.join(shipped)}, or the path of a TOML file", shipped)
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except (ValueError, OSError) as error:
        raise KvError(f"scenario: {path.name} is not TOML: {' '.join(str(error).split())}") from None
    about = {key: content.pop(key, "") for key in ABOUT}
    if wrong := next((key for key, value in about.items() if not isinstance(value, str)), None):
        raise refuse(f"scenario {path.stem}: {wrong}", about[wrong], "text")
    names = {name for c in chapters(root).values() for name in c.parameters}
    try:
        for key in content:
            rule(key, names & RULES.keys(), "any chapter")
        return Scenario(path.stem, about["title"] or path.stem, about["why"], check_values(names, content))
    except KvError as error:
        raise KvError(f"scenario {path.stem}: {error}") from None


def scenarios(root: Path) -> list[Scenario]:
    """Return the shipped scenarios, the published one first."""
    found = [scenario(root, p.stem) for p in sorted((root / "scenarios").glob("*.toml"))]
    return sorted(found, key=lambda s: bool(s.parameters))
