"""Events of a thread over HTTP: by page, by long poll, and as server-sent events.

The path of seed 002 returns events in the seed's form, also as a stream if the client sends
`Accept: text/event-stream`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.json import encode

from contextrelay.limits import EVENTS_KEEPALIVE_S
from contextrelay.model.names import thread_log
from contextrelay.model.thread import EventPage, Numbered
from contextrelay.server.request import Exchange
from contextrelay.server.router import Endpoint
from contextrelay.server.routes.legacy_relay.bodies import EventsQuery, ThreadEvents, event_reply
from contextrelay.server.routes.legacy_relay.parsing import ask_of, fitted, thread_of
from contextrelay.server.streams.signals import (
    EVENT_STREAM,
    cancel_on_disconnect,
    resumed,
    stream,
    take_wait_s,
)
from contextrelay.verbs import ReadEvents
from contextrelay.verbs.routes import decode_verb, route_of


async def list_events(exchange: Exchange) -> None:
    """List the events of a thread after an id, oldest first.

    With `Accept: text/event-stream` they are streamed as server-sent events, followed by new
    events.
    """
    thread = thread_of(exchange)
    query = fitted(resumed(exchange), EventsQuery, "the query", strict=False)
    asked = ReadEvents(thread, query.after, query.limit)
    page = await ask_of(exchange, thread, asked)
    if exchange.accepts(EVENT_STREAM):
        await _stream(exchange, asked, page, lambda each: event_reply(thread, each))
        return
    await exchange.reply_json(ThreadEvents([event_reply(thread, each) for each in page.events]))


async def read_events(exchange: Exchange) -> None:
    """Return a page of a thread's events. With `wait`, wait until the page has events or the time
    is up.
    """
    query = exchange.query()
    seconds = take_wait_s(query)
    asked = decode_verb(route_of(ReadEvents), exchange.values, query, None)
    assert isinstance(asked, ReadEvents)
    page: EventPage = await exchange.relay.ask(asked)
    if seconds and not page.events:
        log = thread_log(asked.thread)
        waiting = exchange.door.hub.wait_for(exchange.relay.stores, log, asked.after, seconds)
        if await cancel_on_disconnect(exchange, waiting):
            page = await exchange.relay.ask(asked)
    await exchange.reply_json(page)


async def stream_events(exchange: Exchange) -> None:
    """Stream the events of a thread as server-sent events."""
    asked = decode_verb(route_of(ReadEvents), exchange.values, resumed(exchange), None)
    assert isinstance(asked, ReadEvents)
    page = await exchange.relay.ask(asked)
    await _stream(exchange, asked, page, lambda each: each)


async def _stream(
    exchange: Exchange,
    asked: ReadEvents,
    page: EventPage,
    reply: Callable[[Numbered], Any],
) -> None:
    """Send a page of events as server-sent events, followed by new events."""
    seq = asked.after

    async def following() -> bytes:
        nonlocal page, seq
        while not page.events and not exchange.door.hub.is_closing:
            log = thread_log(asked.thread)
            await exchange.door.hub.wait_for(exchange.relay.stores, log, seq, EVENTS_KEEPALIVE_S)
            page = await exchange.relay.ask(ReadEvents(asked.thread, seq))
        text = b"".join(b"id: %d\ndata: %s\n\n" % (e.seq, encode(reply(e))) for e in page.events)
        if page.events:
            seq = page.events[-1].seq
            page = EventPage(events=[])
        return text

    await stream(exchange, seq, following)


ENDPOINTS = [
    Endpoint(
        http="GET /threads/{thread}/events",
        handler=list_events,
        query=EventsQuery,
        gives=ThreadEvents,
        also={200: (EVENT_STREAM,)},
        headers=("last-event-id",),
    ),
    Endpoint(
        http=f"GET {route_of(ReadEvents).path}/stream",
        handler=stream_events,
        tag="threads",
        query=EventsQuery,
        also={200: (EVENT_STREAM,)},
        headers=("last-event-id",),
        takes_token=True,
    ),
]
