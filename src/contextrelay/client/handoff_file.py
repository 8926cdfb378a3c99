"""Handoff files: a handoff in one zip, with the bodies of its refs, for who has no server to share.

    handoff.json            the very bytes that were given
    refs/<ref>.json         what each ref is
    refs/<ref>              its body; none of a sealed one: only who has its key may read it

Rule: the file comes from anywhere. Counts, names, sizes and hashes are checked before anything is
stored, and no more than one body is held at a time.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from struct import unpack_from
from typing import TYPE_CHECKING, Any, BinaryIO

from msgspec import DecodeError, Struct, ValidationError
from msgspec.json import decode, encode

from contextrelay.errors import Invalid, RelayError, TooLarge
from contextrelay.limits import (
    ARCHIVE_BYTES_MAX,
    ARCHIVE_RATIO_MAX,
    BODY_BYTES_MAX,
    CHUNK_BYTES,
    HANDOFF_DIRECTORY_BYTES_MAX,
    SOURCE_REFS_MAX,
)
from contextrelay.model.artifact import ArtifactType
from contextrelay.model.handoff import Handoff, HandoffView
from contextrelay.model.ref import is_ref

if TYPE_CHECKING:
    from contextrelay.client.relay import Relay
    from contextrelay.client.thread import Thread

HANDOFF, REFS = "handoff.json", "refs/"
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_IS_ENCRYPTED = 1
_END_BYTES = 22
_COMMENT_BYTES_MAX = 0xFFFF


class _Told(Struct, frozen=True):
    """What a ref in the file is."""

    name: str | None
    type: ArtifactType
    media_type: str
    sha256: str


class Taken(Struct, frozen=True):
    """A handoff out of a file, and the refs that its refs have become here."""

    view: HandoffView
    refs: dict[str, str]


def write_handoff(relay: Relay, ref: str, path: str | os.PathLike[str]) -> HandoffView:
    """Write a handoff to a file, whole or not at all."""
    view = relay.handoff(ref)
    place = Path(path)
    aside = place.with_name(f".{place.name}.{os.urandom(4).hex()}")
    try:
        with aside.open("xb") as file:
            _write(relay, view, file)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(place)
    except OSError as error:
        raise Invalid(f"{place} cannot be written: {error.strerror}", "name another") from error
    finally:
        aside.unlink(missing_ok=True)
    return view


def _write(relay: Relay, view: HandoffView, file: BinaryIO) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(HANDOFF, relay.pull(view.ref))
        for handed in view.handoff.refs:
            artifact = relay.peek(handed.ref)
            if artifact.sealed is None:
                told = _Told(artifact.name, artifact.type, artifact.media_type, artifact.sha256)
                archive.writestr(f"{REFS}{handed.ref}.json", encode(told))
                archive.writestr(f"{REFS}{handed.ref}", relay.pull(handed.ref))


def take_handoff(relay: Relay, path: str | os.PathLike[str], by: str = "you") -> Taken:
    """Take a handoff out of a file; its refs are stored here, in a thread of their own.

    Raises:
        Invalid: it is no handoff file, or not whole.
    """
    with _opened(path) as archive:
        body = _read(archive, HANDOFF)
        handoff = decode(body, type=Handoff)
        told = _checked(archive, handoff)
        refs: dict[str, str] = {}
        if told:
            thread = relay.new_thread(f"handoff from {handoff.giver}"[:100], by)
            try:
                refs = _stored(archive, told, thread, by)
            except RelayError:
                thread.remove()
                raise
    sha256 = hashlib.sha256(body).hexdigest()
    return Taken(HandoffView(ref="", sha256=sha256, handoff=handoff), refs)


def _stored(
    archive: zipfile.ZipFile, told: dict[str, _Told], thread: Thread, by: str
) -> dict[str, str]:
    refs: dict[str, str] = {}
    for ref, each in told.items():
        options: dict[str, Any] = {"name": each.name, "type": each.type}
        content = _read(archive, f"{REFS}{ref}")
        made = thread.put(content, media_type=each.media_type, created_by=by, **options)
        refs[ref] = made.ref
    return refs


# Checking


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Generator[zipfile.ZipFile]:
    """A file as a zip; whatever is wrong with it is an error of ours."""
    try:
        with open(path, "rb") as file:
            _check_directory(file)
            with zipfile.ZipFile(file) as archive:
                _check_members(archive.infolist())
                yield archive
    except (
        OSError,
        zipfile.BadZipFile,
        zlib.error,
        KeyError,
        EOFError,
        ValueError,
        DecodeError,
        ValidationError,
        RecursionError,
        NotImplementedError,
        OverflowError,
    ) as error:
        said = str(error)[:200] or type(error).__name__
        raise Invalid(f"{path} is no handoff file: {said}", "ask for it again") from error


def _check_directory(file: BinaryIO) -> None:
    """Refuse a file that lists more than a handoff can hold, before the list is read."""
    size_bytes = file.seek(0, os.SEEK_END)
    file.seek(max(0, size_bytes - _END_BYTES - _COMMENT_BYTES_MAX))
    tail = file.read()
    end = tail.rfind(b"PK\x05\x06")
    if end < 0 or len(tail) - end < _END_BYTES:
        raise ValueError("it is no zip, or was cut short")
    (directory_bytes,) = unpack_from("<L", tail, end + 12)
    if directory_bytes > HANDOFF_DIRECTORY_BYTES_MAX:
        raise TooLarge("the file has too many entries", f"at most {SOURCE_REFS_MAX} refs")
    file.seek(0)


def _check_members(members: list[zipfile.ZipInfo]) -> None:
    """Refuse members that could harm: by how they are packed, or by what they unpack to."""
    total_bytes = 0
    for each in members:
        if each.flag_bits & _IS_ENCRYPTED or each.compress_type not in _METHODS:
            raise ValueError(f"{each.filename!r:.80} is packed in a way that is not read here")
        total_bytes += each.file_size
        most_bytes = ARCHIVE_RATIO_MAX * max(each.compress_size, CHUNK_BYTES)
        if each.file_size > most_bytes or total_bytes > ARCHIVE_BYTES_MAX:
            raise TooLarge("the file unpacks to too much", "check where it comes from")


def _checked(archive: zipfile.ZipFile, handoff: Handoff) -> dict[str, _Told]:
    """What the file has of the refs of a handoff, every hash looked at; nothing is kept of it."""
    if len(handoff.refs) > SOURCE_REFS_MAX:
        raise TooLarge(f"{len(handoff.refs)} refs", f"at most {SOURCE_REFS_MAX}")
    names, found = set(archive.namelist()), dict[str, _Told]()
    for each in handoff.refs:
        if not is_ref(each.ref):
            raise ValueError(f"{each.ref!r:.80} is no ref")
        if f"{REFS}{each.ref}.json" in names:
            found[each.ref] = decode(_read(archive, f"{REFS}{each.ref}.json"), type=_Told)
            if _hashed(archive, f"{REFS}{each.ref}") != found[each.ref].sha256:
                raise ValueError(f"{each.ref} in it is not what was given")
    return found


def _hashed(archive: zipfile.ZipFile, name: str) -> str:
    digest, size_bytes = hashlib.sha256(), 0
    with archive.open(name) as member:
        while chunk := member.read(CHUNK_BYTES):
            size_bytes += len(chunk)
            _check_size(name, size_bytes)
            digest.update(chunk)
    return digest.hexdigest()


def _read(archive: zipfile.ZipFile, name: str) -> bytes:
    """A member, no larger than a body may be, whatever the file says of it."""
    with archive.open(name) as member:
        body = member.read(BODY_BYTES_MAX + 1)
    _check_size(name, len(body))
    return body


def _check_size(name: str, size_bytes: int) -> None:
    if size_bytes > BODY_BYTES_MAX:
        raise TooLarge(f"{name} in the file is too large", f"at most {BODY_BYTES_MAX:,} bytes")
