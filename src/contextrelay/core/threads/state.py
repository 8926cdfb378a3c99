"""States: patched, read at any version, compared, restored, compacted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Raw, to_builtins
from msgspec.json import encode

from contextrelay.core.registry import answers
from contextrelay.core.stores import Stores
from contextrelay.core.threads.head import past_state, state_at, state_of
from contextrelay.core.threads.patch import change, find_earlier_patch, try_change, unpatched
from contextrelay.documents.bounds import check_label
from contextrelay.documents.diff import diff_values
from contextrelay.documents.patch import Operation, read_operations
from contextrelay.errors import Conflict, Unavailable
from contextrelay.limits import RETRIES_MAX
from contextrelay.model.thread import Changes, HeaderView, Patched, StateView
from contextrelay.state.compaction import compact
from contextrelay.state.header import header
from contextrelay.state.schema import OWN_FIELDS, check_patch
from contextrelay.verbs import (
    Body,
    CompactState,
    DiffState,
    PatchState,
    ReadHeader,
    ReadState,
    RestoreState,
    TryPatch,
)

# Reading


@answers(ReadState)
def read_state(stores: Stores, verb: ReadState, body: Body) -> StateView:
    with state_of(stores, verb.thread, verb.version) as live:
        return StateView(
            thread_id=verb.thread, version=live.version, state=Raw(encode(live.document))
        )


@answers(ReadHeader)
def read_header(stores: Stores, verb: ReadHeader, body: Body) -> HeaderView:
    with state_of(stores, verb.thread, verb.version) as live:
        view = header(live.document)
    return HeaderView(truncated=view.truncated, header=Raw(view.json))


@answers(DiffState)
def diff_state(stores: Stores, verb: DiffState, body: Body) -> Changes:
    reading = state_of(stores, verb.thread, verb.new_version)
    with reading as new:
        old = past_state(stores, verb.thread, reading.head, verb.old_version, but=new)
        operations = plain_difference(old.document, new.document)
        return Changes(
            thread_id=verb.thread,
            old_version=verb.old_version,
            new_version=new.version,
            operations=[to_builtins(operation) for operation in operations],
        )


def plain_difference(old: dict[str, Any], new: dict[str, Any]) -> list[Operation]:
    """Return the operations that turn one state into another, ignoring the metadata of versions."""

    def plain(state: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in state.items() if key not in OWN_FIELDS}

    return diff_values(plain(old), plain(new))


# Changing


@answers(PatchState)
def patch_state(stores: Stores, verb: PatchState, body: Body) -> Patched:
    check_label(verb.by, "by")
    operations = read_operations(verb.operations)
    check_patch(operations)
    return change(
        stores, verb.thread, operations, verb.by, expected=verb.expected, merge=verb.merge
    )


@answers(TryPatch)
def try_patch(stores: Stores, verb: TryPatch, body: Body) -> Patched:
    operations = read_operations(verb.operations)
    check_patch(operations)
    return try_change(stores, verb.thread, operations)


@answers(RestoreState)
def restore_state(stores: Stores, verb: RestoreState, body: Body) -> Patched:
    past = state_at(stores, verb.thread, verb.version)

    def leading_back(document: dict[str, Any]) -> list[Operation]:
        return plain_difference(document, past.document)

    detail = {"restored_version": verb.version}
    return change_by(stores, verb.thread, verb.by, leading_back, detail)


@answers(CompactState)
def compact_state(stores: Stores, verb: CompactState, body: Body) -> Patched:
    return change_by(stores, verb.thread, verb.by, compact)


def change_by(
    stores: Stores,
    thread: str,
    by: str,
    find_operations: Callable[[dict[str, Any]], list[Operation]],
    detail: dict[str, Any] | None = None,
) -> Patched:
    """Patch a state with operations computed from it.

    After a concurrent change, compute them again.
    """
    for _ in range(RETRIES_MAX):
        with state_of(stores, thread) as live:
            if (before := find_earlier_patch(stores, thread)) is not None:
                return before
            operations = find_operations(live.document)
            if not operations:
                return unpatched(thread, live)
            try:
                return change(stores, thread, operations, by, expected=live.version, detail=detail)
            except Conflict:
                continue
    raise Unavailable(f"too many concurrent changes to thread {thread}", "try again")
