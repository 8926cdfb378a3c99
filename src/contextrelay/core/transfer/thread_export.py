"""Portable threads: one zip out, a new thread in. What is in the zip, archives.py says.

Rule: what can be exported can be imported: a thread over the limits of an archive is refused here
already. An import stores nothing before all of the archive was checked.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from msgspec import Struct
from msgspec.json import decode, encode
from msgspec.structs import replace

from contextrelay.bounded.zips import method_for
from contextrelay.core.artifacts.bodies import chunks_in, is_in_parts
from contextrelay.core.artifacts.holds import held, held_row, unexpired
from contextrelay.core.artifacts.lifetime import bury
from contextrelay.core.artifacts.records import artifact_row
from contextrelay.core.idempotency import may_go_on, other_request, step
from contextrelay.core.push.push import push
from contextrelay.core.registry import answers
from contextrelay.core.schema import Kind, artifact_log
from contextrelay.core.stores import Stores
from contextrelay.core.threads.events import history
from contextrelay.core.threads.head import find_record, state_at
from contextrelay.core.threads.patch import new_event
from contextrelay.core.threads.threads import index_writes, made_before, new_id, record_row, show
from contextrelay.core.transfer.archive import (
    EVENTS,
    FORMAT,
    LINE_BYTES_MAX,
    MANIFEST,
    MANIFEST_BYTES_MAX,
    STATE,
    THREAD,
    UUID,
    Archive,
    Item,
    Manifest,
    check_archive,
)
from contextrelay.documents.bounds import check_label
from contextrelay.errors import Conflict, RelayError, TooLarge
from contextrelay.limits import (
    ARCHIVE_BYTES_MAX,
    ARCHIVE_ENTRIES_MAX,
    ARCHIVE_HISTORY_BYTES_MAX,
    DAY_S,
    KIB,
)
from contextrelay.model.artifact import Artifact, moment, spell
from contextrelay.model.names import thread_log
from contextrelay.model.ref import is_ref
from contextrelay.model.thread import CREATED, PATCHED, Event, ThreadRecord, ThreadView
from contextrelay.state import event_chain
from contextrelay.store.durable_files import spooled
from contextrelay.store.ledger import Reads, Row, Stale, Write
from contextrelay.verbs import Body, ExportThread, ImportThread, Push, Stream

_ID = re.compile(UUID.encode())


# Out


@answers(ExportThread)
def export_thread(stores: Stores, verb: ExportThread, body: Body) -> Stream[ThreadView]:
    view = show(stores, verb.thread)
    return Stream(view, lambda chunk_bytes: _zip(stores, view))


class _Entry(Struct, frozen=True):
    """One file of an archive."""

    name: str
    size_bytes: int
    open: Callable[[], Iterable[bytes]]


def _zip(stores: Stores, view: ThreadView) -> Iterator[bytes]:
    out = _Chunks()
    # From a view that stands still, with its blobs held: others go on writing meanwhile.
    with stores.blobs.hold(), stores.ledger.still() as ledger:
        entries = _entries(stores, ledger, view)
        _check_bounds(entries)
        with zipfile.ZipFile(out, "w") as archive:
            for entry in entries:
                info = zipfile.ZipInfo(entry.name)
                info.compress_type = method_for(entry.size_bytes, entry.open())
                with archive.open(info, "w") as content:
                    for chunk in entry.open():
                        content.write(chunk)
                        yield from out.taken()
    yield from out.taken()


def _entries(stores: Stores, ledger: Reads, view: ThreadView) -> list[_Entry]:
    thread, now_ms = view.thread_id, stores.now_ms()
    refs = (ref for ref, _ in held(ledger, thread))
    kept = _sources_first(unexpired(ledger, refs, now_ms))
    history_bytes, named = _surveyed(ledger, view)
    manifest = Manifest(
        format=FORMAT,
        thread_id=thread,
        version=view.version,
        events=view.events,
        artifacts=[artifact.ref for artifact in kept],
        gone=sorted(named - {thread, *(artifact.ref for artifact in kept)}),
        long=[artifact.ref for artifact in kept if is_in_parts(ledger, artifact.sha256)],
        exported_at=spell(moment(now_ms)),
    )
    entries = [
        _whole(MANIFEST, encode(manifest)),
        _whole(THREAD, encode(find_record(ledger, thread))),
        _whole(STATE, encode(state_at(stores, thread, view.version).document)),
        _Entry(EVENTS, history_bytes, partial(_lines, ledger, view)),
    ]
    for artifact in kept:
        content = partial(chunks_in, ledger, stores.blobs, artifact.sha256)
        entries += [
            _whole(f"artifacts/{artifact.ref}.json", encode(artifact)),
            _Entry(f"artifacts/{artifact.ref}.body", artifact.size_bytes, content),
        ]
    return entries


def _whole(name: str, text: bytes) -> _Entry:
    return _Entry(name, len(text), lambda: (text,))


def _lines(ledger: Reads, view: ThreadView) -> Iterator[bytes]:
    for event in history(ledger, view.thread_id, view.events):
        yield encode(event) + b"\n"


def _surveyed(ledger: Reads, view: ThreadView) -> tuple[int, set[str]]:
    """How long the history is, and the refs that states have had in it."""
    size_bytes = 0
    named: set[str] = set()
    for event in history(ledger, view.thread_id, view.events):
        line = encode(event)
        size_bytes += len(line) + 1
        if len(line) > LINE_BYTES_MAX:
            raise _too_large("has an event that is too large", f"{LINE_BYTES_MAX} bytes")
        if event.type in (CREATED, PATCHED):
            named.update(found.decode() for found in _ID.findall(line))
    return size_bytes, {each for each in named if is_ref(each)}


def _check_bounds(entries: list[_Entry]) -> None:
    """Refuse what could not be imported again."""
    if len(entries) > ARCHIVE_ENTRIES_MAX:
        raise _too_large("has too many artifacts", f"{ARCHIVE_ENTRIES_MAX} files")
    sizes = {entry.name: entry.size_bytes for entry in entries}
    if sizes[EVENTS] > ARCHIVE_HISTORY_BYTES_MAX:
        raise _too_large("has too long a history", f"{ARCHIVE_HISTORY_BYTES_MAX} bytes of events")
    if sizes[MANIFEST] > MANIFEST_BYTES_MAX:
        raise _too_large("names too much that is gone", f"{MANIFEST_BYTES_MAX} bytes of names")
    if sum(sizes.values()) + len(sizes) * _HEADERS_BYTES > ARCHIVE_BYTES_MAX:
        raise _too_large("is too large", f"{ARCHIVE_BYTES_MAX} bytes")


# More than the headers of an entry take.
_HEADERS_BYTES = KIB


def _too_large(what: str, limit: str) -> TooLarge:
    return TooLarge(
        f"the thread {what} for one archive",
        f"at most {limit}; a backup takes everything: relay backup FILE",
    )


def _sources_first(artifacts: list[Artifact]) -> list[Artifact]:
    """Order artifacts so that each stands behind what it was made from."""
    waiting = {artifact.ref: artifact for artifact in artifacts}
    ordered: dict[str, Artifact] = {}
    for artifact in artifacts:
        stack = [artifact]
        while stack:
            sources = stack[-1].provenance.source_refs
            missing = [waiting[ref] for ref in sources if ref in waiting and ref not in ordered]
            if missing:
                stack += missing
            else:
                done = stack.pop()
                ordered[done.ref] = done
    return list(ordered.values())


class _Chunks:
    """A file that hands out what was written to it."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, part: bytes) -> int:
        self._parts.append(bytes(part))
        return len(part)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def taken(self) -> Iterator[bytes]:
        parts, self._parts = self._parts, []
        yield from parts


# In


@answers(ImportThread)
def import_thread(stores: Stores, verb: ImportThread, body: Body) -> ThreadView:
    with spooled(_bounded(body)) as spool:
        archive = Archive(spool)
        if verb.name is not None:
            check_label(verb.name, "name")
        manifest, exported, items = check_archive(archive, stores.settings.body_bytes_max)
        if (made := made_before(stores)) is not None:
            if made.forked_from != f"{manifest.thread_id}@v{manifest.version}":
                raise other_request()
            return made
        thread = new_id(stores)
        record = ThreadRecord(
            thread_id=thread,
            name=verb.name or exported.name,
            status="open",
            created_at=moment(stores.asked_ms()),
            created_by=verb.by,
            forked_from=f"{manifest.thread_id}@v{manifest.version}",
        )
        stored: dict[str, Artifact] = {}
        try:
            for item in items:
                stored[item.ref] = _push(stores, archive, item, stored)
            renamed = {ref: artifact.ref for ref, artifact in stored.items()}
            facts = _facts(stores, archive, {**renamed, manifest.thread_id: thread}, record)
            _write(stores, record, facts, list(stored.values()))
        except RelayError as error:
            if not may_go_on(stores, error):
                bury(stores, list(stored.values()), "removed")
            raise
    return show(stores, thread)


def _bounded(body: Body) -> Iterator[bytes]:
    """An archive in chunks, as long as it is not too long."""
    size_bytes = 0
    for chunk in (body,) if isinstance(body, bytes) else body:
        size_bytes += len(chunk)
        if size_bytes > ARCHIVE_BYTES_MAX:
            raise TooLarge("the archive is too large", f"at most {ARCHIVE_BYTES_MAX} bytes")
        yield chunk


def _push(stores: Stores, archive: Archive, item: Item, stored: dict[str, Artifact]) -> Artifact:
    sources = tuple(stored[ref].ref for ref in item.source_refs if ref in stored)
    verb = replace(item.verb, source_refs=sources)
    chunks = archive.chunks(f"artifacts/{item.ref}.body")
    if item.verb.sealed is not None or item.size_bytes <= stores.settings.body_bytes_max:
        return push(step(stores, item.ref), verb, chunks)
    parts: list[Artifact] = []
    lent = Push(ttl_s=DAY_S, type="binary", name=f"part of {item.ref}")
    for number, piece in enumerate(_pieces(chunks, stores.settings.body_bytes_max)):
        parts.append(push(step(stores, f"{item.ref}.{number}"), lent, piece))
    verb = replace(verb, parts=tuple(part.ref for part in parts))
    joined = push(step(stores, item.ref), verb, b"")
    bury(stores, parts, "removed")
    return joined


def _pieces(chunks: Iterator[bytes], size_bytes: int) -> Iterator[Iterator[bytes]]:
    """Cut a stream into streams of a size; each has to be read before the next."""
    rest = b""

    def piece() -> Iterator[bytes]:
        nonlocal rest
        left = size_bytes
        while left and (chunk := rest or next(chunks, b"")):
            rest = chunk[left:]
            yield chunk[:left]
            left -= min(left, len(chunk))

    while rest or (rest := next(chunks, b"")):
        yield piece()


def _facts(
    stores: Stores, archive: Archive, renamed: dict[str, str], record: ThreadRecord
) -> tuple[bytes, ...]:
    """The history, with the new ids in place of the old: an id means nothing else anywhere."""
    spelled_new = {old.encode(): new.encode() for old, new in renamed.items()}
    facts: list[bytes] = []
    last = b""
    for event in archive.events():
        text = encode(replace(event, hash=""))
        text = _ID.sub(lambda found: spelled_new.get(found[0], found[0]), text)
        last = event_chain.encode(decode(text, type=Event), last)
        facts.append(last)
    detail = {"name": record.name, "from": record.forked_from}
    imported = new_event(stores, "thread.imported", record.created_by, detail)
    return (*facts, event_chain.encode(imported, last))


def _write(
    stores: Stores, record: ThreadRecord, facts: tuple[bytes, ...], stored: list[Artifact]
) -> None:
    thread = record.thread_id
    holds = [
        # As if it had been put there: it does not expire, and goes with the last that holds it.
        Write(
            artifact_log(artifact.ref),
            rows=(
                artifact_row(
                    replace(artifact, thread=thread, expires_at=None, ttl_s=None, has_own_ttl=False)
                ),
                Row(Kind.HOLDER, thread, b""),
            ),
            expect=1,
        )
        for artifact in stored
    ]
    rows = (record_row(record), *(held_row(artifact) for artifact in stored))
    try:
        stores.ledger.commit(
            *index_writes(record), *holds, Write(thread_log(thread), facts, rows, expect=0)
        )
    except Stale as stale:
        if stores.once is not None and stale.log == thread_log(thread):
            return  # The same request was faster.
        raise Conflict(f"{stale.log} was changed meanwhile", "import it again") from stale
