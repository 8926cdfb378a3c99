"""Bodies: content kept once under its hash, for as long as a ref holds it.

The log `b/<sha256>` has a row `at` (where the bytes are), maybe a row `body` (the bytes of a small
one), and a row `hold` for each ref: a set, not a counter, because adding twice does no harm. Its
head moves only when `at` changes; a hold is added with `expect`, and does not move it. Nor does the
first push of a small body: all who push it write the same rows, expecting the head 0. So any
number of pushes of the same content go on side by side, and freeing cannot race one:

    free     condemn (head + 1); look for holds once more; delete `at` (head + 1); delete the blob
    push     a hold that expected the head before the condemnation fails, and looks again
    another  one that finds it condemned lifts that (head + 1), and the freeing fails

Rule: nobody deletes a blob before winning a compare-and-set on its log, nobody points to a blob
without winning one begun before the blob was written, and no blob name is used twice. This needs
no clock; a grace period only keeps a sweep from disturbing a push under way.

A long body is stored as consecutive parts (docs/decisions/0024-parts.md). Each part is a body of
its own, with a hold of the long one: under a name that is used for one attempt alone, as that of a
blob is, so that a sweep can take a hold away which a crash left.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import suppress

from msgspec import Struct
from msgspec.json import Decoder, Encoder
from msgspec.structs import replace

from contextrelay.core.schema import UNREADABLE, RowKind, body_log, walk_rows
from contextrelay.core.stores import Stores
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


class At(Struct, frozen=True, omit_defaults=True):
    """Where the bytes of a body are: in a blob, in the row `body` of the same log, or in parts."""

    size_bytes: int
    blob: str | None = None
    is_condemned: bool = False
    parts: tuple[BodyPart, ...] = ()
    held_as: str | None = None
    """The name of the holds that a body in parts has on them."""

    @property
    def own_bytes(self) -> int:
        """What is stored for this body alone: parts are bodies of their own."""
        return 0 if self.parts else self.size_bytes


_encoder = Encoder()
_decoder = Decoder(At)


def where(ledger: Reads, sha256: str) -> At | None:
    row = ledger.get(body_log(sha256), RowKind.AT, ONLY)
    try:
        return None if row is None else _decoder.decode(row)
    except UNREADABLE as error:
        raise _lost(sha256, f"where its bytes are cannot be read: {error}") from error


def looked_key(stores: Stores, artifact: Artifact) -> str:
    """What a row `looked` is called: by all that it depends on, and for each tenant by itself.

    Also for each limited key: else one could see by it that another has looked into the same
    content.
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


def held_again(stores: Stores, sha256: str, holder: str) -> Write:
    """The write that holds a body which is kept."""
    log = body_log(sha256)
    head = stores.ledger.last(log)
    at = where(stores.ledger, sha256)
    if at is None:
        raise _lost(sha256, "its bytes are missing")
    return hold_write(log, head, at, [holder])


def hold_write(log: str, head: int, at: At, holders: list[str]) -> Write:
    """The write that adds holds to a body; it lifts a condemnation."""
    holds = tuple(map(hold_row, holders))
    if not at.is_condemned:
        return Write(log, rows=holds, expect=head)
    lifted = replace(at, is_condemned=False)
    return Write(log, (b"",), (at_row(lifted), *holds), expect=head)


def new_name(stores: Stores, sha256: str) -> str:
    """A name for a blob of a body, or for its holds: it is used for one attempt alone."""
    return f"{sha256}-{stores.random_bytes(8).hex()}"


# Giving a body out


def opener(
    stores: Stores, sha256: str, size_bytes: int, start: int, stop: int
) -> Callable[[int], Iterator[bytes]]:
    """What opens the bytes start:stop of a body of a size, in chunks of a size then given.

    Raises (when read):
        Broken: the bytes are missing or, where it is the complete body, not those that were
            stored; never after the last chunk.
    """
    warm = stores.warm.get(sha256)
    if warm is not None and len(warm) == size_bytes:
        return lambda chunk_bytes: iter((warm[start:stop],))
    return lambda chunk_bytes: _chunks(stores, sha256, size_bytes, start, stop, chunk_bytes)


def read_body(
    stores: Stores, artifact: Artifact, start: int = 0, stop: int | None = None
) -> Iterator[bytes]:
    """The bytes of an artifact, or start:stop of them, in chunks; raises as `opener` does."""
    size_bytes = artifact.size_bytes
    stop = size_bytes if stop is None else stop
    return opener(stores, artifact.sha256, size_bytes, start, stop)(CHUNK_BYTES)


def _chunks(
    stores: Stores, sha256: str, size_bytes: int, start: int, stop: int, chunk_bytes: int
) -> Iterator[bytes]:
    # Most bodies are small: their bytes are asked for first, and where they are only after that.
    row = (
        stores.ledger.get(body_log(sha256), RowKind.BODY, ONLY)
        if stop <= ROW_BODY_BYTES_MAX
        else None
    )
    if row is not None:
        _check_size(sha256, len(row), size_bytes)
        stores.warm.keep(sha256, _row_checked(row, sha256))
        yield row[start:stop]
        return
    at = where(stores.ledger, sha256)
    if at is None:
        raise _lost(sha256, "its bytes are missing")
    _check_size(sha256, at.size_bytes, size_bytes)
    chunks = _unchecked(stores.ledger, stores.blobs, sha256, at, start, stop, chunk_bytes)
    name = at.blob or at.held_as or ""
    if stop - start < at.size_bytes or stores.warm.is_checked(name):
        yield from chunks
        return
    for chunk in _checked(chunks, sha256):
        if len(chunk) == at.size_bytes:
            stores.warm.keep(sha256, chunk)
        yield chunk
    stores.warm.check_off(name)


def _check_size(sha256: str, size_bytes: int, described_bytes: int) -> None:
    if size_bytes != described_bytes:
        raise _lost(sha256, f"it has {size_bytes} bytes; its description says {described_bytes}")


def chunks_in(view: Reads, blobs: Blobs, sha256: str) -> Iterator[bytes]:
    """Yield a whole body as a view of the ledger sees it, always checked by its hash."""
    at = where(view, sha256)
    if at is None:
        raise _lost(sha256, "its bytes are missing")
    _check_size(sha256, _stored_bytes(view, blobs, sha256, at), at.size_bytes)
    yield from _checked(_unchecked(view, blobs, sha256, at, 0, at.size_bytes, CHUNK_BYTES), sha256)


def _stored_bytes(view: Reads, blobs: Blobs, sha256: str, at: At) -> int:
    """Count the bytes that are stored of a body; bytes that were appended are never read."""
    if at.blob is not None:
        return blobs.stored_bytes(at.blob)
    if at.parts:
        return sum(part.size_bytes for part in at.parts)  # Each is a body, and checked as one.
    return len(view.get(body_log(sha256), RowKind.BODY, ONLY) or b"")


def _unchecked(
    view: Reads, blobs: Blobs, sha256: str, at: At, start: int, stop: int, chunk_bytes: int
) -> Iterator[bytes]:
    """Yield the bytes start:stop of a body as they are found."""
    if at.blob is not None:
        yield from blobs.read(at.blob, start, stop, chunk_bytes)
        return
    if not at.parts:
        row = view.get(body_log(sha256), RowKind.BODY, ONLY)
        if row is None:
            raise _lost(sha256, "its bytes are missing")
        yield row[start:stop]
        return
    needed: list[tuple[BodyPart, At, int, int]] = []
    begin = 0
    for part in at.parts:
        first, last = max(start - begin, 0), min(stop - begin, part.size_bytes)
        if first < last:
            inner = where(view, part.sha256)
            if (
                inner is None
                or inner.parts
                or _stored_bytes(view, blobs, part.sha256, inner) < last
            ):
                raise _lost(sha256, f"its part {part.sha256[:12]} is missing")
            needed.append((part, inner, first, last))
        begin += part.size_bytes
    for part, inner, first, last in needed:
        yield from _unchecked(view, blobs, part.sha256, inner, first, last, chunk_bytes)


def _row_checked(body: bytes, sha256: str) -> bytes:
    if hashlib.sha256(body).hexdigest() != sha256:
        raise _lost(sha256, "its bytes have changed")
    return body


def _checked(chunks: Iterator[bytes], sha256: str) -> Iterator[bytes]:
    """Pass chunks on one behind, so that the last goes out only when the whole was right."""
    digest = hashlib.sha256()
    behind = b""
    for chunk in chunks:
        if behind:
            yield behind
        digest.update(chunk)
        behind = chunk
    if digest.hexdigest() != sha256:
        raise _lost(sha256, "its bytes have changed")
    yield behind


def _lost(sha256: str, why: str) -> Broken:
    return Broken(f"body {sha256[:12]}: {why}", "see what is damaged with: relay verify")


# Freeing


def release(stores: Stores, holds: list[tuple[str, str]]) -> tuple[int, int]:
    """Let go of (sha256, ref) holds and free what nothing holds any more: (bodies, bytes)."""
    if holds:
        stores.ledger.commit(
            *(
                Write(body_log(sha256), rows=(Row(RowKind.HOLD, ref, None),))
                for sha256, ref in holds
            )
        )
    freed = [free(stores, sha256) for sha256 in dict.fromkeys(sha256 for sha256, _ in holds)]
    return sum(size is not None for size in freed), sum(size or 0 for size in freed)


def free(stores: Stores, sha256: str) -> int | None:
    """Free a body that nothing holds; its size, or None if it is held or in use.

    A body whose place cannot be read is left to `verify`.

    Whose write comes too late looks again. The head may have been moved by a push, which holds the
    body, or by another who frees it or a leftover of it, and who then leaves the rest to us.
    """
    log = body_log(sha256)
    for _ in range(RETRIES_MAX):
        head = stores.ledger.last(log)
        at = None
        with suppress(Broken):
            at = where(stores.ledger, sha256)
        if at is None or _is_held(stores, log):
            return None
        with suppress(Stale):
            if not at.is_condemned:
                condemned = at_row(replace(at, is_condemned=True))
                head = stores.ledger.commit(Write(log, (b"",), (condemned,), expect=head))[0]
            if _is_held(stores, log):
                # Held since before the condemnation, which stands: a push lifts it, and who removes
                # the last hold finds it. Lifting it here would make that one come too late.
                return None
            # What was found out about the content quotes it, and goes with it.
            looked = walk_rows(stores.ledger, log, RowKind.LOOKED)
            quotes = (Row(RowKind.LOOKED, row.key, None) for row in looked)
            gone = Row(RowKind.AT, ONLY, None), Row(RowKind.BODY, ONLY, None), _freed_row(stores)
            stores.ledger.commit(Write(log, (b"",), (*gone, *quotes), expect=head))
            if at.blob is not None:
                stores.blobs.delete(at.blob)
            parts = {part.sha256 for part in at.parts}
            _, freed_bytes = release(stores, [(part, at.held_as or "") for part in sorted(parts)])
            return at.own_bytes + freed_bytes
    return None


def free_leftover(stores: Stores, blob: str) -> bool:
    """Delete a blob that no body points to; whether it was one."""
    is_one = _retire(stores, blob)
    if is_one:
        stores.blobs.delete(blob)
    return is_one


def release_leftovers(stores: Stores, sha256: str) -> int:
    """Let go of holds by longer bodies that are not there; how many there were."""
    holds = walk_rows(stores.ledger, body_log(sha256), RowKind.HOLD)
    names = [row.key for row in holds if BLOB_NAME.fullmatch(row.key) and _retire(stores, row.key)]
    stores.ledger.commit(
        *(Write(body_log(sha256), rows=(Row(RowKind.HOLD, name, None),)) for name in names)
    )
    return len(names)


def is_in_parts(view: Reads, sha256: str) -> bool:
    at = where(view, sha256)
    return at is not None and bool(at.parts)


def is_held_by_body(view: Reads, name: str) -> bool:
    """Whether a body in parts is there that has its holds under this name."""
    at = where(view, name.partition("-")[0])
    return at is not None and at.held_as == name


def _retire(stores: Stores, name: str) -> bool:
    """Win a compare-and-set on the log of a name that its `at` does not have: it never will."""
    sha256 = name.partition("-")[0]
    log = body_log(sha256)
    head = stores.ledger.last(log)
    at = where(stores.ledger, sha256)
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
            return  # It is in use again.


def _is_held(stores: Stores, log: str) -> bool:
    return bool(stores.ledger.rows(log, RowKind.HOLD, "", 1))


def at_row(at: At) -> Row:
    return Row(RowKind.AT, ONLY, _encoder.encode(at))


def _freed_row(stores: Stores) -> Row:
    """The head must outlive any push that has read it, so the log is dropped much later."""
    return Row(RowKind.FREED, ONLY, b"", stores.now_ms() + TOMBSTONE_S * 1000)
