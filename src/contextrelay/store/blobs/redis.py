"""Blobs on Redis or Valkey, on a single server or on a cluster.

    relay:{b:<id>}       a body, a string that only grows
    relay:{b:<id>}:m     its `written_ms`, and its `name` once it is whole
    relay:blob:<name>    "<id> <size>": the pointer. Setting it is what makes a blob
    relay:{bodies:NN}    ids of bodies, an index (store/redis/index.py); an id begins with its time
    relay:{holds}        who holds, by when the hold ends; relay:{holds}:d who deletes

Rule: a body is in the index before its first byte and until its last is gone, so that `tidy` finds
every body without a pointer. Chunks are written at their offsets, so that one may be sent twice.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress

from contextrelay.errors import Broken, RelayError, Unavailable
from contextrelay.limits import CHUNK_BYTES, RETRIES_MAX
from contextrelay.store.blobs import BlobFact
from contextrelay.store.redis.client import Client, Command
from contextrelay.store.redis.index import LATE, LATE_MS, REFUSE_LATE, Index

BATCH = 256
# A hold that is not renewed ends by itself, as does the leave to delete of one who died.
HOLD_MS = 60_000
RENEW_S = HOLD_MS / 4 / 1_000
DELETE_MS = 20_000
DELETE_LATE_MS = 10_000
POLL_S = 0.02

assert DELETE_LATE_MS < DELETE_MS < HOLD_MS

NOW = """
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
"""

# KEYS: m. ARGV: the deadline.
BEGIN = f"""{REFUSE_LATE}
redis.call('HSET', KEYS[1], 'written_ms', now_ms)
return {{0}}
"""

# KEYS: body, m. ARGV: where the chunk begins, the chunk. Answers whether it is there.
APPEND = f"""{NOW}
local size, start = redis.call('STRLEN', KEYS[1]), tonumber(ARGV[1])
if redis.call('EXISTS', KEYS[2]) == 0 then return 0 end
if size == start then
  redis.call('APPEND', KEYS[1], ARGV[2])
elseif size ~= start + #ARGV[2] then
  return 0
end
redis.call('HSET', KEYS[2], 'written_ms', now_ms)
return 1
"""

# KEYS: body, m. ARGV: the size, the name. Answers whether the body is whole.
FINISH = f"""{NOW}
if redis.call('EXISTS', KEYS[2]) == 0 then return 0 end
if redis.call('STRLEN', KEYS[1]) ~= tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[2], 'written_ms', now_ms, 'name', ARGV[2])
return 1
"""

# KEYS: body, m. ARGV: delete only what was last written before then.
REAP = """
if tonumber(redis.call('HGET', KEYS[2], 'written_ms') or 0) >= tonumber(ARGV[1]) then return 0 end
redis.call('UNLINK', KEYS[1], KEYS[2])
return 1
"""

# KEYS: the pointer. ARGV: the deadline, what the pointer should be.
UNPOINT = f"""{REFUSE_LATE}
if redis.call('GET', KEYS[1]) == ARGV[2] then redis.call('DEL', KEYS[1]) end
return {{0}}
"""

# KEYS: holds, deletes. ARGV: an id, DELETE_MS. Answers the time, or 0 while anybody holds.
MAY_DELETE = f"""{NOW}
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now_ms)
if redis.call('ZCARD', KEYS[1]) > 0 then return 0 end
redis.call('ZADD', KEYS[2], now_ms + ARGV[2], ARGV[1])
return now_ms
"""

# KEYS: holds, deletes. ARGV: an id, HOLD_MS, whether it is new. Answers how many delete just now,
# or -1 where the hold had ended.
HOLD = f"""{NOW}
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now_ms)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now_ms)
if ARGV[3] == '0' and not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return -1 end
redis.call('ZADD', KEYS[1], now_ms + ARGV[2], ARGV[1])
return redis.call('ZCARD', KEYS[2])
"""


class RedisBlobs:
    """Blobs on a server that the ledger uses too. The maker of the client closes it."""

    def __init__(self, client: Client, prefix: str = "relay") -> None:
        self._client = client
        self._prefix = prefix
        self._bodies = Index(client, prefix, "bodies")
        self._hold_keys = (f"{prefix}:{{holds}}", f"{prefix}:{{holds}}:d")

    @contextmanager
    def draft(self) -> Generator[_RedisDraft]:
        identity = self._begin()
        draft = _RedisDraft(self, self._client, identity)
        try:
            yield draft
        finally:
            if not draft.kept:
                # What cannot be discarded now is found by tidy, and must not hide an error.
                with suppress(Unavailable):
                    self._discard(identity)

    def read(
        self, name: str, start: int, stop: int, chunk_bytes: int = CHUNK_BYTES
    ) -> Iterator[bytes]:
        body, size_bytes = self._find(name)
        if size_bytes < stop:
            raise Broken(f"blob {name} is too short: {size_bytes} bytes")
        for at in range(start, stop, chunk_bytes):
            end = min(at + chunk_bytes, stop)
            chunk: bytes = self._client.ask("GETRANGE", body, at, end - 1)
            if len(chunk) != end - at:
                raise Broken(f"blob {name} went away while it was read")
            yield chunk

    def stored_bytes(self, name: str) -> int:
        return self._find(name)[1]

    def _find(self, name: str) -> tuple[str, int]:
        """The key of a blob's bytes, and how many there are."""
        pointer = self._client.ask("GET", self._pointer(name))
        if pointer is None:
            raise Broken(f"blob {name} is missing")
        body = self.body_keys(_parsed(pointer)[0])[0]
        return body, int(self._client.ask("STRLEN", body))

    def delete(self, name: str) -> None:
        pointer: bytes | None = self._client.ask("GET", self._pointer(name))
        if pointer is None:
            return
        with self._leave() as began_ms:
            if began_ms:
                deadline_ms = began_ms + DELETE_LATE_MS
                words = ("EVAL", UNPOINT, 1, self._pointer(name), deadline_ms, pointer)
                # Too late means that a hold may have begun: the blob stays for the next sweep.
                if self._client.settle(*words)[0] != LATE:
                    self._discard(_parsed(pointer)[0])

    def walk(self) -> Iterator[BlobFact]:
        for batch in self._bodies.batches(b"-", b"+", BATCH):
            for identity, written_ms, name, pointer in self._seen(batch):
                if pointer is not None and _parsed(pointer)[0] == identity:
                    yield BlobFact(name, _parsed(pointer)[1], written_ms)

    def tidy(self, before_ms: int) -> int:
        removed = 0
        high = b"(" + _time_digits(before_ms).encode()
        for batch in self._bodies.batches(b"-", high, BATCH):
            seen_ms = self._client.now_ms()
            gone: list[bytes] = []
            there: set[str] = set()
            for identity, _, _, pointer in self._seen(batch):
                there.add(identity)
                if pointer is not None and _parsed(pointer)[0] == identity:
                    continue
                if self._client.ask("EVAL", REAP, 2, *self.body_keys(identity), before_ms):
                    removed += 1
                    gone.append(identity.encode())
            gone += [name for name in batch if name.decode() not in there]
            self._bodies.forget(gone, seen_ms)
        return removed

    @contextmanager
    def hold(self) -> Generator[None]:
        """Keep blobs from being deleted.

        Raises:
            Unavailable: at the end, if the hold could not be kept up all the time.
        """
        holder = os.urandom(8).hex()
        deletes = self._renew(holder, new=True)
        deadline = time.monotonic() + 2 * DELETE_MS / 1_000
        while deletes > 0 and time.monotonic() < deadline:
            time.sleep(POLL_S)
            deletes = self._renew(holder, new=False)
        if deletes != 0:
            raise Unavailable("deletes that are under way do not end", "try again in a minute")
        ended, lapsed = threading.Event(), threading.Event()
        renewer = threading.Thread(
            target=self._keep_up, args=(holder, ended, lapsed), name="relay-hold", daemon=True
        )
        renewer.start()
        try:
            yield
        finally:
            ended.set()
            renewer.join()
            self._client.ask("ZREM", self._hold_keys[0], holder)
        if lapsed.is_set():
            raise Unavailable("the hold on blobs ended early: the server did not answer", "again")

    @contextmanager
    def deleting(self) -> Generator[bool]:
        with self._leave() as began_ms:
            yield began_ms > 0

    @contextmanager
    def _leave(self) -> Generator[int]:
        """Leave to delete, given as the time from which it lasts DELETE_MS; 0 for none."""
        leave = os.urandom(8).hex()
        began_ms = int(self._client.ask("EVAL", MAY_DELETE, 2, *self._hold_keys, leave, DELETE_MS))
        try:
            yield began_ms
        finally:
            if began_ms:
                self._client.ask("ZREM", self._hold_keys[1], leave)

    def close(self) -> None:
        """Nothing to let go of: the client belongs to its maker."""

    def body_keys(self, identity: str) -> tuple[str, str]:
        key = f"{self._prefix}:{{b:{identity}}}"
        return key, f"{key}:m"

    def point(self, name: str, identity: str, size_bytes: int) -> None:
        """Make a whole body the blob of that name."""
        self._client.settle("SET", self._pointer(name), f"{identity} {size_bytes}")
        # A tidy that took this body for abandoned may have come just before the pointer.
        if not self._client.ask("EXISTS", self.body_keys(identity)[1]):
            self._client.ask("DEL", self._pointer(name))
            raise _tidied_away()

    def _begin(self) -> str:
        """Index a new body, then make it."""
        for _ in range(RETRIES_MAX):
            stamp_ms = self._client.now_ms()
            identity = _time_digits(stamp_ms) + os.urandom(8).hex()
            self._client.settle_all(self._bodies.entries([identity.encode()], stamp_ms))
            about = self.body_keys(identity)[1]
            answer = self._client.ask("EVAL", BEGIN, 1, about, stamp_ms + LATE_MS)
            if answer[0] != LATE:
                return identity
            self._client.heed_clock(answer[1])
        raise Unavailable(f"the clocks of {self._client.address} differ", "set them")

    def _discard(self, identity: str) -> None:
        seen_ms = self._client.now_ms()
        self._client.ask("UNLINK", *self.body_keys(identity))
        self._bodies.forget([identity.encode()], seen_ms)

    def _seen(self, batch: list[bytes]) -> list[tuple[str, int, str, bytes | None]]:
        """Those of a batch of bodies that are there: id, time, name, and the name's pointer."""
        identities = [name.decode() for name in batch]
        about: list[list[bytes | None]] = self._client.ask_all(
            [("HMGET", self.body_keys(name)[1], "written_ms", "name") for name in identities]
        )
        there = [
            (identity, int(written_ms), (name or b"").decode())
            for identity, (written_ms, name) in zip(identities, about, strict=True)
            if written_ms is not None
        ]
        ask: list[Command] = [("GET", self._pointer(name)) for _, _, name in there]
        pointers: list[bytes | None] = self._client.ask_all(ask)
        return [(*one, pointer) for one, pointer in zip(there, pointers, strict=True)]

    def _renew(self, holder: str, *, new: bool) -> int:
        words = ("EVAL", HOLD, 2, *self._hold_keys, holder, HOLD_MS, int(new))
        return int(self._client.ask(*words))

    def _keep_up(self, holder: str, ended: threading.Event, lapsed: threading.Event) -> None:
        while not ended.wait(RENEW_S):
            try:
                if self._renew(holder, new=False) < 0:
                    lapsed.set()
                    return
            except RelayError:
                # The next round tries again; a hold that ended meanwhile is seen then.
                continue

    def _pointer(self, name: str) -> str:
        return f"{self._prefix}:blob:{name}"


class _RedisDraft:
    def __init__(self, blobs: RedisBlobs, client: Client, identity: str) -> None:
        self.kept = False
        self._blobs = blobs
        self._client = client
        self._identity = identity
        self._size_bytes = 0
        self._waiting = bytearray()

    def write(self, chunk: bytes | memoryview) -> None:
        for start in range(0, len(chunk), CHUNK_BYTES):
            self._waiting += chunk[start : start + CHUNK_BYTES]
            if len(self._waiting) >= CHUNK_BYTES:
                self._send()

    def keep(self, name: str) -> None:
        self._send()
        keys = self._blobs.body_keys(self._identity)
        if not self._client.settle("EVAL", FINISH, 2, *keys, self._size_bytes, name):
            raise _tidied_away()
        self._blobs.point(name, self._identity, self._size_bytes)
        self.kept = True

    def _send(self) -> None:
        if not self._waiting:
            return
        keys = self._blobs.body_keys(self._identity)
        chunk = bytes(self._waiting)
        if not self._client.ask("EVAL", APPEND, 2, *keys, self._size_bytes, chunk):
            raise _tidied_away()
        self._size_bytes += len(chunk)
        self._waiting.clear()


def _tidied_away() -> Unavailable:
    return Unavailable("the draft was tidied away before it was kept", "push again")


def _parsed(pointer: bytes) -> tuple[str, int]:
    identity, _, size_bytes = pointer.decode().partition(" ")
    return identity, int(size_bytes)


def _time_digits(time_ms: int) -> str:
    return f"{time_ms:016x}"
