"""Numbers of the survey on cache prices and tokenizers, each beside what the tables of `data/` give."""

import pytest

from kvmodel.tables import read

# Cached over input price by vendor and model, as the survey prints it.
RATIOS = [
    ("Anthropic", "Claude 3.x", 0.10),
    ("Anthropic", "Opus 5.5, Sonnet 5.5", 0.05),
    ("Anthropic", "Fable 5.1, Mythos 5.1", 0.025),
    ("OpenAI", "GPT-4o, GPT-4o mini, o1-preview, o1-mini", 0.50),
    ("OpenAI", "GPT-4.1 family", 0.25),
    ("OpenAI", "GPT-5 family", 0.10),
    ("OpenAI", "GPT-6.1 sol/terra", 0.05),
    ("Google", "Gemini 1.5 Pro", 0.25),
    ("Google", "Gemini 2.5 Pro", 0.25),
    ("Google", "Gemini 4 argon / hydrogen", 0.05),
    ("DeepSeek", "deepseek-chat (V2)", 0.10),
    ("DeepSeek", "V3", 0.26),
    ("DeepSeek", "V3.1", 0.12),
    ("DeepSeek", "V3.2", 0.10),
    ("DeepSeek", "V4 Flash at launch", 0.20),
    ("DeepSeek", "V4 Pro at launch", 0.083),
    ("DeepSeek", "V4 Flash repriced", 0.02),
    ("DeepSeek", "V4 Pro repriced", 0.0083),
    ("xAI", "Grok 2", 1.0),
    ("xAI", "Grok 3", 0.25),
    ("Moonshot", "Kimi K2", 0.25),
    ("Moonshot", "Kimi K2.5", 0.167),
    ("Moonshot", "Kimi K3 / K3.1", 0.10),
    ("MiniMax", "M2.5", 0.10),
]
# Tokens per character as the survey prints them: English, Chinese, Python, JSON.
TOKENS = {
    "deepseek V4 (129k)": (0.213, 0.566, 0.263, 0.433),
    "llama4 (200k)": (0.213, 0.578, 0.261, 0.437),
    "qwen (151k)": (0.213, 0.630, 0.267, 0.500),
    "o200k_base (GPT-4o+)": (0.213, 0.687, 0.261, 0.437),
    "llama3 (128k)": (0.213, 0.727, 0.261, 0.437),
    "mistral tekken 240911 (131k)": (0.214, 0.863, 0.272, 0.500),
    "anthropic (Claude 2 era)": (0.217, 0.877, 0.264, 0.423),
    "cl100k_base (GPT-3.5/4)": (0.213, 0.948, 0.261, 0.437),
}


@pytest.mark.parametrize(("vendor", "scope", "printed"), RATIOS)
def test_cached_over_input_price(vendor, scope, printed):
    rows = read("cache_prices")
    row = rows[(rows["provider"] == vendor) & (rows["scope"] == scope) & (rows["metric"] == "cache_read/input")]
    assert row["value"].tolist() == [pytest.approx(printed, rel=0.03)]


def test_a_ratio_can_be_raised():
    """Not monotone: DeepSeek went up from V2 to V3, and from May to December 2026."""
    rows = read("cache_prices")
    ratios = rows[rows["metric"] == "cache_read/input"].set_index(["provider", "scope"])["value"]
    assert ratios["DeepSeek", "deepseek-chat (V2)"] < ratios["DeepSeek", "V3"]
    assert ratios["DeepSeek", "V4 Pro repriced"] < ratios["DeepSeek", "V4 Pro"]


def test_storage_prices():
    rows = read("cache_prices")
    stored = rows[rows["metric"] == "storage"].set_index("scope")
    assert stored.loc["Gemini 2.5 Pro explicit cache", ["value", "unit"]].tolist() == [4.5, "USD/Mtok/h"]
    before, after = (stored.loc[s, "value"] for s in ("Kimi context caching (public beta), any model", "Kimi context caching"))
    assert (before * 60, after / before) == (600, 0.5)


def test_long_contexts_cost_twice():
    """72 entries charge exactly twice on long contexts; 18 lines of input price, output price and longest prompt."""
    rows = read("cache_price_snapshot").dropna(subset="long_context_input_ratio")
    assert rows["long_context_input_ratio"].eq(2).all()
    assert (len(rows), len(rows.drop_duplicates(["price_input", "price_output", "max_input_tokens"]))) == (72, 18)


def test_twelve_hours_of_retention():
    rows = read("cache_price_snapshot").dropna(subset="write_ratio_12h")
    assert rows["write_ratio_12h"].eq(2.5).all()
    assert set(rows["provider"]) == {"openai"}
    assert len(read("cache_price_history")) == 1491
    assert len(read("cache_price_snapshot")) == 343


@pytest.mark.parametrize("name", TOKENS)
def test_tokens_per_character(name):
    """To the third digit; one printed value is a rounding of 0.26248 upwards."""
    row = read("tokenizers").set_index("tokenizer").loc[name]
    ours = [row[f"{text}_tokens"] / row[f"{text}_chars"] for text in ("english", "chinese_article", "python_heapq", "json")]
    assert ours == pytest.approx(TOKENS[name], abs=0.00055)


def test_the_same_chinese_text_in_two_vocabularies():
    tokens = read("tokenizers").set_index("tokenizer")["chinese_article_tokens"]
    most, least = tokens["cl100k_base (GPT-3.5/4)"], tokens["deepseek V4 (129k)"]
    assert (most, least, round(most / least, 2)) == (3649, 2180, 1.67)
