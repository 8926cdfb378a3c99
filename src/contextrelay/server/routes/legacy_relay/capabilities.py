"""Capability routes of seed 002."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import to_builtins
from msgspec.json import decode

from contextrelay.documents.values import is_object
from contextrelay.errors import Invalid
from contextrelay.limits import ASKED_BYTES_MAX, FETCH_PREVIEW_CHARS
from contextrelay.model.artifact import Artifact
from contextrelay.model.capability import CapabilityListing, Invoked
from contextrelay.server.request import Exchange
from contextrelay.server.router import WRITES, Endpoint
from contextrelay.server.routes.legacy_relay.bodies import InvokeBody, InvokedCapability
from contextrelay.server.routes.legacy_relay.parsing import (
    ask_of,
    caller,
    checked_thread,
    fitted,
    json_of,
)
from contextrelay.server.routes.send_artifact import whole
from contextrelay.server.routes.v1 import ask
from contextrelay.verbs import Invoke, ListCapabilities, Peek, Pull


async def invoke(exchange: Exchange) -> None:
    """Run a capability in a thread, or return its cached result."""
    given = await json_of(exchange, Invoke, ASKED_BYTES_MAX)
    if is_object(given):
        sent_fields = {name: each for name, each in given.items() if each is not None}
        given = {"capability": "", "thread_id": "", **sent_fields}
    sent = fitted(given, InvokeBody)
    name = sent.capability or sent.name
    if not name or sent.name not in ("", name):
        raise Invalid("capability is required", "send the name of a capability: see GET /cap/list")
    if not sent.thread_id:
        raise Invalid("thread_id is required", "send the id of a thread: see GET /threads")
    thread = checked_thread(sent.thread_id)
    verb = Invoke(name, sent.args, thread, caller(exchange, sent.by), sent.is_cached)
    key = sent.idempotency_key or exchange.key()
    invoked: Invoked = await ask_of(exchange, thread, verb, key=key)
    if (made := _PREVIEWS.get(invoked.capability)) is not None:
        preview = await made(exchange, invoked, sent.args)
    else:
        preview = to_builtins(invoked.preview)
    await exchange.reply_json(
        InvokedCapability(
            invoked.capability,
            preview,
            invoked.artifact_ref,
            invoked.cache_hit,
            invoked.cache_key,
            invoked.duration_ms,
        )
    )


async def _search_preview(
    exchange: Exchange, invoked: Invoked, args: dict[str, Any]
) -> dict[str, Any]:
    stream = await exchange.relay.ask(Pull(invoked.artifact_ref))
    result: dict[str, Any] = decode(await whole(exchange, stream))
    fields = ("ref", "type", "name", "snippet", "score")
    results = [
        {name: each[name] or "" if name == "name" else each[name] for name in fields}
        for each in result["results"]
    ]
    return {"query": result["query"], "count": len(results), "results": results}


async def _fetch_preview(
    exchange: Exchange, invoked: Invoked, args: dict[str, Any]
) -> dict[str, Any]:
    artifact: Artifact = await ask(exchange, Peek(invoked.artifact_ref), key="")
    text, chars_max = artifact.preview.text, args.get("preview_size", FETCH_PREVIEW_CHARS)
    return {
        "url": artifact.metadata["url"],
        "status": artifact.metadata["status"],
        "content_type": artifact.media_type,
        "size": artifact.size_bytes,
        "preview": text[:chars_max],
        "truncated": artifact.preview.truncated or len(text) > chars_max,
    }


_PREVIEWS: dict[str, Callable[..., Awaitable[dict[str, Any]]]] = {
    "retrieval.search": _search_preview,
    "http.fetch": _fetch_preview,
}
"""Functions that make the previews of the seed's own capabilities. Other capabilities have a
generic preview.
"""


async def list_capabilities(exchange: Exchange) -> None:
    """List the capabilities with their arguments."""
    await exchange.reply_json(await ask(exchange, ListCapabilities()))


ENDPOINTS = [
    Endpoint(
        http="POST /cap/invoke",
        handler=invoke,
        id="plainInvoke",
        takes=InvokeBody,
        gives=InvokedCapability,
        headers=WRITES,
        fails=(402, 404, 409, 410, 429, 502),
    ),
    Endpoint(
        http="GET /cap/list",
        handler=list_capabilities,
        id="plainListCapabilities",
        gives=CapabilityListing,
    ),
]
