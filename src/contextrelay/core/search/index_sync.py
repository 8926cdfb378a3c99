"""Index sync: the search index is brought up to the ledger, a bounded step at a time.

A push does not wait for it. Who searches brings it up first, as far as that goes within a bound,
and a sweep goes on with it. First what is new is noted, newest first, then it is read and added,
newest first: what was pushed last can be found first.

Rule: the ledger is the truth. What is found is looked up there before it is shown, so what is gone
never appears, however far behind the index is. What is sealed never comes in.
"""

from __future__ import annotations

import hashlib
import struct
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import chain, islice, takewhile
from pathlib import Path

from msgspec.json import decode, encode

from contextrelay.bounded.bodies import index_within_bounds
from contextrelay.content.search.bm25 import length_of
from contextrelay.content.search.passages import Index, Indexing
from contextrelay.content.search.words import words
from contextrelay.core.access.tenants import space_of
from contextrelay.core.artifacts.bodies import read_body
from contextrelay.core.artifacts.catalog import ADDED, Entry, added, entries
from contextrelay.core.artifacts.records import find_readable, is_over
from contextrelay.core.schema import Kind, artifact_log, tenants
from contextrelay.core.stores import Stores
from contextrelay.errors import Broken, RelayError
from contextrelay.limits import (
    ADDED_KEPT,
    PAGE_ROWS_MAX,
    SEARCH_BATCH_S,
    SEARCH_BATCH_TEXTS,
    SEARCH_GAPS_MAX,
    SEARCH_GONE_MAX,
    SEARCHED_ABOUT_CHARS_MAX,
    SEARCHED_BYTES_MAX,
    SEARCHED_PASSAGES_MAX,
    SWEEP_CATCH_UP_S,
    UNFINISHED_PUSH_S,
)
from contextrelay.model.artifact import Artifact, in_ms, is_exchange
from contextrelay.model.inspect import IndexState
from contextrelay.store.ledger import ONLY, Fact
from contextrelay.store.search import reads
from contextrelay.store.search.index import Change, Damaged, SearchIndex
from contextrelay.store.search.reads import CHUNK, Text

SEARCH = "retrieval.search"
"""The capability whose results are not searched: they would find themselves."""
FILE_NAME = "search.db"
# A full chunk of which less than this is there is emptied, and what is left added again.
_THIN = CHUNK // 4


def index_of(stores: Stores) -> SearchIndex:
    """The search index of the store, or of the tenant's part of it."""
    return index_of_tenant(stores, stores.tenant)


def index_of_tenant(stores: Stores, tenant: str | None) -> SearchIndex:
    path = path_of(stores.root.engine.home, tenant)
    return stores.services.get(_name(tenant), lambda: SearchIndex(path))


def _name(tenant: str | None) -> str:
    return f"search/{tenant or ''}"


def path_of(home: Path | None, tenant: str | None) -> Path | None:
    """The file of an index; None where the store has no folder, and it is kept in memory."""
    if home is None or tenant is None:
        return None if home is None else home / FILE_NAME
    # A tenant's name may hold what no file name can.
    return home / f"search-{hashlib.sha256(tenant.encode()).hexdigest()[:16]}.db"


def catch_up(stores: Stores, index: SearchIndex, seconds_max: float) -> IndexState:
    """Bring an index up to the ledger of a space, as far as that goes in a time.

    Raises:
        Unavailable: another process is changing it for too long.
    """
    deadline = time.monotonic() + seconds_max
    try:
        return _caught_up(stores, index, deadline)
    except Damaged:
        index.start_over()
        return _caught_up(stores, index, deadline)


def rebuild(stores: Stores, index: SearchIndex) -> IndexState:
    """Throw an index away and rebuild it, all of it."""
    index.start_over()
    return catch_up(stores, index, float("inf"))


def state_of(index: SearchIndex) -> IndexState:
    """How far an index is, as it stands."""
    with index.reading() as view:
        texts, waiting, count, _ = reads.counts(view)
        gaps = _gaps(reads.mark(view, "gaps"))
    return IndexState(artifacts=texts, passages=count, waiting=waiting, is_complete=not gaps)


def _caught_up(stores: Stores, index: SearchIndex, deadline: float) -> IndexState:
    with index.reading() as view:
        ended = reads.ended(view, stores.now_ms(), SEARCH_GONE_MAX)
    take_out(stores, index, ended)
    if _is_behind(stores, index):
        with index.changing() as change:
            _note_new(stores, change, deadline)
        before = (_FAR_MS, "")
        while True:
            with index.changing() as change:
                behind = _add_some(stores, change, before, deadline)
            if behind is None or time.monotonic() >= deadline:
                break
            before = behind
    return state_of(index)


_FAR_MS = 1 << 62


# What is new


def _is_behind(stores: Stores, index: SearchIndex) -> bool:
    """Whether there is something to note or to add: asked without keeping others waiting."""
    with index.reading() as view:
        if reads.waiting(view, (_FAR_MS, ""), 1) or reads.mark(view, "gaps"):
            return True
        place = _place(reads.mark(view, "followed"))
    following = None if place is None else _following(stores, place, 1)
    return following is None or bool(following)


def _following(stores: Stores, place: Followed, limit: int) -> list[Fact] | None:
    """What was added behind a place; None where the place is not there, or is too far behind.

    It is not there where its facts were trimmed, or where another store is now in its place.
    """
    seq, _ = place
    found = stores.ledger.read(ADDED, max(seq - 1, 0), limit + 1)
    if seq == 0:
        return None if found and found[0].seq != 1 else found[:limit]
    if not found or _followed(found[0]) != place:
        return None
    return found[1:]


def _pages(found: Iterator[Entry], until_ms: int) -> Iterator[list[Entry]]:
    recent = takewhile(lambda each: each.created_ms >= until_ms, found)
    while page := list(islice(recent, PAGE_ROWS_MAX)):
        yield page


def _note_new(stores: Stores, change: Change, deadline: float) -> None:
    """Note what is not in yet: by following what was added, in whatever order clocks put it.

    Who cannot follow looks through everything, the newest first. Where the time is up before that
    is done, the gap that stays is noted too, and filled later.
    """
    view = change.connection
    place = _place(reads.mark(view, "followed"))
    walks = _gaps(reads.mark(view, "gaps"))
    if place is None or not _follow(stores, change, place):
        # Where to follow from, before the walk: what is added meanwhile is found by following.
        last = stores.ledger.last(ADDED)
        newest = stores.ledger.read(ADDED, last - 1, 1) if last else []
        _set_place(change, newest[0] if newest else None)
        walks = [("", 0)]
    left: list[tuple[str, int]] = []
    for after, until_ms in walks:
        for page in _pages(entries(stores.ledger, after), until_ms):
            _await(change, [(each.created_ms, each.ref) for each in page])
            if time.monotonic() >= deadline:
                left.append((page[-1].cursor, until_ms))
                break
    if len(left) > SEARCH_GAPS_MAX:
        left = [*left[: SEARCH_GAPS_MAX - 1], (left[SEARCH_GAPS_MAX - 1][0], left[-1][1])]
    change.set_mark("gaps", encode(left).decode() if left else "")


def _follow(stores: Stores, change: Change, place: Followed) -> bool:
    """Note all that was added behind a place; False where it is unknown or too far behind."""
    if stores.ledger.last(ADDED) - place[0] > ADDED_KEPT:
        return False
    while page := _following(stores, place, PAGE_ROWS_MAX):
        _await(change, [added(fact) for fact in page])
        _set_place(change, page[-1])
        place = _followed(page[-1])
    return page is not None


def _await(change: Change, places: list[tuple[int, str]]) -> None:
    missing = reads.unknown(change.connection, [ref for _, ref in places])
    change.await_texts((created_ms, ref) for created_ms, ref in places if ref in missing)


Followed = tuple[int, str]
"""A fact of the log of additions: its seq and its text."""


def _place(noted: str | None) -> Followed | None:
    return decode(noted, type=Followed) if noted else None


def _followed(fact: Fact) -> Followed:
    return fact.seq, fact.body.decode(errors="replace")


def _set_place(change: Change, fact: Fact | None) -> None:
    place = (0, "") if fact is None else _followed(fact)
    change.set_mark("followed", encode(place).decode())


def _gaps(noted: str | None) -> list[tuple[str, int]]:
    """Where the look at what is new was cut short: from which cursor down to when."""
    return decode(noted, type=list[tuple[str, int]]) if noted else []


# Adding


def _add_some(
    stores: Stores, change: Change, before: tuple[int, str], deadline: float
) -> tuple[int, str] | None:
    """Add a batch of what waits, newest first; the last of them, or None if that was all."""
    batch = reads.waiting(change.connection, before, SEARCH_BATCH_TEXTS)
    stop = min(deadline, time.monotonic() + SEARCH_BATCH_S)
    done: list[str] = []
    for place in batch:
        created_ms, ref = before = place
        artifact = find_readable(stores.ledger, ref)
        if artifact is not None and _is_searched(artifact, stores.now_ms()):
            if _add(stores, change, artifact):
                done.append(ref)
        elif artifact is not None or created_ms < stores.now_ms() - UNFINISHED_PUSH_S * 1000:
            done.append(ref)  # Not for the index; or gone, or a push that never ended.
        elif stores.ledger.get(artifact_log(ref), Kind.TOMBSTONE, ONLY) is not None:
            done.append(ref)
        if time.monotonic() >= stop:
            break
    change.added(done)
    return before if batch else None


def _is_searched(artifact: Artifact, now_ms: int) -> bool:
    if artifact.sealed is not None or is_exchange(artifact) or is_over(artifact, now_ms):
        return False
    return artifact.provenance.capability != SEARCH


def _add(stores: Stores, change: Change, artifact: Artifact) -> bool:
    """Add an artifact; False if nobody had time to read it, so that it has to wait."""
    indexing = _indexing(stores, artifact) if artifact.is_text else Indexing([])
    if indexing is None:
        return False
    start = change.next_number()
    kept = indexing.passages
    is_cut = artifact.size_bytes > SEARCHED_BYTES_MAX and artifact.is_text
    text = Text(
        ref=artifact.ref,
        created_ms=in_ms(artifact.created_at),
        expires_ms=None if artifact.expires_at is None else in_ms(artifact.expires_at),
        name=artifact.name,
        thread=artifact.thread,
        channel=artifact.channel,
        start=start,
        count=len(kept) + 1,
        is_cut=is_cut or indexing.is_cut,
    )
    stems = words(about(artifact))
    passages = chain(
        ((length_of(stems), Counter(stems)),), ((each.length, each.stems) for each in kept)
    )
    # Lines and bytes of each passage but the first, which is about the artifact.
    places = b"".join(
        PLACE.pack(each.start_line, each.stop_line, each.start_byte, each.stop_byte)
        for each in kept
    )
    has_pointers = any(each.pointer is not None for each in kept)
    pointers = encode([each.pointer for each in kept]) if has_pointers else None
    change.add(text, passages, places, pointers)
    return True


PLACE = struct.Struct("<IIII")
assert PLACE.size == reads.PLACE_BYTES


def about(artifact: Artifact) -> str:
    """What can be found about an artifact besides its content: name, metadata, who made it."""
    metadata = encode(artifact.metadata).decode() if artifact.metadata else ""
    return f"{artifact.name or ''}\n{metadata[:SEARCHED_ABOUT_CHARS_MAX]}"


def _indexing(stores: Stores, artifact: Artifact) -> Indexing | None:
    """What is searched of a text; None if nobody has time for it now."""
    read = partial(read_body, stores, artifact)
    size_bytes = min(artifact.size_bytes, SEARCHED_BYTES_MAX)
    try:
        return index_within_bounds(Index(artifact.type, SEARCHED_PASSAGES_MAX), size_bytes, read)
    except Broken:
        return Indexing([])  # Searching is no place to stop for this; verify reports it.


# Maintenance


def maintain_all(stores: Stores) -> None:
    """Maintain and bring up the indexes of a store and its tenants, those that there are."""
    for tenant in (None, *tenants(stores.ledger)):
        path = path_of(stores.engine.home, tenant)
        if not stores.services.has(_name(tenant)) and (path is None or not path.exists()):
            continue
        space, index = space_of(stores, tenant), index_of_tenant(stores, tenant)
        with suppress(RelayError):  # The next search, or sweep, tries again.
            maintain(space, index)
            catch_up(space, index, SWEEP_CATCH_UP_S)


def maintain(stores: Stores, index: SearchIndex) -> None:
    """Take out what is gone, give back its room, and look for what was missed."""
    try:
        _maintain(stores, index)
    except Damaged:
        index.start_over()


def _maintain(stores: Stores, index: SearchIndex) -> None:
    after = ""
    while True:
        with index.reading() as view:
            page = reads.refs(view, after, PAGE_ROWS_MAX)
        if not page:
            # What an earlier version pushed since is not among the additions: look at everything.
            with index.changing() as change:
                change.set_mark("followed", "")
            break
        after = page[-1]
        take_out(stores, index, page)
    with index.changing() as change:
        for chunk in reads.thin_chunks(change.connection, _THIN):
            again = reads.texts_in(change.connection, chunk)
            for _, ref in again:
                change.remove(ref)
            change.await_texts(again)
            change.drop_chunk(chunk)


def take_out(stores: Stores, index: SearchIndex, refs: list[str]) -> int:
    """Take those out that are gone, and note the new end of those that live longer now.

    How many were gone; none where the index cannot be written now.
    """
    if not refs:
        return 0
    now_ms = stores.now_ms()
    found = {ref: find_readable(stores.ledger, ref) for ref in refs}
    gone = [
        ref for ref, artifact in found.items() if not (artifact and _is_searched(artifact, now_ms))
    ]
    kept = [(_end_ms(artifact), ref) for ref, artifact in found.items() if artifact]
    with index.changing() as change:
        for ref in gone:
            change.remove(ref)
        change.connection.executemany("UPDATE text SET expires_ms = ? WHERE ref = ?", kept)
    return len(gone)


def _end_ms(artifact: Artifact) -> int | None:
    return None if artifact.expires_at is None else in_ms(artifact.expires_at)
