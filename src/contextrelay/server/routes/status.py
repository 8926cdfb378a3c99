"""Status: health, readiness, version, and the start page."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec import Struct

from contextrelay.build import Build, build
from contextrelay.client.flow import in_thread
from contextrelay.errors import Unavailable
from contextrelay.server.request import TEXT, Exchange, Headers
from contextrelay.server.router import SERVER, Endpoint, Handler
from contextrelay.verbs import ListThreads

# How long the store may take to answer before the server says that it is not ready.
READY_S_MAX = 5


FRESH: Headers = [(b"cache-control", b"no-store")]


class Status(Struct, frozen=True):
    status: str


async def root(exchange: Exchange) -> None:
    """Say that this is a relay; browsers are sent to its page."""
    vary = (b"vary", b"accept")
    if exchange.accepts("text/html"):
        place = [(b"location", b"/ui/"), vary, *FRESH]
        await exchange.reply(307, b"", TEXT, place)
    else:
        await exchange.reply(200, b"ContextRelay API is running.", TEXT, [vary])


async def health(exchange: Exchange) -> None:
    """Whether the server runs; for its store there is /readyz."""
    await exchange.reply_json(Status("ok"), more=FRESH)


async def ready(exchange: Exchange) -> None:
    """Whether requests can be answered now: the store is there, and the server is to stay."""
    if exchange.door.hub.is_closing:
        raise Unavailable("the server is shutting down", "ask another one")
    try:
        await asyncio.wait_for(exchange.door.relay.ask(ListThreads(1)), READY_S_MAX)
    except TimeoutError:
        raise Unavailable(
            f"the store does not answer within {READY_S_MAX} s", "see whether its engine runs"
        ) from None
    await exchange.reply_json(Status("ready"), more=FRESH)


async def version(exchange: Exchange) -> None:
    """Which version this is, of which commit, built when."""
    await exchange.reply_json(await in_thread(build), more=FRESH)


def _get(path: str, handler: Handler, **more: Any) -> Endpoint:
    return Endpoint(http=f"GET {path}", handler=handler, tag=SERVER, **more)


_PLAIN = ("text/plain",)
ENDPOINTS = [
    _get("/", root, also={200: _PLAIN, 307: _PLAIN}),
    _get("/health", health, gives=Status),
    _get("/healthz", health, id="healthz", gives=Status),
    _get("/readyz", ready, id="readyz", gives=Status),
    _get("/version", version, gives=Build),
]
