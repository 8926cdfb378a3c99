"""MCP over HTTP: the path `/mcp` of a server.

Requests are stateless, as in the newest protocol. A client of the older protocol gets a session if
a single process serves the store. Otherwise, and above a limit of sessions, such a client is served
without a session, so that no load balancer has to route its requests to the same process.

The SDK is imported at the first request. Its transport reads and answers through the exchange, so
authentication, limits and metrics are the same as for every other path.

Rule: a server sends no requests to other servers for its callers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any, Literal, TypeVar

from msgspec import MsgspecError, Struct
from msgspec.json import decode

from contextrelay.client.flow import AsyncBody, in_thread, to_blocking_body
from contextrelay.client.relay import AsyncRelay
from contextrelay.client.transport.local import AsyncLocal
from contextrelay.errors import NotFound, RelayError
from contextrelay.limits import MCP_MESSAGE_BYTES_MAX, WAIT_S_MAX
from contextrelay.server.request import ClientLeft, Exchange, Receive, Scope, Send
from contextrelay.server.router import SERVER, Endpoint, NotAllowed
from contextrelay.server.routes.v1 import ask
from contextrelay.server.streams.signals import cancel_on_disconnect
from contextrelay.verbs import Verb
from contextrelay.verbs.problems import MEDIA_TYPE

# The maximum number of sessions of clients of the older protocol in one process, and their idle
# timeout in seconds.
MCP_SESSIONS_MAX = 1_000
MCP_SESSION_IDLE_S = 3_600.0
Reply = TypeVar("Reply")
Handle = Callable[[Scope, Receive, Send], Awaitable[None]]
JSON = "application/json"
EVENTS = "text/event-stream"
SESSION_HEADER = "mcp-session-id"
# The key in the ASGI scope that passes the relay of a request through the SDK.
RELAY = "contextrelay.relay"


class UnsupportedMediaType(RelayError):
    """The content type of a request is not JSON."""

    code, status = "unsupported_media_type", 415


class NotAccepted(RelayError):
    """The Accept header allows neither JSON nor event streams."""

    code, status = "not_acceptable", 406


class RpcMessage(Struct):
    """The fields of a JSON-RPC message that this server reads."""

    jsonrpc: Literal["2.0"]
    method: str


async def answer(exchange: Exchange) -> None:
    """Answer a message of the Model Context Protocol.

    Takes one JSON-RPC message and returns its answer, or a stream of events that ends with it.
    """
    headers = _checked(exchange)
    stateless, sessions = await exchange.door.mcp.ready()
    body = await exchange.whole(MCP_MESSAGE_BYTES_MAX, None)
    # The SDK has no public way to count its sessions. Without room, clients are served without one.
    has_room = len(sessions._server_instances) < MCP_SESSIONS_MAX
    in_session = exchange.door.mcp.has_sessions and (
        exchange.header(SESSION_HEADER) != "" or (_starts_session(body) and has_room)
    )
    await _handle(sessions if in_session else stateless, exchange, headers, body)


async def listen(exchange: Exchange) -> None:
    """Stream the messages that an MCP server sends in a session, as server-sent events."""
    await _in_session(exchange)


async def leave(exchange: Exchange) -> None:
    """End a session of an MCP client."""
    await _in_session(exchange)


async def _in_session(exchange: Exchange) -> None:
    if not exchange.door.mcp.has_sessions or not exchange.header(SESSION_HEADER):
        problem = f"{exchange.method} needs a session, and this request has no session id"
        raise NotAllowed(problem, "send each message with POST", {"allow": "POST"})
    _, sessions = await exchange.door.mcp.ready()
    await _handle(sessions, exchange, list(exchange.scope["headers"]), None)


async def _handle(
    manager: Any, exchange: Exchange, headers: list[tuple[bytes, bytes]], body: bytes | None
) -> None:
    scope = _scope(exchange, headers)
    await manager.handle_request(scope, _receiving(exchange, body), _answering(exchange))


def _starts_session(body: bytes) -> bool:
    """Return True if a message starts a session, as clients of the older protocol do."""
    with suppress(MsgspecError, UnicodeDecodeError):
        return b"initialize" in body and decode(body, type=RpcMessage).method == "initialize"
    return False


def _scope(exchange: Exchange, headers: list[tuple[bytes, bytes]]) -> Scope:
    """Return the ASGI scope for the SDK, including the relay that answers the request."""
    from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
    from mcp.server.auth.provider import AccessToken

    scope = {
        **exchange.scope,
        "headers": headers,
        RELAY: AsyncRelay.over_transport(RequestRelay(exchange)),
    }
    key = exchange.visitor.key
    if key is not None:  # A session is bound to the key that started it.
        scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=key.id, scopes=[]))
    return scope


def _checked(exchange: Exchange) -> list[tuple[bytes, bytes]]:
    """Return the headers of a request, with the Accept header that the SDK requires.

    Raises:
        UnsupportedMediaType, NotAccepted: the content type or the Accept header is wrong.
    """
    if exchange.media_type() != JSON:
        hint = f"send content-type: {JSON}"
        raise UnsupportedMediaType("invalid content type: a message is JSON", hint)
    accepted = exchange.header("accept")
    if accepted and "*/*" not in accepted and not all(map(exchange.accepts, (JSON, EVENTS))):
        hint = f"send accept: {JSON}, {EVENTS}"
        raise NotAccepted("the accept header allows neither JSON nor events", hint)
    kept = [each for each in exchange.scope["headers"] if each[0] != b"accept"]
    return [*kept, (b"accept", f"{JSON}, {EVENTS}".encode())]


def _receiving(exchange: Exchange, body: bytes | None) -> Receive:
    """Return an ASGI function that returns the body, and then waits until the client disconnects.

    If `body` is None, the request is a stream, which ends when the server stops.
    """
    parts = [body or b""]
    closing = exchange.door.hub.closing

    async def receive() -> MutableMapping[str, Any]:
        if parts:
            return {"type": "http.request", "body": parts.pop(), "more_body": False}
        if body is None:
            with suppress(ClientLeft):
                await cancel_on_disconnect(exchange, closing.wait())
        else:
            await exchange.until_disconnected()
        return {"type": "http.disconnect"}

    return receive


def _answering(exchange: Exchange) -> Send:
    async def send(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            await exchange.start(message["status"], list(message.get("headers", ())))
        elif message["type"] == "http.response.body":
            await exchange.send(message.get("body", b""), more=message.get("more_body", False))

    return send


class RequestRelay(AsyncLocal):
    """The relay of this server, with the permissions of the caller of one request."""

    def __init__(self, exchange: Exchange) -> None:
        super().__init__(exchange.relay.stores)
        self._exchange = exchange

    def url_of(self, ref: str) -> str:
        return f"{self._exchange.origin}/pull/{ref}"

    async def ask(self, verb: Verb[Reply], body: AsyncBody = b"", key: str = "") -> Reply:
        return await ask(self._exchange, verb, to_blocking_body(body))

    async def wait_for(self, log: str, after: int, timeout_s: float | None) -> bool:
        """Wait at the server's hub. The wait ends when the server stops."""
        wait_s = WAIT_S_MAX if timeout_s is None else timeout_s
        return await self._exchange.door.hub.wait_for(self.stores, log, after, wait_s)


class McpMount:
    """Holds the SDK's session managers from the first request to the shutdown of the server."""

    def __init__(self, has_sessions: bool) -> None:
        self.has_sessions = has_sessions
        self._running: asyncio.Task[None] | None = None
        self._managers: asyncio.Future[tuple[Any, Any]] | None = None
        self._ended = asyncio.Event()

    async def ready(self) -> tuple[Any, Any]:
        """Return the SDK's managers of stateless requests and of sessions. Start them if necessary.

        Raises:
            NotFound: the SDK is not installed.
        """
        if self._managers is None:
            loop = asyncio.get_running_loop()
            self._managers = loop.create_future()
            self._running = loop.create_task(self._run(self._managers))
        return await asyncio.shield(self._managers)

    async def _run(self, managers: asyncio.Future[tuple[Any, Any]]) -> None:
        try:
            stateless = await in_thread(lambda: _manager(has_sessions=False))
            sessions = await in_thread(lambda: _manager(has_sessions=True))
            async with stateless.run(), sessions.run():
                managers.set_result((stateless, sessions))
                await self._ended.wait()
        except ImportError as error:
            self._managers = None
            problem = f"this server has no MCP: {error.name} is not installed"
            managers.set_exception(NotFound(problem, "pip install 'contextrelay[mcp]'"))

    async def stop(self) -> None:
        """Stop the session managers after all requests have been answered."""
        self._ended.set()
        if self._running is not None:
            await self._running


def _manager(has_sessions: bool) -> Any:
    """Create a session manager of the SDK. Importing the SDK takes most of a second."""
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from contextrelay.mcp.server import Asking, make_server
    from contextrelay.mcp.tools.tool import ToolVisit

    def visit(asking: Asking) -> ToolVisit:
        assert asking.request is not None, "no HTTP request in this context"
        return ToolVisit(asking.request.scope[RELAY])

    return StreamableHTTPSessionManager(
        make_server(visit, stays=has_sessions),
        stateless=not has_sessions,
        session_idle_timeout=MCP_SESSION_IDLE_S,
        max_request_body_size=MCP_MESSAGE_BYTES_MAX,
        max_sessions=None,  # Our own limit is checked before this.
    )


_FAILS = dict.fromkeys((400, 404, 406, 409, 415), (JSON, MEDIA_TYPE, "text/plain"))
_FAILS_OF_SESSIONS = {**_FAILS, 405: _FAILS[400]}
ENDPOINTS = [
    Endpoint(
        http="POST /mcp",
        handler=answer,
        id="mcp",
        tag=SERVER,
        takes=RpcMessage,
        gives=dict[str, Any],
        also={200: (EVENTS,), 202: (), **_FAILS},
    ),
    Endpoint(
        http="GET /mcp",
        handler=listen,
        id="mcpListen",
        tag=SERVER,
        also={200: (EVENTS,), **_FAILS_OF_SESSIONS},
    ),
    Endpoint(
        http="DELETE /mcp",
        handler=leave,
        id="mcpLeave",
        tag=SERVER,
        also={200: (JSON,), **_FAILS_OF_SESSIONS},
    ),
]
