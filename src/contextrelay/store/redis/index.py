"""An index in Redis: names in order, that stand for things kept elsewhere on the cluster.

A cluster has no transaction over two slots, so an entry is written before its thing, and a reader
checks. What a reader finds without its thing may be forgotten, but not while somebody who has
written the entry is still on the way to write the thing:

    writer   entry with stamp S ............ thing at W, refused where W > S + LATE_MS
    reader            looks at C: no thing ............ forgets where stamp < C - FORGET_MS

Rule: stamps only grow, so an entry is forgotten only if every writer who wrote it was done, or was
refused, before C. This holds while clocks agree to FORGET_MS - LATE_MS, and needs no lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from zlib import crc32

from contextrelay.store.redis.client import Client, Command, Word

SHARDS = 16
LATE_MS = 300_000
FORGET_MS = 600_000
SHARD_PAGE_MIN = 8

assert LATE_MS < FORGET_MS

# KEYS: names, stamps. ARGV: the newest stamp to forget, then names. An entry without a stamp, as a
# fail-over may leave it, gets one, so that it can be forgotten another time.
FORGET = """
for i = 2, #ARGV do
  local stamp = redis.call('ZSCORE', KEYS[2], ARGV[i])
  if not stamp then
    redis.call('ZADD', KEYS[2], ARGV[1], ARGV[i])
  elseif tonumber(stamp) < tonumber(ARGV[1]) then
    redis.call('ZREM', KEYS[1], ARGV[i])
    redis.call('ZREM', KEYS[2], ARGV[i])
  end
end
"""

# To put at the head of a script that writes a thing: refuses what comes later than ARGV[1].
REFUSE_LATE = """
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
if now_ms > tonumber(ARGV[1]) then return {-1, now_ms} end
"""
LATE = -1


class Index:
    """Names in byte order, spread over shards."""

    def __init__(self, client: Client, prefix: str, noun: str) -> None:
        self._client = client
        self._shards = [f"{prefix}:{{{noun}:{number:02}}}" for number in range(SHARDS)]

    def entries(self, names: Iterable[bytes], stamp_ms: int) -> list[Command]:
        """Commands that write entries; each may be repeated."""
        commands: list[Command] = []
        for shard, members in self._by_shard(names).items():
            stamps = [word for member in members for word in (stamp_ms, member)]
            zeros = [word for member in members for word in (0, member)]
            # The stamp goes first: a name without a fresh stamp could be forgotten at once.
            commands.append(("ZADD", f"{shard}:t", "GT", *stamps))
            commands.append(("ZADD", shard, *zeros))
        return commands

    def places(self, names: Iterable[bytes]) -> list[Word]:
        """The shard of each name, and the name: what a script takes that writes entries itself."""
        return [word for name in names for word in (self._shard(name), name)]

    def batches(self, low: bytes, high: bytes, size: int) -> Iterator[list[bytes]]:
        """Names between two ZRANGEBYLEX bounds, in order, in batches of about `size`."""
        page_max = max(SHARD_PAGE_MIN, 2 * size // SHARDS)
        while True:
            pages: list[list[bytes]] = self._client.ask_all(
                [("ZRANGEBYLEX", shard, low, high, "LIMIT", 0, page_max) for shard in self._shards]
            )
            # A full page may have more behind it: only names up to the first such end are complete.
            ends = [page[-1] for page in pages if len(page) == page_max]
            names = sorted(name for page in pages for name in page)
            if not ends:
                yield names
                return
            end = min(ends)
            yield [name for name in names if name <= end]
            low = b"(" + end

    def forget(self, names: Iterable[bytes], seen_ms: int) -> None:
        """Forget entries whose things were not there when looked for after `seen_ms`."""
        self._client.ask_all(
            [
                ("EVAL", FORGET, 2, shard, f"{shard}:t", seen_ms - FORGET_MS, *members)
                for shard, members in self._by_shard(names).items()
            ]
        )

    def _by_shard(self, names: Iterable[bytes]) -> dict[str, list[bytes]]:
        shards: dict[str, list[bytes]] = {}
        for name in names:
            shards.setdefault(self._shard(name), []).append(name)
        return shards

    def _shard(self, name: bytes) -> str:
        return self._shards[crc32(name) % SHARDS]
