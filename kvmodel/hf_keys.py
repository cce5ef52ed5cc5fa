"""Typed access to the keys of a Hugging Face config: a value of the right type, the class default (noted), or a refusal by name."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kvmodel.units import KvError, refuse

MOST = 2**40  # no key that counts anything is larger; keeps products and lists in bounds
MOST_LAYERS = 10_000
NO_LIMIT = int(1e30)  # how transformers writes "no maximum is known"
ALIASES = {  # names that older configs and their attribute maps use
    "num_hidden_layers": ("n_layer", "n_layers", "num_layers", "decoder_layers"),
    "num_attention_heads": ("n_head", "n_heads", "decoder_attention_heads"),
    "hidden_size": ("n_embed", "n_embd", "d_model", "hidden_dim"),
    "num_key_value_heads": ("num_kv_heads", "n_head_kv", "num_attention_groups"),
    "sliding_window_pattern": ("_sliding_window_pattern",),  # as transformers 4.5x saves it
    "num_nextn_predict_layers": ("num_mtp_layers",),
}
CONTEXT_KEYS = (
    "model_max_length", "max_position_embeddings", "max_position_embedding", "max_seq_len", "context_length", "n_positions", "seq_length",
)  # fmt: skip


class Keys:
    """The keys of one config (or of its text part) with the defaults of its own class.

    `assumed` collects the keys that the class filled, in the order in which they were asked for. JSON null counts as absent where the class fills it.
    """

    def __init__(self, data: Mapping[str, Any], defaults: Mapping[str, Any], assumed: list[str] | None = None) -> None:
        self.data = data
        self.defaults = defaults
        self.assumed: list[str] = [] if assumed is None else assumed

    def has(self, name: str) -> bool:
        """Return whether the config itself gives `name` (under any of its names) a value."""
        return self._find(name)[1] is not None

    def null(self, name: str) -> bool:
        """Return whether the config gives `name` (under any of its names) as null, and no value."""
        return not self.has(name) and any(n in self.data for n in (name, *ALIASES.get(name, ())))

    def count(self, name: str, *, low: int = 1, high: int = MOST) -> int:
        """Return a whole number from `low` to `high`, the class default, or raise naming the key."""
        given, value = self._find(name)
        if value is None:
            value = self.default(name)
            if value is None:
                raise refuse(name, None, f"a whole number from {low} (the config lacks it and its class has no default for it)")
        return check_int(given, value, low, high)

    def optional(self, name: str, *, low: int = 1, high: int = MOST) -> int | None:
        """Return a whole number, or None where the config says null, or where it is absent and the class default is None."""
        given, value = self._find(name)
        if value is None and given not in self.data:
            value = self.default(name)
        return None if value is None else check_int(given, value, low, high)

    def flag(self, name: str) -> bool:
        """Return true or false; absent and without a class default is false."""
        value = self._find(name)[1]
        if value is None:
            value = self.default(name)
        if not isinstance(value, bool | None):
            raise refuse(name, value, "true or false")
        return bool(value)

    def text(self, name: str) -> str | None:
        """Return a string, or None where it is absent."""
        value = self.data.get(name)
        if not isinstance(value, str | None):
            raise refuse(name, value, "a string")
        return value

    def words(self, name: str, length: int | None, accepted: Sequence[str], remap: Mapping[str, str] | None = None) -> list[str] | None:
        """Return a list of `length` names out of `accepted` (older names translated by `remap`), or None where it is absent or null."""
        value = self.items(name, length)
        if value is None:
            return None
        names = [(remap or {}).get(v, v) if isinstance(v, str) else v for v in value]
        for found in names:
            if found not in accepted:
                raise refuse(name, found, f"one of {' '.join(accepted)} in each entry", accepted)
        return names

    def counts(self, name: str, length: int | None, *, low: int = 0, high: int = MOST) -> list[int] | None:
        """Return a list of `length` whole numbers, or None where it is absent or null."""
        value = self.items(name, length)
        return None if value is None else [check_int(name, v, low, high) for v in value]

    def items(self, name: str, length: int | None) -> list[Any] | None:
        """Return a list of `length` entries of any kind, or None where it is absent or null."""
        value = self.data.get(name)
        if value is None:
            return None
        if not isinstance(value, list):
            raise refuse(name, value, "a list")
        if length is not None and len(value) != length:
            raise refuse(name, f"{len(value)} entries", f"one entry for each of {length} layers")
        return value

    def sub(self, name: str, value: Any = None, defaults: Mapping[str, Any] | None = None) -> "Keys":
        """Return the keys of the nested object `name` (or of `value`, an entry of it); an absent one is empty."""
        value = self.data.get(name) if value is None else value
        if not isinstance(value, dict | None):
            raise refuse(name, value, "an object with keys")
        return Keys(value or {}, defaults or {}, self.assumed)

    def default(self, name: str) -> Any:
        """Return the class default of `name` and note it as assumed; None, not noted, where the class has none."""
        value = self.defaults.get(name)
        if callable(value):
            value = value(self)
        if value is not None:
            self.note(name)
        return value

    def note(self, name: str) -> None:
        """Note that the class filled `name`."""
        if name not in self.assumed:
            self.assumed.append(name)

    def _find(self, name: str) -> tuple[str, Any]:
        found = {n: self.data[n] for n in (name, *ALIASES.get(name, ())) if self.data.get(n) is not None}
        values = list(found.values())
        if any(v != values[0] for v in values[1:]):
            raise refuse(name, found, f"one value under the names {' '.join(found)}")
        return next(iter(found.items()), (name, None))


def check_int(name: str, value: object, low: int, high: int) -> int:
    """Return `value` if it is a whole number from `low` to `high` (true and false are not numbers)."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise refuse(name, value, f"a whole number from {low} to {high}")
    return value


def context(keys: Keys) -> int | None:
    """Return the context length that the config states, in tokens, or None; many families state none or a wrong one."""
    for name in CONTEXT_KEYS:
        if keys.data.get(name) not in (None, NO_LIMIT):
            return check_int(name, keys.data[name], 1, MOST)
    return None


def same_as(other: str) -> Callable[[Keys], int]:
    """Return a class default that takes the value of another key."""
    return lambda keys: keys.count(other)


def head_width(keys: Keys) -> int:
    """Return hidden_size / num_attention_heads, the width of a head where no key gives it."""
    hidden, heads = keys.count("hidden_size"), keys.count("num_attention_heads")
    if hidden % heads:
        raise KvError(f"hidden_size: {hidden} is not accepted; accepted: a multiple of num_attention_heads ({heads}), or a head_dim in the config")
    return hidden // heads
