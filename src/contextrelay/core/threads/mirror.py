"""The mirror: files in which people can read a thread, one of them editable.

`threads/<id>/` in the store's folder has state.json, events.log and artifacts/<ref>.<ext>. They are
written on demand, and can be rebuilt from the ledger at any time. An edit of state.json is applied
on request.

Rule: edits by people are never lost. An edit that was not applied is renamed, not overwritten;
files and folders of others are left alone; links are not followed.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any, cast

from msgspec.json import encode

from contextrelay.content.artifact_type import extension
from contextrelay.core.artifacts.bodies import read_body
from contextrelay.core.artifacts.holds import listed, unexpired
from contextrelay.core.registry import answers
from contextrelay.core.stores import Stores
from contextrelay.core.threads.events import history
from contextrelay.core.threads.head import state_of
from contextrelay.core.threads.mirror_files import (
    FILE_BYTES_MAX,
    REF_CHARS,
    mirror_folder,
    put_edit_aside,
    read_plain,
    sha256_of,
    spelled_state,
    tidy,
)
from contextrelay.core.threads.patch import change, find_earlier_patch, unpatched
from contextrelay.core.threads.state import plain_difference
from contextrelay.core.threads.threads import show
from contextrelay.documents.values import read_json
from contextrelay.errors import Conflict, Invalid, NotFound, RelayError
from contextrelay.model.ref import is_ref
from contextrelay.model.thread import Mirrored, Patched
from contextrelay.state.schema import check_patch
from contextrelay.store.durable_files import make_folder, write_whole
from contextrelay.store.file_errors import from_os
from contextrelay.verbs import AdoptState, Body, MirrorThread


@answers(MirrorThread)
def mirror_thread(stores: Stores, verb: MirrorThread, body: Body) -> Mirrored:
    view = show(stores, verb.thread)
    folder = mirror_folder(stores, verb.thread)
    wanted = {
        f"{each.ref}{extension(each.type, each.media_type)}": each
        for each in unexpired(stores.ledger, listed(stores.ledger, verb.thread), stores.now_ms())
    }
    text = spelled_state(stores, verb.thread, view.version)
    try:
        make_folder(folder / "artifacts")
        put_edit_aside(stores, verb.thread)
        tidy(folder, stores.now_ms())
        for entry in tidy(folder / "artifacts", stores.now_ms()):
            if is_ref(entry.name[:REF_CHARS]) and entry.name not in wanted:
                with suppress(FileNotFoundError):
                    os.unlink(entry.path)
    except OSError as error:
        raise from_os(error, folder) from error
    write_whole(folder / "state.json", [text])
    lines = (encode(event) + b"\n" for event in history(stores.ledger, verb.thread, view.events))
    write_whole(folder / "events.log", lines)
    for name, artifact in wanted.items():
        path = folder / "artifacts" / name
        if sha256_of(path) != artifact.sha256:
            # Copy the file, so that an edit cannot change the store.
            write_whole(path, read_body(stores, artifact))
    return Mirrored(thread_id=verb.thread, folder=str(folder), files=2 + len(wanted))


@answers(AdoptState)
def adopt_state(stores: Stores, verb: AdoptState, body: Body) -> Patched:
    if (before := find_earlier_patch(stores, verb.thread)) is not None:
        return before
    path = mirror_folder(stores, verb.thread) / "state.json"
    try:
        text = read_plain(path)
    except OSError as error:
        raise NotFound(f"cannot read {path}: {error}", "write it: relay thread files") from error
    document = read_json(text, str(path), FILE_BYTES_MAX)
    edited = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
    if edited.get("thread_id") != verb.thread:
        raise Invalid(f"{path} is not a state of this thread", "write it again: relay thread files")
    with state_of(stores, verb.thread) as live:
        edited_version = edited.get("version")
        if edited_version != live.version:
            raise Conflict(
                f"{path} is an edit of v{edited_version}; the newest version is v{live.version}",
                "save your edit elsewhere and write the file again: relay thread files",
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
    # Write the file again, so that the next edit is based on this version. The patch is committed
    # even if writing fails.
    with suppress(RelayError, OSError):
        if read_plain(path) == text:
            write_whole(path, [spelled_state(stores, verb.thread, patched.version)])
    return patched
