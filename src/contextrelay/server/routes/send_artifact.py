"""Responses with content: an artifact's bytes, whole or as a range, tagged by their hash.

Rule: a browser must not trust pushed content, so it is served with its own media type, without
type detection by the browser, and without scripts.
"""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from msgspec import Struct
from msgspec.json import encode

from contextrelay.errors import RelayError
from contextrelay.limits import INLINE_BODY_BYTES_MAX, KIB, SEND_CHUNK_BYTES
from contextrelay.model.artifact import Artifact
from contextrelay.server.request import TEXT, Exchange, Headers
from contextrelay.verbs import Pull, Stream
from contextrelay.verbs.routes import FRAMED, framed_tag

COMPRESS_BYTES_MIN = KIB


BYTES = "application/octet-stream"
CHOSEN = (b"vary", b"accept, accept-encoding")
"""A URL has several representations, chosen by these request headers. Each representation has its
own tag.
"""
OWN = (b"cache-control", b"private, no-cache")
UNTRUSTED: Headers = [(b"content-security-policy", b"sandbox; default-src 'none'"), OWN]
PACKED = (b"content-encoding", b"gzip")
COMPRESSED_TYPES = ("text/", "application/json", "application/xml", "image/svg")
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


class NoSuchRange(RelayError):
    """The range is not within the content."""

    code, status = "no_such_range", 416


# Representations


class ReplyForm(Struct, frozen=True):
    """A representation of a body: its headers, its tag, and its encoding."""

    headers: Callable[[Artifact], Headers]
    parts: Callable[[Artifact, AsyncIterator[bytes]], AsyncIterator[bytes]] | None = None
    """A function that encodes the bytes, or None to send them unchanged, which allows ranges."""


def raw_headers(artifact: Artifact) -> Headers:
    media_type = BYTES if artifact.sealed else artifact.media_type
    if artifact.is_text and media_type.startswith("text/") and "charset" not in media_type:
        media_type += "; charset=utf-8"
    return [
        (b"content-type", media_type.encode("latin-1", "replace")),
        (b"etag", b'"%s"' % artifact.sha256.encode()),
        (b"accept-ranges", b"bytes"),
        CHOSEN,
        *UNTRUSTED,
    ]


def envelope_headers(artifact: Artifact) -> Headers:
    headers: Headers = [(b"content-type", TEXT), CHOSEN, OWN]
    # The tag names the content together with the metadata, which may differ for the same content.
    if not artifact.metadata:
        headers.append((b"etag", b'"%s-e"' % artifact.sha256.encode()))
    return headers


def metadata_end(artifact: Artifact) -> bytes:
    """Return the end of an envelope, which follows the text: the metadata and the closing brace."""
    return b',"metadata":' + encode(artifact.metadata) + b"}"


async def _envelope(artifact: Artifact, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield a text encoded as a JSON envelope, chunk by chunk."""
    reader = codecs.getincrementaldecoder("utf-8")()
    yield b'{"data":"'
    async for part in parts:
        if text := reader.decode(part):
            yield encode(text)[1:-1]
    yield b'"' + metadata_end(artifact)


def _framed_headers(artifact: Artifact) -> Headers:
    tag = framed_tag(artifact.sha256).encode()
    return [(b"content-type", FRAMED.encode()), (b"etag", tag), CHOSEN, OWN]


async def _framed(artifact: Artifact, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield encode(artifact) + b"\n"
    async for part in parts:
        yield part


BARE_FORM = ReplyForm(raw_headers)
"""The representation as bare bytes, with their media type."""
ENVELOPE_FORM = ReplyForm(envelope_headers, _envelope)
"""The representation as `{"data": "...", "metadata": {...}}`, for text."""
FRAMED_FORM = ReplyForm(_framed_headers, _framed)
"""The representation as a line of JSON followed by the bytes, for the clients of this package."""


def pull_form(exchange: Exchange, artifact: Artifact, offers: tuple[ReplyForm, ...]) -> ReplyForm:
    """Return the representation to send for a pull. A route offers `offers` in addition to bare
    bytes.
    """
    if FRAMED_FORM in offers and exchange.accepts(FRAMED):
        return FRAMED_FORM
    if ENVELOPE_FORM in offers and artifact.is_text and not exchange.accepts(BYTES):
        return ENVELOPE_FORM
    return BARE_FORM


# Sending


async def send_artifact(exchange: Exchange, verb: Pull, *offers: ReplyForm) -> None:
    """Send a body, as bare bytes or in an offered representation that the client accepts.

    The status is 200, 206 for a range, or 304 if the client already has the content.
    """
    stream = await exchange.relay.ask(verb)
    artifact = stream.value
    form = pull_form(exchange, artifact, offers)
    size = artifact.size_bytes
    start, stop = min(verb.start, size), size if verb.stop is None else min(verb.stop, size)
    headers = form.headers(artifact)
    is_bare = form is BARE_FORM
    # A range counts the bytes without the encoding.
    is_range = is_bare and b"range" in exchange.headers
    if not is_range and wants_gzip(exchange, headers, stop - start):
        headers = packed_headers(headers)
    tag = next((value for name, value in headers if name == b"etag"), b"")
    if tag and has_tag(exchange, tag):
        await exchange.start(304, headers)
        await exchange.send(b"", more=False)
        return
    status = 200
    if is_range and not verb.start and verb.stop is None:
        span = _range(exchange, tag, size)
        if span is not None:
            start, stop = span
            status = 206
            headers.append((b"content-range", b"bytes %d-%d/%d" % (start, stop - 1, size)))
            stream = await exchange.relay.ask(Pull(verb.ref, start, stop))
    await _send_body(exchange, stream, form, status, headers, max(0, stop - start))


def packed_headers(headers: Headers) -> Headers:
    """Return the headers for the compressed content, which has another tag and allows no ranges."""
    packed = [
        (name, value[:-1] + b'-gz"' if name == b"etag" else value)
        for name, value in headers
        if name != b"accept-ranges"
    ]
    return [*packed, PACKED]


async def reply_tagged(
    exchange: Exchange, body: bytes, media_type: bytes, tag: bytes, more: Headers
) -> None:
    """Send a whole response, or status 304 if the client already has the body."""
    headers = [(b"etag", tag), *more]
    if not has_tag(exchange, tag):
        await exchange.reply(200, body, media_type, headers)
        return
    await exchange.start(304, headers)
    await exchange.send(b"", more=False)


def has_tag(exchange: Exchange, tag: bytes) -> bool:
    """Return True if If-None-Match says that the client already has the content."""
    asked = exchange.headers.get(b"if-none-match")
    if asked is None:
        return False
    return asked.strip() == b"*" or tag in [
        each.strip().removeprefix(b"W/") for each in asked.split(b",")
    ]


def _range(exchange: Exchange, tag: bytes, size: int) -> tuple[int, int] | None:
    """Return the requested byte range as (start, stop), or None for all bytes. Several ranges count
    as all.
    """
    asked = exchange.header("range")
    if not asked or exchange.headers.get(b"if-range", tag) != tag:
        return None
    match = _RANGE.fullmatch(asked.strip())
    if match is None or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if first and last and int(last) < int(first):
        return None
    if not first:
        start, stop = max(0, size - int(last)), size
    else:
        start, stop = int(first), min(size, int(last) + 1) if last else size
    if start >= size:
        raise NoSuchRange(
            f"the content has {size} bytes", "request a range within it", {"size": size}
        )
    return start, stop


async def _send_body(
    exchange: Exchange,
    stream: Stream[Artifact],
    form: ReplyForm,
    status: int,
    headers: Headers,
    size_bytes: int,
) -> None:
    """Send a body in a representation: at once if it is small, otherwise while it is being read.

    The first chunk is read before the status is sent, so that a missing body is an error response
    and not a broken response with status 200.
    """
    parts = chunks(exchange, stream, size_bytes)
    is_head, is_packed = exchange.method == "HEAD", PACKED in headers
    if not is_head:
        parts = await begun(parts)
    if form.parts is not None:
        parts = form.parts(stream.value, parts)
    if is_packed:
        parts = gzipped(parts)
    elif size_bytes <= INLINE_BODY_BYTES_MAX:
        body = b"".join([part async for part in parts])
        await exchange.start(status, [(b"content-length", b"%d" % len(body)), *headers])
        await exchange.send(b"" if is_head else body, more=False)
        return
    elif form.parts is None:
        headers = [(b"content-length", b"%d" % size_bytes), *headers]
    await exchange.start(status, headers)
    if not is_head:
        async for part in parts:
            await exchange.send(part)
    await exchange.send(b"", more=False)


async def whole(exchange: Exchange, stream: Stream[Any]) -> bytes:
    """Return the bytes of a small body. They are read directly if reading does not block."""
    if exchange.door.relay.stores.ledger.reads_wait:
        return await exchange.door.relay.whole(stream)
    return stream.whole()


async def chunks(exchange: Exchange, stream: Stream[Any], size_bytes: int) -> AsyncIterator[bytes]:
    """Yield the chunks of an artifact's body. Each is read directly if reading does not block."""
    if size_bytes <= INLINE_BODY_BYTES_MAX:
        yield await whole(exchange, stream)
    elif not exchange.door.relay.stores.ledger.reads_wait:
        for chunk in stream.chunks():
            yield chunk
    else:
        async for chunk in exchange.door.relay.chunks(stream, SEND_CHUNK_BYTES):
            yield chunk


async def begun(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Read the first part, and return an iterator of all parts including the first."""
    first = await anext(parts, b"")

    async def all_parts() -> AsyncIterator[bytes]:
        yield first
        async for part in parts:
            yield part

    return all_parts()


def wants_gzip(exchange: Exchange, headers: Headers, size_bytes: int) -> bool:
    asked = exchange.headers.get(b"accept-encoding")
    if asked is None or b"gzip" not in asked or not is_worth_packing(headers, size_bytes):
        return False
    for part in asked.lower().split(b","):
        name, _, quality = part.partition(b";")
        if name.strip() == b"gzip" and quality.replace(b" ", b"") in (b"q=0", b"q=0.0"):
            return False
    return True


def is_worth_packing(headers: Headers, size_bytes: int) -> bool:
    """Return True if content of this type and size is worth compressing."""
    if size_bytes < COMPRESS_BYTES_MIN:
        return False
    media_type = next(value for name, value in headers if name == b"content-type").decode("latin-1")
    return media_type.startswith(COMPRESSED_TYPES)


async def gzipped(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield compressed parts as the parts arrive. The fastest level is used, which already saves
    most of the size.
    """
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    async for part in parts:
        for start in range(0, len(part), INLINE_BODY_BYTES_MAX):
            if packed := packer.compress(part[start : start + INLINE_BODY_BYTES_MAX]):
                yield packed
    yield packer.flush()
