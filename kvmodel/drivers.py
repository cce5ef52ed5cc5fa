"""What makes requests long or many: agents against chat, documents, code, pictures and video, retrieval, tenants that share a prefix."""

import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from kvmodel.cards import Card
from kvmodel.demand import TRACES, servegen
from kvmodel.hardware import node
from kvmodel.placement import Sessions, place
from kvmodel.places import DATA
from kvmodel.sizing import kv_bytes
from kvmodel.tables import read
from kvmodel.tiers import LAKE_CLIENTS, capacity_bytes
from kvmodel.units import KvError, refuse

SPEC = Path(__file__).parent / "specs" / "drivers.toml"
GEMMA_4 = "aiconfigurator-095f58a"


@dataclass(frozen=True, slots=True)
class Fact:
    """One sourced number: value, unit, kind, source, date, and what it was made from."""

    value: float
    unit: str
    kind: str
    source: str
    date: str
    about: str = ""


@cache
def facts() -> dict[str, Fact]:
    """Return the sourced numbers of `specs/drivers.toml` by name; a derived one must say from what, an assumption why."""
    with SPEC.open("rb") as file:
        entries = tomllib.load(file)
    for name, e in entries.items():
        if e["value"] <= 0 or (e["kind"] == "derived" and "expression" not in e) or (e["kind"] == "assumption" and "reason" not in e):
            raise KvError(f"drivers.toml: {name} is not accepted; accepted: a value above 0, a derived one with its expression, an assumption with its reason")
    return {n: Fact(e["value"], e["unit"], e["kind"], e["source"], e["date"], _about(e)) for n, e in entries.items()}


def _about(entry: dict[str, Any]) -> str:
    return str(entry.get("expression") or entry.get("reason") or entry.get("note", ""))


def fact(name: str) -> float:
    """Return the value of a sourced number, in its own unit.

    Examples
    --------
    >>> fact("video_tokens_per_s")
    263.0
    """
    if name not in facts():
        raise refuse("fact", name, f"a number of drivers.toml: {' '.join(facts())}", facts())
    return float(facts()[name].value)


@cache
def chat_means() -> dict[str, float]:
    """Return the mean prompt tokens of chat: Kimi 2024, Azure 2023, ServeGen's large model and DeepSeek-R1.

    Examples
    --------
    >>> [round(mean) for mean in chat_means().values()]
    [12035, 1155, 914, 1269]
    """
    kimi = pd.read_json(TRACES / "mooncake_conversation.jsonl.gz", lines=True)["input_length"].mean()
    azure = pd.read_csv(TRACES / "azure_llm_2023_conv.csv.gz")["ContextTokens"].mean()
    pools = {"ServeGen m-large": "language/m-large", "ServeGen DeepSeek-R1": "reason/deepseek-r1"}
    return {"Kimi chat 2024": float(kimi), "Azure chat 2023": float(azure)} | {n: servegen(p, "input_tokens").mean for n, p in pools.items()}


@cache
def agent_sessions() -> dict[str, float]:
    """Return what the coding-agent sessions hold: means and medians of tokens, as `mean_input`, `median_input`, `mean_output`, ... per request and session.

    Examples
    --------
    >>> round(agent_sessions()["mean_input"]), round(agent_sessions()["median_input"])
    (122379, 103659)
    """
    table = pd.read_csv(TRACES / "weka_cc_requests.csv.gz", usecols=["trace", "inp", "out"])
    by = table.groupby("trace")["inp"]
    peak, processed = by.max(), by.sum()
    return {
        "requests": float(len(table)), "sessions": float(table["trace"].nunique()), "mean_input": float(table["inp"].mean()),
        "median_input": float(table["inp"].median()), "p10_input": float(table["inp"].quantile(0.1)), "p90_input": float(table["inp"].quantile(0.9)),
        "mean_output": float(table["out"].mean()), "median_output": float(table["out"].median()),
        "input_per_output": float(table["inp"].sum() / table["out"].sum()),
        "median_peak": float(peak.median()), "p90_peak": float(peak.quantile(0.9)), "median_processed": float(processed.median()),
        "mean_processed": float(processed.mean()),
    }  # fmt: skip


def quoted(measure: str, part: int = 1) -> float:
    """Return a published number of `data/demand_multipliers.csv` by the start of its measure and its place in the printed list.

    Examples
    --------
    >>> quoted("Epoch: reasoning vs non-reasoning")
    8.0
    """
    table = read("demand_multipliers")
    found = table[table["measure"].str.startswith(measure) & (table["part"] == part)]["value"].dropna()
    if len(found) != 1:
        raise refuse("measure", f"{measure} {part}", "the start of one measure of demand_multipliers.csv that has a number", sorted(set(table["measure"])))
    return float(found.iloc[0])


def agent_multipliers() -> pd.DataFrame:
    """Return how many times agents exceed chat, by what is compared: columns `compared what value kind source`, least first.

    `context` is tokens in a request (mean over mean), `task` is tokens used for a task, which is work done and not memory held at a time.
    """
    agent = agent_sessions()["mean_input"]
    of = {"Kimi chat 2024": "mooncake-traces", "Azure chat 2023": "azure-llm-2023"}
    rows = [(f"Claude Code / {n}", "context", agent / m, "measured", f"kv-cache-tester {of.get(n, 'servegen')}") for n, m in chat_means().items()]
    rows += [
        ("Kimi tool & agent / chat, 2024", "context", quoted("Context per request: Kimi tool&agent"), "measured", "mooncake-paper"),
        ("agents / chat (Anthropic)", "task", quoted("Anthropic: agents vs chat"), "claimed", "anthropic-multi-agent"),
        ("multi-agent / chat (Anthropic)", "task", quoted("Anthropic: agents vs chat", 2), "claimed", "anthropic-multi-agent"),
        ("coding agents / code chat", "task", quoted("arXiv 2604.22750"), "measured", "agentic-coding-tokens-2026"),
    ]
    return pd.DataFrame(rows, columns=["compared", "what", "value", "kind", "source"]).sort_values(["what", "value"], ignore_index=True)


def reasoning_request() -> tuple[float, float, float]:
    """Return the mean prompt and output tokens of a DeepSeek-R1 request in production, and the share of output tokens that are reasoning.

    Examples
    --------
    >>> [round(x, 2) for x in reasoning_request()]
    [1268.55, 1527.45, 0.74]
    """
    means = [servegen("reason/deepseek-r1", f).mean for f in ("input_tokens", "output_tokens")]
    return means[0], means[1], fact("reasoning_token_share")


def things() -> pd.DataFrame:
    """Return the tokens of one thing that a request may carry, fewest first: columns `thing tokens kind basis source`."""
    qwen = _config("Qwen__Qwen3-VL-235B-A22B-Instruct")["vision_config"]
    side = fact("image_side") / (qwen["patch_size"] * qwen["spatial_merge_size"])
    counts = read("tokenizers").set_index("tokenizer").loc["deepseek V4 (129k)"]
    code = fact("code_base_lines") * fact("code_line_chars") * counts["python_heapq_tokens"] / counts["python_heapq_chars"]
    rows = [
        ("picture, Gemma 3", _config("google__gemma-3-27b-it")["mm_tokens_per_image"], "model-config", "mm_tokens_per_image", "maxtext-e591f30"),
        ("picture, Gemma 4", _config("google__gemma-4-26B-A4B")["vision_soft_tokens_per_image"], "model-config", "vision_soft_tokens_per_image", GEMMA_4),
        ("picture of 1024 x 1024, Qwen3-VL", side**2, "derived", "one token per 32 x 32 pixels: patch size x merge size", "aiconfigurator-095f58a"),
        ("English novel", fact("tokens_per_novel"), "claimed", "one million tokens / 8", "google-long-context-docs"),
        ("hour of video, Gemini", 3600 * fact("video_tokens_per_s"), "claimed", "263 tokens a second", "gemini-by-example-tokens"),
        ("code base of 50,000 lines", code, "derived", "80 characters a line, tokens per character of heapq.py", "google-long-context-docs"),
    ]
    return pd.DataFrame(rows, columns=["thing", "tokens", "kind", "basis", "source"]).astype({"tokens": float}).sort_values("tokens", ignore_index=True)


def _config(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DATA / "configs" / f"{name}.json").read_text("utf-8"))
    return found


def corpus(cards: Sequence[Card]) -> pd.DataFrame:
    """Return what keeping a library for retrieval takes: columns `kept bytes_per_token bytes share_of_lake`, least first.

    The library is English Wikipedia: words * characters per word * tokens per character. Kept is its text, one vector per chunk, or the KV of each document
    computed once, in bf16 (each document starts at its own position 0, so states and windows count once per document).
    """
    counts = read("tokenizers").set_index("tokenizer").loc["deepseek V4 (129k)"]
    chars = fact("corpus_words") * fact("chars_per_word")
    tokens = chars * counts["english_tokens"] / counts["english_chars"]
    documents = fact("corpus_documents")
    each = max(1, round(tokens / documents))
    sizes = {"its text": chars, "vectors, one per chunk": tokens / fact("chunk_tokens") * fact("vector_bytes")}
    sizes |= {f"KV, {c.id}": float(kv_bytes(c, each)) * documents for c in cards}
    lake = float(LAKE_CLIENTS * capacity_bytes(node("h100-8"), "data-lake"))
    rows = [(kept, n / tokens, n, n / lake) for kept, n in sizes.items()]
    return pd.DataFrame(rows, columns=["kept", "bytes_per_token", "bytes", "share_of_lake"]).sort_values("bytes", ignore_index=True)


def tenants(one: Card, count: int, users_each: float, context_tokens: int, shared_tokens: int) -> float:
    """Return the bytes that tenants keep in all: each has a prefix of its own, one copy for all its users, and private tokens for each of them.

    Examples
    --------
    >>> from kvmodel import card
    >>> one, each = (tenants(card("llama-3.3-70b"), n, 1000 / n, 6000, 3000) for n in (1, 1000))
    >>> round(one / each, 2)
    0.5
    """
    group = Sessions("tenants", users_each, context_tokens, context_tokens - shared_tokens, 1.0, ((0.0, 1.0),), shared_tokens)
    return count * sum(load.resident_bytes for load in place(one, [group]))


@cache
def common_prefix() -> int:
    """Return the tokens that open every request of the Kimi chat trace: leading blocks of 512 that all requests have.

    Examples
    --------
    >>> common_prefix()
    512
    """
    blocks = pd.read_json(TRACES / "mooncake_conversation.jsonl.gz", lines=True)["hash_ids"]
    first = blocks.iloc[0]
    return 512 * next((n for n in range(len(first)) if not blocks.map(lambda b, n=n: len(b) > n and b[n] == first[n]).all()), len(first))


def sessions_for(total_bytes: float, one: Card, tokens: int) -> float:
    """Return how many sessions of this length fill this memory: total / KV of one session, in bf16.

    Examples
    --------
    >>> from kvmodel import card
    >>> round(sessions_for(10e12, card("llama-3.1-405b"), 1_000_000), 1)
    19.4
    """
    return total_bytes / int(kv_bytes(one, tokens))
