"""`make data`: every table of `data/` from `data/raw`, with the same bytes each time; then datapackage.json and the page about the data.

Standard library and pandas; nothing is downloaded. What a table holds is said once, in `data/tables.toml`.
"""

import csv
import io
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from hashlib import sha256
from typing import Any

import pandas as pd

from kvmodel import __version__
from kvmodel.places import DATA
from kvmodel.report.chapters import book_root
from kvmodel.report.record import LICENCE, load_sources
from kvmodel.tables import DAY, IDS, check, source_ids
from kvmodel.units import KvError

RAW = DATA / "raw"
Row = dict[str, str]
KINDS = {"article claim": "claim", "fact": "measured", "fit": "derived", "data": "derived", "ratio of measurements": "derived", "claim": "vendor-claim"}


@cache
def names() -> tuple[tuple[str, str], ...]:
    """Return the pairs (text of a raw source column, source id) of `source_names.csv`."""
    with (RAW / "source_names.csv").open(encoding="utf-8", newline="") as file:
        return tuple((r["text"], r["source"]) for r in csv.DictReader(file))


def ids(text: str, where: str) -> str:
    """Return the source ids of a raw source text: the one whose text it is, else all whose text is in it, in the order of the text."""
    exact = [i for t, i in names() if t == text]
    found = exact or [i for _, i in sorted((text.index(t), i) for t, i in names() if t in text and not t.startswith("https://"))]
    if not found:
        raise KvError(f"{where}: source {text!r} is not accepted; accepted: a text of data/raw/source_names.csv")
    return " ".join(dict.fromkeys(found))


def numbers(text: str) -> tuple[str, str, str]:
    """Return value, low and high of a printed number, range (`3-10`) or bound (`>0.5`: a value and its low end); all empty for any other text.

    Examples
    --------
    >>> numbers("1,050,000"), numbers("3-10"), numbers(">0.5"), numbers("crossover 2027")
    (('1050000', '', ''), ('', '3', '10'), ('0.5', '0.5', ''), ('', '', ''))
    """
    plain = re.sub(r"(?<=\d),(?=\d{3})", "", text.split("(")[0]).strip()
    if found := re.fullmatch(r"([~>]?)(\d+(?:\.\d+)?(?:e\d+)?)", plain):
        return found[2], found[2] if found[1] == ">" else "", ""
    if found := re.fullmatch(r"(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)", plain):
        return "", found[1], found[2]
    return "", "", ""


def _context_windows(rows: list[Row]) -> Iterable[Row]:
    for r in rows:
        where = f"context_windows {r['model_id']}"
        date = r["date_source"]
        window = date if r["context_source"] == "same" else r["context_source"]
        yield r | {
            "context_tokens": r["context_limit"],
            "window_as_of": r["context_is_release_time"],
            "window_kind": r["max_or_default"],
            "open_weights": r["open_weights"].lower(),
            "reasoning": r["reasoning"].lower(),
            "left_out_because": r["exclude_from_fit"],
            "date_sources": ids(date, where) if "models.dev@" not in date else _commit(date),
            "context_sources": _commit(date) if window.startswith("providers/") else ids(window, where),
        }


def _commit(text: str) -> str:
    return "models-dev-f3fc692" if "@f3fc692" in text else "models-dev-history"


def _window_listings(rows: list[Row]) -> Iterable[Row]:
    for r in rows:
        tokens = int(float(r["context_limit"] or 0))
        if 1_100_000 < tokens <= 20_000_000 or ("llama-4-scout" in r["model_id"].lower() and tokens):
            source = "models-dev-f3fc692" if r["source_commit"].startswith("f3fc692") else "models-dev-history"
            yield r | {"context_tokens": str(tokens), "in_head": r["in_head"].lower(), "source": source}


def _effective_context(rows: list[Row]) -> Iterable[Row]:
    for r in rows:
        yield r | {"bound": r["effective_is_bound"], "source": ids(r["source"], "effective_context")}


def _inference_share(rows: list[Row]) -> Iterable[Row]:
    for r in rows:
        if r["topic"] != "inference share of AI compute":
            continue
        publisher = re.split(r": ", r["claim_or_measure"])[0]
        value, low, high = numbers(r["value"])
        year = re.search(r"20\d\d", r["period"] + r["value"])
        crossed = r["value"].startswith("crossover")
        yield {
            "publisher": publisher,
            "year": year[0] if year else "",
            "value": "0.5" if crossed else value,
            "low": "0.5" if crossed else low,
            "high": high,
            "kind": KINDS.get(r["kind"], r["kind"]),
            "population": r["population"],
            "stated": f"inference overtakes training in {year[0]}" if crossed and year else r["value"],
            "note": r["note"],
            "source": ids(r["source"], f"inference_share {publisher}"),
        }


def _carried(rows: list[Row], *fields: str) -> Iterable[Row]:
    """Yield the rows with `same` in the named fields replaced by what the row above says."""
    above: Row = {}
    for r in rows:
        above = r | {f: above.get(f, "") for f in fields if r[f] == "same"}
        yield above


def _demand_multipliers(rows: list[Row]) -> Iterable[Row]:
    for r in _carried(rows, "source", "period", "population"):
        if r["evidence"] == "computed here":  # what our own code computes is no datum
            continue
        parts = re.split(r" / | -> ", r["value"])
        parts = parts if all(any(numbers(p)) for p in parts) else [r["value"]]
        for n, part in enumerate(parts, 1):
            value, low, high = numbers(part)
            kind = re.sub(r" \(.*\)", "", r["kind"])
            yield {
                "topic": r["topic"], "measure": r["claim_or_measure"], "part": str(n), "value": value, "low": low, "high": high, "unit": r["unit"] or "-",
                "stated": part if len(parts) > 1 else r["value"], "period": r["period"], "population": r["population"], "kind": KINDS.get(kind, kind),
                "evidence": r["evidence"], "note": r["note"], "source": ids(r["source"], f"demand_multipliers {r['claim_or_measure']}"),
            }  # fmt: skip


def _cache_prices(rows: list[Row]) -> Iterable[Row]:
    for r in _carried(rows, "scope"):
        parts, scopes = r["value"].split(" / "), r["scope"].split(" / ")
        for part, scope in zip(parts, scopes if len(scopes) == len(parts) else [r["scope"]] * len(parts)):
            value, low, high = numbers(part)
            press = any(word in r["evidence"] for word in ("press", "forum", "secondary"))
            yield r | {
                "day": r["date"], "scope": scope, "value": value, "low": low, "high": high, "kind": "press" if press else "list-price",
                "source": ids(r["source"], f"cache_prices {r['scope']}"),
            }  # fmt: skip


def _cache_price_history(rows: list[Row]) -> Iterable[Row]:
    return (r | {"source": "models-dev-history"} for r in rows)


def _cache_price_snapshot(rows: list[Row]) -> Iterable[Row]:
    return (r | {"listed_at": r["source"], "source": "litellm-1-110-2"} for r in rows)


def _tokenizers(rows: list[Row]) -> Iterable[Row]:
    return (r | {"source": ids(r["package"], "tokenizers")} for r in rows)


def _known_answers(rows: list[Row]) -> Iterable[Row]:
    return (r | {"source": ids(r["source_url"], f"known_answers {r['id']}")} for r in rows)


def _user_reports(rows: list[Row]) -> Iterable[Row]:
    return (r | {"source": ids(r["url"], f"user_reports {r['id']}")} for r in rows)


def _offload_results(rows: list[Row]) -> Iterable[Row]:
    for r in rows:
        value, low, high = numbers(r["value"]) if not re.fullmatch(r"-[\d.]+", r["value"]) else (r["value"], "", "")
        if low and high:
            value = f"{(float(low) + float(high)) / 2:g}"
        if value:
            day = m[0] if (m := re.match(r"\d{4}(-\d\d(-\d\d)?)?", r["as_of"])) else ""
            source = ids(r["source_url"], f"offload_results {r['id']}")
            yield r | {"value": value, "low": low, "high": high, "day": day, "kind": KINDS.get(r["kind"], r["kind"]), "source": source}


BUILD: dict[str, Callable[[list[Row]], Iterable[Row]]] = {
    "context_windows": _context_windows,
    "window_listings": _window_listings,
    "effective_context": _effective_context,
    "inference_share": _inference_share,
    "demand_multipliers": _demand_multipliers,
    "cache_prices": _cache_prices,
    "cache_price_history": _cache_price_history,
    "cache_price_snapshot": _cache_price_snapshot,
    "tokenizers": _tokenizers,
    "known_answers": _known_answers,
    "user_reports": _user_reports,
    "offload_results": _offload_results,
}


def specs() -> dict[str, dict[str, Any]]:
    """Return `data/tables.toml`: what each table holds."""
    return tomllib.loads((DATA / "tables.toml").read_text("utf-8"))


def build(name: str, spec: Mapping[str, Any]) -> bytes:
    """Return one table as CSV: the fields of `tables.toml` in their order, checked, line feeds."""
    raw = pd.read_csv(RAW / spec["raw"], dtype=str, keep_default_na=False)
    rows: list[Row] = raw.to_dict("records")  # type: ignore[assignment]
    fields = [f["name"] for f in spec["fields"]]
    made = list(BUILD[name](rows)) if name in BUILD else rows
    table = pd.DataFrame([{f: r[f] for f in fields} for r in made], columns=fields)
    typed = check(name, table, schema(spec))
    known = load_sources()
    if unknown := sorted(source_ids(typed) - known.keys()):
        raise KvError(f"{name}: source {unknown[0]!r} is not accepted; accepted: an id of data/sources.toml")
    return table.to_csv(index=False, lineterminator="\n").encode()


def schema(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the Frictionless schema of a table."""
    return {"fields": [_field(f) for f in spec["fields"]], "primaryKey": spec["key"], "missingValues": [""]}


def _field(f: Mapping[str, Any]) -> dict[str, Any]:
    rules = {k: f[k] for k in ("required", "minimum", "maximum") if k in f} | ({"enum": f["options"]} if "options" in f else {})
    pattern = {"day": DAY, "ids": IDS}.get(f["type"])
    found: dict[str, Any] = {"name": f["name"], "type": "string" if pattern else f["type"], "description": f["about"]}
    if pattern:
        rules["pattern"] = pattern
    return found | ({"unit": f["unit"]} if "unit" in f else {}) | ({"constraints": rules} if rules else {})


def files() -> dict[str, bytes]:
    """Return every file that `make data` writes, by path under the root: the tables, datapackage.json and the page."""
    tables = {name: build(name, spec) for name, spec in specs().items()}
    package = _package(tables)
    made = {f"data/{name}.csv": content for name, content in tables.items()}
    made["data/datapackage.json"] = (json.dumps(package, indent=1, ensure_ascii=False) + "\n").encode()
    made["book/data.md"] = page(package).encode()
    return made


def _package(tables: Mapping[str, bytes]) -> dict[str, Any]:
    resources = [_resource(name, spec, tables[name]) for name, spec in specs().items()] + [_file(p) for p in _others()]
    return {
        "name": "kvmodel-data",
        "title": "Observed data of The KV Cache Dividend",
        "version": __version__,
        "description": "Context windows, prices, demand, published KV sizes, offload results: a source for every row; traces, configs and texts beside them.",
        "licenses": [{"name": "CC-BY-4.0", "title": f"{LICENCE}: our selection and arrangement; each table names the licence of what it quotes"}],
        "resources": resources,
    }


def _resource(name: str, spec: Mapping[str, Any], content: bytes) -> dict[str, Any]:
    table = pd.read_csv(io.BytesIO(content), dtype=str, keep_default_na=False)
    known = load_sources()
    sources = [{"title": known[i].title, "path": known[i].url, "id": i} for i in sorted(source_ids(table))]
    return {
        "name": name, "path": f"{name}.csv", "title": spec["title"], "description": spec["about"],
        "format": "csv", "mediatype": "text/csv", "encoding": "utf-8",
        "licenses": [{"name": "other", "title": spec["licence"]}], "sources": sources, "raw": f"raw/{spec['raw']}", "rows": len(table),
        "bytes": len(content), "hash": f"sha256:{sha256(content).hexdigest()}", "schema": schema(spec),
    }  # fmt: skip


def _others() -> list[tuple[str, str, str]]:
    """Return the files that are no tables: path, description, licence."""
    with (DATA / "traces" / "README.csv").open(encoding="utf-8", newline="") as file:
        traces = [(f"traces/{r['file']}", r["note"], r["licence"]) for r in csv.DictReader(file)]
    configs = [("configs/INDEX.csv", "model configs: where each comes from and how sure it is", "licence of each repository; facts only")]
    texts, raw = ("texts/README.md", "sample texts of the chapter on tokens", LICENCE), ("raw/manifest.csv", "raw inputs", "named in its rows")
    return [*traces, *configs, texts, raw]


def _file(entry: tuple[str, str, str]) -> dict[str, Any]:
    path, about, licence = entry
    content = (DATA / path).read_bytes()
    name = re.sub(r"[^a-z0-9]+", "-", path.lower().split(".")[0])
    facts = {"name": name, "type": "file", "path": path, "description": about, "licenses": [{"name": "other", "title": licence}]}
    return facts | {"bytes": len(content), "hash": f"sha256:{sha256(content).hexdigest()}"}


PAGE = """# What data is there, and where does it come from?

Every number of the book that is not computed comes from these tables, from the [model cards](models.md) or from the [hardware specs](hardware.md).
Each row names its source by id; ids stand in `data/sources.toml` with title, producer, address, dates and licence. The tables are one Frictionless
data package, `data/datapackage.json`.

`make data` rebuilds every table from `data/raw` with the same bytes, and this page with them. Raw inputs are committed; `data/raw/manifest.csv` has the
source, licence and SHA-256 of each. A value that a table cannot hold (an unknown column, a date that is none, a negative price, a key that comes twice)
is refused with table, line and rule.
"""


def page(package: Mapping[str, Any]) -> str:
    """Return the reference page of the data, from the package alone."""
    tables, others = ([r for r in package["resources"] if ("schema" in r) is kind] for kind in (True, False))
    heads = ["| table | rows | what it holds | licence |", "|:--|--:|:--|:--|"]
    rows = [f"| [{r['name']}](#data-{r['name'].replace('_', '-')}) | {r['rows']:,} | {r['title']} | {r['licenses'][0]['title']} |" for r in tables]
    parts = [PAGE, "## Tables", "", *heads, *rows, ""]
    for r in tables:
        parts += [f"(data-{r['name'].replace('_', '-')})=", f"## {r['title']}", "", f"{r['description']} `data/{r['path']}`, from `data/{r['raw']}`.", ""]
        parts += ["| field | type | unit | meaning |", "|:--|:--|:--|:--|", *map(_line, r["schema"]["fields"]), ""]
        parts += [f"Key: {', '.join(r['schema']['primaryKey'])}. Sources: {_cited(r['sources'])}.", ""]
    parts += ["## Files that are no tables", "", "| file | what it is | licence |", "|:--|:--|:--|"]
    parts += [f"| `{r['path']}` | {r['description']} | {r['licenses'][0]['title']} |" for r in others]
    return "\n".join(parts) + "\n"


def _line(f: Mapping[str, Any]) -> str:
    pattern = f.get("constraints", {}).get("pattern")
    kind = {DAY: "date, to the precision known", IDS: "source ids"}.get(pattern, f["type"])
    return f"| {f['name']} | {kind} | {f.get('unit', '')} | {f['description'].replace('|', '/')} |"


def _cited(sources: list[dict[str, str]]) -> str:
    shown = [f"[{s['id']}]({s['path']})" for s in sources[:8]]
    return ", ".join(shown) + (f" and {len(sources) - 8} more, named in the rows" if len(sources) > 8 else "")


def main() -> None:
    """Write every table, the data package and the page."""
    root = book_root()
    for path, content in files().items():
        (root / path).write_bytes(content)


if __name__ == "__main__":
    main()
