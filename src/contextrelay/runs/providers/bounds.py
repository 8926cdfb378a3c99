"""Bounds on one reply of a provider: its bytes and its time, in total and without progress.

Rule: only a part of the answer is progress. Comments, pings and empty pieces are none.
"""

from __future__ import annotations

from msgspec import Struct

from contextrelay.errors import Failed, Unavailable
from contextrelay.limits import (
    PROVIDER_IDLE_BYTES_MAX,
    PROVIDER_PROGRESS_S_MAX,
    PROVIDER_REPLY_BYTES_MAX,
    PROVIDER_REPLY_S_MAX,
)
from contextrelay.runs.providers.account import ANOTHER

# Most SDKs need as long for a line without content as for so many bytes of content.
_LINE_BYTES = 500


class Bounds(Struct, frozen=True, kw_only=True):
    """What one reply may take. `idle_*`: since the last progress; a line costs 500 bytes."""

    reply_bytes: int = PROVIDER_REPLY_BYTES_MAX
    reply_s: float = PROVIDER_REPLY_S_MAX
    idle_bytes: int = PROVIDER_IDLE_BYTES_MAX
    idle_s: float = PROVIDER_PROGRESS_S_MAX


BOUNDS = Bounds()


class Meter:
    """Counts what one reply takes: bytes, and the time that its reader waits."""

    def __init__(self, name: str, bounds: Bounds) -> None:
        self._name = name
        self._bounds = bounds
        self.begin()

    def begin(self) -> None:
        """Start to count the next reply."""
        self._bytes = self._idle_bytes = 0
        self._s = self._idle_s = 0.0

    def progress(self) -> None:
        """Note that a part of the answer arrived."""
        self._idle_bytes = 0
        self._idle_s = 0.0

    def left_s(self) -> float:
        """Return the seconds that are left.

        Raises:
            Unavailable: none are.
        """
        left_s = min(self._bounds.reply_s - self._s, self._bounds.idle_s - self._idle_s)
        if left_s <= 0:
            raise self.late()
        return left_s

    def spend(self, waited_s: float) -> None:
        """Count time."""
        self._s += waited_s
        self._idle_s += waited_s

    def take(self, data: bytes) -> None:
        """Count bytes that arrived.

        Raises:
            Failed: there are too many.
        """
        self._bytes += len(data)
        self._idle_bytes += len(data) + _LINE_BYTES * data.count(b"\n")
        if self._bytes > self._bounds.reply_bytes:
            raise Failed(
                f"the reply of {self._name} has more than {self._bounds.reply_bytes:,} bytes",
                f"ask for less at once, {ANOTHER}",
            )
        if self._idle_bytes > self._bounds.idle_bytes:
            raise Failed(
                f"{self._name} sends without end, and no part of an answer is in it",
                f"run it again, {ANOTHER}",
            )

    def late(self) -> Unavailable:
        """Return the error for a reply whose time is up."""
        bounds = self._bounds
        if bounds.reply_s - self._s < bounds.idle_s - self._idle_s:
            said = f"the reply of {self._name} took more than {bounds.reply_s:,} seconds"
        else:
            said = f"{self._name} sent no part of an answer for {bounds.idle_s:,} seconds"
        return Unavailable(said, f"run it again, {ANOTHER}")
