"""How each architecture spells its attention layers: from the keys of a config to one `LayerGroup` per layer.

Class defaults are those of the configuration classes of transformers 5.24.0 (`models/<model_type>/configuration_<model_type>.py`), or of the model's own
`configuration_*.py` where transformers has none.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from kvmodel.attention import LayerGroup, State, Store, Vectors, Work
from kvmodel.hf_keys import MOST_LAYERS, Keys, context, head_width
from kvmodel.units import refuse

NONE = LayerGroup(1, "none")
FULL, SLIDING, CHUNKED, LINEAR, INDEXED = "full_attention", "sliding_attention", "chunked_attention", "linear_attention", "indexed_attention"
OLD_TYPES = {"mamba": LINEAR, "attention": FULL, "deepseek_sparse_attention": INDEXED}


@dataclass(frozen=True)
class Stack:
    """The layers of a model, first to last, and its multi-token-prediction layers."""

    layers: list[LayerGroup]
    mtp: list[LayerGroup] = field(default_factory=list)


Reader = Callable[[Keys], Stack]


# --- layers ---------------------------------------------------------------------------------------------------------------------------------------------


def attention(
    heads: int, kv_heads: int, key: int, value: int | None = None, *, window: int | None = None, chunked: bool = False, kind: str | None = None
) -> LayerGroup:
    """Return a layer of MHA, GQA or MQA, or of the same in a window: kv_heads * (key + value) elements per kept token."""
    if kv_heads > heads or heads % kv_heads:
        raise refuse("num_key_value_heads", kv_heads, f"a divisor of num_attention_heads ({heads})")
    value = key if value is None else value
    plain = "mha" if kv_heads == heads else "mqa" if kv_heads == 1 else "gqa"
    entry = (Vectors("key", key, kv_heads), Vectors("value", value, kv_heads))
    named = kind or ("chunked" if chunked else "window" if window else plain)
    return LayerGroup(1, named, (Store(entry, window),), (), Work(query_heads=heads, qk_width=key, v_width=value))


def shared(layer: LayerGroup) -> LayerGroup:
    """Return the layer that attends to another layer's keys and values and stores none; its window stays in its work."""
    return LayerGroup(1, "shared", (), (), replace(layer.work, window=layer.stores[0].window or 0))


def parallel(first: LayerGroup, second: LayerGroup) -> LayerGroup:
    """Return a layer with two mixers side by side: attention and a recurrence."""
    work = replace(first.work, state_heads=second.work.state_heads, state_key=second.work.state_key, state_value=second.work.state_value)
    return LayerGroup(1, f"{first.kind}+{second.kind}", first.stores + second.stores, first.states + second.states, work)


def recurrent(kind: str, heads: int, key: int, value: int, state_bytes: int, conv: tuple[tuple[int, int], ...] = ()) -> LayerGroup:
    """Return a recurrent layer: heads * key * value elements of state, and `conv` parts of (heads, elements per head) at 2 bytes."""
    states = (*(State("conv", h, n, 2) for h, n in conv if n), State("recurrent", heads, key * value, state_bytes))
    return LayerGroup(1, kind, (), states, Work(state_heads=heads, state_key=key, state_value=value))


def mamba1(k: Keys, inner: int, states: int, conv: int) -> LayerGroup:
    """Return a Mamba-1 layer: (conv - 1) * inner and inner * states elements."""
    return recurrent("mamba1", inner, states, 1, state_bytes(k), ((inner, conv - 1),))


def mamba2(k: Keys, heads: int, width: int, groups: int, states: int, conv: int) -> LayerGroup:
    """Return a Mamba-2 layer: (conv - 1) * (heads * width + 2 * groups * states) and heads * width * states elements."""
    return recurrent("mamba2", heads, states, width, state_bytes(k), ((heads, (conv - 1) * width), (groups, (conv - 1) * 2 * states)))


def state_bytes(k: Keys) -> int:
    """Return the bytes of a recurrent state element: 4, unless `mamba_ssm_dtype` or `mamba_ssm_cache_dtype` says otherwise."""
    for name in ("mamba_ssm_dtype", "mamba_ssm_cache_dtype"):
        text = k.text(name)
        if text is not None:
            sizes = {"float32": 4, "bfloat16": 2, "float16": 2}
            if text not in sizes:
                raise refuse(name, text, f"one of {' '.join(sizes)}", sizes)
            return sizes[text]
    return 4


def layer_count(k: Keys) -> int:
    """Return num_hidden_layers."""
    return k.count("num_hidden_layers", high=MOST_LAYERS)


def head_shape(k: Keys) -> tuple[int, int, int]:
    """Return query heads, KV heads and head width; a class without KV heads of its own is MHA, one without head_dim divides hidden_size."""
    heads = k.count("num_attention_heads")
    kv = k.count("num_key_value_heads") if "num_key_value_heads" in k.defaults and not k.null("num_key_value_heads") else heads
    if k.null("num_key_value_heads"):  # the classes read null as plain MHA, whatever they fill where the key is absent
        k.note("num_key_value_heads")
    has_width = "head_dim" in k.defaults or k.has("head_dim")
    return heads, kv, k.count("head_dim") if has_width else head_width(k)


def layer_types(k: Keys, n: int, accepted: tuple[str, ...], default: Callable[[int], str], name: str = "layer_types") -> list[str]:
    """Return the kind of each layer: the config's list, or the class's own pattern."""
    given = k.words(name, n, accepted, OLD_TYPES)
    return [default(i) for i in range(n)] if given is None else given


def every(k: Keys, key: str, others: str = SLIDING, last: str = FULL) -> Callable[[int], str]:
    """Return the pattern in which every p-th layer is `last` and the rest `others`; p is the value of `key`, read only if the pattern is asked for."""
    return lambda i: others if (i + 1) % k.count(key) else last


def class_pattern(k: Keys, rule: Callable[[int], str], name: str = "layer_types") -> Callable[[int], str]:
    """Return a pattern that is written in the class alone; using it notes `name` as assumed."""

    def pattern(i: int) -> str:
        k.note(name)
        return rule(i)

    return pattern


def window(k: Keys, name: str = "sliding_window") -> int | None:
    """Return the window of sliding layers, or None where there is none or it reaches the context that the config states (full attention)."""
    width, native = k.optional(name), context(k)
    return None if width is None or (native is not None and width >= native) else width


def drafts(k: Keys, layer: LayerGroup, key: str = "num_nextn_predict_layers") -> list[LayerGroup]:
    """Return the multi-token-prediction layers, each like `layer`."""
    if not k.has(key) and key not in k.defaults:
        return []
    return [layer] * k.count(key, low=0, high=MOST_LAYERS)


# --- families -------------------------------------------------------------------------------------------------------------------------------------------


def plain(k: Keys) -> Stack:
    """Attention layers, each full or in a sliding window, by the class's rule."""
    n, shape = layer_count(k), head_shape(k)
    full = attention(*shape)
    kinds = SLIDES[k.defaults.get("slides", "never")](k, n)
    local = attention(*shape, window=window(k)) if SLIDING in kinds else full
    return Stack([local if t == SLIDING else full for t in kinds], drafts(k, full))


def local_global(k: Keys, n: int) -> list[str]:
    """Return sliding or full for each layer: the config's list, its `sliding_window_pattern`, or the class's own `period`."""
    if "sliding_window_pattern" in k.defaults:
        return layer_types(k, n, (FULL, SLIDING), every(k, "sliding_window_pattern"))
    return layer_types(k, n, (FULL, SLIDING), class_pattern(k, lambda i: SLIDING if (i + 1) % k.defaults["period"] else FULL))


def _qwen_window(k: Keys, n: int) -> list[str]:
    if not k.flag("use_sliding_window"):
        k.words("layer_types", n, (FULL, SLIDING))  # checked, but without the switch no layer slides
        return [FULL] * n
    return layer_types(k, n, (FULL, SLIDING), lambda i: SLIDING if i >= k.count("max_window_layers", low=0) else FULL)


def _qwen_moe_window(k: Keys, n: int) -> list[str]:
    if not k.flag("use_sliding_window"):
        return [FULL] * n
    return layer_types(k, n, (FULL, SLIDING), lambda i: SLIDING if i % 2 == 0 and i < k.count("max_window_layers", low=0) else FULL)


def _all(k: Keys, n: int, kind: str) -> list[str]:
    """Return the one kind that all layers of a class without layer types have; a config that says otherwise is refused, for engines differ on it."""
    given = k.words("layer_types", n, (FULL, SLIDING)) or []
    if kind == SLIDING and window(k) is None:
        return [FULL] * n
    if other := next((t for t in given if t != kind), None):
        raise refuse("layer_types", other, f"{kind} in each entry: this class has no other layers")
    return [kind] * n


SLIDES: dict[str, Callable[[Keys, int], list[str]]] = {
    "never": lambda k, n: _all(k, n, FULL),
    "all": lambda k, n: _all(k, n, SLIDING),
    "list-or-all": lambda k, n: layer_types(k, n, (FULL, SLIDING), class_pattern(k, lambda i: SLIDING)),
    "list": local_global,
    "switch-all": lambda k, n: _all(k, n, SLIDING if k.flag("use_sliding_window") else FULL),
    "qwen": _qwen_window,
    "qwen-moe": _qwen_moe_window,
}


def gemma3n(k: Keys) -> Stack:
    """Gemma 3n: the last `num_kv_shared_layers` layers attend to earlier layers' KV."""
    n, shape = layer_count(k), head_shape(k)
    layers = {FULL: attention(*shape), SLIDING: attention(*shape, window=window(k))}
    return Stack(_share_last(k, [layers[t] for t in local_global(k, n)]))


def gemma4(k: Keys) -> Stack:
    """Gemma 4: global layers have their own head width and, with K = V weights, their own KV heads; the last layer is always global."""
    n, (heads, kv, width) = layer_count(k), head_shape(k)
    kinds = local_global(k, n)
    kinds[-1] = FULL
    per_layer = k.sub("per_layer_config")  # as transformers 5.24 saves it: the two global keys once more, for each global layer
    first = next((name for name in per_layer.data if (name.lstrip("0") or "0") == str(kinds.index(FULL))), None)  # its keys are padded: "05"
    wide = per_layer.sub(first) if first else k
    kv_key, width_key = ("num_global_key_value_heads", "global_head_dim") if wide is k else ("num_key_value_heads", "head_dim")
    own = wide.has(kv_key) and (wide is not k or k.flag("attention_k_eq_v"))
    full = attention(heads, wide.count(kv_key) if own else kv, wide.count(width_key))
    layers = {FULL: full, SLIDING: attention(heads, kv, width, window=window(k))}
    return Stack(_share_last(k, [layers[t] for t in kinds]))


def _share_last(k: Keys, layers: list[LayerGroup]) -> list[LayerGroup]:
    count = k.count("num_kv_shared_layers", low=0, high=len(layers) - 1)
    own = len(layers) - count
    return layers[:own] + [shared(layer) for layer in layers[own:]]


def llama4(k: Keys) -> Stack:
    """Llama 4: rotary layers attend inside chunks, every `no_rope_layer_interval`-th layer to everything."""
    n, shape = layer_count(k), head_shape(k)
    chunk = window(k, "attention_chunk_size")
    rope = (k.counts("no_rope_layers", n, high=1) if k.data.get("no_rope_layers") != [] else None) or []
    rule = every(k, "no_rope_layer_interval", CHUNKED)
    kinds = layer_types(k, n, (FULL, CHUNKED), lambda i: (CHUNKED if rope[i] else FULL) if rope else rule(i))
    full = attention(*shape)
    local = attention(*shape, window=chunk, chunked=True) if chunk else full
    return Stack([local if t == CHUNKED else full for t in kinds])


def falcon(k: Keys) -> Stack:
    """Falcon: KV heads count only in the new decoder; the old one is MQA (`multi_query`) or MHA."""
    n, heads, width = layer_count(k), k.count("num_attention_heads"), head_width(k)
    new = k.flag("new_decoder_architecture")
    kv = k.count("num_key_value_heads") if new else 1 if k.flag("multi_query") else heads
    return Stack([attention(heads, kv, width)] * n)


def multi_query(k: Keys) -> Stack:
    """GPT-BigCode (StarCoder, SantaCoder): MQA unless `multi_query` is false."""
    heads = k.count("num_attention_heads")
    return Stack([attention(heads, 1 if k.flag("multi_query") else heads, head_width(k))] * layer_count(k))


def chatglm(k: Keys) -> Stack:
    """ChatGLM2 to GLM-4-9B as first published: `kv_channels` is the head width, `multi_query_group_num` the KV heads of `multi_query_attention`."""
    heads = k.count("num_attention_heads")
    width = k.count("kv_channels") if k.has("kv_channels") else head_width(k)
    kv = k.count("multi_query_group_num") if k.flag("multi_query_attention") else heads
    return Stack([attention(heads, kv, width)] * layer_count(k))


def mimo_v2(k: Keys) -> Stack:
    """MiMo-V2: keys wider than values, and sliding layers with their own heads and widths."""
    n, heads = layer_count(k), k.count("num_attention_heads")
    pattern = k.counts("hybrid_layer_pattern", n, high=1)
    rule = class_pattern(k, lambda i: SLIDING if i and (i + 1) % 6 else FULL)
    kinds = [SLIDING if p else FULL for p in pattern] if pattern else layer_types(k, n, (FULL, SLIDING), rule)
    full = attention(heads, k.count("num_key_value_heads"), k.count("head_dim"), k.count("v_head_dim"))
    width = window(k, "sliding_window_size" if k.has("sliding_window_size") else "sliding_window")
    kv, key, value = (k.count(f"swa_{name}") for name in ("num_key_value_heads", "head_dim", "v_head_dim"))
    local = attention(k.count("swa_num_attention_heads"), kv, key, value, window=width)
    return Stack([local if t == SLIDING else full for t in kinds], drafts(k, local))


def step3p5(k: Keys) -> Stack:
    """Step-3.5 and 3.7: full and sliding layers with their own query heads; the lists may go on over the MTP layers."""
    n, (heads, kv, width) = layer_count(k), head_shape(k)
    drafted = k.count("num_nextn_predict_layers", low=0, high=1000) if k.has("num_nextn_predict_layers") else 0
    listed = k.items("layer_types", None)
    longer = drafted if listed is not None and len(listed) == n + drafted else 0
    kinds = layer_types(k, n + longer, (FULL, SLIDING), class_pattern(k, lambda i: FULL))
    other = k.sub("attention_other_setting")
    local_heads = other.count("num_attention_heads") if other.has("num_attention_heads") else heads
    layers = {FULL: attention(heads, kv, width), SLIDING: attention(local_heads, kv, width, window=window(k))}
    return Stack([layers[t] for t in kinds[:n]], [layers[t] for t in kinds[n:] or [FULL] * drafted])


def mfa(k: Keys) -> Stack:
    """Step-3: multi-matrix factorisation attention; `num_attention_groups` KV heads for all query heads."""
    layer = attention(k.count("num_attention_heads"), k.count("num_attention_groups"), k.count("head_dim"), kind="mfa")
    return Stack([layer] * layer_count(k))


def hunyuan(k: Keys) -> Stack:
    """Hunyuan: with `use_cla`, only every `cla_share_factor`-th layer owns a cache."""
    for name in ("use_mla", "mamba"):
        if k.flag(name):
            raise refuse(name, True, "false: this family with it is not understood")
    n, heads, kv = layer_count(k), k.count("num_attention_heads"), k.count("num_key_value_heads")
    given = [x for x in ("attention_head_dim", "head_dim") if k.has(x)]
    own = attention(heads, kv, k.count(given[0]) if given else head_width(k))
    step = k.count("cla_share_factor") if k.flag("use_cla") else 1
    return Stack([own if i % step == 0 else shared(own) for i in range(n)])


def nas(k: Keys) -> Stack:
    """Nemotron NAS (DeciLM): each block names its own KV heads, a window, or no attention at all."""
    n, heads = layer_count(k), k.count("num_attention_heads")
    width = k.count("head_dim") if k.has("head_dim") else head_width(k)
    heads_of = k.counts("num_key_value_heads_per_layer", n, low=1)  # DeciLM-7B
    if heads_of is not None:
        return Stack([attention(heads, kv, width) for kv in heads_of])
    blocks = k.items("block_configs", n)
    if blocks is None:
        raise refuse("block_configs", None, f"a list with one block for each of {n} layers")
    return Stack([_nas_layer(k.sub("block_configs", b).sub("attention"), heads, width, context(k)) for b in blocks])


def _nas_layer(block: Keys, heads: int, width: int, native: int | None) -> LayerGroup:
    if block.flag("no_op") or block.flag("replace_with_linear"):
        return NONE
    for name in ("num_sink_tokens", "sparsify"):
        if block.has(name):
            raise refuse(name, block.data[name], "null: sink and sparse blocks are not understood")
    group = block.count("n_heads_in_group")
    if heads % group:
        raise refuse("n_heads_in_group", group, f"a divisor of num_attention_heads ({heads})")
    reach = block.optional("window_length")
    return attention(heads, heads // group, width, window=None if reach is None or (native is not None and reach >= native) else reach)
