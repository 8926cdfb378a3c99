"""Fernet: seals of format k1, with a key that stays in the URL's fragment (seed 000).

Rule: a new key is created for each push and is never sent; without the key no part of a text is
returned.
"""

from __future__ import annotations

import re
from base64 import b64decode, urlsafe_b64encode
from binascii import Error

from contextrelay.seal import keys
from contextrelay.seal.keys import CANNOT_OPEN, SealKey, decryption_error

KEY_MARK = "#key="

_TOKEN = re.compile(rb"[A-Za-z0-9_-]+={0,2}")


def seal(text: str) -> tuple[str, str]:
    """Encrypt a text for clients of seed 000; return the ciphertext and the key."""
    from cryptography.fernet import Fernet

    key = Fernet.generate_key()
    return Fernet(key).encrypt(text.encode()).decode("ascii"), key.decode("ascii")


def split_key(url: str) -> tuple[str, str | None]:
    """Split a URL for clients of seed 000; return the URL without its fragment, and the key or
    None.

    Raises:
        ValueError: the key is empty, or the # before it was percent-encoded, so that the key
        would be
            sent to the server.
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
    """Return the decrypted text, for clients of seed 000.

    Raises:
        ValueError: the key is wrong, or the text was not sealed.
    """
    try:
        _, read = keys.split_key(KEY_MARK + key)
        assert read is not None
        return open_bytes(ciphertext.encode("ascii"), read).decode()
    except ValueError:
        # The message is the same for every cause, so that it reveals nothing.
        raise ValueError(CANNOT_OPEN) from None


def seal_bytes(body: bytes, key: SealKey) -> bytes:
    """Return a body as a Fernet token."""
    from cryptography.fernet import Fernet

    return Fernet(_spelled(key)).encrypt(body)


def open_bytes(token: bytes, key: SealKey) -> bytes:
    """Return the decrypted body.

    Raises:
        Sealed: the key is wrong, or the body was not sealed.
    """
    from cryptography.fernet import Fernet, InvalidToken

    try:
        if not _is_one_spelling(token):
            raise decryption_error()
        return Fernet(_spelled(key)).decrypt(token)
    except (InvalidToken, Error, ValueError, TypeError):
        raise decryption_error() from None


def _is_one_spelling(token: bytes) -> bool:
    """Return True if a token is in its canonical form.

    Base64 decoders skip unknown characters, so that other spellings decode to the same bytes.
    """
    if not _TOKEN.fullmatch(token):
        return False
    end = token[-4:]
    return urlsafe_b64encode(b64decode(end, altchars=b"-_", validate=True)) == end


def _spelled(key: SealKey) -> bytes:
    return urlsafe_b64encode(key.secret)
