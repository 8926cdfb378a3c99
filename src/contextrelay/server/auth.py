"""Authentication: find the caller of a request by its token, and open the store with its
permissions.

A valid token is cached. Its key is read from the ledger again after KEY_TRUSTED_S seconds, and at
once after a notification that the key changed. When a key is revoked or expires, its open requests
and streams are ended.

Rule: a request without a token is a request of the owner, if the server allows this at all. An
invalid token is refused. No error text and no log contains a token.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Generator, MutableMapping
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any, TypeVar

from msgspec.structs import replace

from contextrelay.access import Bucket, is_valid, take_tokens
from contextrelay.cache import BoundedCache
from contextrelay.client.flow import in_thread
from contextrelay.client.transport.local import AsyncLocal
from contextrelay.core import FoundKey, answer, find_key
from contextrelay.errors import Forbidden, Limited, RelayError
from contextrelay.limits import LOOK_EVERY_S
from contextrelay.model.key import Key
from contextrelay.model.names import KEYS, key_log
from contextrelay.verbs import CountUse, Verb

# The number of valid tokens cached per process, and the number of seconds for which one is trusted
# without reading the ledger. A read for every request would double the cost of a small pull.
KEYS_REMEMBERED_MAX = 10_000
KEY_TRUSTED_S = 0.005
# Seconds after which an identity provider is asked again about a cached token.
TOKEN_TRUSTED_S = 60.0
# The number of invalid tokens allowed per address and minute, and the number of addresses counted.
WRONG_TOKENS_PER_MINUTE = 60
WRONG_ADDRESSES_MAX = 10_000
# Seconds between two writes of the usage of keys.
USAGE_EVERY_S = 1


log = logging.getLogger("contextrelay.http")

Result = TypeVar("Result")
Headers = list[tuple[bytes, bytes]]
End = Callable[[RelayError], None]

RESOURCE = "/.well-known/oauth-protected-resource"
"""The path where clients learn which identity provider issues tokens for this server."""
OPEN = frozenset({"/", "/health", "/healthz", "/readyz", "/version", RESOURCE, f"{RESOURCE}/mcp"})
"""Paths that need no token."""
MISSING = "Missing or invalid API key"
RETRY_AFTER = "retry_after"
# Thousands of notifications may arrive at once, so they are processed in batches.
_REST_S = 0.01


_OWNER = FoundKey(b"", None)


class Visitor:
    """A caller: the owner, or the holder of a key."""

    __slots__ = (
        "_counts",
        "_is_sent_away",
        "_open",
        "checked_s",
        "key",
        "log",
        "found",
        "relay",
        "used_ms",
        "verified_s",
    )

    def __init__(self, relay: AsyncLocal, found: FoundKey = _OWNER) -> None:
        self.relay = relay
        """The store, limited to the permissions of the caller."""
        self.found = found
        """The key and its row in the ledger, as they were when the token was checked."""
        self.key = key = found.key
        self.log = "" if key is None else key_log(key.id)
        self.checked_s = self.verified_s = monotonic()
        self.used_ms = 0
        self._counts = [0, 0, 0]
        self._open: set[End] = set()
        self._is_sent_away = False

    @property
    def is_tracked(self) -> bool:
        return bool(self._open)

    @contextmanager
    def track_connection(self, end: End) -> Generator[None]:
        """Call `end` if the key becomes invalid while the context is active."""
        self._open.add(end)
        if self._is_sent_away:
            end(unknown())
        try:
            yield
        finally:
            self._open.discard(end)

    def revoke_connections(self) -> None:
        self._is_sent_away = True
        for end in tuple(self._open):
            end(unknown())

    def pace(self, now_ms: int) -> float:
        """Use up one of the key's requests per minute. Return 0, or the seconds to wait if none is
        left.

        The request is counted as a use of the key in both cases.
        """
        self.used_ms = now_ms
        self._counts[0] += 1
        caller = self.relay.stores.caller
        return 0.0 if caller is None else caller.take_request(now_ms)

    def check(self, verb: Verb[Any]) -> None:
        """Check that the caller may use a verb, before the body of the request is read.

        Raises:
            Forbidden: the key does not allow the verb.
        """
        caller = self.relay.stores.caller
        if caller is not None:
            caller.check(verb)

    def count(self, bytes_in: int, bytes_out: int) -> None:
        self._counts[1] += bytes_in
        self._counts[2] += bytes_out

    def pop_counts(self) -> dict[str, int]:
        """Return the counts since the last call and reset them. The dict is empty if nothing was
        counted.
        """
        counts, self._counts = self._counts, [0, 0, 0]
        return (
            dict(zip(("requests", "bytes_in", "bytes_out"), counts, strict=True))
            if any(counts)
            else {}
        )


class Callers:
    """The authenticated callers of one server process."""

    def __init__(
        self,
        relay: AsyncLocal,
        needs_token: bool,
        verify: Callable[[str], Key | None] | None = None,
    ) -> None:
        self._verify = verify
        """A function that returns the identity of an external token, or None if no verifier is
        configured.
        """
        self.owner = Visitor(relay)
        self.needs_token = needs_token
        self._relay = relay
        self._stores = relay.stores
        self._ledger = relay.stores.ledger
        self._visitors: dict[str, Visitor] = {}
        self._usage_lock = threading.Lock()
        self._unwritten: list[tuple[str, Counter[str], int]] = []
        """Usage not yet in the ledger: key id, counts and time of the last use."""
        self._sent: list[CountUse] = []
        """Usage that was sent and may be in the ledger: it is sent again with its id."""
        self._wrong: BoundedCache[str, Bucket] = BoundedCache(WRONG_ADDRESSES_MAX)
        self._stop_listening: Callable[[], None] = lambda: None
        self._watching: asyncio.Task[None] | None = None

    # Admission

    async def admit(self, token: str | None, address: str) -> Visitor:
        """Return the caller that a token belongs to.

        Raises:
            Forbidden: the token is missing or invalid.
            Limited: too many requests, or too many invalid tokens.
        """
        if token is None:
            if self.needs_token:
                raise unknown()
            return self.owner
        visitor = self._visitors.get(token)
        if visitor is None or not await self._is_current(visitor):
            visitor = await self._found(token, is_asking=not self._is_pausing(address))
        if visitor is None:
            raise self._wrong_token(address)
        now_ms = self._stores.now_ms()
        if visitor.key is None or visitor.key.requests_per_minute is None:
            visitor.pace(now_ms)
        elif wait_s := await self._read(lambda: visitor.pace(now_ms)):
            raise _too_often("rate limit exceeded for this key", wait_s)
        return visitor

    def admit_cached(self, token: str | None) -> Visitor | None:
        """Return the caller as `admit` does, or None if that needs a wait or would be an error.
        This does not count as a use of the key.
        """
        if token is None:
            return None if self.needs_token else self.owner
        visitor = self._visitors.get(token)
        if visitor is None or visitor.key is None or visitor.key.requests_per_minute is not None:
            return None
        now_s, now_ms = monotonic(), self._stores.now_ms()
        if not is_valid(visitor.key, now_ms):
            return None
        if now_s - visitor.checked_s >= KEY_TRUSTED_S:
            if not self._is_same(visitor):
                return None
            visitor.checked_s = now_s
        return visitor

    async def _is_current(self, visitor: Visitor) -> bool:
        assert visitor.key is not None
        if not is_valid(visitor.key, self._stores.now_ms()):
            return False
        now_s = monotonic()
        if now_s - visitor.checked_s < KEY_TRUSTED_S:
            return True
        if not await self._read(lambda: self._is_same(visitor)):
            return False
        visitor.checked_s = now_s
        return True

    def _is_same(self, visitor: Visitor) -> bool:
        # This token is from an identity provider, so it is verified again after TOKEN_TRUSTED_S
        # seconds.
        if not visitor.found.row:
            return monotonic() - visitor.verified_s < TOKEN_TRUSTED_S
        return visitor.found.is_current(self._stores)

    async def _found(self, token: str, is_asking: bool = True) -> Visitor | None:
        """Return the caller that a token belongs to and cache it, or return None if the key is
        unknown, revoked or expired.

        If `is_asking` is true, an identity provider is asked about a token that is not a key.
        """
        found = await self._read(lambda: find_key(self._stores, token))
        if found is None and self._verify is not None and is_asking:
            verify = self._verify
            found = FoundKey(b"", await in_thread(lambda: verify(token)))
        # Look into the cache again, because another request may have added this token during the
        # read.
        known = self._visitors.get(token)
        key = None if found is None else found.key
        if found is None or key is None or not is_valid(key, self._stores.now_ms()):
            if known is not None:
                del self._visitors[token]
                known.revoke_connections()
                await self._keep_usage([known])
            return None
        visitor = known
        if visitor is None or visitor.found.row != found.row or not _grants_same(visitor.key, key):
            if known is not None:
                known.revoke_connections()
            visitor = Visitor(self._relay.with_permissions_of(key), found)
        visitor.checked_s = visitor.verified_s = monotonic()
        self._visitors[token] = visitor
        await self._evict_one()
        return visitor

    async def _evict_one(self) -> None:
        """If the cache is full, evict the oldest key that has no open requests or streams."""
        if len(self._visitors) <= KEYS_REMEMBERED_MAX:
            return
        oldest = next(iter(self._visitors))
        visitor = self._visitors.pop(oldest)
        if visitor.is_tracked:
            self._visitors[oldest] = visitor
        else:
            await self._keep_usage([visitor])

    def _is_pausing(self, address: str) -> bool:
        """Return True if an address has recently sent too many invalid tokens."""
        now_ms = self._stores.now_ms()
        return take_tokens(self._wrong.get(address), WRONG_TOKENS_PER_MINUTE, now_ms)[1] > 0

    def _wrong_token(self, address: str) -> RelayError:
        """Return the error for an invalid token, or a rate limit error after too many from one
        address.
        """
        now_ms = self._stores.now_ms()
        bucket, wait_s = take_tokens(self._wrong.get(address), WRONG_TOKENS_PER_MINUTE, now_ms)
        self._wrong.keep(address, bucket)
        if wait_s:
            return _too_often("too many invalid tokens from this address", wait_s)
        return unknown()

    # Revoked and expired keys

    def start(self) -> None:
        """Start to watch for revoked and expired keys. Call this in the event loop of the
        server.
        """
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._stop_listening = self._ledger.listen(self._hear)
        self._watching = self._loop.create_task(self._watch())

    async def stop(self) -> None:
        """Write the usage counts to the ledger. Call this in the event loop after the last
        response.
        """
        if self._watching is not None:
            self._watching.cancel()
        self._stop_listening()
        await self._keep_usage(list(self._visitors.values()))

    def _hear(self, heard: str | None) -> None:
        """Handle a notification of the ledger. May be called from any thread."""
        if heard is None or heard.startswith(KEYS):
            with suppress(RuntimeError):  # The event loop is closed.
                self._loop.call_soon_threadsafe(self._invalidate, heard)

    def _invalidate(self, heard: str | None) -> None:
        for visitor in self._visitors.values():
            if heard in (None, visitor.log):
                visitor.checked_s = float("-inf")
        self._news.set()

    async def _watch(self) -> None:
        kept_s = monotonic()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._news.wait()
            self._news.clear()
            try:
                await self._end_invalid()
                if monotonic() - kept_s >= USAGE_EVERY_S:
                    kept_s = monotonic()
                    await self._keep_usage(list(self._visitors.values()))
            except RelayError as error:
                log.warning("cannot check the cached keys: %s", error)
            await asyncio.sleep(_REST_S)

    async def _end_invalid(self) -> None:
        """End the open requests and streams of keys that are no longer valid."""
        track_connection = [
            (token, each) for token, each in self._visitors.items() if each.is_tracked
        ]
        if not track_connection:
            return
        now_ms = self._stores.now_ms()
        same = await self._read(lambda: [self._is_same(each) for _, each in track_connection])
        for (token, visitor), is_same in zip(track_connection, same, strict=True):
            assert visitor.key is not None
            if not is_same or not is_valid(visitor.key, now_ms):
                await self._found(token)

    async def _keep_usage(self, visitors: list[Visitor]) -> None:
        """Write the usage counts of keys. Counts that cannot be written now are kept for the next
        write.
        """
        with self._usage_lock:
            sent, self._sent = self._sent, []
            for visitor in visitors:
                if (
                    visitor.key is not None
                    and visitor.found.row
                    and (counts := visitor.pop_counts())
                ):
                    self._unwritten.append((visitor.key.id, Counter(counts), visitor.used_ms))
            uses, self._unwritten = _by_key(self._unwritten), []
        if (uses or sent) and not self._stores.engine.is_read_only:
            await in_thread(lambda: self._write_usage(uses, sent))

    def _write_usage(self, uses: dict[str, tuple[Counter[str], int]], sent: list[CountUse]) -> None:
        """Write the uses of keys, first those of `sent`, which may have been counted already."""
        try:
            while uses or sent:
                if not sent:
                    key_id, (counts, used_ms) = uses.popitem()
                    sent.append(CountUse(key_id, counts, used_ms, os.urandom(16).hex()))
                answer(self._stores, sent[0])
                del sent[0]
        except RelayError as error:
            log.warning("cannot write the usage of keys; retrying later: %s", error)
        # Write in this thread, because the awaiting task may be cancelled before a write elsewhere
        # is done.
        finally:
            with self._usage_lock:
                self._unwritten += [(key_id, *use) for key_id, use in uses.items()]
                self._sent += sent

    async def _read(self, read: Callable[[], Result]) -> Result:
        """Read the ledger and return the result. A read that may block runs in a thread."""
        return await in_thread(read) if self._ledger.reads_wait else read()


def _by_key(uses: list[tuple[str, Counter[str], int]]) -> dict[str, tuple[Counter[str], int]]:
    """Merge several uses of the same key, so that each key is written once."""
    summed: dict[str, tuple[Counter[str], int]] = {}
    for key_id, counts, used_ms in uses:
        before, before_ms = summed.get(key_id, (Counter[str](), 0))
        summed[key_id] = before + counts, max(before_ms, used_ms)
    return summed


def _grants_same(known: Key | None, now: Key) -> bool:
    """Return True if both keys grant the same permissions. A token that was verified again has
    another creation date.
    """
    return known is not None and replace(known, created_at=now.created_at) == now


def token_in(headers: Headers) -> str | None:
    """Return the token of a request, without checking it; None if there is none, "" if there are
    several.
    """
    found = [value for name, value in headers if name == b"authorization"]
    if not found:
        return None
    return token_of(found[0]) if len(found) == 1 else ""


def token_of(authorization: bytes) -> str:
    """Return the bearer token or the Basic password of an Authorization header, or ""."""
    if authorization.startswith(b"Bearer "):
        return authorization[7:].strip().decode("latin-1")
    scheme, _, value = authorization.partition(b" ")
    if scheme.lower() == b"bearer":
        return value.strip().decode("latin-1")
    if scheme.lower() == b"basic":
        with suppress(ValueError):
            return b64decode(value.strip(), validate=True).partition(b":")[2].decode("latin-1")
    return ""


def address_in(scope: MutableMapping[str, Any]) -> str:
    """Return the network address of the client, or "" if it is unknown."""
    client = scope.get("client")
    return client[0] if client else ""


def unknown() -> Forbidden:
    """Return the error for a missing or invalid token."""
    return Forbidden(
        MISSING,
        "send `Authorization: Bearer TOKEN`; ask the administrator for a key (relay keys new)",
        status=401,
    )


def _too_often(what: str, wait_s: float) -> Limited:
    seconds = int(wait_s) + 1
    return Limited(what, f"retry after {seconds} s", {RETRY_AFTER: seconds})
