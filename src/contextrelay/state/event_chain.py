"""Event chains: a fact's body is a hash over the hash before and the event, then the event as JSON.

So every body proves itself, and all bodies before it: a change anywhere shows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from msgspec import DecodeError
from msgspec.json import Decoder, Encoder
from msgspec.structs import replace

from contextrelay.model.thread import Event

HASH_BYTES = 32

_encoder = Encoder()
_decoder = Decoder(Event)


def encode(event: Event, previous: bytes) -> bytes:
    """The body of a fact that follows the body `previous` (b"" for the first)."""
    encoded = _encoder.encode(event)
    return _link(previous[:HASH_BYTES], encoded) + encoded


def decode(body: bytes) -> Event:
    """Read an event with its hash.

    Raises:
        msgspec.DecodeError: it is none.
    """
    try:
        event = _decoder.decode(body[HASH_BYTES:])
    except UnicodeDecodeError as error:  # Of a text that is not UTF-8, msgspec raises this.
        raise DecodeError(f"invalid event: {error}") from error
    return replace(event, hash=body[:HASH_BYTES].hex())


def follows(body: bytes, previous: bytes) -> bool:
    """Whether a body is what was once written after `previous`."""
    return body[:HASH_BYTES] == _link(previous[:HASH_BYTES], body[HASH_BYTES:])


def first_break(bodies: Iterable[bytes], previous: bytes = b"") -> int | None:
    """The index of the first body that does not follow from the one before, or None."""
    for index, body in enumerate(bodies):
        if not follows(body, previous):
            return index
        previous = body
    return None


def _link(previous_hash: bytes, encoded: bytes) -> bytes:
    return hashlib.sha256(previous_hash + encoded).digest()
