"""The small transformer: the cache changes the work, not the answer, and holds exactly what the formula says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvmodel import KvError, kv_bytes
from kvmodel.tiny import KINDS, Cache, Shape, TinyModel, generate

PROMPT = [17, 4, 4, 401, 99_999, 23, 0, 8, 15, 16]


def naive_logits(model: TinyModel, ids: list[int]) -> np.ndarray:
    """The same model written token by token and head by head, in float64, without any cache."""
    s = model.shape
    angles = 10_000.0 ** (-np.arange(s.head_dim // 2) / (s.head_dim // 2))

    def norm(x):
        return x / np.sqrt(np.mean(x**2) + 1e-6)

    def turn(v, position):
        half = s.head_dim // 2
        z = (v[:half] + 1j * v[half:]) * np.exp(1j * position * angles)
        return np.concatenate([z.real, z.imag])

    xs = [model.embedding[i % s.vocab] for i in ids]
    for kind, w in zip(s.layers, model.weights, strict=True):
        keys, values, out = [], [], []
        states = [np.zeros((s.head_dim, s.head_dim)) for _ in range(s.kv_heads)]
        for position, x in enumerate(xs):
            h = norm(x)
            keys.append([turn(v, position) for v in np.split(h @ w["k"], s.kv_heads)])
            values.append(np.split(h @ w["v"], s.kv_heads))
            states = [0.9 * m + np.outer(k, v) / s.head_dim for m, k, v in zip(states, keys[-1], values[-1], strict=True)]
            heads = []
            for number, q in enumerate(np.split(h @ w["q"], s.query_heads)):
                q, kv = turn(q, position), number // (s.query_heads // s.kv_heads)
                seen = range(max(0, position - s.window + 1) if kind == "window" else 0, position + 1)
                e = np.exp([q @ keys[j][kv] / np.sqrt(s.head_dim) for j in seen])
                heads.append(q @ states[kv] if kind == "linear" else (e / e.sum()) @ np.stack([values[j][kv] for j in seen]))
            out.append(np.concatenate(heads) @ w["o"])
        xs = [x + mixed for x, mixed in zip(xs, out, strict=True)]
        xs = [x + (lambda g, u: g / (1 + np.exp(-g)) * u)(norm(x) @ w["gate"], norm(x) @ w["up"]) @ w["down"] for x in xs]
    return np.stack([norm(x) @ model.head for x in xs])


@pytest.mark.parametrize("layers", [("full",), ("window",), ("linear",), KINDS])
def test_logits_are_those_of_the_model_written_out(layers):
    model = TinyModel(Shape(layers, window=3))
    np.testing.assert_allclose(model.logits(PROMPT), naive_logits(model, PROMPT), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layers", [("full",), ("window",), ("linear",), KINDS, ("window", "full", "window", "linear", "full")])
@pytest.mark.parametrize("stored", ["fp32", "fp16"])
def test_cache_changes_no_logit(layers, stored):
    with_cache, without = (generate(TinyModel(Shape(layers, window=5), stored=stored), PROMPT, 24, cached=c) for c in (True, False))
    assert with_cache.ids == without.ids
    np.testing.assert_allclose(with_cache.logits, without.logits, rtol=1e-6, atol=1e-6 if stored == "fp32" else 1e-3)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(1, 12))
@settings(max_examples=25, deadline=None)
def test_any_cut_into_steps_gives_the_same_logits(steps, window):
    model, cache = TinyModel(Shape(window=window)), Cache()
    ids = [(7 * i) ** 2 for i in range(sum(steps))]
    parts, start = [], 0
    for n in steps:
        parts.append(model.logits(ids[start : start + n], cache))
        start += n
    np.testing.assert_allclose(np.concatenate(parts), model.logits(ids), rtol=1e-5, atol=1e-5)
    assert cache.nbytes == kv_bytes(model.shape.card(), len(ids), kv_dtype="fp32")


@given(
    st.lists(st.sampled_from(KINDS), min_size=1, max_size=5), st.integers(1, 40), st.integers(1, 16),
    st.sampled_from([1, 2, 3, 6]), st.sampled_from([2, 4, 10]), st.sampled_from(["fp32", "fp16"]),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_arrays_really_held_are_the_bytes_of_the_geometry(layers, tokens, window, kv_heads, head_dim, stored):
    shape = Shape(tuple(layers), kv_heads=kv_heads, head_dim=head_dim, window=window)
    cache = Cache()
    TinyModel(shape, stored=stored).logits(range(tokens), cache)
    assert cache.nbytes == kv_bytes(shape.card(), tokens, kv_dtype=stored)
    assert all(array.base is None for layer in cache.layers for array in layer), "a view would keep the whole array alive"


def test_work_per_token_is_quadratic_without_cache_and_linear_with_it():
    shape = Shape(("full", "full"))
    cached, again = (generate(TinyModel(shape), PROMPT, 40, cached=c) for c in (True, False))
    q, kv = shape.query_heads * shape.head_dim, shape.kv_heads * shape.head_dim
    weights = 2 * (shape.hidden * (2 * q + 2 * kv) + 12 * shape.hidden**2) + shape.hidden * shape.vocab  # multiply-adds of one token
    pair = 2 * 2 * q  # of one (query, key) pair: scores and values, in both layers
    assert [n * weights + n * n * pair for n in again.tokens] == list(again.multiply_adds)
    assert [weights + n * pair for n in cached.tokens[1:]] == list(cached.multiply_adds[1:])
    assert cached.multiply_adds[0] == again.multiply_adds[0], "prefill costs the same either way"
    assert set(again.held_bytes) == {0}
    assert cached.held_bytes == tuple(kv_bytes(shape.card(), n, kv_dtype="fp32") for n in cached.tokens)


def test_bad_shapes_and_empty_prompts_are_refused():
    with pytest.raises(KvError, match=r"layers: 'widow' .* nearest: 'window'"):
        Shape(("widow",))
    with pytest.raises(KvError, match="query_heads: 6"):
        Shape(kv_heads=4)
    with pytest.raises(KvError, match="stored: 'fp8'"):
        TinyModel(stored="fp8")
    with pytest.raises(KvError, match="prompt"):
        generate(TinyModel(), [], 3, cached=True)
