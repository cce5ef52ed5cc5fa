"""Hardware specs: each against its JSON schema and its sources; a broken spec is refused with file and key; the six nodes of the contract."""

import json
import tomllib

import jsonschema
import pytest

from kvmodel.hardware import accelerator, device, devices, link, node, node_ids, spec, spec_ids
from kvmodel.report.record import load_sources
from kvmodel.specfile import FACTORS, KINDS, SPECS, read_spec
from kvmodel.units import KvError

SCHEMAS = {family: json.loads((SPECS / "schema" / f"{family}.schema.json").read_text(encoding="utf-8")) for family in ("hardware", "tiers")}
FILES = [(family, path) for family in SCHEMAS for path in sorted((SPECS / family).glob("*.toml"))]
NAMES = [f"{family}/{path.stem}" for family, path in FILES]
CONTRACT = ("h100-8", "h200-8", "b200-8", "b300-8", "gb200-nvl72", "mi355x-8")


@pytest.mark.parametrize(("family", "path"), FILES, ids=NAMES)
def test_every_spec_obeys_its_schema_and_the_loader_agrees(family, path):
    jsonschema.Draft202012Validator(SCHEMAS[family]).validate(tomllib.loads(path.read_text(encoding="utf-8")))
    assert read_spec(path, family).id == path.stem


@pytest.mark.parametrize(("family", "path"), FILES, ids=NAMES)
def test_every_source_of_a_spec_is_listed(family, path):
    spec = read_spec(path, family)
    assert set(spec.sources) <= set(load_sources())
    assert spec.sources or spec.text.get("weak")


@pytest.mark.parametrize("family", SCHEMAS)
def test_schemas_are_schemas_and_name_the_units_and_kinds_of_the_loader(family):
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[family])
    for name, rule in SCHEMAS[family]["$defs"].items():
        if name in FACTORS or name == "time":
            assert set(rule["properties"]["unit"]["enum"]) <= set(FACTORS["seconds" if name == "time" else name])
            assert tuple(rule["properties"]["kind"]["enum"]) == KINDS


GOOD = '''id = "probe"
class = "accelerator"
name = "Probe"
vendor = "none"
memory = "hbm3"
host_link = "pcie5-x16"
memory_bytes = { value = 80, unit = "GB", kind = "datasheet", source = "a-source", date = "2026" }
bandwidth_bytes_per_s = { value = 3.35, unit = "TB/s", kind = "datasheet", source = "a-source", date = "2026" }
'''  # fmt: skip
BROKEN = {
    "unknown unit": ('"GB"', '"Gb"', "memory_bytes.unit"),
    "no unit": ('unit = "GB", ', "", "memory_bytes"),
    "unknown kind": ('"datasheet"', '"rumour"', "memory_bytes.kind"),
    "missing source": ('source = "a-source", ', "", "memory_bytes"),
    "empty source": ('source = "a-source"', 'source = ""', "memory_bytes.source"),
    "empty list of sources": ('source = "a-source"', "source = []", "memory_bytes.source"),
    "missing date": (', date = "2026"', "", "memory_bytes"),
    "date in words": ('"2026"', '"last year"', "memory_bytes.date"),
    "unknown key of a value": ("value = 80,", "value = 80, guess = 1,", "memory_bytes"),
    "unknown key": ('memory = "hbm3"', 'memory = "hbm3"\ncolour = "red"', "colour"),
    "missing key": ('host_link = "pcie5-x16"\n', "", "host_link"),
    "too large": ("value = 80,", "value = 80000,", "memory_bytes.value"),
    "too small": ("value = 3.35,", "value = 0.00335,", "bandwidth_bytes_per_s.value"),
    "negative": ("value = 80,", "value = -80,", "memory_bytes.value"),
    "not a number": ("value = 80,", "value = nan,", "memory_bytes.value"),
    "infinite": ("value = 80,", "value = inf,", "memory_bytes.value"),
    "text for a number": ("value = 80,", 'value = "80",', "memory_bytes.value"),
    "true for a number": ("value = 80,", "value = true,", "memory_bytes.value"),
    "value outside its range": ("value = 80,", "value = 80, low = 90, high = 100,", "memory_bytes.value"),
    "derived without expression": ('"datasheet"', '"derived"', "memory_bytes.expression"),
    "assumed without reason": ('"datasheet"', '"assumption"', "memory_bytes.reason"),
    "number without provenance": (
        'memory_bytes = { value = 80, unit = "GB", kind = "datasheet", source = "a-source", date = "2026" }',
        "memory_bytes = 80",
        "memory_bytes",
    ),
    "id is not the file name": ('id = "probe"', 'id = "other"', "id"),
    "unknown class": ('"accelerator"', '"toaster"', "class"),
    "unknown memory": ('"hbm3"', '"core"', "memory"),
    "not TOML": ("vendor =", "vendor", "not TOML"),
}


def write(tmp_path, text):
    path = tmp_path / "probe.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_good_probe_loads_in_base_units(tmp_path):
    spec = read_spec(write(tmp_path, GOOD), "hardware")
    assert (spec.need("memory_bytes"), spec.need("bandwidth_bytes_per_s")) == (80 * 10**9, 3.35e12)


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_spec_is_refused_with_file_and_key(tmp_path, case):
    old, new, key = BROKEN[case]
    assert old in GOOD
    with pytest.raises(KvError) as error:
        read_spec(write(tmp_path, GOOD.replace(old, new, 1)), "hardware")
    message = str(error.value)
    assert "hardware/probe.toml" in message
    assert key in message
    assert "\n" not in message


def test_units_convert_exactly():
    assert FACTORS["bytes"]["GiB"] == 2**30
    assert FACTORS["bytes"]["GB"] == 10**9
    assert 400 * FACTORS["bytes_per_s"]["Gb/s"] == 50 * FACTORS["bytes_per_s"]["GB/s"]
    assert 1000 * FACTORS["seconds"]["us"] == FACTORS["seconds"]["ms"]


@pytest.mark.parametrize(
    ("node_id", "accelerators", "memory", "bandwidth"),
    [
        ("h100-8", 8, 80, 3.35),
        ("h200-8", 8, 141, 4.8),
        ("b200-8", 8, 180, 7.7),
        ("b300-8", 8, 288, 7.75),
        ("gb200-nvl72", 72, 186, 8.0),
        ("mi355x-8", 8, 288, 8.0),
    ],
)
def test_nodes_of_the_contract(node_id, accelerators, memory, bandwidth):
    n = node(node_id)
    assert (n.accelerators, n.accelerator.memory_bytes, n.accelerator.bandwidth_bytes_per_s) == (accelerators, memory * 10**9, bandwidth * 1e12)
    assert n.accelerator.bf16_flops
    assert n.accelerator.fp8_flops == pytest.approx(2 * n.accelerator.bf16_flops)
    assert n.host_memory_bytes > 0
    assert n.nics
    assert n.drives


def test_every_node_names_parts_that_exist():
    assert set(CONTRACT) <= set(node_ids())
    for n in map(node, node_ids()):
        assert n.accelerator.host_link.read_bytes_per_s > 0
        assert n.part("drive").kind == "device"
        assert {n.part(role).kind for role in ("nic", "drive_slot", "lake")} == {"link"}


def test_both_readings_of_memory_are_kept_and_the_marketed_one_is_the_smaller():
    for a in map(accelerator, spec_ids("accelerator")):
        assert a.memory_reported_bytes is None or a.memory_reported_bytes >= a.memory_bytes


def test_a_measured_rate_never_exceeds_the_nominal_one():
    for way in map(link, spec_ids("link")):
        if way.measured and way.nominal_bytes_per_s:
            assert way.read_bytes_per_s <= way.nominal_bytes_per_s
            assert way.write_bytes_per_s <= way.nominal_bytes_per_s


def test_devices_of_the_article_and_their_peers():
    named = {d.id for d in devices() if d.text.get("named")}
    assert {"micron-hbm4", "micron-hbm3e", "micron-gddr7", "micron-9650-pro", "micron-7600-pro", "micron-6600-ion-245", "micron-socamm2-256"} <= named
    vendors = {d.text["vendor"] for d in devices()}
    assert {"Micron", "Samsung", "SK hynix", "Solidigm", "Kioxia"} <= vendors
    assert device("micron-6600-ion-245").get("endurance_dwpd") is None


@pytest.mark.parametrize(
    ("call", "wrong", "near"),
    [(node, "h100", "h100-8"), (accelerator, "h100", "h100-sxm"), (link, "pcie5-x1", "pcie5-x16"), (device, "9650", "micron-9650-pro"), (node, "../x", "")],
)
def test_unknown_ids_are_refused_with_the_nearest(call, wrong, near):
    with pytest.raises(KvError) as error:
        call(wrong)
    assert near in str(error.value)
    assert wrong in str(error.value)


def test_an_id_of_another_class_is_refused():
    with pytest.raises(KvError, match="h100-sxm"):
        node("h100-sxm")
    assert spec("h100-sxm", "accelerator").name.startswith("NVIDIA H100")
