"""Fernet: seals of format k1, with a key that stays in the URL's fragment (seed 000).

Rule: a key is made for each push and is never sent; who cannot open a text gets none of it.
"""

from __future__ import annotations

import re
from base64 import b64decode, urlsafe_b64encode
from binascii import Error

from contextrelay.seal import keys
from contextrelay.seal.keys import CANNOT_OPEN, SealKey, cannot_open

KEY_MARK = "#key="

_TOKEN = re.compile(rb"[A-Za-z0-9_-]+={0,2}")


def seal(text: str) -> tuple[str, str]:
    """A text as ciphertext, and the key that opens it, for clients of seed 000."""
    from cryptography.fernet import Fernet

    key = Fernet.generate_key()
    return Fernet(key).encrypt(text.encode()).decode("ascii"), key.decode("ascii")


def split_key(url: str) -> tuple[str, str | None]:
    """A URL without its fragment, and the key in it if there is one, for clients of seed 000.

    Raises:
        ValueError: there is a place for a key, and nothing in it, or it was percent-encoded: then
            it would be sent to the server.
    """
    bare, _, fragment = url.partition("#")
    if keys.has_key(bare):
        raise ValueError(CANNOT_OPEN)
    if not fragment.startswith("key="):
        return bare, None
    key = fragment.removeprefix("key=")
    if not key:
        raise ValueError(CANNOT_OPEN)
    return bare, key


def unseal(ciphertext: str, key: str) -> str:
    """The text that was sealed, for clients of seed 000.

    Raises:
        ValueError: this key does not open it, or it was not sealed.
    """
    try:
        _, read = keys.split_key(KEY_MARK + key)
        assert read is not None
        return open_bytes(ciphertext.encode("ascii"), read).decode()
    except ValueError:
        # One message for every cause, so that it gives nothing away.
        raise ValueError(CANNOT_OPEN) from None


def seal_bytes(body: bytes, key: SealKey) -> bytes:
    """A body as a Fernet token."""
    from cryptography.fernet import Fernet

    return Fernet(_spelled(key)).encrypt(body)


def open_bytes(token: bytes, key: SealKey) -> bytes:
    """The body that was sealed.

    Raises:
        Sealed: this key does not open it, or it was not sealed.
    """
    from cryptography.fernet import Fernet, InvalidToken

    try:
        if not _is_one_spelling(token):
            raise cannot_open()
        return Fernet(_spelled(key)).decrypt(token)
    except (InvalidToken, Error, ValueError, TypeError):
        raise cannot_open() from None


def _is_one_spelling(token: bytes) -> bool:
    """Whether a token is spelled as it was made: base64 readers skip what they do not know."""
    if not _TOKEN.fullmatch(token):
        return False
    end = token[-4:]
    return urlsafe_b64encode(b64decode(end, altchars=b"-_", validate=True)) == end


def _spelled(key: SealKey) -> bytes:
    return urlsafe_b64encode(key.secret)
