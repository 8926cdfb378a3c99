"""Handoff files: a handoff as one zip with the bodies of its refs.

    handoff.json            the original bytes of the handoff
    refs/<ref>.json         the description of each ref
    refs/<ref>              the body of each ref, unless it is sealed

A sealed body is omitted, because only a holder of its key may read it.

Rule: the file is untrusted. Counts, names, sizes and hashes are checked before anything is stored,
and at most one body is in memory at a time.
"""

from __future__ import annotations

import hashlib
import os
import re
import zipfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from msgspec import DecodeError, Struct, ValidationError
from msgspec.json import decode, encode

from contextrelay.bounded.zips import WRONG, ForeignZip, method_for
from contextrelay.errors import Invalid, RelayError, TooLarge
from contextrelay.limits import (
    BODY_BYTES_MAX,
    SOURCE_REFS_MAX,
)
from contextrelay.model.artifact import ArtifactType
from contextrelay.model.handoff import Handoff, HandoffView
from contextrelay.model.ref import REF_PATTERN, is_ref

if TYPE_CHECKING:
    from contextrelay.client.relay import Relay

HANDOFF, REFS = "handoff.json", "refs/"
ENTRIES_MAX = 1 + 2 * SOURCE_REFS_MAX
_NAME = re.compile(rf"handoff\.json|refs/{REF_PATTERN[1:-1]}(\.json)?")


class _About(Struct, frozen=True):
    """The description of a ref in a handoff file."""

    name: str | None
    type: ArtifactType
    media_type: str
    sha256: str


class ImportedHandoff(Struct, frozen=True):
    """An imported handoff; `refs` maps the refs in the file to the new refs."""

    view: HandoffView
    refs: dict[str, str]


def write_handoff(relay: Relay, ref: str, path: str | os.PathLike[str]) -> HandoffView:
    """Write a handoff to a file, completely or not at all."""
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
        raise Invalid(
            f"{place} cannot be written: {error.strerror}", "pass another path"
        ) from error
    finally:
        aside.unlink(missing_ok=True)
    return view


def _write(relay: Relay, view: HandoffView, file: BinaryIO) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        given = relay.pull(view.ref)
        archive.writestr(HANDOFF, given, method_for(len(given), (given,)))
        for handed in view.handoff.refs:
            artifact = relay.peek(handed.ref, shown_chars=0)
            if artifact.sealed is None:
                about = _About(artifact.name, artifact.type, artifact.media_type, artifact.sha256)
                archive.writestr(f"{REFS}{handed.ref}.json", encode(about))
                body = relay.pull(handed.ref)
                archive.writestr(f"{REFS}{handed.ref}", body, method_for(len(body), (body,)))


def take_handoff(relay: Relay, path: str | os.PathLike[str], by: str = "") -> ImportedHandoff:
    """Import a handoff from a file; its refs are stored in a new thread.

    Raises:
        Invalid: the file is not a handoff file, or is incomplete.
    """
    with _opened(path) as archive:
        body = _read(archive, HANDOFF)
        handoff = decode(body, type=Handoff)
        artifacts = _checked(archive, handoff)
        refs: dict[str, str] = {}
        if artifacts:
            thread = relay.new_thread(f"handoff from {handoff.giver}"[:100], by)
            try:
                for ref, about in artifacts.items():
                    body_of_ref = _read(archive, f"{REFS}{ref}")
                    options: Any = {"name": about.name, "type": about.type, "created_by": by}
                    made = thread.put(body_of_ref, media_type=about.media_type, **options)
                    refs[ref] = made.ref
            except RelayError:
                thread.remove()
                raise
    sha256 = hashlib.sha256(body).hexdigest()
    return ImportedHandoff(HandoffView(ref="", sha256=sha256, handoff=handoff), refs)


# Checking


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Generator[ForeignZip]:
    """Open a file as a zip; convert errors of reading it to `Invalid`."""
    try:
        with open(path, "rb") as file:
            yield ForeignZip(file, _NAME, ENTRIES_MAX)
    except (*WRONG, DecodeError, ValidationError) as error:
        said = str(error)[:200] or type(error).__name__
        raise Invalid(
            f"{path} is not a valid handoff file: {said}", "ask the sender for a new copy"
        ) from error


def _checked(archive: ForeignZip, handoff: Handoff) -> dict[str, _About]:
    """Check the hash of every body in the file; return the descriptions by ref.

    Bodies are not kept.
    """
    if len(handoff.refs) > SOURCE_REFS_MAX:
        raise TooLarge(f"{len(handoff.refs)} refs", f"at most {SOURCE_REFS_MAX}")
    names, found = archive.names, dict[str, _About]()
    for each in handoff.refs:
        if not is_ref(each.ref):
            raise ValueError(f"invalid ref {each.ref!r:.80}")
        if f"{REFS}{each.ref}.json" in names:
            found[each.ref] = decode(_read(archive, f"{REFS}{each.ref}.json"), type=_About)
            digest = hashlib.sha256()
            for chunk in _chunks(archive, f"{REFS}{each.ref}"):
                digest.update(chunk)
            if digest.hexdigest() != found[each.ref].sha256:
                raise ValueError(f"{each.ref} does not match the handoff")
    return found


def _read(archive: ForeignZip, name: str) -> bytes:
    return b"".join(_chunks(archive, name))


def _chunks(archive: ForeignZip, name: str) -> Iterator[bytes]:
    """Yield the chunks of a member of the zip; raise TooLarge above the size limit of a body."""
    if archive.size_bytes(name) > BODY_BYTES_MAX:
        raise TooLarge(f"{name} in the file is too large", f"at most {BODY_BYTES_MAX:,} bytes")
    return archive.chunks(name)
