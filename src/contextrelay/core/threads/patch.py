"""Changes: a patch creates the next version of a thread's state.

Rule: a patch is applied to the live state in place, under its lock, and committed with the head
that was read. If another writer was faster it is undone, the newer events are applied, and it is
tried again; the state is never deep-copied.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack
from datetime import datetime
from typing import Any

from msgspec import convert, to_builtins

from contextrelay.core.artifacts.holds import hold_writes, is_known, weights_in
from contextrelay.core.idempotency import find_earlier_answer, once_rows
from contextrelay.core.schema import RowKind
from contextrelay.core.stores import Stores
from contextrelay.core.threads.head import (
    LiveState,
    catch_up,
    find_record,
    head_of,
    metrics_of,
    state_at,
    state_of,
    take_snapshot_if_due,
    weights_of,
)
from contextrelay.documents.bounds import check_label
from contextrelay.documents.patch import Applied, Operation, apply, is_independent, undo
from contextrelay.errors import Broken, Conflict, NotFound, Refused, TooLarge, Unavailable
from contextrelay.limits import BUSY_MS_MAX, STATE_BYTES_MAX
from contextrelay.model.artifact import from_ms
from contextrelay.model.names import thread_log
from contextrelay.model.thread import PATCHED, Event, Patched
from contextrelay.state import event_chain
from contextrelay.state.compaction import compact
from contextrelay.state.schema import check_touched
from contextrelay.store.ledger import Fact, Row, Stale, Write

CHANGES_SHOWN_MAX = 100


class SharedWrites:
    """Writes to other logs that are committed together with a change of a thread."""

    def __init__(self, writes: list[Write]) -> None:
        self.writes = writes
        self.heads: list[int] = []
        """The heads of these logs after the commit."""


def change(
    stores: Stores,
    thread: str,
    operations: list[Operation],
    by: str,
    *,
    expected: int | None = None,
    merge: bool = False,
    detail: dict[str, Any] | None = None,
    events: tuple[Event, ...] = (),
    rows: tuple[Row, ...] = (),
    holding: Collection[str] = (),
    check: Callable[[LiveState], None] | None = None,
    shared: SharedWrites | None = None,
) -> Patched:
    """Patch the state of a thread and return the new version.

    An empty patch, or one of tests only, creates no version: the newest one is returned.
    `events`, `rows` and `shared` are committed together with the patch. `holding`: artifacts that
    the thread holds after the patch, besides those its state refers to. `check` is called with the
    state that the patch is applied to, and may raise to refuse the patch.

    Raises:
        Conflict: the version is not the expected one, or a `test` failed; `version` in its details
            is the one that was patched.
        NotFound: the thread does not exist, or the expected version does not exist yet: then
        `version`
            in its details is the newest.
        Refused: the result would violate the schema, or the thread is closed.
    """
    check_label(by, "by")
    live = head_of(stores, thread)
    deadline_ms = stores.now_ms() + BUSY_MS_MAX
    has_changes = _changes(operations) or bool(detail or events or rows or holding)
    with live.lock, ExitStack() as others_wait:
        if live.seq == 0 or not has_changes:
            catch_up(stores, thread, live)
        is_alone = False
        while True:
            if (before := find_earlier_patch(stores, thread)) is not None:
                return before
            if check is not None:
                check(live)
            _check_expected(stores, thread, live, operations, expected, merge)
            if not has_changes:
                return _tested(stores, thread, live, operations)
            patched = _try_change(
                stores, thread, live, operations, by, detail or {}, events, rows, holding, shared
            )
            if patched is not None:
                break
            if stores.now_ms() > deadline_ms:
                raise Unavailable(f"too many concurrent changes to thread {thread}", "try again")
            if not is_alone:
                others_wait.enter_context(stores.ledger.contention_lock())
                is_alone = True
            catch_up(stores, thread, live)
        take_snapshot_if_due(stores, thread, live)
        return patched


def try_change(stores: Stores, thread: str, operations: list[Operation]) -> Patched:
    """Return the result that `change` would have for the newest version, without writing anything.

    Raises: as `change` does.
    """
    with state_of(stores, thread) as live:
        _check_writable(stores, thread, live)
        done, plain, _ = _applied(stores, thread, live, operations, ())
        _undo(done)
        version = live.version + _changes(operations)
        return Patched(thread_id=thread, version=version, operations=plain)


def _changes(operations: list[Operation]) -> bool:
    return any(each.op != "test" for each in operations)


def _tested(stores: Stores, thread: str, live: LiveState, operations: list[Operation]) -> Patched:
    """Run the `test` operations of a patch that changes nothing; return its result."""
    _check_writable(stores, thread, live)
    try:
        apply(live.state, operations, live.size_bytes)
    except Conflict as error:
        error.details["version"] = live.version
        raise
    return unpatched(thread, live)


def unpatched(thread: str, live: LiveState) -> Patched:
    """Return the result of a patch that changes nothing."""
    updated_at = datetime.fromisoformat(live.document["updated_at"])
    return Patched(thread_id=thread, version=live.version, operations=[], updated_at=updated_at)


def find_earlier_patch(stores: Stores, thread: str) -> Patched | None:
    """Return the result of a patch by an earlier attempt of this request with a key, or None."""
    before = find_earlier_answer(stores, thread_log(thread))
    if before is None:
        return None
    return _patched(thread, event_at(stores, thread, int(before)))


def _patched(thread: str, event: Event) -> Patched:
    return Patched(
        thread_id=thread,
        version=event.detail["version"],
        operations=event.detail["operations"],
        updated_at=event.at,
    )


def new_event(stores: Stores, type: str, by: str, detail: dict[str, Any]) -> Event:
    check_label(by, "by")
    return Event(
        id=stores.random_bytes(8).hex(),
        type=type,
        at=from_ms(stores.now_ms()),
        by=by,
        detail=detail,
    )


def event_at(stores: Stores, thread: str, seq: int) -> Event:
    facts = stores.ledger.read(thread_log(thread), seq - 1, 1)
    if not facts:
        find_record(stores.ledger, thread)
        raise Broken(f"event {seq} of {thread} is missing", "check the store: relay verify")
    return event_chain.decode(facts[0].body)


def _check_expected(
    stores: Stores,
    thread: str,
    live: LiveState,
    operations: list[Operation],
    expected: int | None,
    merge: bool,
) -> None:
    if expected is None or expected == live.version:
        return
    catch_up(stores, thread, live)
    if expected == live.version:
        return
    if expected > live.version:
        raise NotFound(
            f"thread {thread} has no version {expected}; the newest is {live.version}",
            "read the state again",
            {"version": live.version},
        )
    since = _changes_since(stores, thread, live, expected)
    if merge and is_independent(operations, since, live.document):
        return
    raise Conflict(
        f"thread {thread} is at version {live.version}, not {expected}",
        "read the changes, then patch that version; or patch with merge",
        {
            "version": live.version,
            "changed": [to_builtins(each) for each in since[:CHANGES_SHOWN_MAX]],
        },
    )


def _changes_since(stores: Stores, thread: str, live: LiveState, version: int) -> list[Operation]:
    """Return the operations that were applied to the state after a version."""
    past = state_at(stores, thread, version)
    replayed = LiveState()
    replayed.state, replayed.version, replayed.seq = past.state, past.version, past.seq
    replayed.size_bytes, replayed.last = past.size_bytes, past.last
    done = catch_up(stores, thread, replayed)
    operations = [each for event in done for each in event.detail["operations"]]
    return convert(operations, list[Operation])


def _try_change(
    stores: Stores,
    thread: str,
    live: LiveState,
    operations: list[Operation],
    by: str,
    detail: dict[str, Any],
    events: tuple[Event, ...],
    rows: tuple[Row, ...],
    holding: Collection[str],
    shared: SharedWrites | None,
) -> Patched | None:
    """Apply a patch to the live state and commit it. On a conflict, undo it and return None."""
    _check_writable(stores, thread, live)
    try:
        done, plain, referred = _applied(stores, thread, live, operations, rows)
    except (Refused, Conflict, TooLarge) as error:
        if stores.ledger.last(thread_log(thread)) != live.seq:
            return None  # The patch was checked against a state that is no longer the newest.
        if isinstance(error, Conflict):
            error.details["version"] = live.version
        raise
    try:
        holds, held_rows = hold_writes(stores, thread, referred.union(holding))
        rows = (*rows, *held_rows)
        weights = weights_of(stores, thread, live).plus(weights_in(rows))
        uses = live.uses.after(*events)
        event = Event(
            id=stores.random_bytes(8).hex(),
            type=PATCHED,
            at=from_ms(stores.now_ms()),
            by=by,
            detail={
                "version": live.version + 1,
                "operations": plain,
                "metrics": metrics_of(weights, uses, done[-1].size_bytes),
                **detail,
            },
        )
        facts = _chained(live.last, (*events, event))
        rows = (*rows, *once_rows(stores, b"%d" % (live.seq + len(facts))))
        head = _commit(stores, thread, live, facts, rows, holds, shared)
    except BaseException:
        _undo(done)
        raise
    if head is None:
        _undo(done)
        return None
    live.seq, live.last, live.size_bytes = head, facts[-1], done[-1].size_bytes
    live.version += 1
    live.patch_bytes += len(facts[-1])
    live.weights, live.uses = weights, uses
    live.stamp(event)
    return _patched(thread, event)


def _applied(
    stores: Stores, thread: str, live: LiveState, operations: list[Operation], rows: tuple[Row, ...]
) -> tuple[list[Applied], list[dict[str, Any]], set[str]]:
    """Change the live state; return the undo steps, the operations and the new refs."""
    new_refs = {row.key for row in rows if row.kind == RowKind.ARTIFACT}
    referred: set[str] = set()

    def is_there(ref: str) -> bool:
        if ref not in new_refs:
            referred.add(ref)
        return ref in new_refs or is_known(stores, thread, ref)

    done = [apply(live.state, operations, live.size_bytes, STATE_BYTES_MAX)]
    try:
        plain = _plain(operations)
        check_touched(live.document, done[0].steps, is_there)
        compacting = compact(live.document)
        if compacting:
            plain += _plain(compacting)
            done.append(apply(live.state, compacting, done[0].size_bytes, STATE_BYTES_MAX))
    except BaseException:
        _undo(done)
        raise
    return done, plain, referred


def _check_there(stores: Stores, thread: str, live: LiveState) -> None:
    """Raise an error if a thread was removed after its state was read."""
    if live.is_removed:
        find_record(stores.ledger, thread)


def _check_writable(stores: Stores, thread: str, live: LiveState) -> None:
    _check_there(stores, thread, live)
    if live.is_closed:
        raise Refused(f"thread {thread} is closed", "fork it: relay thread fork")


def _undo(done: list[Applied]) -> None:
    for applied in reversed(done):
        undo(applied.steps)


def _plain(operations: list[Operation]) -> list[dict[str, Any]]:
    return [to_builtins(operation) for operation in operations]


def _chained(last: bytes, events: tuple[Event, ...]) -> tuple[bytes, ...]:
    """Return the bodies of facts for some events, each with the hash of the previous one."""
    bodies: list[bytes] = []
    for event in events:
        last = event_chain.encode(event, last)
        bodies.append(last)
    return tuple(bodies)


def _commit(
    stores: Stores,
    thread: str,
    live: LiveState,
    facts: tuple[bytes, ...],
    rows: tuple[Row, ...],
    holds: list[Write],
    shared: SharedWrites | None,
) -> int | None:
    """Commit to the thread's log and to related logs; return the new head, or None if the thread's
    head moved.

    Raises:
        Stale: the head of another log moved.
    """
    write = Write(thread_log(thread), facts, rows, expect=live.seq, after=live.last)
    shared = shared or SharedWrites([])
    try:
        *heads, head = stores.ledger.commit(*shared.writes, *holds, write)
    except Stale as stale:
        if stale.log != write.log:
            raise
        return None
    shared.heads = heads[: len(shared.writes)]
    return head


def append_event(
    stores: Stores,
    thread: str,
    event: Event,
    rows: tuple[Row, ...] = (),
    check: Callable[[LiveState], None] | None = None,
    *,
    shared: SharedWrites | None = None,
) -> int:
    """Add an event that does not change the state; return its seq.

    A retry returns the seq of the first attempt.

    `check` is called with the state that precedes the event, and may raise to refuse the event.
    `shared` is committed together with the event.
    """
    live = head_of(stores, thread)
    deadline_ms = stores.now_ms() + BUSY_MS_MAX
    with live.lock, stores.ledger.contention_lock():
        while True:
            catch_up(stores, thread, live)
            before = find_earlier_answer(stores, thread_log(thread))
            if before is not None:
                return int(before)
            _check_there(stores, thread, live)
            if check is not None:
                check(live)
            facts = _chained(live.last, (event,))
            done = (*rows, *once_rows(stores, b"%d" % (live.seq + 1)))
            head = _commit(stores, thread, live, facts, done, [], shared)
            if head is not None:
                live.take(Fact(head, facts[-1]))
                return head
            if stores.now_ms() > deadline_ms:
                raise Unavailable(f"too many concurrent changes to thread {thread}", "try again")
