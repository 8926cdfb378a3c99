"""Blobs on Redis or Valkey, with the keys of their store (store/redis/ledger.py).

    {relay}:b:<id>       a body, a string that only grows
    {relay}:m:<id>       its `written_ms`, and its `name` once it is complete
    {relay}:blob:<name>  "<id> <size>": the pointer. Setting it creates the blob
    {relay}:bodies       ids of bodies, a sorted set; an id starts with its time
    {relay}:holds        holders of blobs, scored by when their hold ends
    {relay}:deletes      processes that delete from an object store, scored the same way

Rule: a body enters `bodies` with its first byte and leaves it with its last, so that `tidy` finds
every body without a pointer. Chunks are written at their offsets, so that one may be sent twice.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress

from contextrelay.errors import Broken, RelayError, Unavailable
from contextrelay.limits import CHUNK_BYTES
from contextrelay.store.blobs import BlobFact
from contextrelay.store.redis.client import Command, RedisClient

BATCH = 256
# A hold expires if it is not renewed. The mark of a delete expires too, if its process died.
HOLD_MS = 60_000
RENEW_S = HOLD_MS / 4 / 1_000
DELETE_MS = 20_000
POLL_S = 0.02

assert DELETE_MS < HOLD_MS

NOW = """
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
"""

# KEYS: m, bodies. ARGV: the id.
BEGIN = f"""{NOW}
redis.call('HSET', KEYS[1], 'written_ms', now_ms)
redis.call('ZADD', KEYS[2], 0, ARGV[1])
return 1
"""

# KEYS: body, m. ARGV: the offset of the chunk, the chunk. Returns whether it is stored.
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

# KEYS: body, m, the pointer. ARGV: the size, the name, the id. Returns whether the body was
# complete.
FINISH = f"""{NOW}
if redis.call('EXISTS', KEYS[2]) == 0 then return 0 end
if redis.call('STRLEN', KEYS[1]) ~= tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[2], 'written_ms', now_ms, 'name', ARGV[2])
redis.call('SET', KEYS[3], ARGV[3] .. ' ' .. ARGV[1])
return 1
"""

# KEYS: body, m, bodies. ARGV: the id.
DISCARD = """
redis.call('UNLINK', KEYS[1], KEYS[2])
redis.call('ZREM', KEYS[3], ARGV[1])
return 1
"""

# KEYS: body, m, bodies, the pointer of its name. ARGV: the id, a time: deletes a body without a
# pointer that was last written before. Returns whether it was deleted.
REAP = f"""
local pointer = redis.call('GET', KEYS[4])
if pointer and string.find(pointer, ARGV[1] .. ' ', 1, true) == 1 then return 0 end
if tonumber(redis.call('HGET', KEYS[2], 'written_ms') or 0) >= tonumber(ARGV[2]) then return 0 end
{DISCARD}
"""

# KEYS: body, m, bodies, the pointer, holds. ARGV: the id, the expected pointer. A held blob is left
# for the next sweep.
DELETE = f"""{NOW}
redis.call('ZREMRANGEBYSCORE', KEYS[5], '-inf', now_ms)
if redis.call('ZCARD', KEYS[5]) > 0 or redis.call('GET', KEYS[4]) ~= ARGV[2] then return 0 end
redis.call('DEL', KEYS[4])
{DISCARD}
"""

# KEYS: holds, deletes. ARGV: an id, DELETE_MS. Returns the time, or 0 while there is any hold.
MAY_DELETE = f"""{NOW}
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now_ms)
if redis.call('ZCARD', KEYS[1]) > 0 then return 0 end
redis.call('ZADD', KEYS[2], now_ms + ARGV[2], ARGV[1])
return now_ms
"""

# KEYS: holds, deletes. ARGV: an id, HOLD_MS, whether it is new. Returns the number of deletes in
# progress, or -1 if the hold had expired.
HOLD = f"""{NOW}
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now_ms)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now_ms)
if ARGV[3] == '0' and not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return -1 end
redis.call('ZADD', KEYS[1], now_ms + ARGV[2], ARGV[1])
return redis.call('ZCARD', KEYS[2])
"""


class RedisBlobs:
    """Blobs on the ledger's server. The creator of the client closes the client."""

    def __init__(self, client: RedisClient, prefix: str = "relay") -> None:
        self._client = client
        self._tag = f"{{{prefix}}}"
        self._bodies = f"{self._tag}:bodies"
        self._hold_keys = (f"{self._tag}:holds", f"{self._tag}:deletes")

    @contextmanager
    def draft(self) -> Generator[_RedisDraft]:
        identity = _time_digits(time.time_ns() // 1_000_000) + os.urandom(8).hex()
        keys = (self.body_keys(identity)[1], self._bodies)
        self._client.settle("EVAL", BEGIN, len(keys), *keys, identity)
        draft = _RedisDraft(self, self._client, identity)
        try:
            yield draft
        finally:
            if not draft.kept:
                # Ignore errors, so that they do not hide another error. `tidy` deletes a draft that
                # cannot be discarded now.
                with suppress(Unavailable):
                    keys = (*self.body_keys(identity), self._bodies)
                    self._client.settle("EVAL", DISCARD, len(keys), *keys, identity)

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
                raise Broken(f"blob {name} was deleted while it was read")
            yield chunk

    def stored_bytes(self, name: str) -> int:
        return self._find(name)[1]

    def _find(self, name: str) -> tuple[str, int]:
        """Return the key of a blob's bytes, and their number."""
        pointer = self._client.ask("GET", self.pointer(name))
        if pointer is None:
            raise Broken(f"blob {name} is missing")
        body = self.body_keys(parse_pointer(pointer)[0])[0]
        return body, int(self._client.ask("STRLEN", body))

    def delete(self, name: str) -> None:
        pointer: bytes | None = self._client.ask("GET", self.pointer(name))
        if pointer is not None:
            identity = parse_pointer(pointer)[0]
            keys = (*self.body_keys(identity), self._bodies, self.pointer(name), self._hold_keys[0])
            self._client.settle("EVAL", DELETE, len(keys), *keys, identity, pointer)

    def walk(self) -> Iterator[BlobFact]:
        for batch in self._batches(b"+"):
            yield from self.facts(batch)

    def facts(self, batch: list[bytes]) -> Iterator[BlobFact]:
        """Yield descriptions of the blobs among a batch of bodies."""
        for identity, written_ms, name, pointer in self._seen(batch):
            if pointer is not None and parse_pointer(pointer)[0] == identity:
                yield BlobFact(name, parse_pointer(pointer)[1], written_ms)

    def tidy(self, before_ms: int) -> int:
        removed = 0
        for batch in self._batches(b"(" + _time_digits(before_ms).encode()):
            for identity, _, name, pointer in self._seen(batch):
                if pointer is None or parse_pointer(pointer)[0] != identity:
                    keys = (*self.body_keys(identity), self._bodies, self.pointer(name))
                    words = ("EVAL", REAP, len(keys), *keys, identity, before_ms)
                    removed += self._client.settle(*words)
        return removed

    @contextmanager
    def hold(self) -> Generator[None]:
        """Keep blobs from being deleted during the block.

        Raises:
            Unavailable: raised after the block, if the hold was interrupted.
        """
        holder = os.urandom(8).hex()
        deletes = self._renew(holder, new=True)
        deadline = time.monotonic() + 2 * DELETE_MS / 1_000
        while deletes > 0 and time.monotonic() < deadline:
            time.sleep(POLL_S)
            deletes = self._renew(holder, new=False)
        if deletes != 0:
            raise Unavailable("deletes in progress do not finish", "try again in a minute")
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
            raise Unavailable(
                "the hold on blobs expired early: the server was unreachable", "again"
            )

    @contextmanager
    def deleting(self) -> Generator[bool]:
        leave = os.urandom(8).hex()
        may = bool(self._client.ask("EVAL", MAY_DELETE, 2, *self._hold_keys, leave, DELETE_MS))
        try:
            yield may
        finally:
            if may:
                self._client.ask("ZREM", self._hold_keys[1], leave)

    def close(self) -> None:
        """Do nothing, because the creator of the client closes it."""

    def body_keys(self, identity: str) -> tuple[str, str]:
        return f"{self._tag}:b:{identity}", f"{self._tag}:m:{identity}"

    def pointer(self, name: str) -> str:
        return f"{self._tag}:blob:{name}"

    def _batches(self, high: bytes) -> Iterator[list[bytes]]:
        low = b"-"
        while batch := self._client.ask("ZRANGEBYLEX", self._bodies, low, high, "LIMIT", 0, BATCH):
            yield batch
            low = b"(" + batch[-1]

    def _seen(self, batch: list[bytes]) -> list[tuple[str, int, str, bytes | None]]:
        """Return id, time, name and the pointer of that name for each existing body of a batch."""
        identities = [name.decode() for name in batch]
        about: list[list[bytes | None]] = self._client.ask_all(
            [("HMGET", self.body_keys(name)[1], "written_ms", "name") for name in identities]
        )
        there = [
            (identity, int(written_ms), (name or b"").decode())
            for identity, (written_ms, name) in zip(identities, about, strict=True)
            if written_ms is not None
        ]
        ask: list[Command] = [("GET", self.pointer(name)) for _, _, name in there]
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
                # The next round tries again, and detects a hold that has expired in the meantime.
                continue


class _RedisDraft:
    def __init__(self, blobs: RedisBlobs, client: RedisClient, identity: str) -> None:
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
        keys = (*self._blobs.body_keys(self._identity), self._blobs.pointer(name))
        words = ("EVAL", FINISH, len(keys), *keys, self._size_bytes, name, self._identity)
        if not self._client.settle(*words):
            raise _tidied_away()
        self.kept = True

    def _send(self) -> None:
        if not self._waiting:
            return
        keys = self._blobs.body_keys(self._identity)
        chunk = bytes(self._waiting)
        if not self._client.settle("EVAL", APPEND, 2, *keys, self._size_bytes, chunk):
            raise _tidied_away()
        self._size_bytes += len(chunk)
        self._waiting.clear()


def parse_pointer(pointer: bytes) -> tuple[str, int]:
    identity, _, size_bytes = pointer.decode().partition(" ")
    return identity, int(size_bytes)


def _tidied_away() -> Unavailable:
    return Unavailable("the draft was deleted before it was kept", "push again")


def _time_digits(time_ms: int) -> str:
    return f"{time_ms:016x}"
