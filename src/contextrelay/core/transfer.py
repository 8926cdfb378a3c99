"""Portable threads: export a thread to a zip; import it as a new thread, as untrusted input.

`manifest.json`, `thread.json`, `events.jsonl` (the whole history, an event per line), `state.json`
(for people; it is not imported), and for each artifact `artifacts/<ref>.json` and `.body`.

Rule: everything that can be exported can be imported: a thread over the limits of an archive is
refused at export. An archive is untrusted input: its structure is checked before a byte is unpacked
(zips.py). Before a byte is stored, every body is hashed and the whole history replayed; each
version must be a state that a patch could have produced here.
"""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import IO, Annotated, Any, TypeVar

from msgspec import Meta, Struct, ValidationError, convert
from msgspec.json import decode, encode
from msgspec.structs import replace

from contextrelay.bounded.zips import WRONG, ForeignZip, method_for
from contextrelay.core.artifacts.bodies import checked_chunks, is_in_parts
from contextrelay.core.artifacts.holds import held, held_row, unexpired
from contextrelay.core.artifacts.lifetime import replace_with_tombstones
from contextrelay.core.artifacts.records import artifact_row
from contextrelay.core.idempotency import may_continue, other_request, step
from contextrelay.core.push.push import check_push, push
from contextrelay.core.registry import answers
from contextrelay.core.schema import RowKind, artifact_log
from contextrelay.core.stores import Stores
from contextrelay.core.threads.events import history
from contextrelay.core.threads.head import LiveState, find_record, state_at
from contextrelay.core.threads.patch import new_event
from contextrelay.core.threads.threads import (
    find_earlier_thread,
    index_writes,
    new_id,
    record_row,
    show,
)
from contextrelay.documents.bounds import check_json, check_label
from contextrelay.documents.patch import Operation, UndoStep, apply
from contextrelay.documents.pointer import find, parse
from contextrelay.documents.values import encoded_bytes, is_object, quote_value
from contextrelay.errors import Broken, Conflict, Invalid, RelayError, TooLarge
from contextrelay.limits import (
    ARCHIVE_BYTES_MAX,
    ARCHIVE_HISTORY_BYTES_MAX,
    DAY_S,
    JSON_DEPTH_MAX,
    KIB,
    METADATA_BYTES_MAX,
    MIB,
    STATE_BYTES_MAX,
)
from contextrelay.model.artifact import Artifact, format_time, from_ms
from contextrelay.model.names import thread_log
from contextrelay.model.ref import Ref, is_ref
from contextrelay.model.thread import CREATED, PATCHED, Event, ThreadRecord, ThreadView
from contextrelay.seal.stream import sealed_bytes_max
from contextrelay.state import event_chain
from contextrelay.state.schema import check_patch, check_state, check_touched, new_state
from contextrelay.store.durable_files import spooled
from contextrelay.store.ledger import Reads, Row, Stale, Write
from contextrelay.verbs import Body, ExportThread, ImportThread, Label, Push, Stream

ARCHIVE_ENTRIES_MAX = 20_000


UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_ID = re.compile(UUID.encode())


# Export


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
    # Read from a snapshot, with its blobs held, because others go on writing in the meantime.
    with stores.blobs.hold(), stores.ledger.snapshot() as ledger:
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
    history_bytes, named = _measured_history(ledger, view)
    manifest = Manifest(
        format=FORMAT,
        thread_id=thread,
        version=view.version,
        events=view.events,
        artifacts=[artifact.ref for artifact in kept],
        gone=sorted(named - {thread, *(artifact.ref for artifact in kept)}),
        long=[artifact.ref for artifact in kept if is_in_parts(ledger, artifact.sha256)],
        exported_at=format_time(from_ms(now_ms)),
    )
    entries = [
        _whole(MANIFEST, encode(manifest)),
        _whole(THREAD, encode(find_record(ledger, thread))),
        _whole(STATE, encode(state_at(stores, thread, view.version).document)),
        _Entry(EVENTS, history_bytes, partial(_lines, ledger, view)),
    ]
    for artifact in kept:
        content = partial(checked_chunks, ledger, stores.blobs, artifact.sha256)
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


def _measured_history(ledger: Reads, view: ThreadView) -> tuple[int, set[str]]:
    """Return the size of the history in bytes, and the refs that its states have named."""
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
    """Raise TooLarge for an archive that could not be imported again."""
    if len(entries) > ARCHIVE_ENTRIES_MAX:
        raise _too_large("has too many artifacts", f"{ARCHIVE_ENTRIES_MAX} files")
    sizes = {entry.name: entry.size_bytes for entry in entries}
    if sizes[EVENTS] > ARCHIVE_HISTORY_BYTES_MAX:
        raise _too_large("has too long a history", f"{ARCHIVE_HISTORY_BYTES_MAX} bytes of events")
    if sizes[MANIFEST] > MANIFEST_BYTES_MAX:
        raise _too_large("names too many removed artifacts", f"{MANIFEST_BYTES_MAX} bytes of names")
    if sum(sizes.values()) + len(sizes) * _HEADERS_BYTES > ARCHIVE_BYTES_MAX:
        raise _too_large("is too large", f"{ARCHIVE_BYTES_MAX} bytes")


# An upper limit for the bytes of the headers of one entry.
_HEADERS_BYTES = KIB


def _too_large(what: str, limit: str) -> TooLarge:
    return TooLarge(
        f"the thread {what} for one archive",
        f"at most {limit}; a backup takes everything: relay backup FILE",
    )


def _sources_first(artifacts: list[Artifact]) -> list[Artifact]:
    """Return artifacts in an order in which each comes after its sources."""
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
    """A file object for writing; the bytes written so far can be taken out."""

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


# Import


@answers(ImportThread)
def import_thread(stores: Stores, verb: ImportThread, body: Body) -> ThreadView:
    with spooled(_bounded(body)) as spool:
        archive = Archive(spool)
        if verb.name is not None:
            check_label(verb.name, "name")
        manifest, exported, items = check_archive(archive, stores.settings.body_bytes_max)
        if (made := find_earlier_thread(stores)) is not None:
            if made.forked_from != f"{manifest.thread_id}@v{manifest.version}":
                raise other_request()
            return made
        thread = new_id(stores)
        record = ThreadRecord(
            thread_id=thread,
            name=verb.name or exported.name,
            status="open",
            created_at=from_ms(stores.request_ms()),
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
            if not may_continue(stores, error):
                quota = stores.quota
                replace_with_tombstones(
                    stores,
                    list(stored.values()),
                    "removed",
                    also=lambda each: [] if quota is None else [quota.refund(each.size_bytes)],
                )
            raise
    return show(stores, thread)


def _bounded(body: Body) -> Iterator[bytes]:
    """Yield an archive in chunks; raise TooLarge when it exceeds the limit."""
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
    lent = Push(
        ttl_s=DAY_S,
        type="binary",
        name=f"part of {item.ref}",
        created_by=item.verb.created_by,
    )
    for number, piece in enumerate(_pieces(chunks, stores.settings.body_bytes_max)):
        parts.append(push(step(stores, f"{item.ref}.{number}"), lent, piece))
    verb = replace(verb, parts=tuple(part.ref for part in parts))
    joined = push(step(stores, item.ref), verb, b"")
    replace_with_tombstones(stores, parts, "removed")
    return joined


def _pieces(chunks: Iterator[bytes], size_bytes: int) -> Iterator[Iterator[bytes]]:
    """Split a stream into streams of `size_bytes` each; each has to be read before the next one."""
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
    """Return the history with new ids for the old ones, because ids are local to a store."""
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
        # As if the artifact had been added to the thread: it does not expire, and is removed with
        # the last thread that holds it.
        Write(
            artifact_log(artifact.ref),
            rows=(
                artifact_row(
                    replace(artifact, thread=thread, expires_at=None, ttl_s=None, has_own_ttl=False)
                ),
                Row(RowKind.HOLDER, thread, b""),
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
            return  # The same request, sent in parallel, was faster.
        raise Conflict(f"{stale.log} was changed by another writer", "import again") from stale


class History:
    """An untrusted history during replay: the number of events, and the version they have led to.

    `known`: refs of the artifacts that a state in the history may name.
    """

    def __init__(self, thread: str, known: set[str]) -> None:
        self.count = 0
        self._thread = thread
        self._known = known
        self._live = LiveState()
        self._last = b""
        self._copied_bytes = 0

    @property
    def version(self) -> int:
        return self._live.version

    def take(self, event: Event) -> None:
        """Apply one event. The event object is changed and must not be used afterwards.

        Raises:
            Broken: the hash chain does not match.
            Invalid: a thread of this store could not have such an event at this position.
        """
        self.count += 1
        check_label(event.id, f"the id of event {self.count}")
        check_label(event.type, f"the type of event {self.count}")
        check_label(event.by, f"the author of event {self.count}")
        self._last = event_chain.encode(replace(event, hash=""), self._last)
        if self._last[: event_chain.HASH_BYTES].hex() != event.hash:
            raise Broken(
                f"event {self.count} in the archive does not match its hash", "export it again"
            )
        if event.type == CREATED:
            self._begin(event)
        elif event.type == PATCHED:
            self._patch(event)

    def _begin(self, event: Event) -> None:
        state = event.detail.get("state")
        if self.version or not is_object(state):
            raise self._invalid_event("a thread has exactly one initial state")
        size_bytes = len(check_json(state, "the first state", STATE_BYTES_MAX))
        check_state(state, self._known.__contains__)
        if (state["version"], state["thread_id"]) != (1, self._thread):
            raise self._invalid_event(
                "the initial state must have version 1 and the id of its thread"
            )
        try:
            is_aware = datetime.fromisoformat(state["updated_at"]).tzinfo is not None
        except ValueError:
            is_aware = False
        if not is_aware:
            raise self._invalid_event("/updated_at is not a valid time")
        self._live.state, self._live.version, self._live.size_bytes = [state], 1, size_bytes

    def _patch(self, event: Event) -> None:
        live, version = self._live, event.detail.get("version")
        if not live.version or type(version) is not int or version != live.version + 1:
            raise self._invalid_event(f"it does not follow version {live.version}")
        try:
            operations = convert(event.detail.get("operations"), list[Operation])
        except ValidationError as error:
            raise self._invalid_event(str(error)) from error
        check_patch(operations)
        steps: list[UndoStep] = []
        for operation in operations:
            self._count_copied(operation)
            applied = apply(live.state, [operation], live.size_bytes, STATE_BYTES_MAX)
            live.size_bytes = applied.size_bytes
            steps += applied.steps
        check_touched(live.document, steps, self._known.__contains__)
        figures = {"metrics": event.detail.get("metrics")}
        check_state({**new_state(self._thread, ""), **figures}, self._known.__contains__)
        live.version = version
        live.stamp(event)

    def _count_copied(self, operation: Operation) -> None:
        """Limit the total size of copied values: a short copy can copy a whole state."""
        if operation.op == "copy" and isinstance(operation.from_, str):
            copied: Any = find(self._live.document, parse(operation.from_))
            self._copied_bytes += encoded_bytes(copied)
            if self._copied_bytes > ARCHIVE_HISTORY_BYTES_MAX:
                raise TooLarge(
                    f"the history copies too much data: event {self.count}",
                    f"at most {ARCHIVE_HISTORY_BYTES_MAX} bytes in total",
                )

    def _invalid_event(self, why: str) -> Invalid:
        return Invalid(
            f"invalid event {self.count} in the archive: {why}",
            "use a file made by: relay export",
        )


FORMAT = "contextrelay.thread.v1"
MANIFEST, THREAD, STATE, EVENTS = "manifest.json", "thread.json", "state.json", "events.jsonl"
LINE_BYTES_MAX = 2 * STATE_BYTES_MAX
"""The maximum size of one event: a patch may contain a whole state twice, before and after
compaction.
"""
MANIFEST_BYTES_MAX = 16 * MIB

_NAME = re.compile(rf"(manifest|thread|state)\.json|events\.jsonl|artifacts/{UUID}\.(json|body)")
_DESCRIPTION_BYTES_MAX = METADATA_BYTES_MAX + 256 * KIB

EntryKind = TypeVar("EntryKind")


class Manifest(Struct, frozen=True, kw_only=True):
    """The description of an archive."""

    format: str
    thread_id: Ref
    version: Annotated[int, Meta(ge=1)]
    events: Annotated[int, Meta(ge=1)]
    artifacts: list[Ref]
    gone: list[Ref] = []
    """Refs in the history that did not exist at the export."""
    long: list[Ref] = []
    """The refs in the history that did not exist at the export."""
    exported_at: str


class ImportedRecord(Struct, frozen=True, kw_only=True):
    """The parts of a thread's record that are imported."""

    name: Label | None


class Item(Struct, frozen=True):
    """An artifact of an archive: its ref there, its sources, and how to push it."""

    ref: str
    source_refs: tuple[str, ...]
    size_bytes: int
    verb: Push


class Archive:
    """An opened zip whose structure was checked.

    Raises (when created or read):
        Invalid: the file is not a thread archive.
        TooLarge: the archive exceeds a limit.
    """

    def __init__(self, spool: IO[bytes]) -> None:
        with _converted_errors():
            self._zip = ForeignZip(spool, _NAME, ARCHIVE_ENTRIES_MAX)

    @property
    def names(self) -> set[str]:
        return self._zip.names

    def size_bytes(self, name: str) -> int:
        with _converted_errors():
            return self._zip.size_bytes(name)

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yield the bytes of an entry.

        If their number differs from the announced one, raise an error at the end.
        """
        with _converted_errors():
            yield from self._zip.chunks(name)

    def read(self, name: str, kind: type[EntryKind], bytes_max: int) -> EntryKind:
        """Return the decoded JSON of an entry that is at most `bytes_max` long."""
        if self.size_bytes(name) > bytes_max:
            raise TooLarge(f"{name} in the archive is too large", f"at most {bytes_max} bytes")
        return _decode_strictly(b"".join(self.chunks(name)), kind, name)

    def events(self) -> Iterator[Event]:
        """Yield the events, a line at a time; `hash` is the value in the archive."""
        if self.size_bytes(EVENTS) > ARCHIVE_HISTORY_BYTES_MAX:
            raise TooLarge(
                "the history in the archive is too long",
                f"at most {ARCHIVE_HISTORY_BYTES_MAX} bytes of events",
            )
        for number, line in enumerate(self._lines(EVENTS), 1):
            yield _decode_strictly(line, _Line, f"event {number}").event()

    def _lines(self, name: str) -> Iterator[bytes]:
        parts: list[bytes] = []
        for chunk in self.chunks(name):
            first, *others = chunk.split(b"\n")
            parts.append(first)
            if sum(map(len, parts)) > LINE_BYTES_MAX:
                raise TooLarge("an event in the archive is too large", f"at most {LINE_BYTES_MAX}")
            for other in others:
                yield b"".join(parts)
                parts = [other]
        if any(parts):
            raise invalid_archive(f"{name} ends within a line")


class _Line(Struct, frozen=True, kw_only=True):
    """An event as a line of an archive."""

    id: Label
    type: Annotated[str, Meta(min_length=1, max_length=64)]
    at: Annotated[datetime, Meta(tz=True)]
    by: Label
    detail: dict[str, Any] = {}
    hash: str

    def event(self) -> Event:
        return Event(**{name: getattr(self, name) for name in self.__struct_fields__})


def check_archive(
    archive: Archive, body_bytes_max: int
) -> tuple[Manifest, ImportedRecord, list[Item]]:
    """Check everything in an archive, including bodies and history; return its decoded content.

    Raises:
        Invalid: something in the archive is invalid.
        TooLarge: the archive exceeds a limit.
        Broken: a body or an event does not match its hash.
    """
    manifest = archive.read(MANIFEST, Manifest, MANIFEST_BYTES_MAX)
    if manifest.format != FORMAT:
        raise invalid_archive(f"unsupported format {quote_value(manifest.format)}")
    record = archive.read(THREAD, ImportedRecord, _DESCRIPTION_BYTES_MAX)
    if record.name is not None:
        check_label(record.name, "the thread's name")
    _check_names(archive, manifest)
    history = History(manifest.thread_id, {*manifest.artifacts, *manifest.gone})
    for event in archive.events():
        history.take(event)
    if (history.version, history.count) != (manifest.version, manifest.events):
        raise invalid_archive("its history is incomplete")
    items = [
        _checked_item(archive, ref, ARCHIVE_BYTES_MAX if ref in manifest.long else body_bytes_max)
        for ref in manifest.artifacts
    ]
    _check_order(items)
    return manifest, record, items


def _check_names(archive: Archive, manifest: Manifest) -> None:
    named = {f"artifacts/{ref}.{end}" for ref in manifest.artifacts for end in ("json", "body")}
    found = {name for name in archive.names if name.startswith("artifacts/")}
    if named != found or len(named) != 2 * len(manifest.artifacts):
        raise invalid_archive("its files do not match the artifacts in its manifest")


def _check_order(items: list[Item]) -> None:
    """Check that each artifact comes after its sources.

    Sources that are not in the archive are ignored.
    """
    known = {item.ref for item in items}
    before: set[str] = set()
    for item in items:
        if not before.issuperset(ref for ref in item.source_refs if ref in known):
            raise invalid_archive(f"{item.ref} comes before what it was made from")
        before.add(item.ref)


def _checked_item(archive: Archive, ref: str, body_bytes_max: int) -> Item:
    described = archive.read(f"artifacts/{ref}.json", Artifact, _DESCRIPTION_BYTES_MAX)
    body_name = f"artifacts/{ref}.body"
    if described.ref != ref or described.size_bytes != archive.size_bytes(body_name):
        raise invalid_archive(f"artifacts/{ref}.json does not describe its body")
    if described.size_bytes > sealed_bytes_max(described.sealed, body_bytes_max):
        raise TooLarge(
            f"the body of {ref} is larger than {body_bytes_max} bytes",
            "raise body_bytes_max in the store's settings",
        )
    made_by = described.provenance
    fields = {
        "name": described.name,
        "type": described.type,
        "media_type": described.media_type,
        "metadata": described.metadata,
        # The artifact has an expiry time until the thread holds it, so that a crash leaves nothing.
        "ttl_s": DAY_S,
        "created_by": made_by.created_by,
        "capability": made_by.capability,
        "sealed": described.sealed,
    }
    with _converted_errors():
        verb = convert(fields, Push)
    check_push(verb)
    digest = hashlib.sha256()
    for chunk in archive.chunks(body_name):
        digest.update(chunk)
    if digest.hexdigest() != described.sha256:
        raise Broken(f"the body of {ref} in the archive does not match its hash", "export it again")
    return Item(ref, made_by.source_refs, described.size_bytes, verb)


# Strict reading


def _decode_strictly(text: bytes, kind: type[EntryKind], what: str) -> EntryKind:
    """Decode JSON that all parsers understand in the same way, of limited depth."""
    with _converted_errors(f"{what}: "):
        value = json.loads(text.decode(), object_pairs_hook=_members)
        check_json(value, what, LINE_BYTES_MAX, JSON_DEPTH_MAX + 4)
        return convert(value, kind)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("duplicate key in an object")
    return members


@contextmanager
def _converted_errors(what: str = "") -> Generator[None]:
    """Convert errors of zipfile and the decoders to Context Relay errors."""
    try:
        yield
    except (*WRONG, ValidationError) as error:
        raise invalid_archive(f"{what}{error or type(error).__name__}") from error


def invalid_archive(why: str) -> Invalid:
    return Invalid(f"not a valid thread archive: {why[:300]}", "use a file made by: relay export")
