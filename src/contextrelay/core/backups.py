"""Backups: a whole store as one tar file, and back, into any engine.

`blobs/<name>` are the large bodies, `ledger/<number>` pages of logs, `end` what was counted: a
backup without its end is refused. Facts keep their numbers and rows their due times.

Rule: a backup is taken from a view that stands still, with blobs held, while others go on writing
(where the engine has no such view, pause the writers or use the engine's own backup).
"""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterator
from typing import IO, cast

from msgspec import DecodeError, Struct
from msgspec import msgpack as codec
from msgspec.structs import replace

from contextrelay.core.answering import answers
from contextrelay.core.bodies import where
from contextrelay.core.stores import Stores
from contextrelay.core.verify import all_logs
from contextrelay.errors import Broken, Conflict, Invalid
from contextrelay.limits import CHUNK_BYTES, MIB, PAGE_ROWS_MAX
from contextrelay.model.artifact import moment
from contextrelay.model.reports import BackupReport, RestoreReport
from contextrelay.store.ledger import Reads, Row, Write
from contextrelay.wire.verbs import Backup, Body, Restore, Stream

_PAGE_BYTES = MIB
_MEMBER_BYTES_MAX = 1024 * MIB
_TAR_BLOCK = 512


class Part(Struct, frozen=True):
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
        for log in all_logs(view, "b/"):
            at = where(view, log.removeprefix("b/"))
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


def _pages(view: Reads) -> Iterator[list[Part]]:
    """The parts of every log, about a megabyte at a time."""
    page: list[Part] = []
    page_bytes = 0
    for log in all_logs(view, ""):
        for part in _parts(view, log):
            page.append(part)
            page_bytes += 100 + sum(map(len, part.facts))
            page_bytes += sum(100 + len(row.body or b"") for row in part.rows)
            if page_bytes >= _PAGE_BYTES:
                yield page
                page, page_bytes = [], 0
    if page:
        yield page


def _parts(view: Reads, log: str) -> Iterator[Part]:
    found = view.read(log, 0, PAGE_ROWS_MAX)
    after = found[0].seq - 1 if found else view.last(log)
    yield Part(log, after, [fact.body for fact in found], is_first=True)
    while found and (found := view.read(log, after := found[-1].seq, PAGE_ROWS_MAX)):
        yield Part(log, after, [fact.body for fact in found])
    head = view.last(log)
    for kind in view.kinds(log):
        key = ""
        while rows := view.rows(log, kind, key, 100):
            yield Part(log, head, rows=rows)
            key = rows[-1].key


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
    if stores.ledger.logs("", "", 1):
        raise Conflict(
            f"{stores.engine.address} is not empty",
            "restore into a new one: relay --store FOLDER restore FILE",
        )
    try:
        return _restored(stores, body)
    except (tarfile.TarError, DecodeError, EOFError, ValueError, OverflowError) as error:
        raise Invalid(f"this is no whole backup: {error}", "take another backup file") from error


def _restored(stores: Stores, body: Body) -> RestoreReport:
    logs = bodies = body_bytes = 0
    reader = cast("IO[bytes]", _Reader(body))
    with tarfile.open(fileobj=reader, mode="r|") as tar:
        for info in tar:
            content = tar.extractfile(info)
            folder, _, name = info.name.partition("/")
            if content is None or info.size > _MEMBER_BYTES_MAX:
                raise Invalid(f"{info.name[:80]!r} has no place in a backup", "check the file")
            if folder == "blobs":
                _restore_blob(stores, name, content)
                bodies, body_bytes = bodies + 1, body_bytes + info.size
            elif folder == "ledger":
                logs += _restore_page(stores, codec.decode(content.read(), type=list[Part]))
            elif info.name == "end":
                end = codec.decode(content.read(), type=End)
                if (end.logs, end.bodies) != (logs, bodies):
                    raise Invalid("this backup lacks a part", "take another backup file")
                return RestoreReport(
                    logs=logs,
                    bodies=bodies,
                    body_bytes=body_bytes,
                    created_at=moment(end.created_ms),
                )
    raise Invalid("this backup was cut short", "take another backup file")


def _restore_blob(stores: Stores, name: str, content: IO[bytes]) -> None:
    digest = hashlib.sha256()
    with stores.blobs.draft() as draft:
        while chunk := content.read(CHUNK_BYTES):
            digest.update(chunk)
            draft.write(chunk)
        if digest.hexdigest() != name.partition("-")[0]:
            raise Broken(f"body {name[:12]} in the backup has changed", "take another backup file")
        draft.keep(name)


def _restore_page(stores: Stores, parts: list[Part]) -> int:
    """Write parts; how many logs began with them."""
    for part in parts:
        if part.after > stores.ledger.last(part.log):
            stores.ledger.trim(part.log, part.after + 1)
    stores.ledger.commit(*(Write(part.log, tuple(part.facts), tuple(part.rows)) for part in parts))
    return sum(part.is_first for part in parts)


class _Reader:
    """Chunks as a file that tarfile can read."""

    def __init__(self, body: Body) -> None:
        self._chunks = iter((body,) if isinstance(body, bytes) else body)
        self._rest = b""

    def read(self, size: int) -> bytes:
        parts = [self._rest]
        have = len(self._rest)
        while have < size and (chunk := next(self._chunks, None)) is not None:
            parts.append(chunk)
            have += len(chunk)
        joined = b"".join(parts)
        self._rest = joined[size:]
        return joined[:size]
