"""Incoming bodies: received in chunks, described on the way, and kept if they are not kept yet.

How a push and the freeing of the same content keep out of each other's way: artifacts/bodies.py.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from msgspec.structs import replace

from contextrelay.core.artifacts.bodies import At, at_row, where
from contextrelay.core.schema import Kind, body_log
from contextrelay.core.stores import Stores
from contextrelay.errors import TooLarge, Unavailable
from contextrelay.limits import (
    KEEPERS_MAX,
    OVERLAP_BYTES_MIN,
    ROW_BODY_BYTES_MAX,
    UNFINISHED_PUSH_S,
)
from contextrelay.logic.content.description import Description
from contextrelay.logic.seal.stream import sealed_bytes_max
from contextrelay.model.artifact import SealFormat
from contextrelay.store.blobs import Draft
from contextrelay.store.ledger import ONLY, Row, Write
from contextrelay.wire.verbs import Body

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor


class Incoming:
    """A body that was received and described, but is not kept yet."""

    def __init__(self, description: Description, whole: bytes | None, draft: Draft | None) -> None:
        self.description = description
        self._whole = whole
        self._draft = draft
        self._blob: str | None = None
        self._kept_ms = 0

    def held(self, stores: Stores, refs: list[str]) -> Write:
        """The write that keeps the body, if it is not kept yet, and holds it for the refs."""
        sha256 = self.description.sha256
        log = body_log(sha256)
        head = stores.ledger.last(log)  # Read before `at`: if that moves, `expect` fails.
        at = where(stores.ledger, sha256) if head else None  # `at` comes and goes with a fact.
        holds = tuple(Row(Kind.HOLD, ref, b"") for ref in refs)
        if at is not None:
            if at.blob != self._blob:  # It is ours after a commit that was stopped behind it.
                self._withdraw(stores)
            if not at.is_condemned:
                return Write(log, rows=holds, expect=head)
            lifted = replace(at, is_condemned=False)
            return Write(log, (b"",), (at_row(lifted), *holds), expect=head)
        # A log without a head has no row `freed` to take back.
        freed = (Row(Kind.FREED, ONLY, None),) if head else ()
        return Write(log, (b"",), (*self._placed(stores), *freed, *holds), expect=head)

    def _placed(self, stores: Stores) -> tuple[Row, ...]:
        size_bytes = self.description.size_bytes
        if not self.is_large:
            assert self._whole is not None
            return Row(Kind.BODY, ONLY, self._whole), at_row(At(size_bytes))
        return (at_row(At(size_bytes, self._keep(stores))),)

    def _keep(self, stores: Stores) -> str:
        if self._blob is None:
            self._blob = f"{self.description.sha256}-{stores.random_bytes(8).hex()}"
            self._kept_ms = stores.now_ms()
            if self._draft is not None:
                self._draft.keep(self._blob)
            else:
                assert self._whole is not None
                with stores.blobs.draft() as draft:
                    draft.write(self._whole)
                    draft.keep(self._blob)
        elif stores.now_ms() - self._kept_ms > UNFINISHED_PUSH_S * 1000 // 2:
            # A sweep may have taken the blob for a leftover meanwhile.
            raise Unavailable("the push took too long", "push it again")
        return self._blob

    @property
    def is_large(self) -> bool:
        """Whether it becomes a blob, if it is not kept yet."""
        return self.description.size_bytes > ROW_BODY_BYTES_MAX

    @property
    def is_placed(self) -> bool:
        """Whether it has a blob: one that was pointed to may be freed by others since."""
        return self._blob is not None

    def abandon(self, stores: Stores) -> None:
        """Take back a blob after a commit that failed for sure, unless something points to it."""
        at = where(stores.ledger, self.description.sha256)
        if at is None or at.blob != self._blob:
            self._withdraw(stores)

    def _withdraw(self, stores: Stores) -> None:
        """Delete our blob, which nothing points to, and whose name nobody else knows."""
        if self._blob is not None:
            stores.blobs.delete(self._blob)
            self._blob = None


def held_each(stores: Stores, bodies: list[tuple[Incoming, list[str]]]) -> list[Write]:
    """As `held`, of several bodies; blobs are written side by side.

    Disks sync many files at the same time almost as fast as one.
    """
    if sum(incoming.is_large for incoming, _ in bodies) < 2:
        return [incoming.held(stores, refs) for incoming, refs in bodies]
    from concurrent.futures import wait

    keepers = _keepers()
    begun = [keepers.submit(incoming.held, stores, refs) for incoming, refs in bodies]
    wait(begun)  # All of them, also where one fails: who takes them back finds none under way.
    return [each.result() for each in begun]


@cache
def _keepers() -> ThreadPoolExecutor:
    """Threads that mostly wait for a disk."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(KEEPERS_MAX, "relay-keep")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_keepers.cache_clear)  # A child has no threads but one.


@contextmanager
def receive(stores: Stores, body: Body, sealed: SealFormat | None = None) -> Generator[Incoming]:
    """Read a body and describe it; a large stream goes to a draft on the way.

    Raises:
        TooLarge: it is over the store's limit; the rest of it is not read.
    """
    description = Description()
    if isinstance(body, bytes):
        check_size(stores, len(body), sealed)
        if len(body) >= OVERLAP_BYTES_MIN:
            with stores.blobs.draft() as draft:
                # Write a large body while it is hashed: each takes about as long as the other.
                from concurrent.futures import ThreadPoolExecutor

                with ThreadPoolExecutor(1) as writer:
                    writing = writer.submit(draft.write, body)
                    description.feed(body)
                    writing.result()
                yield Incoming(description, None, draft)
            return
        description.feed(body)
        yield Incoming(description, body, None)
        return
    chunks = iter(body)
    start = _up_to_a_row(stores, chunks, description, sealed)
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


def _up_to_a_row(
    stores: Stores, chunks: Iterator[bytes], description: Description, sealed: SealFormat | None
) -> bytes:
    """Read until the body ends or is too large for a row."""
    start: list[bytes] = []
    for chunk in chunks:
        check_size(stores, description.size_bytes + len(chunk), sealed)
        description.feed(chunk)
        start.append(chunk)
        if description.size_bytes > ROW_BODY_BYTES_MAX:
            break
    return b"".join(start)


def check_size(stores: Stores, size_bytes: int, sealed: SealFormat | None = None) -> None:
    """Refuse what is too large; of a sealed body what counts is what was sealed."""
    if size_bytes <= stores.settings.body_bytes_max:
        return
    if size_bytes > sealed_bytes_max(sealed, stores.settings.body_bytes_max):
        raise TooLarge(
            f"the body is over {stores.settings.body_bytes_max} bytes",
            "split it, or raise the limit: relay config set body_bytes_max BYTES",
        )
