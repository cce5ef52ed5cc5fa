"""A small causal transformer in numpy with three kinds of layer: the KV cache seen from inside.

`full` keeps keys and values of every token, `window` of the last W tokens, `linear` one matrix per head however long the text is: the three parts of
bytes(S) = entry * retained(S) + state. `TinyModel.logits` counts the multiply-adds it really does, and `Cache.nbytes` the arrays it really holds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kvmodel.attention import LayerGroup, State, Store, Vectors, Work
from kvmodel.cards import Card
from kvmodel.units import refuse

Kind = Literal["full", "window", "linear"]
KINDS: tuple[Kind, ...] = ("full", "window", "linear")
STORED = {"fp32": np.float32, "fp16": np.float16}
Floats = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """The geometry of a small model: one entry of `layers` per layer, first layer first; all widths in elements, `window` in tokens."""

    layers: tuple[Kind, ...] = KINDS
    hidden: int = 48
    query_heads: int = 6
    kv_heads: int = 2
    head_dim: int = 16
    window: int = 8
    vocab: int = 512

    def __post_init__(self) -> None:
        """Refuse an unknown kind of layer, and heads that do not divide."""
        for kind in self.layers:
            if kind not in KINDS:
                raise refuse("layers", kind, f"one of {' '.join(KINDS)}", KINDS)
        if self.query_heads % self.kv_heads or self.head_dim % 2:
            raise refuse("query_heads", self.query_heads, f"a multiple of {self.kv_heads} KV heads, with an even head dim")

    def card(self) -> Card:
        """Return this geometry as a model card, so that `kv_bytes` can size it; a `linear` layer is of kind `lightning`."""
        entry = (Vectors("key", self.head_dim, self.kv_heads), Vectors("value", self.head_dim, self.kv_heads))
        state = State("recurrent", self.kv_heads, self.head_dim**2, 4)
        work, recurrent = Work(self.query_heads, self.head_dim, self.head_dim), Work(0, 0, 0, 0, 0, 0, 0, self.kv_heads, self.head_dim, self.head_dim)
        groups = {
            "full": LayerGroup(self.layers.count("full"), "gqa", (Store(entry),), (), work),
            "window": LayerGroup(self.layers.count("window"), "gqa+window", (Store(entry, self.window),), (), work),
            "linear": LayerGroup(self.layers.count("linear"), "lightning", (), (state,), recurrent),
        }
        used = list(dict.fromkeys(self.layers))
        order = "".join("1" + "abc"[used.index(kind)] for kind in self.layers)
        return Card("tiny", "Tiny", tuple(groups[kind] for kind in used), order, hidden_size=self.hidden, vocab_size=self.vocab, tied_embeddings=False)


@dataclass
class Cache:
    """What the layers keep between two calls: `(keys, values)` of shape (retained, KV heads, head dim), or one state of (KV heads, d, d)."""

    tokens: int = 0
    layers: list[tuple[Floats, ...]] = field(default_factory=list)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays held; each array owns its memory, so nothing else is kept alive."""
        return sum(array.nbytes for layer in self.layers for array in layer)


class TinyModel:
    """A causal transformer with random weights (RMS norm, rotary positions, grouped KV heads, gated MLP), computed in float64.

    `stored` is the format of cached keys and values, `fp32` or `fp16`; states stay fp32.

    Examples
    --------
    >>> from kvmodel import kv_bytes
    >>> model, cache = TinyModel(Shape()), Cache()
    >>> _ = model.logits([3, 1, 4, 1, 5], cache)
    >>> cache.nbytes, kv_bytes(model.shape.card(), 5, kv_dtype="fp32")
    (4608, 4608)
    """

    def __init__(self, shape: Shape | None = None, *, stored: str = "fp32", seed: int = 7) -> None:
        if stored not in STORED:
            raise refuse("stored", stored, f"one of {' '.join(STORED)}", STORED)
        self.shape, self.dtype, self.multiply_adds = shape or Shape(), STORED[stored], 0
        s, draw = self.shape, np.random.default_rng(seed)

        def weight(rows: int, columns: int) -> Floats:
            return np.asarray(draw.standard_normal((rows, columns)) / np.sqrt(rows))

        kv, q = s.kv_heads * s.head_dim, s.query_heads * s.head_dim
        into = {"q": q, "k": kv, "v": kv, "up": 4 * s.hidden, "gate": 4 * s.hidden}
        sizes = {name: (s.hidden, width) for name, width in into.items()} | {"o": (q, s.hidden), "down": (4 * s.hidden, s.hidden)}
        self.embedding, self.head = draw.standard_normal((s.vocab, s.hidden)), weight(s.hidden, s.vocab)
        self.weights = [{name: weight(*size) for name, size in sizes.items()} for _ in s.layers]

    def empty(self) -> Cache:
        """Return a cache before the first token: states exist from the start, as in an engine, keys and values do not."""
        heads, width = self.shape.kv_heads, self.shape.head_dim
        shapes = [[(heads, width, width)] if kind == "linear" else 2 * [(0, heads, width)] for kind in self.shape.layers]
        return Cache(0, [tuple(np.zeros(size, np.float32 if len(sizes) == 1 else self.dtype) for size in sizes) for sizes in shapes])

    def logits(self, ids: Sequence[int], cache: Cache | None = None) -> Floats:
        """Return the logits of the tokens `ids`, shape (tokens, vocab), and append them to `cache`.

        With an empty cache, or none, `ids` is the whole text and all of it is computed; with a filled one only the new tokens are.
        """
        cache = self.empty() if cache is None else cache
        cache.layers = cache.layers or self.empty().layers
        x = self.embedding[np.asarray(ids, dtype=np.int64) % self.shape.vocab]
        for number, (kind, w) in enumerate(zip(self.shape.layers, self.weights, strict=True)):
            mixed, cache.layers[number] = self._mix(kind, w, _norm(x), cache.tokens, cache.layers[number])
            x = x + mixed
            h = _norm(x)
            gate = self._times(h, w["gate"])
            x = x + self._times(gate / (1 + np.exp(-gate)) * self._times(h, w["up"]), w["down"])
        cache.tokens += len(ids)
        return self._times(_norm(x), self.head)

    def _mix(self, kind: Kind, w: dict[str, Floats], x: Floats, start: int, kept: tuple[Floats, ...]) -> tuple[Floats, tuple[Floats, ...]]:
        s, n = self.shape, len(x)
        where = np.arange(start, start + n)
        q = _rotate(self._times(x, w["q"]).reshape(n, s.query_heads, s.head_dim), where).reshape(n, s.kv_heads, -1, s.head_dim)
        k = _rotate(self._times(x, w["k"]).reshape(n, s.kv_heads, s.head_dim), where)
        v = self._times(x, w["v"]).reshape(n, s.kv_heads, s.head_dim)
        if kind == "linear":
            seen, after = self._recur(q, k, v, kept[0])
            return self._times(seen, w["o"]), (after,)
        keys, values = (np.concatenate([old, new.astype(self.dtype)]) for old, new in zip(kept, (k, v), strict=True))
        first = start + n - len(keys)  # position of the oldest key that is still here
        distance = where[:, None] - np.arange(first, start + n)[None, :]
        visible = (distance >= 0) & (distance < s.window) if kind == "window" else distance >= 0
        scores = self._times(q.transpose(1, 2, 0, 3), keys.astype(float).transpose(1, 2, 0)[:, None])
        scores = np.where(visible, scores / np.sqrt(s.head_dim), -np.inf)
        share = np.exp(scores - scores.max(-1, keepdims=True))
        share /= share.sum(-1, keepdims=True)
        seen = self._times(share, values.astype(float).transpose(1, 0, 2)[:, None]).transpose(2, 0, 1, 3).reshape(n, -1)
        left = slice(-s.window, None) if kind == "window" else slice(None)
        return self._times(seen, w["o"]), (keys[left].copy(), values[left].copy())

    def _recur(self, q: Floats, k: Floats, v: Floats, state: Floats) -> tuple[Floats, Floats]:
        s, out = self.shape, []
        for t in range(len(q)):
            state = (0.9 * state.astype(float) + self._times(k[t][:, :, None], v[t][:, None, :]) / s.head_dim).astype(np.float32)
            out.append(self._times(q[t], state.astype(float)).reshape(-1))
        return np.stack(out), state

    def _times(self, a: Floats, b: Floats) -> Floats:
        product = np.asarray(a @ b)
        self.multiply_adds += product.size * a.shape[-1]
        return product


@dataclass(frozen=True, slots=True)
class Generated:
    """One greedy generation: the ids, the logits that chose each new token, and per step the tokens so far, multiply-adds and bytes held."""

    ids: tuple[int, ...]
    logits: Floats
    tokens: tuple[int, ...]
    multiply_adds: tuple[int, ...]
    held_bytes: tuple[int, ...]


def generate(model: TinyModel, prompt: Sequence[int], new_tokens: int, *, cached: bool) -> Generated:
    """Return `new_tokens` greedy tokens after `prompt`, either with one cache throughout or with everything computed again for each token.

    Examples
    --------
    >>> model = TinyModel()
    >>> generate(model, [1, 2, 3], 4, cached=True).ids == generate(model, [1, 2, 3], 4, cached=False).ids
    True
    """
    if not len(prompt):
        raise refuse("prompt", prompt, "at least one token")
    ids, cache, rows, steps = list(prompt), model.empty(), [], []
    for _ in range(new_tokens):
        before = model.multiply_adds
        fresh = cache if cached else model.empty()
        rows.append(model.logits(ids[cache.tokens :] if cached else ids, fresh)[-1])
        steps.append((len(ids), model.multiply_adds - before, cache.nbytes if cached else 0))
        ids.append(int(rows[-1].argmax()))
    tokens, work, held = zip(*steps, strict=True)
    return Generated(tuple(ids), np.stack(rows), tokens, work, held)


def _norm(x: Floats) -> Floats:
    return np.asarray(x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6))


def _rotate(x: Floats, where: NDArray[np.int64]) -> Floats:
    half = x.shape[-1] // 2
    angle = where[:, None, None] / 10_000 ** (np.arange(half) / half)
    a, b, cos, sin = x[..., :half], x[..., half:], np.cos(angle), np.sin(angle)
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], -1)
