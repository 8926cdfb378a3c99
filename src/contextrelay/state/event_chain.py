"""Event chains: each body starts with a hash over the hash of the previous body and the event,
followed by the event as JSON.

So every body authenticates itself and all bodies before it, and any change is detected.
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
    """Return an event as the body that follows the body `previous`; b"" if it is the first."""
    encoded = _encoder.encode(event)
    return _link(previous[:HASH_BYTES], encoded) + encoded


def decode(body: bytes) -> Event:
    """Return the event in a body, with its hash.

    Raises:
        msgspec.DecodeError: the body is invalid.
    """
    try:
        event = _decoder.decode(body[HASH_BYTES:])
    except UnicodeDecodeError as error:  # msgspec raises UnicodeDecodeError for invalid UTF-8.
        raise DecodeError(f"invalid event: {error}") from error
    return replace(event, hash=body[:HASH_BYTES].hex())


def is_linked(body: bytes, previous: bytes) -> bool:
    """Return True if a body was written directly after `previous`."""
    return body[:HASH_BYTES] == _link(previous[:HASH_BYTES], body[HASH_BYTES:])


def first_break(bodies: Iterable[bytes], previous: bytes = b"") -> int | None:
    """Return the index of the first body that does not follow from the previous one, or None."""
    for index, body in enumerate(bodies):
        if not is_linked(body, previous):
            return index
        previous = body
    return None


def _link(previous_hash: bytes, encoded: bytes) -> bytes:
    return hashlib.sha256(previous_hash + encoded).digest()
