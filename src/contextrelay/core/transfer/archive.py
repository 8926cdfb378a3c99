"""Archives: a zip that says it holds a thread, read without believing any of it.

`manifest.json`, `thread.json`, `events.jsonl` (the whole history, an event a line), `state.json`
(for people; nobody reads it back), and for each artifact `artifacts/<ref>.json` and `.body`.

Rule: an archive is foreign input. Its outside is checked before a byte is unpacked (zips.py); then
every body is hashed and the whole history followed, before a byte is stored.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import IO, Annotated, Any, TypeVar

from msgspec import Meta, Struct, ValidationError, convert

from contextrelay.bounded.zips import WRONG, ForeignZip
from contextrelay.core.push.push import check_push
from contextrelay.core.transfer.history_check import History
from contextrelay.documents.bounds import check_json, check_label
from contextrelay.documents.values import shown
from contextrelay.errors import Broken, Invalid, TooLarge
from contextrelay.limits import (
    ARCHIVE_BYTES_MAX,
    ARCHIVE_ENTRIES_MAX,
    ARCHIVE_HISTORY_BYTES_MAX,
    DAY_S,
    JSON_DEPTH_MAX,
    KIB,
    METADATA_BYTES_MAX,
    MIB,
    STATE_BYTES_MAX,
)
from contextrelay.model.artifact import Artifact
from contextrelay.model.ref import Ref
from contextrelay.model.thread import Event
from contextrelay.seal.stream import sealed_bytes_max
from contextrelay.verbs import Label, Push

FORMAT = "contextrelay.thread.v1"
MANIFEST, THREAD, STATE, EVENTS = "manifest.json", "thread.json", "state.json", "events.jsonl"
UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
LINE_BYTES_MAX = 2 * STATE_BYTES_MAX
"""One event: a patch may hold a whole state, and what it was compacted to."""
MANIFEST_BYTES_MAX = 16 * MIB

_NAME = re.compile(rf"(manifest|thread|state)\.json|events\.jsonl|artifacts/{UUID}\.(json|body)")
_DESCRIPTION_BYTES_MAX = METADATA_BYTES_MAX + 256 * KIB

Kind = TypeVar("Kind")


class Manifest(Struct, frozen=True, kw_only=True):
    """What an archive says of itself."""

    format: str
    thread_id: Ref
    version: Annotated[int, Meta(ge=1)]
    events: Annotated[int, Meta(ge=1)]
    artifacts: list[Ref]
    gone: list[Ref] = []
    """What the history names that was not there any more."""
    long: list[Ref] = []
    """Those of the artifacts whose bodies were stored in parts."""
    exported_at: str


class Record(Struct, frozen=True, kw_only=True):
    """What is taken over of a thread's record."""

    name: Label | None


class Item(Struct, frozen=True):
    """An artifact of an archive: its ref there, those it was made from, and how to push it."""

    ref: str
    source_refs: tuple[str, ...]
    size_bytes: int
    verb: Push


class Archive:
    """An opened zip whose outside was checked.

    Raises (when made or read):
        Invalid: it is no archive of ours; TooLarge where it passes a limit.
    """

    def __init__(self, spool: IO[bytes]) -> None:
        with _as_ours():
            self._zip = ForeignZip(spool, _NAME, ARCHIVE_ENTRIES_MAX)

    @property
    def names(self) -> set[str]:
        return self._zip.names

    def size_bytes(self, name: str) -> int:
        with _as_ours():
            return self._zip.size_bytes(name)

    def chunks(self, name: str) -> Iterator[bytes]:
        """The bytes of an entry: as many as were announced, or an error at the end."""
        with _as_ours():
            yield from self._zip.chunks(name)

    def read(self, name: str, kind: type[Kind], bytes_max: int) -> Kind:
        """The JSON of a small entry."""
        if self.size_bytes(name) > bytes_max:
            raise TooLarge(f"{name} in the archive is too large", f"at most {bytes_max} bytes")
        return _strictly(b"".join(self.chunks(name)), kind, name)

    def events(self) -> Iterator[Event]:
        """The history, a line at a time; `hash` is what the archive says."""
        if self.size_bytes(EVENTS) > ARCHIVE_HISTORY_BYTES_MAX:
            raise TooLarge(
                "the history in the archive is too long",
                f"at most {ARCHIVE_HISTORY_BYTES_MAX} bytes of events",
            )
        for number, line in enumerate(self._lines(EVENTS), 1):
            yield _strictly(line, _Line, f"event {number}").event()

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
            raise not_ours(f"{name} ends within a line")


class _Line(Struct, frozen=True, kw_only=True):
    """An event as a line of an archive has it."""

    id: Label
    type: Annotated[str, Meta(min_length=1, max_length=64)]
    at: Annotated[datetime, Meta(tz=True)]
    by: Label
    detail: dict[str, Any] = {}
    hash: str

    def event(self) -> Event:
        return Event(**{name: getattr(self, name) for name in self.__struct_fields__})


def check_archive(archive: Archive, body_bytes_max: int) -> tuple[Manifest, Record, list[Item]]:
    """Check all that an archive holds, bodies and history included.

    Raises:
        Invalid: something in it is not as it must be; TooLarge where it passes a limit.
        Broken: a body or an event is not what it was when it was exported.
    """
    manifest = archive.read(MANIFEST, Manifest, MANIFEST_BYTES_MAX)
    if manifest.format != FORMAT:
        raise not_ours(f"its format is {shown(manifest.format)}")
    record = archive.read(THREAD, Record, _DESCRIPTION_BYTES_MAX)
    if record.name is not None:
        check_label(record.name, "the thread's name")
    _check_names(archive, manifest)
    history = History(manifest.thread_id, {*manifest.artifacts, *manifest.gone})
    for event in archive.events():
        history.take(event)
    if (history.version, history.count) != (manifest.version, manifest.events):
        raise not_ours("its history is not complete")
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
        raise not_ours("it does not hold the artifacts that its manifest names")


def _check_order(items: list[Item]) -> None:
    """See that each stands behind what it was made from; other sources never were in the thread."""
    known = {item.ref for item in items}
    before: set[str] = set()
    for item in items:
        if not before.issuperset(ref for ref in item.source_refs if ref in known):
            raise not_ours(f"{item.ref} stands before what it was made from")
        before.add(item.ref)


def _checked_item(archive: Archive, ref: str, body_bytes_max: int) -> Item:
    described = archive.read(f"artifacts/{ref}.json", Artifact, _DESCRIPTION_BYTES_MAX)
    body_name = f"artifacts/{ref}.body"
    if described.ref != ref or described.size_bytes != archive.size_bytes(body_name):
        raise not_ours(f"artifacts/{ref}.json does not describe its body")
    if described.size_bytes > sealed_bytes_max(described.sealed, body_bytes_max):
        raise TooLarge(
            f"the body of {ref} is over {body_bytes_max} bytes",
            "raise body_bytes_max in the store's settings",
        )
    made_by = described.provenance
    fields = {
        "name": described.name,
        "type": described.type,
        "media_type": described.media_type,
        "metadata": described.metadata,
        # Until the thread holds it, it is but lent: what a crash leaves expires.
        "ttl_s": DAY_S,
        "created_by": made_by.created_by,
        "capability": made_by.capability,
        "sealed": described.sealed,
    }
    with _as_ours():
        verb = convert(fields, Push)
    check_push(verb)
    digest = hashlib.sha256()
    for chunk in archive.chunks(body_name):
        digest.update(chunk)
    if digest.hexdigest() != described.sha256:
        raise Broken(f"the body of {ref} has changed in the archive", "export it again")
    return Item(ref, made_by.source_refs, described.size_bytes, verb)


# Reading strictly


def _strictly(text: bytes, kind: type[Kind], what: str) -> Kind:
    """Read JSON that all readers understand alike; as deep as a value in a patch in an event."""
    with _as_ours(f"{what}: "):
        value = json.loads(text.decode(), object_pairs_hook=_members)
        check_json(value, what, LINE_BYTES_MAX, JSON_DEPTH_MAX + 4)
        return convert(value, kind)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member is there twice in one object")
    return members


@contextmanager
def _as_ours(what: str = "") -> Generator[None]:
    """Turn what zipfile and the decoders raise into our error."""
    try:
        yield
    except (*WRONG, ValidationError) as error:
        raise not_ours(f"{what}{error or type(error).__name__}") from error


def not_ours(why: str) -> Invalid:
    return Invalid(f"this is no thread of ours: {why[:300]}", "take a file made by: relay export")
