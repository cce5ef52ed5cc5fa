import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmodel import KvError, card, kv_bytes
from kvmodel.hardware import node
from kvmodel.placement import AGES, Load, Sessions, Supply, nodes_needed, overflow, place, pyramids, supply

MODEL = card("llama-3.3-70b")
CHAT = Sessions("chat", 1000, 8_000, 500, 10.0, ((60.0, 0.8), (7200.0, 0.2)))
AGENT = Sessions("agent", 100, 120_000, 4_500, 8.0, ((5.0, 0.5), (60.0, 0.4), (600.0, 0.08), (20_000.0, 0.02)))
shares = st.lists(st.tuples(st.floats(0.1, 1e6), st.integers(1, 9)), min_size=1, max_size=5)
gaps = shares.map(lambda pairs: tuple((g, n / sum(m for _, m in pairs)) for g, n in pairs))


def test_by_hand():
    """A cycle is 10 + 0.8 * 60 + 0.2 * 7,200 = 1,498 s; each band's share of it times 1,000 sessions of 2.62 GB."""
    each = kv_bytes(MODEL, 8_000)
    bands = [10 + 10, 0.8 * 50 + 0.2 * 290, 0.2 * 3300, 0.2 * 3600, 0]
    loads = place(MODEL, [CHAT])
    assert [one.resident_bytes for one in loads] == pytest.approx([1000 * each * b / 1498 for b in bands])
    assert loads[1].read_bytes_per_s == pytest.approx(1000 / 1498 * 0.8 * each)  # the 60-second gaps return from main memory
    assert loads[3].read_bytes_per_s == pytest.approx(1000 / 1498 * 0.2 * each)
    assert loads[1].write_bytes_per_s == pytest.approx(1000 / 1498 * kv_bytes(MODEL, 500))


@given(gaps, st.integers(1, 10**5), st.floats(0.1, 100))
def test_all_time_is_spent_somewhere(gaps, sessions, active):
    """Bands add up to all sessions, but for those dropped; what is held never falls from near to far."""
    fleet = [Sessions("any", sessions, 1000, 10, active, gaps)]
    loads = place(MODEL, fleet)
    total = sessions * kv_bytes(MODEL, 1000)
    assert sum(one.resident_bytes for one in loads) == pytest.approx(total)
    assert [one.held_bytes for one in loads] == sorted(one.held_bytes for one in loads)
    writes = [one.write_bytes_per_s for one in loads[1:]]
    assert all(a >= b * (1 - 1e-9) for a, b in pairwise(writes))
    through = place(MODEL, fleet, write_through=True)
    assert all(t.write_bytes_per_s >= one.write_bytes_per_s * (1 - 1e-9) for t, one in zip(through, loads))


def test_admission_by_age_spares_flash():
    """Sessions that never idle an hour are never written to flash; written through, they would be."""
    quick = Sessions("quick", 1000, 8_000, 500, 10.0, ((30.0, 1.0),))
    admitted, all_of_it = (place(MODEL, [quick], write_through=w)[3].write_bytes_per_s for w in (False, True))
    assert (admitted, all_of_it) == (0, pytest.approx(1000 / 40 * kv_bytes(MODEL, 500)))


def test_a_shared_prefix_is_stored_once_and_not_moved():
    apart = Sessions("rag", 1000, 8_000, 500, 10.0, ((60.0, 1.0),))
    shared = Sessions("rag", 1000, 8_000, 500, 10.0, ((60.0, 1.0),), shared_tokens=6_000)
    a, s = (sum(one.resident_bytes for one in place(MODEL, [f])) for f in (apart, shared))
    assert s == pytest.approx(a / 4 + kv_bytes(MODEL, 6_000))
    assert place(MODEL, [shared])[1].read_bytes_per_s == pytest.approx(place(MODEL, [apart])[1].read_bytes_per_s / 4)


def test_what_a_shared_prefix_cannot_give_stays_private():
    """A window reaches back behind the prefix, and every session has its own state: none of these may come out as zero bytes."""
    gone = ((60.0, 1.0),)
    for model, tokens in (("mistral-7b-v0.1", 2_000), ("mamba-codestral-7b-v0.1", 8_000), ("llama-3.3-70b", 2_000)):
        got = place(card(model), [Sessions("x", 1000, 8_000, 500, 10.0, gone, shared_tokens=6_000)])
        assert sum(one.resident_bytes for one in got) == pytest.approx(1000 * kv_bytes(card(model), tokens) + kv_bytes(card(model), 6_000))
    state = place(card("mamba-codestral-7b-v0.1"), [Sessions("x", 1000, 8_000, 500, 10.0, gone)])[1]
    assert state.write_bytes_per_s == pytest.approx(1000 / 70 * kv_bytes(card("mamba-codestral-7b-v0.1"), 1))  # a turn changes all of the state


def test_after_a_drop_everything_is_written_again():
    late = Sessions("late", 1000, 8_000, 500, 10.0, ((60.0, 0.5), (10_000.0, 0.5)))
    near, main = place(MODEL, [late], ages={"near-memory": 10.0, "main-memory": 300.0})
    turns = 1000 / (10 + 0.5 * 60 + 0.5 * 10_000)  # what is dropped does not make turns come sooner
    assert main.write_bytes_per_s == pytest.approx(turns * (0.5 * kv_bytes(MODEL, 8_000) + 0.5 * kv_bytes(MODEL, 500)))
    assert main.read_bytes_per_s == pytest.approx(turns * 0.5 * kv_bytes(MODEL, 8_000))
    ends = Sessions("ends", 1000, 8_000, 500, 10.0, ((60.0, 0.5), (math.inf, 0.5)))
    turns = 1000 / (10 + 0.5 * 60)  # a session that ends is replaced at once
    first, second = place(MODEL, [ends], ages={"near-memory": 10.0, "main-memory": 300.0})
    assert second.write_bytes_per_s == pytest.approx(turns * kv_bytes(MODEL, 500))
    assert second.resident_bytes == pytest.approx(turns * kv_bytes(MODEL, 8_000) * (0.5 * 50 + 0.5 * 290))  # it waits for nobody until it is dropped
    assert first.resident_bytes == pytest.approx(turns * kv_bytes(MODEL, 8_000) * 20)
    assert near.write_bytes_per_s == 0


def test_overflow_and_endurance():
    assert overflow(Load("near-memory", 1, 1, 0, 0, 0), Supply("near-memory", 2, 1, 1, None)) == {}
    worn = overflow(Load("context-storage", 0, 1, 0, 9e9, 0), Supply("context-storage", 2, 1e10, 1e10, 3e9))
    assert worn == {"endurance": pytest.approx(2.0)}
    assert supply(node("h100-8"), "context-storage", MODEL).write_budget_bytes_per_s == pytest.approx(2.84e9, rel=0.01)
    assert supply(node("h100-8"), "main-memory", MODEL).write_budget_bytes_per_s is None


def test_least_pyramid_needs_no_more_than_any_other():
    found = pyramids(MODEL, [CHAT, AGENT], node("h100-8"), tp=8)
    cost = [round(p.nodes * 8 + p.recompute_accelerators, 1) for p in found]
    assert cost == sorted(cost)
    assert found[-1].tiers == ("near-memory",)  # keeping all that returns in HBM, or recomputing it, is the dearest choice
    assert all(p.nodes == max(nodes_needed(one, node("h100-8"), MODEL) or 0 for one in p.loads) for p in found)


def test_a_tier_that_saves_nothing_is_left_out():
    """One short chat fits one node whatever is kept: recomputing it costs next to nothing, so near memory alone is least."""
    assert pyramids(card("llama-3.1-8b"), [Sessions("one", 1, 2_000, 500, 10.0, ((60.0, 0.8), (7200.0, 0.2)))], node("h100-8"))[0].tiers == ("near-memory",)


def test_refusals():
    for call in (
        lambda: Sessions("x", 0, 10, 1, 1, ((1, 1),)),
        lambda: Sessions("x", 1, 10, 11, 1, ((1, 1),)),
        lambda: Sessions("x", 1, 10, 1, 1, ((1, 0.5),)),
        lambda: place(MODEL, [CHAT], ages={"near-memory": 10, "moon": 20}),
        lambda: place(MODEL, [CHAT], ages={"near-memory": 10, "main-memory": 5}),
        lambda: pyramids(card("llama-3.1-405b"), [CHAT], node("h100-8")),
    ):
        with pytest.raises(KvError, match="accepted"):
            call()
    assert math.isclose(AGES["context-storage"], 86_400)
