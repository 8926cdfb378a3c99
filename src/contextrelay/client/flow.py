"""Flows: an operation of several steps, written once for blocking and awaited clients.

A flow is a generator: it yields steps, is sent the result of each, and returns a value. A step is a
verb (its reply is sent back), a reply with a body (all of its bytes), or one of the classes below.
An error of a step is raised where the flow yielded it.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterable, AsyncIterator, Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct

from contextrelay.errors import RelayError
from contextrelay.verbs import Body, Stream, Verb

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

AsyncBody = Body | AsyncIterable[bytes]

Result = TypeVar("Result")
Item = TypeVar("Item")
ItemGiven = TypeVar("ItemGiven", covariant=True)


class SendBody(Struct, frozen=True):
    """A step that sends a verb with a body; its result is the reply."""

    verb: Verb[Any]
    body: AsyncBody


class OpenBody(Struct, frozen=True):
    """A step that starts to read the body of a reply; its result is passed to `Next`."""

    stream: Stream[Any]


class NextChunk(Struct, frozen=True):
    """A step that reads the next chunk of a body; its result is the chunk, or None at the end."""

    chunks: Any


class Wait(Struct, frozen=True):
    """A step that waits until a log has entries after a seq; its result is False on a timeout."""

    log: str
    after: int
    timeout_s: float | None


class InThread(Struct, frozen=True):
    """A step that calls a slow function; with an event loop, the function is called in a thread."""

    act: Callable[[], Any]


class HttpStep(Struct, frozen=True):
    """A step that only a remote transport can do (transport/http_flow.py)."""


class Emit(Struct, Generic[ItemGiven], frozen=True):
    """Items that a flow gives to the caller that iterates over it."""

    items: Iterable[ItemGiven]


class LostRequest(Exception):
    """An error for a lost request or reply.

    `sends_max` is how often the request may be sent in total.
    """

    def __init__(self, error: RelayError, sends_max: int) -> None:
        super().__init__(str(error))
        self.error = error
        self.sends_max = sends_max


class Stopped(BaseException):
    """Thrown into a flow when its caller wants no more items.

    The flow may still do a few final steps.
    """


Step = Verb[Any] | Stream[Any] | SendBody | OpenBody | NextChunk | Wait | InThread | HttpStep
Flow = Generator[Step, Any, Result]
Items = Generator[Step | Emit[Item], Any, None]


# Blocking


def run(transport: Any, flow: Flow[Result]) -> Result:
    """Do the steps of a flow; return the value that the flow returns."""
    try:
        step = next(flow)
        while True:
            step = _advance(transport, flow, step)
    except StopIteration as done:
        return done.value


def iterate(transport: Any, flow: Items[Item]) -> Iterator[Item]:
    """Yield the items of a flow; its steps are done as the items are requested.

    The first step is done before this function returns: the call raises its errors, and a
    subscription starts with the call.
    """
    try:
        step = next(flow)
        if not isinstance(step, Emit):
            step = _advance(transport, flow, step)
    except StopIteration:
        return iter(())
    return _items(transport, flow, step)


def _items(transport: Any, flow: Items[Item], step: Step | Emit[Item]) -> Iterator[Item]:
    try:
        while True:
            if isinstance(step, Emit):
                yield from step.items
                step = next(flow)
            else:
                step = _advance(transport, flow, step)
    except StopIteration:
        return


def stop(transport: Any, flow: Items[Item]) -> list[Item]:
    """End a flow early; return the items that it yields until its end."""
    items: list[Item] = []
    try:
        step: Step | Emit[Item] = flow.throw(Stopped())
        while True:
            if isinstance(step, Emit):
                items += step.items
                step = next(flow)
            else:
                step = _advance(transport, flow, step)
    except (StopIteration, Stopped):
        return items


def _advance(transport: Any, flow: Any, step: Step) -> Any:
    """Do a step of a flow; return the next step."""
    try:
        outcome = _do(transport, step)
    except (RelayError, LostRequest) as error:
        return flow.throw(error)
    return flow.send(outcome)


def _do(transport: Any, step: Step) -> Any:
    if isinstance(step, Verb):
        return transport.ask(step)
    if isinstance(step, Stream):
        return step.whole()
    match step:
        case SendBody():
            return transport.ask(step.verb, step.body)
        case OpenBody():
            return step.stream.chunks()
        case NextChunk():
            return next(step.chunks, None)
        case Wait():
            return transport.wait_for(step.log, step.after, step.timeout_s)
        case InThread():
            return step.act()
        case HttpStep():
            return transport.do(step)


# Awaited


async def run_awaited(transport: Any, flow: Flow[Result]) -> Result:
    """Do the steps of a flow; return the value that the flow returns."""
    try:
        step = next(flow)
        while True:
            try:
                outcome = await _do_awaited(transport, step)
            except (RelayError, LostRequest) as error:
                step = flow.throw(error)
            else:
                step = flow.send(outcome)
    except StopIteration as done:
        return done.value


async def iterate_awaited(transport: Any, flow: Items[Item]) -> AsyncIterator[Item]:
    """Yield the items of a flow; its steps are done as the items are requested."""
    try:
        step = next(flow)
        while True:
            if isinstance(step, Emit):
                for item in step.items:
                    yield item
                step = next(flow)
                continue
            try:
                outcome = await _do_awaited(transport, step)
            except (RelayError, LostRequest) as error:
                step = flow.throw(error)
            else:
                step = flow.send(outcome)
    except StopIteration:
        return


async def stop_awaited(transport: Any, flow: Items[Item]) -> list[Item]:
    """End a flow early; return the items that it yields until its end."""
    items: list[Item] = []
    try:
        step = flow.throw(Stopped())
        while True:
            if isinstance(step, Emit):
                items += step.items
                step = next(flow)
                continue
            try:
                outcome = await _do_awaited(transport, step)
            except (RelayError, LostRequest) as error:
                step = flow.throw(error)
            else:
                step = flow.send(outcome)
    except (StopIteration, Stopped):
        return items


async def _do_awaited(transport: Any, step: Step) -> Any:
    if isinstance(step, Verb):
        return await transport.ask(step)
    match step:
        case SendBody():
            return await transport.ask(step.verb, step.body)
        case Stream():
            return await transport.whole(step)
        case OpenBody():
            return transport.chunks(step.stream)
        case NextChunk():
            return await anext(step.chunks, None)
        case Wait():
            return await transport.wait_for(step.log, step.after, step.timeout_s)
        case InThread():
            return await in_thread(step.act)
        case HttpStep():
            return await transport.do(step)


def collected(flow: Items[Item]) -> Flow[list[Item]]:
    """Do the steps of a flow; return a list of all its items."""
    items: list[Item] = []
    try:
        step = next(flow)
        while True:
            if isinstance(step, Emit):
                items += step.items
                step = next(flow)
            else:
                step = flow.send((yield step))
    except StopIteration:
        return items


def for_each(flow: Items[Item], act: Callable[[Item], Flow[bool]]) -> Flow[None]:
    """Call `act` for each item of a flow, until `act` returns True."""
    try:
        step = next(flow)
        while True:
            if isinstance(step, Emit):
                for item in step.items:
                    if (yield from act(item)):
                        return
                step = next(flow)
            else:
                step = flow.send((yield step))
    except StopIteration:
        return


# Bodies and calls of an event loop, in threads


async def in_thread(act: Callable[[], Result]) -> Result:
    from asyncio import to_thread

    return await to_thread(act)


def to_blocking_body(body: AsyncBody) -> Body:
    """Convert a body for core. An asynchronous body is awaited from the thread of core."""
    if not isinstance(body, AsyncIterable):
        return body
    from asyncio import get_running_loop

    return from_thread(body, get_running_loop())


def from_thread(chunks: AsyncIterable[bytes], loop: AbstractEventLoop) -> Iterator[bytes]:
    """Yield the chunks of an async iterable to a thread other than that of its event loop."""
    from asyncio import run_coroutine_threadsafe

    source = aiter(chunks)

    async def following() -> bytes | None:
        return await anext(source, None)

    while (chunk := run_coroutine_threadsafe(following(), loop).result()) is not None:
        yield chunk


def write_file(path: str | os.PathLike[str], chunks: Iterable[bytes]) -> None:
    """Write a file completely or not at all."""
    # Import pathlib here, because it is the slowest import of a client.
    from pathlib import Path

    from contextrelay.store.durable_files import write_whole

    write_whole(Path(path), chunks)
