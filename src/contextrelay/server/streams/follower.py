"""A follower: a listener of a channel that stores only the sequence number of the last signal it
sent.

Rule: as long as a client keeps up, no task wakes up for it, because the hub passes new signals on
directly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from contextrelay.server.streams.tails import Encoder, batch, notices_of

if TYPE_CHECKING:
    from contextrelay.server.streams.hub import Hub, Watch

Take = Callable[[bytes], bool]
"""A function that takes a batch of signals, and returns True if it can take more."""


class Follower:
    """A listener of one channel, for one client."""

    __slots__ = (
        "_channel",
        "_encoder",
        "_hub",
        "_is_full",
        "_origin",
        "_take",
        "_watch",
        "_woken",
        "seq",
    )

    def __init__(self, hub: Hub, watch: Watch, channel: str, origin: str, encoder: Encoder) -> None:
        self._hub = hub
        self._watch = watch
        self._channel = channel
        self._origin = origin
        self._encoder: Encoder = encoder
        self._take: Take | None = None
        self._is_full = False
        """True if the client could not take the last batch of the hub completely."""
        self._woken = asyncio.Event()
        self.seq = 0

    async def begin(self, after: int | None) -> int:
        """Start after a sequence number, or after the newest signal if it is None, and return that
        number.
        """
        head = await self._hub.begin(self._watch)
        self.seq = head if after is None else after
        return self.seq

    async def next(self) -> bytes:
        """Wait for the next batch and return it, or return b"" when the server closes."""
        watch = self._watch
        while not self._hub.is_closing and not self._is_full:
            tail = watch.tail
            assert tail is not None, "the follower was not started"
            head = tail.head
            if self.seq != head:
                found = tail.after(self.seq, self._origin, self._encoder)
                if found is None:
                    page = await self._hub.page(watch, self._channel, self.seq)
                    if notices := notices_of(page):
                        found = batch(notices, self._origin, self._encoder)
                if found is not None:
                    self.seq = found.seq
                    return found.text
            # Wait, unless the tail moved while the log was read and found empty: the tail may be
            # behind what the log contained when this follower started.
            if tail is watch.tail and tail.head == head:
                await self._news()
        return b""

    async def hand_to(self, take: Take) -> bool:
        """Pass batches to `take` until it cannot take more; then return True. Return False when the
        server closes.
        """
        self._take = take
        try:
            while text := await self.next():
                if not take(text):
                    return True
            return self._is_full
        finally:
            self._take = None
            self._is_full = False

    async def _news(self) -> None:
        if self._take is None:
            await self._watch.news.wait()
            return
        self._woken.clear()
        self._watch.idle[self] = None
        try:
            await self._woken.wait()
        finally:
            self._watch.idle.pop(self, None)

    def offer(self) -> None:
        """Pass new signals from the tail to the client, or wake up the task that reads the log."""
        tail, take = self._watch.tail, self._take
        if self._woken.is_set() or tail is None or take is None:
            return
        found = tail.after(self.seq, self._origin, self._encoder)
        if found is None:
            if self.seq != tail.head:
                self.wake()
            return
        self.seq = found.seq
        if not take(found.text):
            self._is_full = True
            self.wake()

    def wake(self) -> None:
        self._woken.set()
