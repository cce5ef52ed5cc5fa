import pytest

from kvmodel.units import KvError, format_bytes, format_seconds, format_tokens, parse_count, parse_fraction, parse_memory, parse_tokens, significant


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("100k", 100_000),
        ("100K", 100_000),
        ("1M", 10**6),
        ("128Ki", 131_072),
        ("1Mi", 2**20),
        ("1.5M", 1_500_000),
        ("5e5", 500_000),
        (" 7 ", 7),
        ("1_000", 1000),
        (42, 42),
    ],
)
def test_tokens(text, tokens):
    assert parse_tokens(text) == tokens


BAD_TOKENS = [
    "0",
    "-5",
    "12q",
    "1.5",
    "0.0005k",
    "1e-3",
    "",
    " ",
    "k",
    "128ki",
    "128KI",
    "1m",
    "1G",
    "1e999",
    "1e400000000",
    "nan",
    "inf",
    "١٢x",
    "0x10",
    "1,000",
    "9e18M",
    "1k k",
]


@pytest.mark.parametrize("text", BAD_TOKENS)
def test_tokens_refused_in_one_line(text):
    with pytest.raises(KvError) as error:
        parse_tokens(text)
    assert str(error.value).startswith("context: ")
    assert "accepted: " in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "size"),
    [("640GB", 640 * 10**9), ("80 GiB", 80 * 2**30), ("1kB", 1000), ("1.5TB", 1_500_000_000_000), ("2PiB", 2**51), ("0.71GiB", int(0.71 * 2**30))],
)
def test_memory(text, size):
    assert parse_memory(text) == size


@pytest.mark.parametrize("text", ["640Gb", "640gb", "640", "640 bananas", "0GB", "-1GB", "GB", "1KB", "1MIB", "9e99PB", "0.0001kB"])
def test_memory_refused(text):
    with pytest.raises(KvError, match="memory: "):
        parse_memory(text)


def test_counts_and_fractions():
    assert parse_count("70.6B", "params") == 70_600_000_000
    assert parse_count("1.5T", "params") == 1_500_000_000_000
    assert parse_fraction("0.9", "usable") == 0.9
    for bad in ("0", "1.1", "nan", "x", "-0.5"):
        with pytest.raises(KvError, match="usable"):
            parse_fraction(bad, "usable")


def test_words():
    assert [format_bytes(n) for n in (999, 1000, 999_600, 2.06e12, 1e21)] == ["999 B", "1 kB", "1 MB", "2.06 TB", "1,000 EB"]
    assert format_bytes(2**30, binary=True) == "1 GiB"
    assert [format_tokens(n) for n in (1, 999_999, 1_000_000, 1_048_576)] == ["1", "999,999", "1M", "1.05M"]
    assert [format_seconds(s) for s in (0, 3e-7, 0.25, 59, 600, 7200, 172_800, 4e8)] == [
        "0 s",
        "300 ns",
        "250 ms",
        "59 s",
        "10 min",
        "2 h",
        "2 days",
        "12.7 years",
    ]
    assert significant(-0.00012345) == "-0.000123"
