"""Status routes: health, readiness, version, and the start page."""

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

# Seconds within which the store must answer, or else the server reports that it is not ready.
READY_S_MAX = 5


FRESH: Headers = [(b"cache-control", b"no-store")]


class Status(Struct, frozen=True):
    status: str


async def root(exchange: Exchange) -> None:
    """Return the name of the service. Browsers are redirected to the web page."""
    vary = (b"vary", b"accept")
    if exchange.accepts("text/html"):
        place = [(b"location", b"/ui/"), vary, *FRESH]
        await exchange.reply(307, b"", TEXT, place)
    else:
        await exchange.reply(200, b"ContextRelay API is running.", TEXT, [vary])


async def health(exchange: Exchange) -> None:
    """Return ok if the server is running. To check the store too, use /readyz."""
    await exchange.reply_json(Status("ok"), more=FRESH)


async def ready(exchange: Exchange) -> None:
    """Return ok if requests can be answered: the store is available, and no shutdown is in
    progress.
    """
    if exchange.door.hub.is_closing:
        raise Unavailable("the server is shutting down", "use another server")
    try:
        await asyncio.wait_for(exchange.door.relay.ask(ListThreads(1)), READY_S_MAX)
    except TimeoutError:
        raise Unavailable(
            f"the store did not answer within {READY_S_MAX} s", "check that its engine is running"
        ) from None
    await exchange.reply_json(Status("ready"), more=FRESH)


async def version(exchange: Exchange) -> None:
    """Return the version of the server, its commit and its build date."""
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
