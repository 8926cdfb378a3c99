"""Backups: a whole store as one tar file, and back, into any engine, which is locked meanwhile.

`blobs/<name>` are the large bodies, `ledger/<number>` pages of logs, `end` what was counted: a
backup without its end is refused. Facts keep their numbers and rows their due times. The token of
the lock is a word, and random digits, so that of two who fill a store only the one that began last
writes. It is kept in the ledger, so a crash leaves it there.

Rule: a backup is taken from a view that stands still, with blobs held, while others go on writing
(where the engine has no such view, pause the writers or use the engine's own backup).
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

from contextrelay.core.artifacts.bodies import BLOB_NAME, where
from contextrelay.core.registry import answers
from contextrelay.core.schema import BODIES, RESTORE, RowKind, row_pages, walk_logs
from contextrelay.core.stores import Stores
from contextrelay.core.upgrade import finish_pushes
from contextrelay.errors import Broken, Conflict, Invalid, RelayError
from contextrelay.limits import CHUNK_BYTES, LOCK_TRUSTED_S, MIB, PAGE_ROWS_MAX
from contextrelay.model.artifact import moment
from contextrelay.model.reports import BackupReport, RestoreReport
from contextrelay.store.durable_files import spooled
from contextrelay.store.ledger import ONLY, UNLOCKED, Reads, Row, Write, lock_token
from contextrelay.verbs import Backup, Body, Restore, Stream

_PAGE_BYTES = MIB
_MEMBER_BYTES_MAX = 1024 * MIB
_TAR_BLOCK = 512


class BackupPart(Struct, frozen=True):
    """Some facts and rows of one log; `after` is the seq before its first fact."""

    log: str
    after: int
    facts: list[bytes] = []
    rows: list[Row] = []
    is_first: bool = False


class End(Struct, frozen=True):
    """The last member of a backup."""

    created_ms: int
    logs: int
    bodies: int
    body_bytes: int


# Out


@answers(Backup)
def backup(stores: Stores, verb: Backup, body: Body) -> Stream[BackupReport]:
    created_ms = stores.now_ms()
    report = BackupReport(created_at=moment(created_ms), address=stores.engine.address)
    return Stream(report, lambda chunk_bytes: _tar(stores, created_ms))


def _tar(stores: Stores, created_ms: int) -> Iterator[bytes]:
    end = End(created_ms, 0, 0, 0)
    with stores.blobs.hold(), stores.ledger.still() as view:
        for log in walk_logs(view, BODIES):
            at = where(view, log.removeprefix(BODIES))
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
    """The parts of every log, about a megabyte at a time."""
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


# In


@answers(Restore)
def restore(stores: Stores, verb: Restore, body: Body) -> RestoreReport:
    """Read the whole backup twice: to check it, and, only if all of it is right, to store it.

    From before the first write until after the last one the ledger is locked. A crash leaves it
    locked, and the next restore, or one that is abandoned, erases what this one wrote.
    """
    if verb.is_abandoned:
        return _abandon(stores)
    with spooled((body,) if isinstance(body, bytes) else body) as spool:
        end = _guarded(lambda: _read(spool, _Check()))
        token = lock_to_fill(stores, FILLING)
        with lock_token(token), stores.blobs.hold():
            try:
                clear(stores)
                _guarded(lambda: _read(spool, _Fill(stores)))
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
        created_at=moment(end.created_ms),
    )


def _abandon(stores: Stores) -> RestoreReport:
    """Erase what an unfinished restore or migration wrote, and open the store again, empty."""
    token = stores.ledger.locked_by()
    if token == UNLOCKED:
        raise Invalid(
            "no restore or migration is unfinished here", "to begin one: relay restore FILE"
        )
    created_at = moment(stores.now_ms())
    word = token.partition(b":")[0] + b":"
    if word != LOOKING:  # Else it has written nothing yet.
        token = lock_to_fill(stores, word)
        with lock_token(token):
            clear(stores)
    unlock(stores, token)
    return RestoreReport(logs=0, bodies=0, body_bytes=0, created_at=created_at)


def _guarded(act: Callable[[], End]) -> End:
    try:
        return act()
    except (tarfile.TarError, DecodeError, EOFError, ValueError, OverflowError) as error:
        raise Invalid(f"this is no whole backup: {error}", "take another backup file") from error


def _read(spool: IO[bytes], check: _Check) -> End:
    """Go through a backup from its beginning; `check` is shown every member."""
    spool.seek(0)
    with tarfile.open(fileobj=spool, mode="r|") as tar:
        for info in tar:
            content = tar.extractfile(info)
            folder, _, name = info.name.partition("/")
            if content is None or not info.isreg() or info.size > _MEMBER_BYTES_MAX:
                raise Invalid(f"{info.name[:80]!r} has no place in a backup", "check the file")
            if folder == "blobs":
                check.take_blob(name, content, info.size)
            elif folder == "ledger":
                check.take_page(codec.decode(content.read(), type=list[BackupPart]))
            elif info.name == "end":
                return check.take_end(codec.decode(content.read(), type=End))
            else:
                raise Invalid(f"{info.name[:80]!r} has no place in a backup", "check the file")
    raise Invalid("this backup was cut short", "take another backup file")


class _Check:
    """Finds out whether a backup is whole and right, and stores nothing."""

    def __init__(self) -> None:
        self._heads: dict[str, int] = {}
        self._bodies = self._body_bytes = 0

    def take_blob(self, name: str, content: IO[bytes], size_bytes: int) -> None:
        digest = hashlib.sha256()
        for chunk in _chunks(content):
            digest.update(chunk)
        if not BLOB_NAME.fullmatch(name) or digest.hexdigest() != name.partition("-")[0]:
            raise Broken(f"body {name[:12]!r} in the backup has changed", "take another backup")
        self._bodies += 1
        self._body_bytes += size_bytes

    def take_page(self, parts: list[BackupPart]) -> None:
        for part in parts:
            head = self._heads.get(part.log)
            if not part.log or part.is_first != (head is None) or part.after < 0:
                raise Invalid(f"{part.log[:40]!r} is out of order in the backup", "take another")
            if head is not None and part.after != head:
                raise Invalid(f"{part.log[:40]!r} lacks facts in the backup", "take another")
            if any(row.body is None or not row.kind or not row.key for row in part.rows):
                raise Invalid(f"{part.log[:40]!r} has a bad row in the backup", "take another")
            self._heads[part.log] = part.after + len(part.facts)

    def take_end(self, end: End) -> End:
        if (end.logs, end.bodies, end.body_bytes) != (
            len(self._heads),
            self._bodies,
            self._body_bytes,
        ):
            raise Invalid("this backup lacks a part", "take another backup file")
        moment(end.created_ms)
        return end


class _Fill(_Check):
    """Stores a backup that was checked: bodies first, then what points to them."""

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
                continue  # Of the store that was backed up; here it would keep others out.
            if part.after > ledger.last(part.log):
                ledger.trim(part.log, part.after + 1)
            ledger.commit(Write(part.log, tuple(part.facts), tuple(part.rows)))

    def take_end(self, end: End) -> End:
        return end


def _chunks(content: IO[bytes]) -> Iterator[bytes]:
    while chunk := content.read(CHUNK_BYTES):
        yield chunk


LOOKING = b"looking:"
"""It is not known yet whether the store was empty: nothing may be erased."""
FILLING = b"filling:"
"""The store was empty when it was locked: all that is in it was written by a restore."""
MIGRATING = b"migrating:"
"""The same, by a migration; a hash of where it comes from follows."""

_UNFINISHED = {
    FILLING: ("restore", "relay restore FILE"),
    MIGRATING: ("migration from another store", "relay migrate with the FROM that it began with"),
}


def migrating(source: Stores) -> bytes:
    """The word of a migration from a store: no other one is copied over what this one began."""
    home = source.engine.home
    place = source.engine.address if home is None else str(home.resolve())
    return MIGRATING + hashlib.sha256(place.encode()).hexdigest()[:16].encode() + b":"


def lock_to_fill(stores: Stores, word: bytes) -> bytes:
    """Lock the store against all others, also against one who began the same before.

    Raises:
        Conflict: it is not empty, and what is in it was not written by the same.
    """
    ledger = stores.ledger
    chance = stores.random_bytes(16).hex().encode()
    found = ledger.locked_by()
    if not found.startswith(word):
        _refuse_unfinished(stores, found)
        if found == UNLOCKED:
            _refuse_content(stores)  # A store that is in use is not locked even for a moment.
        swap_lock(stores, found, LOOKING + chance)
        found = LOOKING + chance
        try:
            _refuse_content(stores)
        except Conflict:
            unlock(stores, found)
            raise
    swap_lock(stores, found, word + chance)
    # Readers look at the lock only now and then (core/stores.py).
    time.sleep(LOCK_TRUSTED_S)
    return word + chance


def unlock(stores: Stores, token: bytes) -> None:
    swap_lock(stores, token, UNLOCKED)


def swap_lock(stores: Stores, old: bytes, new: bytes) -> None:
    if not stores.ledger.swap_lock(old, new):
        raise Conflict("another began to fill this store", "let that one finish")


def clear(stores: Stores) -> None:
    """Erase what is in a locked store; the lock, in a log of its own, stays."""
    for log in [each for each in walk_logs(stores.ledger, "") if each != RESTORE]:
        stores.ledger.drop(log, expect=stores.ledger.last(log))
    if was_cut_short_before(stores.ledger):
        stores.ledger.commit(Write(RESTORE, rows=(Row(RowKind.UNFINISHED, ONLY, None),)))


def was_cut_short_before(ledger: Reads) -> bool:
    """Whether an earlier version's restore was cut short: it left a row that kept nobody out."""
    return ledger.get(RESTORE, RowKind.UNFINISHED, ONLY) is not None


def _refuse_content(stores: Stores) -> None:
    if any(log != RESTORE for log in stores.ledger.logs("", "", 2)):
        raise Conflict(
            "the store is not empty",
            "fill a new one: relay --store ADDRESS restore FILE, relay migrate FROM ADDRESS; a "
            "migration goes on only into what --keep-locked left locked",
            place=stores.engine.address,
        )


def _refuse_unfinished(stores: Stores, found: bytes) -> None:
    for word, (name, again) in _UNFINISHED.items():
        if found.startswith(word):
            raise Conflict(
                f"a {name} into this store is not finished",
                f"finish it: {again}; or give it up: "
                f"relay --store {stores.engine.address} restore --abandon",
                place=stores.engine.address,
            )
