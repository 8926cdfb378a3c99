"""An exchange: one HTTP request, and the way to answer it.

Rule: nothing is read beyond its bound, and nobody who sends slowly holds anything but a connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote_to_bytes

from msgspec.json import encode

from contextrelay.doors.http.server.body_memory import Shelf
from contextrelay.doors.http.server.request_body import Upload
from contextrelay.errors import Invalid, RelayError, TooLarge
from contextrelay.limits import (
    BODY_IDLE_S,
    BODY_PACE_BYTES,
    LINGER_BYTES_MAX,
    LINGER_S_MAX,
    QUERY_FIELDS_MAX,
)
from contextrelay.wire.routes import KEY_HEADER

if TYPE_CHECKING:
    from contextrelay.client.transport.local import AsyncLocal
    from contextrelay.doors.http.server.auth import Visitor

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

JSON = b"application/json"
TEXT = b"text/plain; charset=utf-8"
_KEY_HEADER = KEY_HEADER.encode()
# Between a connection and the exchange on it, in the scope: that the client will send no more, with
# the way to end the connection; and that the exchange only waits, so that this means it has left.
ENDED = "contextrelay.ended"
WAITS = "contextrelay.waits"
# The way to end the connection at once.
CUT = "contextrelay.cut"


class TimedOut(RelayError):
    """The client stopped in the middle of its request."""

    code, status = "timed_out", 408


class Left(Exception):
    """The client is gone: there is nobody to answer."""


class Exchange:
    """A request as it is read, a reply as it is sent."""

    __slots__ = (
        "_body_s",
        "_held_bytes",
        "_receive",
        "_send",
        "_shelf",
        "bytes_in",
        "bytes_out",
        "ended",
        "headers",
        "method",
        "origin",
        "scope",
        "status",
        "visitor",
    )

    visitor: Visitor
    """Who asks; set once that is known, before anything is done for them."""

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        body_s: float = BODY_IDLE_S,
        shelf: Shelf | None = None,
    ) -> None:
        self.scope = scope
        self._body_s = body_s
        self._shelf = shelf
        self._held_bytes = 0
        self.method: str = scope.get("method", "GET")
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.status = 0
        """Of the answer, once it is begun."""
        self.bytes_in = 0
        self.bytes_out = 0
        self.origin = ""
        """Where this server is, as the client calls it; set once the Host was checked."""
        self.ended: RelayError | None = None
        """Why it was ended before it was done, if it was."""
        self._receive = receive
        self._send = send

    @property
    def is_known(self) -> bool:
        """Whether it was found out who asks."""
        return hasattr(self, "visitor")

    @property
    def relay(self) -> AsyncLocal:
        """The store as who asks has it."""
        return self.visitor.relay

    # Reading

    def header(self, name: str) -> str:
        """A header's value; "" where there is none."""
        return self.headers.get(name.encode(), b"").decode("latin-1")

    def key(self) -> str:
        """The key by which the client may ask again; "" where it gives none.

        Raises:
            Invalid: it is empty, which would look like none.
        """
        key = self.headers.get(_KEY_HEADER)
        if key == b"":
            raise Invalid("the idempotency key is empty", "give one, or leave the header out")
        return "" if key is None else key.decode("latin-1")

    def segments(self) -> list[str]:
        """The parts of the path, each decoded once.

        Raises:
            Invalid: a part is no UTF-8.
        """
        raw: bytes = self.scope["raw_path"]
        return [decoded(part) for part in raw.split(b"/")[1:]]

    def query(self) -> dict[str, str]:
        """The fields of the query.

        Raises:
            Invalid: it is no UTF-8, has too many fields, or one twice.
        """
        raw: bytes = self.scope["query_string"]
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
            raise Invalid("the query cannot be read", "percent-encode it as UTF-8") from None
        fields = dict(pairs)
        if len(fields) < len(pairs):
            raise Invalid("a field stands twice in the query", "send each field once")
        return fields

    def media_type(self) -> str:
        """What the client says that its body is, without parameters."""
        return self.header("content-type").partition(";")[0].strip().lower()

    def accepts(self, media_type: str) -> bool:
        """Whether the client asks for a media type by name."""
        asked = self.header("accept").lower()
        return any(part.partition(";")[0].strip() == media_type for part in asked.split(","))

    async def whole(self, bytes_max: int) -> bytes:
        """The request's body in one piece.

        Raises:
            TooLarge: it is longer than that; most of it was not read.
            Unavailable: there is no room for it beside others.
        """
        self._check_announced(bytes_max)
        message = await self._first()
        if message["type"] == "http.request" and not message.get("more_body", False):
            body: bytes = message.get("body", b"")
            self.bytes_in = len(body)
            if len(body) > bytes_max:
                raise _too_long(bytes_max)
            return body
        parts: list[bytes] = []
        size = 0
        async for part in self._parts(message):
            size += len(part)
            if size > bytes_max:
                raise _too_long(bytes_max)
            self._hold(len(part))
            parts.append(part)
        return b"".join(parts)

    def _hold(self, size_bytes: int) -> None:
        if self._shelf is not None:
            self._shelf.put(size_bytes)
            self._held_bytes += size_bytes

    def let_go(self) -> None:
        """Hold nothing any more: it is answered."""
        if self._shelf is not None:
            self._shelf.clear(self._held_bytes)

    async def upload(self, bytes_max: int) -> Upload:
        """The request's body, in memory while it is small and in a file from there on.

        Raises:
            TooLarge: it is longer than that; most of it was not read.
        """
        self._check_announced(bytes_max)
        upload = Upload()
        try:
            async for part in self._parts(await self._first()):
                if upload.size_bytes + len(part) > bytes_max:
                    raise _too_long(bytes_max)
                await upload.take(part)
        except BaseException:
            upload.close()
            raise
        return upload

    async def parts(self, bytes_max: int) -> AsyncIterator[bytes]:
        """The request's body as it comes.

        Raises:
            TooLarge: it is longer than that; most of it was not read.
        """
        self._check_announced(bytes_max)
        size = 0
        async for part in self._parts(await self._first()):
            size += len(part)
            if size > bytes_max:
                raise _too_long(bytes_max)
            yield part

    def _check_announced(self, bytes_max: int) -> None:
        announced = self.headers.get(b"content-length")
        if announced is not None and announced.isdigit() and int(announced) > bytes_max:
            raise _too_long(bytes_max)

    async def _first(self) -> MutableMapping[str, Any]:
        """The first of the body; it is mostly here already."""
        announced = self.headers.get(b"content-length")
        if announced in (None, b"0") and b"transfer-encoding" not in self.headers:
            return await self._receive()
        return await self._before(asyncio.get_running_loop().time() + self._body_s)

    async def _before(self, deadline_s: float) -> MutableMapping[str, Any]:
        try:
            async with asyncio.timeout_at(deadline_s):
                return await self._receive()
        except TimeoutError:
            raise TimedOut(
                f"less than {BODY_PACE_BYTES} bytes of the body came in {self._body_s:g} s",
                "send the body without a pause",
            ) from None

    async def _parts(self, message: MutableMapping[str, Any]) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        paced_bytes = self.bytes_in
        deadline_s = loop.time() + self._body_s
        while True:
            if message["type"] != "http.request":
                raise Left
            if part := message.get("body", b""):
                self.bytes_in += len(part)
                yield part
            if not message.get("more_body", False):
                return
            if self.bytes_in - paced_bytes >= BODY_PACE_BYTES:
                paced_bytes = self.bytes_in
                deadline_s = loop.time() + self._body_s
            message = await self._before(deadline_s)

    async def linger(self) -> None:
        """Read and drop what still comes, for a while.

        Who is cut off in the middle of sending may not see the answer that was sent before.
        """
        dropped_bytes = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_S_MAX):
                while dropped_bytes < LINGER_BYTES_MAX:
                    message = await self._receive()
                    dropped_bytes += len(message.get("body", b""))
                    if not message.get("more_body", False):
                        return

    async def until_left(self) -> None:
        """Return when the client has gone, or can be expected to have."""
        self.scope[WAITS] = True
        if (leave := self.scope.get(ENDED)) is not None:
            leave()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def cut(self) -> None:
        """End the connection, so that what was sent of the answer is seen not to be whole."""
        self.scope[CUT]()
        await self.until_left()

    # Answering

    @property
    def is_answered(self) -> bool:
        return self.status > 0

    async def reply(
        self, status: int, body: bytes, media_type: bytes, more: Iterable[tuple[bytes, bytes]] = ()
    ) -> None:
        """Answer in one piece."""
        await self.start(
            status, [(b"content-length", b"%d" % len(body)), (b"content-type", media_type), *more]
        )
        self.bytes_out = len(body)
        if status == TooLarge.status:
            await self._send({"type": "http.response.body", "body": body, "more_body": True})
            await self.linger()
            body = b""
        await self._send({"type": "http.response.body", "body": body})

    async def reply_json(
        self, value: object, status: int = 200, more: Iterable[tuple[bytes, bytes]] = ()
    ) -> None:
        await self.reply(status, encode(value), JSON, more)

    async def start(self, status: int, headers: Headers) -> None:
        """Begin an answer."""
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def send(self, part: bytes, more: bool = True) -> None:
        """Send a part of an answer that was begun."""
        self.bytes_out += len(part)
        await self._send({"type": "http.response.body", "body": part, "more_body": more})


def decoded(part: bytes) -> str:
    """A part of a path, percent-decoded once."""
    try:
        return (unquote_to_bytes(part) if b"%" in part else part).decode()
    except UnicodeDecodeError:
        raise Invalid("the path is no UTF-8", "percent-encode it as UTF-8") from None


def _too_long(bytes_max: int) -> TooLarge:
    return TooLarge(f"the body is longer than {bytes_max:,} bytes", "send less, or in parts")
