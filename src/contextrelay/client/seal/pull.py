"""Opening: what is sealed is decrypted on this side of a pull, with the key out of the URL.

Rule: the key in the URL says what is to be there. A server that says otherwise is not believed, and
nothing is given out that was not authenticated: a whole pull brings all or raises; a stream brings
chunk after chunk, each authenticated, and raises before its end if the rest is not right.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any, TypeVar

from contextrelay.client.seal.fernet import open_bytes
from contextrelay.client.seal.push import describing
from contextrelay.errors import Invalid, Sealed
from contextrelay.limits import SEAL_CHUNK_BYTES
from contextrelay.logic.seal.keys import SealKey, cannot_open, split_key
from contextrelay.logic.seal.stream import HEADER_BYTES, Opener, first_stop, opened, span
from contextrelay.model.artifact import Artifact
from contextrelay.wire.verbs import Pull, Stream

Result = TypeVar("Result")
Flow = Generator[Pull | Stream[Artifact], Any, Result]
"""Yields what is to be pulled, and is told the reply; yields a reply, and is told its bytes."""
Plain = bytes | tuple[Opener, Stream[Artifact]]
"""What is opened already, or what opens the rest of a reply as it comes."""


def keyed(ref: object) -> tuple[object, SealKey | None]:
    """A ref as it was given, without its key, and the key."""
    return split_key(ref) if isinstance(ref, str) and "#" in ref else (ref, None)


def plain(stream: Stream[Artifact]) -> Stream[Artifact]:
    """A reply that needs no key.

    Raises:
        Sealed: it does.
    """
    if stream.value.sealed is not None:
        raise Sealed(
            f"{stream.value.ref} is sealed, and there is no key",
            "pull it by the URL that push printed, with everything behind the #",
        )
    return stream


# Doing it, blocking or awaited


def opens(
    transport: Any, verb: Pull, key: SealKey, told: Artifact | None = None
) -> Iterator[bytes]:
    """Ask for what is sealed; its plain bytes, as they come.

    `told`: what the server has told of it before, which then has to be what was sealed.
    """
    flow = _asked(verb, key, told)
    try:
        step = next(flow)
        while True:
            step = flow.send(transport.ask(step) if isinstance(step, Pull) else step.whole())
    except StopIteration as done:
        found: Plain = done.value
    if isinstance(found, bytes):
        return iter((found,))
    opener, stream = found
    return opened(stream.chunks(), opener)


async def opens_awaited(
    transport: Any, verb: Pull, key: SealKey, told: Artifact | None = None
) -> AsyncIterator[bytes]:
    """As `opens`, through a transport that is awaited."""
    flow = _asked(verb, key, told)
    try:
        step = next(flow)
        while True:
            if isinstance(step, Pull):
                step = flow.send(await transport.ask(step))
            else:
                step = flow.send(await transport.whole(step))
    except StopIteration as done:
        found: Plain = done.value
    if isinstance(found, bytes):
        yield found
        return
    opener, stream = found
    async for chunk in transport.chunks(stream):
        for part in opener.feed(chunk):
            yield part
    opener.finish()


def _asked(verb: Pull, key: SealKey, told: Artifact | None) -> Flow[Plain]:
    """What has to be pulled to open a slice, and how it is opened."""
    if key.format == "k1":
        stream = yield Pull(verb.ref)
        return open_bytes((yield stream), key)[verb.start : verb.stop]
    if verb.start < SEAL_CHUNK_BYTES:
        # The header stands before what is asked for: one request brings both.
        stream: Stream[Artifact] = yield Pull(verb.ref, 0, first_stop(verb.stop))
        chosen = span(stream.value.size_bytes, verb.start, verb.stop)
        return Opener(key, _description(told or stream.value), chosen), stream
    head: Stream[Artifact] = yield Pull(verb.ref, 0, HEADER_BYTES)
    chosen = span(head.value.size_bytes, verb.start, verb.stop)
    opener = Opener(key, _description(told or head.value), chosen, (yield head))
    return opener, (yield Pull(verb.ref, chosen.start, chosen.stop))


def _description(artifact: Artifact) -> bytes:
    try:
        return describing(artifact)
    except Invalid:
        raise cannot_open() from None
