"""Storage formats: bytes of one stored vector, scales and block overhead included."""

from dataclasses import dataclass

from kvmodel.units import KvError, bounded, nearest, refuse


@dataclass(frozen=True, slots=True)
class Format:
    """A storage format: `block_bytes` for each `block` elements, and `vector_bytes` once per vector (its scales)."""

    name: str
    block: int
    block_bytes: int
    scale_bytes: int = 0

    def vector(self, width: int) -> int:
        """Return the bytes of one vector of `width` elements: width / block * block_bytes + scale_bytes."""
        if width % self.block:
            accepted = f"a format whose block divides a vector of {width} elements ({self.name} needs multiples of {self.block})"
            raise KvError(f"kv_dtype: {self.name!r} is not accepted; accepted: {accepted}")
        return width // self.block * self.block_bytes + self.scale_bytes


# Sources: ggml-common.h (q*, iq4_nl); vLLM KVQuantMode (token-head scales, fp32);
# TensorRT-LLM and vLLM (nvfp4: one fp8 scale per 16); SGLang (mxfp8: one scale per 32).
FORMATS = {
    f.name: f
    for f in (
        Format("fp32", 1, 4), Format("bf16", 1, 2), Format("fp16", 1, 2), Format("fp8", 1, 1), Format("int8", 1, 1),
        Format("fp8-token-head", 1, 1, 4), Format("int8-token-head", 1, 1, 4), Format("int4-token-head", 2, 1, 4),
        Format("nvfp4", 16, 9), Format("mxfp8", 32, 33),
        Format("q8_0", 32, 34), Format("q5_1", 32, 24), Format("q5_0", 32, 22), Format("q4_1", 32, 20), Format("q4_0", 32, 18), Format("iq4_nl", 32, 18),
    )
}  # fmt: skip
DS_MLA = "fp8_ds_mla"  # a record, not a per-element format: see `ds_mla_record`
NAMES = (*FORMATS, DS_MLA)
INDEXER_NAMES = ("fp8", "bf16")
WEIGHT_BITS = {"fp32": 32, "bf16": 16, "fp16": 16, "fp8": 8, "int8": 8, "mxfp8": 8, "int4": 4, "fp4": 4, "nvfp4": 4, "mxfp4": 4}


@dataclass(frozen=True, slots=True)
class KvFormat:
    """The formats of keys and of values. A latent or shared vector is stored once, as a key."""

    key: str
    value: str

    @property
    def name(self) -> str:
        """The name as the command line takes it: one word, or `K:V` for a pair."""
        return self.key if self.key == self.value else f"{self.key}:{self.value}"


def parse_kv_dtype(text: "str | KvFormat") -> KvFormat:
    """Return the storage formats of K and V from `bf16`, `fp8_ds_mla` or a pair such as `q8_0:q4_0`.

    Raises `KvError` for a name that is not in `NAMES`; `fp8_ds_mla` is a whole record and takes no partner.

    Examples
    --------
    >>> parse_kv_dtype("q8_0:q4_0")
    KvFormat(key='q8_0', value='q4_0')
    """
    if isinstance(text, KvFormat):
        return text
    parts = str(text).split(":")
    if len(parts) > 2 or any(p not in NAMES for p in parts) or (len(parts) == 2 and DS_MLA in parts):
        near = [nearest(p, NAMES if len(parts) == 1 else FORMATS) or "" for p in parts[:2]]
        raise refuse("kv_dtype", text, f"one of {' '.join(NAMES)}, or K:V for a pair of all but {DS_MLA}", [":".join(near)])
    return KvFormat(parts[0], parts[-1])


def ds_mla_record(nope: int, rope: int) -> int:
    """Return the bytes of one `fp8_ds_mla` record: fp8 without rope, scales, rope in 16 bits.

    512 + 64 (DeepSeek-V3.2, GLM-5): 512 + 4 fp32 scales + 128 = 656. 448 + 64 (DeepSeek-V4): 448 + 7 one-byte scales padded to 8 + 128 = 584.
    Any other shape has no such record and is refused. Source: vLLM and FlashMLA, `FORMULAS` of the book.

    Examples
    --------
    >>> ds_mla_record(512, 64), ds_mla_record(448, 64)
    (656, 584)
    """
    scales = {(512, 64): 16, (448, 64): 8}.get((nope, rope))
    if scales is None:
        accepted = f"{DS_MLA} only for latents of 512 + 64 or 448 + 64 elements, not {nope} + {rope}"
        raise KvError(f"kv_dtype: {DS_MLA!r} is not accepted; accepted: {accepted}; nearest: 'fp8'")
    return nope + scales + 2 * rope


def index_key_bytes(width: int, dtype: str) -> int:
    """Return the bytes of one DSA or CSA indexer key: fp8 with one fp32 scale per 128 elements, or bf16.

    Examples
    --------
    >>> index_key_bytes(128, "fp8"), index_key_bytes(128, "bf16")
    (132, 256)
    """
    check_indexer(dtype)
    return 2 * width if dtype == "bf16" else width + 4 * -(-width // 128)


def check_indexer(dtype: str) -> None:
    """Refuse a format that indexer keys do not come in."""
    if dtype not in INDEXER_NAMES:
        raise refuse("indexer_dtype", dtype, f"one of {' '.join(INDEXER_NAMES)}", INDEXER_NAMES)


def weight_bytes(params: int, dtype: str) -> int:
    """Return the bytes of `params` weights at `dtype`, scales not counted, rounded up.

    Examples
    --------
    >>> weight_bytes(70_600_000_000, "bf16")
    141200000000
    """
    if dtype not in WEIGHT_BITS:
        raise refuse("weights_dtype", dtype, f"one of {' '.join(WEIGHT_BITS)}", WEIGHT_BITS)
    size = -(-params * WEIGHT_BITS[dtype] // 8)
    bounded("params", size)
    return size
