"""Signals over HTTP: WebSockets, server-sent events and long polls.

Rule: a listener costs only one entry in the hub. It ends as soon as its client disconnects or stops
reading, or the server closes. The client can resume after the sequence number that it received
last.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from contextrelay.errors import Invalid, NotFound, RelayError
from contextrelay.limits import EVENTS_KEEPALIVE_S, SLOW_READER_S, WAIT_S_MAX
from contextrelay.model.names import channel_log
from contextrelay.model.signal import SignalPage
from contextrelay.server.auth import RETRY_AFTER, address_in, token_in
from contextrelay.server.request import (
    TEXT,
    ClientLeft,
    Exchange,
    Receive,
    Scope,
    Send,
    decoded,
    query_fields,
)
from contextrelay.server.router import RELAY, Endpoint
from contextrelay.server.security_headers import SAFE_BYTES
from contextrelay.server.streams import tails
from contextrelay.server.streams.hub import Follower
from contextrelay.server.ws_connection import EXTENSION, Socket
from contextrelay.verbs import Index, ReadSignals
from contextrelay.verbs.routes import decode_verb, route_of

if TYPE_CHECKING:
    from contextrelay.server.app import ServerContext

log = logging.getLogger("contextrelay.http")

SOCKETS = b"/ws/"
SEQ_HEADER = b"x-relay-seq"
EVENT_STREAM = "text/event-stream"

TRY_AGAIN_LATER = 1013
INTERNAL_ERROR = 1011
NOT_ALLOWED = 1008

TOKEN = "token"
"""The query field for a browser's token, because browsers cannot send headers with these requests.
"""


# WebSockets


async def websocket(door: ServerContext, scope: Scope, receive: Receive, send: Send) -> None:
    """Send the signals of a channel over a WebSocket: new signals, or the signals after a sequence
    number.
    """
    await receive()
    try:
        scheme = "https" if scope["scheme"] == "wss" else "http"
        origin = door.guard.origin(scope["headers"], scheme)
        query = query_fields(scope["query_string"])
        token = token_in(scope["headers"])
        visitor = await door.callers.admit(
            query.get(TOKEN) if token is None else token, address_in(scope)
        )
        asked = _asked(scope, query)
        stores = visitor.relay.stores
        socket: Socket = scope["extensions"][EXTENSION]
        is_accepted = False
        ended: RelayError | None = None

        def end(error: RelayError) -> None:
            nonlocal ended
            ended = error
            if is_accepted:
                socket.cut(NOT_ALLOWED, error.message)

        # Register the connection before the first await, because the key may become invalid at any
        # time.
        with (
            visitor.track_connection(end),
            door.hub.following(stores, asked.channel, origin, tails.frame) as follower,
        ):
            seq = await follower.begin(asked.after)
            await send({"type": "websocket.accept", "headers": [(SEQ_HEADER, b"%d" % seq)]})
            is_accepted = True
            if ended is not None:
                end(ended)
            await _follow(follower, socket, receive)
    except RelayError as error:
        await _refuse(send, error)


def _asked(scope: Scope, query: dict[str, str]) -> ReadSignals:
    path: bytes = scope["raw_path"]
    if not path.startswith(SOCKETS) and path != SOCKETS[:-1]:
        raise NotFound("no WebSocket at this path", "open /ws/CHANNEL")
    channel = decoded(path[len(SOCKETS) :])
    if not channel:
        raise Invalid("Missing channel", "open /ws/CHANNEL")
    return _signals_after(channel, query)


async def _follow(follower: Follower, socket: Socket, receive: Receive) -> None:
    """Send signals until the client disconnects. Data from the client is read and discarded."""
    writing = asyncio.create_task(_write(follower, socket))
    try:
        while (await receive())["type"] != "websocket.disconnect":
            pass
    finally:
        writing.cancel()
        await asyncio.wait([writing])


async def _write(follower: Follower, socket: Socket) -> None:
    try:
        while await follower.hand_to(socket.write) and not socket.is_gone:
            async with asyncio.timeout(SLOW_READER_S):
                await socket.written()
    except TimeoutError:
        socket.cut(TRY_AGAIN_LATER, f"too slow; resume with ?after={follower.seq}")
    except RelayError as error:
        log.warning("cannot continue a subscription: %s", error)
        socket.cut(TRY_AGAIN_LATER, f"retry; resume with ?after={follower.seq}")
    except Exception:
        log.exception("unexpected error in a WebSocket")
        socket.cut(INTERNAL_ERROR, f"resume with ?after={follower.seq}")


async def _refuse(send: Send, error: RelayError) -> None:
    headers = [(b"content-type", TEXT), *SAFE_BYTES]
    if RETRY_AFTER in error.details:
        headers.append((b"retry-after", b"%d" % error.details[RETRY_AFTER]))
    start = {"type": "websocket.http.response.start", "status": error.status, "headers": headers}
    await send(start)
    await send({"type": "websocket.http.response.body", "body": error.message.encode()})


async def subscribe(exchange: Exchange) -> None:
    """Subscribe to a channel over a WebSocket.

    Each signal is a text frame: `{url, ts, seq, from}` for a push, `{message, ts, seq, from}` for a
    message, `{gap: [from, to]}` if some are no longer stored. The channel is the rest of the path.
    """
    if not exchange.values["channel"]:
        raise Invalid("Missing channel", "open /ws/CHANNEL")
    upgrade = [(b"upgrade", b"websocket"), (b"connection", b"upgrade")]
    await exchange.reply(426, b"Expected WebSocket upgrade", TEXT, upgrade)


async def no_channel(exchange: Exchange) -> None:
    """Report a missing channel."""
    raise Invalid("Missing channel", "open /ws/CHANNEL")


# Event streams


async def stream_signals(exchange: Exchange) -> None:
    """Stream the signals of a channel as server-sent events."""
    asked = _signals_after(exchange.values["channel"], resumed(exchange))
    hub, stores = exchange.door.hub, exchange.relay.stores
    with hub.following(stores, asked.channel, exchange.origin, tails.event) as follower:
        seq = await follower.begin(asked.after)
        await stream(exchange, seq, follower.next)


def resumed(exchange: Exchange) -> dict[str, str]:
    """Return the fields of the query. The Last-Event-ID of a client that reconnects overrides
    `after`.
    """
    query = exchange.query()
    query.pop(TOKEN, None)
    last = exchange.header("last-event-id")
    return {**query, "after": last} if last else query


async def stream(exchange: Exchange, seq: int, following: Callable[[], Awaitable[bytes]]) -> None:
    """Send batches as server-sent events, after an id that tells the client where to resume."""
    # An id without data is no event.
    first = b"id: %d\n\n" % seq
    await send_events(exchange, [(SEQ_HEADER, b"%d" % seq)], first, following)


async def send_events(
    exchange: Exchange,
    headers: list[tuple[bytes, bytes]],
    first: bytes,
    following: Callable[[], Awaitable[bytes]],
) -> None:
    """Send server-sent events until there are no more, or until the client disconnects."""
    own = [
        (b"content-type", EVENT_STREAM.encode()),
        (b"cache-control", b"no-store"),
        (b"x-accel-buffering", b"no"),
    ]
    await exchange.start(200, [*own, *headers])
    if exchange.method == "HEAD":
        await exchange.send(b"", more=False)
        return

    async def sending() -> None:
        text = first
        while text:
            async with asyncio.timeout(SLOW_READER_S):
                await exchange.send(text)
            try:
                async with asyncio.timeout(EVENTS_KEEPALIVE_S):
                    text = await following()
            except TimeoutError:
                text = b": still here\n\n"
        await exchange.send(b"", more=False)

    await cancel_on_disconnect(exchange, sending())


# Long polls


async def read_signals(exchange: Exchange) -> None:
    """Return a page of signals. With `wait`, wait until the page has signals or the time is up."""
    query = exchange.query()
    wait_s = take_wait_s(query)
    asked = decode_verb(route_of(ReadSignals), exchange.values, query, None)
    assert isinstance(asked, ReadSignals)
    page: SignalPage = await exchange.relay.ask(asked)
    if wait_s and not page.signals and page.gap is None:
        after = page.head if asked.after is None else asked.after
        log = channel_log(asked.channel)
        waiting = exchange.door.hub.wait_for(exchange.relay.stores, log, after, wait_s)
        if await cancel_on_disconnect(exchange, waiting):
            more = ReadSignals(asked.channel, after, asked.limit)
            page = await exchange.relay.ask(more)
    await exchange.reply_json(page)


def take_wait_s(query: dict[str, str]) -> float:
    """Remove the wait time from a query, and return it in seconds.

    Raises:
        Invalid: the value is not a valid wait time.
    """
    given = query.pop("wait", "0")
    try:
        wait_s = float(given)
    except ValueError:
        wait_s = -1.0
    if not 0 <= wait_s <= WAIT_S_MAX:
        raise Invalid(
            f"invalid wait time {given[:80]!r}", f"use a number of seconds from 0 to {WAIT_S_MAX}"
        )
    return wait_s


async def cancel_on_disconnect(exchange: Exchange, doing: Coroutine[Any, Any, Any]) -> Any:
    """Await a slow operation, and cancel it as soon as the client disconnects.

    Raises:
        ClientLeft: the client disconnected.
    """
    done = asyncio.create_task(doing)
    left = asyncio.create_task(exchange.until_disconnected())
    try:
        await asyncio.wait([done, left], return_when=asyncio.FIRST_COMPLETED)
        if not done.done():
            raise ClientLeft
        return done.result()
    finally:
        done.cancel()
        left.cancel()
        await asyncio.wait([done, left])


def _signals_after(channel: str, query: dict[str, str]) -> ReadSignals:
    """Return the verb that reads the signals that a listener's query asks for.

    Raises:
        Invalid: the name of the channel or a field is invalid.
    """
    if extra := query.keys() - {"after", TOKEN}:
        raise Invalid(f"unknown field {min(extra)[:80]!r}", "the only field is: after")
    fields = {name: value for name, value in query.items() if name != TOKEN}
    asked = decode_verb(route_of(ReadSignals), {"channel": channel}, fields, None)
    assert isinstance(asked, ReadSignals)
    return asked


_Seq = Annotated[Index, Meta(description="The seq of the last signal received.")]


class AfterQuery(Struct):
    after: _Seq | UnsetType = UNSET


class SocketQuery(Struct):
    """The query of a WebSocket. Values are text, because they are parsed only after the upgrade."""

    after: Annotated[str, Meta(description="The seq of the last signal received.")] = ""


ENDPOINTS = [
    Endpoint(http="GET /ws", handler=no_channel, tag=RELAY),
    Endpoint(
        http="GET /ws/{channel...}",
        handler=subscribe,
        tag=RELAY,
        query=SocketQuery,
        fails=(426,),
        takes_token=True,
    ),
    Endpoint(
        http=f"GET {route_of(ReadSignals).path}/events",
        handler=stream_signals,
        tag="channels",
        query=AfterQuery,
        also={200: (EVENT_STREAM,)},
        headers=("last-event-id",),
        fails=(413,),
        takes_token=True,
    ),
]
