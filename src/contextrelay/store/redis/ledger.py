"""The ledger on Redis or Valkey: a server, the master behind sentinels, or one shard of a cluster.

    {relay}:h:<log>      the head, a number
    {relay}:f:<log>      facts, a stream whose ids are <seq>-1
    {relay}:r:<log>      rows, a hash: kind NUL key -> due_ms or nothing, a colon, the body
    {relay}:k:<log>      the rows' fields in order, a sorted set
    {relay}:logs         names of logs, a sorted set
    {relay}:due          due rows, a sorted set: log NUL kind NUL key, scored by due_ms
    {relay}:tally:<name> counters, a hash; {relay}:tallies has their names
    {relay}:done:<id>    the result of a commit or a drop, for COMMIT_ID_KEPT_S
    {relay}:hear         the channel on which the names of changed logs are published
    relay:schema         the layout of the store (SCHEMA)

The braces put these keys, except the last one, into one hash slot of a cluster. So a commit is one
script, and a store lives on one shard; several stores (?prefix=NAME) spread over a cluster.

Rule: a script decides before it writes, so it writes all or nothing, and every script that must not
run twice stores its answer under `done`. So the client may send any of them again.

The durability of an acknowledged write depends on the server: set appendonly yes, appendfsync
always, and maxmemory-policy noeviction, or the server may delete stored data.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from hashlib import sha1
from itertools import chain

from contextrelay.errors import Invalid, Unavailable
from contextrelay.store.clocks import clock_problems
from contextrelay.store.file_errors import locked
from contextrelay.store.ledger import (
    COMMIT_ID_KEPT_S,
    LOCK_KIND,
    LOCK_LOG,
    ONLY,
    UNLOCKED,
    Fact,
    Reads,
    Row,
    Stale,
    Write,
    current_token,
)
from contextrelay.store.redis.client import RedisClient, Word, connect
from contextrelay.store.redis.notifications import RedisListener

SCHEMA = b"2"
"""The value of relay:schema, which has no braces because earlier versions look for it there, and
which is no part of a commit. Layout 1 spread the keys of a store over the slots of a cluster."""

DONE, STALE, LOCKED, GIVEN_UP = 0, 1, 2, 3
"""The possible first items of a script's answer."""

_KEPT_MS = COMMIT_ID_KEPT_S * 1_000

# The start of a script that must not run twice. KEYS[1] is its `done`. An answer that is repeated
# is written again, because WAIT counts only the writes of its own connection. If the server is out
# of memory, only a script that adds nothing runs, and that script may run twice.
ONCE = f"""
local before = redis.call('GET', KEYS[1])
if before then
  redis.pcall('SET', KEYS[1], before, 'PX', {_KEPT_MS})
  return cjson.decode(before)
end
local function remember(answer, adds)
  local call = adds and redis.call or redis.pcall
  call('SET', KEYS[1], cjson.encode(answer), 'PX', {_KEPT_MS})
  return answer
end
"""

# KEYS[2] contains the lock. ARGV[1] is the field of the lock, ARGV[2] its value for the caller's
# token.
REFUSE_LOCKED = f"""
if (redis.call('HGET', KEYS[2], ARGV[1]) or ':') ~= ARGV[2] then return {{{LOCKED}}} end
"""

# KEYS: done, lock, logs, due, the names of tallies; then h f r k and the tally of each log. ARGV:
# the lock's field and value, the channel, '1' if anything is added, the number of writes; then for
# each write: the place of its h in KEYS, its log, expect or '', the SHA-1 of its newest fact or '',
# total_max or '', the numbers of facts, rows and counters, the facts, field, due_ms or '', and
# value of each row, where a value of '' deletes, and name and amount of each counter. It unpacks
# nothing of foreign length: Lua's stack ends near 8,000 values.
COMMIT = f"""{ONCE}{REFUSE_LOCKED}
local at = 5
local function arg() at = at + 1 return ARGV[at] end
local heads, writes, added, answer = {{}}, {{}}, {{}}, {{{DONE}}}
for i = 1, tonumber(ARGV[5]) do
  local key, log, expect, after, total_max = tonumber(arg()), arg(), arg(), arg(), arg()
  local facts, rows, adds = tonumber(arg()), tonumber(arg()), tonumber(arg())
  local head = heads[key]
  local newest
  if not head then
    head = tonumber(redis.call('GET', KEYS[key]) or 0)
    newest = after ~= '' and redis.call('XREVRANGE', KEYS[key + 1], '+', '-', 'COUNT', 1)[1]
  end
  local is_other = newest and redis.sha1hex(newest[2][2]) ~= after
  if is_other or expect ~= '' and tonumber(expect) ~= head then return {{{STALE}, i, head}} end
  writes[i] = {{key, log, facts, rows, head, at, adds}}
  heads[key] = head + facts
  answer[i + 1] = head + facts
  at = at + facts + 3 * rows
  for _ = 1, adds do
    local counter, amount = arg(), tonumber(arg())
    local place = key .. ' ' .. counter
    added[place] = (added[place] or 0) + amount
    if total_max ~= '' and amount > 0 then
      local total = tonumber(redis.call('HGET', KEYS[key + 4], counter) or 0)
      if total + added[place] > tonumber(total_max) then return {{{STALE}, i, head}} end
    end
  end
end
remember(answer, ARGV[4] == '1')
for _, write in ipairs(writes) do
  local key, log, facts, rows, head = write[1], write[2], write[3], write[4], write[5]
  local h, f, r, k = KEYS[key], KEYS[key + 1], KEYS[key + 2], KEYS[key + 3]
  at = write[6]
  for n = 1, facts do
    redis.call('XADD', f, string.format('%d-1', head + n), 'b', arg())
  end
  for _ = 1, rows do
    local field, due, value = arg(), arg(), arg()
    local member = log .. '\\0' .. field
    if value == '' then
      if redis.call('HDEL', r, field) == 1 then
        redis.call('ZREM', k, field)
        redis.call('ZREM', KEYS[4], member)
      end
    else
      local is_new = redis.call('HSET', r, field, value) == 1
      if is_new then redis.call('ZADD', k, 0, field) end
      if due ~= '' then
        redis.call('ZADD', KEYS[4], due, member)
      elseif not is_new then
        redis.call('ZREM', KEYS[4], member)
      end
    end
  end
  for _ = 1, write[7] do
    redis.call('HINCRBY', KEYS[key + 4], arg(), arg())
    redis.call('SADD', KEYS[5], log)
  end
  if facts > 0 then
    redis.call('SET', h, string.format('%d', head + facts))
    redis.call('PUBLISH', ARGV[3], log)
  end
  if head == 0 then
    if facts > 0 or redis.call('EXISTS', r) == 1 then
      redis.call('ZADD', KEYS[3], 0, log)
    else
      redis.call('ZREM', KEYS[3], log)
    end
  end
end
return answer
"""

# KEYS: done. Returns the result of a commit. If the commit has not arrived yet, it is withdrawn.
SETTLE = f"""{ONCE}
return remember({{{GIVEN_UP}}}, true)
"""

# KEYS: any, lock, logs, h, f. ARGV: the lock's field and value, the log, the first seq to keep.
TRIM = f"""{REFUSE_LOCKED}
local before = tonumber(ARGV[4])
redis.call('XTRIM', KEYS[5], 'MINID', '=', string.format('%d-0', before))
if tonumber(redis.call('GET', KEYS[4]) or 0) < before - 1 then
  redis.call('SET', KEYS[4], string.format('%d', before - 1))
  redis.call('ZADD', KEYS[3], 0, ARGV[3])
end
return {{{DONE}}}
"""

# KEYS: done, lock, logs, due, h, f, r, k. ARGV: the lock's field and value, the log, expect.
DROP = f"""{ONCE}{REFUSE_LOCKED}
local head = tonumber(redis.call('GET', KEYS[5]) or 0)
if head ~= tonumber(ARGV[4]) then return {{{STALE}, head}} end
for _, field in ipairs(redis.call('ZRANGE', KEYS[8], 0, -1)) do
  redis.call('ZREM', KEYS[4], ARGV[3] .. '\\0' .. field)
end
redis.call('UNLINK', KEYS[5], KEYS[6], KEYS[7], KEYS[8])
redis.call('ZREM', KEYS[3], ARGV[3])
return remember({{{DONE}}}, false)
"""

# KEYS: r of the log with the lock. ARGV: the field of the lock, the expected value, the new value.
# Returns 1 if the lock has the new value, also if the script was sent twice; the value is then
# written again.
SWAP_LOCK = """
local value = redis.call('HGET', KEYS[1], ARGV[1]) or ':'
if value ~= ARGV[2] and value ~= ARGV[3] then return 0 end
if ARGV[3] == ':' then
  redis.call('HDEL', KEYS[1], ARGV[1])
  redis.call('ZREM', KEYS[2], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
  redis.call('ZADD', KEYS[2], 0, ARGV[1])
end
if redis.call('EXISTS', KEYS[1], KEYS[3]) > 0 then
  redis.call('ZADD', KEYS[4], 0, ARGV[4])
else
  redis.call('ZREM', KEYS[4], ARGV[4])
end
return 1
"""

# KEYS: r k. ARGV: two bounds, a limit. Returns field, value, field, value ...
ROWS = """
local fields = redis.call('ZRANGEBYLEX', KEYS[2], ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[3])
local answer = {}
for _, field in ipairs(fields) do
  answer[#answer + 1] = field
  answer[#answer + 1] = redis.call('HGET', KEYS[1], field)
end
return answer
"""

# KEYS: k. Seeks from the first field of a kind to the first field of the next kind: NUL is the
# lowest byte.
KINDS = """
local answer, low = {}, '-'
while true do
  local field = redis.call('ZRANGEBYLEX', KEYS[1], low, '+', 'LIMIT', 0, 1)[1]
  if not field then return answer end
  local kind = string.sub(field, 1, string.find(field, '%z') - 1)
  answer[#answer + 1] = kind
  low = '[' .. kind .. string.char(1)
end
"""


class RowReads:
    """Reads of one or several logs, for the current layout and the old one."""

    def __init__(self, client: RedisClient) -> None:
        self.client = client

    def last(self, log: str) -> int:
        return int(self.client.ask("GET", self._key(log, "h")) or 0)

    def read(self, log: str, after: int, limit: int) -> list[Fact]:
        if limit <= 0:
            return []
        start = f"{max(after, 0) + 1}-0"
        found = self.client.ask("XRANGE", self._key(log, "f"), start, "+", "COUNT", limit)
        return [Fact(int(name.partition(b"-")[0]), fields[b"b"]) for name, fields in found]

    def get(self, log: str, kind: str, key: str) -> bytes | None:
        value = self.client.ask("HGET", self._key(log, "r"), field_of(kind, key))
        return None if value is None else _unpacked(value)[1]

    def get_each(self, logs: Sequence[str], kind: str, key: str) -> list[bytes | None]:
        field = field_of(kind, key)
        values = self.client.ask_all([("HGET", self._key(log, "r"), field) for log in logs])
        return [None if value is None else _unpacked(value)[1] for value in values]

    def rows(self, log: str, kind: str, after: str, limit: int) -> list[Row]:
        if limit <= 0:
            return []
        low, high = b"(" + field_of(kind, after), b"(" + kind.encode() + b"\x01"
        keys = (self._key(log, "r"), self._key(log, "k"))
        found: list[bytes] = self.client.ask("EVAL", ROWS, 2, *keys, low, high, limit)
        pairs = zip(found[::2], found[1::2], strict=True)
        return [row_of(field, value) for field, value in pairs]

    def kinds(self, log: str) -> list[str]:
        found: list[bytes] = self.client.ask("EVAL", KINDS, 1, self._key(log, "k"))
        return [kind.decode() for kind in found]

    def locked_by(self) -> bytes:
        return self.get(LOCK_LOG, LOCK_KIND, ONLY) or UNLOCKED

    def _key(self, log: str, part: str) -> str:
        raise NotImplementedError


class RedisLedger(RowReads):
    """Logs and rows on Redis or Valkey."""

    reads_wait = True

    def __init__(self, server: RedisClient | str, prefix: str = "relay") -> None:
        if "{" in prefix or "}" in prefix or not prefix:
            raise Invalid(f"invalid prefix {prefix!r}", "use a prefix without braces")
        super().__init__(connect(server) if isinstance(server, str) else server)
        self.may_lose = self.client.is_guarded or self.client.clustered
        self.failover_deadline = self.client.failover_deadline
        self._tag = f"{{{prefix}}}"
        self._channel = f"{self._tag}:hear"
        self._logs, self._dues = f"{self._tag}:logs", f"{self._tag}:due"
        self._listeners: set[RedisListener] = set()

    def logs(self, prefix: str, after: str, limit: int) -> list[str]:
        if limit <= 0:
            return []
        start, behind = prefix.encode(), after.encode()
        low = b"(" + behind if behind >= start else b"[" + start
        # All names sort before this, because no byte of UTF-8 is as high as 0xff.
        high = b"(" + start + b"\xff"
        found = self.client.ask("ZRANGEBYLEX", self._logs, low, high, "LIMIT", 0, limit)
        return [name.decode() for name in found]

    def due(self, now_ms: int, limit: int) -> list[tuple[str, Row]]:
        if limit <= 0:
            return []
        words = ("ZRANGEBYSCORE", self._dues, "-inf", now_ms, "LIMIT", 0, limit)
        places = [member.split(b"\0", 1) for member in self.client.ask(*words)]
        values: list[bytes | None] = self.client.ask_all(
            [("HGET", self._key(log.decode(), "r"), field) for log, field in places]
        )
        # A row may have been rewritten between the two reads, so check its time again.
        found = (
            (log.decode(), row_of(field, value))
            for (log, field), value in zip(places, values, strict=True)
            if value is not None
        )
        return [(log, row) for log, row in found if row.due_ms is not None and row.due_ms <= now_ms]

    def commit(self, *writes: Write, id: bytes = b"") -> list[int]:
        if not writes:
            return []
        keys: list[Word] = [self._done(id), self._key(LOCK_LOG, "r"), self._logs, self._dues]
        keys.append(f"{self._tag}:tallies")
        places: dict[str, int] = {}
        args: list[Word] = []
        adds = False
        for write in writes:
            _refuse_nul(write.log, *(row.kind for row in write.rows))
            if write.log not in places:
                places[write.log] = len(keys) + 1
                keys += (self._key(write.log, part) for part in (*"hfrk", "tally"))
            expect = "" if write.expect is None else write.expect
            after = sha1(write.after).hexdigest() if write.after and self.may_lose else ""
            total_max = "" if write.total_max is None else write.total_max
            counts = (len(write.facts), len(write.rows), len(write.adds))
            args += [places[write.log], write.log, expect, after, total_max, *counts, *write.facts]
            for row in write.rows:
                due = "" if row.due_ms is None or row.body is None else row.due_ms
                args += [field_of(row.kind, row.key), due, _packed(row)]
            args += chain.from_iterable(write.adds)
            adds = adds or bool(write.facts or write.adds)
            adds = adds or any(row.body is not None for row in write.rows)
        head = [*self._token(), self._channel, "1" if adds else "", len(writes)]
        state, *numbers = self._settle(COMMIT, keys, [*head, *args])
        if state == STALE:
            raise Stale(writes[numbers[0] - 1].log, numbers[1])
        if state == GIVEN_UP:
            raise Unavailable("the write was withdrawn before it arrived", "try again")
        return numbers

    def applied(self, id: bytes) -> list[int] | None:
        state, *heads = self._settle(SETTLE, [self._done(id)], [])
        return heads if state == DONE else None

    def confirm(self, log: str) -> None:
        if self.client.waits:
            self.client.settle("SET", f"{self._tag}:confirm", "", "PX", _KEPT_MS)

    def trim(self, log: str, before: int) -> None:
        if before <= 1:
            return
        lock = self._key(LOCK_LOG, "r")
        keys: list[Word] = [lock, lock, self._logs, self._key(log, "h"), self._key(log, "f")]
        self._settle(TRIM, keys, [*self._token(), log, before])

    def drop(self, log: str, expect: int) -> None:
        keys: list[Word] = [self._done(), self._key(LOCK_LOG, "r"), self._logs, self._dues]
        keys += (self._key(log, part) for part in "hfrk")
        state, *head = self._settle(DROP, keys, [*self._token(), log, expect])
        if state == STALE:
            raise Stale(log, head[0])

    def swap_lock(self, old: bytes, new: bytes) -> bool:
        keys = (*(self._key(LOCK_LOG, part) for part in "rkh"), self._logs)
        values = (LOCK_FIELD, b":" + old, b":" + new, LOCK_LOG)
        return bool(self.client.settle("EVAL", SWAP_LOCK, len(keys), *keys, *values))

    def tally(self, name: str) -> dict[str, int]:
        totals = self.client.ask("HGETALL", self._key(name, "tally"))
        return {counter.decode(): int(total) for counter, total in totals.items()}

    def tallies(self) -> Iterator[str]:
        return (name.decode() for name in self.client.ask("SMEMBERS", f"{self._tag}:tallies"))

    def listen(self, callback: Callable[[str | None], None]) -> Callable[[], None]:
        hints = RedisListener(self.client, self._channel, callback)
        self._listeners.add(hints)
        hints.start()

        def stop() -> None:
            hints.stop()
            self._listeners -= {each for each in self._listeners if each.has_ended}

        return stop

    def snapshot(self) -> AbstractContextManager[Reads]:
        """Return a live view, because Redis has no snapshots."""
        return nullcontext(self)

    def contention_lock(self) -> AbstractContextManager[None]:
        return nullcontext()

    def check(self) -> list[str]:
        """Return warnings about eviction, and problems with the server's clock."""
        return eviction_warnings(self.client) + clock_problems(self.client.server_ms())

    def close(self) -> None:
        """Stop listening and close the client, which the blobs share."""
        while self._listeners:
            self._listeners.pop().end()
        self.client.close()

    def _settle(self, script: str, keys: Sequence[Word], args: Sequence[Word]) -> list[int]:
        answer: list[int] = self.client.settle("EVAL", script, len(keys), *keys, *args)
        if answer[0] == LOCKED:
            raise locked()
        return answer

    def _key(self, log: str, part: str) -> str:
        return f"{self._tag}:{part}:{log}"

    def _done(self, id: bytes = b"") -> str:
        return f"{self._tag}:done:{(id or os.urandom(16)).hex()}"

    def _token(self) -> tuple[Word, Word]:
        return LOCK_FIELD, b":" + current_token()


def field_of(kind: str, key: str) -> bytes:
    return f"{kind}\0{key}".encode()


LOCK_FIELD = field_of(LOCK_KIND, ONLY)


def row_of(field: bytes, value: bytes) -> Row:
    kind, _, key = field.partition(b"\0")
    due_ms, body = _unpacked(value)
    return Row(kind.decode(), key.decode(), body, due_ms)


def _packed(row: Row) -> bytes:
    if row.body is None:
        return b""
    return b":" + row.body if row.due_ms is None else b"%d:%b" % (row.due_ms, row.body)


def _unpacked(value: bytes) -> tuple[int | None, bytes]:
    due, _, body = value.partition(b":")
    return (int(due) if due else None), body


def _refuse_nul(*names: str) -> None:
    for name in names:
        if not name or "\0" in name:
            raise Invalid(
                f"invalid name {name!r}", "use a name that is not empty and contains no NUL"
            )


_NEXT = "set it with CONFIG SET maxmemory-policy noeviction"


# Eviction: whether a server deletes stored data when its memory is full


def eviction_warnings(client: RedisClient) -> list[str]:
    """Return warnings about a server that may delete keys now, each with the next step."""
    return [
        f"the store's server may delete stored data: maxmemory-policy is {policy}; {_NEXT}"
        for policy in _policies(client, limited=True)
    ]


def later_eviction_warnings(client: RedisClient) -> list[str]:
    """Return warnings about a server that would delete keys as soon as a maxmemory is set."""
    return [
        "the store's server would delete stored data once it has a maxmemory: "
        f"maxmemory-policy is {policy}; {_NEXT}"
        for policy in _policies(client, limited=False)
    ]


def _policies(client: RedisClient, *, limited: bool) -> list[str]:
    """Return the policies that delete keys of a store.

    Keys with a TTL do not count: they only guard a write (GUARD).
    """
    found = client.ask("INFO", "memory")
    nodes = [found] if "maxmemory" in found else list(found.values())
    bad = ("allkeys", "volatile") if client.is_guarded else "allkeys"
    said = {
        node.get("maxmemory_policy", "") for node in nodes if bool(node["maxmemory"]) is limited
    }
    return sorted(policy for policy in said if policy.startswith(bad))
