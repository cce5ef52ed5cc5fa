"""Configs of every family: what their layers keep, which keys the class fills, and what is refused by name."""

import json
from pathlib import Path

import pytest

from kvmodel import KvError, kv_bytes, read_config
from kvmodel.hf_config import FAMILIES
from kvmodel.report.build_cards import CONFIGS, index

FILES = sorted(CONFIGS.glob("*.json"))


def shape(kind: str, layers: int, heads: int, kv: int | None = None, width: int | None = None, **more: object) -> dict[str, object]:
    named = {"num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv, "head_dim": width}
    return {"model_type": kind} | {k: v for k, v in named.items() if v is not None} | more


def stored(name: str) -> dict[str, object]:
    return json.loads((CONFIGS / name).read_text())


LATENT = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128}
K3_FULL = [*range(4, 93, 4), 93]
NAS_BLOCK = {"attention": {"n_heads_in_group": 16, "no_op": False, "replace_with_linear": False}, "ffn": {}}
NAS_NONE = {"attention": {"n_heads_in_group": None, "no_op": True}}
NAS_LINEAR = {"attention": {"n_heads_in_group": None, "no_op": False, "replace_with_linear": True}}
MAMBA2 = {"mamba_d_state": 128, "mamba_d_conv": 4, "mamba_n_groups": 1, "mamba_d_head": 64}
NANO_V2 = "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-"

# name: config, attention, growing bytes per token in bf16, windows, bytes of state
OTHERS = {
    "llama-3.2-3b": (shape("llama", 28, 24, 8, 128), "gqa", 114_688, (), 0),
    "llama-1-13b": (shape("llama", 40, 40, hidden_size=5120), "mha", 819_200, (), 0),
    "llama-4-maverick": (
        {"model_type": "llama4", "text_config": shape("llama4_text", 48, 40, 8, 128, attention_chunk_size=8192, no_rope_layers=[])},
        "gqa+chunked",
        49_152,
        ((8192, 147_456),),
        0,
    ),
    "llama-4 without chunks": (shape("llama4_text", 48, 40, 8, 128, attention_chunk_size=None), "gqa", 196_608, (), 0),
    "mixtral-8x22b": (shape("mixtral", 56, 48, 8, hidden_size=6144), "gqa", 229_376, (), 0),
    "mistral-small-3.1": ({"model_type": "mistral3", "text_config": shape("mistral", 40, 32, 8, 128, sliding_window=None)}, "gqa", 163_840, (), 0),
    "pixtral": ({"model_type": "llava", "text_config": shape("mistral", 40, 32, 8, 128, sliding_window=None)}, "gqa", 163_840, (), 0),
    "ministral-8b-2410": (shape("mistral", 36, 32, 8, 128, sliding_window=32768, max_position_embeddings=32768), "gqa", 147_456, (), 0),
    "ministral layer types": (
        shape("ministral", 4, 32, 8, 128, sliding_window=1024, layer_types=["sliding_attention"] * 3 + ["full_attention"]),
        "gqa+window",
        4096,
        ((1024, 12_288),),
        0,
    ),
    "qwen2-7b": (shape("qwen2", 28, 28, 4, hidden_size=3584, use_sliding_window=False, sliding_window=4096, max_window_layers=28), "gqa", 57_344, (), 0),
    "qwen2 sliding": (
        shape("qwen2", 28, 28, 4, hidden_size=3584, use_sliding_window=True, sliding_window=4096, max_window_layers=21),
        "gqa+window",
        21 * 2048,
        ((4096, 7 * 2048),),
        0,
    ),
    "qwen2 wide window": (
        shape("qwen2", 28, 28, 4, 128, use_sliding_window=True, sliding_window=131072, max_window_layers=0, max_position_embeddings=32768),
        "gqa",
        57_344,
        (),
        0,
    ),
    "qwen2 list without switch": (shape("qwen2", 2, 28, 4, 128, layer_types=["sliding_attention", "full_attention"]), "gqa", 4096, (), 0),
    "qwen2.5-vl-7b, flat": (shape("qwen2_5_vl", 28, 28, 4, hidden_size=3584, vision_config={"depth": 32}), "gqa", 57_344, (), 0),
    "qwen3-30b-a3b": (shape("qwen3_moe", 48, 32, 4, 128), "gqa", 98_304, (), 0),
    "qwen3.5-122b-a10b": (
        {"model_type": "qwen3_5_moe", "text_config": shape("qwen3_5_moe_text", 48, 32, 2, 256, linear_num_value_heads=64, mamba_ssm_dtype="float32")},
        "gqa+gdn",
        24_576,
        (),
        36 * (4_194_304 + 73_728),
    ),
    "deepseek-v2-lite": (shape("deepseek_v2", 27, 16, 16, q_lora_rank=None, **LATENT), "mla", 31_104, (), 0),
    "deepseek-v3.2-exp": (shape("deepseek_v32", 61, 128, 128, index_head_dim=128, index_n_heads=64, index_topk=2048, **LATENT), "mla+dsa", 78_324, (), 0),
    "deepseek-v4-flash": (
        shape("deepseek_v4", 43, 64, 1, 512, compress_ratios=[0, 0, *[4, 128] * 20, 4, 0], sliding_window=128),
        "window+csa+hca",
        21 * 1156 / 4 + 20 * 8,
        ((128, 43 * 1024),),
        0,
    ),
    "deepseek-v4, new keys": (
        shape(
            "deepseek_v4",
            3,
            64,
            1,
            512,
            compress_rates={"compressed_sparse_attention": 4, "heavily_compressed_attention": 128},
            layer_types=["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"],
        ),
        "window+csa+hca",
        297,
        ((128, 3072),),
        0,
    ),
    "kimi-k3": (
        {
            "model_type": "kimi_k3",
            "text_config": shape(
                "kimi_linear",
                93,
                96,
                96,
                **LATENT,
                linear_attn_config={
                    "kda_layers": [n for n in range(1, 94) if n not in K3_FULL],
                    "full_attn_layers": K3_FULL,
                    "num_heads": 96,
                    "head_dim": 128,
                    "short_conv_kernel_size": 4,
                },
            ),
        },
        "mla+kda",
        27_648,
        (),
        69 * (96 * 128 * 128 * 4 + 9 * 96 * 128 * 2),
    ),
    "glm-4.5-air": (shape("glm4_moe", 46, 96, 8, 128), "gqa", 188_416, (), 0),
    "glm-4.7-flash": (shape("glm4_moe_lite", 47, 20, 20, kv_lora_rank=512, qk_rope_head_dim=64), "mla", 54_144, (), 0),
    "glm-5 by frequency": (
        shape("glm_moe_dsa", 78, 64, 64, **LATENT, index_head_dim=128, index_topk_freq=4, index_skip_topk_offset=3),
        "mla+dsa",
        78 * 1152 + 21 * 132,
        (),
        0,
    ),
    "glm-5 by pattern": (shape("glm_moe_dsa", 4, 64, 64, **LATENT, index_topk_pattern="FSSF"), "mla+dsa", 4 * 1152 + 2 * 132, (), 0),
    "minimax-text-01": (
        shape("minimax_text_01", 80, 64, 8, 128, attn_type_list=[0, 0, 0, 0, 0, 0, 0, 1] * 10),
        "gqa+lightning",
        40_960,
        (),
        70 * 64 * 128 * 128 * 4,
    ),
    "minimax, new class": (
        shape("minimax", 4, 64, 8, 128, layer_types=["linear_attention", "full_attention"] * 2),
        "gqa+lightning",
        8192,
        (),
        2 * 64 * 128 * 128 * 4,
    ),
    "minimax-m2.7": (shape("minimax_m2", 62, 48, 8, 128), "gqa", 253_952, (), 0),
    "command-r7b": (shape("cohere2", 32, 32, 8, hidden_size=4096, sliding_window=4096), "gqa+window", 32_768, ((4096, 98_304),), 0),
    "gemma-3-12b": (
        {"model_type": "gemma3", "text_config": shape("gemma3_text", 48, 16, 8, 256, sliding_window=1024)},
        "gqa+window",
        65_536,
        ((1024, 327_680),),
        0,
    ),
    "gemma-3n-e2b": (
        {"model_type": "gemma3n", "text_config": shape("gemma3n_text", 30, 8, 2, 256, num_kv_shared_layers=10)},
        "gqa+window+shared",
        8192,
        ((512, 32_768),),
        0,
    ),
    "gemma-4-31b": (
        {
            "model_type": "gemma4",
            "text_config": shape(
                "gemma4_text",
                60,
                32,
                16,
                256,
                global_head_dim=512,
                attention_k_eq_v=True,
                sliding_window=1024,
                num_global_key_value_heads=4,
                num_kv_shared_layers=0,
            ),
        },
        "gqa+window",
        81_920,
        ((1024, 819_200),),
        0,
    ),
    "gemma-4, saved by 5.24": (
        {
            "model_type": "gemma4",
            "text_config": shape(
                "gemma4_text",
                60,
                32,
                16,
                256,
                sliding_window=1024,
                per_layer_config={f"{i:02}": {"head_dim": 512, "num_key_value_heads": 4} for i in range(5, 60, 6)},
            ),
        },
        "gqa+window",
        81_920,
        ((1024, 819_200),),
        0,
    ),
    "gpt-oss-20b": (shape("gpt_oss", 24, 64, 8, 64, sliding_window=128), "gqa+window", 24_576, ((128, 24_576),), 0),
    "phi-3-mini-4k": (shape("phi3", 32, 32, 32, hidden_size=3072, sliding_window=2047, max_position_embeddings=4096), "window", 0, ((2047, 393_216),), 0),
    "phi-3.5-moe": (shape("phimoe", 32, 32, 8, hidden_size=4096, sliding_window=131072, max_position_embeddings=131072), "gqa", 131_072, (), 0),
    "phi-4": (shape("phi3", 40, 40, 10, hidden_size=5120, sliding_window=None), "gqa", 204_800, (), 0),
    "falcon-180b": (shape("falcon", 80, 232, hidden_size=14848, num_kv_heads=8, new_decoder_architecture=True, multi_query=True), "gqa", 163_840, (), 0),
    "falcon-40b, first upload": ({"model_type": "RefinedWeb", "n_layer": 60, "n_head": 128, "n_head_kv": 8, "hidden_size": 8192}, "gqa", 122_880, (), 0),
    "falcon-7b, first upload": ({"model_type": "RefinedWebModel", "n_layer": 32, "n_head": 71, "hidden_size": 4544, "multi_query": True}, "mqa", 8192, (), 0),
    "falcon-rw-1b": (shape("falcon", 24, 32, hidden_size=2048, multi_query=False, alibi=True), "mha", 196_608, (), 0),
    "bloom-7b1": ({"model_type": "bloom", "n_layer": 30, "n_head": 32, "n_embed": 4096}, "mha", 491_520, (), 0),
    "opt-6.7b": (shape("opt", 32, 32, hidden_size=4096), "mha", 524_288, (), 0),
    "opt, old names": ({"model_type": "opt", "decoder_layers": 32, "decoder_attention_heads": 32, "d_model": 4096}, "mha", 524_288, (), 0),
    "gpt-neox by architecture": (
        {"architectures": ["GPTNeoXForCausalLM"], "num_hidden_layers": 44, "num_attention_heads": 64, "hidden_size": 6144},
        "mha",
        1_081_344,
        (),
        0,
    ),
    "gpt2": ({"model_type": "gpt2", "n_layer": 12, "n_head": 12, "n_embd": 768}, "mha", 36_864, (), 0),
    "starcoder": ({"model_type": "gpt_bigcode", "n_layer": 40, "n_head": 48, "n_embd": 6144}, "mqa", 20_480, (), 0),
    "starcoder2-15b": (shape("starcoder2", 40, 48, 4, hidden_size=6144, sliding_window=4096, max_position_embeddings=16384), "window", 0, ((4096, 81_920),), 0),
    "jamba-1.5-large": (shape("jamba", 72, 64, 8, hidden_size=8192), "gqa+mamba1", 36_864, (), 63 * 16384 * (3 * 2 + 16 * 4)),
    "granite-4.0-h-small": (
        shape("granitemoehybrid", 4, 32, 8, hidden_size=4096, mamba_n_heads=128, **MAMBA2, layer_types=["mamba"] * 3 + ["attention"]),
        "gqa+mamba2",
        4096,
        (),
        3 * (128 * 64 * 128 * 4 + 3 * (8192 + 256) * 2),
    ),
    "bamba-9b": (
        shape("bamba", 32, 32, 8, hidden_size=4096, attn_layer_indices=[9, 18, 27], mamba_n_heads=128, **MAMBA2),
        "gqa+mamba2",
        12_288,
        (),
        29 * (128 * 64 * 128 * 4 + 3 * (8192 + 256) * 2),
    ),
    "nemotron-h-56b like": (
        shape("nemotron_h", 5, 64, 8, hybrid_override_pattern="M-M*E", attention_head_dim=128, mamba_num_heads=256, ssm_state_size=256),
        "gqa+mamba2",
        4096,
        (),
        2 * (256 * 64 * 256 * 4 + 3 * (256 * 64 + 2 * 8 * 256) * 2),
    ),
    "nemotron-nano-9b-v2": (
        shape("nemotron_h", 56, 40, 8, 128, hybrid_override_pattern=NANO_V2, mamba_num_heads=128, mamba_head_dim=80, ssm_state_size=128),
        "gqa+mamba2",
        16_384,
        (),
        27 * (128 * 80 * 128 * 4 + 3 * (128 * 80 + 2 * 8 * 128) * 2),
    ),
    "nemotron-h, 16-bit state": (
        shape("nemotron_h", 2, 64, 8, hybrid_override_pattern="M*", mamba_ssm_cache_dtype="bfloat16"),
        "gqa+mamba2",
        4096,
        (),
        128 * 64 * 128 * 2 + 3 * (8192 + 2048) * 2,
    ),
    "nemotron ultra like": (shape("nemotron-nas", 4, 128, hidden_size=16384, block_configs=[NAS_BLOCK, NAS_NONE, NAS_LINEAR, NAS_BLOCK]), "gqa", 8192, (), 0),
    "decilm-7b": (
        {
            "architectures": ["DeciLMForCausalLM"],
            "model_type": "deci",
            "num_hidden_layers": 3,
            "num_attention_heads": 32,
            "hidden_size": 4096,
            "num_key_value_heads_per_layer": [4, 2, 1],
        },
        "gqa+mqa",
        3584,
        (),
        0,
    ),
    "falcon-h1-34b": (
        shape("falcon_h1", 72, 20, 4, 128, mamba_n_heads=32, mamba_d_head=128, mamba_d_state=256, mamba_n_groups=2, mamba_d_ssm=4096),
        "gqa+mamba2",
        147_456,
        (),
        72 * (32 * 128 * 256 * 4 + 3 * (4096 + 1024) * 2),
    ),
    "olmo-3-7b": (
        shape("olmo3", 32, 32, 32, hidden_size=4096, sliding_window=4096, max_position_embeddings=65536),
        "mha+window",
        131_072,
        ((4096, 393_216),),
        0,
    ),
    "hunyuan-7b": (shape("hunyuan", 32, 32, 8, attention_head_dim=128, use_cla=False, cla_share_factor=2), "gqa", 131_072, (), 0),
    "mimo-v2 by list": (
        shape("mimo_v2_flash", 3, 64, 4, 192, v_head_dim=128, sliding_window_size=128, hybrid_layer_pattern=[0, 1, 1]),
        "gqa+window",
        2560,
        ((128, 10_240),),
        0,
    ),
    "step-3": ({"model_type": "step3_vl", "text_config": shape("step3_text", 61, 64, width=256, num_attention_groups=1)}, "mfa", 62_464, (), 0),
    "step-3.7-flash": (
        shape(
            "step3p7",
            4,
            64,
            width=128,
            num_attention_groups=8,
            num_nextn_predict_layers=1,
            sliding_window=512,
            layer_types=["full_attention", "sliding_attention", "sliding_attention", "sliding_attention", "full_attention"],
        ),
        "gqa+window",
        4096,
        ((512, 12_288),),
        0,
    ),
    "zamba2-7b": (
        shape("zamba2", 4, 32, 32, hidden_size=3584, n_mamba_heads=112, mamba_ngroups=2, layers_block_type=["mamba", "mamba", "hybrid", "mamba"]),
        "mha+mamba2",
        2 * 32 * 224 * 2,
        (),
        4 * (112 * 64 * 64 * 4 + 3 * (7168 + 256) * 2),
    ),
    "zamba-7b-v1": (shape("zamba", 76, 16, 16, hidden_size=3712), "mha+mamba1", 13 * 2 * 16 * 464 * 2, (), 76 * 7424 * (3 * 2 + 16 * 4)),
    "rwkv-4-7b": ({"model_type": "rwkv", "num_hidden_layers": 32, "hidden_size": 4096}, "rwkv", 0, (), 32 * 5 * 4096 * 4),
    "rwkv-6-7b": (
        {"model_type": "rwkv6", "num_hidden_layers": 32, "hidden_size": 4096, "attention_hidden_size": 4096, "head_size": 64},
        "rwkv",
        0,
        (),
        32 * 66 * 4096 * 4,
    ),
    "falcon-mamba-7b": (
        {"model_type": "falcon_mamba", "num_hidden_layers": 64, "hidden_size": 4096, "state_size": 16, "expand": 2, "conv_kernel": 4},
        "mamba1",
        0,
        (),
        64 * 8192 * 70,
    ),
    "falcon-mamba-7b, as published": (
        {
            "model_type": "falcon_mamba",
            "num_hidden_layers": 64,
            "hidden_size": 4096,
            "intermediate_size": 8192,
            "state_size": 16,
            "expand": 16,
            "conv_kernel": 4,
        },
        "mamba1",
        0,
        (),
        64 * 8192 * 70,
    ),
    "glm-4-9b, first upload": (
        {"model_type": "chatglm", "num_layers": 40, "hidden_size": 4096, "num_attention_heads": 32, "multi_query_attention": True}
        | {"multi_query_group_num": 2, "kv_channels": 128, "seq_length": 131072},
        "gqa",
        40_960,
        (),
        0,
    ),
    "phi-4-multimodal": (
        shape("phi4mm", 32, 24, 8, hidden_size=3072, sliding_window=262144, max_position_embeddings=131072),
        "gqa",
        131_072,
        (),
        0,
    ),
    "hunyuan-0.5b": (shape("hunyuan_v1_dense", 24, 16, 8, hidden_size=1024, attention_head_dim=128), "gqa", 98_304, (), 0),
    "hunyuan-a13b": (shape("hunyuan_v1_moe", 32, 32, 8, hidden_size=4096, attention_head_dim=128, use_cla=False, cla_share_factor=2), "gqa", 131_072, (), 0),
    "ernie-4.5-vl-28b-a3b": (shape("ernie4_5_moe_vl", 28, 20, 4, hidden_size=2560), "gqa", 57_344, (), 0),
    "gemma-3, saved by 4.5x": (shape("gemma3_text", 18, 4, 1, 256, sliding_window=512, _sliding_window_pattern=3), "mqa+window", 6144, ((512, 12_288),), 0),
    "mixtral with null KV heads": (shape("mixtral", 32, 32, hidden_size=4096, num_key_value_heads=None), "mha", 524_288, (), 0),
    "deepseek-v3.2 under the name of v3": (
        shape("deepseek_v3", 61, 128, **LATENT, index_head_dim=128, index_n_heads=64, index_topk=2048),
        "mla+dsa",
        78_324,
        (),
        0,
    ),
    "minimax-m3 without sparse attention": (
        shape("minimax_m3", 2, 64, 4, 128, sparse_attention_config={"use_sparse_attention": False, "sparse_attention_freq": [0, 1]}),
        "gqa",
        4096,
        (),
        0,
    ),
    "no known maximum": (shape("llama", 2, 32, 8, 128, model_max_length=int(1e30)), "gqa", 8192, (), 0),
    "rwkv-7": ({"model_type": "rwkv7", "num_hidden_layers": 24, "hidden_size": 2048, "head_dim": 64, "attn": None}, "rwkv", 0, (), 24 * 66 * 2048 * 4),
    "mamba-2.8b": ({"model_type": "mamba", "num_hidden_layers": 64, "hidden_size": 2560}, "mamba1", 0, (), 64 * 5120 * 70),
    "ernie-4.5-0.3b": (shape("ernie4_5", 18, 16, 2, 128), "gqa", 18_432, (), 0),
    "yi-vl, nested twice": ({"model_type": "outer", "thinker_config": {"text_config": shape("qwen3_moe", 48, 32, 4, 128)}}, "gqa", 98_304, (), 0),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_config_of_a_known_family(name):
    config, attention, growing, windows, state = OTHERS[name]
    card = read_config(config, name)
    terms = card.terms()
    assert (card.attention, terms.growing_bytes_per_token, terms.windowed, terms.state_bytes) == (attention, growing, windows, state)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_every_stored_config_reads_alike_from_file_folder_and_dict(path, tmp_path):
    (tmp_path / "config.json").write_bytes(path.read_bytes())
    cards = [read_config(source, "same") for source in (path, tmp_path, str(tmp_path / "config.json"), json.loads(path.read_text()))]
    assert cards.count(cards[0]) == 4
    assert len(cards[0].layers) == sum(g.count for g in cards[0].groups)


def test_index_names_every_file_once():
    assert sorted(row["file"] for row in index()) == [p.name for p in FILES]


@pytest.mark.parametrize(
    ("config", "assumed"),
    [
        (stored("Qwen__Qwen3-8B.json"), ()),
        (stored("deepseek-ai__DeepSeek-V3.json"), ()),
        (shape("llama", 32, 32, hidden_size=4096, tie_word_embeddings=False), ("num_key_value_heads", "head_dim")),
        (shape("qwen3", 36, 32, 8, use_sliding_window=False, tie_word_embeddings=True), ("head_dim",)),
        (shape("mistral", 32, 32, 8, 128, tie_word_embeddings=False), ("sliding_window",)),
        (shape("gemma2", 26, 8, 4, 256, sliding_window=4096), ("layer_types", "tie_word_embeddings")),
        (
            shape("falcon_h1", 32, 10, 2, 128, mamba_n_heads=32, mamba_d_head=128, mamba_d_state=256, mamba_d_conv=4, tie_word_embeddings=False),
            ("mamba_n_groups",),
        ),
        (
            shape(
                "qwen3_next",
                48,
                16,
                2,
                256,
                tie_word_embeddings=False,
                linear_conv_kernel_dim=4,
                linear_num_key_heads=16,
                linear_num_value_heads=32,
                linear_key_head_dim=128,
                linear_value_head_dim=128,
            ),
            ("full_attention_interval",),
        ),
        (shape("mistral4", 36, 32, kv_lora_rank=256, qk_rope_head_dim=64, tie_word_embeddings=False), ("qk_nope_head_dim", "v_head_dim")),
    ],
)
def test_keys_that_the_class_fills_are_listed(config, assumed):
    assert read_config(config).assumed == assumed


def test_gemma_3_4b_as_published_leaves_its_heads_to_the_class():
    text = {"model_type": "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 34, "sliding_window": 1024}
    published, ours = read_config({"model_type": "gemma3", "text_config": text}), read_config(stored("google__gemma-3-4b-it.json"))
    assert (published.groups, published.order) == (ours.groups, ours.order)
    assert {"num_attention_heads", "num_key_value_heads", "head_dim", "sliding_window_pattern"} <= set(published.assumed)


@pytest.mark.parametrize(
    ("name", "mtp_bytes"),
    [
        ("deepseek-ai__DeepSeek-V3.json", 1152),
        ("zai-org__GLM-5.2.json", 1152 + 132),
        ("Qwen__Qwen3.5-27B.json", 4096),
        ("zai-org__GLM-4.5.json", 4096),
        ("MiniMaxAI__MiniMax-M2.json", 3 * 4096),
        ("nvidia__NVIDIA-Nemotron-3-Super-120B-A12B-FP8.json", 1024),
        ("XiaomiMiMo__MiMo-7B-Base.json", 4096),
        ("moonshotai__Kimi-K2-Instruct.json", 0),
        ("deepseek-ai__DeepSeek-V4-Pro.json", 1024),
    ],
)
def test_draft_layers_count_only_on_request(name, mtp_bytes):
    card = read_config(CONFIGS / name)
    assert kv_bytes(card, 1, mtp=True) - kv_bytes(card, 1) == mtp_bytes


def test_glm_5_2_with_draft_is_the_published_number():
    assert kv_bytes(read_config(CONFIGS / "zai-org__GLM-5.2.json"), 1, kv_dtype="fp8_ds_mla", mtp=True) == 656 * 79 + 132 * 22


@pytest.mark.parametrize(
    ("name", "work"),
    [
        ("meta-llama__Meta-Llama-3.1-8B.json", (32, 128, 128, 0, 0)),
        ("deepseek-ai__DeepSeek-V3.2.json", (128, 192, 128, 64, 2048)),
        ("XiaomiMiMo__MiMo-V2-Flash.json", (64, 192, 128, 0, 0)),
        ("MiniMaxAI__MiniMax-M3.json", (64, 128, 128, 4, 2048)),
        ("mistralai__Mistral-Large-3-675B-Instruct-2512.json", (0, 0, 0, 0, 0)),  # lacks the widths, and no class to fill them
    ],
)
def test_work_of_the_last_layer(name, work):
    card = read_config(CONFIGS / name)
    w = card.groups["abcdefgh".index(card.layers[-1])].work
    assert (w.query_heads, w.qk_width, w.v_width, w.index_heads, w.topk) == work


def test_shared_layers_keep_their_work_and_window():
    kinds = {(g.kind, g.work.window, g.work.query_heads) for g in read_config(CONFIGS / "google__gemma-3n-E4B-it.json").groups}
    assert {("shared", 512, 8), ("shared", 0, 8)} <= kinds


def test_native_context_is_what_the_config_states():
    contexts = {
        name: read_config(CONFIGS / name).native_context_tokens
        for name in ("MiniMaxAI__MiniMax-M1-40k.json", "CohereForAI__c4ai-command-r-plus.json", "bigscience__bloom.json")
    }
    assert contexts == {"MiniMaxAI__MiniMax-M1-40k.json": 10_240_000, "CohereForAI__c4ai-command-r-plus.json": 131_072, "bigscience__bloom.json": None}


LLAMA = shape("llama", 32, 32, 8, 128)
REFUSED = [
    ({}, "model_type"),
    ({"model_type": "quantum"}, "model_type"),
    ({"model_type": 7}, "model_type"),
    ({"architectures": "LlamaForCausalLM"}, "architectures"),
    (shape("llama", 2, 32, 8, 128, layer_types=["full_attention", "sliding_attention"], sliding_window=128), "layer_types"),
    (shape("mistral", 2, 32, 8, 128, layer_types=["full_attention"] * 2, sliding_window=128), "layer_types"),
    (shape("llama", 2, 32, 8, 128, layer_types=["full_attention", "of_another_kind"]), "layer_types"),
    (shape("deepseek_v2", 2, 16, kv_lora_rank=None, qk_rope_head_dim=64), "kv_lora_rank"),
    (shape("deepseek_v3", 2, 16, **LATENT, index_topk=2048), "index_n_heads"),
    ({"model_type": "mistral3", "text_config": {"model_type": "not_of_this_world", "num_hidden_layers": 2}}, "model_type"),
    ({"model_type": "qwen2_5_vl", "text_config": {"model_type": "not_of_this_world", "num_hidden_layers": 2}}, "model_type"),
    ({"model_type": "rwkv7", "hidden_size": 128, "num_hidden_layers": 2, "attn": {"layers": [1], "num_heads": 2}}, "attn"),
    ({"model_type": "rwkv7", "hidden_size": 128, "num_hidden_layers": 2, "value_dim": [128, 256]}, "value_dim"),
    ({"model_type": "t5", "is_encoder_decoder": True}, "is_encoder_decoder"),
    ({"model_type": "mllama", "text_config": {"model_type": "mllama_text_model"}}, "model_type"),
    (LLAMA | {"num_hidden_layers": "32"}, "num_hidden_layers"),
    (LLAMA | {"num_hidden_layers": True}, "num_hidden_layers"),
    (LLAMA | {"num_hidden_layers": 0}, "num_hidden_layers"),
    (LLAMA | {"num_hidden_layers": 10**6}, "num_hidden_layers"),
    (LLAMA | {"num_hidden_layers": 10**5000}, "num_hidden_layers"),
    (LLAMA | {"n_layer": 31}, "num_hidden_layers"),
    (LLAMA | {"head_dim": 128.0}, "head_dim"),
    (LLAMA | {"head_dim": -1}, "head_dim"),
    (LLAMA | {"head_dim": float("nan")}, "head_dim"),
    (LLAMA | {"num_key_value_heads": 5}, "num_key_value_heads"),
    (LLAMA | {"num_key_value_heads": 64}, "num_key_value_heads"),
    (LLAMA | {"num_key_value_heads": [8] * 32}, "num_key_value_heads"),
    (LLAMA | {"vocab_size": "big"}, "vocab_size"),
    (LLAMA | {"tie_word_embeddings": 1}, "tie_word_embeddings"),
    (LLAMA | {"max_position_embeddings": -5}, "max_position_embeddings"),
    (LLAMA | {"per_layer_config": {"0": {"head_dim": 64}}}, "per_layer_config"),
    (shape("llama", 32, 33, hidden_size=4096), "hidden_size"),
    (shape("gpt_oss", 4, 64, 8, 64, layer_types=["full_attention"] * 3), "layer_types"),
    (shape("gpt_oss", 1, 64, 8, 64, layer_types=["mamba2"]), "layer_types"),
    (shape("gpt_oss", 1, 64, 8, 64, layer_types="full_attention"), "layer_types"),
    (shape("gpt_oss", 2, 64, 8, 64, sliding_window="wide"), "sliding_window"),
    (shape("qwen2", 2, 4, 4, 64, use_sliding_window="yes"), "use_sliding_window"),
    (shape("gemma3_text", 6, 4, 4, 64, sliding_window_pattern=0), "sliding_window_pattern"),
    (shape("gemma3n_text", 4, 4, 4, 64, num_kv_shared_layers=4), "num_kv_shared_layers"),
    (shape("minimax_m1", 4, 4, 4, 64), "attn_type_list"),
    (shape("minimax_m1", 4, 4, 4, 64, attn_type_list=[0, 1]), "attn_type_list"),
    (shape("minimax_m1", 2, 4, 4, 64, attn_type_list=[0, 2]), "attn_type_list"),
    ({"model_type": "minimax_m1", "num_attention_heads": 4}, "num_hidden_layers"),
    (shape("nemotron_h", 4, 4, 4), "hybrid_override_pattern"),
    (shape("nemotron_h", 4, 4, 4, hybrid_override_pattern="MM*"), "hybrid_override_pattern"),
    (shape("nemotron_h", 3, 4, 4, hybrid_override_pattern="MX*"), "hybrid_override_pattern"),
    (shape("nemotron_h", 2, 4, 4, hybrid_override_pattern="M*", mamba_ssm_cache_dtype="int3"), "mamba_ssm_cache_dtype"),
    (shape("nemotron-nas", 2, 32, hidden_size=4096), "block_configs"),
    (shape("nemotron-nas", 2, 32, hidden_size=4096, block_configs=[NAS_BLOCK]), "block_configs"),
    (shape("nemotron-nas", 1, 32, hidden_size=4096, block_configs=["x"]), "block_configs"),
    (shape("nemotron-nas", 1, 32, hidden_size=4096, block_configs=[{"attention": {"n_heads_in_group": 5}}]), "n_heads_in_group"),
    (shape("nemotron-nas", 1, 32, hidden_size=4096, block_configs=[{"attention": {}}]), "n_heads_in_group"),
    (shape("deepseek_v4", 3, 4, 1, 512, compress_ratios=[4, 128]), "compress_ratios"),
    (shape("deepseek_v4", 2, 4, 1, 512, compress_ratios=[4, 64]), "compress_ratios"),
    (shape("deepseek_v2", 2, 16, 16, use_mla=False), "use_mla"),
    (shape("glm_moe_dsa", 4, 64, 64, index_topk_pattern="FSX"), "index_topk_pattern"),
    (shape("glm_moe_dsa", 4, 64, 64, indexer_types=["full"] * 3), "indexer_types"),
    (shape("mistral_large3", 4, 64, 64), "kv_lora_rank"),
    ({"architectures": ["MistralLarge3ForCausalLM"], "num_hidden_layers": 4, "num_attention_heads": 64, "qk_rope_head_dim": 64}, "kv_lora_rank"),
    (shape("kimi_linear", 3, 4, 4, linear_attn_config={"kda_layers": [1, 2], "full_attn_layers": [2]}), "linear_attn_config"),
    (shape("kimi_linear", 3, 4, 4, linear_attn_config={"kda_layers": [1, 2, 9], "full_attn_layers": []}), "kda_layers"),
    (shape("kimi_linear", 3, 4, 4, linear_attn_config=[1]), "linear_attn_config"),
    (shape("mimo_v2_flash", 3, 64, 4, 192, hybrid_layer_pattern=[0, 1]), "hybrid_layer_pattern"),
    (shape("zamba2", 9, 32, 32, hidden_size=2560), "layers_block_type"),
    (shape("bamba", 4, 32, 8, hidden_size=4096, attn_layer_indices=[7]), "attn_layer_indices"),
    (shape("granitemoehybrid", 4, 32, 8, hidden_size=4096, mamba_n_heads=96), "mamba_n_heads"),
    (shape("hunyuan", 4, 32, 8, 128, use_cla=True, cla_share_factor=0), "cla_share_factor"),
    (shape("rwkv6", 2, 4, hidden_size=100, head_size=64), "head_size"),
    ({"model_type": "gemma3", "text_config": "none"}, "text_config"),
]


@pytest.mark.parametrize(("config", "field"), REFUSED, ids=[f"{i}-{field}" for i, (_, field) in enumerate(REFUSED)])
def test_refused_in_one_line_that_names_the_key(config, field):
    with pytest.raises(KvError) as caught:
        read_config(config)
    assert str(caught.value).startswith(f"{field}:")
    assert "\n" not in str(caught.value)


def test_unknown_architecture_names_the_nearest():
    with pytest.raises(KvError, match="nearest: 'mixtral'"):
        read_config({"model_type": "mixtrall"})


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\x00\xff\xfe\x80", b"[]", b"null", b"3", b'"text"', b'{"num_hidden_layers": ' + b"9" * 5000 + b"}", b"[" * 100_000, b'{"a":' * 20_000],
)
def test_bad_files_are_refused(content, tmp_path):
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(KvError):
        read_config(tmp_path)


def test_missing_file_and_empty_folder_are_refused(tmp_path):
    for source in (tmp_path, tmp_path / "config.json", tmp_path / "no" / "such.json"):
        with pytest.raises(KvError, match=r"^config: "):
            read_config(source)


def test_id_is_the_folder_or_file_name(tmp_path):
    folder = tmp_path / "My-Model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA))
    (tmp_path / "other.json").write_text(json.dumps(LLAMA))
    assert [read_config(p).id for p in (folder, folder / "config.json", tmp_path / "other.json")] == ["My-Model", "My-Model", "other"]
    assert (read_config(LLAMA).id, read_config(LLAMA, "given").id) == ("config", "given")


def test_each_family_is_reached_by_its_model_type():
    assert len(FAMILIES) > 80
    refused = {}
    for family in FAMILIES:
        try:
            card = read_config({"model_type": family})
        except KvError as error:
            refused[family] = str(error).split(":")[0]
        else:
            assert card.layers
            assert card.assumed
    needs = {
        "minimax_text_01": "num_hidden_layers",
        "minimax_m1": "num_hidden_layers",
        "nemotron-nas": "num_hidden_layers",
        "nemotron_h": "hybrid_override_pattern",
    }
    assert refused == needs | {"mistral_large3": "num_attention_heads", "glm4_moe": "hidden_size", "glm4v_moe": "hidden_size", "qwen3_omni_moe": "hidden_size"}


def test_path_of_data_is_shipped_without_machine_names():
    assert not any("/work/" in p.read_text() or "/root/" in p.read_text() for p in [*FILES, Path(CONFIGS / "INDEX.csv")])


def test_a_byte_order_mark_and_windows_line_ends_are_read(tmp_path):
    text = json.dumps(shape("llama", 2, 32, 8, 128), indent=1).replace("\n", "\r\n")
    (tmp_path / "config.json").write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert read_config(tmp_path).terms().growing_bytes_per_token == 8192
