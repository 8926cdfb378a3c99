"""Holds: a thread keeps the artifacts that it refers to.

The log of an artifact has a row `holder` for each thread; the log of a thread has a row `artifact`
for each artifact, with its weight. The holder's row is written first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.json import Decoder, Encoder

from contextrelay.core.artifacts.lifetime import pin
from contextrelay.core.artifacts.records import find, has_expired
from contextrelay.core.schema import UNREADABLE, RowKind, artifact_log, walk_rows
from contextrelay.core.stores import Stores
from contextrelay.errors import Broken
from contextrelay.model.artifact import Artifact, is_exchange
from contextrelay.model.names import thread_log
from contextrelay.store.ledger import ONLY, Reads, Row, Write
from contextrelay.verbs import Pin


class ArtifactWeights(Struct, frozen=True):
    """The weight of a thread's artifacts in tokens, by the seed's formula."""

    count: int = 0
    naive_tokens: int = 0
    actual_tokens: int = 0

    def plus(self, other: ArtifactWeights) -> ArtifactWeights:
        return ArtifactWeights(
            self.count + other.count,
            self.naive_tokens + other.naive_tokens,
            self.actual_tokens + other.actual_tokens,
        )


_encoder = Encoder()
_decoder = Decoder(ArtifactWeights)


def is_known(stores: Stores, thread: str, ref: str) -> bool:
    """Return True if a thread holds an artifact or can hold it."""
    if stores.ledger.get(thread_log(thread), RowKind.ARTIFACT, ref) is not None:
        return True
    artifact = find(stores.ledger, ref)
    return artifact is not None and not has_expired(artifact, stores.now_ms())


def hold_writes(stores: Stores, thread: str, refs: set[str]) -> tuple[list[Write], tuple[Row, ...]]:
    """Return the writes and rows that make a thread hold artifacts that it does not hold yet.

    An artifact with the default lifetime is pinned; one with an explicit lifetime keeps that
    lifetime.
    """
    writes: list[Write] = []
    rows: list[Row] = []
    for ref in sorted(refs):
        if stores.ledger.get(thread_log(thread), RowKind.ARTIFACT, ref) is not None:
            continue
        artifact = find(stores.ledger, ref)
        if artifact is not None:
            if artifact.expires_at is not None and not artifact.has_own_ttl:
                artifact = pin(stores, Pin(ref), b"")
            writes.append(Write(artifact_log(ref), rows=(Row(RowKind.HOLDER, thread, b""),)))
            rows.append(held_row(artifact))
    return writes, tuple(rows)


def unhold_write(ref: str, thread: str) -> Write:
    return Write(artifact_log(ref), rows=(Row(RowKind.HOLDER, thread, None),))


def held_row(artifact: Artifact) -> Row:
    return Row(RowKind.ARTIFACT, artifact.ref, _encoder.encode(weight(artifact)))


def weight(artifact: Artifact) -> ArtifactWeights:
    """Return the weight of an artifact by the seed's formula: a quarter of the bytes of content and
    preview.

    An exchange has no weight, because it records what was sent and would not be pasted.
    """
    if is_exchange(artifact):
        return ArtifactWeights()
    return ArtifactWeights(1, artifact.size_bytes // 4, len(artifact.preview.text) // 4)


def weights_in(rows: tuple[Row, ...]) -> ArtifactWeights:
    """Return the total weight of the artifacts in a thread's rows."""
    total = ArtifactWeights()
    for row in rows:
        if row.kind == RowKind.ARTIFACT and row.body is not None:
            total = total.plus(_decoder.decode(row.body))
    return total


def listed(ledger: Reads, thread: str) -> Iterator[str]:
    """Yield the refs of all artifacts that a thread holds, except exchanges."""
    return (ref for ref, weights in held(ledger, thread) if weights.count)


def held(ledger: Reads, thread: str) -> Iterator[tuple[str, ArtifactWeights]]:
    """Yield the refs of the artifacts that a thread holds, with their weights."""
    for row in walk_rows(ledger, thread_log(thread), RowKind.ARTIFACT):
        try:
            weights = _decoder.decode(row.body or b"")
        except UNREADABLE as error:
            raise Broken(
                f"cannot read what thread {thread} holds of {row.key}: {error}",
                "check the store: relay verify",
            ) from error
        yield row.key, weights


def unexpired(ledger: Reads, refs: Iterable[str], now_ms: int) -> list[Artifact]:
    """Return the artifacts that exist and have not expired, oldest first."""
    every = (find(ledger, ref) for ref in refs)
    there = [each for each in every if each is not None and not has_expired(each, now_ms)]
    return sorted(there, key=lambda artifact: (artifact.created_at, artifact.ref))


def is_held(ledger: Reads, ref: str) -> bool:
    """Return True if an existing thread holds an artifact."""
    return any(
        ledger.get(thread_log(thread), RowKind.THREAD, ONLY) is not None
        for thread in holders(ledger, ref)
    )


def is_in_thread(ledger: Reads, ref: str) -> bool:
    """Return True if an artifact was added to a thread.

    A row `holder` alone may be left by an interrupted put.
    """
    return any(
        ledger.get(thread_log(thread), RowKind.ARTIFACT, ref) is not None
        for thread in holders(ledger, ref)
    )


def holders(ledger: Reads, ref: str) -> Iterator[str]:
    """Yield the ids of the threads that have a row `holder` in an artifact's log."""
    return (row.key for row in walk_rows(ledger, artifact_log(ref), RowKind.HOLDER))
