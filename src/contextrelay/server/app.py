"""The HTTP application: routes requests to handlers, and converts errors to responses.

Rule: a handler parses the request, runs one verb and replies. Errors become responses only in this
module: plain text on the routes of seed 000, problem+json on all others. A bug is logged, and the
response contains no details of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.json import encode

from contextrelay.client.flow import in_thread
from contextrelay.client.transport.local import AsyncLocal
from contextrelay.errors import Broken, NotFound, Refused, RelayError, Unavailable
from contextrelay.limits import SWEEP_EVERY_S
from contextrelay.mcp.http_transport import McpMount
from contextrelay.server.auth import (
    OPEN,
    RESOURCE,
    RETRY_AFTER,
    Callers,
    Visitor,
    address_in,
    token_in,
)
from contextrelay.server.bounds import IncomingBodies, ServerBounds
from contextrelay.server.hosts import Guard
from contextrelay.server.metrics import NO_PLACE, SUBSCRIBERS, Metrics
from contextrelay.server.openapi.openapi import ENDPOINTS
from contextrelay.server.request import TEXT, ClientLeft, Exchange, Receive, Scope, Send
from contextrelay.server.router import Handler, NotAllowed, Paths, RoutedPath
from contextrelay.server.routes import v1
from contextrelay.server.routes.legacy_contextrelay_fast import FastPath
from contextrelay.server.routes.push_batches import Pushing
from contextrelay.server.routes.send_artifact import NoSuchRange
from contextrelay.server.slow_pool import SlowPool
from contextrelay.server.spans import open_spans
from contextrelay.server.streams import signals, thread_events
from contextrelay.server.streams.hub import Hub
from contextrelay.server.token_verifier import Identity
from contextrelay.verbs import ReadEvents, ReadSignals, Verb
from contextrelay.verbs.problems import MEDIA_TYPE, problem
from contextrelay.verbs.routes import routes
from contextrelay.web.entry import PageOptions
from contextrelay.web.mount import MountedPage

if TYPE_CHECKING:
    from contextrelay.a2a.http_binding import A2AMount as Agents

SERVER_THREADS_MAX = 32
# Larger JSON bodies are parsed in a thread, not on the event loop. Each is held in memory as a
# whole.
LARGE_JSON_AT_ONCE_MAX = 4


log = logging.getLogger("contextrelay.http")

UNKNOWN = 401
# Verbs that may wait until new data arrives.
_WAITING: dict[type[Verb[Any]], Handler] = {
    ReadSignals: signals.read_signals,
    ReadEvents: thread_events.read_events,
}


class A2AOptions(Struct, frozen=True):
    """The A2A agents of a server, the public address of the server, and its gRPC address, if it has
    one.
    """

    agents: tuple[str, ...]
    origin: str
    grpc_address: str = ""


class ServerContext:
    """The objects that all request handlers of a server share."""

    def __init__(
        self,
        local: AsyncLocal,
        guard: Guard,
        figures: str = "",
        needs_token: bool = False,
        a2a: A2AOptions | None = None,
        page: PageOptions | None = None,
        identity: Identity | None = None,
    ) -> None:
        self.relay = local
        """The relay with the owner's permissions. To serve a request, use `exchange.relay`."""
        self.guard = guard
        identity = identity or Identity()
        self.callers = Callers(local, needs_token, identity.verify())
        self.auth_servers = identity.servers
        self.hub = Hub(local)
        self.pushing = Pushing()
        self.slow_pool = SlowPool()
        self.large_json = asyncio.Semaphore(LARGE_JSON_AT_ONCE_MAX)
        self.paths = Paths()
        self.mcp = McpMount(has_sessions=not figures and not local.stores.engine.is_shared)
        for endpoint in ENDPOINTS:
            self.paths.add_endpoint(endpoint)
        for route in routes():
            handler = _WAITING.get(route.verb) or v1.answering(route)
            self.paths.add(route.method, route.path, handler)
        self.a2a_options = a2a
        self.a2a = None if a2a is None else _a2a(self, a2a)
        self.page = MountedPage(page or PageOptions())
        self.page.add_to(self.paths)
        self.metrics = Metrics(self.paths, figures)
        self.hub.counted = partial(self.metrics.add, SUBSCRIBERS)
        self.spans = open_spans()


def _a2a(door: ServerContext, options: A2AOptions) -> Agents:
    """Return the A2A agents of a server."""
    from contextrelay.a2a import http_binding

    agents = http_binding.A2AMount(door.hub, options.agents, options.grpc_address)
    agents.mount(door)
    return agents


class App:
    """The ASGI application. `open_door` is called when the event loop runs, and returns the
    context.
    """

    def __init__(
        self, open_door: Callable[[], ServerContext], bounds: ServerBounds | None = None
    ) -> None:
        self._open_door = open_door
        self.bounds = bounds or ServerBounds()
        self.incoming = IncomingBodies(self.bounds.held_bytes, self.bounds.uploads)
        self.lingering: dict[Any, None] = {}
        """Connections that stay open until the client has seen its last response, oldest first."""
        self.door: ServerContext | None = None
        self.quick: FastPath | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        assert self.door is not None, "the server has not started"
        if scope["type"] == "websocket":
            await signals.websocket(self.door, scope, receive, send)
            return
        door = self.door
        exchange = Exchange(door, scope, receive, send, self.bounds.body_s, self.incoming)
        place: RoutedPath | None = None
        begun = door.metrics.begin()
        try:
            exchange.origin = door.guard.origin(
                scope["headers"], scope["scheme"], scope.get("server")
            )
            found = door.paths.find(exchange.segments())
            place = None
            if found is not None:
                place, exchange.values = found
            exchange.visitor = await _visitor(exchange, place)
            if place is None:
                raise NotFound("path not found", "see /openapi.json for all paths")
            handler = _handler(place, exchange.method)
            if exchange.visitor.key is None:
                await handler(exchange)
            else:
                with exchange.visitor.track_connection(_ending(exchange)):
                    await handler(exchange)
        except ClientLeft:
            return
        except asyncio.CancelledError:
            # The key was revoked, or the request took too long while the server was shutting down.
            if not exchange.status:
                ending = Unavailable(
                    "the server is shutting down", "retry at this server or another one"
                )
                await _refuse(exchange, place, exchange.ended or ending)
            elif exchange.ended is not None:
                await exchange.cut()
        except Exception as error:
            await _refuse(exchange, place, error)
        finally:
            exchange.release_body()
            if hasattr(exchange, "visitor"):
                exchange.visitor.count(exchange.bytes_in, exchange.bytes_out)
            path = place.path if place else NO_PLACE
            figures = exchange.method, exchange.status, exchange.bytes_in, exchange.bytes_out
            door.metrics.end(begun, path, *figures)
            if door.spans is not None:
                parent = exchange.headers.get(b"traceparent", b"")
                door.spans.add(begun, path, *figures, parent)

    def end_waits(self) -> None:
        """End all waits for new data. May be called from any thread or from a signal handler."""
        if self.door is not None:
            self.door.hub.close()

    async def _live(self, receive: Receive, send: Send) -> None:
        """Open the store at startup, and close it after the last request."""
        await receive()
        try:
            loop = asyncio.get_running_loop()
            loop.set_default_executor(ThreadPoolExecutor(SERVER_THREADS_MAX, "relay-core"))
            self.door = self._open_door()
            self.door.hub.start()
            self.door.callers.start()
            sweeping = loop.create_task(_sweep_periodically(self.door.relay))
            if self.door.a2a is not None:
                await self.door.a2a.start(self.door)
            quick = FastPath(self.door)
            self.quick = quick if quick.is_possible else None
        except RelayError as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        sweeping.cancel()
        self.door.hub.stop()
        await self.door.callers.stop()
        await self.door.mcp.stop()
        if self.door.a2a is not None:
            await self.door.a2a.stop()
        await self.door.page.stop()
        await self.door.relay.close()
        self.door.metrics.close()
        if self.door.spans is not None:
            await in_thread(self.door.spans.close)
        await send({"type": "lifespan.shutdown.complete"})


async def _sweep_periodically(relay: AsyncLocal) -> None:
    """Clean up the store periodically. Pushes do this too, but signals may be waiting to be sent
    without any push.
    """
    while True:
        await in_thread(relay.sweep_if_due)
        await asyncio.sleep(SWEEP_EVERY_S)


def _handler(place: RoutedPath, method: str) -> Handler:
    handler = place.methods.get("GET" if method == "HEAD" else method)
    if handler is not None:
        return handler
    if method == "OPTIONS":

        async def options(exchange: Exchange) -> None:
            await exchange.start(204, [(b"allow", place.allowed().encode())])
            await exchange.send(b"", more=False)

        return options
    raise NotAllowed(
        f"method {method} is not allowed here", f"use {place.allowed()}", {"allow": place.allowed()}
    )


async def _visitor(exchange: Exchange, place: RoutedPath | None) -> Visitor:
    """Return the caller of a request. For paths that need no token, this is the owner."""
    if place is not None and (place.path in OPEN or place.is_open):
        return exchange.door.callers.owner
    if place is not None and place.is_page:
        return await exchange.door.page.page.entry.admit(exchange)
    token = token_in(exchange.scope["headers"])
    if token is None and place is not None and place.takes_token:
        token = exchange.query().get(signals.TOKEN)
    return await exchange.door.callers.admit(token, address_in(exchange.scope))


def _ending(exchange: Exchange) -> Callable[[RelayError], None]:
    task = asyncio.current_task()
    assert task is not None

    def end(error: RelayError) -> None:
        exchange.ended = error
        task.cancel()

    return end


def _bearer(exchange: Exchange) -> bytes:
    """Return the WWW-Authenticate challenge, which includes the address of the resource
    metadata.
    """
    if not exchange.door.auth_servers:
        return b"Bearer"
    return f'Bearer resource_metadata="{exchange.origin}{RESOURCE}"'.encode()


async def _refuse(exchange: Exchange, place: RoutedPath | None, error: Exception) -> None:
    """Send an error response. If a response has already started, close the connection instead."""
    if not isinstance(error, RelayError):
        log.error("unexpected error in %s", place.path if place else "?", exc_info=error)
        error = Broken("internal error", "see the server's log")
    if exchange.status:
        log.warning("response cut off: %s", error)
        await exchange.cut()
        return
    if place is not None and place.is_page:
        await exchange.door.page.page.refuse(exchange, error)
        return
    more = [(b"cache-control", b"no-store")]
    if error.status == UNKNOWN:
        # This header makes a browser ask for the token like a password.
        scheme = b'Basic realm="relay"' if exchange.accepts("text/html") else _bearer(exchange)
        more.append((b"www-authenticate", scheme))
        if place is not None and place.unknown:
            error = Refused(place.unknown, error.hint, error.details, UNKNOWN)
    if RETRY_AFTER in error.details:
        more.append((b"retry-after", b"%d" % error.details[RETRY_AFTER]))
    if isinstance(error, NotAllowed):
        more.append((b"allow", str(error.details["allow"]).encode()))
    if isinstance(error, NoSuchRange):
        more.append((b"content-range", b"bytes */%d" % error.details["size"]))
    if place is not None and place.has_text_errors:
        await exchange.refuse(error.status, error.message.encode(), TEXT, more)
        return
    await exchange.refuse(error.status, encode(problem(error)), MEDIA_TYPE.encode(), more)
