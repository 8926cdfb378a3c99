"""Entries of a state, added and resolved without writing a patch.

The id of an entry is chosen in one version of the state. If that version is no longer the newest,
the patch is computed again for the newest one, so that several callers may add at once
(state/schema.py).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from msgspec import to_builtins
from msgspec.json import decode
from msgspec.structs import asdict

from contextrelay.client.flow import Flow
from contextrelay.documents.patch import Operation
from contextrelay.errors import Conflict, Unavailable
from contextrelay.limits import RETRIES_MAX
from contextrelay.model.thread import Added, Patched
from contextrelay.state.schema import Kind, NewEntry, State, entry_operations, resolve_operations
from contextrelay.verbs import PatchState, ReadState


def add_entry(thread: str, kind: Kind, text: str, by: str = "", **options: Any) -> Flow[Added]:
    """Add one entry to the state of a thread.

    A fact with a key replaces the facts with the same key.

    Raises:
        Refused: a value is not allowed.
        Unavailable: there are too many concurrent changes to the thread.
    """
    entry = NewEntry(kind=kind, text=text, **options)
    at = now()
    chosen = ""

    def added(state: State) -> list[Operation]:
        nonlocal chosen
        chosen, operations = entry_operations(state, entry, at)
        return operations

    patched = yield from _patch(thread, added, by)
    return Added(**asdict(patched), id=chosen)


def now() -> str:
    """Return the current time in the format of entries."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def resolve_entry(thread: str, id: str, by: str = "") -> Flow[Patched]:
    """Mark a question as resolved, or a step of the plan as done; a second call changes nothing.

    Raises:
        NotFound: no question or step has this id.
        Unavailable: there are too many concurrent changes to the thread.
    """
    return (yield from _patch(thread, lambda state: resolve_operations(state, id), by))


def _patch(thread: str, change: Callable[[State], list[Operation]], by: str) -> Flow[Patched]:
    """Patch the newest version with the operations that `change` returns.

    After a concurrent change, try again.
    """
    for _ in range(RETRIES_MAX):
        state: State = decode((yield ReadState(thread)).state)
        version: int = state["version"]
        operations = [to_builtins(each) for each in change(state)]
        if not operations:
            return Patched(thread_id=thread, version=version, operations=[])
        try:
            return (yield PatchState(thread, operations, version, by=by))
        except Conflict:
            continue
    raise Unavailable(f"too many concurrent changes to thread {thread}", "try again")
