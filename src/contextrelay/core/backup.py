"""Backups: write a whole store to one tar file, and restore it into any engine.

`blobs/<name>` are the large bodies, `ledger/<number>` pages of logs, `end` the counts: a backup
without its end is refused. Facts keep their numbers and rows their due times. The store is locked
during a restore. The token of the lock is a word and random digits, so that of two restores only
the one that started last writes. The lock is in the ledger, so it remains after a crash.

Rule: a backup reads a snapshot, with blobs held, while others go on writing. If the engine has no
snapshots, pause the writers or use the engine's own backup.
"""

from __future__ import annotations

import hashlib
import tarfile
import time
from collections.abc import Callable, Iterator
from typing import IO

from msgspec import DecodeError, Struct
from msgspec import msgpack as codec
from msgspec.structs import replace

from contextrelay.core.artifacts.bodies import BLOB_NAME, location_of
from contextrelay.core.registry import answers
from contextrelay.core.schema import BODIES, RESTORE, RowKind, row_pages, walk_logs
from contextrelay.core.stores import Stores
from contextrelay.core.upgrade import finish_pushes
from contextrelay.errors import Broken, Conflict, Invalid, RelayError
from contextrelay.limits import CHUNK_BYTES, LOCK_TRUSTED_S, MIB, PAGE_ROWS_MAX
from contextrelay.model.artifact import from_ms
from contextrelay.model.reports import BackupReport, RestoreReport
from contextrelay.store.durable_files import spooled
from contextrelay.store.ledger import ONLY, UNLOCKED, Reads, Row, Write, lock_token
from contextrelay.verbs import Backup, Body, Restore, Stream

_PAGE_BYTES = MIB
_MEMBER_BYTES_MAX = 1024 * MIB
_TAR_BLOCK = 512


class BackupPart(Struct, frozen=True):
    """A page of one log's facts and rows; `after` is the seq before the first fact."""

    log: str
    after: int
    facts: list[bytes] = []
    rows: list[Row] = []
    is_first: bool = False


class End(Struct, frozen=True):
    """The last member of a backup, with the counts of everything in it."""

    created_ms: int
    logs: int
    bodies: int
    body_bytes: int


# Backup


@answers(Backup)
def backup(stores: Stores, verb: Backup, body: Body) -> Stream[BackupReport]:
    created_ms = stores.now_ms()
    report = BackupReport(created_at=from_ms(created_ms), address=stores.engine.address)
    return Stream(report, lambda chunk_bytes: _tar(stores, created_ms))


def _tar(stores: Stores, created_ms: int) -> Iterator[bytes]:
    end = End(created_ms, 0, 0, 0)
    with stores.blobs.hold(), stores.ledger.snapshot() as view:
        for log in walk_logs(view, BODIES):
            at = location_of(view, log.removeprefix(BODIES))
            if at is not None and at.blob is not None:
                yield _header(f"blobs/{at.blob}", at.size_bytes)
                yield from stores.blobs.read(at.blob, 0, at.size_bytes)
                yield _padding(at.size_bytes)
                end = replace(end, bodies=end.bodies + 1, body_bytes=end.body_bytes + at.size_bytes)
        for number, parts in enumerate(_pages(view)):
            yield _member(f"ledger/{number:08d}", codec.encode(parts))
            end = replace(end, logs=end.logs + sum(part.is_first for part in parts))
    yield _member("end", codec.encode(end))
    yield bytes(2 * _TAR_BLOCK)


def _pages(view: Reads) -> Iterator[list[BackupPart]]:
    """Yield the parts of every log, about a megabyte at a time."""
    page: list[BackupPart] = []
    page_bytes = 0
    for log in walk_logs(view, ""):
        for part in _parts(view, log):
            page.append(part)
            page_bytes += 100 + sum(map(len, part.facts))
            page_bytes += sum(100 + len(row.body or b"") for row in part.rows)
            if page_bytes >= _PAGE_BYTES:
                yield page
                page, page_bytes = [], 0
    if page:
        yield page


def _parts(view: Reads, log: str) -> Iterator[BackupPart]:
    found = view.read(log, 0, PAGE_ROWS_MAX)
    after = found[0].seq - 1 if found else view.last(log)
    yield BackupPart(log, after, [fact.body for fact in found], is_first=True)
    while found and (found := view.read(log, after := found[-1].seq, PAGE_ROWS_MAX)):
        yield BackupPart(log, after, [fact.body for fact in found])
    head = view.last(log)
    for kind in view.kinds(log):
        for rows in row_pages(view, log, kind, limit=100):
            yield BackupPart(log, head, rows=rows)


def _member(name: str, content: bytes) -> bytes:
    return _header(name, len(content)) + content + _padding(len(content))


def _header(name: str, size_bytes: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = size_bytes
    info.mode = 0o600
    return info.tobuf(tarfile.PAX_FORMAT)


def _padding(size_bytes: int) -> bytes:
    return bytes(-size_bytes % _TAR_BLOCK)


# Restore


@answers(Restore)
def restore(stores: Stores, verb: Restore, body: Body) -> RestoreReport:
    """Read a whole backup twice: first to check it, then, if it is valid, to store its content.

    The ledger is locked from before the first write until after the last one. It stays locked after
    a crash; the next restore, or `restore --abandon`, erases what the interrupted restore wrote.
    """
    if verb.is_abandoned:
        return _abandon(stores)
    with spooled((body,) if isinstance(body, bytes) else body) as spool:
        end = _valid_backup(lambda: _read(spool, _BackupCheck()))
        token = lock_for_restore(stores, FILLING)
        with lock_token(token), stores.blobs.hold():
            try:
                clear(stores)
                _valid_backup(lambda: _read(spool, _BackupRestore(stores)))
            except RelayError:
                clear(stores)
                unlock(stores, token)
                raise
        unlock(stores, token)
    finish_pushes(stores)
    return RestoreReport(
        logs=end.logs,
        bodies=end.bodies,
        body_bytes=end.body_bytes,
        created_at=from_ms(end.created_ms),
    )


def _abandon(stores: Stores) -> RestoreReport:
    """Erase what an unfinished restore or migration wrote, and unlock the empty store."""
    token = stores.ledger.locked_by()
    if token == UNLOCKED:
        raise Invalid(
            "no unfinished restore or migration to abandon", "to start one: relay restore FILE"
        )
    created_at = from_ms(stores.now_ms())
    word = token.partition(b":")[0] + b":"
    if word != LOOKING:  # If the word is LOOKING, nothing has been written yet.
        token = lock_for_restore(stores, word)
        with lock_token(token):
            clear(stores)
    unlock(stores, token)
    return RestoreReport(logs=0, bodies=0, body_bytes=0, created_at=created_at)


def _valid_backup(act: Callable[[], End]) -> End:
    try:
        return act()
    except (tarfile.TarError, DecodeError, EOFError, ValueError, OverflowError) as error:
        raise Invalid(f"not a valid backup file: {error}", "use another backup file") from error


def _read(spool: IO[bytes], check: _BackupCheck) -> End:
    """Read a backup from its start and pass every member to `check`; return the last member."""
    spool.seek(0)
    with tarfile.open(fileobj=spool, mode="r|") as tar:
        for info in tar:
            content = tar.extractfile(info)
            folder, _, name = info.name.partition("/")
            if content is None or not info.isreg() or info.size > _MEMBER_BYTES_MAX:
                raise Invalid(
                    f"unexpected member in the backup: {info.name[:80]!r}", "check the file"
                )
            if folder == "blobs":
                check.take_blob(name, content, info.size)
            elif folder == "ledger":
                check.take_page(codec.decode(content.read(), type=list[BackupPart]))
            elif info.name == "end":
                return check.take_end(codec.decode(content.read(), type=End))
            else:
                raise Invalid(
                    f"unexpected member in the backup: {info.name[:80]!r}", "check the file"
                )
    raise Invalid("the backup is incomplete: its end is missing", "use another backup file")


class _BackupCheck:
    """A check that a backup is complete and valid; it stores nothing."""

    def __init__(self) -> None:
        self._heads: dict[str, int] = {}
        self._bodies = self._body_bytes = 0

    def take_blob(self, name: str, content: IO[bytes], size_bytes: int) -> None:
        digest = hashlib.sha256()
        for chunk in _chunks(content):
            digest.update(chunk)
        if not BLOB_NAME.fullmatch(name) or digest.hexdigest() != name.partition("-")[0]:
            raise Broken(
                f"body {name[:12]!r} in the backup does not match its hash",
                "use another backup file",
            )
        self._bodies += 1
        self._body_bytes += size_bytes

    def take_page(self, parts: list[BackupPart]) -> None:
        for part in parts:
            head = self._heads.get(part.log)
            if not part.log or part.is_first != (head is None) or part.after < 0:
                raise Invalid(
                    f"log {part.log[:40]!r} in the backup is out of order",
                    "use another backup file",
                )
            if head is not None and part.after != head:
                raise Invalid(
                    f"log {part.log[:40]!r} in the backup has missing facts",
                    "use another backup file",
                )
            if any(row.body is None or not row.kind or not row.key for row in part.rows):
                raise Invalid(
                    f"log {part.log[:40]!r} in the backup has an invalid row",
                    "use another backup file",
                )
            self._heads[part.log] = part.after + len(part.facts)

    def take_end(self, end: End) -> End:
        if (end.logs, end.bodies, end.body_bytes) != (
            len(self._heads),
            self._bodies,
            self._body_bytes,
        ):
            raise Invalid(
                "the backup is incomplete: its counts do not match", "use another backup file"
            )
        from_ms(end.created_ms)
        return end


class _BackupRestore(_BackupCheck):
    """The second reading of a checked backup: stores bodies first, then what points to them."""

    def __init__(self, stores: Stores) -> None:
        super().__init__()
        self._stores = stores

    def take_blob(self, name: str, content: IO[bytes], size_bytes: int) -> None:
        with self._stores.blobs.draft() as draft:
            for chunk in _chunks(content):
                draft.write(chunk)
            draft.keep(name)

    def take_page(self, parts: list[BackupPart]) -> None:
        ledger = self._stores.ledger
        for part in parts:
            if part.log == RESTORE:
                # This is a lock of the source store. If it were restored, it would lock the target.
                continue
            if part.after > ledger.last(part.log):
                ledger.trim(part.log, part.after + 1)
            ledger.commit(Write(part.log, tuple(part.facts), tuple(part.rows)))

    def take_end(self, end: End) -> End:
        return end


def _chunks(content: IO[bytes]) -> Iterator[bytes]:
    while chunk := content.read(CHUNK_BYTES):
        yield chunk


LOOKING = b"looking:"
"""The first word of a lock when it is not known yet whether the store was empty, so nothing may be
erased.
"""
FILLING = b"filling:"
"""The first word of a lock on a store that was empty when it was locked.

Everything in the store was written by a restore.
"""
MIGRATING = b"migrating:"
"""The first word of a lock for a migration into an empty store; a hash of the source follows."""

_UNFINISHED = {
    FILLING: ("restore", "relay restore FILE"),
    MIGRATING: ("migration from another store", "relay migrate with the same FROM"),
}


def migrating(source: Stores) -> bytes:
    """Return the lock word of a migration from a store.

    Only a migration from the same source can continue it.
    """
    home = source.engine.home
    place = source.engine.address if home is None else str(home.resolve())
    return MIGRATING + hashlib.sha256(place.encode()).hexdigest()[:16].encode() + b":"


def lock_for_restore(stores: Stores, word: bytes) -> bytes:
    """Lock the store against all other writers, including an earlier attempt of the same restore;
    return the token of the lock.

    Raises:
        Conflict: the store is not empty, and its content was not written by the same restore or
            migration.
    """
    ledger = stores.ledger
    chance = stores.random_bytes(16).hex().encode()
    found = ledger.locked_by()
    if not found.startswith(word):
        _refuse_unfinished(stores, found)
        if found == UNLOCKED:
            _refuse_content(stores)  # A store in use must not be locked even for a moment.
        swap_lock(stores, found, LOOKING + chance)
        found = LOOKING + chance
        try:
            _refuse_content(stores)
        except Conflict:
            unlock(stores, found)
            raise
    swap_lock(stores, found, word + chance)
    # Wait, because readers check the lock only now and then (core/stores.py).
    time.sleep(LOCK_TRUSTED_S)
    return word + chance


def unlock(stores: Stores, token: bytes) -> None:
    swap_lock(stores, token, UNLOCKED)


def swap_lock(stores: Stores, old: bytes, new: bytes) -> None:
    if not stores.ledger.swap_lock(old, new):
        raise Conflict(
            "another restore or migration into this store has started", "wait until it has finished"
        )


def clear(stores: Stores) -> None:
    """Erase the content of a locked store. The lock has a log of its own and remains."""
    for log in [each for each in walk_logs(stores.ledger, "") if each != RESTORE]:
        stores.ledger.drop(log, expect=stores.ledger.last(log))
    if has_interrupted_restore(stores.ledger):
        stores.ledger.commit(Write(RESTORE, rows=(Row(RowKind.UNFINISHED, ONLY, None),)))


def has_interrupted_restore(ledger: Reads) -> bool:
    """Return True if a restore by an earlier version, which did not lock, was interrupted."""
    return ledger.get(RESTORE, RowKind.UNFINISHED, ONLY) is not None


def _refuse_content(stores: Stores) -> None:
    if any(log != RESTORE for log in stores.ledger.logs("", "", 2)):
        raise Conflict(
            "the store is not empty",
            "use a new one: relay --store ADDRESS restore FILE, relay migrate FROM ADDRESS; a "
            "migration can only continue in a store that --keep-locked left locked",
            place=stores.engine.address,
        )


def _refuse_unfinished(stores: Stores, found: bytes) -> None:
    for word, (name, again) in _UNFINISHED.items():
        if found.startswith(word):
            raise Conflict(
                f"an earlier {name} into this store is not finished",
                f"finish it: {again}; or discard it: "
                f"relay --store {stores.engine.address} restore --abandon",
                place=stores.engine.address,
            )
