"""The fast path: answers pulls and peeks of small bodies without an asyncio task.

A task, an ASGI scope and two awaited sends cost several times as much as reading the ledger.
Requests that need none of these are answered directly. All other requests, and all errors, take the
normal path.

Rule: the fast path uses the same verbs and sends the same bytes as the normal path.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING

from msgspec.json import encode

from contextrelay.client.transport.address import READER_HEADER
from contextrelay.core import Stores, answer
from contextrelay.errors import RelayError
from contextrelay.limits import INLINE_BODY_BYTES_MAX
from contextrelay.model.artifact import Artifact
from contextrelay.model.ref import is_ref
from contextrelay.server.auth import token_of
from contextrelay.server.request import JSON, Headers
from contextrelay.server.routes.send_artifact import (
    envelope_headers,
    is_worth_packing,
    metadata_end,
    raw_headers,
)
from contextrelay.server.security_headers import SAFE_LINES
from contextrelay.verbs import Peek, Pull

if TYPE_CHECKING:
    from contextrelay.server.app import ServerContext

Pair = tuple[bytes, bytes]
"""The head and the body of a response, which are sent one after the other."""

_REF_END = len("/pull/") + 36
# A request with one of these headers takes the normal path.
_UNUSUAL = frozenset(
    {
        b"range",
        b"if-none-match",
        b"if-range",
        b"origin",
        b"content-length",
        b"transfer-encoding",
        b"upgrade",
        READER_HEADER.encode(),
    }
)


class FastPath:
    """The fast path of a connection."""

    def __init__(self, door: ServerContext) -> None:
        self._door = door
        self._callers = door.callers
        stores = door.relay.stores
        self._guard = door.guard
        self._spans = door.spans
        # Cached responses count against the cache limit of the bodies that they are made from.
        self._replies = stores.body_cache.contents
        settings = stores.settings
        # A pull that renews a TTL writes to the store, so it takes the normal path.
        self.is_possible = not stores.ledger.reads_wait and not settings.extend_on_read

    def answer(self, target: bytes, headers: list[tuple[bytes, bytes]]) -> Pair | None:
        """Return the response to a GET request if no wait is needed, or None for the normal
        path.
        """
        ref = target[6:_REF_END].decode("ascii", "replace")
        query = target[_REF_END:]
        if query not in (b"", b"?raw=1") or not is_ref(ref):
            return None
        packed = wants_bytes = False
        host = token = None
        for name, value in headers:
            if name == b"host":
                if host is not None:
                    return None
                host = value
            elif name in _UNUSUAL:
                return None
            elif name == b"authorization":
                if token is not None:
                    return None
                token = token_of(value)
            elif name == b"accept-encoding":
                packed = b"gzip" in value
            elif name == b"accept":
                wants_bytes = value == b"application/octet-stream"
                if not wants_bytes and b"octet-stream" in value.lower():
                    return None
        if host is None or not self._guard.is_ours(host):
            return None
        begun = perf_counter_ns()
        is_peek = target.startswith(b"/peek/")
        if is_peek and query:
            return None
        try:
            visitor = self._callers.admit_cached(token)
            if visitor is None:
                return None
            stores = visitor.relay.stores
            is_raw = bool(query) or wants_bytes
            pair = self._peek(stores, ref) if is_peek else self._pull(stores, ref, is_raw, packed)
        except RelayError:
            return None
        if pair is not None:
            visitor.pace(visitor.relay.stores.now_ms())
            visitor.count(0, len(pair[1]))
            path = "/peek/{ref}" if is_peek else "/pull/{ref}"
            self._door.metrics.count(begun, path, "GET", 200, 0, len(pair[1]))
            if self._spans is not None:
                parent = dict(headers).get(b"traceparent", b"")
                self._spans.add(begun, path, "GET", 200, 0, len(pair[1]), parent)
        return pair

    def _peek(self, stores: Stores, ref: str) -> Pair:
        artifact = answer(stores, Peek(ref, shown_chars=0))
        return self._kept("peek", artifact) or self._keep(
            "peek", artifact, _pair([(b"content-type", JSON)], encode(artifact.metadata))
        )

    def _pull(self, stores: Stores, ref: str, is_raw: bool, packed: bool) -> Pair | None:
        known = self._replies.get(("raw", ref)) or self._replies.get(("text", ref))
        artifact = known[0] if known else answer(stores, Peek(ref, shown_chars=0))
        # Check this before the pull: a pull is counted, and the normal path would count it again.
        if artifact.size_bytes > INLINE_BODY_BYTES_MAX:
            return None
        is_raw = is_raw or not artifact.is_text
        if packed:
            headers = raw_headers(artifact) if is_raw else envelope_headers(artifact)
            if is_worth_packing(headers, artifact.size_bytes):
                return None
        stream = answer(stores, Pull(ref))
        artifact = stream.value
        kind = "raw" if is_raw else "text"
        if not packed and (kept := self._kept(kind, artifact)) is not None:
            return kept
        headers = raw_headers(artifact) if is_raw else envelope_headers(artifact)
        body = stream.whole()
        if not is_raw:
            body = b'{"data":' + encode(body.decode()) + metadata_end(artifact)
        return self._keep(kind, artifact, _pair(headers, body))

    # Several agents often request the same content. A description that was read from an unchanged
    # row is the same object, so a cached response is valid as long as the object is the same.

    def _kept(self, kind: str, artifact: Artifact) -> Pair | None:
        known = self._replies.get((kind, artifact.ref))
        return known[1] if known is not None and known[0] is artifact else None

    def _keep(self, kind: str, artifact: Artifact, pair: Pair) -> Pair:
        size_bytes = len(pair[0]) + len(pair[1]) + _ENTRY_BYTES
        self._replies.keep((kind, artifact.ref), (artifact, pair), size_bytes)
        return pair


# The approximate overhead of a cache entry, in bytes.
_ENTRY_BYTES = 500


_HEAD = b"HTTP/1.1 200 OK\r\n" + SAFE_LINES + b"content-length: %d\r\n"


def _pair(headers: Headers, body: bytes) -> Pair:
    lines = [_HEAD % len(body)]
    lines += [name + b": " + value + b"\r\n" for name, value in headers]
    lines.append(b"\r\n")
    return b"".join(lines), body
