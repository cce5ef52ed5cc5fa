"""Tiers: one denominator, residence, transfer, decode bounds, and the fifteen checks of the article's table."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmodel.cards import card, card_ids
from kvmodel.claims import claims, judge
from kvmodel.cli import main
from kvmodel.hardware import device, link, node, node_ids
from kvmodel.sizing import kv_bytes
from kvmodel.tier_checks import checks
from kvmodel.tiers import (
    capacity_bytes,
    compute_bound_users,
    convert,
    decode_tokens_per_s,
    endurance_residence_s,
    fit_transfer,
    holds,
    link_transfer,
    narrowest,
    path,
    rate,
    residence_s,
    room,
    tier,
    tier_ids,
    units_needed,
    weights_read_bytes,
    write_budget_bytes_per_s,
)
from kvmodel.units import KvError

TIERS = ("near-memory", "main-memory", "expansion-memory", "context-storage", "data-lake")
positive = st.floats(min_value=1e-3, max_value=1e15)


def test_five_tiers_near_to_far():
    assert tier_ids() == TIERS
    assert [tier(t).rank for t in TIERS] == [1, 2, 3, 4, 5]
    fixed = [round(tier(t).fixed_s, 5) for t in TIERS]  # RDMA and one PCIe copy differ by less than a microsecond
    assert fixed == sorted(fixed)


@pytest.mark.parametrize("wrong", ["memory", "Near-Memory", "", "../near-memory", "near-memory.toml"])
def test_an_unknown_tier_is_refused(wrong):
    with pytest.raises(KvError, match="near-memory"):
        tier(wrong)


@pytest.mark.parametrize("node_id", node_ids())
def test_no_hop_is_faster_than_the_narrowest_and_tiers_get_slower(node_id):
    n = node(node_id)
    rates = [rate(n, t) for t in TIERS]
    assert rates[0] > rates[1] > max(rates[2:4])  # drives on PCIe 6 may pass the network: tiers 3 and 4 have no fixed order
    assert min(rates[2:4]) > rates[4]
    for t in TIERS:
        shares = [h.read / (n.accelerators if h.per == "node" else 1) for h in path(n, t)]
        assert rate(n, t) == min(shares)
        assert rate(n, t, write=True) <= min(h.write / (n.accelerators if h.per == "node" else 1) for h in path(n, t))
        assert all(h.low <= h.read <= h.high for h in path(n, t))


def test_a_measured_link_is_preferred_and_the_nominal_kept():
    hop = path(node("h100-8"), "main-memory")[1]
    assert hop.measured
    assert (hop.read, hop.nominal) == (44.2e9, 63e9)
    assert narrowest(node("gb200-nvl72"), "main-memory").name == "NVLink-C2C, two GPUs per Grace CPU"


def test_load_rate_of_main_memory_follows_the_measured_points_of_an_engine():
    hits_ms = {10: 47, 20: 75, 30: 105, 40: 132, 50: 159, 60: 196, 70: 222, 80: 252, 90: 280, 100: 316}  # thousands of tokens, vLLM on H100, read off a figure
    n, mean = len(hits_ms), sum(hits_ms) / len(hits_ms)
    average = sum(hits_ms.values()) / n
    slope = sum((k - mean) * (t - average) for k, t in hits_ms.items()) / sum((k - mean) ** 2 for k in hits_ms)
    assert 131_072 * 1000 / (slope / 1000) == pytest.approx(rate(node("h100-8"), "main-memory"), rel=0.005)
    assert (average - slope * mean) / 1000 == pytest.approx(tier("main-memory").fixed_s, abs=0.003)


@given(st.floats(min_value=1e6, max_value=1e15), st.sampled_from(node_ids()))
def test_conversion_keeps_the_total(bytes_per_s, node_id):
    n = node(node_id)
    for per, count in {
        "accelerator": n.accelerators,
        "package": n.accelerators,
        "socket": n.sockets,
        "nic": n.nics,
        "drive": n.drives,
        "client": 1,
        "node": 1,
    }.items():
        found = convert(bytes_per_s, per, n)
        assert found["node"] == pytest.approx(bytes_per_s * count)
        assert found["accelerator"] * n.accelerators == pytest.approx(found["node"])


def test_an_unknown_denominator_is_refused():
    with pytest.raises(KvError, match="socket"):
        convert(1e9, "sockets", node("h100-8"))


def test_capacity_counts_the_whole_node():
    n = node("gb200-nvl72")
    assert capacity_bytes(n, "near-memory") == 72 * 186 * 10**9
    assert capacity_bytes(n, "main-memory") == 36 * 480 * 10**9
    assert capacity_bytes(n, "context-storage") == 72 * 30_720 * 10**9
    assert capacity_bytes(n, "data-lake") == 9 * capacity_bytes(node("h100-8"), "data-lake")


def test_room_is_what_weights_leave():
    llama = card("llama-3.3-70b")
    n = node("h100-8")
    assert room(n, llama) == int(0.9 * 640e9) - 2 * llama.params_total
    assert room(node("gh200-1"), llama) == 0
    assert room(node("gb200-nvl72"), llama) == 9 * (int(0.9 * 8 * 186e9) - 2 * llama.params_total)


@pytest.mark.parametrize("model", ["llama-3.3-70b", "mamba-codestral-7b-v0.1", "deepseek-v3"])
@pytest.mark.parametrize("context", [1, 100_000, 10_000_000])
def test_sessions_are_whole_and_fit(model, context):
    if model not in card_ids():
        pytest.fail(f"{model} has no card")
    found = holds(10**12, card(model), context)
    each = kv_bytes(card(model), context)
    assert found["sessions"] * each <= 10**12 < (found["sessions"] + 1) * each
    assert found["tokens"] == found["sessions"] * context


@given(positive, positive)
def test_littles_law(capacity, write):
    assert residence_s(capacity, write) * write == pytest.approx(capacity)


@given(st.floats(min_value=1e9, max_value=1e15), st.floats(min_value=0.05, max_value=50))
def test_a_rating_used_up_exactly_gives_its_least_residence(capacity, dwpd):
    assert residence_s(capacity, write_budget_bytes_per_s(capacity, dwpd)) == pytest.approx(endurance_residence_s(dwpd))


def test_a_sequential_rating_shortens_the_least_residence():
    drive = device("micron-9550-max")
    assert endurance_residence_s(drive.need("sequential_dwpd")) < endurance_residence_s(drive.need("endurance_dwpd"))
    assert drive.need("sequential_dwpd") == pytest.approx(282_600 / (25.6 * 1825), abs=0.005)
    assert drive.need("endurance_dwpd") == pytest.approx(140_160 / (25.6 * 1825), abs=0.005)


@given(positive, positive)
def test_units_needed_is_enough_and_one_less_is_not(need, each):
    if need / each > 1e12:
        return
    n = units_needed(need, each)
    assert n * each >= need * (1 - 1e-12)
    assert (n - 1) * each < need * (1 + 1e-12)


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf")])
def test_nonsense_is_refused(bad):
    for call in (lambda: residence_s(bad, 1), lambda: residence_s(1, bad), lambda: endurance_residence_s(bad), lambda: units_needed(bad, 1)):
        with pytest.raises(KvError):
            call()


def test_the_transfer_fit_follows_the_measured_points():
    by_block = link("pcie5-x16").spec.text["by_block"]
    for method in ("dma", "kernel"):
        fitted = link_transfer("pcie5-x16", method)
        for block, gb in by_block[method]:
            assert fitted.effective(block) / 1e9 == pytest.approx(gb, rel=0.16)
    dma, kernel = link_transfer("pcie5-x16"), link_transfer("pcie5-x16", "kernel")
    assert dma.effective(4096) < kernel.effective(4096)
    assert dma.effective(64 << 20) > kernel.effective(64 << 20)


@given(st.floats(min_value=1e-7, max_value=1e-3), st.floats(min_value=1e8, max_value=1e12))
def test_the_fit_finds_the_link_that_made_the_points(fixed, speed):
    points = [(b, b / (fixed + b / speed)) for b in (4096, 1 << 15, 1 << 18, 1 << 21, 1 << 24)]
    found = fit_transfer(points)
    assert found.fixed_s == pytest.approx(fixed, rel=1e-4)
    assert found.bytes_per_s == pytest.approx(speed, rel=1e-4)


def test_the_fixed_part_of_a_copy_in_the_specs_is_the_fit():
    for stated in (link("pcie5-x16").spec.need("latency_s"), tier("main-memory").spec.need("latency_s")):
        assert link_transfer("pcie5-x16").fixed_s == pytest.approx(stated, abs=0.05e-6)


def test_a_fit_needs_two_block_sizes():
    with pytest.raises(KvError):
        fit_transfer([(4096, 1e9), (4096, 2e9)])


def test_decode_reads_weights_once_and_kv_for_each_user():
    one, many = decode_tokens_per_s(100e9, 10e9, 1, 1e12), decode_tokens_per_s(100e9, 10e9, 40, 1e12)
    assert one == pytest.approx(1e12 / 110e9)
    assert many == pytest.approx(1e12 / 500e9)
    assert 40 * many < 1e12 / 10e9  # the total is bounded by KV alone


@given(st.floats(min_value=1e8, max_value=1e13), st.floats(min_value=1e6, max_value=1e12), st.floats(min_value=1e9, max_value=1e14))
def test_at_the_compute_bound_both_take_as_long(weights, kv, flops_per_token):
    users = compute_bound_users(weights, kv, flops_per_token, 3.35e12, 989e12)
    if users is None:
        assert kv / 3.35e12 >= flops_per_token / 989e12
    else:
        assert users * flops_per_token / 989e12 == pytest.approx((weights + users * kv) / 3.35e12, rel=1e-6)


def test_weights_read_never_exceed_the_model():
    assert weights_read_bytes(670e9, 37e9, 1) == 37e9
    assert weights_read_bytes(670e9, 37e9, 100) == 670e9


def test_fifteen_checks_with_permanent_ids():
    found = checks()
    assert [c.id for c in found] == [f"tier-{n}-{q}" for n in range(1, 6) for q in ("capacity", "bandwidth", "time")]
    for c in found:
        assert c.ours_low <= c.ours_high
        assert c.relation in ("inside", "covers", "overlaps", "below", "above")
        assert c.basis


def test_the_bandwidth_row_of_main_memory_is_a_socket_figure():
    c = next(c for c in checks() if c.id == "tier-2-bandwidth")
    assert (c.article_low, c.article_high) == (100e9, 500e9)
    assert c.accelerator_low < c.article_low / 2  # behind PCIe 5
    assert c.ours_low >= c.article_low


def test_the_lake_row_is_below_one_drive():
    c = next(c for c in checks() if c.id == "tier-5-bandwidth")
    assert device("micron-6600-ion-245").need("read_bytes_per_s") > c.article_high


def test_a_smaller_model_leaves_more_near_memory():
    large, small = (next(c for c in checks(card(m)) if c.id == "tier-1-capacity") for m in ("llama-3.3-70b", "llama-3.1-8b"))
    assert small.ours_high > large.ours_high


@pytest.mark.parametrize("name", TIERS)
def test_tiers_command_shows_one_in_full(capsys, name):
    assert main(["tiers", name, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["id"] == name
    assert [c["verdict"] for c in document["checks"]] == [judge(claims()[c["id"]]).verdict for c in document["checks"]]
    assert len(document["checks"]) == 3
    assert document["fixed_s"] == tier(name).fixed_s
    assert set(document["references"]) == set(document["sources"])
    assert all(facts["title"] for facts in document["references"].values())
    assert main(["tiers", name]) == 0
    assert "sources" in capsys.readouterr().out


def test_lists_are_one_json_document(capsys):
    assert main(["tiers", "--json"]) == 0
    assert [t["id"] for t in json.loads(capsys.readouterr().out)] == list(TIERS)
    assert main(["hardware", "--json"]) == 0
    assert {"h100-8", "h100-sxm", "pcie5-x16", "micron-9650-pro"} <= {s["id"] for s in json.loads(capsys.readouterr().out)}


def test_a_node_is_shown_with_what_each_tier_delivers(capsys):
    assert main(["hardware", "h100-8", "--json"]) == 0
    ways = json.loads(capsys.readouterr().out)["tiers"]
    assert {t: w["bytes_per_s_per_accelerator"] for t, w in ways.items()} == {t: rate(node("h100-8"), t) for t in TIERS}
    assert main(["hardware", "h100-sxm", "--json"]) == 0
    assert "tiers" not in json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("argv", [["tiers", "moon"], ["hardware", "moon"], ["tiers", ""], ["hardware", "../tiers/near-memory"]])
def test_an_unknown_name_exits_2_with_one_line(capsys, argv):
    assert main(argv) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "nearest" in captured.err or "accepted" in captured.err
