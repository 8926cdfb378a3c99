"""Tails: the newest signals of a channel, encoded once for all listeners.

A tail covers the sequence numbers from `start` to `head`, the last one that this server has read in
the channel's log. A listener only stores the number of its last signal: it finds the next signals
in the tail if the tail covers them, otherwise in the log.

Rule: a signal is read and encoded once for any number of listeners. A tail may be cut at any time,
because the log is complete.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import Any

from msgspec import Struct
from msgspec.json import encode
from websockets.frames import Frame, Opcode

from contextrelay.limits import TAIL_BYTES_MAX, TAIL_SIGNALS_MAX
from contextrelay.model.signal import Signal, SignalPage


class Batch(Struct, frozen=True, gc=False):
    """Several encoded notices, and the sequence number of the last one."""

    text: bytes
    seq: int


class Notice(Struct, frozen=True, gc=False):
    """A notice to a listener: a signal, or a gap of signals that are no longer stored."""

    seq: int
    signal: Signal | None
    gap: tuple[int, int] | None = None

    def fields(self, origin: str) -> dict[str, Any]:
        """Return the JSON fields of the notice. `origin` is the address of this server as the
        listener addresses it.
        """
        signal = self.signal
        if signal is None:
            return {"gap": self.gap}
        about: dict[str, Any]
        if signal.ref is None:
            about = {"message": signal.message}
        else:
            about = {"url": f"{origin}/pull/{signal.ref}"}
        return {**about, "ts": signal.ts, "seq": signal.seq, "from": signal.by}


Encoder = Callable[[Notice, str], bytes]


def frame(notice: Notice, origin: str) -> bytes:
    """Encode a notice as a WebSocket text frame."""
    return Frame(Opcode.TEXT, encode(notice.fields(origin))).serialize(mask=False)


def event(notice: Notice, origin: str) -> bytes:
    """Encode a notice as a server-sent event."""
    kind = b"event: gap\n" if notice.signal is None else b""
    return b"id: %d\n%sdata: %s\n\n" % (notice.seq, kind, encode(notice.fields(origin)))


def notices_of(page: SignalPage) -> list[Notice]:
    """Return the notices of a page of signals. If signals are missing before the page, the first
    notice is the gap.
    """
    notices = [Notice(signal.seq, signal) for signal in page.signals]
    if page.gap is not None:
        notices.insert(0, Notice(page.gap[1], None, page.gap))
    return notices


def batch(notices: Iterable[Notice], origin: str, encoder: Encoder) -> Batch:
    """Return the first of some notices, encoded: as many as a tail may hold, and at least one."""
    parts: list[bytes] = []
    size_bytes = seq = 0
    for each in notices:
        parts.append(encoder(each, origin))
        seq = each.seq
        size_bytes += len(parts[-1])
        if size_bytes >= TAIL_BYTES_MAX:
            break
    return Batch(b"".join(parts), seq)


class Tail:
    """The tail of one channel."""

    __slots__ = ("_batches", "_notices", "head", "size_bytes", "start")

    def __init__(self, head: int) -> None:
        self.start = self.head = head
        self.size_bytes = 0
        self._notices: deque[tuple[Notice, int]] = deque()
        self._batches: dict[tuple[int, str, Encoder], Batch] = {}

    def add(self, notices: Iterable[Notice]) -> None:
        """Append the next notices of the log to the tail."""
        self._batches.clear()
        for each in notices:
            size_bytes = len(frame(each, ""))
            self._notices.append((each, size_bytes))
            self.size_bytes += size_bytes
            self.head = each.seq
        self._keep(TAIL_SIGNALS_MAX, TAIL_BYTES_MAX)

    def clear(self) -> None:
        """Remove all notices. A listener behind the head then reads the log."""
        self._batches.clear()
        self._keep(0, 0)

    def _keep(self, notices_max: int, bytes_max: int) -> None:
        while len(self._notices) > notices_max or self.size_bytes > bytes_max:
            notice, size_bytes = self._notices.popleft()
            self.start = notice.seq
            self.size_bytes -= size_bytes

    def after(self, seq: int, origin: str, encoder: Encoder) -> Batch | None:
        """Return the notices after a sequence number, or None if the tail starts later."""
        if not self.start <= seq < self.head:
            return None
        key = (seq, origin, encoder)
        found = self._batches.get(key)
        if found is None:
            later = list(takewhile(lambda each: each[0].seq > seq, reversed(self._notices)))
            found = batch((each for each, _ in reversed(later)), origin, encoder)
            # This batch is cached, because most listeners are at the same sequence number.
            self._batches = {key: found}
        return found
