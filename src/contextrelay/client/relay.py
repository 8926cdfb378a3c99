"""The clients: `Relay` blocks, `AsyncRelay` is awaited; both have the same verbs."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from copy import copy
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from contextrelay.client.methods import (
    as_body,
    asks,
    brings,
    build,
    checked_key,
    pushes,
    sends,
    streams,
)
from contextrelay.client.seal.push import PushAndSeal
from contextrelay.client.seal.reads import looks
from contextrelay.client.thread import AsyncThread, Thread
from contextrelay.client.transport.address import Server, is_server, server_at
from contextrelay.client.transport.local import AsyncLocal, Local, in_thread, open_stores
from contextrelay.core.schema import channel_log
from contextrelay.errors import Gone, Invalid
from contextrelay.limits import CHUNK_BYTES, REPLY_S_DEFAULT, WAIT_S_DEFAULT
from contextrelay.model.artifact import Artifact
from contextrelay.model.ref import is_ref
from contextrelay.model.reports import BackupReport, RestoreReport
from contextrelay.model.settings import Settings
from contextrelay.model.signal import Signal, SignalPage
from contextrelay.model.thread import ThreadView
from contextrelay.store.durable_files import write_whole
from contextrelay.wire import verbs

if TYPE_CHECKING:
    from contextrelay.client.transport.remote import AsyncRemote, Remote

Address = str | os.PathLike[str] | None
Item = str | bytes | tuple[str | bytes, Mapping[str, Any]]
"""A body, or a body with what `push` would take beside it."""
OnGap = Callable[[int, int], object]
"""What is called with the first and the last seq of signals that are no longer kept."""


class _Verbs:
    """What both clients can do."""

    push = pushes(PushAndSeal)
    pull = brings(verbs.Pull)
    stream = streams(verbs.Pull)
    peek = asks(verbs.Peek)
    slice = looks(verbs.Slice)
    grep = looks(verbs.Grep)
    search = asks(verbs.Search)
    rebuild_search = asks(verbs.RebuildSearch)
    savings = asks(verbs.ReadSavings)
    diff = looks(verbs.DiffRefs)
    outline = looks(verbs.Outline)
    digest = looks(verbs.Digest)
    pin = asks(verbs.Pin)
    extend = asks(verbs.Extend)
    remove = asks(verbs.Remove)
    find = asks(verbs.Find)
    trace = asks(verbs.Trace)
    sweep = asks(verbs.Sweep)
    verify = asks(verbs.Verify)
    survey = asks(verbs.Survey)
    find_threads = asks(verbs.FindThreads)
    threads = asks(verbs.ListThreads)
    use_thread = asks(verbs.UseThread)
    last_used_thread = asks(verbs.LastUsedThread)
    publish = asks(verbs.Publish)
    signals = asks(verbs.ReadSignals)
    channels = asks(verbs.ListChannels)
    accept = asks(verbs.AcceptHandoff)
    give_back = sends(verbs.ReturnHandoff)
    handoff = asks(verbs.ShowHandoff)
    handoffs = asks(verbs.ListHandoffs)
    capabilities = asks(verbs.ListCapabilities)
    invoke = asks(verbs.Invoke)
    purge_cache = asks(verbs.PurgeCache)
    new_key = asks(verbs.NewKey)
    keys = asks(verbs.ListKeys)
    revoke_key = asks(verbs.RevokeKey)
    usage = asks(verbs.ReadUsage)
    list = asks(verbs.List)


class Relay(_Verbs):
    """A relay, asked and answered.

    `address`: a folder, `sqlite:///folder`, `memory:`, `redis://host:port/0`; none for RELAY_HOME
    or ~/.relay. `settings` in place of those in the store's config.json. Or that of a server,
    `https://relay.example.com`, with its `api_key` (else CONTEXTRELAY_API_KEY), whose replies may
    take `timeout_s`.
    """

    is_async: Literal[False] = False
    _origin: Relay | None = None

    def __init__(
        self,
        address: Address = None,
        *,
        settings: Settings | None = None,
        api_key: str | None = None,
        timeout_s: float = REPLY_S_DEFAULT,
    ) -> None:
        self.transport: Local | Remote
        if is_server(address):
            from contextrelay.client.transport.remote import Remote

            self.transport = Remote(_server(address, settings, api_key), timeout_s)
        else:
            self.transport = Local(open_stores(address, settings))

    def once(self, key: str) -> Relay:
        """This relay, with an idempotency key for one request: `relay.once(key).push(body)`.

        The request is done once, however often it is asked with that key within a day: who asks
        again gets what came of the first time. Another request with the same key is refused.
        """
        view = copy(self)
        view.transport, view._origin = self.transport.once(checked_key(key)), self._origin or self
        return view

    def handle(self, made: ThreadView) -> Thread:
        """A handle on a thread; a key was for the request that found it, not for the next."""
        return Thread(self._origin or self, made.thread_id)

    def push_many(self, items: Iterable[Item]) -> list[Artifact]:
        """Store many bodies in one call; each item is a body, or a (body, options of push) pair."""
        verb, body = _many(items)
        return self.transport.ask(verb, body)

    def new_thread(self, name: str | None = None, by: str = "you") -> Thread:
        """Make a thread."""
        made = self.transport.ask(build(verbs.NewThread, (name, by), {}))
        return self.handle(made)

    def thread(self, text: str, by: str = "you") -> Thread:
        """The thread of an id, or the newest of a name, which is made if there is none."""
        if is_ref(text):
            return self.handle(self.transport.ask(verbs.ShowThread(text)))
        made = self.transport.ask(build(verbs.OpenThread, (text, by), {}))
        return self.handle(made)

    def import_thread(
        self, path: str | os.PathLike[str], name: str | None = None, by: str = "you"
    ) -> Thread:
        """Make a thread from an exported zip file."""
        verb = build(verbs.ImportThread, (name, by), {})
        return self.handle(self.transport.ask(verb, _file_chunks(path)))

    def wait(
        self, channel: str, after: int | None = None, timeout_s: float | None = WAIT_S_DEFAULT
    ) -> SignalPage:
        """Wait for signals after a seq (None: from now on); an empty page when the time is up."""
        page = self.signals(channel, after)
        if page.signals or page.gap:
            return page
        place = page.head if after is None else after
        self.transport.wait_for(channel_log(channel), place, timeout_s)
        return self.signals(channel, place)

    def subscribe(
        self,
        channel: str,
        after: int | None = None,
        timeout_s: float | None = None,
        on_gap: OnGap | None = None,
    ) -> Iterator[Signal]:
        """Signals after a seq (None: from now on), in order, each once, as they come.

        Ends after `timeout_s` without one. Where some are no longer kept, `on_gap(first, last)` is
        called and reading goes on behind them.

        Raises:
            Gone: some are no longer kept, and there is no `on_gap`.
        """
        # Not in the generator: what is sent after this call is heard, whenever reading begins.
        place = self.signals(channel).head if after is None else after

        def hear(place: int) -> Iterator[Signal]:
            while True:
                page = self.wait(channel, place, timeout_s)
                if not page.signals and page.gap is None:
                    return
                place = _behind_gap(channel, page, place, on_gap)
                yield from page.signals
                place = page.signals[-1].seq if page.signals else place

        return hear(place)

    def backup(self, path: str | os.PathLike[str]) -> BackupReport:
        """Write the whole store to one tar file, while others may go on writing."""
        stream = self.transport.ask(verbs.Backup())
        write_whole(Path(path), stream.chunks())
        return stream.value

    def restore(self, path: str | os.PathLike[str]) -> RestoreReport:
        """Fill this store, which must be empty, from a backup file."""
        return self.transport.ask(verbs.Restore(), _file_chunks(path))

    def abandon_restore(self) -> RestoreReport:
        """Give up a restore that was cut short: erase what it had written, and unlock the store."""
        return self.transport.ask(verbs.Restore(is_abandoned=True))

    def close(self) -> None:
        """Let go of the store; a second call does nothing."""
        self.transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class AsyncRelay(_Verbs):
    """A relay, awaited. The arguments are those of `Relay`."""

    is_async: Literal[True] = True
    _origin: AsyncRelay | None = None

    def __init__(
        self,
        address: Address = None,
        *,
        settings: Settings | None = None,
        api_key: str | None = None,
        timeout_s: float = REPLY_S_DEFAULT,
    ) -> None:
        self.transport: AsyncLocal | AsyncRemote
        if is_server(address):
            from contextrelay.client.transport.remote import AsyncRemote

            self.transport = AsyncRemote(_server(address, settings, api_key), timeout_s)
        else:
            self.transport = AsyncLocal(open_stores(address, settings))

    def once(self, key: str) -> AsyncRelay:
        """This relay, with an idempotency key for one request, as `Relay.once` has it."""
        view = copy(self)
        view.transport, view._origin = self.transport.once(checked_key(key)), self._origin or self
        return view

    @classmethod
    def over(cls, transport: AsyncLocal | AsyncRemote) -> AsyncRelay:
        """A relay that asks by a transport which is there already."""
        relay = cls.__new__(cls)
        relay.transport = transport
        return relay

    def handle(self, made: ThreadView) -> AsyncThread:
        return AsyncThread(self._origin or self, made.thread_id)

    async def push_many(self, items: Iterable[Item]) -> list[Artifact]:
        """Store many bodies in one call; each item is a body, or a (body, options of push) pair."""
        verb, body = _many(items)
        return await self.transport.ask(verb, body)

    async def new_thread(self, name: str | None = None, by: str = "you") -> AsyncThread:
        """Make a thread."""
        made = await self.transport.ask(build(verbs.NewThread, (name, by), {}))
        return self.handle(made)

    async def thread(self, text: str, by: str = "you") -> AsyncThread:
        """The thread of an id, or the newest of a name, which is made if there is none."""
        if is_ref(text):
            return self.handle(await self.transport.ask(verbs.ShowThread(text)))
        made = await self.transport.ask(build(verbs.OpenThread, (text, by), {}))
        return self.handle(made)

    async def import_thread(
        self, path: str | os.PathLike[str], name: str | None = None, by: str = "you"
    ) -> AsyncThread:
        """Make a thread from an exported zip file."""
        verb = build(verbs.ImportThread, (name, by), {})
        made = await self.transport.ask(verb, _file_chunks(path))
        return self.handle(made)

    async def wait(
        self, channel: str, after: int | None = None, timeout_s: float | None = WAIT_S_DEFAULT
    ) -> SignalPage:
        """Wait for signals after a seq (None: from now on); an empty page when the time is up."""
        page = await self.signals(channel, after)
        if page.signals or page.gap:
            return page
        place = page.head if after is None else after
        await self.transport.wait_for(channel_log(channel), place, timeout_s)
        return await self.signals(channel, place)

    async def subscribe(
        self,
        channel: str,
        after: int | None = None,
        timeout_s: float | None = None,
        on_gap: OnGap | None = None,
    ) -> AsyncIterator[Signal]:
        """Signals after a seq (None: from when reading begins), in order, each once, as they come.

        Ends after `timeout_s` without one. Where some are no longer kept, `on_gap(first, last)` is
        called and reading goes on behind them.

        Raises:
            Gone: some are no longer kept, and there is no `on_gap`.
        """
        place = (await self.signals(channel)).head if after is None else after
        while True:
            page = await self.wait(channel, place, timeout_s)
            if not page.signals and page.gap is None:
                return
            place = _behind_gap(channel, page, place, on_gap)
            for signal in page.signals:
                yield signal
                place = signal.seq

    async def backup(self, path: str | os.PathLike[str]) -> BackupReport:
        """Write the whole store to one tar file, while others may go on writing."""
        stream = await self.transport.ask(verbs.Backup())
        await in_thread(lambda: write_whole(Path(path), stream.chunks()))
        return stream.value

    async def restore(self, path: str | os.PathLike[str]) -> RestoreReport:
        """Fill this store, which must be empty, from a backup file."""
        return await self.transport.ask(verbs.Restore(), _file_chunks(path))

    async def abandon_restore(self) -> RestoreReport:
        """Give up a restore that was cut short: erase what it had written, and unlock the store."""
        return await self.transport.ask(verbs.Restore(is_abandoned=True))

    async def close(self) -> None:
        """Let go of the store; a second call does nothing."""
        await self.transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


def _server(address: Address, settings: Settings | None, key: str | None) -> Server:
    if settings is not None:
        raise Invalid("a server has its own settings", "leave out settings")
    return server_at(str(address), key)


def _behind_gap(channel: str, page: SignalPage, place: int, on_gap: OnGap | None) -> int:
    """Tell of a gap, if there is one; from where to read on."""
    if page.gap is None:
        return place
    first, last = page.gap
    if on_gap is None:
        told = f"{first} to {last}" if first <= last else f"from {first} on"
        raise Gone(
            f"signals {told} of channel {channel!r} are no longer kept",
            f"read on with after={last}, or give on_gap to be told and go on",
            {"gap": [first, last]},
        )
    on_gap(first, last)
    return last


_NO_OPTIONS: Mapping[str, Any] = {}


def _many(items: Iterable[Item]) -> tuple[verbs.PushMany, list[bytes]]:
    """The verb for many pushes, and their bodies one after the other."""
    pushes: list[verbs.Push] = []
    bodies: list[bytes] = []
    for item in items:
        body, options = item if isinstance(item, tuple) else (item, _NO_OPTIONS)
        sent = as_body(body)
        if not isinstance(sent, bytes):
            raise Invalid("push_many takes bytes or text", "push a stream with push")
        pushes.append(build(verbs.Push, (), dict(options)))
        bodies.append(sent)
    sizes = [len(body) for body in bodies]
    return build(verbs.PushMany, (pushes, sizes), {}), bodies


def _file_chunks(path: str | os.PathLike[str]) -> Iterator[bytes]:
    try:
        with Path(path).open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk
    except (OSError, ValueError) as error:
        raise Invalid(f"{os.fspath(path)!r} cannot be read: {error}", "check it") from error
