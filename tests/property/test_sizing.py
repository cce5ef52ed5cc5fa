"""Laws that hold for any geometry, not only for the models we know."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmodel import KvError, kv_bytes
from kvmodel.attention import LayerGroup, State, Store, Vectors, compile_terms
from kvmodel.cards import LETTERS, Card
from kvmodel.dtypes import FORMATS, parse_kv_dtype
from kvmodel.sizing import allocated_bytes, deployment, fit, size

widths = st.sampled_from([64, 128, 192, 256, 512])
key_value = st.tuples(widths, widths, st.integers(1, 128)).map(lambda t: (Vectors("key", t[0], t[2]), Vectors("value", t[1], t[2])))
latent = st.just((Vectors("latent", 512), Vectors("rope", 64)))
stores = st.builds(Store, st.one_of(key_value, latent), st.one_of(st.none(), st.integers(1, 10_000)), st.just(1)) | st.builds(
    Store, st.just((Vectors("shared", 512, rope=64),)), st.none(), st.sampled_from([4, 128])
)
states = st.builds(State, st.sampled_from(["conv", "recurrent", "shift"]), st.integers(1, 64), st.integers(1, 4096), st.sampled_from([2, 4]))
groups = st.builds(LayerGroup, st.integers(1, 60), st.just("gqa"), st.lists(stores, max_size=3).map(tuple), st.lists(states, max_size=2).map(tuple))
cards = st.lists(groups, min_size=1, max_size=4).map(
    lambda gs: Card("x", "x", tuple(gs), "".join(f"{g.count}{LETTERS[i]}" for i, g in enumerate(gs)), native_context_tokens=131_072, params_total=10**9)
)
tokens = st.integers(1, 10**7)
formats = st.sampled_from(sorted(FORMATS))


@given(cards, tokens, st.integers(0, 10**6), st.integers(1, 1000), formats)
def test_bytes_never_fall(card, s, more, users, name):
    assert kv_bytes(card, s + more, kv_dtype=name) >= kv_bytes(card, s, kv_dtype=name)
    assert kv_bytes(card, s, users + 1, kv_dtype=name) >= kv_bytes(card, s, users, kv_dtype=name)


@given(cards, tokens)
def test_a_window_never_keeps_more_than_full_attention(card, s):
    full = [LayerGroup(g.count, g.kind, tuple(Store(t.entry, None, t.ratio) for t in g.stores), g.states) for g in card.groups]
    assert card.terms().stored(s) <= compile_terms(full, parse_kv_dtype("bf16")).stored(s)


@given(cards, tokens, st.integers(1, 256), st.integers(1, 512))
def test_ranks_blocks_and_tiers_never_hold_less(card, s, tp, block):
    r = size(card, context_tokens=s, tp=tp, block_tokens=block)
    assert tp * r["kv_bytes_per_device"] >= r["kv_bytes"]
    assert r["allocated_bytes_per_user"] >= r["kv_bytes_per_user"]
    assert r["marginal_bytes_per_token"] >= r["growing_bytes_per_token"]
    if s % block == 0 and tp == 1:
        assert r["written_bytes_per_user"] == r["kv_bytes_per_user"]


@given(cards, tokens)
def test_formats_order_as_their_bits(card, s):
    order = ["q4_0", "q4_1", "q5_0", "q5_1", "fp8", "mxfp8", "q8_0", "bf16", "fp32"]
    sizes = [kv_bytes(card, s, kv_dtype=n) for n in order]
    assert sizes == sorted(sizes)
    assert kv_bytes(card, s, kv_dtype="int8") == kv_bytes(card, s, kv_dtype="fp8") <= kv_bytes(card, s, kv_dtype="fp8-token-head")


@given(cards, st.lists(st.integers(1, 20_000), min_size=1, max_size=20), st.lists(st.integers(1, 1000), min_size=1, max_size=5), formats)
def test_arrays_equal_scalars(card, ss, us, name):
    got = kv_bytes(card, np.array(ss)[:, None], np.array(us)[None, :], kv_dtype=name)
    assert got.tolist() == [[kv_bytes(card, s, u, kv_dtype=name) for u in us] for s in ss]
    same = kv_bytes(card, np.array(ss), np.array(ss), kv_dtype=name)
    assert same.tolist() == [kv_bytes(card, s, s, kv_dtype=name) for s in ss]


@given(cards, tokens, st.integers(1, 8), st.integers(1, 8), st.integers(1, 9))
def test_stages_add_up(card, s, users, tp, pp):
    layers = len(card.layers)
    if pp > layers:
        with pytest.raises(KvError, match="pp"):
            deployment(card, s, users, tp=tp, pp=pp)
        return
    d = deployment(card, s, users, tp=tp, pp=pp)
    assert sum(d["stage_bytes_per_device"]) == size(card, context_tokens=s, users=users, tp=tp)["kv_bytes_per_device"]
    assert d["kv_bytes_all_devices"] == tp * sum(d["stage_bytes_per_device"])


@given(cards, st.integers(1, 10**13), st.integers(1, 10**6), st.integers(1, 16), st.integers(1, 4), st.sampled_from([1, 16, 64]))
def test_what_fits_fits_and_one_more_does_not(card, memory, context, tp, replicas, block):
    r = fit(card, memory, context_tokens=context, tp=tp, replicas=replicas, block_tokens=block)
    rank, budget = card.terms(tp=tp), r["kv_budget_bytes"] // replicas
    each = tp * allocated_bytes(rank, context, block)
    if each:
        n = r["max_users"] // replicas
        assert n * each <= budget < (n + 1) * each
    longest = r["max_context_tokens"]
    if longest is not None:
        assert longest == 0 or tp * allocated_bytes(rank, longest, block) <= budget
        assert tp * allocated_bytes(rank, longest + 1, block) > budget


def test_a_name_is_no_card():
    for call in (lambda: kv_bytes("x", 1), lambda: size("x", context_tokens=1), lambda: fit("x", 1), lambda: deployment("x", 1)):
        with pytest.raises(KvError, match="card: 'x'"):
            call()
