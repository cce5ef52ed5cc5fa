import pytest

from kvmodel.attention import Vectors, entry_bytes
from kvmodel.dtypes import FORMATS, NAMES, KvFormat, index_key_bytes, parse_kv_dtype, weight_bytes
from kvmodel.units import KvError

GQA = (Vectors("key", 128, 8), Vectors("value", 128, 8))
MLA = (Vectors("latent", 512), Vectors("rope", 64))

# One vector of 128 elements, by hand from the layout of each format.
VECTOR_128 = {
    "fp32": 512, "bf16": 256, "fp16": 256, "fp8": 128, "int8": 128, "fp8-token-head": 132, "int8-token-head": 132, "int4-token-head": 68,
    "nvfp4": 72, "mxfp8": 132, "q8_0": 136, "q5_1": 96, "q5_0": 88, "q4_1": 80, "q4_0": 72, "iq4_nl": 72,
}  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_vector_bytes(name):
    assert FORMATS[name].vector(128) == VECTOR_128[name]


def test_mla_layouts():
    layouts = {"bf16": 1152, "fp8": 576, "fp8-token-head": 584, "fp8_ds_mla": 656, "q8_0": 612, "nvfp4": 324}
    assert {n: entry_bytes(MLA, parse_kv_dtype(n)) for n in layouts} == layouts
    assert entry_bytes((Vectors("shared", 512, rope=64),), parse_kv_dtype("fp8_ds_mla")) == 584
    assert entry_bytes((Vectors("index", 128),), parse_kv_dtype("bf16")) == 132
    assert entry_bytes((Vectors("msa-index", 128),), parse_kv_dtype("fp8")) == 256


def test_pairs():
    assert entry_bytes(GQA, parse_kv_dtype("q8_0:q4_0")) == 8 * (136 + 72)
    assert entry_bytes(MLA, parse_kv_dtype("q8_0:q4_0")) == 612  # a latent is stored as a key
    assert parse_kv_dtype("bf16:bf16").name == "bf16"


@pytest.mark.parametrize("text", ["fp7", "", "bf16:", ":bf16", "bf16:fp7", "a:b:c", "fp8_ds_mla:fp8", "BF16", None, 3])
def test_unknown_format_is_refused_with_the_nearest(text):
    with pytest.raises(KvError, match=r"kv_dtype: .*accepted: .*nearest: "):
        parse_kv_dtype(text)


def test_geometry_that_a_format_cannot_hold():
    for width, name in ((80, "q8_0"), (63, "int4-token-head"), (100, "nvfp4"), (48, "mxfp8")):
        with pytest.raises(KvError, match=f"'{name}' is not accepted"):
            entry_bytes((Vectors("key", width, 1), Vectors("value", width, 1)), parse_kv_dtype(name))
    for entry in (GQA, (Vectors("latent", 256), Vectors("rope", 64))):
        with pytest.raises(KvError, match="fp8_ds_mla"):
            entry_bytes(entry, parse_kv_dtype("fp8_ds_mla"))


def test_indexer_and_weights():
    assert index_key_bytes(128, "fp8") == 132
    assert index_key_bytes(256, "fp8") == 264
    assert index_key_bytes(64, "bf16") == 128
    assert weight_bytes(3, "int4") == 2  # rounded up once
    for call in (lambda: index_key_bytes(128, "fp4"), lambda: weight_bytes(1, "bf15")):
        with pytest.raises(KvError):
            call()


def test_names_are_those_of_the_contract():
    contract = "fp32 bf16 fp16 fp8 int8 fp8-token-head int8-token-head int4-token-head nvfp4 mxfp8 fp8_ds_mla q8_0 q5_1 q5_0 q4_1 q4_0 iq4_nl"
    assert set(NAMES) == set(contract.split())
    assert KvFormat("bf16", "bf16").name == "bf16"
