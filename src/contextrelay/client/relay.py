"""The clients: `Relay` blocks, `AsyncRelay` is awaited; both have the same verbs."""

from __future__ import annotations

import builtins
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Literal, Self

from contextrelay import verbs
from contextrelay.client.content import Content, as_body
from contextrelay.client.flow import Emit, Flow, InThread, Items, SendBody, Wait, write_file
from contextrelay.client.methods import (
    body_verb_method,
    build,
    flow_method,
    inspect_method,
    items_method,
    pull_method,
    push_method,
    stream_method,
    thread_method,
    verb_method,
)
from contextrelay.client.seal.push import PushAndSeal
from contextrelay.client.thread import AsyncThread, Thread
from contextrelay.client.transport.address import is_server, server_at, with_agent
from contextrelay.errors import Gone, Invalid, Unconfirmed
from contextrelay.limits import CHUNK_BYTES, REPLY_S_DEFAULT, WAIT_S_DEFAULT
from contextrelay.model.artifact import Artifact
from contextrelay.model.names import channel_log
from contextrelay.model.ref import is_ref
from contextrelay.model.reports import BackupReport, RestoreReport
from contextrelay.model.settings import Settings
from contextrelay.model.signal import Signal, SignalPage
from contextrelay.model.thread import ThreadView

if TYPE_CHECKING:
    from contextrelay.client.transport.local import AsyncLocal, Local
    from contextrelay.client.transport.remote import AsyncRemote, Remote

Address = str | os.PathLike[str] | None
Item = Content | tuple[Content, Mapping[str, Any]]
"""A body, or a body with options of `push`."""
OnGap = Callable[[int, int], object]
"""A function called with the first and the last seq of signals that were already deleted."""
CONFIRMED_AGAIN_S = 0.1
"""Seconds before signals that no replica has confirmed are read again."""


class _Verbs:
    """The methods of both clients."""

    push = push_method(PushAndSeal)
    pull = pull_method(verbs.Pull)
    stream = stream_method(verbs.Pull)
    peek = verb_method(verbs.Peek)
    slice = inspect_method(verbs.Slice)
    grep = inspect_method(verbs.Grep)
    search = verb_method(verbs.Search)
    rebuild_search = verb_method(verbs.RebuildSearch)
    savings = verb_method(verbs.ReadSavings)
    diff = inspect_method(verbs.DiffRefs)
    outline = inspect_method(verbs.Outline)
    digest = inspect_method(verbs.Digest)
    pin = verb_method(verbs.Pin)
    unpin = verb_method(verbs.Unpin)
    extend = verb_method(verbs.Extend)
    remove = verb_method(verbs.Remove)
    find = verb_method(verbs.Find)
    lineage = verb_method(verbs.ReadLineage)
    sweep = verb_method(verbs.Sweep)
    verify = verb_method(verbs.Verify)
    survey = verb_method(verbs.Survey)
    find_threads = verb_method(verbs.FindThreads)
    threads = verb_method(verbs.ListThreads)
    use_thread = verb_method(verbs.UseThread)
    current_thread = verb_method(verbs.ReadCurrentThread)
    publish = verb_method(verbs.Publish)
    signals = verb_method(verbs.ReadSignals)
    channels = verb_method(verbs.ListChannels)
    accept = verb_method(verbs.AcceptHandoff)
    give_back = body_verb_method(verbs.ReturnHandoff)
    handoff = verb_method(verbs.ShowHandoff)
    handoffs = verb_method(verbs.ListHandoffs)
    capabilities = verb_method(verbs.ListCapabilities)
    invoke = verb_method(verbs.Invoke)
    purge_cache = verb_method(verbs.PurgeCache)
    new_key = verb_method(verbs.NewKey)
    keys = verb_method(verbs.ListKeys)
    revoke_key = verb_method(verbs.RevokeKey)
    usage = verb_method(verbs.ReadUsage)
    list = verb_method(verbs.List)

    is_async = False
    _origin: Any = None

    def __init__(
        self,
        address: Address = None,
        *,
        settings: Settings | None = None,
        api_key: str | None = None,
        timeout_s: float = REPLY_S_DEFAULT,
        blobs: Address = None,
        agent: str | None = None,
    ) -> None:
        self.transport: Any
        if is_server(address):
            from contextrelay.client.transport import remote

            if settings is not None or blobs is not None:
                raise Invalid(
                    "settings and blobs cannot be passed for a server", "omit settings and blobs"
                )
            kind = remote.AsyncRemote if self.is_async else remote.Remote
            server = with_agent(server_at(str(address), api_key), agent)
            self.transport = kind(server, timeout_s)
        else:
            from contextrelay.client.transport import local

            stores = local.open_stores(address, settings, blobs, agent=agent)
            self.transport = local.AsyncLocal(stores) if self.is_async else local.Local(stores)

    def once(self, key: str) -> Self:
        """Return this relay with an idempotency key for one request: `relay.once(key).push(body)`.

        The request is executed once, however often it is sent with that key within a day; a retry
        gets the first answer. A different request with the same key is refused.
        """
        from contextrelay.documents.bounds import check_idempotency_key

        check_idempotency_key(key)
        view = copy(self)
        view.transport, view._origin = self.transport.once(key), self._origin or self
        return view

    @flow_method
    def push_many(self: Any, items: Iterable[Item]) -> Flow[builtins.list[Artifact]]:
        """Store many bodies in one call; each item is a body, or a (body, options of push) pair."""
        pushes: builtins.list[verbs.Push] = []
        bodies: builtins.list[bytes] = []
        for item in items:
            pair: Any = item if isinstance(item, tuple) else (item, {})
            sent = as_body(pair[0])
            if not isinstance(sent, bytes):
                raise Invalid("push_many takes bytes, text or JSON", "use push for a stream")
            pushes.append(build(verbs.Push, (), dict(pair[1])))
            bodies.append(sent)
        sizes = [len(body) for body in bodies]
        return (yield SendBody(build(verbs.PushMany, (pushes, sizes), {}), bodies))

    @thread_method
    def new_thread(self: Any, name: str | None = None, by: str = "") -> Flow[ThreadView]:
        """Create a thread, with its state at version 1."""
        return (yield build(verbs.NewThread, (name, by), {}))

    @thread_method
    def thread(self: Any, text: str, by: str = "") -> Flow[ThreadView]:
        """Return the thread with an id or a name; if no thread has the name, create one.

        Raises:
            Invalid: several threads have the name.
        """
        verb = verbs.ShowThread(text) if is_ref(text) else build(verbs.OpenThread, (text, by), {})
        return (yield verb)

    @thread_method
    def import_thread(
        self: Any, path: str | os.PathLike[str], name: str | None = None, by: str = ""
    ) -> Flow[ThreadView]:
        """Create a thread from an exported zip file."""
        return (yield SendBody(build(verbs.ImportThread, (name, by), {}), _file_chunks(path)))

    @flow_method
    def wait(
        self: Any,
        channel: str,
        after: int | None = None,
        timeout_s: float | None = WAIT_S_DEFAULT,
    ) -> Flow[SignalPage]:
        """Wait for signals after a seq (None: after the current one); return a page of those that
        arrived.

        After a timeout the page is empty.
        """
        return (yield from _wait(channel, after, timeout_s))

    @items_method
    def subscribe(
        self: Any,
        channel: str,
        after: int | None = None,
        timeout_s: float | None = None,
        on_gap: OnGap | None = None,
    ) -> Items[Signal]:
        """Iterate over the signals after a seq (None: from now on) as they arrive, each once.

        The iteration ends after `timeout_s` without a signal. If some signals were already deleted,
        `on_gap(first, last)` is called and the iteration continues after them. "Now" is the time of
        the call; on `AsyncRelay`, the time of the first iteration. If replicas have to confirm
        signals and are unreachable, the iteration waits.

        Raises:
            Gone: some signals were deleted, and there is no `on_gap`.
            Unconfirmed: replicas were unreachable for all of `timeout_s`.
        """
        place = after
        if place is None:
            place = (yield build(verbs.ReadSignals, (channel,), {})).head
        while True:
            page: SignalPage = yield from _wait(channel, place, timeout_s)
            if not page.signals and page.gap is None:
                return
            place = _skip_gap(channel, page, place, on_gap)
            yield Emit(page.signals)
            place = page.signals[-1].seq if page.signals else place

    @flow_method
    def backup(self: Any, path: str | os.PathLike[str]) -> Flow[BackupReport]:
        """Write the whole store to one tar file, while others may go on writing."""
        stream = yield verbs.Backup()
        yield InThread(lambda: write_file(path, stream.chunks()))
        return stream.value

    @flow_method
    def restore(self: Any, path: str | os.PathLike[str]) -> Flow[RestoreReport]:
        """Fill this store, which must be empty, from a backup file."""
        return (yield SendBody(verbs.Restore(), _file_chunks(path)))

    @flow_method
    def abandon_restore(self: Any) -> Flow[RestoreReport]:
        """Discard an interrupted restore: erase what it wrote, and unlock the store."""
        return (yield verbs.Restore(is_abandoned=True))


class Relay(_Verbs):
    """A blocking client of a store or a server.

    `address` of a store: a folder, `sqlite:///folder`, `memory:`, `redis://host:port/0`,
    `postgresql://host/database`; by default RELAY_HOME or ~/.relay. `settings` replace those in the
    store's config.json. `blobs`: where the large bodies of the store are, a folder or
    `s3://bucket/prefix`; needed only once. By default RELAY_BLOBS, or the store itself.

    `agent`: the name that is recorded with all that this client does, by default RELAY_AGENT, or
    else the name of the user. On a server the name of the key comes first: `ci-bot/planner`.

    `address` of a server: `https://relay.example.com`, with its `api_key` (by default
    CONTEXTRELAY_API_KEY) and `timeout_s`, the maximum seconds to wait for a reply.
    """

    is_async: Literal[False] = False
    transport: Local | Remote

    def handle(self, made: ThreadView) -> Thread:
        """Return a handle on a thread.

        The handle has no idempotency key, even if this relay has one.
        """
        return Thread(self._origin or self, made.thread_id)

    def close(self) -> None:
        """Close the store or the connections; a second call does nothing."""
        self.transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ended: object) -> None:
        self.close()


class AsyncRelay(_Verbs):
    """An awaited client of a store or a server. The arguments are those of `Relay`."""

    is_async: Literal[True] = True
    transport: AsyncLocal | AsyncRemote

    @classmethod
    def over_transport(cls, transport: AsyncLocal | AsyncRemote) -> AsyncRelay:
        """Return a relay that uses an existing transport."""
        relay = cls.__new__(cls)
        relay.transport = transport
        return relay

    def handle(self, made: ThreadView) -> AsyncThread:
        """Return a handle on a thread.

        The handle has no idempotency key, even if this relay has one.
        """
        return AsyncThread(self._origin or self, made.thread_id)

    async def close(self) -> None:
        """Close the store or the connections; a second call does nothing."""
        await self.transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *ended: object) -> None:
        await self.close()


def _wait(channel: str, after: int | None, timeout_s: float | None) -> Flow[SignalPage]:
    ends_s = math.inf if timeout_s is None else monotonic() + timeout_s
    place, comes = after, True
    while True:
        page: SignalPage = yield from _read_confirmed(channel, place, ends_s)
        if page.signals or page.gap or not comes:
            return page
        # A fail-over may have reverted the signals. If so, wait again.
        place = page.head if place is None else place
        left_s = None if timeout_s is None else ends_s - monotonic()
        comes = yield Wait(channel_log(channel), place, left_s)


def _read_confirmed(channel: str, after: int | None, ends_s: float) -> Flow[SignalPage]:
    """Read signals after a seq, waiting until a replica confirms them, because a fail-over may
    revert unconfirmed signals.

    Raises:
        Unconfirmed: no replica confirmed the signals in time.
    """
    while True:
        try:
            return (yield build(verbs.ReadSignals, (channel, after), {}))
        except Unconfirmed:
            if monotonic() + CONFIRMED_AGAIN_S > ends_s:
                raise
            yield InThread(lambda: sleep(CONFIRMED_AGAIN_S))


def _skip_gap(channel: str, page: SignalPage, place: int, on_gap: OnGap | None) -> int:
    """Report any deleted signals to `on_gap`; return the seq after which to continue."""
    if page.gap is None:
        return place
    first, last = page.gap
    if on_gap is None:
        lost = f"{first} to {last}" if first <= last else f"from {first} onward"
        raise Gone(
            f"signals {lost} of channel {channel!r} were already deleted",
            f"continue with after={last}, or pass on_gap to skip gaps",
            {"gap": [first, last]},
        )
    on_gap(first, last)
    return last


def _file_chunks(path: str | os.PathLike[str]) -> Iterator[bytes]:
    try:
        with open(path, "rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk
    except (OSError, ValueError) as error:
        raise Invalid(
            f"{os.fspath(path)!r} cannot be read: {error}", "check the path and its permissions"
        ) from error
