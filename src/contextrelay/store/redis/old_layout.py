"""Layout 1 of a store on Redis, read only: the source of `relay migrate`.

relay:{<log>}:h, :f, :r, :k   as in store/redis/ledger.py, each log in its own slot
relay:{logs:NN}               names of logs, in 16 shards; some may no longer exist
relay:{tally/<name>}          counters
relay:{b:<id>}, relay:{b:<id>}:m, relay:blob:<name>, relay:{bodies:NN}   blobs
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from heapq import merge

from contextrelay.errors import Invalid
from contextrelay.limits import CHUNK_BYTES
from contextrelay.store.blobs import BlobDraft, BlobFact
from contextrelay.store.ledger import Reads, Row, Write
from contextrelay.store.redis.blobs import RedisBlobs
from contextrelay.store.redis.client import RedisClient
from contextrelay.store.redis.ledger import RowReads

SHARDS = 16
PAGE = 500


def has_old_layout(client: RedisClient, prefix: str) -> bool:
    """Return True if a store of layout 1 uses a prefix."""
    shards = _shards(prefix, "logs") + _shards(prefix, "bodies")
    return any(client.ask_all([("EXISTS", shard) for shard in shards]))


class OldLayoutLedger(RowReads):
    """The logs of a store of layout 1, which nobody may write to while they are read."""

    reads_wait = True
    may_lose = False

    def __init__(self, client: RedisClient, prefix: str) -> None:
        super().__init__(client)
        self.failover_deadline = client.failover_deadline
        self._prefix = prefix

    def logs(self, prefix: str, after: str, limit: int) -> list[str]:
        start, behind = prefix.encode(), after.encode()
        low = b"(" + behind if behind >= start else b"[" + start
        found: list[str] = []
        for name in _members(
            self.client, _shards(self._prefix, "logs"), low, b"(" + start + b"\xff"
        ):
            log = name.decode()
            if len(found) >= limit:
                break
            if any(self.client.ask_all([("EXISTS", self._key(log, part)) for part in "hr"])):
                found.append(log)
        return found

    def due(self, now_ms: int, limit: int) -> list[tuple[str, Row]]:
        return []

    def tally(self, name: str) -> dict[str, int]:
        found = self.client.ask("HGETALL", f"{self._prefix}:{{tally/{_without_braces(name)}}}")
        return {counter.decode(): int(total) for counter, total in found.items()}

    def tallies(self) -> Iterator[str]:
        begin = f"{self._prefix}:{{tally/"
        for key in self.client.keys(begin):
            yield key[len(begin) : -1].replace("%7B", "{").replace("%7D", "}").replace("%25", "%")

    def snapshot(self) -> AbstractContextManager[Reads]:
        return nullcontext(self)

    def contention_lock(self) -> AbstractContextManager[None]:
        return nullcontext()

    def check(self) -> list[str]:
        return []

    def confirm(self, log: str) -> None:
        """Do nothing, because nothing was written."""

    def close(self) -> None:
        self.client.close()

    def commit(self, *writes: Write, id: bytes = b"") -> list[int]:
        raise _is_old()

    def applied(self, id: bytes) -> list[int] | None:
        raise _is_old()

    def trim(self, log: str, before: int) -> None:
        raise _is_old()

    def drop(self, log: str, expect: int) -> None:
        raise _is_old()

    def swap_lock(self, old: bytes, new: bytes) -> bool:
        raise _is_old()

    def listen(self, callback: Callable[[str | None], None]) -> Callable[[], None]:
        raise _is_old()

    def _key(self, log: str, part: str) -> str:
        return f"{self._prefix}:{{{_without_braces(log)}}}:{part}"


class OldLayoutBlobs:
    """The blobs of a store of layout 1."""

    def __init__(self, client: RedisClient, prefix: str) -> None:
        self._client = client
        self._prefix = prefix
        self._read = _OldBodies(client, prefix)

    def draft(self) -> AbstractContextManager[BlobDraft]:
        raise _is_old()

    def delete(self, name: str) -> None:
        raise _is_old()

    def tidy(self, before_ms: int) -> int:
        return 0

    def hold(self) -> AbstractContextManager[None]:
        return nullcontext()

    def deleting(self) -> AbstractContextManager[bool]:
        return nullcontext(False)

    def walk(self) -> Iterator[BlobFact]:
        for member in _members(self._client, _shards(self._prefix, "bodies"), b"-", b"+"):
            yield from self._read.facts([member])

    def read(
        self, name: str, start: int, stop: int, chunk_bytes: int = CHUNK_BYTES
    ) -> Iterator[bytes]:
        return self._read.read(name, start, stop, chunk_bytes)

    def stored_bytes(self, name: str) -> int:
        return self._read.stored_bytes(name)

    def close(self) -> None:
        """Do nothing, because the ledger closes the client."""


class _OldBodies(RedisBlobs):
    """Blobs under the keys that layout 1 used for bodies."""

    def __init__(self, client: RedisClient, prefix: str) -> None:
        super().__init__(client, prefix)
        self._prefix = prefix

    def body_keys(self, identity: str) -> tuple[str, str]:
        key = f"{self._prefix}:{{b:{identity}}}"
        return key, f"{key}:m"

    def pointer(self, name: str) -> str:
        return f"{self._prefix}:blob:{name}"


def _shards(prefix: str, noun: str) -> list[str]:
    return [f"{prefix}:{{{noun}:{number:02}}}" for number in range(SHARDS)]


def _members(client: RedisClient, shards: list[str], low: bytes, high: bytes) -> Iterator[bytes]:
    """Yield the names in all shards between two bounds, in order."""

    def members(shard: str) -> Iterator[bytes]:
        start = low
        while page := client.ask("ZRANGEBYLEX", shard, start, high, "LIMIT", 0, PAGE):
            yield from page
            start = b"(" + page[-1]

    return merge(*map(members, shards))


def _without_braces(name: str) -> str:
    return name.replace("%", "%25").replace("{", "%7B").replace("}", "%7D")


def _is_old() -> Invalid:
    return Invalid(
        "a store of layout 1 can only be read", "write to the store that it is migrated to"
    )
