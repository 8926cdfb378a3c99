"""Tails: the newest signals of a channel, spelled once for all who listen.

A tail reaches from `start` to `head`, as far as this server has read the channel's log. Who listens
is only a number, the seq of what was last sent: within the tail it finds what comes next here, and
outside of it, in the log.

Rule: a signal is read and spelled once, however many listen; and a tail may be cut short at any
time, because the log has it all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct
from msgspec.json import encode
from websockets.frames import Frame, Opcode

from contextrelay.limits import TAIL_BYTES_MAX, TAIL_SIGNALS_MAX
from contextrelay.model.signal import Signal, SignalPage


class Batch(Struct, frozen=True, gc=False):
    """What comes next for somebody, in one piece, and the seq of the last signal in it."""

    text: bytes
    seq: int


class Told(Struct, frozen=True, gc=False):
    """A signal on its way out, or a gap where signals are no longer kept."""

    seq: int
    signal: Signal | None
    gap: tuple[int, int] | None = None

    def fields(self, origin: str) -> dict[str, Any]:
        """What is told; `origin` is where this server is, as the listener calls it."""
        signal = self.signal
        if signal is None:
            return {"gap": self.gap}
        what: dict[str, Any]
        if signal.ref is None:
            what = {"message": signal.message}
        else:
            what = {"url": f"{origin}/pull/{signal.ref}"}
        return {**what, "ts": signal.ts, "seq": signal.seq, "from": signal.by}


Spelling = Callable[[Told, str], bytes]


def frame(told: Told, origin: str) -> bytes:
    """As a WebSocket's text frame."""
    return Frame(Opcode.TEXT, encode(told.fields(origin))).serialize(mask=False)


def event(told: Told, origin: str) -> bytes:
    """As a server-sent event."""
    kind = b"event: gap\n" if told.signal is None else b""
    return b"id: %d\n%sdata: %s\n\n" % (told.seq, kind, encode(told.fields(origin)))


def all_told(page: SignalPage) -> list[Told]:
    """A page's signals, and the gap before them."""
    told = [Told(signal.seq, signal) for signal in page.signals]
    if page.gap is not None:
        told.insert(0, Told(page.gap[1], None, page.gap))
    return told


def batch(told: Iterable[Told], origin: str, spelling: Spelling) -> Batch:
    """The first of some signals in one piece: as many as a tail may hold, and at least one."""
    parts: list[bytes] = []
    size_bytes = seq = 0
    for each in told:
        parts.append(spelling(each, origin))
        seq = each.seq
        size_bytes += len(parts[-1])
        if size_bytes >= TAIL_BYTES_MAX:
            break
    return Batch(b"".join(parts), seq)


class Tail:
    """The tail of one channel."""

    __slots__ = ("_batches", "_told", "head", "size_bytes", "start")

    def __init__(self, head: int) -> None:
        self.start = self.head = head
        self.size_bytes = 0
        self._told: deque[tuple[Told, int]] = deque()
        self._batches: dict[tuple[int, str, Spelling], Batch] = {}

    def add(self, told: Iterable[Told]) -> None:
        """Go on with what came next in the log."""
        self._batches.clear()
        for each in told:
            size_bytes = len(frame(each, ""))
            self._told.append((each, size_bytes))
            self.size_bytes += size_bytes
            self.head = each.seq
        while len(self._told) > TAIL_SIGNALS_MAX or self.size_bytes > TAIL_BYTES_MAX:
            self._drop_first()

    def shed(self) -> None:
        """Hold nothing: who is behind the head reads the log."""
        self._batches.clear()
        while self._told:
            self._drop_first()

    def after(self, seq: int, origin: str, spelling: Spelling) -> Batch | None:
        """What comes after a seq; None if the tail cannot tell."""
        if not self.start <= seq < self.head:
            return None
        key = (seq, origin, spelling)
        found = self._batches.get(key)
        if found is None:
            later: list[Told] = []
            for each, _ in reversed(self._told):
                if each.seq <= seq:
                    break
                later.append(each)
            found = batch(reversed(later), origin, spelling)
            # One is kept for most listeners, who are all at the same place.
            self._batches = {key: found}
        return found

    def _drop_first(self) -> None:
        told, size_bytes = self._told.popleft()
        self.start = told.seq
        self.size_bytes -= size_bytes
