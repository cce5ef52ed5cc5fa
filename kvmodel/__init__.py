"""How much memory AI inference needs for its KV cache, in which tier, at what cost.

Examples
--------
>>> from kvmodel import card, kv_bytes
>>> kv_bytes(card("llama-3.3-70b"), tokens=100_000)
32768000000
"""

from typing import Any

from kvmodel.cards import Card, card, card_ids, find_model
from kvmodel.sizing import deployment, fit, kv_bytes, size
from kvmodel.units import KvError

__version__ = "2026.12.0"
__all__ = ["Card", "KvError", "card", "card_ids", "deployment", "find_model", "fit", "kv_bytes", "read_config", "size"]


def __getattr__(name: str) -> Any:
    if name == "read_config":  # only where a config is read: start-up counts
        from kvmodel.hf_config import read_config

        return read_config
    raise AttributeError(f"module 'kvmodel' has no attribute {name!r}")
