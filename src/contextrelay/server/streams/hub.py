"""The hub: all listeners of a server wait for news of logs here; one read of a log serves them all.

It listens to the ledger once. A notification makes it read that log, if anybody waits for it, and
wake those who do. A followed channel has a tail (tails.py), which the hub lengthens.

Rule: a notification may be lost, so every watched log is polled now and then anyway. A read is
bounded, and none of them takes the event loop for long.
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
from contextrelay.model.names import channel_log, full_log
from contextrelay.model.signal import SignalPage
from contextrelay.server.streams.follower import Follower
from contextrelay.server.streams.tails import Encoder, Tail, notices_of
from contextrelay.verbs import ReadSignals

LOOK_LOGS_MAX = 128


log = logging.getLogger("contextrelay.http")

Result = TypeVar("Result")

# After polling all logs it rests this many times as long as that took: a fifth of a core at most.
LOOK_REST = 4
LOOK_REST_S_MIN = 0.002
HANDED_OUT_AT_ONCE = 1_000


class Watch:
    """One log with listeners."""

    __slots__ = ("channel", "idle", "listeners", "log", "news", "seen", "space", "tail")

    def __init__(self, log: str, space: Stores) -> None:
        self.log = log
        """Its full name in the store, tenant included."""
        self.space = space
        """The tenant's part of the store."""
        self.listeners = 0
        self.news = asyncio.Event()
        self.idle: dict[Follower, None] = {}
        """Followers that have it all, and take what comes at once."""
        self.channel: str | None = None
        """Its name, if it has followers."""
        self.tail: Tail | None = None
        self.seen = -1
        """The last seq that was seen, where it has no tail."""

    @property
    def head(self) -> int:
        """The last seq that was seen."""
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
        """Called with 1 for each listener that comes, with -1 for each that leaves."""

    def start(self) -> None:
        """Begin to listen; in the event loop that is to serve."""
        self._loop = asyncio.get_running_loop()
        self._some_heard = asyncio.Event()
        self._unsure = asyncio.Event()
        self.closing = asyncio.Event()
        self._stop_listening = self._stores.ledger.listen(self._hear)
        self._tasks = [
            self._loop.create_task(self._attend()),
            self._loop.create_task(self._look_around()),
        ]

    def close(self) -> None:
        """End all waits; from any thread, and from a signal handler."""
        with suppress(RuntimeError):  # The loop is closed: nobody waits any more.
            self._loop.call_soon_threadsafe(self._end_waits)

    def stop(self) -> None:
        """Stop listening; in the event loop, when all is answered."""
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
        """Count as a listener of a log while inside.

        Raises:
            Unavailable: there are too many listeners, or the server closes.
        """
        if self.listeners >= LISTENERS_MAX or self.is_closing:
            raise Unavailable(
                "the server is closing" if self.is_closing else f"{LISTENERS_MAX:,} listen already",
                "try again later, or at another server of this store",
            )
        space = stores
        if stores.caller is not None:
            space, log = stores.caller.space, full_log(stores.caller.key.tenant, log)
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
        """Wait until a log has facts after a seq; False if the time is up or the server closes.

        Permission to read the log was checked by the read before.

        Raises:
            Unavailable: there are too many listeners, or the server closes.
        """
        with self._watching(stores, log) as watch, suppress(TimeoutError):
            head = await self._read(lambda: self._stores.ledger.last(watch.log))
            async with asyncio.timeout(timeout_s):
                # What came while the head was read was perhaps notified before it.
                while max(head, watch.head) <= after and not self.is_closing:
                    await watch.news.wait()
                    head = watch.head
            return max(head, watch.head) > after
        return False

    @contextmanager
    def following(
        self, stores: Stores, channel: str, origin: str, encoder: Encoder
    ) -> Generator[Follower]:
        """Follow a channel; `origin` is the address of this server, as this listener calls it.

        Raises:
            Invalid: a channel cannot have this name; Unavailable: there are too many listeners.
            Refused: the caller may not read it.
        """
        log = channel_log(check_channel(channel))
        if stores.caller is not None:
            stores.caller.check(ReadSignals(channel))
        with self._watching(stores, log, channel) as watch:
            yield Follower(self, watch, channel, origin, encoder)

    # Hearing

    def _hear(self, log: str | None) -> None:
        """Take a notification of the ledger, in any thread."""
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
        with suppress(RuntimeError):  # The loop is closed: nobody waits any more.
            self._loop.call_soon_threadsafe(news.set)

    async def _attend(self) -> None:
        """Read logs as they are notified."""
        while True:
            await self._some_heard.wait()
            self._some_heard.clear()
            with self._lock:
                heard, self._heard = self._heard, set()
            try:
                await self._look(heard)
            except Exception:
                log.exception("a fault of ours in the hub")

    async def _look_around(self) -> None:
        """Poll all logs: when a notification does not say which, and now and then."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._unsure.wait()
            self._unsure.clear()
            began_s = self._loop.time()
            logs = list(self._watched)
            try:
                for start in range(0, len(logs), LOOK_LOGS_MAX):
                    await self._look(await self._changed(logs[start : start + LOOK_LOGS_MAX]))
                    await asyncio.sleep(0)
            except Exception:
                log.exception("a fault of ours in the hub")
            took_s = self._loop.time() - began_s
            await asyncio.sleep(max(LOOK_REST_S_MIN, LOOK_REST * took_s))

    async def _changed(self, logs: list[str]) -> list[str]:
        """Those of some logs whose head moved."""
        known = {each: self._watched[each].head for each in logs if each in self._watched}
        last = self._stores.ledger.last
        try:
            return await self._read(lambda: [each for each in known if last(each) != known[each]])
        except RelayError as error:
            log.warning("cannot look for news: %s", error)
            return []

    # Looking

    async def _look(self, logs: Iterable[str]) -> None:
        """Read what is new in some logs, and wake their listeners."""
        watches = [watch for each in logs if (watch := self._watched.get(each)) is not None]
        if not watches:
            return
        asked = [(watch, watch.tail.head if watch.tail else None) for watch in watches]
        try:
            found = await self._read(
                lambda: [self._news_of(watch, after) for watch, after in asked]
            )
        except RelayError as error:
            # The head that is known stays behind, so the next poll reads it again.
            log.warning("cannot read news: %s", error)
            return
        for (watch, after), news in zip(asked, found, strict=True):
            if isinstance(news, int):
                watch.seen = news
                watch.wake()
            elif watch.tail is not None and watch.tail.head == after:
                self._lengthen(watch, watch.tail, news)
                for number, follower in enumerate(tuple(watch.idle), 1):
                    follower.offer()
                    if number % HANDED_OUT_AT_ONCE == 0:
                        await asyncio.sleep(0)  # Others get their turn.
            elif watch.tail is not None and watch.tail.head != news.head:
                # Another read was faster, but this one saw more.
                self._hear(watch.log)

    def _news_of(self, watch: Watch, after: int | None) -> SignalPage | int:
        if watch.channel is None or after is None:
            return self._stores.ledger.last(watch.log)
        try:
            return _page_of(watch.space, watch.channel, after, TAIL_SIGNALS_MAX)
        except (Unavailable, Unconfirmed):
            raise
        except RelayError as error:
            # What is wrong with one channel keeps no news from the others.
            log.warning("cannot read the channel %r: %s", watch.channel, error)
            return SignalPage(signals=[], head=after)

    def _lengthen(self, watch: Watch, tail: Tail, page: SignalPage) -> None:
        notices = notices_of(page)
        if not notices:
            return
        self._tails_bytes -= tail.size_bytes
        if notices[0].seq < tail.head:
            # The channel was forgotten and starts over: each listener finds its gap in the log.
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
        """Read the ledger, in a thread if that may wait."""
        return await in_thread(read) if self._stores.ledger.reads_wait else read()

    # For followers

    async def begin(self, watch: Watch) -> int:
        """The head of a channel; its tail begins there if it has none yet."""
        head = await self._read(lambda: self._stores.ledger.last(watch.log))
        if watch.tail is None:
            watch.tail = Tail(head)
            # What came while the head was read was notified before there was a tail to lengthen.
            self._hear(watch.log)
        return head

    async def page(self, watch: Watch, channel: str, after: int) -> SignalPage:
        return await self._read(lambda: _page_of(watch.space, channel, after, TAIL_SIGNALS_MAX))


def _page_of(stores: Stores, channel: str, after: int, limit: int) -> SignalPage:
    """Signals of a channel after a seq; a damaged one comes back as a gap."""
    try:
        return answer(stores, ReadSignals(channel, after, limit))
    except Broken:
        if limit > 1:
            return _page_of(stores, channel, after, 1)
        head = stores.ledger.last(channel_log(channel))
        return SignalPage(signals=[], head=head, gap=(after + 1, after + 1))
