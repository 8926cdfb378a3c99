"""Patience: how long a server waits for a client, and how much it takes on at a time."""

from __future__ import annotations

from msgspec import Struct

from contextrelay.limits import (
    BODY_IDLE_S,
    CONNECTIONS_MAX,
    HEAD_S_MAX,
    HELD_BODIES_BYTES_MAX,
    SLOW_READER_S,
    UPLOADS_MAX,
)


class Patience(Struct, frozen=True, kw_only=True):
    """The bounds of one server process."""

    head_s: float = HEAD_S_MAX
    """From a connection's first moment, or a request's first byte, to the end of its headers."""
    body_s: float = BODY_IDLE_S
    """In which as much of a body has to come as its pace demands, or its end."""
    read_s: float = SLOW_READER_S
    """In which some of a reply has to be read: `READ_PACE_BYTES`."""
    connections: int = CONNECTIONS_MAX
    held_bytes: int = HELD_BODIES_BYTES_MAX
    """Of bodies that are held in memory until they are whole."""
    uploads: int = UPLOADS_MAX
    """Bodies on their way in, at a time."""
