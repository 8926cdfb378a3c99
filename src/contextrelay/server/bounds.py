"""Limits of a server process, and accounting of the request bodies that it is receiving.

Each body has its own size limit. The limits in this module apply to all bodies that one caller
sends at the same time, and to all bodies that a process receives. A caller is a key, or a network
address if no key is required.

Rule: a caller over a limit is refused at once, and no caller can use up the share of others.
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

# Seconds within which a client must send its headers.
HEAD_S_MAX = 10
# The minimum bytes per second of a body, checked every BODY_IDLE_S seconds, and the total time
# limit BODY_S_MAX.
BODY_IDLE_S = 30
# The maximum share of the free space in the temporary folder that one caller may use.
UPLOADS_ROOM_SHARE = 2
UPLOAD_RETRY_S = 2


class ServerBounds(Struct, frozen=True, kw_only=True):
    """Timeouts and limits of one server process."""

    head_s: float = HEAD_S_MAX
    """Seconds from the start of a connection, or from the first byte of a request, to the end of
    its headers.
    """
    body_s: float = BODY_IDLE_S
    """Seconds within which a body must either keep its minimum pace or end."""
    read_s: float = SLOW_READER_S
    """Seconds within which a client must read `READ_PACE_BYTES` of a response."""
    connections: int = CONNECTIONS_MAX
    held_bytes: int = HELD_BODIES_BYTES_MAX
    """Maximum total size of bodies that are held in memory until they are complete."""
    uploads: int = UPLOADS_MAX
    """Maximum number of bodies received at the same time."""


# The quantities that are counted for received bodies, per caller and in total.
UPLOADS, MEMORY_BYTES, FILE_BYTES = range(3)


class IncomingBodies:
    """The bodies that one server process is receiving."""

    def __init__(self, memory_bytes_max: int, uploads_max: int = UPLOADS_MAX) -> None:
        self._bounds = (
            (uploads_max, min(UPLOADS_BY_ONE_MAX, max(1, uploads_max // 2))),
            (memory_bytes_max, min(HELD_BY_ONE_BYTES_MAX, memory_bytes_max)),
            (UPLOADS_BYTES_MAX, UPLOADS_BY_ONE_BYTES_MAX),
        )
        """For each quantity, the limit for all callers together and the limit for one caller."""
        self._all = [0, 0, 0]
        self._by_caller: dict[str, list[int]] = {}

    @property
    def held_bytes(self) -> int:
        """Return the total size in bytes held in memory and in files."""
        return self._all[MEMORY_BYTES] + self._all[FILE_BYTES]

    @property
    def uploads(self) -> int:
        return self._all[UPLOADS]

    def begin(self, caller: str, announced_bytes: int, in_file: bool) -> IncomingBody:
        """Start to count one more body. `announced_bytes` is 0 if the size of the body is unknown.

        Raises:
            Limited: the caller exceeds its share.
            Unavailable: all callers together exceed the limit.
            Full: the temporary folder has no room for the body.
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
                f"too many uploads: {self._all[counted]:,} {unit} are being received",
                "retry later",
                {RETRY_AFTER: UPLOAD_RETRY_S},
            )
        if own[counted] + amount > by_one_max:
            raise Limited(
                f"too many uploads by this caller: {own[counted]:,} {unit} are being received",
                "send fewer uploads at the same time",
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
    """A body that is being received; it counts until its request is answered."""

    __slots__ = ("_caller", "_counts", "_incoming", "_own")

    def __init__(self, incoming: IncomingBodies, caller: str, own: list[int]) -> None:
        self._incoming = incoming
        self._caller = caller
        self._own = own
        self._counts = [1, 0, 0]

    def put(self, size_bytes: int, counted: int = MEMORY_BYTES) -> None:
        """Reserve memory or, with `counted=FILE_BYTES`, space in the temporary folder.

        Raises:
            Limited, Unavailable, Full: there is no room.
        """
        self._incoming.check(self._own, counted, size_bytes)
        self._incoming.add(self._own, counted, size_bytes)
        self._counts[counted] += size_bytes

    def end(self) -> None:
        """Release the memory and space that were reserved."""
        self._incoming.end(self._caller, self._own, self._counts)


def no_room() -> RelayError:
    """Return the error for a full temporary folder."""
    return Full(
        "not enough space on the server to receive this body",
        "send a smaller body; the administrator can enlarge the temporary folder",
    )
