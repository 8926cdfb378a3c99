"""The remote transports: verbs sent over HTTP, blocking or awaited.

Both do the steps of a flow (http_flow.py): send, read, pause. Errors of httpx2 are converted to
Context Relay errors here.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from copy import copy
from threading import Event
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar

import httpx2

from contextrelay import __version__
from contextrelay.client.flow import (
    AsyncBody,
    Flow,
    HttpStep,
    LostRequest,
    from_thread,
    in_thread,
    iterate,
    iterate_awaited,
    run,
    run_awaited,
    to_blocking_body,
)
from contextrelay.client.transport import http_flow
from contextrelay.client.transport.address import ServerAddress
from contextrelay.client.transport.http_flow import (
    Close,
    Pause,
    PulledBodies,
    ReadOn,
    Send,
    UnreadBody,
)
from contextrelay.errors import Invalid, Unavailable
from contextrelay.limits import CHUNK_BYTES, CONNECT_S_MAX, REPLY_S_DEFAULT, SENDS_MAX, WAIT_S_MAX
from contextrelay.verbs import Body, ReadEvents, ReadSignals, Stream, Verb

if TYPE_CHECKING:
    from contextrelay.core import Stores

# This timeout is short, because a user waits to learn that the server is down.
UNHEARD_SENDS_MAX = 4
IDLE_CONNECTION_S = 20
CLIENT_CONNECTIONS_MAX = 64


Reply = TypeVar("Reply")
Result = TypeVar("Result")


class _Remote:
    """The common part of the blocking and the awaited transport."""

    def __init__(self, server: ServerAddress, timeout_s: float = REPLY_S_DEFAULT) -> None:
        self.server = server
        self.key = ""
        self._timeout_s = timeout_s
        self._held = PulledBodies()

    @property
    def stores(self) -> Stores:
        """Always raise an error, because a server gives no access to its stores.

        Raises:
            Invalid: always.
        """
        raise Invalid(
            f"this needs direct access to the store, but {self.server.url} is a server",
            "run it on the machine of the store, with --store",
        )

    def once(self, key: str) -> Self:
        """Return a copy of this transport that sends an idempotency key with every verb."""
        view = copy(self)
        view.key = key
        return view

    def url_of(self, ref: str) -> str:
        return f"{self.server.url}/pull/{ref}"

    def _asked(self, verb: Verb[Any], body: Body, key: str) -> Flow[Any]:
        return http_flow.asked(self.server, verb, body, key or self.key, self._held)

    def _news(self, log: str, after: int, wait_s: float) -> Flow[bool]:
        kind, _, name = log.partition("/")
        verb = ReadEvents(name, after, 1) if kind == "t" else ReadSignals(name, after, 1)
        return http_flow.has_news(self.server, verb, wait_s)

    def _timeout(self, send: Send) -> httpx2.Timeout:
        reply_s = self._timeout_s if send.reply_s is None else max(send.reply_s, self._timeout_s)
        return httpx2.Timeout(self._timeout_s, connect=min(CONNECT_S_MAX, reply_s), read=reply_s)


class _Answer:
    """An `OpenReply` that reads a response of httpx2."""

    def __init__(self, response: httpx2.Response, parts: Any) -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self.response = response
        self.parts = parts


class Remote(_Remote):
    """A blocking transport to a relay over HTTP."""

    def __init__(self, server: ServerAddress, timeout_s: float = REPLY_S_DEFAULT) -> None:
        super().__init__(server, timeout_s)
        self._client = httpx2.Client(**_options(server))
        self._closed = Event()

    def ask(self, verb: Verb[Reply], body: Body = b"", key: str = "") -> Reply:
        reply = self.run(self._asked(verb, body, key))
        if isinstance(reply, UnreadBody):
            chunks = _once(lambda chunk_bytes: self._chunks(reply))
            return Stream(reply.value, chunks)  # pyright: ignore[reportReturnType]
        return reply

    def wait_for(self, log: str, after: int, timeout_s: float | None) -> bool:
        """Wait until a log has facts after a seq; return False on a timeout."""
        return any(self.run(self._news(log, after, wait_s)) for wait_s in _waits(timeout_s))

    def run(self, flow: Flow[Result]) -> Result:
        """Do the steps of a flow; return the value that the flow returns."""
        return run(self, flow)

    def do(self, step: HttpStep) -> Any:
        try:
            return self._do(step)
        except httpx2.HTTPError as error:
            raise _convert_error(self.server, error) from error

    def _do(self, step: HttpStep) -> Any:
        match step:
            case Send():
                content = None
                if step.body is not None:
                    content = step.body.small()
                    content = step.body.pieces() if content is None else content
                response = _sent(self._client, step, content, self._timeout(step))
                return _Answer(response, response.iter_bytes())
            case ReadOn():
                return next(step.answer.parts, b"")
            case Close():
                step.answer.response.close()
            case Pause():
                if self._closed.wait(step.seconds):
                    _is_closed()
            case _:
                raise AssertionError(step)
        return None

    def _chunks(self, coming: UnreadBody) -> Iterator[bytes]:
        try:
            yield from iterate(self, http_flow.rest_of(coming))
        finally:
            coming.answer.response.close()

    def close(self) -> None:
        self._closed.set()
        self._client.close()


class AsyncRemote(_Remote):
    """An awaited transport to a relay over HTTP."""

    def __init__(self, server: ServerAddress, timeout_s: float = REPLY_S_DEFAULT) -> None:
        super().__init__(server, timeout_s)
        self._client = httpx2.AsyncClient(**_options(server))
        # At most one transport, shared by all copies of this one.
        self._senders: list[Remote] = []

    async def ask(self, verb: Verb[Reply], body: AsyncBody = b"", key: str = "") -> Reply:
        if not isinstance(body, bytes) or len(body) > CHUNK_BYTES:
            return await self._sent_in_thread(verb, body, key)
        reply = await self.run(self._asked(verb, body, key))
        if isinstance(reply, UnreadBody):
            chunks = _once(lambda chunk_bytes: self._chunks(reply))
            loop = asyncio.get_running_loop()

            def blocking(chunk_bytes: int) -> Iterator[bytes]:
                return from_thread(chunks(chunk_bytes), loop)

            return _Streamed(reply.value, blocking, chunks)  # pyright: ignore[reportReturnType]
        return reply

    async def _sent_in_thread(self, verb: Verb[Reply], body: AsyncBody, key: str) -> Reply:
        """Send a large body from a thread.

        On an event loop, the reply of a server that stops reading early would be lost, and with it
        the error that it contains.
        """
        if not self._senders:
            self._senders.append(Remote(self.server, self._timeout_s))
        sender, sent = self._senders[0], to_blocking_body(body)
        return await in_thread(lambda: sender.ask(verb, sent, key or self.key))

    async def wait_for(self, log: str, after: int, timeout_s: float | None) -> bool:
        """Wait until a log has facts after a seq; return False on a timeout."""
        for wait_s in _waits(timeout_s):
            if await self.run(self._news(log, after, wait_s)):
                return True
        return False

    async def run(self, flow: Flow[Result]) -> Result:
        """Do the steps of a flow; return the value that the flow returns."""
        return await run_awaited(self, flow)

    async def do(self, step: HttpStep) -> Any:
        try:
            return await self._do(step)
        except httpx2.HTTPError as error:
            raise _convert_error(self.server, error) from error

    async def _do(self, step: HttpStep) -> Any:
        match step:
            case Send():
                content = None
                if step.body is not None:
                    content = step.body.small()
                    assert content is not None, "a large body is sent from a thread"
                response = await _sent(self._client, step, content, self._timeout(step))
                return _Answer(response, response.aiter_bytes())
            case ReadOn():
                return await anext(step.answer.parts, b"")
            case Close():
                await step.answer.response.aclose()
            case Pause():
                await asyncio.sleep(step.seconds)
            case _:
                raise AssertionError(step)
        return None

    async def _chunks(self, coming: UnreadBody) -> AsyncIterator[bytes]:
        try:
            async for part in iterate_awaited(self, http_flow.rest_of(coming)):
                yield part
        finally:
            await coming.answer.response.aclose()

    async def chunks(
        self, stream: Stream[object], chunk_bytes: int = CHUNK_BYTES
    ) -> AsyncIterator[bytes]:
        """Yield the chunks of a body as they arrive."""
        if isinstance(stream, _Streamed):
            async for chunk in stream.awaited(chunk_bytes):
                yield chunk
        else:
            for chunk in stream.open(chunk_bytes):
                yield chunk

    async def whole(self, stream: Stream[object]) -> bytes:
        return b"".join([chunk async for chunk in self.chunks(stream)])

    async def close(self) -> None:
        await self._client.aclose()
        for sender in self._senders:
            sender.close()


class _Streamed(Stream[Any], frozen=True):
    """A reply whose body is awaited.

    `open` is called in a thread other than that of the event loop.
    """

    awaited: Callable[[int], AsyncIterator[bytes]]


def _options(server: ServerAddress) -> dict[str, Any]:
    options: dict[str, Any] = {
        "follow_redirects": False,
        "headers": {"user-agent": f"contextrelay/{__version__}"},
        # Proxies are used only for other machines.
        "trust_env": not server.is_loopback,
        "limits": httpx2.Limits(
            max_connections=CLIENT_CONNECTIONS_MAX,
            max_keepalive_connections=CLIENT_CONNECTIONS_MAX,
            keepalive_expiry=IDLE_CONNECTION_S,
        ),
    }
    if server.url.startswith("http://"):
        # Loading all certificates takes longer than a request, so this context, which is not used,
        # trusts none.
        options["verify"] = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return options


def _sent(client: Any, step: Send, content: Any, timeout: httpx2.Timeout) -> Any:
    """Send a request; the result is awaitable if the client is asynchronous.

    Raises:
        Invalid: the URL of the request is invalid.
    """
    if client.is_closed:
        _is_closed()
    headers = step.headers
    if step.body is not None and step.body.length is not None:
        headers = {**headers, "content-length": str(step.body.length)}
    try:
        request = client.build_request(
            step.method, step.url, headers=headers, content=content, timeout=timeout
        )
    except httpx2.InvalidURL as error:
        raise Invalid(f"invalid URL {step.url[:80]!r}: {error}", "check its spelling") from error
    return client.send(request, stream=True)


def _is_closed() -> NoReturn:
    raise Invalid("this relay is closed", "open another")


def _convert_error(server: ServerAddress, error: httpx2.HTTPError) -> LostRequest:
    """Convert an error of httpx2 to a `LostRequest`, with how often the request may be sent."""
    cause = str(error) or type(error).__name__
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError):
        failed = Unavailable(
            f"no relay is running at {server.url}: {cause}",
            "check that it is running, and its address",
        )
        lost = LostRequest(failed, 1 if "certificate" in cause.lower() else UNHEARD_SENDS_MAX)
    elif isinstance(error, httpx2.TimeoutException):
        failed = Unavailable(
            f"{server.url} did not answer in time", "try again, or increase the timeout"
        )
        lost = LostRequest(failed, 1)
    else:
        failed = Unavailable(f"the connection to {server.url} was lost: {cause}", "try again")
        lost = LostRequest(failed, SENDS_MAX if isinstance(error, httpx2.TransportError) else 1)
    return lost


def _once(chunks: Callable[[int], Result]) -> Callable[[int], Result]:
    """Return a function that refuses a second call: a body can be received only once."""
    taken = Event()

    def open_once(chunk_bytes: int) -> Result:
        if taken.is_set():
            raise Invalid("this body was already read", "request it again")
        taken.set()
        return chunks(chunk_bytes)

    return open_once


def _waits(timeout_s: float | None) -> Iterator[float]:
    """Yield the seconds of each wait at the server, until the timeout is over."""
    deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        left_s = WAIT_S_MAX if deadline_s is None else deadline_s - time.monotonic()
        yield max(0.0, min(left_s, WAIT_S_MAX / 2))
        if deadline_s is not None and time.monotonic() >= deadline_s:
            return
