"""Tables and charts of the tier chapters, against numbers computed here."""

import csv
import re
from pathlib import Path

import pytest

from kvmodel.cards import card
from kvmodel.hardware import device, node, node_ids
from kvmodel.movement import race
from kvmodel.report import charts, frames_hardware, frames_storage, frames_tiers
from kvmodel.report.record import load_sources
from kvmodel.tiers import room, tier_ids

LLAMA = card("llama-3.3-70b")
DATA = Path(__file__).parents[2] / "data"
TABLES = ("prices.csv", "kv_offload_tests.csv", "kv_storage_reads.csv")


def rows(name):
    with (DATA / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", TABLES)
def test_every_row_has_an_id_a_kind_a_date_and_a_known_source(name):
    found = rows(name)
    assert len({r["id"] for r in found}) == len(found)
    for r in found:
        assert r["source"] in load_sources()
        assert re.fullmatch(r"\d{4}(-\d\d){0,2}", r["date"])
        assert r["kind"]


def test_a_derived_price_is_what_its_expression_says():
    derived = [r for r in rows("prices.csv") if r["expression"]]
    assert len(derived) >= 10
    for r in derived:
        assert re.fullmatch(r"[\d./* ]+", r["expression"])
        assert float(r["value"]) == pytest.approx(eval(r["expression"]), rel=0.005)


@pytest.mark.parametrize("node_id", node_ids())
def test_pyramid_has_a_band_and_a_place_for_each_tier(node_id):
    frame = frames_tiers.pyramid_frame(node(node_id))
    for mark in ("article", "platform"):
        assert list(frame[frame["mark"] == mark]["rank"]) == [1, 2, 3, 4, 5]
    assert (frame["capacity_low"] <= frame["capacity_high"]).all()
    assert (frame["bandwidth_low"] <= frame["bandwidth_high"]).all()
    assert set(frames_tiers.pyramid_sources(node(node_id))) <= set(load_sources())


def test_the_article_s_bands_are_converted_to_one_accelerator():
    frame = frames_tiers.pyramid_frame(node("h100-8"))
    band = frame[frame["mark"] == "article"].set_index("rank")
    assert (band.loc[1, "bandwidth_low"], band.loc[1, "bandwidth_high"]) == (1e12, 20e12)  # a package is an accelerator
    assert (band.loc[2, "bandwidth_low"], band.loc[2, "bandwidth_high"]) == (25e9, 125e9)  # two sockets for eight
    assert (band.loc[3, "bandwidth_low"], band.loc[3, "bandwidth_high"]) == (12.5e9, 25e9)  # a node for eight
    assert band.loc[5, "bandwidth_high"] == 1.25e9  # a client node for eight
    assert (band.loc[1, "capacity_low"], band.loc[4, "capacity_low"]) == (10e9, 10e12 / 8)


@pytest.mark.parametrize("node_id", ["h100-8", "gb200-nvl72", "b300-8"])
def test_load_times_are_those_of_the_load_command(node_id):
    place = node(node_id)
    frame = frames_tiers.load_frame(place, LLAMA, 100_000, "bf16")
    for t, value, low, high in zip(tier_ids(), frame["value"], frame["low"], frame["high"], strict=True):
        assert value == pytest.approx(race(LLAMA, 100_000, t, place, tp=8).load_s)
        assert low <= value <= high


def test_decode_ends_where_memory_is_full_and_never_speeds_up():
    place = node("h100-8")
    frame = frames_tiers.decode_frame(place, LLAMA, {"long": 100_000}, "bf16")
    assert frame["users"].max() * 32_768_000_000 <= room(place, LLAMA) < (frame["users"].max() + 1) * 32_768_000_000
    assert frame["tokens_per_s"].is_monotonic_decreasing
    assert frame["total_tokens_per_s"].is_monotonic_increasing
    assert frame["total_tokens_per_s"].max() < 8 * 3.35e12 / 32_768_000_000


def test_near_room_is_fit_and_weights_of_all_copies():
    frame = frames_tiers.near_frame(node("gb200-nvl72"), LLAMA, 100_000, "bf16").set_index("platform")
    assert frame.loc["gb200-nvl72", "weights_bytes"] == 9 * frame.loc["h100-8", "weights_bytes"] == 18 * LLAMA.params_total
    assert frame.loc["gb200-nvl72", "room_bytes"] == room(node("gb200-nvl72"), LLAMA)


def test_a_pool_is_shared_evenly():
    frame = frames_tiers.sharing_frame(node("h100-8"), 4)
    pool = frame[frame["pool"] == "pool server"].set_index("nodes")["rate"]
    assert pool[1] == pytest.approx(194e9 / 8)
    assert pool[4] == pytest.approx(pool[1] / 4)


def test_refill_is_amount_over_rate_and_ranges_hold_it():
    frame = frames_storage.refill_frame(1e15)
    assert (frame["value"] * frame["rate"] / 1e15).tolist() == pytest.approx([1.0] * len(frame))
    assert ((frame["low"] <= frame["value"]) & (frame["value"] <= frame["high"])).all()


def test_writing_more_than_the_rating_shortens_residence_below_it():
    drive = device("micron-9650-pro")
    shelf = frames_storage.shelf(node("h100-8"), drive, 8)
    assert shelf["fill_s"] == pytest.approx(8 * 30.72e12 / (8 * 14e9))
    assert (shelf["least_s"], shelf["budget"]) == (86_400, pytest.approx(8 * 30.72e12 / 86_400))
    stay = frames_storage.residence_frame(drive, 8)
    assert (stay["write_rate"] * stay["seconds"]).tolist() == pytest.approx([8 * 30.72e12] * len(stay))


def test_a_slot_caps_the_drives_and_few_drives_cap_the_node():
    place, drive = node("h100-8"), device("micron-9650-pro")
    eight, one = (frames_storage.shelf_load(place, LLAMA, 100_000, "bf16", frames_storage.shelf(place, drive, n)) for n in (8, 1))
    assert eight["rate"] == pytest.approx(14.1e9)
    assert one["rate"] == pytest.approx(14.1e9 / 8)
    assert one["value"] > eight["value"]


def test_published_pairs_become_changes():
    frame = frames_storage.tests_frame().set_index("name")["value"]
    assert frame["simulator: SSD joins DRAM"] == pytest.approx((1175 / 1546 - 1) * 100)
    assert frame["Mooncake, local SSD"] == pytest.approx(140)
    assert frame["GKE: 100K, 4M cached"] == 264


def test_charts_have_no_bar_on_a_log_axis_and_name_their_axes():
    load = frames_tiers.load_frame(node("h100-8"), LLAMA, 100_000, "bf16")
    drawn = (charts.pyramid(frames_tiers.pyramid_frame(node("h100-8"))), charts.ranges(load, title="Time (log scale)", base="seconds", tiered=True))
    for chart in drawn:
        spec = chart.to_dict()
        assert "log scale" in str(spec)
        assert not re.search(r"'type': 'bar'", str(spec))


def test_the_hardware_page_lists_every_spec_once():
    from kvmodel.hardware import spec_ids

    for kind in frames_hardware.COLUMNS:
        assert sorted(frames_hardware.spec_rows(kind)["id"]) == sorted(f"`{i}`" for i in spec_ids(kind))
    by_tier = [i for t in tier_ids() for i in frames_hardware.spec_rows("device", t)["id"]]
    assert len(by_tier) == len(spec_ids("device"))
