"""The hub: whoever waits for news of a log waits here, and one look at the log serves them all.

It listens to the ledger once. A hint makes it look at that log, if anybody waits for it, and wake
those who do. A channel that somebody follows has a tail (tails.py), which the hub reads on.

Rule: a hint may be lost, so every log that somebody waits for is looked at now and then anyway. A
look is bounded, and none of them takes the event loop for long.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TypeVar

from contextrelay.client.transport.local import AsyncLocal, in_thread
from contextrelay.core.answer import answer
from contextrelay.core.channels.channels import check_channel
from contextrelay.core.schema import channel_log, full_log
from contextrelay.core.stores import Stores
from contextrelay.doors.http.streams.tails import Batch, Spelling, Tail, all_told, batch
from contextrelay.errors import Broken, RelayError, Unavailable
from contextrelay.limits import (
    LISTENERS_MAX,
    LOOK_EVERY_S,
    LOOK_LOGS_MAX,
    TAIL_SIGNALS_MAX,
    TAILS_BYTES_MAX,
)
from contextrelay.model.signal import SignalPage
from contextrelay.wire.verbs import ReadSignals

log = logging.getLogger("contextrelay.http")

Result = TypeVar("Result")
Take = Callable[[bytes], bool]
"""Takes something, and tells whether it can take more."""

# Looking at all logs rests this many times as long as it took: it costs a fifth of a core at most.
LOOK_REST = 4
LOOK_REST_S_MIN = 0.002
HANDED_OUT_AT_ONCE = 1_000


class Watch:
    """One log that somebody waits for."""

    __slots__ = ("_head", "channel", "idle", "listeners", "log", "news", "space", "tail")

    def __init__(self, log: str, space: Stores) -> None:
        self.log = log
        """As the store calls it, whosever it is."""
        self.space = space
        """The part of the store that it is in, where it has its own name."""
        self.listeners = 0
        self.news = asyncio.Event()
        self.idle: dict[Follower, None] = {}
        """Followers that have it all, and take what comes at once."""
        self.channel: str | None = None
        """Its name, if somebody follows it."""
        self.tail: Tail | None = None
        self._head = -1

    @property
    def head(self) -> int:
        """As it was at the last look."""
        return self._head if self.tail is None else self.tail.head

    def move(self, head: int) -> None:
        self._head = head

    def wake(self) -> None:
        self.news.set()
        self.news.clear()


class Hub:
    """Those who wait, in one server."""

    def __init__(self, relay: AsyncLocal) -> None:
        self._relay = relay
        self._stores = relay.stores
        self._watched: dict[str, Watch] = {}
        self.listeners = 0
        """How many wait here now."""
        self._tails_bytes = 0
        self._lock = Lock()
        self._heard: set[str] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._stop_listening: Callable[[], None] = lambda: None
        self.is_closing = False
        self.counted: Callable[[int], None] = lambda amount: None
        """Told of each who comes to wait (1) or leaves (-1)."""

    # Beginning and ending

    def start(self) -> None:
        """Begin to listen; in the event loop that is to serve."""
        self._loop = asyncio.get_running_loop()
        self._some_heard = asyncio.Event()
        self._unsure = asyncio.Event()
        self._stop_listening = self._stores.ledger.listen(self._hear)
        self._tasks = [
            self._loop.create_task(self._attend()),
            self._loop.create_task(self._look_around()),
        ]

    def close(self) -> None:
        """Let nobody wait any longer; from any thread, and from a signal handler."""
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
        for watch in self._watched.values():
            for follower in watch.idle:
                follower.stir()
            watch.wake()

    # Waiting

    @contextmanager
    def _watching(self, stores: Stores, log: str, channel: str | None = None) -> Generator[Watch]:
        """Take part in watching a log, as who waits calls it.

        Raises:
            Unavailable: too many wait here already.
        """
        if self.listeners >= LISTENERS_MAX or self.is_closing:
            raise Unavailable(
                "the server is closing" if self.is_closing else f"{LISTENERS_MAX:,} listen already",
                "try again later, or at another server of this store",
            )
        space, log = _whole_space(stores, log)
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

        Who may wait for it was found out when it was read before.

        Raises:
            Unavailable: too many wait here already.
        """
        with self._watching(stores, log) as watch, suppress(TimeoutError):
            head = await self._read(lambda: self._stores.ledger.last(watch.log))
            async with asyncio.timeout(timeout_s):
                # What came while the head was read was perhaps heard before it.
                while max(head, watch.head) <= after and not self.is_closing:
                    await watch.news.wait()
                    head = watch.head
            return max(head, watch.head) > after
        return False

    @contextmanager
    def following(
        self, stores: Stores, channel: str, origin: str, spelling: Spelling
    ) -> Generator[Follower]:
        """Take part in following a channel; `origin` is where this server is, for this one.

        Raises:
            Invalid: a channel cannot have this name; Unavailable: too many wait here already.
            Refused: it is not for who asks.
        """
        log = channel_log(check_channel(channel))
        if stores.caller is not None:
            stores.caller.check(ReadSignals(channel))
        with self._watching(stores, log, channel) as watch:
            yield Follower(self, watch, channel, origin, spelling)

    # Hearing

    def _hear(self, log: str | None) -> None:
        """Take a hint, in whatever thread it comes."""
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
        """Look at logs as there are hints of them."""
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
        """Look at all logs: when a hint does not say which, and now and then."""
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
        """Which of some logs are not as they were."""
        known = {each: self._watched[each].head for each in logs if each in self._watched}
        last = self._stores.ledger.last
        try:
            return await self._read(lambda: [each for each in known if last(each) != known[each]])
        except RelayError as error:
            log.warning("cannot look for news: %s", error)
            return []

    # Looking

    async def _look(self, logs: Iterable[str]) -> None:
        """Read what is new in some logs, and wake those who wait for it."""
        watches = [watch for each in logs if (watch := self._watched.get(each)) is not None]
        if not watches:
            return
        asked = [(watch, watch.tail.head if watch.tail else None) for watch in watches]
        try:
            found = await self._read(
                lambda: [self._news_of(watch, after) for watch, after in asked]
            )
        except RelayError as error:
            # It stays as it is, so it will be seen that it is not: there will be another look.
            log.warning("cannot read news: %s", error)
            return
        for (watch, after), news in zip(asked, found, strict=True):
            if isinstance(news, int):
                watch.move(news)
                watch.wake()
            elif watch.tail is not None and watch.tail.head == after:
                self._go_on(watch, watch.tail, news)
                await self._hand_out(watch)
            elif watch.tail is not None and watch.tail.head != news.head:
                # Another look was faster, but this one saw more.
                self._hear(watch.log)

    def _news_of(self, watch: Watch, after: int | None) -> SignalPage | int:
        if watch.channel is None or after is None:
            return self._stores.ledger.last(watch.log)
        try:
            return page_of(watch.space, watch.channel, after, TAIL_SIGNALS_MAX)
        except Unavailable:
            raise
        except RelayError as error:
            # What is wrong with one channel keeps no news from the others.
            log.warning("cannot read the channel %r: %s", watch.channel, error)
            return SignalPage(signals=[], head=after)

    def _go_on(self, watch: Watch, tail: Tail, page: SignalPage) -> None:
        """Lengthen a tail by a page of its log."""
        told = all_told(page)
        if not told:
            return
        self._tails_bytes -= tail.size_bytes
        if told[0].seq < tail.head:
            # The channel was forgotten and counts anew: the log tells each listener of its gap.
            watch.tail = Tail(page.head)
        else:
            tail.add(told)
            self._tails_bytes += tail.size_bytes
            if tail.head < page.head:
                self._hear(watch.log)
        if self._tails_bytes > TAILS_BYTES_MAX:
            self._shed()
        watch.wake()

    async def _hand_out(self, watch: Watch) -> None:
        """Give followers what is new, some at a time, so that others get their turn."""
        for number, follower in enumerate(tuple(watch.idle), 1):
            follower.offer()
            if number % HANDED_OUT_AT_ONCE == 0:
                await asyncio.sleep(0)

    def _shed(self) -> None:
        for watch in self._watched.values():
            if watch.tail is not None:
                watch.tail.shed()
        self._tails_bytes = 0

    async def _read(self, read: Callable[[], Result]) -> Result:
        """Read the ledger, in a thread if that may wait."""
        return await in_thread(read) if self._stores.ledger.reads_wait else read()

    # For followers

    async def begin(self, watch: Watch) -> int:
        """The head of a channel as it is now, where its tail begins if there is none yet."""
        head = await self._read(lambda: self._stores.ledger.last(watch.log))
        if watch.tail is None:
            watch.tail = Tail(head)
            # What came while the head was read was heard before there was a tail to lengthen.
            self._hear(watch.log)
        return head

    async def page(self, watch: Watch, channel: str, after: int) -> SignalPage:
        return await self._read(lambda: page_of(watch.space, channel, after, TAIL_SIGNALS_MAX))


class Follower:
    """One who follows a channel: no more than the seq of what it was sent last."""

    __slots__ = (
        "_channel",
        "_hub",
        "_is_full",
        "_origin",
        "_spelling",
        "_stirred",
        "_take",
        "_watch",
        "seq",
    )

    def __init__(
        self, hub: Hub, watch: Watch, channel: str, origin: str, spelling: Spelling
    ) -> None:
        self._hub = hub
        self._watch = watch
        self._channel = channel
        self._origin = origin
        self._spelling: Spelling = spelling
        self._take: Take | None = None
        self._is_full = False
        """Whether what the hub handed over last was not taken at once."""
        self._stirred = asyncio.Event()
        self.seq = 0

    async def begin(self, after: int | None) -> int:
        """Begin after a seq, or at the head of now; the seq where it begins."""
        head = await self._hub.begin(self._watch)
        self.seq = head if after is None else after
        return self.seq

    async def next(self) -> bytes:
        """What comes next, once it is there; b"" when the server closes."""
        watch = self._watch
        while not self._hub.is_closing and not self._is_full:
            tail = watch.tail
            assert tail is not None, "it was not begun"
            head = tail.head
            if self.seq != head:
                found = tail.after(self.seq, self._origin, self._spelling) or await self._from_log()
                if found is not None:
                    self.seq = found.seq
                    return found.text
            # Unless it moved while the log was read, in which there was nothing then: the tail may
            # be behind what the log had when this one began.
            if tail is watch.tail and tail.head == head:
                await self._news()
        return b""

    async def hand_to(self, take: Take) -> bool:
        """Hand over what comes, until some of it is not taken at once; False: the server closes.

        As long as all is taken, nobody wakes up for it: the hub hands it over.
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
        self._stirred.clear()
        self._watch.idle[self] = None
        try:
            await self._stirred.wait()
        finally:
            self._watch.idle.pop(self, None)

    def offer(self) -> None:
        """Take what is new from the tail, or wake up to see what to do."""
        tail, take = self._watch.tail, self._take
        if self._stirred.is_set() or tail is None or take is None:
            return
        found = tail.after(self.seq, self._origin, self._spelling)
        if found is None:
            if self.seq != tail.head:
                self.stir()
            return
        self.seq = found.seq
        if not take(found.text):
            self._is_full = True
            self.stir()

    def stir(self) -> None:
        self._stirred.set()

    async def _from_log(self) -> Batch | None:
        told = all_told(await self._hub.page(self._watch, self._channel, self.seq))
        return batch(told, self._origin, self._spelling) if told else None


def _whole_space(stores: Stores, log: str) -> tuple[Stores, str]:
    """All of the space that some stores are a view of, and what the store calls a log of it."""
    if stores.caller is None:
        return stores, log
    return stores.caller.space, full_log(stores.caller.key.tenant, log)


def page_of(stores: Stores, channel: str, after: int, limit: int) -> SignalPage:
    """Signals of a channel after a seq; one that is damaged is told as a gap."""
    try:
        return answer(stores, ReadSignals(channel, after, limit))
    except Broken:
        if limit > 1:
            return page_of(stores, channel, after, 1)
        head = stores.ledger.last(channel_log(channel))
        return SignalPage(signals=[], head=head, gap=(after + 1, after + 1))
