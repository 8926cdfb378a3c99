"""Methods out of verbs: each written once, blocking on `Relay`, awaited on `AsyncRelay`.

`peek = asks(Peek)` takes what `Peek` takes and returns its reply. Values are checked here as they
are when they come over the wire, so that local and remote refuse the same things.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, cast, overload

from msgspec import UNSET, ValidationError, convert

from contextrelay.client.seal.pull import keyed, opens, opens_awaited, plain
from contextrelay.client.seal.push import Pushed, Sealing
from contextrelay.client.transport.local import AsyncBody
from contextrelay.errors import Invalid
from contextrelay.logic.seal.keys import SealKey
from contextrelay.model.artifact import Artifact
from contextrelay.model.ref import parse_ref
from contextrelay.wire.validation import wrong
from contextrelay.wire.verbs import Body, Pull, Push, Stream, Verb

if TYPE_CHECKING:
    from contextrelay.client.relay import AsyncRelay, Relay

Args = ParamSpec("Args")
Reply = TypeVar("Reply")
AnyVerb = TypeVar("AnyVerb", bound=Verb[Any])

REF_CHARS = 36
# What may be given as a URL.
_REFS = ("ref", "old", "new")


def build(verb: type[AnyVerb], args: tuple[Any, ...], named: dict[str, Any]) -> AnyVerb:
    """Make a verb of a call's arguments.

    Raises:
        TypeError: an argument has no place.
        Invalid: a value is not what it has to be.
    """
    fields = verb.__struct_fields__
    values = named
    if args:
        values = dict(zip(fields, args, strict=False)) | named
        if len(values) < len(args) + len(named):
            raise TypeError(f"too many arguments: {verb.__name__} takes {', '.join(fields)}")
    for name in named:
        if name not in fields:
            raise TypeError(f"{verb.__name__} has no {name}; it takes {', '.join(fields)}")
    if values.get("ttl_s") is UNSET:
        del values["ttl_s"]
    for name in _REFS:
        ref = values.get(name)
        if isinstance(ref, str) and len(ref) != REF_CHARS and name in fields:
            values[name] = parse_ref(ref)
    try:
        return convert(values, verb)
    except ValidationError as error:
        raise wrong(verb, str(error)) from None


def checked_key(key: str) -> str:
    """An idempotency key.

    Raises:
        Invalid: it cannot be one.
    """
    from contextrelay.core.idempotency import check_key

    check_key(key)
    return key


def as_body(body: str | AsyncBody) -> AsyncBody:
    """Text as the bytes it is stored as."""
    if isinstance(body, str):
        try:
            return body.encode()
        except UnicodeEncodeError as error:
            raise Invalid(f"the text is no Unicode: {error}", "push it as bytes") from error
    if isinstance(body, bytearray | memoryview):
        return bytes(body)
    given = cast("object", body)
    if not isinstance(given, bytes | Iterable | AsyncIterable):
        raise TypeError(f"a body is bytes, text or chunks of bytes, not {type(given).__name__}")
    return body


def told(verb: type[Verb[Any]]) -> str:
    """A verb's documentation, with what it takes."""
    fields = ", ".join(verb.__struct_fields__)
    return f"{verb.__doc__}\n\nTakes: {fields}." if fields else verb.__doc__ or ""


class _Method(Generic[Args, Reply]):
    """A descriptor that knows its verb."""

    def __init__(self, verb: Callable[Args, Verb[Reply]]) -> None:
        self._verb: type[Verb[Reply]] = verb  # pyright: ignore[reportAttributeAccessIssue]
        self.__doc__ = told(self._verb)


class asks(_Method[Args, Reply]):  # noqa: N801
    """A verb without a body."""

    @overload
    def __get__(self, client: Relay, owner: type) -> Callable[Args, Reply]: ...
    @overload
    def __get__(self, client: AsyncRelay, owner: type) -> Callable[Args, Awaitable[Reply]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        if client is None:
            return self

        def method(*args: Any, **named: Any) -> Any:
            return client.transport.ask(build(self._verb, args, named))

        return method


class pushes(_Method[Args, Artifact]):  # noqa: N801
    """A verb with a body, which may be sealed first: bytes, text, or chunks of bytes."""

    @overload
    def __get__(
        self, client: Relay, owner: type
    ) -> Callable[Concatenate[str | Body, Args], Pushed]: ...
    @overload
    def __get__(
        self, client: AsyncRelay, owner: type
    ) -> Callable[Concatenate[str | AsyncBody, Args], Awaitable[Pushed]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        if client is None:
            return self

        def sealing(body: str | AsyncBody, args: Any, named: Any) -> Sealing:
            seal = named.pop("seal", False)
            return Sealing(build(Push, args, named), as_body(body), seal)

        def method(body: str | AsyncBody, /, *args: Any, **named: Any) -> Any:
            sent = sealing(body, args, named)
            artifact = client.transport.ask(sent.verb, sent.body)
            return sent.pushed(artifact, client.transport.url_of(artifact.ref))

        async def awaited(body: str | AsyncBody, /, *args: Any, **named: Any) -> Any:
            sent = sealing(body, args, named)
            artifact = await client.transport.ask(sent.verb, sent.body)
            return sent.pushed(artifact, client.transport.url_of(artifact.ref))

        return awaited if client.is_async else method


class sends(_Method[Args, Reply]):  # noqa: N801
    """A verb with a body: bytes, text, or chunks of bytes."""

    @overload
    def __get__(
        self, client: Relay, owner: type
    ) -> Callable[Concatenate[str | Body, Args], Reply]: ...
    @overload
    def __get__(
        self, client: AsyncRelay, owner: type
    ) -> Callable[Concatenate[str | AsyncBody, Args], Awaitable[Reply]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        if client is None:
            return self

        def method(body: str | AsyncBody, /, *args: Any, **named: Any) -> Any:
            return client.transport.ask(build(self._verb, args, named), as_body(body))

        return method


class brings(_Method[Args, Stream[Artifact]]):  # noqa: N801
    """A verb whose reply is a body, in one piece; opened, where the ref is a URL with a key."""

    @overload
    def __get__(self, client: Relay, owner: type) -> Callable[Args, bytes]: ...
    @overload
    def __get__(self, client: AsyncRelay, owner: type) -> Callable[Args, Awaitable[bytes]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        if client is None:
            return self

        def method(*args: Any, **named: Any) -> Any:
            verb, key = _pull(args, named)
            if key is not None:
                return b"".join(opens(client.transport, verb, key))
            return plain(client.transport.ask(verb)).whole()

        async def awaited(*args: Any, **named: Any) -> Any:
            verb, key = _pull(args, named)
            if key is not None:
                return b"".join([part async for part in opens_awaited(client.transport, verb, key)])
            return await client.transport.whole(plain(await client.transport.ask(verb)))

        return awaited if client.is_async else method


class streams(_Method[Args, Stream[Artifact]]):  # noqa: N801
    """A verb whose reply is a body, chunk by chunk; opened, where the ref is a URL with a key."""

    @overload
    def __get__(self, client: Relay, owner: type) -> Callable[Args, Iterator[bytes]]: ...
    @overload
    def __get__(self, client: AsyncRelay, owner: type) -> Callable[Args, AsyncIterator[bytes]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        if client is None:
            return self

        def method(*args: Any, **named: Any) -> Any:
            verb, key = _pull(args, named)
            if key is not None:
                return opens(client.transport, verb, key)
            return plain(client.transport.ask(verb)).chunks()

        async def awaited(*args: Any, **named: Any) -> Any:
            verb, key = _pull(args, named)
            if key is not None:
                chunks = opens_awaited(client.transport, verb, key)
            else:
                chunks = client.transport.chunks(plain(await client.transport.ask(verb)))
            async for chunk in chunks:
                yield chunk

        return awaited if client.is_async else method


def _pull(args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Pull, SealKey | None]:
    """A pull, and the key in the URL that it names."""
    if args:
        ref, key = keyed(args[0])
        return build(Pull, (ref, *args[1:]), named), key
    ref, key = keyed(named.get("ref"))
    return build(Pull, (), {**named, "ref": ref} if key else named), key
