"""Tables of numbers of the chapter on tokens: counts of texts, and runs of the small transformer with and without its cache."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from kvmodel.cards import Card
from kvmodel.places import DATA
from kvmodel.report.texts import LANGUAGES, sample, token_ids
from kvmodel.sizing import kv_bytes
from kvmodel.tiny import Cache, Generated, Shape, TinyModel, generate
from kvmodel.units import format_bytes

PROMPT, NEW, PROOF = 32, 160, 64  # tokens of the text that the small model reads, tokens it adds for the count of work, and for the proof
PLAIN = Shape(("full", "full"))
STORED_DEEPSEEK = "deepseek V4 (129k)"  # the row of data/raw/tokenizers.csv that our own tokenizer must reproduce
TABLE_TEXTS = {"english": "English prose", "chinese_article": "Chinese article", "python_heapq": "Python code", "json": "JSON"}


def text_rows(texts: dict[str, str]) -> pd.DataFrame:
    """Return tokens and tokens per 100 characters of each text, counted now with the DeepSeek vocabulary."""
    frame = pd.DataFrame([{"text": name, "characters": len(text), "tokens": len(token_ids(text))} for name, text in texts.items()])
    frame["tokens_per_100_chars"] = 100 * frame["tokens"] / frame["characters"]
    return frame


def language_rows(one: Card) -> pd.DataFrame:
    """Return tokens and KV bytes (bf16) of the same passage in each language, most tokens first."""
    rows = []
    for code, language in LANGUAGES.items():
        text = sample(f"languages/{code}.txt")
        tokens = len(token_ids(text))
        stored = kv_bytes(one, tokens)
        rows.append((language, len(text), tokens, stored, f"{tokens}: {format_bytes(stored)}"))
    frame = pd.DataFrame(rows, columns=["language", "characters", "tokens", "kv_bytes", "label"])
    return frame.sort_values("tokens", ascending=False, kind="stable").reset_index(drop=True)


def vocabulary_rows() -> pd.DataFrame:
    """Return the stored counts of `data/raw/tokenizers.csv`, a row for each vocabulary and text; most tokens in Chinese first."""
    wide = pd.read_csv(DATA / "raw" / "tokenizers.csv").sort_values("chinese_article_tokens", ascending=False, kind="stable")
    rows = []
    for key, name in TABLE_TEXTS.items():
        share = 100 * wide[f"{key}_tokens"] / wide[f"{key}_chars"]
        rows += list(zip(wide["tokenizer"], [name] * len(wide), wide[f"{key}_tokens"], share, strict=True))
    return pd.DataFrame(rows, columns=["vocabulary", "text", "tokens", "tokens_per_100_chars"])


def tokenizer_check() -> dict[str, int]:
    """Return characters, stored count and live count of the one text that both we and the table have: `heapq.py` of CPython."""
    table = pd.read_csv(DATA / "raw" / "tokenizers.csv")
    row = table[table["tokenizer"] == STORED_DEEPSEEK].to_dict("records")[0]
    text = (DATA / "texts" / "heapq.py.txt").read_text("utf-8")
    return {"chars": len(text), "stored_chars": row["python_heapq_chars"], "stored": row["python_heapq_tokens"], "live": len(token_ids(text))}


def cache_work(ids: Sequence[int]) -> dict[str, Generated]:
    """Return two runs of a model of two full-attention layers on the first tokens of a text: `cached`, and everything computed `again`."""
    return {how: generate(TinyModel(PLAIN), ids[:PROMPT], NEW, cached=how == "cached") for how in ("again", "cached")}


def work_rows(work: dict[str, Generated]) -> pd.DataFrame:
    """Return the multiply-adds of each step of both runs."""
    names = {"again": "without cache", "cached": "with cache"}
    rows = [(n, names[how], done) for how, run in work.items() for n, done in zip(run.tokens, run.multiply_adds, strict=True)]
    return pd.DataFrame(rows, columns=["tokens", "how", "multiply_adds"])


def work_law(work: dict[str, Generated]) -> dict[str, Any]:
    """Return the last step by hand: S * weights + S^2 * pair without cache, weights + S * pair with it, and whether both are what was counted.

    `weights` is the multiply-adds of one token with all weight matrices, `pair` those of one (query, key) pair in all layers.
    """
    s, layers = PLAIN, len(PLAIN.layers)
    query, kv = s.query_heads * s.head_dim, s.kv_heads * s.head_dim
    weights = layers * s.hidden * (2 * query + 2 * kv + 12 * s.hidden) + s.hidden * s.vocab
    pair, n = 2 * layers * query, work["again"].tokens[-1]
    law = {"tokens": n, "weights": weights, "pair": pair, "without": n * weights + n * n * pair, "with": weights + n * pair}
    counted = work["again"].multiply_adds[-1], work["cached"].multiply_adds[-1]
    return law | {"exact": (law["without"], law["with"]) == counted}


def cache_proof(ids: Sequence[int]) -> dict[str, Any]:
    """Return what the cache changes (nothing) and holds (the formula) in a model of one layer of each kind.

    Keys: `prompt` and `new` (tokens), `same_ids`, `close` (logits agree to 1e-6), `held` (a frame: bytes of each layer's arrays and of the formula).
    """
    cached, again = (generate(TinyModel(), ids[:PROMPT], PROOF, cached=c) for c in (True, False))
    shape, rows = Shape(), []
    for n in (1, shape.window, 2 * shape.window, PROMPT, PROMPT + PROOF):
        cache = Cache()
        TinyModel(shape).logits(cached.ids[:n] if n <= len(cached.ids) else np.resize(cached.ids, n).tolist(), cache)
        each = [sum(array.nbytes for array in layer) for layer in cache.layers]
        rows.append((n, *each, cache.nbytes, kv_bytes(shape.card(), n, kv_dtype="fp32")))
    return {
        "prompt": min(len(ids), PROMPT),
        "new": PROOF,
        "same_ids": cached.ids == again.ids,
        "close": bool(np.allclose(cached.logits, again.logits, rtol=0, atol=1e-6)),
        "held": pd.DataFrame(rows, columns=["tokens", "full", "window", "linear", "held", "kv_bytes"]),
    }
