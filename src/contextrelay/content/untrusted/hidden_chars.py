"""Hidden characters: invisible characters by kind, and their visible notation.

Rule: the ranges are written out here instead of using Python's Unicode database, so that a body has
the same preview on every Python version.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

# A single carriage return is hidden: a terminal then overwrites the line.
_LONE_CARRIAGE_RETURN = r"\r(?!\n)"

# Each range is a fact from the Unicode standard; the names are shown in `Preview.patterns`.
_KINDS: tuple[tuple[str, str], ...] = (
    ("ansi-escape", r"[\x1b\x9b]"),
    ("control-character", r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9a\x9c-\x9f]"),
    ("line-separator", r"[\u2028\u2029]"),
    ("bidi-control", r"[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"),
    # Also soft hyphen, grapheme joiner, Mongolian vowel separator, word joiner and byte order mark.
    ("zero-width", r"[\u00ad\u034f\u180e\u200b-\u200d\u2060\ufeff]"),
    ("variation-selector", r"[\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]"),
    ("tag-character", r"[\U000e0000-\U000e007f]"),
    # Fillers, the Braille blank, invisible operators, annotation anchors, format controls of
    # shorthand, music and hieroglyphs, and the rest of the default-ignorable plane 14.
    (
        "invisible-character",
        (
            r"[\u115f\u1160\u17b4\u17b5\u2061-\u2065\u206a-\u206f\u2800\u3164\uffa0\ufff0-\ufffc"
            r"\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a"
            r"\U000e0080-\U000e00ff\U000e01f0-\U000e0fff]"
        ),
    ),
    (
        "noncharacter",
        "[\ufdd0-\ufdef"
        + "".join(f"{chr(plane << 16 | 0xFFFE)}{chr(plane << 16 | 0xFFFF)}" for plane in range(17))
        + "]",
    ),
    ("private-use", r"[\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd]"),
    ("lone-surrogate", r"[\ud800-\udfff]"),
)


# Compiled when first needed: most texts need neither, and commands start 2 ms faster.
@cache
def _hidden() -> re.Pattern[str]:
    # A single class is matched many times faster than eleven alternatives.
    every = "".join(ranges[1:-1] for _, ranges in _KINDS)
    return re.compile(f"[{every}]|{_LONE_CARRIAGE_RETURN}")


@cache
def hidden_in_script() -> str:
    """Return the pattern of hidden characters for a JavaScript RegExp with the flag `u`."""
    pattern = re.sub(r"\\U([0-9a-f]{8})", lambda wide: chr(int(wide[1], 16)), _hidden().pattern)
    return "".join(char if char.isascii() else f"\\u{{{ord(char):x}}}" for char in pattern)


_USUAL = bytes(code for code in range(128) if 32 <= code < 127 or chr(code) in "\t\n")


def hidden_kinds(text: str) -> set[str]:
    """Return the kinds of hidden characters in a text."""
    # One of each character other than printable ASCII, tab and line feed: fast to collect.
    raw = text.encode("utf-8", "surrogatepass")
    unusual = set(raw.translate(None, _USUAL).decode("utf-8", "surrogatepass"))
    kinds = {_kind(char) for char in unusual if char != "\r" and is_hidden(char)}
    if "\r" in unusual and re.search(_LONE_CARRIAGE_RETURN, text):
        kinds.add(_kind("\r"))
    return kinds


@lru_cache(maxsize=1_024)
def _kind(char: str) -> str:
    kinds = (kind for kind, ranges in _KINDS if re.match(ranges, char))
    # The single carriage return is the only hidden character outside the ranges.
    return next(kinds, "control-character")


def spell_hidden(text: str) -> str:
    """Replace every hidden character by `<U+XXXX>`."""
    spell = _hidden().sub
    return spell(lambda char: f"<U+{ord(char[0]):04X}>", text) if hidden_kinds(text) else text


def escape_hidden(json: str) -> str:
    r"""Escape every hidden character of a JSON text as `\uXXXX`: the same value, safe to show."""
    return _hidden().sub(_escape, json) if hidden_kinds(json) else json


def _escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


@lru_cache(maxsize=8_192)
def is_hidden(char: str) -> bool:
    """Return True if this character would be replaced."""
    return _hidden().match(char) is not None


def spelled_char(token: str) -> str | None:
    """Return the hidden character that `<U+XXXX>` denotes, or None."""
    match = re.fullmatch(r"<U\+([0-9A-F]{4,6})>", token)
    number = int(match[1], 16) if match else -1
    if not 0 <= number <= 0x10FFFF:
        return None
    return chr(number) if is_hidden(chr(number)) else None
