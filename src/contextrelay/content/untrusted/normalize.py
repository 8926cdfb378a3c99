"""Folding: normalise a text to what a model would read, so that disguised phrases are recognised.

Letters become plain lower-case ASCII whatever their form (case, accents, width, mathematical
alphabets, look-alikes from other scripts). Hidden characters, combining marks and the tokens that
defusing writes become NUL, which separates words but is ignored by every pattern. Every other
non-ASCII character becomes one placeholder.

Rule: a text and its defused form fold to the same text, up to the number of consecutive NULs. This
is what makes defusing idempotent.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cached_property, lru_cache

from contextrelay.content.untrusted.hidden_chars import is_hidden, spelled_char

SANITIZED = "[SANITIZED]"
TOKEN = re.compile(r"\[SANITIZED\]|<U\+[0-9A-F]{4,6}>")
GAP = "\0"

_UNKNOWN = "\x02"
# Up to this number of passes is faster than looking up every character.
_REPLACED_MAX = 16
_LINE_BREAKS = "\x0b\x0c\r\x85\u2028\u2029"

# Look-alikes of Latin letters that do not decompose into them; then letters that Unicode classifies
# as symbols: negative circled and squared ones, and flags.
_LOOKALIKES = {
    **dict(
        zip(
            "авекмнорстухіјѕһԁԛԝѵгипьӏАВЕКМНОРСТУХІЈЅҺԀԚԜѴ"
            "αβεηικνορτυχωγΑΒΕΖΗΙΚΜΝΟΡΤΥΧ"
            "ıɡɑɩøłđħŧƚØŁĐĦŦɪʙɢʜʟɴʀʏᴀᴄᴅᴇᴊᴋᴍᴏᴘᴛᴜᴠᴡᴢꜰꜱǫօոսհ▁∣ǀ",
            "abekmhopctyxijshdqwvrunblabekmhopctyxijshdqwv"
            "abenikvoptuxwyabezhikmnoptyx"
            "igaioldhtloldhtibghlnryacdejkmoptuvwzfsqonuh_||",
            strict=True,
        )
    ),
    **{
        chr(first + index): letter
        for first in (0x1F150, 0x1F170, 0x1F1E6)
        for index, letter in enumerate("abcdefghijklmnopqrstuvwxyz")
    },
}


class Folded:
    """A folded text, with the original position of each character."""

    def __init__(self, text: str, padded: str) -> None:
        self.text = text
        self._padded = padded

    @cached_property
    def starts(self) -> Sequence[int]:
        """One longer than `text`: the last is the length of the original."""
        size = len(self._padded)
        if len(self.text) == size:  # No character is dropped, so each became exactly one.
            return range(size + 1)
        return [*(index for index, char in enumerate(self._padded) for _ in fold_char(char)), size]

    def whole(self, start: int, stop: int) -> tuple[int, int]:
        """Widen a span so that it does not split a character of the original."""
        while start > 0 and self.starts[start - 1] == self.starts[start]:
            start -= 1
        while stop < len(self.text) and self.starts[stop] == self.starts[stop - 1]:
            stop += 1
        return start, stop


def fold(text: str) -> Folded:
    """Fold a text and keep the mapping to the original."""
    padded = TOKEN.sub(_gap, text) if "<U+" in text or SANITIZED in text else text
    raw = padded.encode("utf-8", "surrogatepass")
    plain = raw.translate(_ASCII_FOLDS)
    if len(plain) == len(padded):
        return Folded(plain.decode("ascii"), padded)
    # Each distinct non-ASCII character once: most texts have a few, repeated often.
    others = set(raw.translate(None, _ASCII).decode("utf-8", "surrogatepass"))
    text = plain.decode("utf-8", "surrogatepass")
    if len(others) > _REPLACED_MAX:
        return Folded(text.translate({ord(char): fold_char(char) for char in others}), padded)
    for char in others:
        text = text.replace(char, fold_char(char))
    return Folded(text, padded)


def _gap(match: re.Match[str]) -> str:
    token = match[0]
    if token == SANITIZED:
        return GAP * len(token)
    char = spelled_char(token)
    if char is None and token != "<U+000D>":
        return token
    return fold_char(char or "\r") + GAP * (len(token) - 1)


@lru_cache(maxsize=8_192)
def fold_char(char: str) -> str:
    """Fold one character into one or, for ligatures and the like, several."""
    if char in "\t\n":
        return char
    if char == "\r" or is_hidden(char):
        return "\n" if char in _LINE_BREAKS else GAP
    if char.isascii():
        return char.lower()
    if char in _LOOKALIKES:
        return _LOOKALIKES[char]
    parts = [
        part.lower() if part.isascii() else _LOOKALIKES.get(part, _UNKNOWN)
        for part in unicodedata.normalize("NFKD", char)
        if not unicodedata.category(part).startswith("M")
    ]
    if not parts:
        return GAP
    if all(part == _UNKNOWN for part in parts):
        return " " if char.isspace() else _UNKNOWN
    return "".join(parts)


_ASCII = bytes(range(128))
# For UTF-8 bytes, in which non-ASCII characters contain no ASCII byte.
_ASCII_FOLDS = bytes(
    ord(fold_char(chr(code))) if code < 128 else code  # One to one.
    for code in range(256)
)
