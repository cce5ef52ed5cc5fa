import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmodel import KvError, card, card_ids
from kvmodel.hardware import accelerator, node, node_ids
from kvmodel.movement import EFFICIENCY, attended_pairs, breakeven_context, layer_flops, matmul_params, prefill_flops, race, recompute_s
from kvmodel.tiers import tier_ids

ROWS = csv.DictReader((Path(__file__).parents[2] / "data" / "offload_results.csv").open(encoding="utf-8"))
POINTS = {r["id"]: float(r["value"]) / 1000 for r in ROWS if r["id"].startswith("vllm-cpu-") and r["id"].endswith(("-hit", "-miss"))}
TENS = range(10, 101, 10)


@given(
    st.integers(1, 80),
    st.integers(0, 80),
    st.fixed_dictionaries({}, optional={"window": st.integers(1, 30)})
    | st.fixed_dictionaries({"chunk": st.integers(1, 30)})
    | st.fixed_dictionaries({"ratio": st.integers(1, 9)}, optional={"most": st.integers(1, 9)}),
)
def test_pairs_equal_a_plain_sum(new, cached, kind):
    def attends(t):
        if "chunk" in kind:
            return (t - 1) % kind["chunk"] + 1
        kept = t // kind.get("ratio", 1)
        return min(kept, kind.get("window", kept), kind.get("most", kept))

    assert attended_pairs(new, cached, **kind) == sum(attends(t) for t in range(cached + 1, cached + new + 1))


def test_by_hand():
    """Llama-3.1-8B: 32 layers x 2 * 32 heads * 256 * pairs, plus 2 * 6.98 B per token (checked to the estimate of its parameters)."""
    model = card("llama-3.1-8b")
    assert layer_flops(model.groups[0], 1000) == 2 * 32 * 256 * 1000 * 1001 // 2
    assert matmul_params(model) == model.params_active - 2 * 4096 * 128_256
    assert matmul_params(model) == pytest.approx(6.98e9, rel=0.01)
    mla = card("deepseek-v3").groups[0]
    assert layer_flops(mla, 1000) == 2 * 128 * (192 + 128) * 1000 * 1001 // 2
    assert layer_flops(mla, 1, 1000) - 2 * 128 * 320 * 1001 == 2 * 512 * 128 * 256 * 1000  # a loaded prefix is up-projected
    assert layer_flops(card("mixtral-8x7b-v0.1").groups[0], 10) == 2 * 32 * 256 * 55


def test_indexers_stay_quadratic_and_attention_does_not():
    """DeepSeek-V3.2: attention reads at most 2,048 keys a token, the indexer scores all."""
    group = max(card("deepseek-v3.2").groups, key=lambda g: g.count)
    near, far = layer_flops(group, 1, 9_999), layer_flops(group, 1, 99_999)
    assert far - near == 2 * 64 * 128 * 90_000
    assert near == 2 * 64 * 128 * 10_000 + 2 * 128 * (576 + 512) * 2048


@pytest.mark.parametrize("model", card_ids())
def test_work_is_positive_and_additive(model):
    """Prefill in two parts costs what one part costs, but for the up-projection of a loaded latent; and it grows with the context."""
    c = card(model)
    for g in c.groups:
        whole, parts = layer_flops(g, 5000), layer_flops(g, 2000) + layer_flops(g, 3000, 2000)
        extra = 2 * g.work.latent * g.work.query_heads * (g.work.qk_width - 64 + g.work.v_width) * 2000 if g.work.latent and not g.work.topk else 0
        assert parts - whole == extra
    assert layer_flops(c.groups[0], 10) >= 0


def test_a_config_without_widths_is_refused_not_guessed():
    missing = {c for c in card_ids() for g in card(c).groups if (g.stores or g.kind == "shared") and not g.work.query_heads}
    assert missing == {"mistral-large-3-675b-2512"}
    with pytest.raises(KvError, match="v_head_dim"):
        prefill_flops(card("mistral-large-3-675b-2512"), 1000)


def test_published_curve_without_fitting_each_point():
    """Ten prompt lengths, Llama-3.1-8B on one H100: recompute within 10 %, load within 15 ms + 5 %."""
    for k in TENS:
        r = race(card("llama-3.1-8b"), k * 1000, "main-memory", node("h100-8"))
        assert r.recompute_s == pytest.approx(POINTS[f"vllm-cpu-{k}k-miss"], rel=0.10)
        assert abs(r.load_s - POINTS[f"vllm-cpu-{k}k-hit"]) <= 0.015 + 0.05 * POINTS[f"vllm-cpu-{k}k-hit"]


def test_efficiency_is_what_the_curve_gives():
    """Least squares of the relative error over the ten points: the constant in the package is that fit, to its printed digits."""
    h100, model = accelerator("h100-sxm"), card("llama-3.1-8b")
    ratios = [POINTS[f"vllm-cpu-{k}k-miss"] * h100.bf16_flops / prefill_flops(model, k * 1000) for k in TENS]  # measured over ideal = 1 / efficiency
    fitted = sum(r * r for r in ratios) / sum(ratios) ** 2 * len(ratios) / (sum(ratios) / len(ratios))
    assert EFFICIENCY[0] == pytest.approx(fitted, rel=0.01)
    assert EFFICIENCY[1] < min(1 / r for r in ratios) < max(1 / r for r in ratios) < EFFICIENCY[2]


def test_replicas_are_moved_too():
    mla, gqa = (race(card(m), 10_000, "main-memory", node("h100-8"), tp=8) for m in ("deepseek-v3", "llama-3.3-70b"))
    assert mla.kv_bytes == 8 * 70_272 * 10_000
    assert gqa.kv_bytes == 327_680 * 10_000
    assert race(card("llama-3.3-70b"), 10_000, "near-memory", node("h100-8")).bandwidth_bytes_per_s == 3.35e12


@pytest.mark.parametrize("platform", node_ids())
@pytest.mark.parametrize("tier_id", tier_ids())
def test_every_platform_and_tier(platform, tier_id):
    place = node(platform)
    if place.accelerator.bf16_flops is None:
        with pytest.raises(KvError, match="platform"):
            race(card("llama-3.1-8b"), 1000, tier_id, place)
        return
    r = race(card("llama-3.1-8b"), 1000, tier_id, place)
    assert 0 <= r.fixed_s < r.load_s
    assert 0 < r.recompute_low_s < r.recompute_s < r.recompute_high_s
    assert r.breakeven_bytes_per_s * r.recompute_s == pytest.approx(r.bytes_per_device)


def test_where_recomputing_wins():
    place = node("h100-8")
    assert race(card("llama-3.1-8b"), 200, "main-memory", place).speedup < 1  # the fixed part alone takes longer
    first = breakeven_context(card("llama-3.1-8b"), "main-memory", place)
    assert race(card("llama-3.1-8b"), first, "main-memory", place).speedup > 1 >= race(card("llama-3.1-8b"), first - 1, "main-memory", place).speedup
    near = breakeven_context(card("llama-3.1-8b"), "near-memory", place)
    assert near == 1


def test_refusals():
    place = node("h100-8")
    small = card("llama-3.1-8b")
    for call in (
        lambda: race(small, 10, "moon", place),
        lambda: race(small, 10, "data-lake", place, tp=9),
        lambda: recompute_s(small, 1, 0, place.accelerator, efficiency=0),
    ):
        with pytest.raises(KvError, match="accepted"):
            call()
