"""Artifact records: found, described, read, listed and followed by ref.

The log `a/<ref>` has the row `artifact`, or `tombstone` once it is removed, a row `derived` for
each artifact made from it, and the chained events of its life.

Rule: an artifact is visible only when it is complete: index row, body and hold are written first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice
from operator import attrgetter
from typing import Any, TypeVar

from msgspec.json import Decoder, Encoder

from contextrelay.core.artifacts.catalog import CatalogEntry, entries
from contextrelay.core.registry import answers
from contextrelay.core.schema import (
    ARTIFACTS,
    LAST_USED,
    UNREADABLE,
    RowKind,
    artifact_log,
    known_refs,
    walk_logs,
    walk_rows,
)
from contextrelay.core.stores import Stores
from contextrelay.errors import Broken, Gone, NotFound
from contextrelay.limits import FIND_ITEMS_MAX, LIST_LOOKED_AT_MAX, PAGE_ROWS_MAX
from contextrelay.model.artifact import Artifact, Tombstone, format_time, is_exchange, to_ms
from contextrelay.model.names import tenant_prefix, thread_log
from contextrelay.model.reports import Lineage, Listing
from contextrelay.store.ledger import ONLY, Reads, Row, Write
from contextrelay.verbs import Body, Find, LastPush, List, ReadLineage, RememberPush

# The number of rows of the due list to read when looking for artifacts that expire soon.
EXPIRING_LOOKED_AT_MAX = 1_000


Described = TypeVar("Described", Artifact, Tombstone)

_encoder = Encoder()
_ordered = Encoder(order="deterministic")
_artifact = Decoder(Artifact)
_tombstone = Decoder(Tombstone)


# The fields that the description hash covers. They are listed by name, so that fields added by
# later versions are excluded. Lease and thread may change; the lease has its own events.
_HASHED: dict[type[Artifact] | type[Tombstone], attrgetter[tuple[Any, ...]]] = {
    Artifact: attrgetter(
        "ref",
        "type",
        "media_type",
        "name",
        "size_bytes",
        "sha256",
        "is_text",
        "created_at",
        "metadata",
        "provenance",
        "preview",
        "channel",
        "sealed",
    ),
    Tombstone: attrgetter(
        "ref",
        "gone_at",
        "reason",
        "name",
        "type",
        "size_bytes",
        "sha256",
        "created_at",
        "metadata",
        "thread",
        "channel",
    ),
}


def description_hash(described: Artifact | Tombstone) -> str:
    """Return the hash of an artifact's description.

    An event in the artifact's log contains this hash, for `verify`.
    """
    import hashlib  # hashlib loads OpenSSL, which is not needed for reading.

    fields = _HASHED[type(described)](described)
    return hashlib.sha256(_ordered.encode(fields)).hexdigest()


def lease(artifact: Artifact) -> str | None:
    """Return the expiry time of an artifact in the format of events; None if it never expires."""
    return None if artifact.expires_at is None else format_time(artifact.expires_at)


def artifact_row(artifact: Artifact) -> Row:
    due_ms = None if artifact.expires_at is None else to_ms(artifact.expires_at)
    return Row(RowKind.ARTIFACT, ONLY, _encoder.encode(artifact), due_ms)


def tombstone_row(tombstone: Tombstone, due_ms: int) -> Row:
    return Row(RowKind.TOMBSTONE, ONLY, _encoder.encode(tombstone), due_ms)


def find(ledger: Reads, ref: str) -> Artifact | None:
    """Return an artifact's description, also after its expiry, or None if there is none."""
    row = ledger.get(artifact_log(ref), RowKind.ARTIFACT, ONLY)
    return None if row is None else read(_artifact, row, ref)


def find_readable(ledger: Reads, ref: str) -> Artifact | None:
    """Return an artifact's description, or None if it is missing or damaged (see `verify`)."""
    try:
        return find(ledger, ref)
    except Broken:
        return None


def find_tombstone(ledger: Reads, ref: str) -> Tombstone | None:
    row = ledger.get(artifact_log(ref), RowKind.TOMBSTONE, ONLY)
    return None if row is None else read(_tombstone, row, ref)


def read(decoder: Decoder[Described], row: bytes, ref: str) -> Described:
    """Decode the description in a row of an artifact.

    Raises:
        Broken: the row cannot be decoded.
    """
    try:
        return decoder.decode(row)
    except UNREADABLE as error:
        raise Broken(
            f"cannot read the description of {ref}: {error}",
            "check the store: relay verify",
        ) from error


def live(stores: Stores, ref: str) -> Artifact:
    """Return the description of an artifact that exists and has not expired.

    Raises:
        Gone: the artifact was removed; the error says when and why.
        NotFound: the artifact never existed, or its tombstone was deleted.
    """
    artifact = described(stores, ref)
    if artifact is None:
        tombstone = find_tombstone(stores.ledger, ref)
        if tombstone is None:
            raise NotFound(f"artifact not found: {ref}", "list the artifacts: relay artifact list")
        raise _gone_error(ref, tombstone.gone_at, tombstone.reason, tombstone.metadata)
    if artifact.expires_at is not None and has_expired(artifact, stores.now_ms()):
        raise _gone_error(ref, artifact.expires_at, "expired", artifact.metadata)
    return artifact


def described(stores: Stores, ref: str) -> Artifact | None:
    """Return an artifact's description like `find`, but decode an unchanged row only once."""
    row = stores.ledger.get(artifact_log(ref), RowKind.ARTIFACT, ONLY)
    return None if row is None else _kept(stores, ref, row)


def _kept(stores: Stores, ref: str, row: bytes) -> Artifact:
    artifact = stores.body_cache.described(ref, row)
    if artifact is None:
        artifact = read(_artifact, row, ref)
        stores.body_cache.describe(artifact, row)
    return artifact


def described_each(stores: Stores, refs: Iterable[str]) -> Iterator[Artifact]:
    """Yield the descriptions of artifacts, which are read in batches."""
    left = iter(refs)
    while page := list(islice(left, PAGE_ROWS_MAX)):
        rows = stores.ledger.get_each(list(map(artifact_log, page)), RowKind.ARTIFACT, ONLY)
        for ref, row in zip(page, rows, strict=True):
            if row is not None:
                yield _kept(stores, ref, row)


def _gone_error(ref: str, gone_at: datetime, reason: str, metadata: dict[str, Any]) -> Gone:
    gone = gone_at.isoformat(timespec="seconds").replace("+00:00", "Z")
    return Gone(
        f"{ref} {'expired' if reason == 'expired' else 'was removed'} at {gone}",
        "next time: relay push --ttl 7d, or relay artifact pin REF"
        if reason == "expired"
        else "push the content again if it is still needed",
        {"gone_at": gone, "reason": reason, "metadata": metadata},
    )


@answers(List)
def list_artifacts(stores: Stores, verb: List, body: Body) -> Listing:
    if verb.thread and stores.ledger.get(thread_log(verb.thread), RowKind.THREAD, ONLY) is None:
        raise NotFound(f"thread not found: {verb.thread}", "list the threads: relay thread list")
    if verb.expires_in_s is not None:
        return Listing(artifacts=_expiring(stores, verb, verb.expires_in_s))
    found, last = list[Artifact](), ""
    # A filter may skip many artifacts; the next page continues after the skipped ones.
    for entry in islice(entries(stores.ledger, verb.after), LIST_LOOKED_AT_MAX):
        if verb.since_ms is not None and entry.created_ms < verb.since_ms:
            return Listing(artifacts=found)
        if len(found) == verb.limit:
            return Listing(artifacts=found, next=last)
        last = entry.cursor
        artifact = _listed(stores, entry)
        if artifact is not None and _matches(stores, artifact, verb):
            found.append(artifact)
    more = next(entries(stores.ledger, last), None) if last else None
    return Listing(artifacts=found, next=last if more else "")


def _expiring(stores: Stores, verb: List, within_s: int) -> list[Artifact]:
    """Return the artifacts that expire soonest.

    The due list that is searched also has rows of other kinds.
    """
    now_ms = stores.now_ms()
    own = f"{tenant_prefix(stores.tenant) if stores.tenant else ''}{ARTIFACTS}"
    since = -1 if verb.since_ms is None else verb.since_ms
    found: list[Artifact] = []
    for log, row in stores.root.ledger.due(now_ms + 1_000 * within_s, EXPIRING_LOOKED_AT_MAX):
        if len(found) == verb.limit:
            break
        if row.kind == RowKind.ARTIFACT and log.startswith(own):
            # Read through the caller's view, which may hide some artifacts.
            artifact = find_readable(stores.ledger, log.removeprefix(own))
            if artifact is None or is_exchange(artifact) or has_expired(artifact, now_ms):
                continue
            if to_ms(artifact.created_at) >= since and _matches(stores, artifact, verb):
                found.append(artifact)
    return found


def _listed(stores: Stores, entry: CatalogEntry) -> Artifact | None:
    """Return the artifact of an index entry, or None if it does not exist or must not be listed."""
    artifact = find_readable(stores.ledger, entry.ref)
    if artifact is None or is_exchange(artifact) or has_expired(artifact, stores.now_ms()):
        return None
    # Otherwise the entry belongs to an earlier, unfinished attempt of the same push.
    return artifact if to_ms(artifact.created_at) == entry.created_ms else None


def _matches(stores: Stores, artifact: Artifact, verb: List) -> bool:
    if verb.name is not None and verb.name.casefold() not in (artifact.name or "").casefold():
        return False
    if verb.thread is not None:
        log = thread_log(verb.thread)
        if stores.ledger.get(log, RowKind.ARTIFACT, artifact.ref) is None:
            return False
    return verb.type in (None, artifact.type)


def has_expired(artifact: Artifact, now_ms: int) -> bool:
    return artifact.expires_at is not None and to_ms(artifact.expires_at) <= now_ms


@answers(RememberPush)
def remember_push(stores: Stores, verb: RememberPush, body: Body) -> Artifact:
    artifact = live(stores, verb.ref)
    row = Row(RowKind.PUSHED, place_key(stores, verb.place), verb.ref.encode())
    stores.ledger.commit(Write(LAST_USED, rows=(row,)))
    return artifact


@answers(LastPush)
def last_push(stores: Stores, verb: LastPush, body: Body) -> list[Artifact]:
    row = stores.ledger.get(LAST_USED, RowKind.PUSHED, place_key(stores, verb.place))
    if row is None:
        return []
    ref = row.decode()
    try:
        return [live(stores, ref)]
    except Gone as error:
        was = find(stores.ledger, ref) or find_tombstone(stores.ledger, ref)
        name = was.name or was.type if was else "something"
        message = f"{name} was pushed last from here; {error.message}"
        raise Gone(message, error.hint, error.details) from error


def place_key(stores: Stores, place: str) -> str:
    """Return the key of a row about a place; each access key has rows of its own.

    For the owner, the row's key is the place alone. For an access key, it is the key's id, a
    newline and the place.
    """
    return place if stores.caller is None else f"{stores.caller.key.id}\n{place}"


@answers(Find)
def find_by_prefix(stores: Stores, verb: Find, body: Body) -> list[Artifact]:
    now_ms = stores.now_ms()
    logs = walk_logs(stores.ledger, artifact_log(verb.prefix), limit=FIND_ITEMS_MAX)
    every = (find_readable(stores.ledger, log.removeprefix(ARTIFACTS)) for log in logs)
    found = (artifact for artifact in every if artifact and not has_expired(artifact, now_ms))
    return list(islice(found, FIND_ITEMS_MAX))


@answers(ReadLineage)
def read_lineage(stores: Stores, verb: ReadLineage, body: Body) -> Lineage:
    artifact = live(stores, verb.ref)
    derived = [row.key for row in walk_rows(stores.ledger, artifact_log(verb.ref), RowKind.DERIVED)]
    sources = list(artifact.provenance.source_refs)
    if stores.is_limited:
        sources = known_refs(stores.ledger, sources)
    held = walk_rows(stores.ledger, artifact_log(verb.ref), RowKind.HOLDER)
    holders = [
        row.key
        for row in held
        if stores.ledger.get(thread_log(row.key), RowKind.ARTIFACT, verb.ref) is not None
    ]
    return Lineage(ref=verb.ref, sources=sources, derived=derived, holders=holders)
