"""HTTP requests, their retries, and the parsing of replies.

These are flows (client/flow.py) whose steps are send, read, close and pause; remote.py does the
steps, blocking or awaited.

Rule: a request is retried only if it cannot be executed twice: it only reads, or has an idempotency
key.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from msgspec import DecodeError, Struct, ValidationError
from msgspec.json import decode

from contextrelay import verbs
from contextrelay.cache import BoundedCache
from contextrelay.client.flow import Emit, Flow, HttpStep, Items, LostRequest
from contextrelay.client.transport.address import ServerAddress
from contextrelay.client.transport.request_body import Outgoing
from contextrelay.content.untrusted.hidden_chars import spell_hidden
from contextrelay.errors import Failed, Invalid, RelayError, Unavailable
from contextrelay.limits import (
    CHUNK_BYTES,
    HELD_BODY_BYTES_MAX,
    MIB,
    REPLY_JSON_BYTES_MAX,
    REPLY_S_DEFAULT,
    SENDS_MAX,
)
from contextrelay.model.artifact import Artifact
from contextrelay.verbs.problems import from_problem
from contextrelay.verbs.routes import (
    FRAMED,
    KEY_HEADER,
    Route,
    encode_verb,
    framed_tag,
    reply_type,
    route_of,
)
from contextrelay.verbs.verb import VALUE_BYTES_MAX

RESEND_S_MAX = 30
RESEND_PAUSE_S_MAX = 5
# The maximum seconds until the first byte of the reply, for verbs that read much of the store.
LONG_REPLY_S = 600
HELD_BYTES_MAX = 16 * MIB
HELD_REFS_MAX = 10_000
# The maximum length of the message, and of the hint, of an error that a server sends.
SERVER_ERROR_CHARS_MAX = 4_000


Result = TypeVar("Result")

JSON = "application/json"
# Statuses that are retried. A proxy in front of a restarting server also sends them. A Failed error
# is not retried.
RESENT = (502, 503, 504)
NOT_MODIFIED = 304


class OpenReply(Protocol):
    """A reply whose headers were received and whose body can be read."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...


class Send(HttpStep, frozen=True):
    """A step that sends a request; its result is an `OpenReply`."""

    method: str
    url: str
    headers: dict[str, str]
    body: Outgoing | None = None
    reply_s: float | None = None
    """The maximum seconds between two parts of a reply; None for the default."""


class ReadOn(HttpStep, frozen=True):
    """A step that reads the next bytes of a reply; its result is empty at the end."""

    answer: Any


class Close(HttpStep, frozen=True):
    """A step that stops reading a reply."""

    answer: Any


class Pause(HttpStep, frozen=True):
    """A step that waits; it has no result."""

    seconds: float


class UnreadBody(Struct, frozen=True):
    """A body too large to be read at once: the bytes so far, and the reply."""

    value: Any
    answer: Any
    first: bytes
    size_bytes: int | None


# Sending and retries


def fetched(send: Send, read: Callable[[Any], Flow[Result]]) -> Flow[Result]:
    """Send a request until it is answered, and read the reply.

    Raises:
        Unavailable: the server is unreachable. An error in the reply is raised too.
    """
    begun_s = time.monotonic()
    for count in range(1, SENDS_MAX + 1):
        sends_max = SENDS_MAX
        try:
            answer = yield send
            if answer.status not in RESENT:
                return (yield from read(answer))
            failed = yield from _error_in(answer)
            if isinstance(failed, Failed):
                raise failed
            seconds = answer.headers.get("retry-after", "").strip()
            is_number = seconds.isascii() and seconds.isdigit() and len(seconds) < 10
            asked_s = float(seconds) if is_number else None
        except LostRequest as lost:
            failed, asked_s, sends_max = lost.error, None, lost.sends_max
            failed.__cause__ = lost.__cause__
        pause_s = _pause_s(count, asked_s)
        is_late = time.monotonic() - begun_s + pause_s > RESEND_S_MAX
        if count >= sends_max or is_late or not (send.body is None or send.body.can_go_again):
            raise failed
        yield Pause(pause_s)
    raise AssertionError("the last attempt returns or raises")


def _pause_s(count: int, asked_s: float | None) -> float:
    """Return the seconds before the next attempt: the server's, or growing; randomized."""
    if asked_s is not None:
        return asked_s * (1 + random.random() / 4)
    return min(RESEND_PAUSE_S_MAX, 0.05 * 4**count / 4) * (0.5 + random.random() / 2)


# Verbs


class PulledBodies:
    """A cache of small pulled bodies by hash, and of the hashes of refs.

    Rule: a body never changes under its hash, but the server is asked every time whether the ref
    may still be read; only the bytes are not sent again.
    """

    def __init__(self) -> None:
        self._artifacts: BoundedCache[str, Artifact] = BoundedCache(HELD_REFS_MAX)
        self._bodies: BoundedCache[str, bytes] = BoundedCache(None, HELD_BYTES_MAX)

    def get(self, verb: verbs.Verb[Any]) -> tuple[Artifact, bytes] | None:
        """Return the cached artifact and body for a pull of a whole body, or None."""
        if not isinstance(verb, verbs.Pull) or verb.start or verb.stop is not None:
            return None
        artifact = self._artifacts.get(verb.ref)
        body = None if artifact is None else self._bodies.get(artifact.sha256)
        return None if artifact is None or body is None else (artifact, body)

    def keep(self, verb: verbs.Pull, artifact: Artifact, body: bytes) -> None:
        """Cache a body that was pulled as a whole."""
        if not verb.start and len(body) == artifact.size_bytes:
            self._artifacts.keep(verb.ref, artifact)
            self._bodies.keep(artifact.sha256, body, len(body))


def asked(
    server: ServerAddress, verb: verbs.Verb[Any], body: Any, key: str, held: PulledBodies
) -> Flow[verbs.Stream[Any] | UnreadBody | Any]:
    """Send a verb; return its reply.

    A reply with a body is a `Stream`, or an `UnreadBody` if it is large.
    """
    asked = encode_verb(verb)
    route = route_of(type(verb))
    headers = dict(server.headers())
    outgoing = None
    if asked.json is not None:
        headers["content-type"] = FRAMED if route.takes_body else JSON
        outgoing = Outgoing(asked.json + b"\n", body) if route.takes_body else Outgoing(asked.json)
    if route.method != "GET":
        headers[KEY_HEADER] = key or secrets.token_hex(16)
    reply_s = LONG_REPLY_S if verb.traits.slow or verb.traits.long else None
    known = None
    if route.media_type:
        headers["accept"] = FRAMED
        known = held.get(verb)
        if known is not None:
            headers["if-none-match"] = framed_tag(known[0].sha256)
    send = Send(asked.method, server.url + asked.target, headers, outgoing, reply_s)

    def read(answer: OpenReply) -> Flow[Any]:
        if known is not None and answer.status == NOT_MODIFIED:
            yield from whole(answer, 0)
            return in_hand(*known)
        yield from refuse_error(answer)
        if route.media_type:
            return (yield from _with_body(answer, route, verb, held))
        return decoded(reply_type(route.verb), (yield from whole(answer, REPLY_JSON_BYTES_MAX)))

    return (yield from fetched(send, read))


def has_news(
    server: ServerAddress, verb: verbs.ReadEvents | verbs.ReadSignals, wait_s: float
) -> Flow[bool]:
    """Wait at the server until there is something to read; return False on a timeout."""
    asked = encode_verb(verb)
    url = f"{server.url}{asked.target}&wait={wait_s:.3f}"

    def read(answer: OpenReply) -> Flow[bool]:
        yield from refuse_error(answer)
        raw = yield from whole(answer, REPLY_JSON_BYTES_MAX)
        page = decoded(reply_type(type(verb)), raw)
        if isinstance(verb, verbs.ReadEvents):
            return bool(page.events)
        return bool(page.signals) or page.gap is not None

    # The reply may take as long as the wait, plus the usual time.
    reply_s = wait_s + REPLY_S_DEFAULT
    return (yield from fetched(Send("GET", url, server.headers(), reply_s=reply_s), read))


def _with_body(
    answer: OpenReply, route: Route, verb: verbs.Verb[Any], held: PulledBodies
) -> Flow[verbs.Stream[Any] | UnreadBody]:
    """Read a reply with a value and a body. The body is read at once if it is small."""
    start = b""
    while b"\n" not in start:
        part: bytes = yield ReadOn(answer)
        start += part
        if not part or len(start) > VALUE_BYTES_MAX:
            yield Close(answer)
            raise _not_a_relay()
    line, _, first = start.partition(b"\n")
    value = decoded(reply_type(route.verb), line)
    if not isinstance(verb, verbs.Pull):
        return UnreadBody(value, answer, first, None)
    stop = value.size_bytes if verb.stop is None else min(verb.stop, value.size_bytes)
    size_bytes = max(0, stop - verb.start)
    if size_bytes > HELD_BODY_BYTES_MAX:
        return UnreadBody(value, answer, first, size_bytes)
    body = first + (yield from whole(answer, size_bytes + 1))
    if len(body) != size_bytes:
        raise LostRequest(_cut_short(size_bytes, len(body)), SENDS_MAX)
    held.keep(verb, value, body)
    return in_hand(value, body)


def in_hand(value: Any, body: bytes) -> verbs.Stream[Any]:
    """Return a reply whose body was read already."""

    def chunks(chunk_bytes: int) -> Any:
        return (body[at : at + chunk_bytes] for at in range(0, len(body), chunk_bytes))

    return verbs.Stream(value, chunks)


def rest_of(coming: UnreadBody) -> Items[bytes]:
    """Yield the chunks of a body as they arrive; raise an error if the body is incomplete."""
    size_bytes = len(coming.first)
    yield Emit((coming.first,) if coming.first else ())
    try:
        while part := (yield ReadOn(coming.answer)):
            size_bytes += len(part)
            yield Emit((part,))
    except LostRequest as lost:
        raise lost.error from lost.__cause__
    if coming.size_bytes not in (None, size_bytes):
        raise _cut_short(coming.size_bytes or 0, size_bytes)


def _cut_short(size_bytes: int, came_bytes: int) -> Unavailable:
    return Unavailable(
        f"the body is incomplete: {came_bytes} of {size_bytes} bytes received", "try again"
    )


# Reading replies


def whole(answer: OpenReply, bytes_max: int) -> Flow[bytes]:
    """Return the rest of a reply in one piece; raise an error if it exceeds `bytes_max`."""
    parts: list[bytes] = []
    size_bytes = 0
    while part := (yield ReadOn(answer)):
        size_bytes += len(part)
        if size_bytes > bytes_max:
            yield Close(answer)
            raise Unavailable(
                f"the reply is longer than {bytes_max:,} bytes", "request less at once"
            )
        parts.append(part)
    return b"".join(parts)


def refuse_error(answer: OpenReply) -> Flow[None]:
    """Raise the error that a reply contains, if it contains one."""
    if not 200 <= answer.status < 300:
        raise (yield from _error_in(answer))


def _error_in(answer: OpenReply) -> Flow[RelayError]:
    raw = yield from whole(answer, CHUNK_BYTES)
    if 300 <= answer.status < 400:
        return Invalid(
            f"the server redirects to {answer.headers.get('location', '')[:200]!r}",
            "redirects are not followed; if that is the relay, use its address",
        )
    try:
        problem = decode(raw, type=dict[str, Any])
    except (DecodeError, UnicodeDecodeError, RecursionError):
        # Plain text is valid, as on the routes of seed 000; anything else was not sent by a relay.
        is_text = answer.headers.get("content-type", "").startswith("text/plain")
        problem = {"error": raw[:1000].decode(errors="replace").strip()} if is_text else {}
    return server_error(problem, answer.status)


def server_error(problem: Mapping[str, Any], status: int) -> RelayError:
    """Return the error in a server's reply.

    Its texts are shortened single lines without control characters.
    """
    error = from_problem(problem, status)
    message, hint = map(_in_one_line, (error.message, error.hint))
    return type(error)(message, hint, error.details, error.status)


def _in_one_line(text: str) -> str:
    line = spell_hidden(" ".join(text[: 2 * SERVER_ERROR_CHARS_MAX].split()))
    if len(line) <= SERVER_ERROR_CHARS_MAX:
        return line
    return line[: SERVER_ERROR_CHARS_MAX - 1] + "…"


def decoded(kind: Any, raw: bytes) -> Any:
    try:
        return decode(raw, type=kind)
    except (ValidationError, DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _not_a_relay() from error


def _not_a_relay() -> Unavailable:
    return Unavailable("the server is not a Context Relay server", "check the address")
