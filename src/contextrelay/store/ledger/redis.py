"""The ledger on Redis or Valkey, on a single server or on a cluster.

    relay:{<log>}:h    the head, a number
    relay:{<log>}:f    facts, a stream whose ids are <seq>-1
    relay:{<log>}:r    rows, a hash: kind NUL key -> due_ms or nothing, a colon, the body
    relay:{<log>}:k    the rows' fields in order, a sorted set
    relay:{logs:NN}    names of logs, an index (store/redis/index.py)
    relay:{due:NN}     due rows, an index: 16 hexadecimal digits, log NUL kind NUL key
    relay:{tally/<name>}   counters, a hash
    relay:hear         where the name of a log with news is published

Whether the ledger is locked is asked in each script on a single server. On a cluster the lock is on
another node: it is asked for with the index entries, and a write that comes later than LOCK_LATE_MS
after that is refused, so that locking the ledger has to wait only as long.

Rule: one script does one write, so it is whole or absent. Index entries are written before it and
checked on read. A script that writes is done once: after a lost reply (Unavailable) the caller
reads past `expect` and looks for its fact, which carries an id made by its writer.

How durable an answered write is, is the server's setting: appendonly yes, appendfsync always; and
maxmemory-policy noeviction, or the server forgets what was stored.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from hashlib import sha1

from contextrelay.errors import Invalid, Unavailable
from contextrelay.limits import RETRIES_MAX
from contextrelay.store.clocks import clock_problems
from contextrelay.store.file_errors import locked
from contextrelay.store.ledger import (
    LOCK_LOG,
    UNLOCKED,
    Fact,
    Reads,
    Row,
    Stale,
    Write,
    current_token,
)
from contextrelay.store.ledger.redis_rows import (
    DUE_DIGITS,
    LOCK_FIELD,
    due_digits,
    due_name,
    field_of,
    packed,
    refuse_nul,
    row_of,
    token_in,
    unpacked,
    with_braces,
    without_braces,
)
from contextrelay.store.ledger.redis_scripts import (
    DROP,
    GUARD,
    GUARD_MS,
    KINDS,
    LOCKED,
    ROWS,
    STALE,
    SWAP_LOCK,
    TALLY,
    TRIM,
    WRITE,
)
from contextrelay.store.redis.client import Client, Command, Word, connect
from contextrelay.store.redis.eviction import evicting
from contextrelay.store.redis.index import LATE, LATE_MS, Index
from contextrelay.store.redis.notifications import Hints

LOCK_LATE_MS = 5_000

assert LOCK_LATE_MS < LATE_MS

Script = tuple[str, list[Word], list[Word]]
"""A script with its KEYS, and those of its ARGV that are its own."""


class _RowReads:
    """What is read of one log, or of several."""

    def __init__(self, client: Client, prefix: str) -> None:
        self.client = client
        self._prefix = prefix

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
        return None if value is None else unpacked(value)[1]

    def get_each(self, logs: Sequence[str], kind: str, key: str) -> list[bytes | None]:
        field = field_of(kind, key)
        values = self.client.ask_all([("HGET", self._key(log, "r"), field) for log in logs])
        return [None if value is None else unpacked(value)[1] for value in values]

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

    def _key(self, log: str, part: str) -> str:
        return f"{self._prefix}:{{{without_braces(log)}}}:{part}"

    def _keys(self, log: str) -> list[Word]:
        start = self._key(log, "")
        return [start + part for part in "hfrk"]


class RedisLedger(_RowReads):
    """Logs and rows on Redis or Valkey."""

    reads_wait = True

    def __init__(self, server: Client | str, prefix: str = "relay") -> None:
        if "{" in prefix or "}" in prefix:
            raise Invalid(f"{prefix!r} cannot begin a key", "use a prefix without braces")
        super().__init__(connect(server) if isinstance(server, str) else server, prefix)
        self.may_lose = self.client.is_guarded or self.client.clustered
        self.bounded = self.client.bounded
        self._channel = f"{prefix}:hear"
        self._logs = Index(self.client, prefix, "logs")
        self._dues = Index(self.client, prefix, "due")
        self._listeners: set[Hints] = set()

    def logs(self, prefix: str, after: str, limit: int) -> list[str]:
        start, behind = prefix.encode(), after.encode()
        low = b"(" + behind if behind >= start else b"[" + start
        # No byte of UTF-8 is as great as 0xff.
        high = b"(" + start + b"\xff"
        found: list[str] = []
        for batch in self._logs.batches(low, high, limit) if limit > 0 else ():
            found += self._with_something(batch)
            if len(found) >= limit:
                break
        return found[:limit]

    def due(self, now_ms: int, limit: int) -> list[tuple[str, Row]]:
        found: list[tuple[str, Row]] = []
        high = b"(" + due_digits(now_ms + 1)
        for batch in self._dues.batches(b"-", high, limit) if limit > 0 else ():
            found += self._still_due(batch)
            if len(found) >= limit:
                break
        return found[:limit]

    def commit(self, *writes: Write) -> list[int]:
        with self.client.bounded():
            return self._commit(writes)

    def _commit(self, writes: Sequence[Write]) -> list[int]:
        for write in writes:
            refuse_nul(write.log, *(row.kind for row in write.rows))
        # A single server takes all writes in one trip. On a cluster each log has its own slot, so
        # the index entries of all go in one trip and then the writes one by one.
        step = 1 if self.client.clustered else max(len(writes), 1)
        stamp_ms = self._indexed(writes) if self.client.clustered else None
        heads: list[int] = []
        for start in range(0, len(writes), step):
            some = writes[start : start + step]
            state, *numbers = self._do(some, partial(self._write, some), stamp_ms)
            if state == STALE:
                raise Stale(some[len(numbers) - 1].log, numbers[-1])
            heads += numbers
        return heads

    def confirm(self, log: str) -> None:
        if self.client.waits:
            self.client.settle("SET", self._key(log, "w"), "", "PX", GUARD_MS)

    def trim(self, log: str, before: int) -> None:
        if before <= 1:
            return
        keys: list[Word] = [self._key(log, "h"), self._key(log, "f")]
        # A head alone is something, so the log goes into the index as if a fact were written.
        likewise = Write(log, facts=(b"",))
        self._do([likewise], lambda late_ms: (TRIM, keys, [late_ms, before]))

    def drop(self, log: str, expect: int) -> None:
        seen_ms = self.client.now_ms()
        keys = self._keys(log)
        _, head = self._do([Write(log)], lambda late_ms: (DROP, keys, [late_ms, expect]))
        if head != expect:
            raise Stale(log, head)
        self._logs.forget([log.encode()], seen_ms)

    def locked_by(self) -> bytes:
        return token_in(self.client.ask(*self._ask_lock()))

    def swap_lock(self, old: bytes, new: bytes) -> bool:
        key, values = self._key(LOCK_LOG, "r"), (b":" + old, b":" + new)
        if not self.client.settle("EVAL", SWAP_LOCK, 1, key, LOCK_FIELD, *values):
            return False
        if self.client.clustered and new != UNLOCKED:
            time.sleep(LOCK_LATE_MS / 1_000)
        return True

    def tally(self, name: str, amounts: Mapping[str, int]) -> dict[str, int]:
        key = f"{self._prefix}:{{tally/{without_braces(name)}}}"
        pairs = [word for pair in amounts.items() for word in pair]
        words = self._guarded(("EVAL", TALLY, 1, key, *pairs), key)
        found: list[bytes] = self.client.write([words])[0] if pairs else self.client.ask(*words)
        totals = zip(found[::2], found[1::2], strict=True)
        return {counter.decode(): int(total) for counter, total in totals}

    def tallies(self) -> Iterator[str]:
        begin = f"{self._prefix}:{{tally/"
        for key in self.client.keys(begin):
            if key.endswith("}"):
                yield with_braces(key[len(begin) : -1])

    def listen(self, hear: Callable[[str | None], None]) -> Callable[[], None]:
        hints = Hints(self.client, self._channel, hear)
        self._listeners.add(hints)
        hints.start()

        def stop() -> None:
            hints.stop()
            self._listeners -= {each for each in self._listeners if each.has_ended}

        return stop

    def still(self) -> AbstractContextManager[Reads]:
        """A live view: Redis has none that stands still."""
        return nullcontext(self)

    def patience(self) -> AbstractContextManager[None]:
        return nullcontext()

    def check(self) -> list[str]:
        """Whether a server may forget keys by itself, and its clock."""
        problems = evicting(self.client)
        self.client.learn_clock()
        return problems + clock_problems(self.client.now_ms())

    def close(self) -> None:
        """Stop listening and close the client, also for the blobs that share it."""
        while self._listeners:
            self._listeners.pop().end()
        self.client.close()

    # Writing

    def _do(
        self,
        writes: Sequence[Write],
        script: Callable[[int], Script],
        stamp_ms: int | None = None,
    ) -> list[int]:
        """Write index entries and run one script; both again where that came too late.

        On a cluster the entries are on other nodes, and come first; else the script writes them.
        """
        late_ms = LOCK_LATE_MS if self.client.clustered else LATE_MS
        for _ in range(RETRIES_MAX):
            places: list[Word] = []
            if self.client.clustered:
                stamp_ms = stamp_ms or self._indexed(writes)
            else:
                stamp_ms = self.client.now_ms()
                logs, dues = _names(writes)
                places = self._logs.places(logs) + self._dues.places(dues)
            command = self._command(*script(stamp_ms + late_ms), places, stamp_ms)
            answer = self.client.write([command])[0]
            if answer[0] == LOCKED:
                raise locked()
            if answer[0] != LATE:
                return answer
            self.client.heed_clock(answer[1])
            stamp_ms = None
        raise Unavailable(
            f"the clocks of the store's server differ by more than {late_ms} ms",
            "set the clocks of its nodes",
            place=self.client.address,
        )

    def _indexed(self, writes: Sequence[Write]) -> int:
        stamp_ms = self.client.now_ms()
        logs, dues = _names(writes)
        entries = self._logs.entries(logs, stamp_ms) + self._dues.entries(dues, stamp_ms)
        if self.client.is_guarded:
            self.client.settle_all(entries)
            entries = []
        *_, value = self.client.ask_all([*entries, self._ask_lock()])
        if token_in(value) != current_token():
            raise locked()
        return stamp_ms

    def _write(self, writes: Sequence[Write], late_ms: int) -> Script:
        keys: list[Word] = []
        args: list[Word] = [late_ms, self._channel, len(writes)]
        for write in writes:
            keys += self._keys(write.log)
            expect = "" if write.expect is None else write.expect
            after = sha1(write.after).hexdigest() if write.after and self.may_lose else ""
            args += [write.log, expect, after, len(write.facts), len(write.rows), *write.facts]
            for row in write.rows:
                args += [field_of(row.kind, row.key), packed(row)]
        return WRITE, keys, args

    def _command(
        self, lua: str, keys: list[Word], args: list[Word], places: list[Word], stamp_ms: int
    ) -> Command:
        """A script that is refused where another has locked the ledger."""
        args = [*args, *places, stamp_ms, len(places) // 2]
        if self.client.clustered:
            return self._guarded(("EVAL", lua, len(keys), *keys, *args, "", ""), keys[0])
        locked = (self._key(LOCK_LOG, "r"), *args, LOCK_FIELD, b":" + current_token())
        return self._guarded(("EVAL", lua, len(keys) + 1, *keys, *locked), keys[0])

    def _guarded(self, command: Command, key: Word) -> Command:
        """A script that may be sent again, where the client does that."""
        if not self.client.is_guarded:
            return command
        _, lua, count, *words = command
        return ("EVAL", GUARD % lua, int(count) + 1, f"{key}:{os.urandom(12).hex()}", *words)

    def _ask_lock(self) -> Command:
        return ("HGET", self._key(LOCK_LOG, "r"), LOCK_FIELD)

    # Reading through an index

    def _with_something(self, names: Iterable[bytes]) -> list[str]:
        seen_ms = self.client.now_ms()
        logs = [name.decode() for name in names]
        there: list[int] = self.client.ask_all(
            [("EXISTS", self._key(log, part)) for log in logs for part in "hr"]
        )
        has = [head or rows for head, rows in zip(there[::2], there[1::2], strict=True)]
        empty = [log.encode() for log, something in zip(logs, has, strict=True) if not something]
        self._logs.forget(empty, seen_ms)
        return [log for log, something in zip(logs, has, strict=True) if something]

    def _still_due(self, names: Iterable[bytes]) -> list[tuple[str, Row]]:
        seen_ms = self.client.now_ms()
        entries = [(name, *name[DUE_DIGITS:].split(b"\0", 1)) for name in names]
        values: list[bytes | None] = self.client.ask_all(
            [("HGET", self._key(log.decode(), "r"), field) for _, log, field in entries]
        )
        found: list[tuple[str, Row]] = []
        stale: list[bytes] = []
        for (name, log, field), value in zip(entries, values, strict=True):
            row = None if value is None else row_of(field, value)
            if (
                row is not None
                and row.due_ms is not None
                and name.startswith(due_digits(row.due_ms))
            ):
                found.append((log.decode(), row))
            else:
                stale.append(name)
        self._dues.forget(stale, seen_ms)
        return found


def _names(writes: Sequence[Write]) -> tuple[dict[bytes, None], dict[bytes, None]]:
    """What an index has to have before writes are done: logs, and rows that are due."""
    logs: dict[bytes, None] = {}
    dues: dict[bytes, None] = {}
    for write in writes:
        if write.facts or any(row.body is not None for row in write.rows):
            logs[write.log.encode()] = None
        for row in write.rows:
            if row.body is not None and row.due_ms is not None:
                dues[due_name(write.log, row)] = None
    return logs, dues
