"""An exchange: one HTTP request and its response.

Rule: nothing is read beyond its limit, or before the permission of its sender is known: a body is
read only for a verb that the caller may use. A slow sender uses only a connection, not a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote_to_bytes

from msgspec.json import encode
from msgspec.structs import replace

from contextrelay.client.flow import in_thread
from contextrelay.client.transport.address import AGENT_HEADER, PERSON, READER_HEADER
from contextrelay.client.transport.local import AsyncLocal
from contextrelay.documents.bounds import check_label
from contextrelay.errors import Invalid, RelayError, TooLarge
from contextrelay.limits import KIB, QUERY_FIELDS_MAX
from contextrelay.server.auth import address_in
from contextrelay.server.bounds import FILE_BYTES, IncomingBodies, IncomingBody
from contextrelay.server.request_body import Upload
from contextrelay.verbs import ImportThread, Restore, Verb
from contextrelay.verbs.routes import KEY_HEADER

if TYPE_CHECKING:
    from contextrelay.server.app import ServerContext
    from contextrelay.server.auth import Visitor
    from contextrelay.server.http_connection import Protocol as Connection
    from contextrelay.server.http_connection import ResponseWriter

BODY_BYTES_PER_S_MIN = 16 * KIB
BODY_S_MAX = 3_600
# A body of at most this size usually arrives together with its headers. Receiving such a body costs
# less than first checking its thread and its quota.
ASKED_FIRST_BYTES_MIN = 64 * KIB
# The number of bytes of a body of unknown length after which the quota of its key is checked again.
QUOTA_CHECK_BYTES = 256 * KIB


Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

JSON = b"application/json"
TEXT = b"text/plain; charset=utf-8"
_KEY_HEADER = KEY_HEADER.encode()
_AGENT_HEADER = AGENT_HEADER.encode()
# Keys of the ASGI scope, shared with the connection. ENDED: the client sends no more data; the
# value is the function that closes the connection. WAITS: the exchange only waits, so ENDED means a
# disconnect.
ENDED = "contextrelay.ended"
WAITS = "contextrelay.waits"
CONNECTION = "contextrelay.connection"
WRITER = "contextrelay.writer"
# Core copies these bodies before it reads them.
_COPIED = (ImportThread, Restore)


class TimedOut(RelayError):
    """The client stopped sending its request."""

    code, status = "timed_out", 408


class ClientLeft(Exception):
    """The client closed the connection."""


class Exchange:
    """A request and its response."""

    __slots__ = (
        "_body_s",
        "_copies",
        "_held",
        "_receive",
        "_send",
        "_incoming",
        "bytes_in",
        "bytes_out",
        "door",
        "ended",
        "headers",
        "method",
        "origin",
        "scope",
        "status",
        "values",
        "visitor",
    )

    visitor: Visitor
    """The caller. This is set before anything is done for the request."""

    def __init__(
        self,
        door: ServerContext,
        scope: Scope,
        receive: Receive,
        send: Send,
        body_s: float,
        incoming: IncomingBodies,
    ) -> None:
        self.door = door
        self.scope = scope
        self.values: dict[str, str] = {}
        """The values of the `{name}` placeholders of the path."""
        self._body_s = body_s
        self._incoming = incoming
        self._held: IncomingBody | None = None
        self._copies = 1
        self.method: str = scope.get("method", "GET")
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.status = 0
        """The status of the response, or 0 before the response has started."""
        self.bytes_in = self.bytes_out = 0
        self.origin = ""
        """The address of this server as the client addresses it. This is set after the Host was
        checked.
        """
        self.ended: RelayError | None = None
        """The reason why the exchange was ended early, or None."""
        self._receive = receive
        self._send = send

    @property
    def relay(self) -> AsyncLocal:
        """Return the store with the permissions of the caller, for the agent that it names."""
        relay = self.visitor.relay
        if agent := self.headers.get(_AGENT_HEADER):
            name = unquote_to_bytes(agent).decode(errors="replace")
            relay = relay.with_stores(
                replace(relay.stores, agent=check_label(name, AGENT_HEADER) if name else "")
            )
        if self.header(READER_HEADER) == PERSON:
            return relay.with_stores(replace(relay.stores, is_counted=False))
        return relay

    # Request

    def header(self, name: str) -> str:
        """Return the value of a header, or ""."""
        return self.headers.get(name.encode(), b"").decode("latin-1")

    def key(self) -> str:
        """Return the idempotency key of the request, or "".

        Raises:
            Invalid: the header is empty, which would look like a missing header.
        """
        if self.headers.get(_KEY_HEADER) == b"":
            raise Invalid("empty idempotency key", "send a value, or omit the header")
        return self.header(KEY_HEADER)

    def segments(self) -> list[str]:
        """Return the segments of the path, each decoded once.

        Raises:
            Invalid: a segment is not valid UTF-8.
        """
        raw: bytes = self.scope["raw_path"]
        return [decoded(part) for part in raw.split(b"/")[1:]]

    def query(self) -> dict[str, str]:
        """Return the fields of the query.

        Raises:
            Invalid: the query is not valid UTF-8, has too many fields, or has a duplicate field.
        """
        return query_fields(self.scope["query_string"])

    def media_type(self) -> str:
        """Return the Content-Type without parameters."""
        return self.header("content-type").partition(";")[0].strip().lower()

    def accepts(self, media_type: str) -> bool:
        """Return True if the Accept header lists a media type by name."""
        asked = self.header("accept").lower()
        return any(part.partition(";")[0].strip() == media_type for part in asked.split(","))

    async def whole(self, bytes_max: int, kind: type[Verb[Any]] | None) -> bytes:
        """Return the whole request body, for a verb or, if `kind` is None, for any verb that the
        caller may use.

        Raises:
            Refused: the caller may not use the verb.
            Full: the body exceeds the remaining quota of the caller.
            TooLarge: the body is longer than `bytes_max`; most of it was not read.
            Limited, Unavailable: the server has no room for the body now.
        """
        parts: list[bytes] = []
        async for part in self.parts(bytes_max, kind, in_file=False):
            if self._held is not None:
                self._held.put(len(part))
            parts.append(part)
        return b"".join(parts)

    async def upload(self, bytes_max: int, kind: type[Verb[Any]], is_bare: bool = False) -> Upload:
        """Receive the request body, in memory if it is small, otherwise in a file.

        `is_bare`: the body consists of the content only, so the size of the content is known
        beforehand.

        Raises:
            As `whole`; Full also if the temporary folder has no room.
        """
        upload = Upload(self.make_room)
        # Without an announced length, the quota is checked again while the content arrives.
        checked_bytes = bytes_max if self._announced_bytes() is not None or not is_bare else 0
        try:
            async for part in self.parts(bytes_max, kind, is_bare=is_bare):
                await upload.take(part)
                if upload.size_bytes - checked_bytes >= QUOTA_CHECK_BYTES:
                    checked_bytes = upload.size_bytes
                    await self._check_quota(kind, checked_bytes)
        except BaseException:
            upload.close()
            raise
        return upload

    async def parts(
        self,
        bytes_max: int,
        kind: type[Verb[Any]] | None,
        in_file: bool = True,
        is_bare: bool = False,
    ) -> AsyncIterator[bytes]:
        """Yield the parts of the request body as they arrive. The body must keep a minimum pace.

        Raises:
            As `whole`.
            TimedOut: the body arrives too slowly.
            ClientLeft: the client disconnected.
        """
        message = await self._opened(bytes_max, kind, in_file, is_bare)
        # Only the time of waiting for the client counts, not the time of processing the data.
        left_s, paced_bytes, all_left_s = self._body_s, self.bytes_in, float(BODY_S_MAX)
        pace_bytes = self._body_s * BODY_BYTES_PER_S_MIN
        while True:
            if message["type"] != "http.request":
                raise ClientLeft
            if part := message.get("body", b""):
                self.bytes_in += len(part)
                if self.bytes_in > bytes_max:
                    raise _too_long(bytes_max)
                yield part
            if not message.get("more_body", False):
                return
            if self.bytes_in - paced_bytes >= pace_bytes:
                paced_bytes, left_s = self.bytes_in, self._body_s
            message, took_s = await self._next_message(min(left_s, all_left_s))
            left_s -= took_s
            all_left_s -= took_s

    @property
    def asks_first(self) -> bool:
        """Return True if the permissions and quota of the caller must be checked before the body is
        read.
        """
        announced = self._announced_bytes()
        return announced is None or announced > ASKED_FIRST_BYTES_MIN or b"expect" in self.headers

    def _announced_bytes(self) -> int | None:
        """Return the length of the body that the headers announce, or None if they announce
        none.
        """
        if b"transfer-encoding" in self.headers:
            return None
        return int(self.headers.get(b"content-length", 0))

    async def _check_quota(self, kind: type[Verb[Any]], least_bytes: int) -> None:
        caller, key = self.visitor.relay.stores.caller, self.key()
        if caller is not None and caller.key.quota_bytes is not None:
            await in_thread(lambda: caller.check_quota(kind, least_bytes, key))

    async def _opened(
        self, bytes_max: int, kind: type[Verb[Any]] | None, in_file: bool, is_bare: bool
    ) -> MutableMapping[str, Any]:
        """Return the first message of a body, after all checks have passed.

        Only this method answers `Expect: 100-continue`.
        """
        caller = self.visitor.relay.stores.caller
        if caller is not None and kind is not None:
            caller.check_kind(kind)
        announced = self._announced_bytes()
        if announced is not None and announced > bytes_max:
            raise _too_long(bytes_max)
        if self.asks_first:
            if kind is not None:
                await self._check_quota(kind, announced if is_bare and announced else 1)
            self._copies = 2 if kind in _COPIED else 1
            self._holding(self._copies * (announced or 0), in_file)
        if announced == 0:
            return await self._receive()
        connection: Connection = self.scope[CONNECTION]
        if not connection.is_body_coming():
            return await self._receive()  # The body is complete, so this does not wait.
        message, _ = await self._next_message(self._body_s)
        if message.get("more_body", False):
            self._holding()
        return message

    def make_room(self, size_bytes: int) -> None:
        """Reserve room in the temporary folder for a part of the body."""
        self._holding().put(self._copies * size_bytes, FILE_BYTES)

    def _holding(self, expected_bytes: int = 0, in_file: bool = True) -> IncomingBody:
        if self._held is None:
            key = self.visitor.key
            caller = f"address {address_in(self.scope)}" if key is None else key.id
            self._held = self._incoming.begin(caller, expected_bytes, in_file)
        return self._held

    def release_body(self) -> None:
        """Release the room reserved for the body, after the response."""
        if self._held is not None:
            self._held.end()
            self._held = None

    async def _next_message(self, seconds: float) -> tuple[MutableMapping[str, Any], float]:
        """Return the next message of the body, and how many seconds it took.

        Raises:
            TimedOut: no part of the body arrived in time.
        """
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        try:
            async with asyncio.timeout_at(begun_s + seconds):
                return await self._receive(), loop.time() - begun_s
        except TimeoutError:
            raise TimedOut(
                f"the body is slower than {BODY_BYTES_PER_S_MIN:,} bytes per second",
                "send the body without pauses",
            ) from None

    async def until_disconnected(self) -> None:
        """Wait until the client has disconnected, or is assumed to have disconnected."""
        self.scope[WAITS] = True
        if (leave := self.scope.get(ENDED)) is not None:
            leave()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def cut(self) -> None:
        """Close the connection, so that the client notices the incomplete response."""
        connection: Connection = self.scope[CONNECTION]
        connection.transport.abort()
        await self.until_disconnected()

    # Response

    async def reply(
        self, status: int, body: bytes, media_type: bytes, more: Iterable[tuple[bytes, bytes]] = ()
    ) -> None:
        """Send a whole response."""
        if self.method != "HEAD":
            writer: ResponseWriter = self.scope[WRITER]
            writer.is_whole = True
        await self.start(
            status, [(b"content-length", b"%d" % len(body)), (b"content-type", media_type), *more]
        )
        self.bytes_out = len(body)
        await self._send({"type": "http.response.body", "body": body})

    async def refuse(
        self, status: int, body: bytes, media_type: bytes, more: Iterable[tuple[bytes, bytes]] = ()
    ) -> None:
        """Send a whole error response. If much of the body is still unread, close the connection.

        A client that sends its whole body before it reads still gets the response. The rest of a
        short body is discarded as it arrives, unless it arrives too slowly.
        """
        connection: Connection = self.scope[CONNECTION]
        is_short = not self.asks_first and status != TimedOut.status
        if is_short or not connection.is_body_coming():
            await self.reply(status, body, media_type, more)
            return
        size, close = (b"content-length", b"%d" % len(body)), (b"connection", b"close")
        await self.start(status, [size, (b"content-type", media_type), close, *more])
        connection.linger(is_endless=self._announced_bytes() is None)
        await self.send(body, more=False)

    async def reply_json(
        self, value: object, status: int = 200, more: Iterable[tuple[bytes, bytes]] = ()
    ) -> None:
        await self.reply(status, encode(value), JSON, more)

    async def start(self, status: int, headers: Headers) -> None:
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def send(self, part: bytes, more: bool = True) -> None:
        self.bytes_out += len(part)
        await self._send({"type": "http.response.body", "body": part, "more_body": more})


def query_fields(raw: bytes) -> dict[str, str]:
    """Return the fields of a query, as `Exchange.query` does."""
    if not raw:
        return {}
    try:
        pairs = parse_qsl(
            raw.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=QUERY_FIELDS_MAX,
        )
    except ValueError:
        raise Invalid("malformed query", "percent-encode it as UTF-8") from None
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise Invalid("duplicate query field", "send each field once")
    return fields


def decoded(part: bytes) -> str:
    """Return a path segment, percent-decoded once."""
    try:
        return (unquote_to_bytes(part) if b"%" in part else part).decode()
    except UnicodeDecodeError:
        raise Invalid("the path is not valid UTF-8", "percent-encode it as UTF-8") from None


def _too_long(bytes_max: int) -> TooLarge:
    return TooLarge(
        f"the body is longer than {bytes_max:,} bytes", "send a shorter body, or send it in parts"
    )
