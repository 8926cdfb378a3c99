"""Status: health, readiness, version, and the start page."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec import Struct

from contextrelay.client.transport.local import in_thread
from contextrelay.doors.build import Build, build
from contextrelay.doors.http.server import security_headers
from contextrelay.doors.http.server.request import TEXT, Exchange, Headers
from contextrelay.doors.http.server.router import SERVER, Endpoint, Handler
from contextrelay.errors import Unavailable
from contextrelay.limits import READY_S_MAX
from contextrelay.wire.verbs import ListThreads

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


# The page

_STYLE = """
:root { color-scheme: light dark; }
body { margin: 3rem auto; max-width: 40rem; padding: 0 1rem; font: 1rem/1.5 system-ui, sans-serif; }
code { font: .9rem ui-monospace, monospace; }
"""
_PAGE = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Context Relay</title><style>{_STYLE}</style></head><body><main>
<h1>Context Relay</h1>
<p>Content goes in once; small refs travel. This is a relay: agents push what they made, and pass
each other refs to it.</p>
<ul>
<li><a href="/docs">What can be asked here</a>, and the same as
<a href="/openapi.json">OpenAPI</a></li>
<li><a href="/version">Which version this is</a>, and <a href="/readyz">whether it is ready</a></li>
</ul>
</main></body></html>
""".encode()
_GUARDED = security_headers.page(_STYLE)


async def page(exchange: Exchange) -> None:
    """Say in a browser what this is."""
    await exchange.reply(200, _PAGE, b"text/html; charset=utf-8", _GUARDED)


async def to_page(exchange: Exchange) -> None:
    """Leads to the page."""
    await exchange.reply(308, b"", TEXT, [(b"location", b"/ui/")])


def _get(path: str, handler: Handler, **more: Any) -> Endpoint:
    return Endpoint(http=f"GET {path}", handler=handler, tag=SERVER, **more)


_PLAIN = ("text/plain",)
ENDPOINTS = [
    _get("/", root, also={200: _PLAIN, 307: _PLAIN}),
    _get("/health", health, gives=Status),
    _get("/healthz", health, id="healthz", gives=Status),
    _get("/readyz", ready, id="readyz", gives=Status),
    _get("/version", version, gives=Build),
    _get("/ui", to_page, also={308: _PLAIN}),
    _get("/ui/", page, also={200: ("text/html",)}),
]
