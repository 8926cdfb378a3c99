"""The mirror: files in which people can read a thread, and one they may edit.

`threads/<id>/` in the store's folder has state.json, events.log and artifacts/<ref>.<ext>: written
on demand, and rebuilt from the ledger at any time. An edit of state.json is taken in when asked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from msgspec.json import encode, format

from contextrelay.core.answering import answers
from contextrelay.core.artifacts import find
from contextrelay.core.bodies import opener
from contextrelay.core.changes import change
from contextrelay.core.holding import held
from contextrelay.core.live import catch_up, head_of, state_at
from contextrelay.core.portable import history
from contextrelay.core.states import plain_difference
from contextrelay.core.stores import Stores
from contextrelay.core.threads import show
from contextrelay.errors import Conflict, Invalid, NotFound
from contextrelay.limits import CHUNK_BYTES, STATE_BYTES_MAX
from contextrelay.logic.documents import read_json
from contextrelay.logic.kinds import extension
from contextrelay.logic.state import check_patch
from contextrelay.model.thread import Mirrored, Patched
from contextrelay.store.folders import make_folder, write_whole
from contextrelay.wire.verbs import AdoptState, Body, MirrorThread


@answers(MirrorThread)
def mirror_thread(stores: Stores, verb: MirrorThread, body: Body) -> Mirrored:
    view = show(stores, verb.thread)
    folder = _folder(stores, verb.thread)
    make_folder(folder / "artifacts")
    state = state_at(stores, verb.thread, view.version)
    write_whole(folder / "state.json", [format(encode(state.document), indent=2) + b"\n"])
    lines = (encode(event) + b"\n" for event in history(stores, verb.thread, view.events))
    write_whole(folder / "events.log", lines)
    wanted = dict(_artifact_files(stores, verb.thread))
    for entry in os.scandir(folder / "artifacts"):
        if entry.name not in wanted:
            with suppress(FileNotFoundError):
                os.unlink(entry.path)
    for name, ref in wanted.items():
        _mirror_body(stores, folder / "artifacts" / name, ref)
    return Mirrored(thread_id=verb.thread, folder=str(folder), files=2 + len(wanted))


def _folder(stores: Stores, thread: str) -> Path:
    home = stores.engine.home
    if home is None:
        raise Invalid("only a store in a folder has files to read", "use --store FOLDER")
    return home / "threads" / thread


def _artifact_files(stores: Stores, thread: str) -> Iterator[tuple[str, str]]:
    for ref, _ in held(stores.ledger, thread):
        artifact = find(stores.ledger, ref)
        if artifact is not None:
            yield f"{ref}{extension(artifact.type, artifact.media_type)}", ref


def _mirror_body(stores: Stores, path: Path, ref: str) -> None:
    """Copy a body, unless it is there: a copy, so that an edit cannot reach the store."""
    artifact = find(stores.ledger, ref)
    if artifact is None or (path.is_file() and path.stat().st_size == artifact.size_bytes):
        return
    size_bytes = artifact.size_bytes
    write_whole(path, opener(stores, artifact.sha256, size_bytes, 0, size_bytes)(CHUNK_BYTES))


@answers(AdoptState)
def adopt_state(stores: Stores, verb: AdoptState, body: Body) -> Patched:
    path = _folder(stores, verb.thread) / "state.json"
    try:
        text = path.read_bytes()
    except OSError as error:
        raise NotFound(f"{path} cannot be read: {error}", "write it: relay thread files") from error
    if len(text) > 2 * STATE_BYTES_MAX:
        raise Invalid(f"{path} is too large", f"at most {STATE_BYTES_MAX} bytes of state")
    document = read_json(text, str(path))
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
            return Patched(thread_id=verb.thread, version=live.version, operations=[])
        check_patch(operations)
        return change(
            stores,
            verb.thread,
            operations,
            verb.by,
            expected=live.version,
            detail={"adopted": "state.json"},
        )
