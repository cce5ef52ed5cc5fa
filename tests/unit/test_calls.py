"""The Python calls: whole numbers of any type, arrays of any shape, and what they refuse."""

import numpy as np
import pytest

from kvmodel import KvError, card, fit, kv_bytes, size

LLAMA = card("llama-3.3-70b")
TOKEN = 327_680


@pytest.mark.parametrize("tokens", [np.int8(100), np.uint64(100), np.float16(100), 100.0, np.array(100), np.array(100.0)])
def test_whole_numbers_of_any_type(tokens):
    found = kv_bytes(LLAMA, tokens)
    assert (found, type(found)) == (100 * TOKEN, int)


def test_numpy_integers_in_every_call():
    assert size(LLAMA, context_tokens=np.int64(5), users=np.int32(2), tp=np.int8(4))["kv_bytes_per_device"] == 10 * TOKEN // 4
    assert fit(LLAMA, np.int64(640 * 10**9), context_tokens=128_000) == fit(LLAMA, 640e9, context_tokens=128_000)


@pytest.mark.parametrize("bad", [[[1], [1, 2]], [], [True], np.array([1.5]), [float("nan")], np.array([2**63], dtype=np.uint64), "100", None, 0, -1, True])
def test_counts_refused(bad):
    for arguments in ({"tokens": bad}, {"tokens": 1, "users": bad}):
        with pytest.raises(KvError):
            kv_bytes(LLAMA, **arguments)


def test_shapes_broadcast_or_are_refused():
    grid = kv_bytes(LLAMA, np.array([[1], [2]]), np.array([1, 2, 3]))
    assert grid.tolist() == [[TOKEN * t * u for u in (1, 2, 3)] for t in (1, 2)]
    with pytest.raises(KvError, match=r"users: 'shape \(3,\)'"):
        kv_bytes(LLAMA, [1, 2], [1, 2, 3])


def test_only_a_real_product_past_2_63_is_refused():
    assert kv_bytes(LLAMA, [2**43, 1], [1, 2**43]).tolist() == [TOKEN * 2**43] * 2  # the two largest are no pair
    for tokens, users in (([2**43, 1], [4, 2**43]), ([2**43], 4), (2**43, [1, 4]), (2**46, 1)):
        with pytest.raises(KvError, match="below 2\\^63"):
            kv_bytes(LLAMA, tokens, users)


@pytest.mark.parametrize(
    "bad",
    [{"usable": 0}, {"usable": 2}, {"usable": float("nan")}, {"usable": "x"}, {"params": 0}, {"params": -5}, {"tp": 0}, {"replicas": 0}, {"block_tokens": 0}],
)
def test_fit_refuses(bad):
    with pytest.raises(KvError, match=next(iter(bad))):
        fit(LLAMA, 640 * 10**9, **bad)


@pytest.mark.parametrize("memory", [-5, 0, 10**30, "640GB", None])
def test_fit_refuses_memory(memory):
    with pytest.raises(KvError, match="memory"):
        fit(LLAMA, memory)


def test_a_format_of_indexer_keys_is_checked_where_no_layer_has_one():
    with pytest.raises(KvError, match="indexer_dtype"):
        kv_bytes(LLAMA, 1, indexer_dtype="fp4")
