"""MCP over HTTP: `/mcp` of a server, stateless: every request stands for itself.

The SDK is loaded with the first request. Its transport reads and answers through the exchange, so
that authentication, limits and metrics are those of every other path.

Rule: a server asks no other server for its callers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Literal, TypeVar

from msgspec import Struct

from contextrelay.client.relay import AsyncRelay
from contextrelay.client.transport.local import AsyncBody, AsyncLocal, brought, in_thread
from contextrelay.doors.http.routes.v1 import ask
from contextrelay.doors.http.server.request import Exchange, Receive, Scope, Send
from contextrelay.doors.http.server.router import SERVER, Endpoint
from contextrelay.errors import NotFound, RelayError
from contextrelay.limits import MCP_MESSAGE_BYTES_MAX, WAIT_S_MAX
from contextrelay.wire.problems import MEDIA_TYPE
from contextrelay.wire.verbs import Verb

Reply = TypeVar("Reply")
Handle = Callable[[Scope, Receive, Send], Awaitable[None]]

JSON = "application/json"
EVENTS = "text/event-stream"
# The relay of a request, in its scope, where the server finds it again.
RELAY = "contextrelay.relay"


class NotTaken(RelayError):
    """The content type is not JSON."""

    code, status = "unsupported_media_type", 415


class NotAccepted(RelayError):
    """The accept header allows neither JSON nor events."""

    code, status = "not_acceptable", 406


class Message(Struct):
    """A JSON-RPC message, as far as this server looks at it."""

    jsonrpc: Literal["2.0"]
    method: str


async def answer(exchange: Exchange) -> None:
    """The Model Context Protocol, for models.

    One JSON-RPC message in, its answer out, or a stream of events with it.
    """
    scope = {**exchange.scope, "headers": _checked(exchange)}
    handle = await exchange.door.mcp.ready()
    body = await exchange.whole(MCP_MESSAGE_BYTES_MAX, None)
    scope[RELAY] = AsyncRelay.over(Here(exchange))
    await handle(scope, _replaying(exchange, body), _answering(exchange))


def _checked(exchange: Exchange) -> list[tuple[bytes, bytes]]:
    """The headers, with the accept header that the SDK insists on.

    Raises:
        NotTaken, NotAccepted: the content type or accept header is wrong.
    """
    if exchange.media_type() != JSON:
        raise NotTaken("a message is JSON", f"send it as content-type: {JSON}")
    accepted = exchange.header("accept")
    if accepted and "*/*" not in accepted and not all(map(exchange.accepts, (JSON, EVENTS))):
        raise NotAccepted("an answer is JSON or events", f"send accept: {JSON}, {EVENTS}")
    kept = [each for each in exchange.scope["headers"] if each[0] != b"accept"]
    return [*kept, (b"accept", f"{JSON}, {EVENTS}".encode())]


def _replaying(exchange: Exchange, body: bytes) -> Receive:
    """The body once, then nothing until the client leaves."""
    parts = [body]

    async def receive() -> MutableMapping[str, Any]:
        if parts:
            return {"type": "http.request", "body": parts.pop(), "more_body": False}
        await exchange.until_left()
        return {"type": "http.disconnect"}

    return receive


def _answering(exchange: Exchange) -> Send:
    async def send(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            await exchange.start(message["status"], list(message.get("headers", ())))
        elif message["type"] == "http.response.body":
            await exchange.send(message.get("body", b""), more=message.get("more_body", False))

    return send


class Here(AsyncLocal):
    """The relay of this server with the URL and the permissions of one request."""

    def __init__(self, exchange: Exchange) -> None:
        super().__init__(exchange.relay.stores)
        self._exchange = exchange

    def url_of(self, ref: str) -> str:
        return f"{self._exchange.origin}/pull/{ref}"

    async def ask(self, verb: Verb[Reply], body: AsyncBody = b"", key: str = "") -> Reply:
        return await ask(self._exchange, verb, brought(body))

    async def wait_for(self, log: str, after: int, timeout_s: float | None) -> bool:
        """Wait at the server's hub, and no longer than the server runs."""
        wait_s = WAIT_S_MAX if timeout_s is None else timeout_s
        return await self._exchange.door.hub.wait_for(self.stores, log, after, wait_s)


class Mounted:
    """The SDK's transport, from the first request to the end of the server."""

    def __init__(self) -> None:
        self._running: asyncio.Task[None] | None = None
        self._handle: asyncio.Future[Handle] | None = None
        self._ended = asyncio.Event()

    async def ready(self) -> Handle:
        """The SDK's handler, started where it is not yet.

        Raises:
            NotFound: the SDK is not installed.
        """
        if self._handle is None:
            loop = asyncio.get_running_loop()
            self._handle = loop.create_future()
            self._running = loop.create_task(self._run(self._handle))
        return await asyncio.shield(self._handle)

    async def _run(self, handle: asyncio.Future[Handle]) -> None:
        try:
            manager = await in_thread(_manager)
            async with manager.run():
                handle.set_result(manager.handle_request)
                await self._ended.wait()
        except ImportError as error:
            self._handle = None
            handle.set_exception(
                NotFound(
                    f"this server has no MCP: {error.name} is not installed",
                    "pip install 'contextrelay[mcp]'",
                )
            )

    async def stop(self) -> None:
        """Stop, once every request is answered."""
        self._ended.set()
        if self._running is not None:
            await self._running


def _manager() -> Any:
    """The SDK's transport; loading it takes most of a second."""
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from contextrelay.doors.mcp.server import Asking, make_server
    from contextrelay.doors.mcp.tools.tool import Visit

    def visit(asking: Asking) -> Visit:
        assert asking.request is not None, "every request comes over HTTP"
        return Visit(asking.request.scope[RELAY])

    server, _ = make_server(visit, keeps_connections=False)
    return StreamableHTTPSessionManager(
        server, stateless=True, max_request_body_size=MCP_MESSAGE_BYTES_MAX
    )


# Without sessions there is nothing to GET or DELETE: 405, as the protocol has it.
ENDPOINTS = [
    Endpoint(
        http="POST /mcp",
        handler=answer,
        id="mcp",
        tag=SERVER,
        takes=Message,
        gives=dict[str, Any],
        also={
            200: (EVENTS,),
            202: (),
            **dict.fromkeys((400, 404, 406, 415), (JSON, MEDIA_TYPE, "text/plain")),
        },
    )
]
