"""What is known about one figure: the record that pictures, pages, citations and the lock file are all made from.

Standard library only: `kvmodel figures` and `kvmodel cite` start from here.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from kvmodel.places import DATA
from kvmodel.units import refuse

BOOK = "The KV Cache Dividend: an executable model of the inference memory pyramid"
AUTHORS = "kvmodel contributors"
LICENCE = "CC BY 4.0"
LICENCE_URL = "https://creativecommons.org/licenses/by/4.0/"
MIME = "application/vnd.kvmodel.figure+json"  # in a figure's notebook output; the lock file is written from it
FIGURE_ID = re.compile(r"[a-z][a-z0-9-]{2,40}")
UNDATED = "n.d."
PROCESSING = ("none", "minor", "major")
SOURCE_KEYS = ("title", "producer", "url", "published", "accessed", "licence")
SUFFIXES = ("svg", "png", "csv", "vl.json")
CITE_FILES = ("cite.txt", "cite.bib", "cite.json")


@dataclass(frozen=True)
class Parameter:
    """One declared parameter of a chapter, after parsing."""

    value: int | float | str | bool
    default: int | float | str | bool
    unit: str = ""
    meaning: str = ""

    @property
    def changed(self) -> bool:
        """True where the value is not the default."""
        return self.value != self.default


@dataclass(frozen=True)
class Source:
    """One entry of `data/sources.toml`, and the kinds of value the package takes from it."""

    title: str
    producer: str = ""
    url: str = ""
    published: str = ""
    accessed: str = ""
    licence: str = ""
    kinds: tuple[str, ...] = ()

    @property
    def year(self) -> str:
        """The year of publication, `n.d.` where the source gives none."""
        match = re.match(r"\d{4}", self.published)
        return match[0] if match else UNDATED

    @property
    def credit(self) -> str:
        """Whom to name: the producer, else the title."""
        return self.producer or self.title


@dataclass(frozen=True)
class FigureRecord:
    """One figure as drawn: its finding, what it shows, where it stands, and the three facts that fix it (version, parameters, data).

    `parameters_hash` is that of `kvmodel.report.parameters`; `columns` maps each CSV column to (unit, meaning); `csv` is the data file byte for byte and
    `spec` the Vega-Lite specification: both are empty in a record read back from the lock file, where `digest` stands for the data.
    """

    id: str
    title: str
    chapter: str
    parameters_hash: str
    caption: str = ""
    alt: str = ""
    columns: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    sources: Mapping[str, Source] = field(default_factory=dict)
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    processing: str = "major"  # what we did to the sources' values; a model's result is major
    csv: bytes = b""
    spec: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""

    def __post_init__(self) -> None:
        """Refuse an id that cannot be an address, and an unknown processing level."""
        if not FIGURE_ID.fullmatch(self.id):
            raise refuse("figure id", self.id, "3 to 41 of a-z 0-9 -, a letter first, such as kv-by-attention")
        if self.processing not in PROCESSING:
            raise refuse("processing", self.processing, " ".join(PROCESSING), PROCESSING)

    @property
    def data_sha256(self) -> str:
        """SHA-256 of the CSV file, 64 hex digits."""
        return self.digest or sha256(self.csv).hexdigest()

    @property
    def rows(self) -> int:
        """Number of data rows (a quoted cell may hold line ends)."""
        import csv  # only pages need it

        return max(0, sum(1 for _ in csv.reader(self.csv.decode().splitlines(keepends=True))) - 1)

    @property
    def changed(self) -> dict[str, Parameter]:
        """The parameters that are not at their default."""
        return {name: p for name, p in self.parameters.items() if p.changed}

    def meta(self) -> dict[str, Any]:
        """Return what the notebook output and the lock file keep: no data, no version, no commit, so that it changes only when the figure does."""
        return {
            "id": self.id,
            "title": self.title,
            "chapter": self.chapter,
            "sources": list(self.sources),
            "processing": self.processing,
            "parameters": {name: asdict(p) for name, p in self.parameters.items()},
            "parameters_hash": self.parameters_hash,
            "data_sha256": self.data_sha256,
        }


def from_meta(meta: Mapping[str, Any], sources: Mapping[str, Source]) -> FigureRecord:
    """Return the record behind `FigureRecord.meta()` (or a lock entry, or `figure.json`), with its sources looked up."""
    parameters = {name: Parameter(**p) for name, p in meta["parameters"].items()}
    used = {name: sources[name] for name in meta["sources"]}
    columns = {name: (c["unit"], c["meaning"]) for name, c in meta.get("columns", {}).items()}
    extra = {key: meta[key] for key in ("caption", "alt") if key in meta}
    return FigureRecord(
        meta["id"], meta["title"], meta["chapter"], meta["parameters_hash"],
        columns=columns, sources=used, parameters=parameters, processing=meta["processing"], digest=meta["data_sha256"], **extra,
    )  # fmt: skip


def load_sources(path: Path | None = None) -> dict[str, Source]:
    """Return every entry of `data/sources.toml`, or of the file at `path`, by id."""
    text = (path or DATA / "sources.toml").read_text("utf-8")
    return {name: source(entry) for name, entry in tomllib.loads(text).items()}


def source(entry: Mapping[str, Any]) -> Source:
    """Return the source that one table of `data/sources.toml` (or of a JSON file made from it) describes; other keys are left out."""
    known = {key: str(value) for key, value in entry.items() if key in SOURCE_KEYS}
    return replace(Source(known.pop("title")), kinds=tuple(entry.get("kinds", ())), **known)


@dataclass(frozen=True)
class Edition:
    """Which book a figure stands in: its version, the commit it was built from, its public address, and whether a reader recomputed it.

    `commit` is empty where git is absent; `base` is `html.baseurl`, empty where the site has no public address yet.
    """

    version: str
    commit: str = ""
    dirty: bool = False
    base: str = ""
    recomputed: bool = False

    @property
    def year(self) -> str:
        """Year of the version: versions are CalVer."""
        return self.version.split(".")[0]

    @property
    def month(self) -> int:
        """Month of the version, 1 to 12."""
        return int(self.version.split(".")[1])

    @property
    def commit_words(self) -> str:
        """The commit as prose has it, honest about changes that no commit holds; empty where it is not known."""
        return f"commit {self.commit}" + (" with uncommitted changes" if self.dirty else "") if self.commit else ""

    def address(self, figure_id: str) -> str:
        """Return the frozen address of a figure, empty where there is none: a recomputed figure never borrows the published one."""
        return f"{self.base.rstrip('/')}/v/{self.version}/figures/{figure_id}/" if self.base and not self.recomputed else ""


def edition_here(root: Path, base: str = "", *, recomputed: bool = False) -> Edition:
    """Return the edition that a checkout at `root` makes now, with its commit when git knows one."""
    from kvmodel import __version__

    commit = _git(root, "rev-parse", "--short=12", "HEAD")
    dirty = bool(commit and _git(root, "status", "--porcelain", "--untracked-files=no"))
    return Edition(__version__, commit, dirty, base, recomputed)


def _git(root: Path, *arguments: str) -> str:
    import subprocess

    if not (root / ".git").exists():  # a folder inside some other repository is not that repository's commit
        return ""
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
