"""Incoming bodies: read, described and stored, or joined from stored parts.

Rule: nothing points to a body before all of it is stored (core/artifacts/bodies.py has the order).
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import TYPE_CHECKING

from contextrelay.content.description import Description
from contextrelay.core.artifacts.bodies import (
    BodyLocation,
    BodyPart,
    at_row,
    hold_existing,
    hold_row,
    hold_write,
    location_of,
    new_name,
    read_body,
)
from contextrelay.core.artifacts.records import live
from contextrelay.core.schema import RowKind, body_log
from contextrelay.core.stores import Stores
from contextrelay.errors import Invalid, TooLarge, Unavailable
from contextrelay.limits import KEEPERS_MAX, MIB, ROW_BODY_BYTES_MAX, UNFINISHED_PUSH_S
from contextrelay.model.artifact import Artifact, SealFormat
from contextrelay.seal.stream import check_sealed, sealed_bytes_max
from contextrelay.store.blobs import BlobDraft
from contextrelay.store.ledger import ONLY, Row, Write
from contextrelay.verbs import Body

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

# From this size in bytes on a body is written while it is hashed, because starting a thread takes
# less time than writing or hashing.
OVERLAP_BYTES_MIN = MIB


class Incoming:
    """A body that was received and described, but not stored yet."""

    def __init__(
        self, description: Description, whole: bytes | None, draft: BlobDraft | None
    ) -> None:
        self.description = description
        self._whole = whole
        self._draft = draft
        self._blob: str | None = None
        self._kept_ms = 0

    def held(self, stores: Stores, holders: list[str], is_new: bool = False) -> list[Write]:
        """Return the writes that store the body, if it is new, and add a hold for each of the
        holders.

        `is_new`: assume without a read that the body is new. If it is not, the commit is stale.
        """
        sha256 = self.description.sha256
        log = body_log(sha256)
        is_new = is_new and self._whole is not None and not self.is_large
        # Read the head before `at`: if `at` changes in between, `expect` fails.
        head = 0 if is_new else stores.ledger.last(log)
        at = None if is_new else location_of(stores.ledger, sha256)
        if at is not None:
            # If the process was interrupted after the commit, the stored body is in the blob of
            # this push.
            if at.blob != self._blob:
                self._withdraw(stores)
            return [hold_write(log, head, at, holders)]
        # A log without a head has no row `freed` to remove.
        freed = (Row(RowKind.FREED, ONLY, None),) if head else ()
        before, rows = self._store_bytes(stores)
        holds = map(hold_row, holders)
        # A small body that was never freed has the same rows whoever writes it, so no head has to
        # move.
        facts = () if head == 0 and rows[0].kind == RowKind.BODY else (b"",)
        return [*before, Write(log, facts, (*rows, *freed, *holds), expect=head)]

    def _store_bytes(self, stores: Stores) -> tuple[list[Write], tuple[Row, ...]]:
        """Store the bytes of the body; return the writes before, and the rows of the body."""
        size_bytes = self.description.size_bytes
        if not self.is_large:
            assert self._whole is not None
            return [], (Row(RowKind.BODY, ONLY, self._whole), at_row(BodyLocation(size_bytes)))
        return [], (at_row(BodyLocation(size_bytes, self._keep(stores))),)

    def _keep(self, stores: Stores) -> str:
        if self._blob is None:
            self._blob = new_name(stores, self.description.sha256)
            self._kept_ms = stores.now_ms()
            if self._draft is not None:
                self._draft.keep(self._blob)
            else:
                assert self._whole is not None
                with stores.blobs.draft() as draft:
                    draft.write(self._whole)
                    draft.keep(self._blob)
        elif stores.now_ms() - self._kept_ms > UNFINISHED_PUSH_S * 1000 // 2:
            # A sweep may have deleted the blob as a leftover in the meantime.
            raise Unavailable("the push took too long", "push again")
        return self._blob

    @property
    def new_bytes(self) -> int:
        """Return the number of bytes that came with the request."""
        return self.description.size_bytes

    @property
    def is_large(self) -> bool:
        """Return True if the body becomes a blob, unless it is stored already."""
        return self.description.size_bytes > ROW_BODY_BYTES_MAX

    @property
    def is_placed(self) -> bool:
        """Return True if the body has a blob.

        Other callers may free the blob once something points to it.
        """
        return self._blob is not None

    def abandon(self, stores: Stores) -> None:
        """Delete the blob after a commit that failed, unless something points to it."""
        at = location_of(stores.ledger, self.description.sha256)
        if at is None or at.blob != self._blob:
            self._withdraw(stores)

    def _withdraw(self, stores: Stores) -> None:
        """Delete the blob: nothing points to it, and only this push knows its name."""
        if self._blob is not None:
            stores.blobs.delete(self._blob)
            self._blob = None


class JoinedBody(Incoming):
    """A body that starts with stored bodies and ends with an incoming body."""

    def __init__(self, description: Description, parts: list[BodyPart], tail: Incoming) -> None:
        super().__init__(description, None, None)
        self._parts = parts
        self._tail = tail

    def _store_bytes(self, stores: Stores) -> tuple[list[Write], tuple[Row, ...]]:
        end = self._tail.description
        ending = [BodyPart(end.sha256, end.size_bytes)] if end.size_bytes else []
        name = new_name(stores, self.description.sha256)
        kept = {part.sha256 for part in self._parts}
        holds = [hold_existing(stores, sha256, name) for sha256 in sorted(kept)]
        if ending and end.sha256 not in kept:
            holds += self._tail.held(stores, [name])
        parts = (*self._parts, *ending)
        at = BodyLocation(self.description.size_bytes, parts=parts, held_as=name)
        return holds, (at_row(at),)

    @property
    def new_bytes(self) -> int:
        return self._tail.new_bytes

    @property
    def is_large(self) -> bool:
        return self._tail.is_large

    @property
    def is_placed(self) -> bool:
        return self._tail.is_placed

    def abandon(self, stores: Stores) -> None:
        self._tail.abandon(stores)


def hold_in_parallel(
    stores: Stores, bodies: list[tuple[Incoming, list[str]]], are_new: bool
) -> list[Write]:
    """Return the writes of `held` for several bodies; blobs are written in parallel.

    Disks sync many files at once almost as fast as one.
    """
    if sum(incoming.is_large for incoming, _ in bodies) < 2:
        return hold_in_sequence(stores, bodies, are_new)
    from concurrent.futures import wait

    keepers = _blob_writers()
    begun = [keepers.submit(incoming.held, stores, refs, are_new) for incoming, refs in bodies]
    # Wait for all writers, even if one fails, so that no write is in progress during the cleanup.
    wait(begun)
    return [write for each in begun for write in each.result()]


def hold_in_sequence(
    stores: Stores, bodies: list[tuple[Incoming, list[str]]], are_new: bool
) -> list[Write]:
    """Return the writes of `held` for several bodies, one by one."""
    return [write for incoming, refs in bodies for write in incoming.held(stores, refs, are_new)]


@cache
def _blob_writers() -> ThreadPoolExecutor:
    """Return the pool of threads that write blobs; they mostly wait for a disk."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(KEEPERS_MAX, "relay-keep")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        after_in_child=_blob_writers.cache_clear
    )  # A forked child has only one thread.


def receive(
    stores: Stores, body: Body, sealed: SealFormat | None = None
) -> AbstractContextManager[Incoming]:
    """Read a body and describe it; write a large stream to a draft at the same time.

    Raises:
        TooLarge: the body exceeds the store's limit. The rest of it is not read.
    """
    if isinstance(body, bytes) and len(body) < OVERLAP_BYTES_MIN:
        check_size(stores, len(body), sealed)
        description = Description()
        description.feed(body)
        return nullcontext(Incoming(description, body, None))
    return _receive_large(stores, body, sealed)


@contextmanager
def _receive_large(stores: Stores, body: Body, sealed: SealFormat | None) -> Generator[Incoming]:
    """Read a large body, or a stream, which may be large."""
    description = Description()
    if isinstance(body, bytes):
        check_size(stores, len(body), sealed)
        with stores.blobs.draft() as draft:
            _write_and_describe(draft, description, body)
            yield Incoming(description, None, draft)
        return
    chunks = iter(body)
    start = _read_small(stores, chunks, description, sealed)
    if description.size_bytes <= ROW_BODY_BYTES_MAX:
        yield Incoming(description, start, None)
        return
    with stores.blobs.draft() as draft:
        draft.write(start)
        for chunk in chunks:
            check_size(stores, description.size_bytes + len(chunk), sealed)
            description.feed(chunk)
            draft.write(chunk)
        yield Incoming(description, None, draft)


def receive_joined(
    stores: Stores, refs: tuple[str, ...], body: Body, sealed: SealFormat | None = None
) -> AbstractContextManager[Incoming]:
    """Read a body that starts with the bodies of artifacts, and describe the result.

    Raises:
        Gone, NotFound: one of the artifacts does not exist.
        Invalid: an artifact or the body is sealed, or an artifact is stored in parts itself, or the
            body does not have the declared seal.
    """
    if not refs and sealed is None:
        return receive(stores, body)
    return _receive_joined(stores, refs, body, sealed)


@contextmanager
def _receive_joined(
    stores: Stores, refs: tuple[str, ...], body: Body, sealed: SealFormat | None
) -> Generator[Incoming]:
    description = Description()
    parts = [_part(stores, live(stores, ref), description) for ref in refs]
    if parts and sealed is not None:
        raise Invalid("a sealed body cannot have parts", "push it as one body, or seal each part")
    with receive(stores, _described(body, description) if parts else body, sealed) as tail:
        if sealed is not None:
            check_sealed(sealed, tail.description.head, tail.description.size_bytes)
        yield JoinedBody(description, parts, tail) if description.size_bytes and parts else tail


def _part(stores: Stores, artifact: Artifact, description: Description) -> BodyPart:
    """Return an artifact's body as a part of a longer body; add its bytes to the description."""
    at = location_of(stores.ledger, artifact.sha256)
    if artifact.sealed is not None or (at is not None and at.parts):
        why = "is sealed" if artifact.sealed else "is stored in parts"
        raise Invalid(f"{artifact.ref} cannot be a part: it {why}", "push the bytes themselves")
    for chunk in read_body(stores, artifact):
        description.feed(chunk)
    return BodyPart(artifact.sha256, artifact.size_bytes)


def _described(body: Body, description: Description) -> Iterator[bytes]:
    for chunk in (body,) if isinstance(body, bytes) else body:
        description.feed(chunk)
        yield chunk


def _write_and_describe(draft: BlobDraft, description: Description, body: bytes) -> None:
    """Write a large body while it is hashed in another thread, because both take about as long."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as writer:
        writing = writer.submit(draft.write, body)
        description.feed(body)
        writing.result()


def _read_small(
    stores: Stores, chunks: Iterator[bytes], description: Description, sealed: SealFormat | None
) -> bytes:
    """Read a body until it ends or is too large for a row; return the bytes read."""
    start: list[bytes] = []
    for chunk in chunks:
        check_size(stores, description.size_bytes + len(chunk), sealed)
        description.feed(chunk)
        start.append(chunk)
        if description.size_bytes > ROW_BODY_BYTES_MAX:
            break
    return b"".join(start)


def check_size(stores: Stores, size_bytes: int, sealed: SealFormat | None = None) -> None:
    """Raise TooLarge if a body, before sealing, exceeds the size limit."""
    if size_bytes <= stores.settings.body_bytes_max:
        return
    if size_bytes > sealed_bytes_max(sealed, stores.settings.body_bytes_max):
        raise TooLarge(
            f"the body is larger than {stores.settings.body_bytes_max} bytes",
            "split it, or raise the limit: relay config set body_bytes_max BYTES",
        )
