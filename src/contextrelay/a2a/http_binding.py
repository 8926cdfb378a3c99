"""A2A over HTTP: JSON-RPC at the root of an agent, HTTP+JSON below the root, and event streams.

Rule: authentication, Host checks, limits and metrics are the same as for every other path. Only
errors have the form that the binding defines.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from email.utils import formatdate
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

from msgspec import DecodeError, Struct
from msgspec.json import decode, encode

from contextrelay.a2a.agents import open_agents, pool
from contextrelay.a2a.card import ROOT, AgentPlace, card
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
from contextrelay.limits import A2A_MESSAGE_BYTES_MAX, EVENTS_KEEPALIVE_S, SLOW_READER_S
from contextrelay.server.request import JSON, ClientLeft, Exchange
from contextrelay.server.streams.signals import EVENT_STREAM, cancel_on_disconnect

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
_TYPES = ("application/json", "application/a2a+json")
_FOUND = b"max-age=%d" % A2A_CARD_S


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
        """Resume the tasks of other servers that have ended. Call this in the event loop of the
        server.

        Raises:
            Invalid: the address for gRPC is not available.
        """
        self._resuming = [
            asyncio.create_task(self.service.tasks.resume(door.relay)),
            asyncio.create_task(self.service.hooks.resume_unsent(door.relay)),
        ]
        if self._grpc_address and door.a2a_options is not None:
            from contextrelay.a2a.grpc_binding import GrpcServer

            place = AgentPlace(
                door.a2a_options.origin, door.callers.needs_token, self._grpc_address
            )
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
        for place in (CARD_PATH, f"{base}{CARD_PATH}"):
            paths.add("GET", place, self._card).is_open = True
        for root in (base, f"{base}/"):
            paths.add("GET", root, self._card).is_open = True
            paths.add("POST", root, self._visiting(jsonrpc, _refuse_unread))
        rest: list[tuple[str, str, Handle]] = [
            ("POST", "message:send", _posting("SendMessage")),
            ("POST", "message:stream", _streaming("SendStreamingMessage")),
            ("GET", "tasks", _getting("ListTasks")),
            ("GET", "tasks/{id}", _get_task),
            ("POST", "tasks/{id}", _change_task),
            ("POST", "tasks/{taskId}/pushNotificationConfigs", _hook("Create")),
            ("GET", "tasks/{taskId}/pushNotificationConfigs", _hook("List")),
            ("GET", "tasks/{taskId}/pushNotificationConfigs/{id}", _hook("Get")),
            ("DELETE", "tasks/{taskId}/pushNotificationConfigs/{id}", _hook("Delete")),
            ("GET", "extendedAgentCard", _getting("GetExtendedAgentCard")),
        ]
        for method, path, handle in rest:
            paths.add(method, f"{base}/{path}", self._visiting(handle, _refuse))

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

    def _visiting(
        self, handle: Handle, refuse: Callable[[Exchange, RelayError], Awaitable[None]]
    ) -> Callable[[Exchange], Awaitable[None]]:
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


class RpcRequest(Struct, forbid_unknown_fields=False):
    """A JSON-RPC request."""

    jsonrpc: str
    method: str
    id: str | int | float | None = None
    params: Document = {}


async def jsonrpc(exchange: Exchange, visit: AgentVisit) -> None:
    """Answer a JSON-RPC request with one response or with a stream of responses."""
    document = await _body(exchange)
    asked = _message(document)
    id = asked.id if isinstance(asked, RpcRequest) else _id(document)

    def answered(result: Document) -> Document:
        return {"jsonrpc": "2.0", "id": id, "result": result}

    try:
        if not isinstance(asked, RpcRequest):
            raise asked
        if asked.method in STREAMS:
            first, rest = await begin(visit, asked.method, asked.params)
            await _stream(exchange, visit, first, rest, answered)
            return
        if asked.method not in CALLS:
            raise ProtocolError("MethodNotFound", f"unknown method {asked.method[:80]!r}")
        result = await cancel_on_disconnect(exchange, call(visit, asked.method, asked.params))
    except RelayError as error:
        if exchange.status:
            raise
        await _refuse_jsonrpc(exchange, error, id)
        return
    await exchange.reply_json(answered(result), more=_known(visit))


def _message(document: object) -> RpcRequest | ProtocolError:
    if not isinstance(document, dict):
        return ProtocolError("InvalidRequest", "the request is not a JSON object")
    fields = cast("Document", document)
    if fields.get("jsonrpc") != "2.0" or not isinstance(fields.get("method"), str):
        return ProtocolError("InvalidRequest", "the request is not JSON-RPC 2.0 with a method")
    if not isinstance(fields.get("params", {}), dict):
        return ProtocolError("InvalidParams", "the parameters are not an object")
    if _id(fields) != fields.get("id"):
        return ProtocolError("InvalidRequest", "the id is neither a string nor a number")
    return RpcRequest("2.0", fields["method"], fields.get("id"), fields.get("params", {}))


def _id(document: object) -> str | int | float | None:
    fields = cast("Document", document) if isinstance(document, dict) else {}
    id = fields.get("id")
    return id if isinstance(id, str | int | float) and not isinstance(id, bool) else None


async def _refuse_unread(exchange: Exchange, error: RelayError) -> None:
    """Refuse a request whose body has not been parsed. The response includes the request id, if
    there is one.
    """
    id = None
    if isinstance(error, ProtocolError) and error.name in ("VersionNotSupported", "MethodNotFound"):
        with suppress(RelayError):
            id = _id(await _body(exchange))
    await _refuse_jsonrpc(exchange, error, id)


async def _refuse_jsonrpc(exchange: Exchange, error: RelayError, id: object = None) -> None:
    answer = {"jsonrpc": "2.0", "id": id, "error": jsonrpc_error(error)}
    # JSON-RPC errors are sent in the body of the response. Authentication errors use the HTTP
    # status.
    status = error.status if error.status in (401, 403, 413, 429, 503) else 200
    await exchange.refuse(status, encode(answer), JSON)


# HTTP+JSON


def _posting(method: str) -> Handle:
    async def post(exchange: Exchange, visit: AgentVisit) -> None:
        params = await _body(exchange)
        await _answer(exchange, visit, method, params)

    return post


def _getting(method: str) -> Handle:
    async def get(exchange: Exchange, visit: AgentVisit) -> None:
        await _answer(exchange, visit, method, exchange.query(), is_text=True)

    return get


def _streaming(method: str) -> Handle:
    async def post(exchange: Exchange, visit: AgentVisit) -> None:
        first, rest = await begin(visit, method, await _body(exchange))
        await _stream(exchange, visit, first, rest, lambda each: each)

    return post


async def _get_task(exchange: Exchange, visit: AgentVisit) -> None:
    task, _, action = exchange.values["id"].partition(":")
    if action == "subscribe":
        await _subscribe(exchange, visit, task)
        return
    if action:
        raise ProtocolError("MethodNotFound", f"GET is not supported for :{action[:40]}")
    params = {**exchange.query(), "id": task}
    await _answer(exchange, visit, "GetTask", params, is_text=True)


async def _change_task(exchange: Exchange, visit: AgentVisit) -> None:
    task, _, action = exchange.values["id"].partition(":")
    if exchange.headers.get(b"content-length", b"0") != b"0":
        await _body(exchange)
    if action == "cancel":
        await _answer(exchange, visit, "CancelTask", {"id": task})
    elif action == "subscribe":
        await _subscribe(exchange, visit, task)
    else:
        raise ProtocolError("MethodNotFound", "unknown action: use :cancel or :subscribe")


async def _subscribe(exchange: Exchange, visit: AgentVisit, task: str) -> None:
    first, rest = await begin(visit, "SubscribeToTask", {"id": task})
    await _stream(exchange, visit, first, rest, lambda each: each)


def _hook(action: str) -> Handle:
    method = f"{action}TaskPushNotificationConfig{'s' if action == 'List' else ''}"

    async def handle(exchange: Exchange, visit: AgentVisit) -> None:
        names = {
            name: exchange.values[name] for name in ("taskId", "id") if name in exchange.values
        }
        params: Document = {}
        if action == "Create":
            body = await _body(exchange)
            if not isinstance(body, dict):
                raise ProtocolError("InvalidParams", "the request is not a JSON object")
            params = cast("Document", body)
        await _answer(exchange, visit, method, {**params, **names})

    return handle


async def _answer(
    exchange: Exchange, visit: AgentVisit, method: str, params: object, is_text: bool = False
) -> None:
    result = await cancel_on_disconnect(exchange, call(visit, method, params, is_text))
    await exchange.reply_json(result, more=_known(visit))


async def _refuse(exchange: Exchange, error: RelayError) -> None:
    await exchange.refuse(error.status, encode(http_error(error)), JSON)


# Shared by both bindings


async def _body(exchange: Exchange) -> object:
    """Return the body of a request, parsed as JSON.

    Raises:
        ProtocolError: the body is not valid JSON.
    """
    kind = exchange.media_type()
    if kind not in _TYPES:
        raise ProtocolError(
            "ContentTypeNotSupported",
            f"unsupported content type {kind[:80]!r}",
            f"send {_TYPES[0]}",
        )
    body = await exchange.whole(A2A_MESSAGE_BYTES_MAX, None)
    try:
        return decode(body)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        raise ProtocolError("Parse", "the request is not valid JSON") from None


def _known(visit: AgentVisit) -> list[tuple[bytes, bytes]]:
    """Return the response header that lists the extensions that were applied."""
    if REFS_EXTENSION not in visit.extensions:
        return []
    return [(EXTENSIONS_HEADER.encode(), REFS_EXTENSION.encode())]


async def _stream(
    exchange: Exchange,
    visit: AgentVisit,
    first: Document,
    rest: AsyncIterator[Document],
    wrapped: Callable[[Document], Document],
) -> None:
    headers = [
        (b"content-type", EVENT_STREAM.encode()),
        (b"cache-control", b"no-store"),
        (b"x-accel-buffering", b"no"),
        *_known(visit),
    ]
    await exchange.start(200, headers)

    async def sending() -> None:
        await _send(exchange, b"data: " + encode(wrapped(first)) + b"\n\n")
        following = asyncio.ensure_future(anext(rest, None))
        try:
            while True:
                await asyncio.wait([following], timeout=EVENTS_KEEPALIVE_S)
                if not following.done():
                    await _send(exchange, b": still here\n\n")
                    continue
                document = following.result()
                if document is None:
                    break
                await _send(exchange, b"data: " + encode(wrapped(document)) + b"\n\n")
                following = asyncio.ensure_future(anext(rest, None))
        finally:
            following.cancel()
        await exchange.send(b"", more=False)

    await cancel_on_disconnect(exchange, sending())


async def _send(exchange: Exchange, text: bytes) -> None:
    async with asyncio.timeout(SLOW_READER_S):
        await exchange.send(text)
