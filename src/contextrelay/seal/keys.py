"""Seal keys: what stands in a URL's fragment and opens what the URL stands for.

    #key=<44 characters>                    k1: a Fernet key, as seed 000 has it
    #k2=<43 characters>.<22 characters>     k2: an AES-256 key and a seal id, base64url, unpadded

Rule: a key has one spelling. Whatever differs from it by a character is no key, nothing of a key is
shown in an error, and a key that is printed does not show itself.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode

from contextrelay.errors import Sealed
from contextrelay.model.artifact import SealFormat

KEY_BYTES = 32
SEAL_ID_BYTES = 16

CANNOT_OPEN = "Failed to decrypt: Invalid or missing key"

_MARKS: dict[str, SealFormat] = {"key": "k1", "k2": "k2"}
_K1 = re.compile(r"[A-Za-z0-9_-]{43}=", re.ASCII)
_K2 = re.compile(r"([A-Za-z0-9_-]{43})\.([A-Za-z0-9_-]{22})", re.ASCII)
# A # may have been percent-encoded on the way, once or several times, and the = with it.
_IN_TEXT = re.compile(r"(#|%(?:25)*23)(key|k2)(=|%(?:25)*3D)[^\s'\"<>]*", re.IGNORECASE)


class SealKey:
    """A key, with the seal id that belongs to it where the format has one."""

    __slots__ = ("format", "seal_id", "secret")

    def __init__(self, format: SealFormat, secret: bytes, seal_id: bytes = b"") -> None:
        assert len(secret) == KEY_BYTES
        assert len(seal_id) == (SEAL_ID_BYTES if format == "k2" else 0)
        self.format: SealFormat = format
        self.secret = secret
        self.seal_id = seal_id

    def __repr__(self) -> str:
        return f"<a key of format {self.format}>"

    def __reduce__(self) -> str:
        raise TypeError("a key is not written down by accident: spell it as a fragment")

    @property
    def fragment(self) -> str:
        """The key as it stands behind a URL."""
        if self.format == "k1":
            return f"#key={_spelled(self.secret)}="
        return f"#k2={_spelled(self.secret)}.{_spelled(self.seal_id)}"


def split_key(url: str) -> tuple[str, SealKey | None]:
    """A URL, or a ref, without its fragment, and the key in that, if it is one for a key.

    Raises:
        Sealed: there is a place for a key, and what stands there is none.
    """
    bare, _, fragment = url.partition("#")
    mark, equals, spelled = fragment.partition("=")
    if not equals or mark not in _MARKS:
        return bare, None
    return bare, _read(_MARKS[mark], spelled)


def _read(format: SealFormat, spelled: str) -> SealKey:
    match = (_K1 if format == "k1" else _K2).fullmatch(spelled)
    if match is None:
        raise Sealed(CANNOT_OPEN, _why(spelled))
    texts = match.groups() or (spelled.rstrip("="),)
    parts = [urlsafe_b64decode(text + "=" * (-len(text) % 4)) for text in texts]
    # The last character of each has bits that say nothing: one spelling has them all zero.
    if [_spelled(part) for part in parts] != list(texts):
        raise Sealed(CANNOT_OPEN, _why(spelled))
    return SealKey(format, *parts)


def _spelled(part: bytes) -> str:
    return urlsafe_b64encode(part).rstrip(b"=").decode()


def _why(spelled: str) -> str:
    if "%" in spelled:
        return "the URL was percent-encoded on its way: take it as it was printed"
    if "#" in spelled:
        return "the URL has two fragments: take it as it was printed"
    return "take the whole URL as it was printed, with everything behind the #"


def cannot_open(hint: str = "") -> Sealed:
    """The one error for everything that does not open: a forger learns nothing from it."""
    return Sealed(CANNOT_OPEN, hint or "the key is not the one, or what is stored was changed")


def has_key(text: str) -> bool:
    """Whether a key, or its place, stands in a text, also where that was percent-encoded."""
    return _IN_TEXT.search(text) is not None


def hide_keys(text: str) -> str:
    """A text with the keys left out of the URLs in it."""
    return _IN_TEXT.sub(r"\1\2\3...", text) if "#" in text or "%" in text else text
