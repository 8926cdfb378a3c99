"""Sealed bodies as a server sees them: how large they may be, whether they can be what they say.

Rule: nothing here needs a key, and nothing here believes that a body is sealed: it is only seen to
that one which says so looks like it, so that nobody takes a plain body for a secret one.
"""

from __future__ import annotations

import re

from contextrelay.errors import Refused
from contextrelay.logic.seal.stream import is_k2, sealed_size
from contextrelay.model.artifact import SealFormat

# Of a Fernet token: version, time, initial vector and tag, with at least one block between.
_AROUND_BYTES = 1 + 8 + 16 + 32
_BLOCK_BYTES = 16
_START = b"gAAAAA"
_TOKEN = re.compile(rb"[A-Za-z0-9_-]+={0,2}")


def sealed_bytes_max(sealed: SealFormat | None, body_bytes_max: int) -> int:
    """How large a body may be that holds, sealed, one of the largest size."""
    if sealed == "k1":
        padded = body_bytes_max // _BLOCK_BYTES * _BLOCK_BYTES + _BLOCK_BYTES
        return (_AROUND_BYTES + padded + 2) // 3 * 4
    return body_bytes_max if sealed is None else sealed_size(body_bytes_max)


def check_sealed(sealed: SealFormat, head: bytes, size_bytes: int) -> None:
    """Let a body pass that can have been sealed as it says.

    Raises:
        Refused: it cannot.
    """
    if not (is_k1(head, size_bytes) if sealed == "k1" else is_k2(head)):
        raise Refused(
            f"the body is not sealed as {sealed}, as it says",
            "seal it before it is pushed, or leave out `sealed`",
        )


def is_k1(head: bytes, size_bytes: int) -> bool:
    """Whether a body of that size, which begins so, has the form of a Fernet token."""
    if not head.startswith(_START) or size_bytes % 4 or not _TOKEN.fullmatch(head):
        return False
    if len(head) < size_bytes:
        return True
    token_bytes = size_bytes // 4 * 3 - head.count(b"=")
    blocks_bytes = token_bytes - _AROUND_BYTES
    return blocks_bytes > 0 and blocks_bytes % _BLOCK_BYTES == 0
