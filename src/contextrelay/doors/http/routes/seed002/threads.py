"""Seed 002's routes: threads, and with them everything that is in a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contextrelay.doors.http.routes.endpoint import WRITES, Endpoint, add_endpoints
from contextrelay.doors.http.routes.seed002 import artifacts, capabilities, reports, states
from contextrelay.doors.http.routes.seed002.bodies import (
    NewThreadBody,
    Thread,
    ThreadPage,
    ThreadsQuery,
    thread_reply,
)
from contextrelay.doors.http.routes.seed002.parsing import (
    ask_of,
    caller,
    fields_of,
    query_of,
    thread_of,
)
from contextrelay.doors.http.routes.v1 import ask
from contextrelay.doors.http.server.request import Exchange
from contextrelay.model.thread import ThreadListing, ThreadView
from contextrelay.wire.verbs import ListThreads, NewThread, ShowThread

if TYPE_CHECKING:
    from contextrelay.doors.http.app import Door
    from contextrelay.doors.http.server.router import Paths

UNKNOWN = "invalid or missing API token"
"""The seed's error text for a missing or wrong token."""


async def new_thread(door: Door, exchange: Exchange, values: dict[str, str]) -> None:
    """Make a thread, its state at version 1."""
    sent = await fields_of(exchange, NewThreadBody, NewThread)
    verb = NewThread(sent.name or None, caller(exchange, sent.by))
    made: ThreadView = await ask(door, exchange, verb)
    place = f"/threads/{made.thread_id}".encode()
    await exchange.reply_json(thread_reply(made), 201, [(b"location", place)])


async def list_threads(door: Door, exchange: Exchange, values: dict[str, str]) -> None:
    """List threads, newest first; `after` is the `next` of the page before."""
    query = query_of(exchange, ThreadsQuery)
    page: ThreadListing = await ask(door, exchange, ListThreads(query.limit, query.after))
    await exchange.reply_json(ThreadPage([thread_reply(each) for each in page.threads], page.next))


async def show_thread(door: Door, exchange: Exchange, values: dict[str, str]) -> None:
    """A thread as it stands."""
    thread = thread_of(values)
    view: ThreadView = await ask_of(door, exchange, thread, ShowThread(thread))
    await exchange.reply_json(thread_reply(view))


ENDPOINTS = [
    Endpoint(
        http="POST /threads",
        handler=new_thread,
        id="newThread",
        takes=NewThreadBody,
        gives=Thread,
        status=201,
        headers=WRITES,
    ),
    Endpoint(
        http="GET /threads",
        handler=list_threads,
        id="listThreads",
        query=ThreadsQuery,
        gives=ThreadPage,
    ),
    Endpoint(http="GET /threads/{thread}", handler=show_thread, id="showThread", gives=Thread),
    *states.ENDPOINTS,
    *artifacts.ENDPOINTS,
    *capabilities.ENDPOINTS,
    *reports.ENDPOINTS,
]


def add_to(paths: Paths) -> None:
    add_endpoints(paths, ENDPOINTS, UNKNOWN)
