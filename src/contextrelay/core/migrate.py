"""Migration: copy a store into another engine, log by log, while it is in use.

A pass walks the logs of both stores in the order of their names. Logs that only the source has are
copied, logs that both have are compared, and logs that only the target has were removed meanwhile
and are deleted. So an interrupted pass is simply repeated, and another pass copies newer changes. A
pass that changes nothing has found both equal: only then is the target unlocked.

Rule: the target is locked from before its first write, and everything in it was copied from the
source. The source is only read; its bodies are held meanwhile, so that none is deleted.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import zip_longest
from typing import TypeVar

from msgspec.structs import replace

from contextrelay.core.artifacts.bodies import location_of
from contextrelay.core.backup import lock_for_restore, migrating, unlock
from contextrelay.core.registry import answers
from contextrelay.core.schema import (
    BODIES,
    RESTORE,
    RowKind,
    walk_logs,
)
from contextrelay.core.stores import Stores
from contextrelay.core.upgrade import finish_pushes
from contextrelay.core.verify import check_store
from contextrelay.errors import Broken, Invalid
from contextrelay.limits import CHUNK_BYTES, MIB
from contextrelay.model.reports import MigrateProgress, MigrateReport, VerifyReport
from contextrelay.store.engine import open_engine
from contextrelay.store.file_errors import locked
from contextrelay.store.ledger import UNLOCKED, Fact, Reads, Row, Write, lock_token
from contextrelay.verbs import Body, Migrate

# Limits of a migration: facts or rows per read, bytes and writes gathered before a commit, passes
# until nothing changes, seconds between progress reports, threads that read logs, logs read ahead,
# and bodies copied in parallel.
MIGRATE_PAGE = 100
MIGRATE_BATCH_BYTES = MIB
MIGRATE_BATCH_WRITES = 500
MIGRATE_PASSES_MAX = 4
MIGRATE_SHOW_S = 0.5
MIGRATE_THREADS = 8
MIGRATE_AHEAD = 16
MIGRATE_BODIES = 4


Item = TypeVar("Item", str, Row)
Seen = TypeVar("Seen")
Place = tuple[str, str | None, str | None]
"""A log name, then the same name if the source has the log, or None, and the same for the target.
"""


@answers(Migrate)
def migrate_here(stores: Stores, verb: Migrate, body: Body) -> MigrateReport:
    source = Stores(open_engine(verb.source, is_source=True))
    try:
        return migrate(
            source,
            stores,
            verb.show or (lambda progress: None),
            check=check_store if verb.is_checked else None,
            stays_locked=verb.stays_locked,
        )
    finally:
        source.close()


def migrate(
    source: Stores,
    target: Stores,
    show: Callable[[MigrateProgress], None] = lambda progress: None,
    *,
    check: Callable[[Stores], VerifyReport] | None = None,
    stays_locked: bool = False,
) -> MigrateReport:
    """Copy a whole store into an empty one, or continue an interrupted copy.

    `check` is called to verify the target before it is unlocked. `stays_locked`: leave the target
    locked, because another run of the migration is to follow.

    Raises:
        Conflict: the target is not empty, and is not an unfinished migration from this source.
        Invalid: source and target are the same store.
    """
    if source.ledger.locked_by() != UNLOCKED:
        raise locked()
    token = lock_for_restore(target, migrating(source))
    if source.ledger.locked_by() == token:
        unlock(target, token)
        raise Invalid("FROM and TO are the same store", "pass another store as TO")
    with lock_token(token):
        copying = _Copying(source, target, show)
        changed = True
        while changed and copying.passes < MIGRATE_PASSES_MAX:
            changed = copying.run_pass()
        verified = None if check is None else check(target)
    is_wrong = verified is not None and verified.problem_count > 0
    is_open = not changed and not stays_locked and not is_wrong
    if is_open:
        unlock(target, token)
        finish_pushes(target)
    return replace(copying.report(), is_same=not changed, is_open=is_open, verified=verified)


class _Copying:
    """The passes of one migration run, and their counts."""

    def __init__(
        self, source: Stores, target: Stores, show: Callable[[MigrateProgress], None]
    ) -> None:
        self.passes = 0
        self._source_stores = source
        self._target_stores = target
        self._source = source.ledger
        self._target = target.ledger
        self._show = show
        self._changes = self._bodies = self._body_bytes = 0
        self._logs = self._seen_bytes = 0
        self._logs_total = sum(log != RESTORE for log in walk_logs(self._source, ""))
        self._bytes_total = sum(fact.size_bytes for fact in source.blobs.walk())
        self._began = self._shown = time.monotonic()
        self._writes: list[Write] = []
        self._written_bytes = 0
        self._pending_bodies: list[Future[tuple[int, bool]]] = []
        """Copies in progress of bodies that the gathered writes point to."""

    def report(self) -> MigrateReport:
        return MigrateReport(
            source=self._source_stores.engine.address,
            target=self._target_stores.engine.address,
            passes=self.passes,
            logs=self._logs,
            changes=self._changes,
            bodies=self._bodies,
            body_bytes=self._body_bytes,
            is_same=False,
            is_open=False,
        )

    def run_pass(self) -> bool:
        """Make the target equal to the source; return True if the target had to be changed."""
        before = self._changes
        self.passes += 1
        self._logs = self._seen_bytes = 0
        self._began = time.monotonic()
        self._show_progress()
        with (
            self._source_stores.blobs.hold(),
            ThreadPoolExecutor(MIGRATE_BODIES) as self._copiers,
            ThreadPoolExecutor(MIGRATE_THREADS) as lookers,
        ):
            try:
                self._merge(lookers)
            except BaseException:
                # Do not wait for copies of bodies that have not started.
                self._copiers.shutdown(cancel_futures=True)
                raise
        self._count()
        self._show_progress()
        return self._changes > before

    def _merge(self, lookers: ThreadPoolExecutor) -> None:
        merged = _merged(walk_logs(self._source, ""), walk_logs(self._target, ""), str)
        for (log, ours, _), seen in _ahead(lookers, self._read_pair, merged):
            if log == RESTORE:
                # Skip logs that each store has for itself: the lock, and the location of the blobs.
                continue
            if ours is None:
                self._drop(log)
            elif isinstance(seen, Write):
                self._put(seen)
            elif not seen:
                self._synchronize(log)
            self._logs += ours is not None
            self._show_if_due()
        self._flush()

    # Logs

    def _drop(self, log: str) -> None:
        self._flush()
        self._target.drop(log, expect=self._target.last(log))
        self._changes += 1

    def _read_pair(self, place: Place) -> Write | bool:
        """Return the write that copies a log, if the log is short and only the source has it.

        Otherwise return True if both copies are equal, else False. Worker threads call this ahead
        of the writer, because reading mostly waits.
        """
        log, ours, theirs = place
        if ours is None or log == RESTORE:
            return False
        return self._is_equal(log) if theirs is not None else self._short(log) or False

    def _short(self, log: str) -> Write | None:
        """Return the write that copies a short, untrimmed log; None if the log is longer."""
        facts = self._source.read(log, 0, MIGRATE_PAGE)
        if len(facts) == MIGRATE_PAGE or (facts and facts[0].seq != 1):
            return None
        if not facts and self._source.last(log):
            return None
        rows: list[Row] = []
        for kind in self._source.kinds(log):
            page = self._source.rows(log, kind, "", MIGRATE_PAGE)
            if len(page) == MIGRATE_PAGE:
                return None
            rows += page
        return Write(log, tuple(fact.body for fact in facts), tuple(rows), expect=0)

    def _is_equal(self, log: str) -> bool:
        one, other = self._source, self._target
        ours, theirs = (each.read(log, 0, MIGRATE_PAGE) for each in (one, other))
        if ours != theirs:
            return False
        if not 0 < len(ours) < MIGRATE_PAGE:
            head = one.last(log)
            if head != other.last(log) or one.read(log, head - 1, 1) != other.read(
                log, head - 1, 1
            ):
                return False
        kinds = one.kinds(log)
        return kinds == other.kinds(log) and all(
            row == there
            for kind in kinds
            for row, there in zip_longest(_rows(one, log, kind), _rows(other, log, kind))
        )

    def _synchronize(self, log: str) -> None:
        """Make the target's copy of a log equal to the log of the source."""
        if not self._synchronize_facts(log):
            self._drop(log)
            self._append(log, 0)
        kinds = {*self._source.kinds(log), *self._target.kinds(log)}
        for kind in sorted(kinds):
            ours, theirs = (_rows(each, log, kind) for each in (self._source, self._target))
            changed: list[Row] = []
            for key, row, there in _merged(ours, theirs, lambda row: row.key):
                if row != there:
                    changed.append(row or Row(kind, key, None))
                if len(changed) == MIGRATE_PAGE:
                    self._put_rows(log, changed)
                    changed = []
            self._put_rows(log, changed)

    def _synchronize_facts(self, log: str) -> bool:
        """Bring the facts of the target up to date; return False if they belong to a different log.

        A log that was dropped and created again has other facts under the same numbers.
        """
        ours = self._source.read(log, 0, MIGRATE_PAGE)
        theirs = self._target.read(log, 0, MIGRATE_PAGE)
        head = self._target.last(log)
        last_two = [self._source.read(log, head - 1, 1), self._target.read(log, head - 1, 1)]
        if head > self._source.last(log) or not (
            _are_equal(ours, theirs) and _are_equal(*last_two)
        ):
            return False
        first = ours[0].seq if ours else head + 1
        if theirs and theirs[0].seq < first:
            self._trim(log, first - 1)
            head = max(head, first - 1)
        self._append(log, head)
        return True

    def _append(self, log: str, head: int) -> None:
        """Copy the facts after a head from the source to the target."""
        last = self._source.last(log)
        while head < last and (facts := self._source.read(log, head, MIGRATE_PAGE)):
            before = facts[0].seq - 1
            if before > head:
                self._trim(log, before)
            self._put(Write(log, tuple(fact.body for fact in facts), expect=before))
            head = facts[-1].seq
        if last > head:
            self._trim(log, last)

    def _trim(self, log: str, head: int) -> None:
        """Trim a log of the target as the log of the source is trimmed."""
        self._flush()
        self._target.trim(log, head + 1)
        self._changes += 1

    # Writing

    def _put_rows(self, log: str, rows: list[Row]) -> None:
        if rows:
            self._put(Write(log, rows=tuple(rows)))

    def _put(self, write: Write) -> None:
        self._writes.append(write)
        self._changes += 1
        self._written_bytes += sum(map(len, write.facts))
        self._written_bytes += sum(100 + len(row.body or b"") for row in write.rows)
        if write.log.startswith(BODIES) and any(row.kind == RowKind.AT for row in write.rows):
            sha256 = write.log.removeprefix(BODIES)
            self._pending_bodies.append(self._copiers.submit(self._copy_body, sha256))
        if self._written_bytes >= MIGRATE_BATCH_BYTES or len(self._writes) >= MIGRATE_BATCH_WRITES:
            self._flush()

    def _flush(self) -> None:
        """Write the gathered writes, after the bodies that they point to."""
        coming, self._pending_bodies = self._pending_bodies, []
        for each in coming:
            size_bytes, is_new = each.result()
            self._seen_bytes += size_bytes
            self._bodies += is_new
            self._body_bytes += size_bytes if is_new else 0
            self._show_if_due()
        if self._writes:
            self._target.commit(*self._writes)
        self._writes, self._written_bytes = [], 0

    def _copy_body(self, sha256: str) -> tuple[int, bool]:
        """Copy a large body, unless an interrupted pass has copied it already.

        Return the size of the body in bytes, and True if it was copied.
        """
        at = location_of(self._source, sha256)
        if at is None or at.blob is None:
            return 0, False
        blobs = self._target_stores.blobs
        with suppress(Broken):
            for _ in blobs.read(at.blob, max(at.size_bytes - 1, 0), at.size_bytes):
                return at.size_bytes, False
        with blobs.draft() as draft:
            for chunk in self._source_stores.blobs.read(at.blob, 0, at.size_bytes, CHUNK_BYTES):
                draft.write(chunk)
            draft.keep(at.blob)
        return at.size_bytes, True

    def _count(self) -> None:
        """Copy the counters.

        They may differ afterwards, because others may be counting in the meantime.
        """
        for name in self._source.tallies():
            there = self._target.tally(name)
            amounts = {
                counter: amount - there.get(counter, 0)
                for counter, amount in self._source.tally(name).items()
                if amount != there.get(counter, 0)
            }
            if amounts:
                self._target.commit(Write(name, adds=tuple(amounts.items())))

    # Progress

    def _show_if_due(self) -> None:
        if time.monotonic() - self._shown > MIGRATE_SHOW_S:
            self._show_progress()

    def _show_progress(self) -> None:
        self._shown = time.monotonic()
        done = self._weight(self._logs, self._seen_bytes)
        total = self._weight(self._logs_total, self._bytes_total)
        left_s = (self._shown - self._began) * max(total - done, 0) / done if done else None
        self._show(
            MigrateProgress(
                self.passes,
                self._logs,
                max(self._logs, self._logs_total),
                self._seen_bytes,
                max(self._seen_bytes, self._bytes_total),
                left_s,
            )
        )

    def _weight(self, logs: int, body_bytes: int) -> float:
        """Return the estimated work in logs.

        Bodies count only in the first pass, because later passes skip bodies already copied.
        """
        return logs + (body_bytes / CHUNK_BYTES if self.passes == 1 else 0)


def _ahead(
    pool: ThreadPoolExecutor, look: Callable[[Place], Seen], places: Iterator[Place]
) -> Iterator[tuple[Place, Seen]]:
    """Yield places in order, each with the result of reading it; some places are read ahead."""
    begun: deque[tuple[Place, Future[Seen]]] = deque()
    for place in places:
        begun.append((place, pool.submit(look, place)))
        if len(begun) > MIGRATE_AHEAD:
            first, seen = begun.popleft()
            yield first, seen.result()
    for first, seen in begun:
        yield first, seen.result()


def _rows(ledger: Reads, log: str, kind: str) -> Iterator[Row]:
    """Yield the rows of one kind. After a page that is not full, no further page is read."""
    after, page = "", [None] * MIGRATE_PAGE
    while len(page) == MIGRATE_PAGE:
        page = ledger.rows(log, kind, after, MIGRATE_PAGE)
        yield from page
        after = page[-1].key if page else after


def _merged(
    ours: Iterator[Item], theirs: Iterator[Item], key_of: Callable[[Item], str]
) -> Iterator[tuple[str, Item | None, Item | None]]:
    """Merge two sorted iterators; yield each key with its item of either, or None."""
    one, other = next(ours, None), next(theirs, None)
    while one is not None or other is not None:
        mine = None if one is None else key_of(one)
        yours = None if other is None else key_of(other)
        key = min(each for each in (mine, yours) if each is not None)
        yield key, one if mine == key else None, other if yours == key else None
        if mine == key:
            one = next(ours, None)
        if yours == key:
            other = next(theirs, None)


def _are_equal(ours: list[Fact], theirs: list[Fact]) -> bool:
    """Return True if facts that have the same number are equal."""
    bodies = {fact.seq: fact.body for fact in ours}
    return all(bodies.get(fact.seq, fact.body) == fact.body for fact in theirs)
