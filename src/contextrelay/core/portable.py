"""Portable threads: one zip out, a new thread in.

`manifest.json`, `thread.json`, `events.jsonl` (the whole history, an event a line), `state.json`
(for people), and for each artifact `artifacts/<ref>.json` and `artifacts/<ref>.body`.

Rule: an archive is foreign input. Names, kinds, counts, sizes and ratios are checked before a byte
is unpacked, the history is replayed under the same limits as patches, and nothing is stored of an
archive that fails.
"""

from __future__ import annotations

import re
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO

from msgspec import DecodeError, Struct, convert
from msgspec.json import decode, encode

from contextrelay.core.answering import answers
from contextrelay.core.artifacts import find
from contextrelay.core.holding import held, held_row
from contextrelay.core.live import Live, find_record, state_at, thread_log
from contextrelay.core.lives import bury
from contextrelay.core.pulls import pull
from contextrelay.core.pushes import push
from contextrelay.core.stores import Stores
from contextrelay.core.threads import (
    index_writes,
    new_event,
    record_row,
    show,
)
from contextrelay.errors import Broken, Invalid, RelayError, TooLarge
from contextrelay.limits import (
    ARCHIVE_BYTES_MAX,
    ARCHIVE_ENTRIES_MAX,
    ARCHIVE_RATIO_MAX,
    CHUNK_BYTES,
    PAGE_ROWS_MAX,
    STATE_BYTES_MAX,
)
from contextrelay.logic import chain
from contextrelay.logic.patch import Operation, apply
from contextrelay.logic.state import check_patch, check_state
from contextrelay.model.artifact import Artifact, moment, spell
from contextrelay.model.event import CREATED, PATCHED, Event
from contextrelay.model.thread import ThreadRecord, ThreadView
from contextrelay.store.ledger import Row, Write
from contextrelay.wire.verbs import Body, ExportThread, ImportThread, Pull, Push, Stream

FORMAT = "contextrelay.thread.v1"
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_NAME = re.compile(rf"(manifest|thread|state)\.json|events\.jsonl|artifacts/{_UUID}\.(json|body)")


class Manifest(Struct, frozen=True, kw_only=True):
    """What an archive says of itself."""

    format: str
    thread_id: str
    version: int
    events: int
    artifacts: list[str]
    exported_at: str


# Out


@answers(ExportThread)
def export_thread(stores: Stores, verb: ExportThread, body: Body) -> Stream[ThreadView]:
    view = show(stores, verb.thread)
    return Stream(view, lambda chunk_bytes: _zip(stores, view))


def _zip(stores: Stores, view: ThreadView) -> Iterator[bytes]:
    thread = view.thread_id
    out = _Chunks()
    kept = [
        artifact
        for ref, _ in held(stores.ledger, thread)
        if (artifact := find(stores.ledger, ref)) is not None
    ]
    kept = _sources_first(kept)
    manifest = Manifest(
        format=FORMAT,
        thread_id=thread,
        version=view.version,
        events=view.events,
        artifacts=[artifact.ref for artifact in kept],
        exported_at=spell(moment(stores.now_ms())),
    )
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", encode(manifest))
        archive.writestr("thread.json", encode(find_record(stores.ledger, thread)))
        past = state_at(stores, thread, view.version)
        archive.writestr("state.json", encode(past.document))
        with archive.open("events.jsonl", "w") as lines:
            for event in history(stores, thread, view.events):
                lines.write(encode(event) + b"\n")
                yield from out.taken()
        for artifact in kept:
            archive.writestr(f"artifacts/{artifact.ref}.json", encode(artifact))
            with archive.open(f"artifacts/{artifact.ref}.body", "w") as content:
                for chunk in pull(stores, Pull(artifact.ref), b"").chunks():
                    content.write(chunk)
                    yield from out.taken()
    yield from out.taken()


def _sources_first(artifacts: list[Artifact]) -> list[Artifact]:
    """Order artifacts so that each stands behind what it was made from."""
    waiting = {artifact.ref: artifact for artifact in artifacts}
    ordered: dict[str, Artifact] = {}
    for artifact in sorted(artifacts, key=lambda each: each.created_at):
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


def history(stores: Stores, thread: str, until: int) -> Iterator[Event]:
    seq = 0
    while seq < until and (
        page := stores.ledger.read(thread_log(thread), seq, min(PAGE_ROWS_MAX, until - seq))
    ):
        for fact in page:
            yield chain.decode(fact.body)
        seq = page[-1].seq


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
    with tempfile.TemporaryFile() as spool:
        size_bytes = 0
        for chunk in (body,) if isinstance(body, bytes) else body:
            size_bytes += len(chunk)
            if size_bytes > ARCHIVE_BYTES_MAX:
                raise TooLarge("the archive is too large", f"at most {ARCHIVE_BYTES_MAX} bytes")
            spool.write(chunk)
        try:
            with zipfile.ZipFile(spool) as archive:
                _check_archive(archive)
                return _imported(stores, verb, archive)
        except _NOT_OURS as error:
            raise _not_ours(str(error)) from error


# What zipfile and the decoders raise on an archive that is not one, or not ours.
_NOT_OURS = (
    zipfile.BadZipFile,
    zlib.error,
    DecodeError,
    UnicodeDecodeError,
    KeyError,
    TypeError,
    EOFError,
    NotImplementedError,
    RuntimeError,
)


def _check_archive(archive: zipfile.ZipFile) -> None:
    """Refuse an archive that could harm: by its names, links, counts, sizes or ratios."""
    infos = archive.infolist()
    if len(infos) > ARCHIVE_ENTRIES_MAX:
        raise TooLarge(f"{len(infos)} entries", f"at most {ARCHIVE_ENTRIES_MAX}")
    if len({info.filename for info in infos}) != len(infos):
        raise _not_ours("a name stands in it twice")
    total_bytes = 0
    for info in infos:
        if not _NAME.fullmatch(info.filename) or info.external_attr >> 28 == 0o12:
            raise _not_ours(f"{info.filename[:80]!r} has no place in it")
        total_bytes += info.file_size
        if info.file_size > ARCHIVE_RATIO_MAX * max(info.compress_size, 1024):
            raise TooLarge(f"{info.filename} unpacks to too much", "check where it comes from")
    if total_bytes > ARCHIVE_BYTES_MAX:
        raise TooLarge("the archive unpacks to too much", f"at most {ARCHIVE_BYTES_MAX} bytes")


def _imported(stores: Stores, verb: ImportThread, archive: zipfile.ZipFile) -> ThreadView:
    manifest = decode(archive.read("manifest.json"), type=Manifest)
    if manifest.format != FORMAT:
        raise _not_ours(f"its format is {manifest.format[:40]!r}")
    record = decode(archive.read("thread.json"), type=ThreadRecord)
    thread = stores.new_ref()
    renamed = {manifest.thread_id: thread}
    stored: list[Artifact] = []
    try:
        for ref in manifest.artifacts:
            artifact = _import_artifact(stores, archive, ref, renamed)
            renamed[ref] = artifact.ref
            stored.append(artifact)
        events = _import_events(archive, renamed)
        head = _replayed(events, set(renamed.values()))
        if head.version != manifest.version or len(events) != manifest.events:
            raise _not_ours("its history is not complete")
        _write(stores, verb, thread, record, manifest, events, stored)
    except RelayError:
        bury(stores, stored, "removed")
        raise
    return show(stores, thread)


def _import_artifact(
    stores: Stores, archive: zipfile.ZipFile, ref: str, renamed: dict[str, str]
) -> Artifact:
    told = decode(archive.read(f"artifacts/{ref}.json"), type=Artifact)
    made_by = told.provenance
    verb = Push(
        name=told.name,
        type=told.type,
        media_type=told.media_type,
        metadata=told.metadata,
        ttl_s=None,
        created_by=made_by.created_by,
        capability=made_by.capability,
        source_refs=tuple(renamed[each] for each in made_by.source_refs if each in renamed),
    )
    with archive.open(f"artifacts/{ref}.body") as content:
        artifact = push(stores, verb, _chunks_of(content))
    if artifact.sha256 != told.sha256:
        bury(stores, [artifact], "removed")
        raise Broken(f"the body of {ref} has changed in the archive", "export it again")
    return artifact


def _chunks_of(content: IO[bytes]) -> Iterator[bytes]:
    while chunk := content.read(CHUNK_BYTES):
        yield chunk


def _import_events(archive: zipfile.ZipFile, renamed: dict[str, str]) -> list[Event]:
    """The history, with the new ids in place of the old: an id means nothing else anywhere."""
    text = archive.read("events.jsonl").decode()
    told = re.sub(_UUID, lambda found: renamed.get(found[0], found[0]), text)
    return [decode(line, type=Event) for line in told.encode().splitlines()]


def _replayed(events: list[Event], known: set[str]) -> Live:
    """Follow a foreign history under the limits that hold for patches; its last state."""
    live = Live()
    for event in events:
        if event.type == CREATED:
            live.state = [decode(encode(event.detail["state"]))]  # The event stays as it is.
            live.version = 1
            live.size_bytes = len(encode(live.document))
            check_state(live.document, lambda ref: ref in known)
        elif event.type == PATCHED:
            operations = convert(event.detail["operations"], list[Operation])
            check_patch(operations)
            applied = apply(live.state, operations, live.size_bytes, STATE_BYTES_MAX)
            live.size_bytes = applied.size_bytes
            live.version += 1
    check_state(live.document, lambda ref: ref in known)
    return live


def _write(
    stores: Stores,
    verb: ImportThread,
    thread: str,
    told: ThreadRecord,
    manifest: Manifest,
    events: list[Event],
    stored: list[Artifact],
) -> None:
    record = ThreadRecord(
        thread_id=thread,
        name=verb.name or told.name,
        status="open",
        created_at=moment(stores.now_ms()),
        created_by=verb.by,
        forked_from=f"{manifest.thread_id}@v{manifest.version}",
    )
    facts: list[bytes] = []
    for event in (*events, new_event(stores, "thread.imported", verb.by, {})):
        facts.append(chain.encode(event, facts[-1] if facts else b""))
    rows = (record_row(record), *(held_row(artifact) for artifact in stored))
    holders = [
        Write(f"a/{artifact.ref}", rows=(Row("holder", thread, b""),)) for artifact in stored
    ]
    stores.ledger.commit(
        *index_writes(record), *holders, Write(thread_log(thread), tuple(facts), rows, expect=0)
    )


def _not_ours(why: str) -> Invalid:
    return Invalid(f"this is no thread of ours: {why}", "take a file made by: relay export")
