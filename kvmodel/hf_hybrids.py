"""Latent, sparse, compressed and recurrent architectures: from the keys of a config to one `LayerGroup` per layer."""

from dataclasses import replace

from kvmodel.attention import LayerGroup, State, Store, Vectors, Work
from kvmodel.hf_families import (
    FULL,
    INDEXED,
    LINEAR,
    NONE,
    OLD_TYPES,
    SLIDING,
    Stack,
    attention,
    class_pattern,
    drafts,
    every,
    head_shape,
    layer_count,
    layer_types,
    mamba1,
    mamba2,
    parallel,
    recurrent,
    state_bytes,
)
from kvmodel.hf_keys import Keys, check_int
from kvmodel.units import refuse

HYBRID = "hybrid"
ZAMBA2_HYBRIDS = (6, 12, 18, 24, 30, 36, 42, 47, 51)  # the class's own list, for its 54 layers
CSA, HCA = "compressed_sparse_attention", "heavily_compressed_attention"


# --- latent attention -----------------------------------------------------------------------------------------------------------------------------------


def mla_layer(k: Keys) -> LayerGroup:
    """Return an MLA layer: one latent and one rotary key per token, no heads and no factor 2.

    Without the widths of the unrotated key and of the value (files that lack them and have no class of their own) the work is left out.
    """
    if k.null("kv_lora_rank"):
        raise refuse("kv_lora_rank", None, "a whole number from 1: this family without latents is not understood")
    heads, latent, rope = k.count("num_attention_heads"), k.count("kv_lora_rank"), k.count("qk_rope_head_dim", low=0)
    entry = (Vectors("latent", latent),) + ((Vectors("rope", rope),) if rope else ())
    known = all(k.has(name) or name in k.defaults for name in ("qk_nope_head_dim", "v_head_dim"))
    work = Work(query_heads=heads, qk_width=k.count("qk_nope_head_dim") + rope, v_width=k.count("v_head_dim"), latent=latent) if known else Work()
    return LayerGroup(1, "mla", (Store(entry),), (), work)


def mla(k: Keys) -> Stack:
    """DeepSeek-V2 and V3, Kimi-K2, GLM-4.7-Flash, Mistral Small 4 and Large 3."""
    if k.data.get("use_mla") is False:
        raise refuse("use_mla", False, "true: this family without latent attention is not understood")
    if k.has("index_topk") or k.has("index_head_dim"):  # V3.2 under the name of V3: engines go by these keys
        return dsa(k)
    layer = mla_layer(k)
    return Stack([layer] * layer_count(k), drafts(k, layer))


def dsa(k: Keys) -> Stack:
    """DeepSeek-V3.2, GLM-5: MLA, with an indexer key per token on the layers that own an indexer; MTP layers always own one."""
    n = layer_count(k)
    k.words("layer_types", n, (INDEXED,), OLD_TYPES)  # a check: every layer is indexed
    own, borrowed = indexed(k, mla_layer(k))
    return Stack([own if t == "full" else borrowed for t in indexer_types(k, n)], drafts(k, own))


def indexed(k: Keys, layer: LayerGroup) -> tuple[LayerGroup, LayerGroup]:
    """Return the layer with its own indexer and the layer that uses another's choice of tokens."""
    heads, width = k.count("index_n_heads"), k.count("index_head_dim")
    borrowed = replace(layer, kind="mla+dsa", work=replace(layer.work, topk=k.count("index_topk")))
    stores = (Store((*layer.stores[0].entry, Vectors("index", width))),)
    return replace(borrowed, stores=stores, work=replace(borrowed.work, index_heads=heads, index_width=width)), borrowed


def indexer_types(k: Keys, n: int) -> list[str]:
    """Return `full` (own indexer) or `shared` for each layer: the list, the F/S pattern, or every `index_topk_freq`-th layer after an offset."""
    given = k.words("indexer_types", n, ("full", "shared"))
    if given is not None:
        return given
    pattern = k.data.get("index_topk_pattern")
    if pattern is not None:
        letters = {"F": "full", "S": "shared"}
        if not isinstance(pattern, str) or len(pattern) != n or set(pattern) - set(letters):
            raise refuse("index_topk_pattern", pattern, f"a string with F or S for each of {n} layers")
        return [letters[c] for c in pattern]
    if not k.has("index_topk_freq"):
        return ["full"] * n
    freq, offset = k.count("index_topk_freq"), k.count("index_skip_topk_offset", low=0)
    return ["full" if max(i - offset + 1, 0) % freq == 0 else "shared" for i in range(n)]


def compressed(k: Keys) -> Stack:
    """DeepSeek-V4: each layer keeps raw vectors in a window, and one vector per 4 tokens (CSA, with an indexer key) or per 128 (HCA)."""
    n = layer_count(k)
    width = k.count("head_dim")
    rope = k.count("qk_rope_head_dim", low=0, high=width)
    vector = Vectors("shared", width, rope=rope)
    raw = Store((vector,), k.count("sliding_window"))
    work = Work(query_heads=k.count("num_attention_heads"), qk_width=width, v_width=width)
    heads, index, topk = k.count("index_n_heads"), k.count("index_head_dim"), k.count("index_topk")
    layers = {SLIDING: LayerGroup(1, "window", (raw,), (), work)}
    kinds, extra = _compression(k, n)
    rates = {CSA: 4, HCA: 128} if not k.has("compress_rates") else {t: k.sub("compress_rates").count(t) for t in (CSA, HCA) if t in kinds}
    if CSA in kinds:
        sparse = replace(work, index_heads=heads, index_width=index, topk=topk)
        layers[CSA] = LayerGroup(1, "csa+window", (raw, Store((vector, Vectors("index", index)), None, rates[CSA])), (), sparse)
    if HCA in kinds:
        layers[HCA] = LayerGroup(1, "hca+window", (raw, Store((vector,), None, rates[HCA])), (), work)
    return Stack([layers[t] for t in kinds], [layers[t] for t in extra])


def _compression(k: Keys, n: int) -> tuple[list[str], list[str]]:
    """Return the kinds of the layers and of the MTP layers; `compress_ratios` lists the MTP layers last."""
    drafted = k.count("num_nextn_predict_layers", low=0, high=1000)
    named = {0: SLIDING, 1: SLIDING, 4: CSA, 128: HCA}
    ratios = k.counts("compress_ratios", None)
    if k.has("layer_types") or ratios is None:
        if not k.has("compress_rates"):
            k.note("compress_rates")
        rule = class_pattern(k, lambda i: CSA if i > 2 and i % 2 else HCA)
        return layer_types(k, n, (SLIDING, CSA, HCA), rule), [SLIDING] * drafted
    if len(ratios) not in (n, n + drafted):
        raise refuse("compress_ratios", f"{len(ratios)} entries", f"one entry for each of {n} layers, or {n + drafted} with the MTP layers")
    for ratio in ratios:
        if ratio not in named:
            raise refuse("compress_ratios", ratio, "0 or 1 (window only), 4 (CSA) or 128 (HCA) in each entry")
    kinds = [named[r] for r in ratios]
    return kinds[:n], kinds[n:] or [SLIDING] * drafted


def msa(k: Keys) -> Stack:
    """MiniMax-M3: full GQA keys and values everywhere, and one key-only index vector per token on the sparse layers."""
    n, shape = layer_count(k), head_shape(k)
    full = attention(*shape)
    settings = k.sub("sparse_attention_config")
    marks = None if settings.data.get("use_sparse_attention") is False else settings.counts("sparse_attention_freq", n, high=1)
    kinds = layer_types(k, n, (FULL, "minimax_m3_sparse"), lambda i: "minimax_m3_sparse" if marks and marks[i] else FULL)
    names = {"n_heads": "num_index_heads", "head_dim": "index_dim", "block_size": "block_size", "topk_blocks": "topk_blocks"}
    heads, width, block, blocks = (settings.count(f"sparse_{old}") if settings.has(f"sparse_{old}") else k.count(f"index_{new}") for new, old in names.items())
    store = Store((*full.stores[0].entry, Vectors("msa-index", width)))
    work = replace(full.work, index_heads=heads, index_width=width, topk=blocks * block)
    sparse = LayerGroup(1, f"{full.kind}+msa", (store,), (), work)
    return Stack([full if t == FULL else sparse for t in kinds], minimax_drafts(k, full))


def minimax(k: Keys) -> Stack:
    """MiniMax-M2: plain GQA, with `num_mtp_modules` draft modules of `mtp_transformer_layers` layers."""
    full = attention(*head_shape(k))
    return Stack([full] * layer_count(k), minimax_drafts(k, full))


def minimax_drafts(k: Keys, layer: LayerGroup) -> list[LayerGroup]:
    """Return MiniMax's draft layers: modules x layers per module, none without `num_mtp_modules` or with `use_mtp` false."""
    if not k.has("num_mtp_modules") or k.data.get("use_mtp") is False:
        return []
    each = k.count("mtp_transformer_layers", high=1000) if k.has("mtp_transformer_layers") else 1
    return [layer] * (each * k.count("num_mtp_modules", low=0, high=1000))


# --- recurrent layers and hybrids -----------------------------------------------------------------------------------------------------------------------


def lightning(k: Keys) -> Stack:
    """MiniMax-01 and M1: lightning attention (a matrix per head) with a full-attention layer now and then; `attn_type_list` 1 = full."""
    n, shape = layer_count(k), head_shape(k)
    marks = k.counts("attn_type_list", n, high=1)
    if marks is None and not k.has("layer_types") and "period" not in k.defaults:
        raise refuse("attn_type_list", None, f"0 (lightning) or 1 (full) for each of {n} layers")
    rule = class_pattern(k, lambda i: LINEAR if i % k.defaults["period"] else FULL)
    kinds = [FULL if m else LINEAR for m in marks] if marks else layer_types(k, n, (FULL, LINEAR), rule)
    heads, _, width = shape
    layers = {FULL: attention(*shape), LINEAR: recurrent("lightning", heads, width, width, state_bytes(k))}
    return Stack([layers[t] for t in kinds])


def delta_net(k: Keys) -> Stack:
    """Qwen3-Next and Qwen3.5: Gated DeltaNet with a full-attention layer every `full_attention_interval`."""
    n, full = layer_count(k), attention(*head_shape(k))
    conv = k.count("linear_conv_kernel_dim") - 1
    heads, values, key, value = (k.count(f"linear_{name}") for name in ("num_key_heads", "num_value_heads", "key_head_dim", "value_head_dim"))
    gdn = recurrent("gdn", values, key, value, state_bytes(k), ((heads, conv * 2 * key), (values, conv * value)))
    kinds = layer_types(k, n, (FULL, LINEAR), every(k, "full_attention_interval", LINEAR))
    return Stack([full if t == FULL else gdn for t in kinds], drafts(k, full, "mtp_num_hidden_layers"))


def kda_layer(k: Keys) -> LayerGroup:
    """Return a Kimi Delta Attention layer: three convolutions and a matrix per head."""
    settings = k.sub("linear_attn_config")
    names = {"linear_num_heads": "num_heads", "linear_head_dim": "head_dim", "linear_conv_kernel_dim": "short_conv_kernel_size"}
    heads, width, conv = (settings.count(old) if settings.has(old) else k.count(new) for new, old in names.items())
    return recurrent("kda", heads, width, width, state_bytes(k), ((heads, 3 * (conv - 1) * width),))


def kimi_linear(k: Keys) -> Stack:
    """Kimi-Linear and Kimi-K3: KDA layers and MLA layers, listed from 1."""
    n, latent, kda = layer_count(k), mla_layer(k), kda_layer(k)
    settings = k.sub("linear_attn_config")
    lists = [settings.counts(name, None, low=1, high=n) for name in ("kda_layers", "full_attn_layers")]
    if k.has("layer_types") or None in lists:
        kinds = layer_types(k, n, (FULL, LINEAR), class_pattern(k, lambda i: FULL if i and i % 4 == 0 else LINEAR))
    else:
        linear, full = (x or [] for x in lists)
        if sorted(linear + full) != list(range(1, n + 1)):
            found = f"{len(linear)} kda_layers and {len(full)} full_attn_layers"
            raise refuse("linear_attn_config", found, f"each layer from 1 to {n} in one of the two lists")
        kinds = [FULL if i + 1 in full else LINEAR for i in range(n)]
    return Stack([latent if t == FULL else kda for t in kinds], drafts(k, latent))


def jamba(k: Keys) -> Stack:
    """Jamba: Mamba-1 layers with an attention layer every `attn_layer_period`, from `attn_layer_offset`."""
    n, full = layer_count(k), attention(*head_shape(k))
    period, offset = k.count("attn_layer_period"), k.count("attn_layer_offset", low=0)
    return Stack([full if i % period == offset else mamba1(k, *_mamba1_shape(k)) for i in range(n)])


def _mamba1_shape(k: Keys) -> tuple[int, int, int]:
    return k.count("mamba_expand") * k.count("hidden_size"), k.count("mamba_d_state"), k.count("mamba_d_conv")


def granite_hybrid(k: Keys) -> Stack:
    """Granite 4 hybrids and Bamba: Mamba-2 layers and attention layers."""
    n = layer_count(k)
    chosen = k.counts("attn_layer_indices", None, high=n - 1)
    rule = class_pattern(k, lambda i: LINEAR) if chosen is None else lambda i: FULL if i in chosen else LINEAR
    kinds = layer_types(k, n, (FULL, LINEAR), rule, "layers_block_type" if k.has("layers_block_type") else "layer_types")
    layers = {FULL: attention(*head_shape(k))} if FULL in kinds else {}
    if LINEAR in kinds:
        layers[LINEAR] = _mamba2_layer(k)
    return Stack([layers[t] for t in kinds])


def _mamba2_layer(k: Keys) -> LayerGroup:
    heads = k.count("mamba_n_heads")
    given = k.data.get("mamba_d_head") not in (None, "auto")
    own = k.has("mamba_d_ssm") or "mamba_d_ssm" in k.defaults  # Falcon-H1 names its inner width, and some of its published tables leave it out
    inner = None if given and own and not k.has("mamba_d_ssm") else k.count("mamba_d_ssm") if own else k.count("mamba_expand") * k.count("hidden_size")
    width = k.count("mamba_d_head") if given else (inner or 0) // heads
    if inner is not None and heads * width != inner:
        raise refuse("mamba_n_heads", heads, f"heads that with mamba_d_head make the inner width {inner}")
    return mamba2(k, heads, width, k.count("mamba_n_groups"), k.count("mamba_d_state"), k.count("mamba_d_conv"))


def falcon_h1(k: Keys) -> Stack:
    """Falcon-H1: attention and Mamba-2 side by side in every layer."""
    return Stack([parallel(attention(*head_shape(k)), _mamba2_layer(k))] * layer_count(k))


def nemotron_h(k: Keys) -> Stack:
    """Nemotron-H and Nemotron 3: a letter (or name) per layer: M Mamba-2, * attention, - MLP, E experts; only the first two keep anything."""
    kinds = _blocks(k, "hybrid_override_pattern", "layers_block_type")
    if kinds is None:
        raise refuse("hybrid_override_pattern", None, "a letter of M * - E for each layer, or layers_block_type")
    if k.has("num_hidden_layers") and layer_count(k) != len(kinds):
        raise refuse("hybrid_override_pattern", f"{len(kinds)} layers", f"one letter for each of {layer_count(k)} layers")
    full = attention(*_nemotron_heads(k))
    heads, width = k.count("mamba_num_heads"), k.count("mamba_head_dim")
    layers = {FULL: full, LINEAR: mamba2(k, heads, width, k.count("n_groups"), k.count("ssm_state_size"), k.count("conv_kernel")), "moe": NONE, "mlp": NONE}
    drafted = k.count("num_nextn_predict_layers", low=0, high=1000) if k.has("num_nextn_predict_layers") else 0
    extra = (_blocks(k, "mtp_hybrid_override_pattern", "mtp_layers_block_type") or [FULL, "moe"]) if drafted else []
    return Stack([layers[t] for t in kinds], [layers[t] for t in extra if t in (FULL, LINEAR)] * drafted)


def _blocks(k: Keys, letters: str, names: str) -> list[str] | None:
    """Return the kind of each layer from a list of names, or from a string of letters."""
    listed = k.words(names, None, (FULL, LINEAR, "moe", "mlp"), OLD_TYPES)
    if listed is not None:
        return listed
    pattern, meaning = k.text(letters), {"M": LINEAR, "*": FULL, "-": "mlp", "E": "moe"}
    if pattern is None:
        return None
    if set(pattern) - set(meaning) or not 0 < len(pattern) <= 10_000:
        raise refuse(letters, pattern, "a letter of M * - E for each layer")
    return [meaning[c] for c in pattern]


def _nemotron_heads(k: Keys) -> tuple[int, int, int]:
    name = "attention_head_dim" if k.has("attention_head_dim") else "head_dim"
    return k.count("num_attention_heads"), k.count("num_key_value_heads"), k.count(name)


def zamba(k: Keys) -> Stack:
    """Zamba: Mamba-1, and hybrid layers that add attention over twice the hidden width."""
    n = layer_count(k)

    def rule(i: int) -> str:
        later = i > 2 and (i - 3) % k.count("attn_layer_period") == k.count("attn_layer_offset", low=0)
        return HYBRID if i == 2 or later else LINEAR

    kinds = layer_types(k, n, (LINEAR, HYBRID), rule, "layers_block_type")
    return _zamba_stack(k, kinds, mamba1(k, *_mamba1_shape(k)))


def zamba2(k: Keys) -> Stack:
    """Zamba2: Mamba-2, and hybrid layers that add attention over twice the hidden width; each hybrid layer has its own cache."""
    n = layer_count(k)
    ids = k.counts("hybrid_layer_ids", None, high=n - 1)
    if ids is None and not k.has("layers_block_type") and n != 54:
        raise refuse("layers_block_type", None, f"mamba or hybrid for each of {n} layers")
    own = class_pattern(k, lambda i: HYBRID if i in ZAMBA2_HYBRIDS else LINEAR, "layers_block_type")
    kinds = layer_types(k, n, (LINEAR, HYBRID), own if ids is None else lambda i: HYBRID if i in ids else LINEAR, "layers_block_type")
    heads, inner = k.count("n_mamba_heads"), k.count("mamba_expand") * k.count("hidden_size")
    if inner % heads:
        raise refuse("n_mamba_heads", heads, f"a divisor of mamba_expand * hidden_size ({inner})")
    return _zamba_stack(k, kinds, mamba2(k, heads, inner // heads, k.count("mamba_ngroups"), k.count("mamba_d_state"), k.count("mamba_d_conv")))


def _zamba_stack(k: Keys, kinds: list[str], ssm: LayerGroup) -> Stack:
    heads = k.count("num_attention_heads")
    width = k.count("attention_head_dim") if k.has("attention_head_dim") else 2 * k.count("hidden_size") // heads
    hybrid = parallel(attention(heads, k.count("num_key_value_heads"), width), ssm)
    return Stack([hybrid if t == HYBRID else ssm for t in kinds])


def mamba1_only(k: Keys) -> Stack:
    """Mamba and Falcon-Mamba: state only."""
    inner = k.count("intermediate_size") if k.has("intermediate_size") else k.count("expand") * k.count("hidden_size")  # Falcon-Mamba's `expand` is not used
    return Stack([mamba1(k, inner, k.count("state_size"), k.count("conv_kernel"))] * layer_count(k))


def mamba2_only(k: Keys) -> Stack:
    """Mamba-2 (Mamba-Codestral): state only."""
    heads = k.count("mamba_num_heads" if k.has("mamba_num_heads") else "num_heads")
    width = k.count("mamba_head_dim" if k.has("mamba_head_dim") else "head_dim")
    return Stack([mamba2(k, heads, width, k.count("n_groups"), k.count("state_size"), k.count("conv_kernel"))] * layer_count(k))


def rwkv(k: Keys) -> Stack:
    """RWKV-4 (three sums per channel), RWKV-5, 6 and 7 (a matrix per head); two token shifts of 4 bytes per channel."""
    for name in ("expand_k", "attn"):
        if k.data.get(name) is not None:
            raise refuse(name, k.data[name], "no such key: only pure RWKV with square heads is understood")
    hidden = k.count("hidden_size")
    for width in k.data["value_dim"] if isinstance(k.data.get("value_dim"), list) else ():
        check_int("value_dim", width, hidden, hidden)
    channels = k.count("attention_hidden_size") if k.has("attention_hidden_size") else hidden
    shift = State("shift", 1, 2 * hidden, 4)
    if k.has("head_size") or "head_size" in k.defaults:
        size = k.count("head_size" if k.has("head_size") or not k.has("head_dim") else "head_dim")
        if channels % size:
            raise refuse("head_size", size, f"a divisor of the attention width {channels}")
        layer = recurrent("rwkv", channels // size, size, size, 4)
    else:
        layer = recurrent("rwkv", channels, 3, 1, 4)
    return Stack([replace(layer, states=(shift, *layer.states))] * layer_count(k))
