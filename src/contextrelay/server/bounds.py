"""The bounds of a server process, and how much room bodies on their way in take of it.

Each body has a bound of its own; these are the bounds of all that one caller sends at a time, and
of all that a process takes in. A caller is a key, or an address where no key is asked for.

Rule: who passes a bound is refused at once, and what one caller sends leaves room for the others.
"""

from __future__ import annotations

import shutil
import tempfile

from msgspec import Struct

from contextrelay.errors import Full, Limited, RelayError, Unavailable
from contextrelay.limits import (
    CONNECTIONS_MAX,
    HELD_BODIES_BYTES_MAX,
    HELD_BY_ONE_BYTES_MAX,
    SLOW_READER_S,
    UPLOAD_MEMORY_BYTES,
    UPLOADS_BY_ONE_BYTES_MAX,
    UPLOADS_BY_ONE_MAX,
    UPLOADS_BYTES_MAX,
    UPLOADS_MAX,
)
from contextrelay.server.auth import RETRY_AFTER

# How long a client may take to send its headers.
HEAD_S_MAX = 10
# A body comes at this pace at least, looked at every BODY_IDLE_S, and is all here after BODY_S_MAX.
BODY_IDLE_S = 30
# One caller takes at most this part of the room that the temporary folder has.
UPLOADS_ROOM_SHARE = 2
UPLOAD_RETRY_S = 2


class ServerBounds(Struct, frozen=True, kw_only=True):
    """How long one server process waits for a client, and how much it takes on at a time."""

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


# What is counted of bodies on their way in, for each caller and for all.
UPLOADS, MEMORY_BYTES, FILE_BYTES = range(3)


class IncomingBodies:
    """The bodies that one server process is taking in."""

    def __init__(self, memory_bytes_max: int, uploads_max: int = UPLOADS_MAX) -> None:
        self._bounds = (
            (uploads_max, min(UPLOADS_BY_ONE_MAX, max(1, uploads_max // 2))),
            (memory_bytes_max, min(HELD_BY_ONE_BYTES_MAX, memory_bytes_max)),
            (UPLOADS_BYTES_MAX, UPLOADS_BY_ONE_BYTES_MAX),
        )
        """The most for all callers together and for one, of each that is counted."""
        self._all = [0, 0, 0]
        self._by_caller: dict[str, list[int]] = {}

    @property
    def held_bytes(self) -> int:
        """The size of what is held in memory and in files."""
        return self._all[MEMORY_BYTES] + self._all[FILE_BYTES]

    @property
    def uploads(self) -> int:
        return self._all[UPLOADS]

    def begin(self, caller: str, announced_bytes: int, in_file: bool) -> IncomingBody:
        """Count one more body; `announced_bytes` is 0 where its size is not known.

        Raises:
            Limited: the caller sends too much at a time. Unavailable: all callers together do.
            Full: the temporary folder has no room for it.
        """
        own = self._by_caller.get(caller) or [0, 0, 0]
        self.check(own, UPLOADS, 1)
        if not in_file:
            self.check(own, MEMORY_BYTES, announced_bytes)
        elif announced_bytes > UPLOAD_MEMORY_BYTES:
            self.check(own, FILE_BYTES, announced_bytes)
        self._by_caller[caller] = own
        self.add(own, UPLOADS, 1)
        return IncomingBody(self, caller, own)

    def check(self, own: list[int], counted: int, amount: int) -> None:
        unit = "bodies" if counted == UPLOADS else "bytes"
        all_max, by_one_max = self._bounds[counted]
        if self._all[counted] + amount > all_max:
            raise Unavailable(
                f"{self._all[counted]:,} {unit} are being taken in already",
                "try again later",
                {RETRY_AFTER: UPLOAD_RETRY_S},
            )
        if own[counted] + amount > by_one_max:
            raise Limited(
                f"{own[counted]:,} {unit} are being taken in from you already",
                "send fewer at a time",
                {RETRY_AFTER: UPLOAD_RETRY_S},
            )
        if counted == FILE_BYTES:
            room_bytes = own[counted] + shutil.disk_usage(tempfile.gettempdir()).free
            if own[counted] + amount > room_bytes // UPLOADS_ROOM_SHARE:
                raise no_room()

    def add(self, own: list[int], counted: int, amount: int) -> None:
        own[counted] += amount
        self._all[counted] += amount

    def end(self, caller: str, own: list[int], counts: list[int]) -> None:
        for counted, amount in enumerate(counts):
            self.add(own, counted, -amount)
        if not own[UPLOADS]:
            del self._by_caller[caller]


class IncomingBody:
    """One body on its way in, until its request is answered."""

    __slots__ = ("_caller", "_counts", "_incoming", "_own")

    def __init__(self, incoming: IncomingBodies, caller: str, own: list[int]) -> None:
        self._incoming = incoming
        self._caller = caller
        self._own = own
        self._counts = [1, 0, 0]

    def put(self, size_bytes: int, counted: int = MEMORY_BYTES) -> None:
        """Make room in memory, or for FILE_BYTES in the temporary folder.

        Raises:
            Limited, Unavailable, Full: there is none.
        """
        self._incoming.check(self._own, counted, size_bytes)
        self._incoming.add(self._own, counted, size_bytes)
        self._counts[counted] += size_bytes

    def end(self) -> None:
        """Give all of it back."""
        self._incoming.end(self._caller, self._own, self._counts)


def no_room() -> RelayError:
    """The error for a temporary folder that is full."""
    return Full(
        "the server has no room to take in this body",
        "small ones are still taken; who runs this relay gives its temporary folder more room",
    )
