"""A2A over HTTP: JSON-RPC at the root of an agent, HTTP+JSON below the root, and event streams.

Rule: authentication, Host checks, limits and metrics are the same as for every other path. Only
errors have the form that the binding defines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from email.utils import formatdate
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

from msgspec import DecodeError
from msgspec.json import decode, encode

from contextrelay.a2a.agents import ROOT, AgentPlace, card, open_agents, pool
from contextrelay.a2a.operations import (
    CALLS,
    STREAMS,
    A2AService,
    AgentVisit,
    begin,
    call,
    check_version,
    with_extensions,
)
from contextrelay.a2a.push_notifications import Hooks
from contextrelay.a2a.schema import (
    CARD_PATH,
    EXTENSIONS_HEADER,
    REFS_EXTENSION,
    VERSION_HEADER,
    ProtocolError,
    http_error,
    jsonrpc_error,
)
from contextrelay.a2a.tasks import Tasks
from contextrelay.build import build
from contextrelay.client.flow import in_thread
from contextrelay.errors import RelayError
from contextrelay.limits import A2A_MESSAGE_BYTES_MAX
from contextrelay.server.request import JSON, ClientLeft, Exchange
from contextrelay.server.streams.signals import cancel_on_disconnect, send_events

if TYPE_CHECKING:
    from contextrelay.a2a.grpc_binding import GrpcServer
    from contextrelay.server.app import ServerContext
    from contextrelay.server.streams.hub import Hub

A2A_CARD_S = 300
# How long a server that stops waits for the agents in this process: twice the interval in which a
# command-line tool can be stopped, which is then killed.
AGENTS_END_S_MAX = 1
Document = dict[str, Any]
Handle = Callable[[Exchange, AgentVisit], Awaitable[None]]
Refuse = Callable[[Exchange, RelayError], Awaitable[None]]
_TYPES = ("application/json", "application/a2a+json")
_FOUND = b"max-age=%d" % A2A_CARD_S
_HOOKS = "tasks/{taskId}/pushNotificationConfigs"
_ROUTES = (
    ("POST", "message:send", "SendMessage"),
    ("POST", "message:stream", "SendStreamingMessage"),
    ("GET", "tasks", "ListTasks"),
    ("GET", "extendedAgentCard", "GetExtendedAgentCard"),
    ("POST", _HOOKS, "CreateTaskPushNotificationConfig"),
    ("GET", _HOOKS, "ListTaskPushNotificationConfigs"),
    ("GET", f"{_HOOKS}/{{id}}", "GetTaskPushNotificationConfig"),
    ("DELETE", f"{_HOOKS}/{{id}}", "DeleteTaskPushNotificationConfig"),
)
_ACTIONS = {
    ("GET", ""): "GetTask",
    ("GET", "subscribe"): "SubscribeToTask",
    ("POST", "subscribe"): "SubscribeToTask",
    ("POST", "cancel"): "CancelTask",
}
"""The methods of tasks/{id}:ACTION."""


class A2AMount:
    """The A2A routes of a server."""

    def __init__(self, hub: Hub, specs: tuple[str, ...], grpc_address: str = "") -> None:
        tasks = Tasks(hub, open_agents(specs))
        self.service = A2AService(tasks, Hooks(tasks))
        self._first = next(iter(tasks.agents))
        self._grpc_address = grpc_address
        self._grpc: GrpcServer | None = None
        self._resuming: list[asyncio.Task[None]] = []
        self._since = formatdate(usegmt=True).encode()
        build()  # Finding out the version takes a moment, so it is done only once, here.

    async def start(self, door: ServerContext) -> None:
        """Resume the tasks of ended servers. Call this in the event loop of the server.

        Raises:
            Invalid: the address for gRPC is not available.
        """
        self._resuming = [
            asyncio.create_task(self.service.tasks.resume(door.relay)),
            asyncio.create_task(self.service.hooks.resume_unsent(door.relay)),
        ]
        if self._grpc_address and door.a2a_options is not None:
            from contextrelay.a2a.grpc_binding import GrpcServer

            origin, needs_token = door.a2a_options.origin, door.callers.needs_token
            place = AgentPlace(origin, needs_token, self._grpc_address)
            self._grpc = GrpcServer(self.service, door.callers, place)
            await self._grpc.start(self._grpc_address)

    async def stop(self) -> None:
        """Stop all tasks after all requests have been answered."""
        for each in self._resuming:
            each.cancel()
        if self._grpc is not None:
            await self._grpc.stop()
        await self.service.tasks.stop()
        await self.service.hooks.stop()
        await in_thread(lambda: pool.settle(AGENTS_END_S_MAX))

    def mount(self, door: ServerContext) -> None:
        """Add the routes to a server."""
        base = f"{ROOT}{{agent}}"
        paths = door.paths
        for place in (CARD_PATH, f"{base}{CARD_PATH}", base, f"{base}/"):
            paths.add("GET", place, self._card).is_open = True
        for root in (base, f"{base}/"):
            paths.add("POST", root, self._visiting(jsonrpc, _refuse_unread))
        for method, path, name in _ROUTES:
            paths.add(method, f"{base}/{path}", self._visiting(_rest(name), _refuse))
        for method in ("GET", "POST"):
            paths.add(method, f"{base}/tasks/{{id}}", self._visiting(_act_on_task, _refuse))

    async def _card(self, exchange: Exchange) -> None:
        """Return the card of an agent, or that of the first agent at the well-known path."""
        name = exchange.values.get("agent", self._first)
        agent = self.service.tasks.agents.get(name)
        if agent is None:
            raise ProtocolError("TaskNotFound", f"unknown agent {name[:80]!r}")
        body = encode(card(name, agent, self._place(exchange)))
        tag = f'"{sha256(body).hexdigest()[:32]}"'.encode()
        headers = [
            (b"cache-control", b"public, " + _FOUND),
            (b"etag", tag),
            (b"last-modified", self._since),
            (b"vary", b"host"),
        ]
        if exchange.headers.get(b"if-none-match") == tag:
            await exchange.start(304, headers)
            await exchange.send(b"", more=False)
            return
        await exchange.reply(200, body, JSON, headers)

    def _place(self, exchange: Exchange) -> AgentPlace:
        return AgentPlace(exchange.origin, exchange.door.callers.needs_token, self._grpc_address)

    def _visiting(self, handle: Handle, refuse: Refuse) -> Callable[[Exchange], Awaitable[None]]:
        async def visiting(exchange: Exchange) -> None:
            try:
                name = exchange.values["agent"]
                if name not in self.service.tasks.agents:
                    raise ProtocolError("MethodNotFound", f"unknown agent {name[:80]!r}")
                check_version(exchange.header(VERSION_HEADER))
                visit = AgentVisit(self.service, exchange.relay, name, self._place(exchange))
                visit = with_extensions(visit, exchange.header(EXTENSIONS_HEADER))
                await handle(exchange, visit)
            except ClientLeft:
                raise
            except RelayError as error:
                if exchange.status:
                    raise
                await refuse(exchange, error)

        return visiting


# JSON-RPC


async def jsonrpc(exchange: Exchange, visit: AgentVisit) -> None:
    """Answer a JSON-RPC request with one response or with a stream of responses."""
    document = await _body(exchange)
    id = _id(document)
    try:
        method, params = _rpc_request(document)
        if method not in STREAMS and method not in CALLS:
            raise ProtocolError("MethodNotFound", f"unknown method {method[:80]!r}")
        await _answer(exchange, visit, method, params, wrapper={"jsonrpc": "2.0", "id": id})
    except RelayError as error:
        if exchange.status:
            raise
        await _refuse_jsonrpc(exchange, error, id)


def _rpc_request(document: object) -> tuple[str, Document]:
    """Return the method and the parameters of a request, or raise ProtocolError."""
    if not isinstance(document, dict):
        raise ProtocolError("InvalidRequest", "the request is not a JSON object")
    fields = cast("Document", document)
    method, params = fields.get("method"), fields.get("params", {})
    if fields.get("jsonrpc") != "2.0" or not isinstance(method, str):
        raise ProtocolError("InvalidRequest", "the request is not JSON-RPC 2.0 with a method")
    if not isinstance(params, dict):
        raise ProtocolError("InvalidParams", "the parameters are not an object")
    if _id(fields) != fields.get("id"):
        raise ProtocolError("InvalidRequest", "the id is neither a string nor a number")
    return method, cast("Document", params)


def _id(document: object) -> str | int | float | None:
    id = cast("Document", document).get("id") if isinstance(document, dict) else None
    return id if isinstance(id, str | int | float) and not isinstance(id, bool) else None


async def _refuse_unread(exchange: Exchange, error: RelayError) -> None:
    """Refuse a request whose body has not been parsed, with the request id if there is one."""
    id = None
    if isinstance(error, ProtocolError) and error.name in ("VersionNotSupported", "MethodNotFound"):
        with suppress(RelayError):
            id = _id(await _body(exchange))
    await _refuse_jsonrpc(exchange, error, id)


async def _refuse_jsonrpc(exchange: Exchange, error: RelayError, id: object) -> None:
    answer = {"jsonrpc": "2.0", "id": id, "error": jsonrpc_error(error)}
    # JSON-RPC errors are in the body. Authentication errors and the like use the HTTP status.
    status = error.status if error.status in (401, 403, 413, 429, 503) else 200
    await exchange.refuse(status, encode(answer), JSON)


# HTTP+JSON


def _rest(method: str) -> Handle:
    async def handle(exchange: Exchange, visit: AgentVisit) -> None:
        names = {name: each for name, each in exchange.values.items() if name != "agent"}
        if exchange.method != "POST":
            params = names or exchange.query()
            await _answer(exchange, visit, method, params, is_text=not names)
            return
        body = await _body(exchange)
        if names:
            if not isinstance(body, dict):
                raise ProtocolError("InvalidParams", "the request is not a JSON object")
            body = {**cast("Document", body), **names}
        await _answer(exchange, visit, method, body)

    return handle


async def _act_on_task(exchange: Exchange, visit: AgentVisit) -> None:
    """Read, cancel or follow a task: tasks/{id}, tasks/{id}:cancel or tasks/{id}:subscribe."""
    task, _, action = exchange.values["id"].partition(":")
    if exchange.method == "POST" and exchange.headers.get(b"content-length", b"0") != b"0":
        await _body(exchange)
    method = _ACTIONS.get((exchange.method, action))
    if method is None:
        raise ProtocolError("MethodNotFound", "unknown action: use :cancel or :subscribe")
    if method == "GetTask":
        params = {**exchange.query(), "id": task}
        await _answer(exchange, visit, method, params, is_text=True)
    else:
        await _answer(exchange, visit, method, {"id": task})


async def _refuse(exchange: Exchange, error: RelayError) -> None:
    await exchange.refuse(error.status, encode(http_error(error)), JSON)


# Shared by both bindings


async def _body(exchange: Exchange) -> object:
    """Return the body of a request, parsed as JSON. Raise ProtocolError if it is not valid."""
    kind = exchange.media_type()
    if kind not in _TYPES:
        problem = f"unsupported content type {kind[:80]!r}"
        raise ProtocolError("ContentTypeNotSupported", problem, f"send {_TYPES[0]}")
    body = await exchange.whole(A2A_MESSAGE_BYTES_MAX, None)
    try:
        return decode(body)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        raise ProtocolError("Parse", "the request is not valid JSON") from None


async def _answer(
    exchange: Exchange,
    visit: AgentVisit,
    method: str,
    params: object,
    is_text: bool = False,
    wrapper: Document | None = None,
) -> None:
    """Run an operation, and send its result or its stream. JSON-RPC puts each into a `wrapper`."""

    def wrapped(result: Document) -> Document:
        return result if wrapper is None else {**wrapper, "result": result}

    # The response header that lists the extensions that were applied.
    known = [(EXTENSIONS_HEADER.encode(), REFS_EXTENSION.encode())] if visit.extensions else []
    if method in STREAMS:
        first, rest = await begin(visit, method, params)

        def event(document: Document | None) -> bytes:
            return b"" if document is None else b"data: " + encode(wrapped(document)) + b"\n\n"

        next_one = asyncio.ensure_future(anext(rest, None))

        async def following() -> bytes:
            nonlocal next_one
            # A keep-alive interrupts this function, but must not interrupt the operation.
            document = await asyncio.shield(next_one)
            next_one = asyncio.ensure_future(anext(rest, None))
            return event(document)

        try:
            await send_events(exchange, known, event(first), following)
        finally:
            next_one.cancel()
    else:
        result = await cancel_on_disconnect(exchange, call(visit, method, params, is_text))
        await exchange.reply_json(wrapped(result), more=known)
