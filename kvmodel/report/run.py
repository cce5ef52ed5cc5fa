"""`kvmodel run`: a chapter, or the whole book, made again with other values, in a folder that opens from disk."""

import hashlib
import json
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

from kvmodel import __version__
from kvmodel.report import chapters as book
from kvmodel.report import cite, draw, folder, page
from kvmodel.report.chapters import GATHER, INDEX, Chapter
from kvmodel.report.execute import HEADLINE, Notebook, Progress, cores, execute, inputs, quiet, records, running, side_by_side
from kvmodel.report.parameters import Value, named_values, parameters_hash, rule
from kvmodel.report.record import MIME as FIGURE
from kvmodel.units import refuse, significant

NEW = {"text": "new", "value": None}


@dataclass(frozen=True)
class Result:
    """A finished run: its folder, what `run.json` says, and whether it was there already."""

    folder: Path
    record: dict[str, Any]
    reused: bool


@dataclass(frozen=True)
class Plan:
    """A run that has been checked: which chapters, with which values."""

    root: Path
    name: str
    chapters: dict[str, Chapter]
    values: dict[str, dict[str, Value]]
    scenario: str | None = None

    @property
    def whole(self) -> bool:
        """True for the whole book."""
        return self.name == "all"

    @property
    def changes(self) -> dict[str, Value]:
        """The values that are not the published ones."""
        return {n: v for slug, values in self.values.items() for n, v in values.items() if v != self.chapters[slug].defaults[n]}

    @property
    def hash(self) -> str:
        """12 hex digits that name the values."""
        if not self.whole:
            return parameters_hash(self.values[self.name])
        return hashlib.sha256(json.dumps({slug: parameters_hash(v) for slug, v in self.values.items()}).encode()).hexdigest()[:12]

    @property
    def command(self) -> str:
        """The command that makes this run again."""
        return cite.run_command("--all" if self.whole else self.name, self.changes)


def plan_chapter(root: Path, slug: str, given: Mapping[str, Any], scenario: str | None = None) -> Plan:
    """Return the checked plan of one chapter with other values.

    Parameters
    ----------
    root : the checkout of the book
    slug : the chapter; `index` is made only with the whole book
    given : values by name, as text or parsed; they win over the scenario
    scenario : id or file; the chapter takes what it declares of it

    Raises
    ------
    KvError : a chapter, a name, a value or a scenario that is not accepted
    """
    chapter = book.chapter(root, slug)
    if slug == INDEX:
        raise refuse("chapter", slug, "any other chapter; index is made only with the whole book: kvmodel run --all")
    return Plan(root, slug, {slug: chapter}, {slug: chapter.values(_scenario(root, scenario), given)}, scenario)


def plan_all(root: Path, given: Mapping[str, Any], scenario: str | None = None) -> Plan:
    """Return the checked plan of the whole book: each chapter takes the values it declares; a name that no chapter declares is refused."""
    known, named = book.chapters(root), _scenario(root, scenario)
    declared = {name for c in known.values() for name in c.parameters}
    for name in given:
        rule(name, declared, "any chapter")
    values = {slug: c.values(named, {n: v for n, v in given.items() if n in c.parameters}) for slug, c in known.items()}
    return Plan(root, "all", known, values, scenario)


def _scenario(root: Path, name: str | None) -> dict[str, Value]:
    return book.scenario(root, name).parameters if name else {}


def run(plan: Plan, out: str | None = None, *, fresh: bool = False, progress: Progress = quiet) -> Result:
    """Execute a plan, write its pages, and return the result; the same run is made only once.

    Parameters
    ----------
    plan : from `plan_chapter` or `plan_all`
    out : folder of the result; `runs/<chapter>--<hash>` if left out
    fresh : run again even where the same run is there
    progress : is told in a few words how far the work is

    Raises
    ------
    KvError : a folder that is not accepted
    RunError : a cell failed, or the run was stopped; the last good result is still there
    """
    target = Path(out or f"runs/{plan.name}--{plan.hash}").absolute()
    made_from = inputs(plan.root, plan.chapters.values())
    facts = [plan.name, __version__, {slug: named_values(v) for slug, v in plan.values.items()}, made_from]
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    with folder.exclusive(target) as work:
        before = folder.read_record(target)
        if before and before.get("inputs_sha256") == digest and not fresh:
            return Result(target, before, True)
        made = _make(plan, work, progress)
        record = _facts(plan) | {"inputs": made_from, "inputs_sha256": digest} | made
        (work / "html" / folder.RECORD).write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", "utf-8")
        folder.publish(work / "html", target)
    return Result(target, record, False)


def _facts(plan: Plan) -> dict[str, Any]:
    return {
        "chapter": plan.name,
        "scenario": plan.scenario,
        "command": plan.command,
        "published_numbers": not plan.changes,
        "version": __version__,
        "parameters": plan.values if plan.whole else plan.values[plan.name],
        "changed": plan.changes,
        "parameters_hash": plan.hash,
    }


def _make(plan: Plan, work: Path, progress: Progress) -> dict[str, Any]:
    began = time.perf_counter()
    with page.builder() as build:
        done = notebooks(plan, work / "source", progress)
        executed = time.perf_counter()
        headlines = compare(plan, done)
        progress(f"{plan.name}: pages")
        pages = {"comparison": comparison(plan, headlines)} if plan.whole else None
        build(root=plan.root, work=work, slugs=list(done), notice=notice(plan), pages=pages)
    ended = time.perf_counter()
    return {
        "seconds": {"notebooks": round(executed - began, 3), "pages": round(ended - executed, 3), "total": round(ended - began, 3)},
        "headlines": headlines,
        "figures": [figure for notebook in done.values() for figure in records(notebook, FIGURE)],
    }


def notebooks(plan: Plan, source: Path, progress: Progress = quiet) -> dict[str, Notebook]:
    """Execute the chapters, as many at once as there are cores, those that gather last, in order; return the notebooks by slug.

    Notebooks and figure folders are written below `source` (`book/`, `_figures/figures/`).
    """
    import nbformat

    (source / "book").mkdir(parents=True)
    done: dict[str, Notebook] = {}

    def one(slug: str, stop: Event) -> None:
        done[slug] = execute(slug, plan.chapters[slug].text, plan.values[slug], plan.root / "book", progress, stop)
        nbformat.write(done[slug], source / "book" / f"{slug}.ipynb")

    with running(source), draw.beside(source / "_figures" / "figures"):
        free = [slug for slug in plan.chapters if slug not in GATHER]
        side_by_side(one, free, cores() if len(free) > 1 else 0)
        side_by_side(one, [slug for slug in GATHER if slug in plan.chapters], 0)
    return {slug: done[slug] for slug in plan.chapters}


def compare(plan: Plan, notebooks: Mapping[str, Notebook]) -> list[dict[str, Any]]:
    """Return the headlines of a run, each with its chapter and what the committed chapter says (`published`, null for a new one)."""
    published = {h["id"]: h for c in plan.chapters.values() for h in records({"cells": c.cells}, HEADLINE)}
    found = [{"chapter": slug} | headline for slug, notebook in notebooks.items() for headline in records(notebook, HEADLINE)]
    return [h | {"published": {key: published[h["id"]][key] for key in ("value", "text")} if h["id"] in published else None} for h in found]


def comparison(plan: Plan, headlines: Iterable[Mapping[str, Any]]) -> str:
    """Return the page that sets every headline beside the published one, in MyST."""
    rows = ["| " + " | ".join([_link(h), _cell((h["published"] or NEW)["text"]), _cell(h["text"]), _times(h), _cell(h["unit"])]) + " |" for h in headlines]
    head = ["| headline | published | this run | times the published | unit |", "|:--|--:|--:|--:|:--|"]
    said = notice(plan) or "All parameters have their published values."
    return "\n".join([f"# This run beside the published numbers\n\n{_cell(said)}\n", *head, *rows, ""])


def _times(headline: Mapping[str, Any]) -> str:
    new, old = headline["value"], (headline["published"] or NEW)["value"]
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in (new, old))
    return "–" if not numbers or not old or new is None else "1" if new == old else significant(new / old)


def _link(headline: Mapping[str, Any]) -> str:
    return f"[{headline['id']}]({headline['chapter']}.ipynb)"


def _cell(text: Any) -> str:
    return re.sub(r"([\\`*_{}\[\]<>|$#~])", r"\\\1", " ".join(str(text).split()))


def notice(plan: Plan) -> str:
    """Return the line that marks the pages of a run, empty where all values are the published ones."""
    if not plan.changes:
        return ""
    changes = ", ".join(f"{name} = {cite.shown(value)} (published: {_defaults(plan, name)})" for name, value in plan.changes.items())
    scenario = f" (scenario {Path(plan.scenario).stem})" if plan.scenario else ""
    return f"These are not the published numbers: a re-run{scenario} with {changes}."


def _defaults(plan: Plan, name: str) -> str:
    found = dict.fromkeys(cite.shown(c.defaults[name]) for c in plan.chapters.values() if name in c.parameters)
    return " or ".join(found)
