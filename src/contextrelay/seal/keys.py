"""Seal keys: the fragment of a URL that decrypts its content.

    #key=<44 characters>                    k1: a Fernet key, as in seed 000
    #k2=<43 characters>.<22 characters>     k2: an AES-256 key and a seal id, base64url, unpadded

Rule: a key has only one valid spelling, so that a key with one changed character is invalid. No
error shows any part of a key, and printing a key does not reveal it.
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
# The # and the = may be percent-encoded, once or several times.
_IN_TEXT = re.compile(r"(#|%(?:25)*23)(key|k2)(=|%(?:25)*3D)[^\s'\"<>]*", re.IGNORECASE)


class SealKey:
    """A key for sealed content, with its seal id if the format has one."""

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
        raise TypeError(
            "a seal key cannot be pickled, so that it is not stored by accident: use its fragment"
        )

    @property
    def fragment(self) -> str:
        """The key as the fragment of a URL."""
        if self.format == "k1":
            return f"#key={_spelled(self.secret)}="
        return f"#k2={_spelled(self.secret)}.{_spelled(self.seal_id)}"


def split_key(url: str) -> tuple[str, SealKey | None]:
    """Return a URL or ref without its fragment, and the key in the fragment; None if there is no
    fragment.

    Raises:
        Sealed: the fragment is a malformed key.
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
    # The last character has unused bits. In the one valid spelling they are all zero.
    if [_spelled(part) for part in parts] != list(texts):
        raise Sealed(CANNOT_OPEN, _why(spelled))
    return SealKey(format, *parts)


def _spelled(part: bytes) -> str:
    return urlsafe_b64encode(part).rstrip(b"=").decode()


def _why(spelled: str) -> str:
    if "%" in spelled:
        return "the URL was percent-encoded: use it exactly as it was printed"
    if "#" in spelled:
        return "the URL has two fragments: use it exactly as it was printed"
    return "use the whole URL exactly as it was printed, including everything after the #"


def decryption_error(hint: str = "") -> Sealed:
    """Return the error for a failed decryption.

    It is the same for every cause, so that a forger learns nothing.
    """
    return Sealed(CANNOT_OPEN, hint or "the key is wrong, or the stored data was changed")


def has_key(text: str) -> bool:
    """Return True if a text contains a key or the start of one (#key= or #k2=), also
    percent-encoded.
    """
    return _IN_TEXT.search(text) is not None


def hide_keys(text: str) -> str:
    """Return a text in which the keys in URLs are hidden."""
    return _IN_TEXT.sub(r"\1\2\3...", text) if "#" in text or "%" in text else text
