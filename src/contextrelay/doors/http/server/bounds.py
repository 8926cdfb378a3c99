"""The bounds of a server process, and how much room bodies on their way in take of it.

Each body has a bound of its own; these are the bounds of all that one caller sends at a time, and
of all that a process takes in. A caller is a key, or an address where no key is asked for.

Rule: who passes a bound is refused at once, and what one caller sends leaves room for the others.
"""

from __future__ import annotations

import shutil
import tempfile

from msgspec import Struct

from contextrelay.doors.http.server.auth import RETRY_AFTER
from contextrelay.errors import Full, Limited, RelayError, Unavailable
from contextrelay.limits import (
    BODY_IDLE_S,
    CONNECTIONS_MAX,
    HEAD_S_MAX,
    HELD_BODIES_BYTES_MAX,
    HELD_BY_ONE_BYTES_MAX,
    SLOW_READER_S,
    UPLOAD_MEMORY_BYTES,
    UPLOAD_RETRY_S,
    UPLOADS_BY_ONE_BYTES_MAX,
    UPLOADS_BY_ONE_MAX,
    UPLOADS_BYTES_MAX,
    UPLOADS_MAX,
    UPLOADS_ROOM_SHARE,
)


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


class _Sum:
    """What is held for one caller, or for all."""

    __slots__ = ("file_bytes", "memory_bytes", "uploads")

    def __init__(self) -> None:
        self.uploads = self.memory_bytes = self.file_bytes = 0


class IncomingBodies:
    """The room of one server process."""

    def __init__(self, memory_bytes_max: int, uploads_max: int = UPLOADS_MAX) -> None:
        self._memory_bytes_max = memory_bytes_max
        self._memory_by_one_max = min(HELD_BY_ONE_BYTES_MAX, memory_bytes_max)
        self._uploads_max = uploads_max
        self._uploads_by_one_max = min(UPLOADS_BY_ONE_MAX, max(1, uploads_max // 2))
        self._all = _Sum()
        self._by_caller: dict[str, _Sum] = {}

    @property
    def held_bytes(self) -> int:
        """What is held in memory and in files."""
        return self._all.memory_bytes + self._all.file_bytes

    @property
    def uploads(self) -> int:
        return self._all.uploads

    def begin(self, caller: str, announced_bytes: int, in_file: bool) -> IncomingBody:
        """Take in one more body; of 0 bytes where it is not known how many it has.

        Raises:
            Limited: the caller sends too much at a time. Unavailable: all callers together do.
            Full: the temporary folder has no room for it.
        """
        own = self._by_caller.get(caller) or _Sum()
        if self._all.uploads >= self._uploads_max:
            raise _too_many(f"{self._all.uploads} bodies are being taken in already")
        if own.uploads >= self._uploads_by_one_max:
            raise _too_much(f"{own.uploads} bodies are being taken in from you already")
        held = IncomingBody(self, caller, own)
        if in_file and announced_bytes > UPLOAD_MEMORY_BYTES:
            self.check_files(own, announced_bytes)
        elif not in_file:
            self.check_memory(own, announced_bytes)
        self._by_caller[caller] = own
        own.uploads += 1
        self._all.uploads += 1
        return held

    def check_memory(self, own: _Sum, size_bytes: int) -> None:
        if self._all.memory_bytes + size_bytes > self._memory_bytes_max:
            raise _too_many(f"{self._all.memory_bytes:,} bytes are being taken in already")
        if own.memory_bytes + size_bytes > self._memory_by_one_max:
            raise _too_much(f"{own.memory_bytes:,} bytes are being taken in from you already")

    def check_files(self, own: _Sum, size_bytes: int) -> None:
        if self._all.file_bytes + size_bytes > UPLOADS_BYTES_MAX:
            raise _too_many(f"{self._all.file_bytes:,} bytes are being taken in already")
        if own.file_bytes + size_bytes > UPLOADS_BY_ONE_BYTES_MAX:
            raise _too_much(f"{own.file_bytes:,} bytes are being taken in from you already")
        room_bytes = own.file_bytes + shutil.disk_usage(tempfile.gettempdir()).free
        if own.file_bytes + size_bytes > room_bytes // UPLOADS_ROOM_SHARE:
            raise no_room()

    def keep(self, own: _Sum, memory_bytes: int, file_bytes: int) -> None:
        for each in (own, self._all):
            each.memory_bytes += memory_bytes
            each.file_bytes += file_bytes

    def end(self, caller: str, own: _Sum) -> None:
        own.uploads -= 1
        self._all.uploads -= 1
        if not own.uploads:
            del self._by_caller[caller]


class IncomingBody:
    """One body on its way in, until its request is answered."""

    __slots__ = ("_caller", "_file_bytes", "_memory_bytes", "_own", "_incoming")

    def __init__(self, incoming: IncomingBodies, caller: str, own: _Sum) -> None:
        self._incoming = incoming
        self._caller = caller
        self._own = own
        self._memory_bytes = self._file_bytes = 0

    def put(self, size_bytes: int) -> None:
        """Make room in memory.

        Raises:
            Limited, Unavailable: there is none.
        """
        self._incoming.check_memory(self._own, size_bytes)
        self._incoming.keep(self._own, size_bytes, 0)
        self._memory_bytes += size_bytes

    def put_in_file(self, size_bytes: int) -> None:
        """Make room in the temporary folder.

        Raises:
            Limited, Unavailable, Full: there is none.
        """
        self._incoming.check_files(self._own, size_bytes)
        self._incoming.keep(self._own, 0, size_bytes)
        self._file_bytes += size_bytes

    def end(self) -> None:
        """Give all of it back."""
        self._incoming.keep(self._own, -self._memory_bytes, -self._file_bytes)
        self._incoming.end(self._caller, self._own)


def no_room() -> RelayError:
    """The error for a temporary folder that is full."""
    return Full(
        "the server has no room to take in this body",
        "small ones are still taken; who runs this relay gives its temporary folder more room",
    )


def _too_much(what: str) -> RelayError:
    return Limited(what, "send fewer at a time", {RETRY_AFTER: UPLOAD_RETRY_S})


def _too_many(what: str) -> RelayError:
    return Unavailable(what, "try again later", {RETRY_AFTER: UPLOAD_RETRY_S})
