"""Thread routes of seed 002, and the list of all its routes."""

from __future__ import annotations

from contextrelay.model.thread import ThreadListing, ThreadView
from contextrelay.server.request import Exchange
from contextrelay.server.router import WRITES, Endpoint
from contextrelay.server.routes.legacy_relay import artifacts, capabilities, reports, states
from contextrelay.server.routes.legacy_relay.bodies import (
    NewThreadBody,
    Thread,
    ThreadPage,
    ThreadsQuery,
    thread_reply,
)
from contextrelay.server.routes.legacy_relay.parsing import (
    ask_of,
    caller,
    fields_of,
    query_of,
    thread_of,
)
from contextrelay.server.routes.v1 import ask
from contextrelay.verbs import ListThreads, NewThread, ShowThread


async def new_thread(exchange: Exchange) -> None:
    """Create a thread, with its state at version 1."""
    sent = await fields_of(exchange, NewThreadBody, NewThread)
    verb = NewThread(sent.name or None, caller(exchange, sent.by))
    made: ThreadView = await ask(exchange, verb)
    place = f"/threads/{made.thread_id}".encode()
    await exchange.reply_json(thread_reply(made), 201, [(b"location", place)])


async def list_threads(exchange: Exchange) -> None:
    """List threads, newest first; `after` is the `next` of the previous page."""
    query = query_of(exchange, ThreadsQuery)
    page: ThreadListing = await ask(exchange, ListThreads(query.limit, query.after))
    await exchange.reply_json(ThreadPage([thread_reply(each) for each in page.threads], page.next))


async def show_thread(exchange: Exchange) -> None:
    """Return a thread."""
    thread = thread_of(exchange)
    view: ThreadView = await ask_of(exchange, thread, ShowThread(thread))
    await exchange.reply_json(thread_reply(view))


ENDPOINTS = [
    Endpoint(
        http="POST /threads",
        handler=new_thread,
        id="plainNewThread",
        takes=NewThreadBody,
        gives=Thread,
        status=201,
        headers=WRITES,
    ),
    Endpoint(
        http="GET /threads",
        handler=list_threads,
        id="plainListThreads",
        query=ThreadsQuery,
        gives=ThreadPage,
    ),
    Endpoint(http="GET /threads/{thread}", handler=show_thread, id="plainShowThread", gives=Thread),
    *states.ENDPOINTS,
    *artifacts.ENDPOINTS,
    *capabilities.ENDPOINTS,
    *reports.ENDPOINTS,
]
