"""Write `specs/models/*.toml`: each card from its config in `data/configs` and the sourced facts in `data/model_facts.csv`.

Run with `python -m kvmodel.report.build_cards`. Nothing in a card is typed by hand.
"""

import csv
import re
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

from kvmodel.cards import SPECS, Card, to_toml
from kvmodel.hf_config import read_config
from kvmodel.places import DATA

CONFIGS = DATA / "configs"
FACTS = DATA / "model_facts.csv"
DROPPED = ("instruct", "it", "hf", "nvfp4", "fp8", "bf16")  # tuned and stored forms share the geometry
COUNTS = ("native_context_tokens", "params_total", "params_active")


def card_id(repository: str) -> str:
    """Return the card id of a repository: its name in lower case without owner, `Meta-`, `-Instruct`, `-it`, `-hf` and format.

    Examples
    --------
    >>> card_id("meta-llama/Meta-Llama-3.1-405B"), card_id("google/gemma-3-27b-it"), card_id("mistralai/Mistral-7B-Instruct-v0.3")
    ('llama-3.1-405b', 'gemma-3-27b', 'mistral-7b-v0.3')
    """
    name = repository.split("/")[-1].split(" ")[0].lower().removeprefix("meta-")
    return "-".join(part for part in name.split("-") if part not in DROPPED)


def facts() -> dict[str, list[dict[str, str]]]:
    """Return the rows of `data/model_facts.csv` by card id."""
    found: dict[str, list[dict[str, str]]] = defaultdict(list)
    with FACTS.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            found[row["id"]].append(row)
    return found


def index() -> list[dict[str, str]]:
    """Return the rows of `data/configs/INDEX.csv`, one for each config."""
    with (CONFIGS / "INDEX.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def build_card(row: dict[str, str], known: list[dict[str, str]]) -> Card:
    """Return the card of one row of the index: geometry from its config, facts with their sources, parameter counts of the index as estimates."""
    read = read_config(CONFIGS / row["file"], card_id(row["model"]))
    values: dict[str, Any] = {"name": re.sub(r" \(.*", "", row["model"]), "native_context_tokens": None}
    sources, kinds = {"geometry": row["source"].split()}, {"geometry": "model-config"}
    for name in ("params_total", "params_active"):
        if row[f"{name}_B"]:
            values[name], kinds[name] = round(float(row[f"{name}_B"]) * 10**9), "estimate"
    for fact in known:
        name = fact["field"]
        values[name] = int(fact["value"]) if name in COUNTS else fact["value"]
        sources[name], kinds[name] = fact["source"].split(), fact["kind"]
    return replace(read, **values, sources=sources, kinds=kinds)


def build_all() -> list[Card]:
    """Return every card, in the order of the index."""
    known = facts()
    return [build_card(row, known[card_id(row["model"])]) for row in index()]


def text(card: Card) -> str:
    """Return the TOML file of a card."""
    import tomli_w  # needed here only

    return "# Made by kvmodel.report.build_cards from data/configs and data/model_facts.csv.\n\n" + tomli_w.dumps(to_toml(card))


def main() -> None:
    """Write all card files and remove those without a config."""
    folder = Path(SPECS)
    folder.mkdir(parents=True, exist_ok=True)
    cards = build_all()
    for card in cards:
        (folder / f"{card.id}.toml").write_text(text(card), encoding="utf-8")
    for stale in {p.stem for p in folder.glob("*.toml") if p.name} - {c.id for c in cards}:
        (folder / f"{stale}.toml").unlink()
    print(f"{len(cards)} cards")


if __name__ == "__main__":
    main()
