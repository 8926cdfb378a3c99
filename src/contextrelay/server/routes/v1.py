"""The routes under /v1/: one per verb, from the table of routes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from msgspec.json import encode

from contextrelay.client.flow import in_thread
from contextrelay.errors import Invalid
from contextrelay.limits import (
    ARCHIVE_BYTES_MAX,
    ASKED_BYTES_MAX,
    INLINE_BODY_BYTES_MAX,
    JSON_BODY_BYTES_MAX,
    KIB,
    SEND_CHUNK_BYTES,
)
from contextrelay.server.metrics import PUSHES, SIGNALS, Metrics
from contextrelay.server.request import Exchange
from contextrelay.server.request_body import Upload
from contextrelay.server.router import Handler
from contextrelay.server.routes.send_artifact import FRAMED_FORM, begun, send_artifact
from contextrelay.verbs import (
    Body,
    PatchState,
    Publish,
    Pull,
    Push,
    PushMany,
    PutReport,
    ReturnHandoff,
    ShowHandoff,
    ShowThread,
    Stream,
    Verb,
)
from contextrelay.verbs.routes import (
    FRAMED,
    JSON_PATCH,
    Route,
    decode_verb,
    patch_operations,
    route_of,
)

# JSON of at most this size is parsed on the event loop, because a thread would cost more.
ASKED_AT_ONCE_BYTES_MAX = 64 * KIB


def answering(route: Route) -> Handler:
    """Return the handler that runs a verb on its route."""
    if route.verb is Pull:
        return _pull
    if route.takes_body:

        async def take(exchange: Exchange) -> None:
            bare = _bare(route, exchange)
            if bare is not None:
                exchange.visitor.check(bare)
            await _check_named(exchange, getattr(bare, "thread", None), exchange.values.get("ref"))
            upload = await exchange.upload(
                _bytes_max(exchange, route), route.verb, bare is not None
            )
            try:
                if bare is not None:
                    verb, body = bare, upload.body()
                elif upload.size_bytes <= INLINE_BODY_BYTES_MAX:
                    verb, body = _framed(route, exchange, upload)
                else:
                    verb, body = await in_thread(lambda: _framed(route, exchange, upload))
                await _reply(exchange, route, await ask(exchange, verb, body))
            finally:
                upload.close()

        return take

    async def answer(exchange: Exchange) -> None:
        query = exchange.query()
        json = None
        if not route.in_query:
            await _check_named(exchange, exchange.values.get("thread"))
            # A patch may contain a whole state. The requests of all other verbs are small.
            bytes_max = JSON_BODY_BYTES_MAX if route.verb is PatchState else ASKED_BYTES_MAX
            json = await exchange.whole(bytes_max, route.verb)

        def made() -> Verb[Any]:
            fields = json
            if route.verb is PatchState and exchange.media_type() == JSON_PATCH:
                fields = patch_operations(json or b"")
            return decode_verb(route, exchange.values, query, fields)

        if json is None or len(json) <= ASKED_AT_ONCE_BYTES_MAX:
            verb = made()
        else:
            async with exchange.door.large_json:
                verb = await in_thread(made)
        await _reply(exchange, route, await ask(exchange, verb))

    return answer


async def ask(exchange: Exchange, verb: Verb[Any], body: Body = b"", key: str | None = None) -> Any:
    """Run a verb and return its reply. The idempotency key is `key`, or else that of the
    request.
    """
    key = exchange.key() if key is None else key
    if verb.traits.slow:
        reply = await exchange.door.slow_pool.ask(exchange.relay, verb, body, key)
    elif verb.looks_inside:
        reply = await exchange.door.slow_pool.look(exchange.relay, verb, body, key)
    else:
        reply = await exchange.relay.ask(verb, body, key)
    count(exchange.door.metrics, verb)
    return reply


def count(metrics: Metrics, verb: Verb[Any]) -> None:
    """Count the pushes and signals of a verb that was answered."""
    if isinstance(verb, Push):
        metrics.add(PUSHES)
        if verb.channel is not None:
            metrics.add(SIGNALS)
    elif isinstance(verb, Publish):
        metrics.add(SIGNALS)
    elif isinstance(verb, PushMany):
        for each in verb.items:
            count(metrics, each)


async def _check_named(exchange: Exchange, thread: str | None, handoff: str | None = None) -> None:
    """Check that the thread and handoff of a request exist, before its long body is read.

    Raises:
        NotFound, Gone: the thread or handoff does not exist.
    """
    if thread is not None and exchange.asks_first:
        await exchange.relay.ask(ShowThread(thread))
    if handoff is not None and exchange.asks_first:
        await exchange.relay.ask(ShowHandoff(handoff))


def _bytes_max(exchange: Exchange, route: Route) -> int:
    if route.verb in (Push, PutReport, ReturnHandoff):
        return exchange.door.relay.stores.settings.body_bytes_max + JSON_BODY_BYTES_MAX
    return ARCHIVE_BYTES_MAX


def _bare(route: Route, exchange: Exchange) -> Verb[Any] | None:
    """Return a verb with its fields from the query, or None if the request is framed.

    Batches of pushes are always framed, whatever their content type is.
    """
    if exchange.media_type() != FRAMED and route.verb is not PushMany:
        return decode_verb(route, exchange.values, exchange.query(), None)
    if exchange.scope["query_string"]:
        raise Invalid(
            "a framed request must not have a query", "put the fields on the first line of the body"
        )
    return None


def _framed(route: Route, exchange: Exchange, upload: Upload) -> tuple[Verb[Any], Body]:
    """Return the verb and the body of a framed request."""
    body = upload.body()
    chunks = iter((body,) if isinstance(body, bytes) else body)
    line, rest = _line(chunks)
    verb = decode_verb(route, exchange.values, {}, line)
    if isinstance(body, bytes):
        return verb, rest
    return verb, _after(rest, chunks)


def _line(chunks: Iterator[bytes]) -> tuple[bytes, bytes]:
    """Return the first line of a stream, and the data that was read after it."""
    start = b""
    for chunk in chunks:
        start += chunk
        line, newline, rest = start.partition(b"\n")
        if newline:
            return line, rest
        if len(start) > JSON_BODY_BYTES_MAX:
            break
    raise Invalid("missing line of JSON before the body", f"see {FRAMED} in the documentation")


def _after(rest: bytes, chunks: Iterator[bytes]) -> Iterator[bytes]:
    if rest:
        yield rest
    yield from chunks


async def _reply(exchange: Exchange, route: Route, reply: Any) -> None:
    if not isinstance(reply, Stream):
        await exchange.reply_json(reply, route.status)
        return
    stream = cast("Stream[Any]", reply)
    framed = exchange.accepts(FRAMED)
    media_type = FRAMED if framed else route.media_type
    parts = await begun(exchange.door.relay.chunks(stream, SEND_CHUNK_BYTES))
    await exchange.start(route.status, [(b"content-type", media_type.encode())])
    if framed:
        await exchange.send(encode(stream.value) + b"\n")
    async for part in parts:
        await exchange.send(part)
    await exchange.send(b"", more=False)


async def _pull(exchange: Exchange) -> None:
    """Send a body: framed for the clients of this package, otherwise as bare bytes, with ranges and
    tags.
    """
    verb = decode_verb(route_of(Pull), exchange.values, exchange.query(), None)
    assert isinstance(verb, Pull)
    await send_artifact(exchange, verb, FRAMED_FORM)
