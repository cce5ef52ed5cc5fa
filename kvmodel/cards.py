"""Model cards: what a model keeps per token and per sequence, as data (`specs/models/*.toml`)."""

import os
import re
import tomllib
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from kvmodel.attention import LayerGroup, State, Store, Terms, Vectors, Work, compile_terms
from kvmodel.dtypes import KvFormat, parse_kv_dtype
from kvmodel.units import KvError, nearest, refuse

SPECS = os.path.join(os.path.dirname(__file__), "specs", "models")  # no pathlib here: start-up counts
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class Card:
    """One model: its layer groups, their order, and the facts that sizing needs.

    `order` names the group of each layer by letter in run-length form: `5b1a5b1a` is five layers of group b, one of group a, and so on.
    `params_*` are counts of weights, `sources` maps a field to source ids of `data/sources.toml`, `kinds` to the kind of a value;
    `assumed` lists config keys that the architecture's own class filled.
    """

    id: str
    name: str
    groups: tuple[LayerGroup, ...]
    order: str
    mtp: tuple[LayerGroup, ...] = ()
    native_context_tokens: int | None = None
    params_total: int | None = None
    params_active: int | None = None
    hidden_size: int | None = None
    vocab_size: int | None = None
    tied_embeddings: bool | None = None
    release_date: str | None = None
    sources: dict[str, list[str]] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()

    @property
    def attention(self) -> str:
        """The attention kinds in a fixed order (attention, windows, indexers and compression, sharing, recurrence), joined by `+`, such as `gqa+window`."""
        kinds = dict.fromkeys(k for g in self.groups if g.stores or g.states or g.kind == "shared" for k in g.kind.split("+"))
        return "+".join(sorted(kinds, key=_rank))

    @property
    def layers(self) -> str:
        """One letter per layer, first layer first."""
        return "".join(letter * int(n) for n, letter in re.findall(r"(\d+)([a-z])", self.order))

    def terms(self, kv_dtype: str | KvFormat = "bf16", indexer_dtype: str = "fp8", *, tp: int = 1, mtp: bool = False) -> Terms:
        """Return the compiled terms (bytes per kept token, windows, state) on the fullest of `tp` ranks."""
        return compile_terms(self.groups + (self.mtp if mtp else ()), parse_kv_dtype(kv_dtype), indexer_dtype, tp)

    def stage_groups(self, start: int, stop: int) -> tuple[LayerGroup, ...]:
        """Return the groups of layers `start` to `stop` (exclusive), as one pipeline stage holds them."""
        part = self.layers[start:stop]
        counted = [(g, part.count(LETTERS[i])) for i, g in enumerate(self.groups)]
        return tuple(LayerGroup(n, g.kind, g.stores, g.states, g.work) for g, n in counted if n)


_ORDER = ["mha", "gqa", "mqa", "mfa", "mla", "window", "chunked", "dsa", "msa", "csa", "hca", "shared", "mamba1", "mamba2", "gdn", "kda", "lightning", "rwkv"]


def _rank(kind: str) -> int:
    return _ORDER.index(kind)


@cache
def card(card_id: str) -> Card:
    """Return the model card with this id.

    Parameters
    ----------
    card_id : such as `llama-3.3-70b`; `card_ids()` lists them

    Raises
    ------
    KvError : unknown id, with the nearest known one

    Examples
    --------
    >>> card("llama-3.3-70b").attention
    'gqa'
    """
    path = os.path.join(SPECS, f"{card_id}.toml")
    if not isinstance(card_id, str) or "/" in card_id or "\\" in card_id or not os.path.isfile(path):
        accepted = "a card id (kvmodel cards lists them) or the path of a config.json"
        name = re.split(r"[/\\]", str(card_id))[-1]  # owner/Name, as on the hub
        raise KvError(str(refuse("model", card_id, accepted)) + (f"; nearest: {nearest(name, card_ids())!r}" if not name.endswith(".json") else ""))
    with open(path, "rb") as file:
        return from_toml(tomllib.load(file), f"{card_id}.toml")


@cache
def card_ids() -> tuple[str, ...]:
    """Return the ids of all cards, sorted."""
    return tuple(sorted(name.removesuffix(".toml") for name in os.listdir(SPECS) if name.endswith(".toml")))


def find_model(text: str) -> Card:
    """Return the card of a model given by card id, or by the path of a Hugging Face `config.json` or of its folder.

    A card id wins over a folder of the same name.

    Raises
    ------
    KvError : neither a card id nor a readable config
    """
    if not text or text in card_ids() or not os.path.exists(text):  # os.path: no error for a name that no file can have
        return card(text)
    from kvmodel.hf_config import read_config  # a sibling, needed for paths only

    return read_config(text)


def from_toml(data: dict[str, Any], where: str = "card") -> Card:
    """Return the card that a parsed TOML file describes; refuses unknown keys and an order that does not match the counts."""
    data = dict(data)
    groups = tuple(_group(g) for g in data.pop("group"))
    mtp = tuple(_group(g) for g in data.pop("mtp", []))
    data["assumed"] = tuple(data.get("assumed", ()))
    try:
        made = Card(groups=groups, mtp=mtp, **data)
    except TypeError as error:
        raise KvError(f"{where}: {error}") from None
    counts = [made.layers.count(LETTERS[i]) for i in range(len(groups))]
    if counts != [g.count for g in groups]:
        raise KvError(f"{where}: order {made.order!r} gives {counts} layers, the groups say {[g.count for g in groups]}")
    return made


def to_toml(card: Card) -> dict[str, Any]:
    """Return the card as plain data for a TOML writer; `from_toml` reads it back without loss."""
    facts = {k: getattr(card, k) for k in Card.__dataclass_fields__ if k not in ("groups", "mtp")}
    facts["assumed"] = list(card.assumed)
    plain = {k: v for k, v in facts.items() if v not in (None, [], {})}
    return plain | {"group": [_plain(g) for g in card.groups]} | ({"mtp": [_plain(g) for g in card.mtp]} if card.mtp else {})


def _group(g: dict[str, Any]) -> LayerGroup:
    stores = tuple(Store(tuple(Vectors(**v) for v in s["entry"]), s.get("window"), s.get("ratio", 1)) for s in g.get("stores", []))
    return LayerGroup(g["count"], g["kind"], stores, tuple(State(**s) for s in g.get("states", [])), Work(**g.get("work", {})))


def _plain(g: LayerGroup) -> dict[str, Any]:
    out: dict[str, Any] = {"count": g.count, "kind": g.kind}
    if g.stores:
        out["stores"] = [_fields(s, {"window": None, "ratio": 1}) | {"entry": [_fields(v, {"heads": 1, "rope": 0}) for v in s.entry]} for s in g.stores]
    if g.states:
        out["states"] = [_fields(s, {}) for s in g.states]
    work = _fields(g.work, dict.fromkeys(Work.__dataclass_fields__, 0))
    return out | ({"work": work} if work else {})


def _fields(item: Any, defaults: dict[str, int | None]) -> dict[str, Any]:
    return {k: getattr(item, k) for k in item.__dataclass_fields__ if k not in defaults or getattr(item, k) != defaults[k]}
