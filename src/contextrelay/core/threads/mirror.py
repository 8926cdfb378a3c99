"""The mirror: files in which people can read a thread, and one they may edit.

`threads/<id>/` in the store's folder has state.json, events.log and artifacts/<ref>.<ext>: written
on demand, and rebuilt from the ledger at any time. An edit of state.json is taken in when asked.

Rule: what a person wrote is not lost. An edit that was not taken in is put aside, not overwritten;
files and folders that are not ours are left alone; links are not followed.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG
from typing import Any, cast

from msgspec.json import encode, format

from contextrelay.core.answers import answers
from contextrelay.core.artifacts.bodies import opener
from contextrelay.core.artifacts.holds import held
from contextrelay.core.artifacts.records import find, is_over
from contextrelay.core.stores import Stores
from contextrelay.core.threads.events import history
from contextrelay.core.threads.head import catch_up, head_of, state_at
from contextrelay.core.threads.patch import change, patched_before
from contextrelay.core.threads.state import plain_difference, unpatched
from contextrelay.core.threads.threads import show
from contextrelay.errors import Conflict, Invalid, NotFound, RelayError
from contextrelay.limits import CHUNK_BYTES, STATE_BYTES_MAX, UNFINISHED_PUSH_S
from contextrelay.logic.content.artifact_type import extension
from contextrelay.logic.document.values import read_json
from contextrelay.logic.state.schema import check_patch
from contextrelay.model.artifact import Artifact
from contextrelay.model.ref import is_ref
from contextrelay.model.thread import Mirrored, Patched
from contextrelay.store.durable_files import make_folder, write_whole
from contextrelay.store.file_errors import from_os
from contextrelay.wire.verbs import AdoptState, Body, MirrorThread

# A state is written with its lines indented, which takes more room than the state.
_FILE_BYTES_MAX = 4 * STATE_BYTES_MAX
_REF_CHARS = 36
_DRAFT = re.compile(r"\..+\.[0-9a-f]{8}\.part")
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


@answers(MirrorThread)
def mirror_thread(stores: Stores, verb: MirrorThread, body: Body) -> Mirrored:
    view = show(stores, verb.thread)
    folder = _folder(stores, verb.thread)
    wanted = {_file_name(each): each for each in _artifacts(stores, verb.thread)}
    text = _spelled(stores, verb.thread, view.version)
    try:
        make_folder(folder / "artifacts")
        _put_edit_aside(stores, verb.thread, folder / "state.json")
        _tidy(folder, stores.now_ms())
        for entry in _tidy(folder / "artifacts", stores.now_ms()):
            if is_ref(entry.name[:_REF_CHARS]) and entry.name not in wanted:
                with suppress(FileNotFoundError):
                    os.unlink(entry.path)
    except OSError as error:
        raise from_os(error, folder) from error
    write_whole(folder / "state.json", [text])
    lines = (encode(event) + b"\n" for event in history(stores.ledger, verb.thread, view.events))
    write_whole(folder / "events.log", lines)
    for name, artifact in wanted.items():
        path = folder / "artifacts" / name
        if _sha256(path) != artifact.sha256:
            # A copy, so that an edit cannot reach the store.
            content = opener(stores, artifact.sha256, artifact.size_bytes, 0, artifact.size_bytes)
            write_whole(path, content(CHUNK_BYTES))
    return Mirrored(thread_id=verb.thread, folder=str(folder), files=2 + len(wanted))


def _folder(stores: Stores, thread: str) -> Path:
    home = stores.engine.home
    if home is None:
        raise Invalid("only a store in a folder has files to read", "use --store FOLDER")
    folder = home / "threads" / thread
    for each in (folder.parent, folder, folder / "artifacts"):
        if each.is_symlink():
            raise Invalid(f"{each} is a link, and leads elsewhere", "remove the link")
    return folder


def _artifacts(stores: Stores, thread: str) -> Iterator[Artifact]:
    for ref, _ in held(stores.ledger, thread):
        artifact = find(stores.ledger, ref)
        if artifact is not None and not is_over(artifact, stores.now_ms()):
            yield artifact


def _file_name(artifact: Artifact) -> str:
    return f"{artifact.ref}{extension(artifact.type, artifact.media_type)}"


def _spelled(stores: Stores, thread: str, version: int) -> bytes:
    return format(encode(state_at(stores, thread, version).document), indent=2) + b"\n"


def _put_edit_aside(stores: Stores, thread: str, path: Path) -> None:
    """Give a state.json that is not as it was written a name of its own, by its content."""
    if not path.is_file() or path.is_symlink():
        return
    text = _read(path)
    try:
        version = read_json(text, str(path), _FILE_BYTES_MAX)["version"]
        is_ours = text == _spelled(stores, thread, version)
    except (RelayError, LookupError, TypeError, ValueError):
        is_ours = False
    if not is_ours:
        path.rename(path.with_name(f"state.{hashlib.sha256(text).hexdigest()[:8]}.edited.json"))


def _read(path: Path) -> bytes:
    """A plain file of a bounded size; a link is not followed, a pipe not waited for."""
    handle = os.open(path, os.O_RDONLY | _NO_FOLLOW)
    with open(handle, "rb") as file:
        seen = os.fstat(handle)
        if not S_ISREG(seen.st_mode):
            raise Invalid(f"{path} is no plain file", "write it again: relay thread files")
        if seen.st_size > _FILE_BYTES_MAX:
            raise Invalid(f"{path} is too large", f"at most {_FILE_BYTES_MAX} bytes")
        return file.read(_FILE_BYTES_MAX + 1)


def _tidy(folder: Path, now_ms: int) -> list[os.DirEntry[str]]:
    """Delete what is left of writers that were killed; the files and links that are there."""
    with os.scandir(folder) as entries:
        files = [entry for entry in entries if not entry.is_dir(follow_symlinks=False)]
    for entry in files:
        with suppress(FileNotFoundError):
            written_ms = entry.stat(follow_symlinks=False).st_mtime * 1000
            if _DRAFT.fullmatch(entry.name) and written_ms < now_ms - UNFINISHED_PUSH_S * 1000:
                os.unlink(entry.path)
    return files


def _sha256(path: Path) -> str | None:
    """The hash of a plain file; None if it is none, and has to be written."""
    try:
        with open(os.open(path, os.O_RDONLY | _NO_FOLLOW), "rb") as file:
            if not S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


@answers(AdoptState)
def adopt_state(stores: Stores, verb: AdoptState, body: Body) -> Patched:
    if (before := patched_before(stores, verb.thread)) is not None:
        return before
    path = _folder(stores, verb.thread) / "state.json"
    try:
        text = _read(path)
    except OSError as error:
        raise NotFound(f"{path} cannot be read: {error}", "write it: relay thread files") from error
    document = read_json(text, str(path), _FILE_BYTES_MAX)
    edited = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
    if edited.get("thread_id") != verb.thread:
        raise Invalid(f"{path} is no state of this thread", "write it again: relay thread files")
    live = head_of(stores, verb.thread)
    with live.lock:
        catch_up(stores, verb.thread, live)
        edited_version = edited.get("version")
        if edited_version != live.version:
            raise Conflict(
                f"{path} is an edit of v{edited_version}; the newest is v{live.version}",
                "keep your edit aside, write the file again with: relay thread files",
            )
        operations = plain_difference(live.document, edited)
        if not operations:
            return unpatched(verb.thread, live)
        check_patch(operations)
        patched = change(
            stores,
            verb.thread,
            operations,
            verb.by,
            expected=live.version,
            detail={"adopted": "state.json"},
        )
    # So that the next edit is one of this version; the patch is done whether or not that works.
    with suppress(RelayError, OSError):
        if _read(path) == text:
            write_whole(path, [_spelled(stores, verb.thread, patched.version)])
    return patched
