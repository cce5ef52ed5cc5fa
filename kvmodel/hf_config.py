"""Read a Hugging Face `config.json` of any known architecture into a `Card`; what is not understood is refused by name."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvmodel import hf_families as plain
from kvmodel import hf_hybrids as hybrid
from kvmodel.attention import LayerGroup
from kvmodel.cards import LETTERS, Card
from kvmodel.hf_families import Reader
from kvmodel.hf_keys import Keys, context, head_width, same_as
from kvmodel.units import KvError, refuse

TEXT_PARTS = ("text_config", "llm_config", "language_config", "thinker_config")
MOST_BYTES = 64 * 2**20
HEADS, WIDTH = same_as("num_attention_heads"), head_width


def _class(layers: int | None, heads: int | None, hidden: int | None, kv: Any = HEADS, head_dim: Any = None, **more: Any) -> dict[str, Any]:
    """Return the defaults of a configuration class; `kv` None means that the class has no KV heads of its own."""
    named = {"num_hidden_layers": layers, "num_attention_heads": heads, "hidden_size": hidden, "num_key_value_heads": kv, "head_dim": head_dim}
    return {n: v for n, v in named.items() if v is not None} | {"tie_word_embeddings": more.pop("tied", False)} | more


_LATENT = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128}
_QWEN = {"slides": "qwen", "use_sliding_window": False, "sliding_window": 4096, "max_window_layers": 28}
_QWEN_VL = _class(80, 64, 8192, 8, **_QWEN | {"max_window_layers": 80})
_DELTA = {"linear_conv_kernel_dim": 4, "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
          "full_attention_interval": 4}  # fmt: skip
_KDA = {"linear_head_dim": 128, "linear_conv_kernel_dim": 4}
_GLM_V = _class(40, 32, 4096, 2)
_FALCON = _class(32, 71, 4544, HEADS, tied=True, multi_query=True, new_decoder_architecture=False)
_MAMBA1 = {"mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2}
_MAMBA2 = {"mamba_n_heads": 128, "mamba_n_groups": 1, "mamba_d_state": 256, "mamba_d_conv": 4, "mamba_expand": 2}
_DEEPSEEK_V3 = _class(61, 128, 7168, **_LATENT, num_nextn_predict_layers=1)
_GEMMA4 = _class(30, 8, 2304, 4, 256, tied=True, sliding_window=512, period=6, global_head_dim=512, attention_k_eq_v=False, num_kv_shared_layers=0)
_MIMO_V2 = _class(48, 64, 4096, 4, 192, v_head_dim=128, sliding_window=129, swa_num_key_value_heads=lambda k: 2 * k.count("num_key_value_heads"),
                  swa_num_attention_heads=HEADS, swa_head_dim=same_as("head_dim"), swa_v_head_dim=same_as("v_head_dim"))  # fmt: skip
_STEP3 = _class(61, 64, 7168, None, 256, num_attention_groups=1)

# model_type -> reader and class defaults
FAMILIES: dict[str, tuple[Reader, dict[str, Any]]] = {
    "llama": (plain.plain, _class(32, 32, 4096, HEADS, WIDTH)),
    "mistral": (plain.plain, _class(32, 32, 4096, 8, WIDTH, slides="all", sliding_window=4096)),
    "mixtral": (plain.plain, _class(32, 32, 4096, 8, WIDTH, slides="all")),
    "ministral": (plain.plain, _class(32, 32, 4096, 8, WIDTH, slides="list-or-all", sliding_window=4096)),
    "ministral3": (plain.plain, _class(34, 32, 4096, 8, 128, slides="all")),
    "mistral4": (hybrid.mla, _class(36, 32, 4096, **_LATENT | {"kv_lora_rank": 256, "qk_nope_head_dim": 64})),
    "mistral_large3": (hybrid.mla, {"tie_word_embeddings": False}),
    "qwen2": (plain.plain, _class(32, 32, 4096, 32, **_QWEN)),
    "qwen2_moe": (plain.plain, _class(24, 16, 2048, 16, **_QWEN | {"slides": "qwen-moe"})),
    "qwen2_vl": (plain.plain, _QWEN_VL),
    "qwen2_5_vl": (plain.plain, _QWEN_VL),
    "qwen3": (plain.plain, _class(32, 32, 4096, 32, 128, **_QWEN)),
    "qwen3_moe": (plain.plain, _class(24, 32, 2048, 4, slides="switch-all", use_sliding_window=False, sliding_window=4096)),
    "qwen2_5_omni": (plain.plain, _class(28, 28, 3584, 4, tied=True, **_QWEN | {"sliding_window": 32768})),
    "qwen3_omni_moe": (plain.plain, _class(28, 28, 2048, 4)),
    "qwen3_vl": (plain.plain, _class(32, 32, 4096, 32, 128)),
    "qwen3_vl_moe": (plain.plain, _class(24, 16, 2048, 16, WIDTH, tied=True)),
    "qwen3_next": (hybrid.delta_net, _class(48, 16, 2048, 2, 256, **_DELTA)),
    "qwen3_5": (hybrid.delta_net, _class(32, 16, 4096, 4, 256, **_DELTA)),
    "qwen3_5_moe": (hybrid.delta_net, _class(40, 16, 2048, 2, 256, **_DELTA)),
    "mimo": (plain.plain, _class(32, 32, 4096, 32, **_QWEN)),
    "mimo_v2_flash": (plain.mimo_v2, _MIMO_V2),
    "gemma": (plain.plain, _class(28, 16, 3072, 16, 256, tied=True)),
    "gemma2": (plain.plain, _class(26, 8, 2304, 4, 256, tied=True, slides="list", sliding_window=4096, period=2)),
    "gemma3": (plain.plain, _class(26, 8, 2304, 4, 256, tied=True, slides="list", sliding_window=4096, sliding_window_pattern=6)),
    "gemma3n": (plain.gemma3n, _class(35, 8, 2048, 2, 256, tied=True, sliding_window=512, period=5, num_kv_shared_layers=15)),
    "gemma4": (plain.gemma4, _GEMMA4),
    "gemma4_unified": (plain.gemma4, _GEMMA4 | {"sliding_window": 1024}),
    "gpt_oss": (plain.plain, _class(36, 64, 2880, 8, 64, slides="list", sliding_window=128, period=2)),
    "llama4": (plain.llama4, _class(48, 40, 5120, 8, 128, attention_chunk_size=8192, no_rope_layer_interval=4)),
    "phi": (plain.plain, _class(24, 32, 2048)),
    "phi3": (plain.plain, _class(32, 32, 3072, slides="all")),
    "phi4_multimodal": (plain.plain, _class(32, 32, 3072, 8, slides="all")),
    "phimoe": (plain.plain, _class(32, 32, 4096, 8, slides="all")),
    "cohere": (plain.plain, _class(40, 64, 8192, tied=True)),
    "cohere2": (plain.plain, _class(40, 64, 8192, tied=True, slides="list", sliding_window=4096, sliding_window_pattern=4)),
    "olmo": (plain.plain, _class(32, 32, 4096)),
    "olmo2": (plain.plain, _class(32, 32, 4096)),
    "olmo3": (plain.plain, _class(32, 32, 4096, slides="list", sliding_window=4096, period=4)),
    "olmoe": (plain.plain, _class(16, 16, 2048)),
    "exaone4": (plain.plain, _class(32, 32, 4096, 32, slides="list", sliding_window=4096, sliding_window_pattern=4)),
    "glm": (plain.plain, _class(40, 32, 4096, 2, 128)),
    "chatglm": (plain.chatglm, _class(28, 32, 4096, None, kv_channels=128, multi_query_attention=False, multi_query_group_num=1)),
    "glm4": (plain.plain, _class(40, 32, 4096, 2, 128)),
    "glm4v": (plain.plain, _GLM_V),
    "glm4_moe": (plain.plain, _class(46, 96, 4096, 8, num_nextn_predict_layers=1)),
    "glm4v_moe": (plain.plain, _class(46, 96, 4096, 8)),
    "glm4_moe_lite": (hybrid.mla, _class(47, 20, 2048, **_LATENT | {"qk_nope_head_dim": 192, "v_head_dim": 256})),
    "glm_moe_dsa": (hybrid.dsa, _class(78, 64, 6144, **_LATENT | {"qk_nope_head_dim": 192, "v_head_dim": 256},
                                       index_n_heads=32, index_head_dim=128, index_topk=2048, index_skip_topk_offset=2)),
    "deepseek_v2": (hybrid.mla, _class(32, 32, 4096, **_LATENT)),
    "deepseek_v3": (hybrid.mla, _DEEPSEEK_V3),
    "kimi_k2": (hybrid.mla, _DEEPSEEK_V3),
    "deepseek_v32": (hybrid.dsa, _class(61, 128, 7168, **_LATENT, index_n_heads=64, index_head_dim=128, index_topk=2048)),
    "deepseek_v4": (hybrid.compressed, _class(43, 64, 4096, 1, 512, qk_rope_head_dim=64, sliding_window=128, num_nextn_predict_layers=1,
                                              index_n_heads=64, index_head_dim=128, index_topk=512)),
    "kimi_linear": (hybrid.kimi_linear, _class(27, 32, 2304, **_LATENT, **_KDA, linear_num_heads=32)),
    "minimax": (hybrid.lightning, _class(32, 32, 4096, 8, WIDTH, period=2)),
    "minimax_text_01": (hybrid.lightning, _class(None, None, None, HEADS)),
    "minimax_m1": (hybrid.lightning, _class(None, None, None, HEADS)),
    "minimax_m2": (hybrid.minimax, _class(62, 48, 3072, 8, 128)),
    "minimax_m3": (hybrid.msa, _class(60, 64, 6144, 4, 128, index_n_heads=4, index_head_dim=128, index_block_size=128, index_topk_blocks=16)),
    "ernie4_5": (plain.plain, _class(18, 16, 1024, 2, 128, tied=True)),
    "ernie4_5_moe": (plain.plain, _class(28, 20, 2560, 4, tied=True)),
    "ernie4_5_vl_moe": (plain.plain, _class(28, 20, 2560, 4, tied=True)),
    "hunyuan": (plain.hunyuan, _class(32, 32, 4096)),
    "hunyuan_v1_dense": (plain.hunyuan, _class(32, 32, 4096)),
    "hunyuan_v1_moe": (plain.hunyuan, _class(32, 32, 4096)),
    "hy_v3": (plain.plain, _class(80, 64, 4096, 8, 128)),
    "step3_text": (plain.mfa, _STEP3),
    "step3p5": (plain.step3p5, _class(45, 64, 4096, 8, 128)),
    "nemotron": (plain.plain, _class(32, 48, 6144, HEADS, WIDTH)),
    "nemotron-nas": (plain.nas, {"tie_word_embeddings": False}),
    "nemotron_h": (hybrid.nemotron_h, _class(None, 32, 4096, 8, 128, mamba_num_heads=128, mamba_head_dim=64, n_groups=8, ssm_state_size=128, conv_kernel=4)),
    "jamba": (hybrid.jamba, _class(32, 32, 4096, 8, **_MAMBA1, attn_layer_period=8, attn_layer_offset=4)),
    "granite": (plain.plain, _class(32, 32, 4096)),
    "granitemoe": (plain.plain, _class(32, 32, 4096)),
    "granitemoeshared": (plain.plain, _class(32, 32, 4096)),
    "granitemoehybrid": (hybrid.granite_hybrid, _class(32, 32, 4096, **_MAMBA2)),
    "bamba": (hybrid.granite_hybrid, _class(32, 32, 4096, 8, **_MAMBA2)),
    "falcon_h1": (hybrid.falcon_h1, _class(32, 32, 4096, 8, **_MAMBA2, mamba_d_ssm=1024)),
    "zamba": (hybrid.zamba, _class(76, 16, 3712, 16, tied=True, **_MAMBA1, attn_layer_period=6, attn_layer_offset=4)),
    "zamba2": (hybrid.zamba2, _class(54, 32, 2560, tied=True, mamba_d_state=64, mamba_d_conv=4, mamba_expand=2, mamba_ngroups=1, n_mamba_heads=8)),
    "mamba": (hybrid.mamba1_only, _class(32, None, 768, None, tied=True, state_size=16, expand=2, conv_kernel=4)),
    "falcon_mamba": (hybrid.mamba1_only, _class(32, None, 768, None, tied=True, state_size=16, expand=2, conv_kernel=4)),
    "mamba2": (hybrid.mamba2_only, _class(64, None, 4096, None, 64, num_heads=128, n_groups=8, state_size=128, conv_kernel=4)),
    "rwkv": (hybrid.rwkv, _class(32, None, 4096, None)),
    "rwkv5": (hybrid.rwkv, _class(24, None, 768, None, head_size=64)),
    "rwkv6": (hybrid.rwkv, _class(24, None, 768, None, head_size=64)),
    "rwkv7": (hybrid.rwkv, _class(24, None, 2048, None, head_size=64)),
    "falcon": (plain.falcon, _FALCON),
    "RefinedWeb": (plain.falcon, _FALCON | {"multi_query": False, "new_decoder_architecture": True}),
    "RefinedWebModel": (plain.falcon, _FALCON | {"multi_query": False}),
    "bloom": (plain.plain, _class(2, 8, 64, None, tied=True)),
    "opt": (plain.plain, _class(12, 12, 768, None, tied=True)),
    "gpt2": (plain.plain, _class(12, 12, 768, None, tied=True)),
    "gptj": (plain.plain, _class(28, 16, 4096, None)),
    "gpt_neox": (plain.plain, _class(44, 64, 6144, None)),
    "gpt_bigcode": (plain.multi_query, _class(12, 12, 768, None, tied=True, multi_query=True)),
    "starcoder2": (plain.plain, _class(30, 24, 3072, 2, tied=True, slides="all")),
    "stablelm": (plain.plain, _class(32, 32, 2560, 32)),
    "seed_oss": (plain.plain, _class(64, 80, 4096, 8, 128)),
    "internlm3": (plain.plain, _class(48, 32, 4096, 2, 128)),
}  # fmt: skip

# other names of the same classes: renamed or older model types, architectures of files without a known model type, and the text part of a wrapper
TYPES = {
    "step3_vl": "step3_text", "step3p7": "step3p5", "minimax_m3_vl": "minimax_m3", "mimo_v2": "mimo_v2_flash", "phi4mm": "phi4_multimodal",
    "ernie4_5_moe_vl": "ernie4_5_vl_moe",
}  # fmt: skip
ARCHITECTURES = {
    "RWForCausalLM": "falcon", "DeciLMForCausalLM": "nemotron-nas", "MistralLarge3ForCausalLM": "mistral_large3", "HunYuanForCausalLM": "hunyuan",
    "HunYuanMoEV1ForCausalLM": "hunyuan_v1_moe", "HunYuanDenseV1ForCausalLM": "hunyuan_v1_dense", "GPTNeoXForCausalLM": "gpt_neox", "GPT2LMHeadModel": "gpt2",
    "MiniMaxText01ForCausalLM": "minimax_text_01", "MiniMaxM1ForCausalLM": "minimax_m1", "Step3TextForCausalLM": "step3_text",
    "Step3VLForConditionalGeneration": "step3_text", "KimiK25ForConditionalGeneration": "deepseek_v3", "KimiK3ForConditionalGeneration": "kimi_linear",
    "OPTForCausalLM": "opt", "MiMoForCausalLM": "mimo", "BloomForCausalLM": "bloom", "GPTBigCodeForCausalLM": "gpt_bigcode", "GPTJForCausalLM": "gptj",
    "Rwkv5ForCausalLM": "rwkv5", "Rwkv6ForCausalLM": "rwkv6",
}  # fmt: skip
INNER = {"mistral3": "mistral", "kimi_k25": "deepseek_v3", "kimi_k3": "kimi_linear", "llava": "llama", "paligemma": "gemma"}


def read_config(source: "str | Path | Mapping[str, Any]", id: str | None = None) -> Card:
    """Return the card of a model from its Hugging Face `config.json`.

    Parameters
    ----------
    source : path of a `config.json`, of the folder that holds one, or the parsed file
    id : name for the card; by default the name of the folder or file

    Returns
    -------
    Card : layer groups, MTP layers (counted only on request), the context that the config states as `native_context_tokens`, and in `assumed` the keys
        that the architecture's own class filled

    Raises
    ------
    KvError : no JSON object, an architecture or key that is not understood, a value of the wrong type, lists that do not match the layers

    Examples
    --------
    >>> shape = {"num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128}
    >>> made = read_config({"model_type": "mistral", "sliding_window": 4096, "max_position_embeddings": 32768, **shape})
    >>> made.attention, made.terms().windowed, made.assumed
    ('window', ((4096, 131072),), ('tie_word_embeddings',))
    """
    if isinstance(source, Mapping):
        data, name = source, id or "config"
    elif isinstance(source, str | Path):
        data, name = _load(Path(source)), id or _name(Path(source))
    else:
        raise refuse("config", source, "the path of a config.json, of its folder, or the parsed file")
    try:
        return _card(data, name)
    except RecursionError:
        raise KvError("config: this file is not accepted; accepted: a config.json without values nested hundreds deep") from None


def _name(path: Path) -> str:
    return (path if path.is_dir() else path.parent if path.name == "config.json" else path.with_suffix("")).resolve().name or "config"


def _load(path: Path) -> Mapping[str, Any]:
    """Return the JSON object in a file, or in the config.json of a folder."""
    file = path / "config.json" if path.is_dir() else path
    try:
        if file.stat().st_size > MOST_BYTES:
            raise refuse("config", str(file), f"a config.json of at most {MOST_BYTES} bytes")
        data = json.loads(file.read_text(encoding="utf-8-sig"))  # editors on Windows write a byte order mark
    except OSError as error:
        raise refuse("config", str(file), f"a config.json that can be read ({error.strerror or 'unreadable'})") from None
    except (ValueError, RecursionError):  # not UTF-8, not JSON, a number of thousands of digits, nested too deep
        raise refuse("config", str(file), "a file with one JSON object in it") from None
    if not isinstance(data, dict):
        raise refuse("config", data, "a JSON object with the keys of a model")
    return data


def _card(data: Mapping[str, Any], name: str) -> Card:
    outer = Keys(data, {})
    if data.get("is_encoder_decoder") is True:
        raise refuse("is_encoder_decoder", True, "false: encoder-decoder models are not understood")
    text, family = _text_part(outer)
    if text.get("per_layer_config") and not family.startswith("gemma4"):
        raise refuse("per_layer_config", text["per_layer_config"], "null: layers that differ one by one are understood in Gemma 4 only")
    reader, defaults = FAMILIES[family]
    keys = Keys(text, defaults)
    stack = reader(keys)
    groups, order = _groups(stack.layers)
    mtp, _ = _groups(stack.mtp)
    tied = outer.flag("tie_word_embeddings") if outer.has("tie_word_embeddings") else keys.flag("tie_word_embeddings")
    hidden = keys.count("hidden_size") if keys.has("hidden_size") or "hidden_size" in keys.assumed else None
    vocabulary = keys.count("vocab_size") if keys.has("vocab_size") else None
    native = context(keys) or context(outer)
    return Card(name, name, groups, order, mtp, native, None, None, hidden, vocabulary, tied, assumed=tuple(keys.assumed))


def _text_part(outer: Keys) -> tuple[Mapping[str, Any], str]:
    """Return the keys that describe the language model, and its family."""
    keys, family, around = outer, _family(outer), outer
    for _ in range(3):  # a text part may hold one itself
        inner = next((n for n in TEXT_PARTS if keys.data.get(n) is not None), None)
        if inner is None:
            break
        around, keys = keys, keys.sub(inner)
        own = _family(keys)
        stranger = own is None and bool(keys.text("model_type")) and not any(keys.data.get(n) is not None for n in TEXT_PARTS)
        family = own if own or stranger else INNER.get(str(around.data.get("model_type"))) or family
    if family is None:
        found = keys.text("model_type") or keys.data.get("architectures")
        raise refuse("model_type", found, "a known architecture: " + " ".join(sorted(FAMILIES)), FAMILIES)
    return keys.data, family


def _family(keys: Keys) -> str | None:
    """Return the family of a config by its `model_type`, else by its `architectures`; None where neither is known."""
    kind = keys.text("model_type") or ""
    names = keys.data.get("architectures")
    if not isinstance(names, list | None) or not all(isinstance(n, str) for n in names or ()):
        raise refuse("architectures", names, "a list of names")
    for candidate in (kind, kind.removesuffix("_text"), TYPES.get(kind)):
        if candidate in FAMILIES:
            return candidate
    for architecture in names or ():
        if architecture == "Mistral3ForConditionalGeneration" and not any(n in keys.data for n in TEXT_PARTS):  # text keys of two families, no model_type
            return "mistral4" if keys.has("kv_lora_rank") else "ministral3"
        stem = architecture.removesuffix("ForCausalLM").removesuffix("ForConditionalGeneration")
        if architecture in ARCHITECTURES:
            return ARCHITECTURES[architecture]
        match = next((f for f in FAMILIES if f.replace("_", "") == stem.lower()), None)
        if match:
            return match
    return None


def _groups(layers: list[LayerGroup]) -> tuple[tuple[LayerGroup, ...], str]:
    """Return the groups of equal layers in order of first use, and the order of the layers in run-length form."""
    kinds = list(dict.fromkeys(layers))
    if len(kinds) > len(LETTERS):
        raise refuse("layers", f"{len(kinds)} different kinds", f"at most {len(LETTERS)} different kinds of layer")
    groups = tuple(LayerGroup(layers.count(g), g.kind, g.stores, g.states, g.work) for g in kinds)
    runs: list[tuple[str, int]] = []
    for layer in layers:
        letter = LETTERS[kinds.index(layer)]
        runs[-1:] = [(letter, runs[-1][1] + 1)] if runs and runs[-1][0] == letter else [*runs[-1:], (letter, 1)]
    return groups, "".join(f"{n}{letter}" for letter, n in runs)
