"""What the status page says: edition, software, age of data and sources."""

import platform
from collections import Counter
from importlib.metadata import version

import pandas as pd

from kvmodel import tables
from kvmodel.report.chapters import book_root
from kvmodel.report.record import edition_here, load_sources

SOFTWARE = ("numpy", "pandas", "scipy", "altair", "vl-convert-python", "jupyter-book", "sphinx", "myst-nb", "sphinx-book-theme", "papermill", "ipykernel")


def edition() -> str:
    """Return version and commit of this edition, in words."""
    here = edition_here(book_root())
    return f"{here.version}, {here.commit_words or 'made outside a git checkout'}"


def software() -> pd.DataFrame:
    """Return the packages that numbers and pages depend on most, with the versions in use."""
    rows = [("Python", platform.python_version()), *((name, version(name)) for name in SOFTWARE)]
    return pd.DataFrame(rows, columns=["package", "version"])


def data() -> pd.DataFrame:
    """Return the tables of the data package: rows, number of sources, and the dates of publication and access of the newest source."""
    known = load_sources()
    found = []
    for resource in (r for r in tables.package()["resources"] if "schema" in r):
        used = [known[s["id"]] for s in resource.get("sources", ()) if s.get("id") in known]
        newest = [max((getattr(s, day) for s in used), default="") or "–" for day in ("published", "accessed")]
        found.append([resource["title"], len(tables.read(resource["name"])), len(used), *newest])
    columns = ["table", "rows", "sources", "newest publication", "last access"]
    return pd.DataFrame(found, columns=columns).sort_values(["last access", "newest publication", "table"], ascending=[False, False, True])


def sources() -> str:
    """Return how many sources the book rests on and when they were last looked at, in words."""
    known = load_sources().values()
    months = Counter(s.accessed[:7] for s in known if s.accessed)
    looked = ", ".join(f"{n} in {month}" for month, n in sorted(months.items()))
    undated = sum(not s.published for s in known)
    words = f"{len(known):,} sources stand behind the specs, the data and the figures; they were last looked at: {looked}."
    return words + (f" {undated} of them give no date of publication." if undated else "")
