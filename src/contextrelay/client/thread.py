"""Thread handles: a thread's verbs without naming it each time, blocking or awaited."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from msgspec.json import decode

from contextrelay.client.methods import build, told
from contextrelay.client.seal.push import Pushed
from contextrelay.client.transport.local import AsyncBody, in_thread
from contextrelay.core.schema import thread_log
from contextrelay.limits import LIST_ITEMS_MAX
from contextrelay.model.capability import Invoked
from contextrelay.model.thread import EventPage, HeaderView, Numbered, StateView, ThreadView
from contextrelay.store.durable_files import write_whole
from contextrelay.wire import verbs
from contextrelay.wire.verbs import Body, Verb

if TYPE_CHECKING:
    from contextrelay.client.relay import AsyncRelay, Relay

Args = ParamSpec("Args")
Reply = TypeVar("Reply")
Result = TypeVar("Result")
Document = dict[str, Any]


def same(reply: Reply) -> Reply:
    return reply


class asks_of_thread(Generic[Args, Reply, Result]):  # noqa: N801
    """A verb about one thread, which the handle names; `then` makes a result of the reply."""

    def __init__(
        self, verb: Callable[Concatenate[str, Args], Verb[Reply]], then: Callable[[Reply], Result]
    ) -> None:
        self._verb: Any = verb
        self._then = then
        self.__doc__ = told(self._verb)

    @overload
    def __get__(self, thread: Thread, owner: type) -> Callable[Args, Result]: ...
    @overload
    def __get__(self, thread: AsyncThread, owner: type) -> Callable[Args, Awaitable[Result]]: ...
    def __get__(self, thread: Any, owner: type) -> Any:
        if thread is None:
            return self

        def method(*args: Any, **named: Any) -> Any:
            return self._then(thread.ask(build(self._verb, (thread.id, *args), named)))

        async def awaited(*args: Any, **named: Any) -> Any:
            return self._then(await thread.ask(build(self._verb, (thread.id, *args), named)))

        return awaited if thread.is_async else method


def _state(view: StateView) -> Document:
    return decode(view.state)


def _header(view: HeaderView) -> Document:
    return decode(view.header)


def _events(page: EventPage) -> list[Numbered]:
    return page.events


class _ThreadVerbs:
    """What both handles can do."""

    show = asks_of_thread(verbs.ShowThread, same)
    state = asks_of_thread(verbs.ReadState, _state)
    header = asks_of_thread(verbs.ReadHeader, _header)
    patch = asks_of_thread(verbs.PatchState, same)
    diff = asks_of_thread(verbs.DiffState, same)
    restore = asks_of_thread(verbs.RestoreState, same)
    compact = asks_of_thread(verbs.CompactState, same)
    events = asks_of_thread(verbs.ReadEvents, _events)
    add_event = asks_of_thread(verbs.AddEvent, same)
    checkpoint = asks_of_thread(verbs.MakeCheckpoint, same)
    pack = asks_of_thread(verbs.Pack, same)
    add_blocks = asks_of_thread(verbs.AddBlocks, same)
    prune = asks_of_thread(verbs.PruneContext, same)
    hand_off = asks_of_thread(verbs.GiveHandoff, same)
    stats = asks_of_thread(verbs.ReadStats, same)
    artifacts = asks_of_thread(verbs.ListThreadArtifacts, same)
    mirror = asks_of_thread(verbs.MirrorThread, same)
    adopt = asks_of_thread(verbs.AdoptState, same)
    close = asks_of_thread(verbs.CloseThread, same)
    remove = asks_of_thread(verbs.RemoveThread, same)


class Thread(_ThreadVerbs):
    """A thread of a `Relay`."""

    is_async = False

    def __init__(self, relay: Relay, thread: str) -> None:
        self.relay = relay
        self.id = thread

    def once(self, key: str) -> Thread:
        """This thread, with an idempotency key for one request: `thread.once(key).patch(...)`."""
        return Thread(self.relay.once(key), self.id)

    def ask(self, verb: Verb[Reply], body: Body = b"") -> Reply:
        return self.relay.transport.ask(verb, body)

    def put(self, body: str | Body, **options: Any) -> Pushed:
        """Store a body and put it into this thread; the options are those of `Relay.push`."""
        options["thread"] = self.id
        return self.relay.push(body, **options)

    def invoke(
        self,
        capability: str,
        args: Document | None = None,
        by: str = "you",
        is_cached: bool = True,
    ) -> Invoked:
        """Run a capability in this thread, or take its cached result; a hop either way."""
        return self.ask(build(verbs.Invoke, (capability, args or {}, self.id, by, is_cached), {}))

    def fork(self, version: int | None = None, name: str | None = None, by: str = "you") -> Thread:
        """Make a thread that begins with this one's state, at any version."""
        verb = build(verbs.ForkThread, (self.id, version, name, by), {})
        return self.relay.handle(self.ask(verb))

    def history(self) -> Iterator[Document]:
        """Yield the state at every version, oldest first; to be read only: versions share parts."""
        from contextrelay.logic.document.replay import states

        return states(each.event for each in self._all_events())

    def _all_events(self) -> Iterator[Numbered]:
        after = 0
        while page := self.events(after, LIST_ITEMS_MAX):
            yield from page
            after = page[-1].seq

    def export(self, path: str | os.PathLike[str]) -> ThreadView:
        """Write the thread to one zip file."""
        stream = self.ask(verbs.ExportThread(self.id))
        write_whole(Path(path), stream.chunks())
        return stream.value

    def tail(self, after: int = 0, timeout_s: float | None = None) -> Iterator[Numbered]:
        """Yield events as they come, whoever writes them; end after `timeout_s` without one."""
        while True:
            page = self.events(after)
            yield from page
            after = page[-1].seq if page else after
            if not page and not self.relay.transport.wait_for(
                thread_log(self.id), after, timeout_s
            ):
                return


class AsyncThread(_ThreadVerbs):
    """A thread of an `AsyncRelay`."""

    is_async = True

    def __init__(self, relay: AsyncRelay, thread: str) -> None:
        self.relay = relay
        self.id = thread

    def once(self, key: str) -> AsyncThread:
        """This thread, with an idempotency key for one request, as `Thread.once` has it."""
        return AsyncThread(self.relay.once(key), self.id)

    async def ask(self, verb: Verb[Reply], body: AsyncBody = b"") -> Reply:
        return await self.relay.transport.ask(verb, body)

    async def put(self, body: str | AsyncBody, **options: Any) -> Pushed:
        """Store a body and put it into this thread; the options are those of `Relay.push`."""
        options["thread"] = self.id
        return await self.relay.push(body, **options)

    async def invoke(
        self,
        capability: str,
        args: Document | None = None,
        by: str = "you",
        is_cached: bool = True,
    ) -> Invoked:
        """Run a capability in this thread, or take its cached result; a hop either way."""
        verb = build(verbs.Invoke, (capability, args or {}, self.id, by, is_cached), {})
        return await self.ask(verb)

    async def fork(
        self, version: int | None = None, name: str | None = None, by: str = "you"
    ) -> AsyncThread:
        """Make a thread that begins with this one's state, at any version."""
        made = await self.ask(build(verbs.ForkThread, (self.id, version, name, by), {}))
        return self.relay.handle(made)

    async def history(self) -> AsyncIterator[Document]:
        """Yield the state at every version, oldest first; to be read only: versions share parts."""
        events: list[Numbered] = []
        while page := await self.events(events[-1].seq if events else 0, LIST_ITEMS_MAX):
            events += page
        from contextrelay.logic.document.replay import states

        for document in states(each.event for each in events):
            yield document

    async def export(self, path: str | os.PathLike[str]) -> ThreadView:
        """Write the thread to one zip file."""
        stream = await self.ask(verbs.ExportThread(self.id))
        await in_thread(lambda: write_whole(Path(path), stream.chunks()))
        return stream.value

    async def tail(self, after: int = 0, timeout_s: float | None = None) -> AsyncIterator[Numbered]:
        """Yield events as they come, whoever writes them; end after `timeout_s` without one."""
        while True:
            page = await self.events(after)
            for each in page:
                yield each
            after = page[-1].seq if page else after
            if not page and not await self.relay.transport.wait_for(
                thread_log(self.id), after, timeout_s
            ):
                return
