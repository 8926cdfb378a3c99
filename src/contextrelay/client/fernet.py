"""Fernet: text sealed on this side, with a key that stays in the URL's fragment (seed 000).

Rule: a key is made for each push and is never sent; who cannot open a text gets none of it.
"""

from __future__ import annotations

KEY_MARK = "#key="
CANNOT_OPEN = "Failed to decrypt: Invalid or missing key"


def seal(text: str) -> tuple[str, str]:
    """A text as ciphertext, and the key that opens it."""
    from cryptography.fernet import Fernet

    key = Fernet.generate_key()
    return Fernet(key).encrypt(text.encode()).decode("ascii"), key.decode("ascii")


def split_key(url: str) -> tuple[str, str | None]:
    """A URL without its fragment, and the key in it if there is one.

    Raises:
        ValueError: there is a place for a key, and nothing in it.
    """
    bare, _, fragment = url.partition("#")
    if not fragment.startswith("key="):
        return bare, None
    key = fragment.removeprefix("key=")
    if not key:
        raise ValueError(CANNOT_OPEN)
    return bare, key


def unseal(ciphertext: str, key: str) -> str:
    """The text that was sealed.

    Raises:
        ValueError: this key does not open it, or it was not sealed.
    """
    from cryptography.fernet import Fernet, InvalidToken

    try:
        return Fernet(key.encode("ascii")).decrypt(ciphertext.encode("ascii")).decode()
    except (InvalidToken, ValueError, TypeError) as error:
        raise ValueError(CANNOT_OPEN) from error
