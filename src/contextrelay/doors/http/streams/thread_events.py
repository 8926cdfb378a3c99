"""Events of a thread over HTTP: by page, by long-poll, and as server-sent events.

Seed 002's path gives them under the seed's names; with `Accept: text/event-stream` as they come.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec.json import encode

from contextrelay.core.schema import thread_log
from contextrelay.doors.http.routes.endpoint import Endpoint, add_endpoints
from contextrelay.doors.http.routes.seed002 import threads
from contextrelay.doors.http.routes.seed002.bodies import EventsQuery, ThreadEvents, event_reply
from contextrelay.doors.http.routes.seed002.parsing import ask_of, fitted, thread_of
from contextrelay.doors.http.server.request import Exchange
from contextrelay.doors.http.streams.signals import (
    EVENT_STREAM,
    resumed,
    stream,
    take_wait_s,
    unless_left,
)
from contextrelay.limits import EVENTS_KEEPALIVE_S
from contextrelay.model.thread import EventPage, Numbered
from contextrelay.wire.routes import read, route_of
from contextrelay.wire.verbs import ReadEvents

if TYPE_CHECKING:
    from contextrelay.doors.http.app import Door
    from contextrelay.doors.http.server.router import Paths


async def list_events(door: Door, exchange: Exchange, values: dict[str, str]) -> None:
    """Events of a thread after the one with an id, oldest first.

    With `Accept: text/event-stream` they come as server-sent events, and go on as they happen.
    """
    thread = thread_of(values)
    query = fitted(resumed(exchange), EventsQuery, "the query", strict=False)
    asked = ReadEvents(thread, query.after, query.limit)
    page = await ask_of(door, exchange, thread, asked)
    if exchange.accepts(EVENT_STREAM):
        await _stream(door, exchange, asked, page, lambda each: event_reply(thread, each))
        return
    await exchange.reply_json(ThreadEvents([event_reply(thread, each) for each in page.events]))


ENDPOINTS = [
    Endpoint(
        http="GET /threads/{thread}/events",
        handler=list_events,
        id="listEvents",
        query=EventsQuery,
        gives=ThreadEvents,
        also={200: (EVENT_STREAM,)},
        headers=("last-event-id",),
    )
]


def add_to(paths: Paths) -> None:
    add_endpoints(paths, ENDPOINTS, threads.UNKNOWN)
    events = route_of(ReadEvents).path
    paths.add("GET", events, _read_events)
    paths.add("GET", f"{events}/stream", _stream_events)


async def _read_events(door: Door, exchange: Exchange, values: dict[str, str]) -> None:
    """A page of a thread's events; with `wait`, once there is one or the time is up."""
    query = exchange.query()
    seconds = take_wait_s(query)
    asked = read(route_of(ReadEvents), values, query, None)
    assert isinstance(asked, ReadEvents)
    page: EventPage = await exchange.relay.ask(asked)
    if seconds and not page.events:
        log = thread_log(asked.thread)
        waiting = door.hub.wait_for(exchange.relay.stores, log, asked.after, seconds)
        if await unless_left(exchange, waiting):
            page = await exchange.relay.ask(asked)
    await exchange.reply_json(page)


async def _stream_events(door: Door, exchange: Exchange, values: dict[str, str]) -> None:
    """A thread's events as they come, after a seq; from the first one where none is given."""
    asked = read(route_of(ReadEvents), values, resumed(exchange), None)
    assert isinstance(asked, ReadEvents)
    page = await exchange.relay.ask(asked)
    await _stream(door, exchange, asked, page, lambda each: each)


async def _stream(
    door: Door,
    exchange: Exchange,
    asked: ReadEvents,
    page: EventPage,
    reply: Callable[[Numbered], Any],
) -> None:
    """Send a page of events, and then those that follow."""
    seq = asked.after

    async def following() -> bytes:
        nonlocal page, seq
        while not page.events and not door.hub.is_closing:
            log = thread_log(asked.thread)
            await door.hub.wait_for(exchange.relay.stores, log, seq, EVENTS_KEEPALIVE_S)
            page = await exchange.relay.ask(ReadEvents(asked.thread, seq))
        text = b"".join(b"id: %d\ndata: %s\n\n" % (e.seq, encode(reply(e))) for e in page.events)
        if page.events:
            seq = page.events[-1].seq
            page = EventPage(events=[])
        return text

    await stream(exchange, seq, following)
