"""The hub: all listeners of a server wait here for new log entries, so that one read serves them
all.

The hub has a single subscription to the ledger. After a notification, it reads the named log if the
log has listeners, and wakes them. A channel with followers has a tail (tails.py), which the hub
extends.

Rule: notifications may be lost, so every log with listeners is also polled periodically. Reads are
bounded, and none of them blocks the event loop for long.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TypeVar

from contextrelay.client.flow import in_thread
from contextrelay.client.transport.local import AsyncLocal
from contextrelay.core import Stores, answer
from contextrelay.documents.bounds import check_channel
from contextrelay.errors import Broken, RelayError, Unavailable, Unconfirmed
from contextrelay.limits import LISTENERS_MAX, LOOK_EVERY_S, TAIL_SIGNALS_MAX, TAILS_BYTES_MAX
from contextrelay.model.names import channel_log, tenant_log
from contextrelay.model.signal import SignalPage
from contextrelay.server.streams.follower import Follower
from contextrelay.server.streams.tails import Encoder, Tail, notices_of
from contextrelay.verbs import ReadSignals

LOOK_LOGS_MAX = 128


log = logging.getLogger("contextrelay.http")

Result = TypeVar("Result")

# After polling all logs, the hub sleeps this many times as long as the poll took, so that polling
# uses at most a fifth of a core.
LOOK_REST = 4
LOOK_REST_S_MIN = 0.002
HANDED_OUT_AT_ONCE = 1_000


class Watch:
    """A log with listeners, and the state that they share."""

    __slots__ = ("channel", "idle", "listeners", "log", "news", "seen", "space", "tail")

    def __init__(self, log: str, space: Stores) -> None:
        self.log = log
        """The full name of the log in the store, including the tenant."""
        self.space = space
        """The part of the store that belongs to the tenant."""
        self.listeners = 0
        self.news = asyncio.Event()
        self.idle: dict[Follower, None] = {}
        """Followers that are up to date. They get new signals directly."""
        self.channel: str | None = None
        """The name of the channel, if it has followers."""
        self.tail: Tail | None = None
        self.seen = -1
        """The sequence number of the last entry that the hub read, if there is no tail."""

    @property
    def head(self) -> int:
        """Return the sequence number of the last entry that the hub read."""
        return self.seen if self.tail is None else self.tail.head

    def wake(self) -> None:
        self.news.set()
        self.news.clear()


class Hub:
    """The listeners of one server process."""

    def __init__(self, relay: AsyncLocal) -> None:
        self._relay = relay
        self._stores = relay.stores
        self._watched: dict[str, Watch] = {}
        self.listeners = 0
        self._tails_bytes = 0
        self._lock = Lock()
        self._heard: set[str] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._stop_listening: Callable[[], None] = lambda: None
        self.is_closing = False
        self.counted: Callable[[int], None] = lambda amount: None
        """A function that is called with 1 for each new listener, and with -1 for each listener
        that ends.
        """

    def start(self) -> None:
        """Subscribe to the ledger. Call this in the event loop of the server."""
        self._loop = asyncio.get_running_loop()
        self._some_heard = asyncio.Event()
        self._unsure = asyncio.Event()
        self.closing = asyncio.Event()
        self._stop_listening = self._stores.ledger.listen(self._hear)
        self._tasks = [
            self._loop.create_task(self._read_notified()),
            self._loop.create_task(self._poll_all()),
        ]

    def close(self) -> None:
        """End all waits. May be called from any thread or from a signal handler."""
        with suppress(RuntimeError):  # The event loop is closed, and nobody waits any more.
            self._loop.call_soon_threadsafe(self._end_waits)

    def stop(self) -> None:
        """End the subscription. Call this in the event loop after the last response."""
        self._end_waits()
        for task in self._tasks:
            task.cancel()
        self._stop_listening()

    def _end_waits(self) -> None:
        self.is_closing = True
        self.closing.set()
        for watch in self._watched.values():
            for follower in watch.idle:
                follower.wake()
            watch.wake()

    # Waiting

    @contextmanager
    def _watching(self, stores: Stores, log: str, channel: str | None = None) -> Generator[Watch]:
        """Count as a listener of a log while the context is active, and return the watch of the
        log.

        Raises:
            Unavailable: there are too many listeners, or the server is closing.
        """
        if self.listeners >= LISTENERS_MAX or self.is_closing:
            raise Unavailable(
                "the server is closing"
                if self.is_closing
                else f"too many listeners ({LISTENERS_MAX:,})",
                "retry later, or use another server of this store",
            )
        space = stores
        if stores.caller is not None:
            space, log = stores.caller.space, tenant_log(stores.caller.key.tenant, log)
        watch = self._watched.get(log)
        if watch is None:
            watch = self._watched[log] = Watch(log, space)
        watch.channel = watch.channel or channel
        watch.listeners += 1
        self.listeners += 1
        self.counted(1)
        try:
            yield watch
        finally:
            self.listeners -= 1
            self.counted(-1)
            watch.listeners -= 1
            if not watch.listeners:
                del self._watched[log]
                if watch.tail is not None:
                    self._tails_bytes -= watch.tail.size_bytes

    async def wait_for(self, stores: Stores, log: str, after: int, timeout_s: float) -> bool:
        """Wait until a log has events after a sequence number, and return True. At the timeout, or
        when the server closes, return False.

        The permission to read the log is not checked here, because the read before the wait checked
        it.

        Raises:
            Unavailable: there are too many listeners, or the server is closing.
        """
        with self._watching(stores, log) as watch, suppress(TimeoutError):
            head = await self._read(lambda: self._stores.ledger.last(watch.log))
            async with asyncio.timeout(timeout_s):
                # An event that arrived while the head was read may have been notified before this
                # listener was counted.
                while max(head, watch.head) <= after and not self.is_closing:
                    await watch.news.wait()
                    head = watch.head
            return max(head, watch.head) > after
        return False

    @contextmanager
    def following(
        self, stores: Stores, channel: str, origin: str, encoder: Encoder
    ) -> Generator[Follower]:
        """Follow a channel while the context is active. `origin` is the address of this server as
        the listener addresses it.

        Raises:
            Invalid: the name of the channel is invalid.
            Unavailable: there are too many listeners.
            Refused: the caller may not read the channel.
        """
        log = channel_log(check_channel(channel))
        if stores.caller is not None:
            stores.caller.check(ReadSignals(channel))
        with self._watching(stores, log, channel) as watch:
            yield Follower(self, watch, channel, origin, encoder)

    # Notifications

    def _hear(self, log: str | None) -> None:
        """Handle a notification of the ledger. May be called from any thread."""
        if log is None:
            news = self._unsure
        elif log in self._watched:
            news = self._some_heard
            with self._lock:
                was_heard = bool(self._heard)
                self._heard.add(log)
            if was_heard:
                return
        else:
            return
        with suppress(RuntimeError):  # The event loop is closed, and nobody waits any more.
            self._loop.call_soon_threadsafe(news.set)

    async def _read_notified(self) -> None:
        """Read the logs that the notifications since the last call name."""
        while True:
            await self._some_heard.wait()
            self._some_heard.clear()
            with self._lock:
                heard, self._heard = self._heard, set()
            try:
                await self._read_new(heard)
            except Exception:
                log.exception("unexpected error in the hub")

    async def _poll_all(self) -> None:
        """Poll all logs that have listeners: periodically, and after a notification that names no
        log.
        """
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._unsure.wait()
            self._unsure.clear()
            began_s = self._loop.time()
            logs = list(self._watched)
            try:
                for start in range(0, len(logs), LOOK_LOGS_MAX):
                    await self._read_new(await self._changed(logs[start : start + LOOK_LOGS_MAX]))
                    await asyncio.sleep(0)
            except Exception:
                log.exception("unexpected error in the hub")
            took_s = self._loop.time() - began_s
            await asyncio.sleep(max(LOOK_REST_S_MIN, LOOK_REST * took_s))

    async def _changed(self, logs: list[str]) -> list[str]:
        """Return those of the logs that have new entries."""
        known = {each: self._watched[each].head for each in logs if each in self._watched}
        last = self._stores.ledger.last
        try:
            return await self._read(lambda: [each for each in known if last(each) != known[each]])
        except RelayError as error:
            log.warning("cannot poll for new events: %s", error)
            return []

    # Reading

    async def _read_new(self, logs: Iterable[str]) -> None:
        """Read the new entries of some logs, and wake the listeners of each log."""
        watches = [watch for each in logs if (watch := self._watched.get(each)) is not None]
        if not watches:
            return
        asked = [(watch, watch.tail.head if watch.tail else None) for watch in watches]
        try:
            found = await self._read(
                lambda: [self._news_of(watch, after) for watch, after in asked]
            )
        except RelayError as error:
            # The head that the hub knows stays behind, so the next poll reads the log again.
            log.warning("cannot read new events: %s", error)
            return
        for (watch, after), news in zip(asked, found, strict=True):
            if isinstance(news, int):
                watch.seen = news
                watch.wake()
            elif watch.tail is not None and watch.tail.head == after:
                self._extend_tail(watch, watch.tail, news)
                for number, follower in enumerate(tuple(watch.idle), 1):
                    follower.offer()
                    if number % HANDED_OUT_AT_ONCE == 0:
                        await asyncio.sleep(0)  # Let other tasks run in between.
            elif watch.tail is not None and watch.tail.head != news.head:
                # Another read has finished first, but this read found more entries.
                self._hear(watch.log)

    def _news_of(self, watch: Watch, after: int | None) -> SignalPage | int:
        if watch.channel is None or after is None:
            return self._stores.ledger.last(watch.log)
        try:
            return _page_of(watch.space, watch.channel, after, TAIL_SIGNALS_MAX)
        except (Unavailable, Unconfirmed):
            raise
        except RelayError as error:
            # An error in one channel must not delay the other channels.
            log.warning("cannot read the channel %r: %s", watch.channel, error)
            return SignalPage(signals=[], head=after)

    def _extend_tail(self, watch: Watch, tail: Tail, page: SignalPage) -> None:
        notices = notices_of(page)
        if not notices:
            return
        self._tails_bytes -= tail.size_bytes
        if notices[0].seq < tail.head:
            # The channel was deleted and starts over. Each listener finds the gap in the log.
            watch.tail = Tail(page.head)
        else:
            tail.add(notices)
            self._tails_bytes += tail.size_bytes
            if tail.head < page.head:
                self._hear(watch.log)
        if self._tails_bytes > TAILS_BYTES_MAX:
            for each in self._watched.values():
                if each.tail is not None:
                    each.tail.clear()
            self._tails_bytes = 0
        watch.wake()

    async def _read(self, read: Callable[[], Result]) -> Result:
        """Read the ledger and return the result. A read that may block runs in a thread."""
        return await in_thread(read) if self._stores.ledger.reads_wait else read()

    # For followers

    async def begin(self, watch: Watch) -> int:
        """Return the newest sequence number of a channel. If the channel has no tail yet, create a
        tail that starts there.
        """
        head = await self._read(lambda: self._stores.ledger.last(watch.log))
        if watch.tail is None:
            watch.tail = Tail(head)
            # A signal that arrived while the head was read was notified when there was no tail to
            # extend yet.
            self._hear(watch.log)
        return head

    async def page(self, watch: Watch, channel: str, after: int) -> SignalPage:
        return await self._read(lambda: _page_of(watch.space, channel, after, TAIL_SIGNALS_MAX))


def _page_of(stores: Stores, channel: str, after: int, limit: int) -> SignalPage:
    """Return a page of signals of a channel after a sequence number. A damaged signal becomes a
    gap.
    """
    try:
        return answer(stores, ReadSignals(channel, after, limit))
    except Broken:
        if limit > 1:
            return _page_of(stores, channel, after, 1)
        head = stores.ledger.last(channel_log(channel))
        return SignalPage(signals=[], head=head, gap=(after + 1, after + 1))
