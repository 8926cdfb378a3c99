"""Methods of the clients, built from verbs and flows: each written once, blocking and awaited.

`peek = asks(Peek)` takes the arguments of `Peek` and returns its reply; on `AsyncRelay` it returns
an awaitable of the reply. Values are validated here as on the wire, so that local and remote
clients refuse the same values.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from types import MethodType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    TypeVar,
    overload,
)

from msgspec import UNSET, ValidationError, convert

from contextrelay.client.content import Content, as_body
from contextrelay.client.flow import (
    Flow,
    Items,
    SendBody,
    collected,
    iterate,
    iterate_awaited,
    run,
    run_awaited,
)
from contextrelay.client.seal.pull import chunks_of, open_sealed, unsealed
from contextrelay.client.seal.push import Pushed, Sealing
from contextrelay.client.seal.reads import look_inside
from contextrelay.model.artifact import Artifact
from contextrelay.model.ref import parse_ref
from contextrelay.model.thread import ThreadView
from contextrelay.seal.keys import SealKey, split_key
from contextrelay.verbs import Pull, Push, Verb
from contextrelay.verbs.verb import invalid_field

if TYPE_CHECKING:
    from inspect import Signature

    from contextrelay.client.run_stream import AsyncRunStream, RunStream
    from contextrelay.client.thread import AsyncThread, Thread
    from contextrelay.model.run import RunResult

Args = ParamSpec("Args")
Reply = TypeVar("Reply")
Result = TypeVar("Result")
Item = TypeVar("Item")
Blocked = TypeVar("Blocked", covariant=True)
Awaited = TypeVar("Awaited", covariant=True)
AnyVerb = TypeVar("AnyVerb", bound=Verb[Any])

REF_CHARS = 36
# Names of parameters that accept a URL.
_REFS = ("ref", "old", "new")


def build(verb: type[AnyVerb], args: tuple[Any, ...], named: dict[str, Any]) -> AnyVerb:
    """Create a verb from the arguments of a call.

    Raises:
        TypeError: there are too many arguments, or an argument is unknown.
        Invalid: a value is invalid.
    """
    fields = verb.__struct_fields__
    values = named
    if args:
        values = dict(zip(fields, args, strict=False))
        values.update(named)
        if len(values) < len(args) + len(named):
            raise TypeError(f"too many arguments: {verb.__name__} takes {', '.join(fields)}")
    for name in named:
        if name not in fields:
            raise TypeError(
                f"{verb.__name__} has no argument {name!r}; it takes {', '.join(fields)}"
            )
    if values.get("ttl_s") is UNSET:
        del values["ttl_s"]
    for name in _REFS:
        if name in values and isinstance(ref := values[name], str) and len(ref) != REF_CHARS:
            values[name] = parse_ref(ref)
    try:
        return convert(values, verb)
    except ValidationError as error:
        raise invalid_field(verb, error) from None


# Methods


class Blocking(Protocol):
    """A client, or a handle of one, whose methods block."""

    @property
    def is_async(self) -> Literal[False]: ...


class Async(Protocol):
    """A client, or a handle of one, whose methods are awaited."""

    @property
    def is_async(self) -> Literal[True]: ...


class Method(Generic[Args, Blocked, Awaited]):
    """A method of both clients, which `help` and `inspect.signature` show as a plain function.

    `calls`: the function for blocking clients, and the one for awaited clients. `source`: the verb
    or flow that defines the parameters.
    """

    def __init__(
        self, calls: tuple[Any, Any], source: Any, doc: str | None = None, **shape: Any
    ) -> None:
        self._blocking, self._awaited = calls
        for is_async, call in enumerate(calls):
            call.__doc__ = doc or source.__doc__
            call.__wrapped__ = _Signed(call, source, bool(is_async), shape)

    def __set_name__(self, owner: type, name: str) -> None:
        for call in (self._blocking, self._awaited):
            call.__name__ = name
            call.__qualname__ = f"{owner.__name__}.{name}"
            call.__module__ = owner.__module__

    @overload
    def __get__(self, client: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, client: Blocking, owner: type) -> Callable[Args, Blocked]: ...
    @overload
    def __get__(self, client: Async, owner: type) -> Callable[Args, Awaited]: ...
    def __get__(self, client: Any, owner: Any) -> Any:
        call = self._awaited if owner.is_async else self._blocking
        return call if client is None else MethodType(call, client)


class _Signed:
    """A function whose signature is computed on demand, because that is slow."""

    def __init__(self, call: Any, source: Any, is_async: bool, shape: dict[str, Any]) -> None:
        self._call = call
        self._parts = source, is_async, shape

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self._call(*args, **named)

    @property
    def __signature__(self) -> Signature:
        from contextrelay.client.signatures import signature_of

        source, is_async, shape = self._parts
        return signature_of(source, is_async, **shape)


def verb_method(verb: Callable[Args, Verb[Reply]]) -> Method[Args, Reply, Awaitable[Reply]]:
    """Return a client method that sends a verb without a body."""
    kind: Any = verb

    def ask(client: Any, *args: Any, **named: Any) -> Any:
        return client.transport.ask(build(kind, args, named))

    async def ask_awaited(client: Any, *args: Any, **named: Any) -> Any:
        return await client.transport.ask(build(kind, args, named))

    return Method((ask, ask_awaited), kind)


def thread_verb_method(
    verb: Callable[Concatenate[str, Args], Verb[Reply]], then: Callable[[Reply], Result]
) -> Method[Args, Result, Awaitable[Result]]:
    """Return a method that sends a verb about the thread of a handle; `then` converts the reply."""
    kind: Any = verb

    def ask(thread: Any, *args: Any, **named: Any) -> Any:
        return then(thread.transport.ask(build(kind, (thread.id, *args), named)))

    async def ask_awaited(thread: Any, *args: Any, **named: Any) -> Any:
        return then(await thread.transport.ask(build(kind, (thread.id, *args), named)))

    return Method((ask, ask_awaited), kind, without="thread", then=then)


def body_verb_method(
    verb: Callable[Args, Verb[Reply]],
) -> Method[Concatenate[Content, Args], Reply, Awaitable[Reply]]:
    """Return a client method that sends a verb with a body."""
    kind: Any = verb

    def send(client: Any, body: Content, /, *args: Any, **named: Any) -> Flow[Any]:
        return (yield SendBody(build(kind, args, named), as_body(body, client.is_async)))

    return Method(_driven(send), kind, has_body=True)


def push_method(
    verb: Callable[Args, Verb[Artifact]],
) -> Method[Concatenate[Content, Args], Pushed, Awaitable[Pushed]]:
    """Return a client method that pushes a body, which may be sealed first."""
    return Method(_driven(_push), verb, has_body=True, returns=Pushed)


def thread_push_method(
    verb: Callable[Args, Verb[Artifact]],
) -> Method[Concatenate[Content, Args], Pushed, Awaitable[Pushed]]:
    """Return a method that pushes a body into the thread of a handle."""

    def put(thread: Any, body: Content, /, *args: Any, **named: Any) -> Flow[Pushed]:
        return _push(thread, body, *args, **{**named, "thread": thread.id})

    doc = "Store a body and put it into this thread; the options are those of `Relay.push`."
    return Method(_driven(put), verb, doc, without="thread", has_body=True, returns=Pushed)


def _push(client: Any, body: Content, /, *args: Any, **named: Any) -> Flow[Pushed]:
    seal = named.pop("seal", False)
    sent = Sealing(build(Push, args, named), as_body(body, client.is_async), seal)
    artifact = yield SendBody(sent.verb, sent.body)
    return sent.pushed(artifact, client.transport.url_of(artifact.ref))


def inspect_method(verb: Callable[Args, Verb[Reply]]) -> Method[Args, Reply, Awaitable[Reply]]:
    """Return a client method for a verb that inspects bodies.

    If a ref is a URL with a key, the body is inspected locally.
    """
    kind: Any = verb

    def look(client: Any, *args: Any, **named: Any) -> Flow[Any]:
        values = dict(zip(kind.__struct_fields__, args, strict=False)) | named
        keys = {name: key for name in _REFS if (key := _key_in(values.get(name)))}
        verb = build(kind, args, named)
        return (yield from look_inside(verb, keys)) if keys else (yield verb)

    return Method(_driven(look), kind)


def pull_method(verb: Callable[Args, Verb[Any]]) -> Method[Args, bytes, Awaitable[bytes]]:
    """Return a client method that pulls a body in one piece.

    If the ref is a URL with a key, the body is decrypted.
    """

    def pull(client: Any, *args: Any, **named: Any) -> Flow[bytes]:
        key = _key_in(args[0] if args else named.get("ref"))
        verb = build(Pull, args, named)
        if key is not None:
            return b"".join((yield from collected(open_sealed(verb, key))))
        return (yield unsealed((yield verb)))

    by_flow, awaited = _driven(pull)

    def blocking(client: Any, *args: Any, **named: Any) -> bytes:
        # Most pulls need only one request, for which a flow would take a tenth longer.
        if _key_in(args[0] if args else named.get("ref")) is not None:
            return by_flow(client, *args, **named)
        return unsealed(client.transport.ask(build(Pull, args, named))).whole()

    return Method((blocking, awaited), verb, returns=bytes)


def stream_method(
    verb: Callable[Args, Verb[Any]],
) -> Method[Args, Iterator[bytes], AsyncIterator[bytes]]:
    """Return a client method that pulls a body chunk by chunk.

    If the ref is a URL with a key, it is decrypted.
    """

    def stream(client: Any, *args: Any, **named: Any) -> Items[bytes]:
        key = _key_in(args[0] if args else named.get("ref"))
        verb = build(Pull, args, named)
        if key is not None:
            yield from open_sealed(verb, key)
        else:
            yield from chunks_of(unsealed((yield verb)))

    doc = "Pull a body, or a part of it, chunk by chunk."
    return Method(_iterated(stream), verb, doc, returns=bytes, is_items=True)


def _key_in(ref: object) -> SealKey | None:
    return split_key(ref)[1] if isinstance(ref, str) and "#" in ref else None


def flow_method(
    steps: Callable[Concatenate[Any, Args], Flow[Result]],
) -> Method[Args, Result, Awaitable[Result]]:
    """Return a client method that does the steps of a flow and returns its value."""
    return Method(_driven(steps), steps)


def items_method(
    steps: Callable[Concatenate[Any, Args], Items[Item]],
) -> Method[Args, Iterator[Item], AsyncIterator[Item]]:
    """Return a client method that returns an iterator over the items of a flow."""
    return Method(_iterated(steps), steps, is_items=True)


def run_method(
    steps: Callable[Concatenate[Any, Args], Items[str | RunResult]],
) -> Method[Args, RunResult, Awaitable[RunResult]]:
    """Return a method that runs a model to its end and returns the result."""

    streamed, streamed_awaited = _streamed(steps)

    def call(client: Any, *args: Any, **named: Any) -> RunResult:
        return streamed(client, *args, **named).whole()

    async def call_awaited(client: Any, *args: Any, **named: Any) -> RunResult:
        return await streamed_awaited(client, *args, **named).whole()

    doc = "Ask a model on this thread; the options are those of `run_stream`."
    return Method((call, call_awaited), steps, doc, returns="RunResult")


def run_stream_method(
    steps: Callable[Concatenate[Any, Args], Items[str | RunResult]],
) -> Method[Args, RunStream, AsyncRunStream]:
    """Return a method that runs a model; the caller iterates over the text of the answer."""
    returns = ("RunStream", "AsyncRunStream")
    return Method(_streamed(steps), steps, returns=returns, is_direct=True)


def _streamed(steps: Callable[..., Items[str | RunResult]]) -> tuple[Any, Any]:
    def call(client: Any, *args: Any, **named: Any) -> RunStream:
        from contextrelay.client.run_stream import RunStream

        return RunStream(client.transport, steps(client, *args, **named))

    def call_awaited(client: Any, *args: Any, **named: Any) -> AsyncRunStream:
        from contextrelay.client.run_stream import AsyncRunStream

        return AsyncRunStream(client.transport, steps(client, *args, **named))

    return call, call_awaited


def thread_method(
    steps: Callable[Concatenate[Any, Args], Flow[ThreadView]],
) -> Method[Args, Thread, Awaitable[AsyncThread]]:
    """Return a method that does the steps of a flow and returns a thread handle."""

    def call(client: Any, *args: Any, **named: Any) -> Flow[Any]:
        made = yield from steps(client, *args, **named)
        return getattr(client, "relay", client).handle(made)

    return Method(_driven(call), steps, returns=("Thread", "AsyncThread"))


def _driven(steps: Callable[..., Flow[Any]]) -> tuple[Any, Any]:
    def call(client: Any, *args: Any, **named: Any) -> Any:
        return run(client.transport, steps(client, *args, **named))

    async def call_awaited(client: Any, *args: Any, **named: Any) -> Any:
        return await run_awaited(client.transport, steps(client, *args, **named))

    return call, call_awaited


def _iterated(steps: Callable[..., Items[Any]]) -> tuple[Any, Any]:
    def call(client: Any, *args: Any, **named: Any) -> Any:
        return iterate(client.transport, steps(client, *args, **named))

    def call_awaited(client: Any, *args: Any, **named: Any) -> Any:
        return iterate_awaited(client.transport, steps(client, *args, **named))

    return call, call_awaited
