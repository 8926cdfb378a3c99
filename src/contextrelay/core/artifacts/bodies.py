"""Bodies: content stored once under its hash, as long as a ref holds it.

The log `b/<sha256>` has a row `at` (where the bytes are), a row `body` (the bytes of a small body),
and a row `hold` for each ref. Holds are a set, not a counter, because adding one twice does no
harm. The head moves only when `at` changes; adding a hold expects the head but does not move it.
The first push of a small body does not move it either: all concurrent pushes of it write the same
rows, expecting head 0. So any number of pushes of the same content can run at once, and freeing
cannot race one:

    free     condemn (head + 1); look for holds again; delete `at` (head + 1); delete the blob
    push     a hold that expected the head before the condemnation fails, and is tried again
    another  a push that finds the body condemned lifts that (head + 1), and the freeing fails

Rule: a blob is deleted only after winning a compare-and-set on its log. A pointer to a blob needs a
compare-and-set that expects a head read before the blob was written. No blob name is used twice.
This needs no clock; a grace period only keeps a sweep from disturbing a push under way.

A long body is stored as consecutive parts (docs/decisions/0024-parts.md). Each part is a body with
a hold of the long one, under a name that is used for one attempt only, like the name of a blob. So
a sweep can remove a hold that a crash left.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct
from msgspec.json import Decoder, Encoder
from msgspec.structs import replace

from contextrelay.core.schema import UNREADABLE, RowKind, body_log, walk_rows
from contextrelay.core.stores import Stores, commit_each
from contextrelay.errors import Broken
from contextrelay.limits import (
    CHUNK_BYTES,
    RETRIES_MAX,
    ROW_BODY_BYTES_MAX,
    TOMBSTONE_S,
)
from contextrelay.model.artifact import Artifact
from contextrelay.store.blobs import Blobs
from contextrelay.store.ledger import ONLY, Reads, Row, Stale, Write

BLOB_NAME = re.compile(r"[0-9a-f]{64}-[0-9a-f]{16}")


class BodyPart(Struct, frozen=True, array_like=True):
    """A body that is a piece of a longer one."""

    sha256: str
    size_bytes: int


class BodyLocation(Struct, frozen=True, omit_defaults=True):
    """The place where the bytes of a body are: a blob, the row `body` of the same log, or parts."""

    size_bytes: int
    blob: str | None = None
    is_condemned: bool = False
    parts: tuple[BodyPart, ...] = ()
    held_as: str | None = None
    """The name under which a body in parts holds its parts."""

    @property
    def own_bytes(self) -> int:
        """Return the number of bytes stored for this body alone.

        Parts are excluded: they are bodies, and counted there.
        """
        return 0 if self.parts else self.size_bytes


_encoder = Encoder()
_decoder = Decoder(BodyLocation)


def location_of(ledger: Reads, sha256: str) -> BodyLocation | None:
    row = ledger.get(body_log(sha256), RowKind.AT, ONLY)
    try:
        return None if row is None else _decoder.decode(row)
    except UNREADABLE as error:
        raise _body_error(sha256, f"cannot read where its bytes are: {error}") from error


def outline_key(stores: Stores, artifact: Artifact) -> str:
    """Return the key of a row `looked`: everything that the outline depends on, and the tenant.

    The key also contains the id of a limited key. Otherwise a limited key could tell that another
    key has inspected the same content.
    """
    _, dot, ending = (artifact.name or "").rpartition(".")
    ending = ending[-_ENDING_CHARS_MAX:].lower() if dot else ""
    key = f"{artifact.type} {artifact.media_type} .{ending}"
    if stores.caller is not None and stores.caller.key.is_limited:
        key = f"{stores.caller.key.id}|{key}"
    return key if stores.tenant is None else f"{stores.tenant}|{key}"


_ENDING_CHARS_MAX = 16


def hold_row(ref: str) -> Row:
    return Row(RowKind.HOLD, ref, b"")


def hold_existing(stores: Stores, sha256: str, holder: str) -> Write:
    """Return the write that adds a hold to a stored body."""
    log = body_log(sha256)
    head = stores.ledger.last(log)
    at = location_of(stores.ledger, sha256)
    if at is None:
        raise _body_error(sha256, "its bytes are missing")
    return hold_write(log, head, at, [holder])


def hold_write(log: str, head: int, at: BodyLocation, holders: list[str]) -> Write:
    """Return the write that adds holds to a body, and makes a condemned body valid again."""
    holds = tuple(map(hold_row, holders))
    if not at.is_condemned:
        return Write(log, rows=holds, expect=head)
    lifted = replace(at, is_condemned=False)
    return Write(log, (b"",), (at_row(lifted), *holds), expect=head)


def new_name(stores: Stores, sha256: str) -> str:
    """Return a unique name for a blob of a body, or for holds on its parts.

    Each name is used for one attempt only.
    """
    return f"{sha256}-{stores.random_bytes(8).hex()}"


# Reading bodies


def opener(
    stores: Stores, sha256: str, size_bytes: int, start: int, stop: int
) -> Callable[[int], Iterator[bytes]]:
    """Return a function that yields the bytes start:stop of a body, in chunks of the size that is
    passed.

    Raises (while reading):
        Broken: the bytes are missing or, for a complete body, do not match their hash. The error is
            never raised after the last chunk.
    """
    warm = stores.body_cache.get(sha256)
    if warm is not None and len(warm) == size_bytes:
        return lambda chunk_bytes: iter((warm[start:stop],))
    return lambda chunk_bytes: _chunks(stores, sha256, size_bytes, start, stop, chunk_bytes)


def read_body(
    stores: Stores, artifact: Artifact, start: int = 0, stop: int | None = None
) -> Iterator[bytes]:
    """Yield the bytes of an artifact, or only start:stop, in chunks; raise as `opener` does."""
    size_bytes = artifact.size_bytes
    stop = size_bytes if stop is None else stop
    return opener(stores, artifact.sha256, size_bytes, start, stop)(CHUNK_BYTES)


def _chunks(
    stores: Stores, sha256: str, size_bytes: int, start: int, stop: int, chunk_bytes: int
) -> Iterator[bytes]:
    # Most bodies are small, so read the row with the bytes first, and the location only if that row
    # is missing.
    row = (
        stores.ledger.get(body_log(sha256), RowKind.BODY, ONLY)
        if stop <= ROW_BODY_BYTES_MAX
        else None
    )
    if row is not None:
        _check_size(sha256, len(row), size_bytes)
        stores.body_cache.keep(sha256, _row_checked(row, sha256))
        yield row[start:stop]
        return
    at = location_of(stores.ledger, sha256)
    if at is None:
        raise _body_error(sha256, "its bytes are missing")
    _check_size(sha256, at.size_bytes, size_bytes)
    chunks = _unchecked(stores.ledger, stores.blobs, sha256, at, start, stop, chunk_bytes)
    name = at.blob or at.held_as or ""
    if stop - start < at.size_bytes or stores.body_cache.is_checked(name):
        yield from chunks
        return
    for chunk in _checked(chunks, sha256):
        if len(chunk) == at.size_bytes:
            stores.body_cache.keep(sha256, chunk)
        yield chunk
    stores.body_cache.check_off(name)


def _check_size(sha256: str, size_bytes: int, described_bytes: int) -> None:
    if size_bytes != described_bytes:
        raise _body_error(sha256, f"it has {size_bytes} bytes, expected {described_bytes}")


def checked_chunks(view: Reads, blobs: Blobs, sha256: str) -> Iterator[bytes]:
    """Yield the chunks of a whole body in a view of the ledger, checked against its hash."""
    at = location_of(view, sha256)
    if at is None:
        raise _body_error(sha256, "its bytes are missing")
    _check_size(sha256, _stored_bytes(view, blobs, sha256, at), at.size_bytes)
    yield from _checked(_unchecked(view, blobs, sha256, at, 0, at.size_bytes, CHUNK_BYTES), sha256)


def _stored_bytes(view: Reads, blobs: Blobs, sha256: str, at: BodyLocation) -> int:
    """Return the number of bytes stored.

    Callers compare it with the expected size, because reading does not notice appended bytes.
    """
    if at.blob is not None:
        return blobs.stored_bytes(at.blob)
    if at.parts:
        # Each part is a body of its own, and is checked as one.
        return sum(part.size_bytes for part in at.parts)
    return len(view.get(body_log(sha256), RowKind.BODY, ONLY) or b"")


def _unchecked(
    view: Reads,
    blobs: Blobs,
    sha256: str,
    at: BodyLocation,
    start: int,
    stop: int,
    chunk_bytes: int,
) -> Iterator[bytes]:
    """Yield the bytes start:stop of a body without comparing them with the hash."""
    if at.blob is not None:
        yield from blobs.read(at.blob, start, stop, chunk_bytes)
        return
    if not at.parts:
        row = view.get(body_log(sha256), RowKind.BODY, ONLY)
        if row is None:
            raise _body_error(sha256, "its bytes are missing")
        yield row[start:stop]
        return
    needed: list[tuple[BodyPart, BodyLocation, int, int]] = []
    begin = 0
    for part in at.parts:
        first, last = max(start - begin, 0), min(stop - begin, part.size_bytes)
        if first < last:
            inner = location_of(view, part.sha256)
            if (
                inner is None
                or inner.parts
                or _stored_bytes(view, blobs, part.sha256, inner) < last
            ):
                raise _body_error(sha256, f"its part {part.sha256[:12]} is missing")
            needed.append((part, inner, first, last))
        begin += part.size_bytes
    for part, inner, first, last in needed:
        yield from _unchecked(view, blobs, part.sha256, inner, first, last, chunk_bytes)


def _row_checked(body: bytes, sha256: str) -> bytes:
    if hashlib.sha256(body).hexdigest() != sha256:
        raise _body_error(sha256, "its bytes have changed")
    return body


def _checked(chunks: Iterator[bytes], sha256: str) -> Iterator[bytes]:
    """Yield chunks one step late, so that the last chunk is sent only if the hash matches."""
    digest = hashlib.sha256()
    behind = b""
    for chunk in chunks:
        if behind:
            yield behind
        digest.update(chunk)
        behind = chunk
    if digest.hexdigest() != sha256:
        raise _body_error(sha256, "its bytes have changed")
    yield behind


def _body_error(sha256: str, why: str) -> Broken:
    return Broken(f"body {sha256[:12]}: {why}", "check the store: relay verify")


# Freeing


def release_write(stores: Stores, sha256: str, ref: str, *, frees: bool) -> tuple[Write, bool]:
    """Return the write that removes the hold of a ref, and whether others hold the body.

    `frees`: if no other ref holds the body, condemn it in the same write. The write is then stale
    if the body was stored again in the meantime.
    """
    log = body_log(sha256)
    gone = Row(RowKind.HOLD, ref, None)
    head = stores.ledger.last(log)
    at = None
    with suppress(Broken):
        at = location_of(stores.ledger, sha256)
    is_shared = any(row.key != ref for row in stores.ledger.rows(log, RowKind.HOLD, "", 2))
    if at is None or at.is_condemned or is_shared or not frees:
        return Write(log, rows=(gone,)), is_shared
    condemned = at_row(replace(at, is_condemned=True))
    return Write(log, (b"",), (gone, condemned), expect=head), is_shared


def release(stores: Stores, holds: list[tuple[str, str]]) -> list[int]:
    """Remove holds, given as (sha256, ref); return the sizes of the bodies freed."""
    rows = ((sha256, Row(RowKind.HOLD, ref, None)) for sha256, ref in holds)
    stores.ledger.commit(*(Write(body_log(sha256), rows=(row,)) for sha256, row in rows))
    return list(free_each(stores, dict.fromkeys((sha256 for sha256, _ in holds), ())).values())


def free_each(stores: Stores, bodies: Mapping[str, Sequence[Write]]) -> dict[str, int]:
    """Free those of some bodies that have no holds; return their sizes in bytes by hash.

    Writes given with a body are committed together with its end. A body whose location cannot be
    read is left to `verify`. If a write is stale, the body is examined again. Its head may have
    been moved by a push, which holds the body, or by another sweep that frees the body. The other
    sweep then leaves the rest to this one.
    """
    freed: dict[str, int] = {}
    parts: set[str] = set()
    left = dict(bodies)
    for _ in range(RETRIES_MAX):
        if not (unheld := _condemned(stores, left)):
            break
        groups = [[*_end_writes(stores, *each), *left[each[0]]] for each in unheld]
        for (sha256, at, _), is_done in zip(
            unheld, commit_each(stores.ledger, groups), strict=True
        ):
            if is_done:
                if at.blob is not None:
                    stores.blobs.delete(at.blob)
                freed[sha256] = at.own_bytes
                parts |= {part.sha256 for part in at.parts}
                del left[sha256]
    if parts:
        freed |= free_each(stores, dict.fromkeys(parts, ()))
    return freed


def _condemned(stores: Stores, bodies: Iterable[str]) -> list[tuple[str, BodyLocation, int]]:
    """Condemn the bodies that have no holds; return the hash, location and head of each."""
    found: list[tuple[str, BodyLocation, int]] = []
    groups: list[list[Write]] = []
    for sha256 in bodies:
        log = body_log(sha256)
        head = stores.ledger.last(log)
        at = None
        with suppress(Broken):
            at = location_of(stores.ledger, sha256)
        if at is None or _is_held(stores, log):
            continue
        found.append((sha256, at, head))
        condemned = at_row(replace(at, is_condemned=True))
        fresh = Write(log, (b"",), (condemned,), expect=head)
        groups.append([] if at.is_condemned else [fresh])
    condemned_now = commit_each(stores.ledger, groups)
    return [
        (sha256, at, head + len(group))
        for (sha256, at, head), group, is_done in zip(found, groups, condemned_now, strict=True)
        # If a hold existed before the condemnation, the condemnation remains: a push lifts it, and
        # removing the last hold finds it. Lifting it here would make that removal stale.
        if is_done and not _is_held(stores, body_log(sha256))
    ]


def _end_writes(stores: Stores, sha256: str, at: BodyLocation, head: int) -> list[Write]:
    """Return the writes that delete a condemned body and its holds on its parts."""
    log = body_log(sha256)
    # The cached outline quotes the content, and is deleted with it.
    looked = walk_rows(stores.ledger, log, RowKind.LOOKED)
    quotes = (Row(RowKind.LOOKED, row.key, None) for row in looked)
    gone = Row(RowKind.AT, ONLY, None), Row(RowKind.BODY, ONLY, None), _freed_row(stores)
    # In the same commit, so that a crash leaves no parts held by a body that is gone.
    hold = Row(RowKind.HOLD, at.held_as or "", None)
    parts = sorted({part.sha256 for part in at.parts})
    releases = (Write(body_log(part), rows=(hold,)) for part in parts)
    return [Write(log, (b"",), (*gone, *quotes), expect=head), *releases]


def free_leftover(stores: Stores, blob: str) -> bool:
    """Delete a blob if no body points to it; return True if the blob was deleted."""
    is_one = _invalidate_name(stores, blob)
    if is_one:
        stores.blobs.delete(blob)
    return is_one


def release_leftovers(stores: Stores, sha256: str) -> int:
    """Remove holds by longer bodies that do not exist; return the number of holds removed."""
    holds = walk_rows(stores.ledger, body_log(sha256), RowKind.HOLD)
    names = [
        row.key
        for row in holds
        if BLOB_NAME.fullmatch(row.key) and _invalidate_name(stores, row.key)
    ]
    stores.ledger.commit(
        *(Write(body_log(sha256), rows=(Row(RowKind.HOLD, name, None),)) for name in names)
    )
    return len(names)


def is_in_parts(view: Reads, sha256: str) -> bool:
    at = location_of(view, sha256)
    return at is not None and bool(at.parts)


def is_held_by_body(view: Reads, name: str) -> bool:
    """Return True if a body in parts exists whose holds have this name."""
    at = location_of(view, name.partition("-")[0])
    return at is not None and at.held_as == name


def _invalidate_name(stores: Stores, name: str) -> bool:
    """Win a compare-and-set on the log of a body whose `at` lacks a name, so that `at` never gets
    that name.

    Return False if `at` has the name, or if another writer was faster.
    """
    sha256 = name.partition("-")[0]
    log = body_log(sha256)
    head = stores.ledger.last(log)
    at = location_of(stores.ledger, sha256)
    if at is not None and name in (at.blob, at.held_as):
        return False
    try:
        rows = () if at is not None else (_freed_row(stores),)
        stores.ledger.commit(Write(log, (b"",), rows, expect=head))
    except Stale:
        return False
    return True


def forget(stores: Stores, log: str) -> None:
    """Drop the log of a body that was freed long ago."""
    head = stores.ledger.last(log)
    if stores.ledger.get(log, RowKind.AT, ONLY) is None and not _is_held(stores, log):
        try:
            stores.ledger.drop(log, expect=head)
        except Stale:
            return  # The body is in use again.


def _is_held(stores: Stores, log: str) -> bool:
    return bool(stores.ledger.rows(log, RowKind.HOLD, "", 1))


def at_row(at: BodyLocation) -> Row:
    return Row(RowKind.AT, ONLY, _encoder.encode(at))


def _freed_row(stores: Stores) -> Row:
    """Return the row that drops the log once no push can have read its head."""
    return Row(RowKind.FREED, ONLY, b"", stores.now_ms() + TOMBSTONE_S * 1000)
