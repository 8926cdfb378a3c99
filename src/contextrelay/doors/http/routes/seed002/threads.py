"""Seed 002's routes: threads and their events, and with them everything that is in a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, to_builtins

from contextrelay.doors.http.routes.seed002 import artifacts, capabilities, render, reports, states
from contextrelay.doors.http.routes.seed002.parsing import ask_of, caller, fields_of, thread_of
from contextrelay.doors.http.routes.v1 import ask
from contextrelay.doors.http.server.request import Exchange
from contextrelay.model.thread import EventPage, Numbered, ThreadListing, ThreadView
from contextrelay.wire.routes import read, route_of
from contextrelay.wire.verbs import Label, ListThreads, NewThread, ReadEvents, ShowThread

if TYPE_CHECKING:
    from contextrelay.doors.http.app import Door
    from contextrelay.doors.http.server.router import Paths


def add_to(paths: Paths) -> None:
    paths.add("POST", "/threads", new_thread)
    paths.add("GET", "/threads", list_threads)
    paths.add("GET", "/threads/{thread}", show_thread)
    paths.add("GET", "/threads/{thread}/events", list_events)
    for room in (states, artifacts, capabilities, reports, render):
        room.add_to(paths)


class _NewThread(Struct, forbid_unknown_fields=True):
    name: Label | None = None
    by: Label | None = None


async def new_thread(door: Door, exchange: Exchange, values: dict[str, str]) -> None:
    """Make a thread, its state at version 1."""
    sent = await fields_of(exchange, _NewThread, NewThread)
    made: ThreadView = await ask(door, exchange, NewThread(sent.name, caller(exchange, sent.by)))
    place = f"/threads/{made.thread_id}".encode()
    await exchange.reply_json(told(made), 201, [(b"location", place)])


async def list_threads(door: Door, exchange: Exchange, values: dict[str, str]) -> None:
    """List threads, newest first; `after` is the `next` of the page before."""
    verb = read(route_of(ListThreads), {}, exchange.query(), None)
    page: ThreadListing = await ask(door, exchange, verb)
    await exchange.reply_json({"threads": [told(each) for each in page.threads], "next": page.next})


async def show_thread(door: Door, exchange: Exchange, values: dict[str, str]) -> None:
    """A thread as it stands."""
    thread = thread_of(values)
    await exchange.reply_json(told(await ask_of(door, exchange, thread, ShowThread(thread))))


def told(thread: ThreadView) -> dict[str, Any]:
    """A thread as the seed's clients read it."""
    return {**to_builtins(thread), "state_ref": f"v{thread.version}"}


async def list_events(door: Door, exchange: Exchange, values: dict[str, str]) -> None:
    """Events after a seq, in order."""
    thread = thread_of(values)
    verb = read(route_of(ReadEvents), {"thread": thread}, exchange.query(), None)
    page: EventPage = await ask_of(door, exchange, thread, verb)
    await exchange.reply_json({"events": [told_event(each) for each in page.events]})


def told_event(numbered: Numbered) -> dict[str, Any]:
    event = numbered.event
    return {
        "seq": numbered.seq,
        "id": event.id,
        "type": event.type,
        "at": event.at,
        "by": event.by,
        "detail": event.detail,
        "hash": event.hash,
    }
