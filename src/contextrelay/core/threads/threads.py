"""Threads: created, found, listed, forked, closed and removed.

The log `i/t` has a row for each thread, newest first; `i/k/<kind>` for those of a kind; `i/n` one
for each thread that has a name, by name, unless it has a kind. All are hints: the thread's own log
decides.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from itertools import islice
from typing import Any

from msgspec.json import decode, encode
from msgspec.structs import asdict, replace

from contextrelay.core.artifacts.holds import held, hold_writes, is_held, listed, unhold_write
from contextrelay.core.artifacts.lifetime import replace_with_tombstones
from contextrelay.core.artifacts.records import find, find_readable
from contextrelay.core.idempotency import find_earlier_answer, once_rows, step
from contextrelay.core.registry import answers
from contextrelay.core.schema import THREAD_NAMES, RowKind, thread_index, walk_rows
from contextrelay.core.stores import Stores, author_name
from contextrelay.core.threads.head import (
    LiveState,
    find_record,
    state_at,
    state_of,
    unreadable,
    weights_of,
)
from contextrelay.core.threads.mirror_files import keep_edit, remove_mirror
from contextrelay.core.threads.patch import SharedWrites, append_event, new_event
from contextrelay.documents.bounds import check_label
from contextrelay.errors import Broken, Gone, NotFound, Unavailable
from contextrelay.limits import DAY_S, FIND_ITEMS_MAX, PAGE_ROWS_MAX, RETRIES_MAX, TOMBSTONE_S
from contextrelay.model.artifact import Artifact, format_time, from_ms, to_ms
from contextrelay.model.names import THREADS, thread_log
from contextrelay.model.thread import (
    CREATED,
    Event,
    ThreadKind,
    ThreadRecord,
    ThreadView,
    ambiguous_name,
)
from contextrelay.state import event_chain
from contextrelay.state.schema import OWN_FIELDS, new_state
from contextrelay.store.ledger import ONLY, Row, Stale, Write
from contextrelay.verbs import (
    Body,
    CloseThread,
    FindThreads,
    ForkThread,
    ListThreadArtifacts,
    NewThread,
    OpenThread,
    RemoveThread,
    ShowThread,
)

# A running task reports every day (RUN_ALIVE_S). If there is no report for this long, its process
# was killed.
UNENDED_KEPT_S_MIN = 7 * DAY_S


REF_CHARS = 36
_END_MS = 10**14 - 1


# Creating


@answers(NewThread)
def new_thread(stores: Stores, verb: NewThread, body: Body) -> ThreadView:
    return make(stores, verb.name, verb.by, None, None)


@answers(ForkThread)
def fork_thread(stores: Stores, verb: ForkThread, body: Body) -> ThreadView:
    if (made := find_earlier_thread(stores)) is not None:
        return made
    version = verb.version
    if version is None:
        version = show(stores, verb.thread).version
    past = state_at(stores, verb.thread, version)
    return make(stores, verb.name, verb.by, past.document, f"{verb.thread}@v{version}")


def make(
    stores: Stores,
    name: str | None,
    by: str,
    state: dict[str, Any] | None,
    origin: str | None,
    names_head: int | None = None,
    kind: ThreadKind | None = None,
    more: tuple[Event, ...] = (),
) -> ThreadView:
    """Create a thread at version 1 with a state, or with an empty one if None, and add more events.

    Raises:
        Stale: `names_head` is given, and another thread got a name since that head was read.
    """
    if name is not None:
        check_label(name, "name")
    if (made := find_earlier_thread(stores)) is not None:
        return made
    thread = new_id(stores)
    created_at = from_ms(stores.request_ms())
    record = ThreadRecord(
        thread_id=thread,
        name=name,
        status="open",
        created_at=created_at,
        created_by=by,
        forked_from=origin,
        kind=kind,
    )
    fresh = new_state(thread, format_time(created_at))
    begun = {**fresh, **state, **{key: fresh[key] for key in OWN_FIELDS}} if state else fresh
    holds, rows = hold_writes(stores, thread, _refs_in(begun))
    first = event_chain.encode(
        new_event(stores, "thread.created", by, {"name": name, "from": origin}), b""
    )
    second = event_chain.encode(new_event(stores, CREATED, by, {"state": begun}), first)
    if kind == "pipeline":
        whose = Row(RowKind.OWNER, ONLY, caller_id(stores).encode())
        rows = (*rows, retention_row(stores, is_over=False), whose)
    facts = [first, second]
    for event in more:
        facts.append(event_chain.encode(event, facts[-1]))
    begin = Write(thread_log(thread), tuple(facts), (record_row(record), *rows), expect=0)
    try:
        stores.ledger.commit(*index_writes(record, names_head), *holds, begin)
    except Stale as stale:
        if stores.once is None or stale.log != begin.log:
            raise
        # The same request with a key, sent in parallel, was faster.
    return show(stores, thread)


def new_id(stores: Stores) -> str:
    """Return an id for a new thread. For a request with a key, the id is always the same."""
    return stores.new_ref() if stores.once is None else stores.once.ref("thread")


def caller_id(stores: Stores) -> str:
    """Return the id of the caller's key; "" for the store's owner."""
    return "" if stores.caller is None else stores.caller.key.id


def find_earlier_thread(stores: Stores) -> ThreadView | None:
    """Return the thread that an earlier attempt of this request created, or None."""
    if stores.once is None or stores.ledger.last(thread_log(new_id(stores))) == 0:
        return None
    return show(stores, new_id(stores))


def _refs_in(state: dict[str, Any]) -> set[str]:
    """Return the refs of all artifacts that a state names."""
    named = [each["ref"] for each in state["artifacts"]]
    named += [ref for each in state["decisions"] for ref in each["evidence_refs"]]
    named += [each["result_ref"] for each in state["last_actions"] if "result_ref" in each]
    return set(named)


def index_writes(record: ThreadRecord, names_head: int | None = None) -> list[Write]:
    """Return the writes that index a thread; they are done before the thread itself is written."""
    writes: list[Write] = []
    if record.name and record.kind is None:
        # Also append a fact, because creating a thread only if its name is unused expects the head
        # of this log.
        row = Row(RowKind.THREAD, _name_key(record), b"")
        writes.append(Write(THREAD_NAMES, (b"",), (row,), expect=names_head))
    key = index_key(record.created_at, record.thread_id)
    return [*writes, Write(thread_index(record.kind), rows=(Row(RowKind.THREAD, key, b""),))]


def _name_key(record: ThreadRecord | ThreadView) -> str:
    return f"{record.name}|{index_key(record.created_at, record.thread_id)}"


def index_key(created_at: datetime, thread: str) -> str:
    return f"{_END_MS - to_ms(created_at):014d}-{thread}"


def record_row(record: ThreadRecord) -> Row:
    return Row(RowKind.THREAD, ONLY, encode(record))


# Finding


@answers(ShowThread)
def show_thread(stores: Stores, verb: ShowThread, body: Body) -> ThreadView:
    return show(stores, verb.thread)


def show(stores: Stores, thread: str) -> ThreadView:
    record = find_record(stores.ledger, thread)
    with state_of(stores, thread) as live:
        return ThreadView(
            **asdict(record),
            version=live.version,
            updated_at=_updated_at(live, thread),
            artifacts=weights_of(stores, thread, live).count,
            events=live.seq,
            hop_count=live.uses.hops,
        )


def _updated_at(live: LiveState, thread: str) -> datetime:
    try:
        return datetime.fromisoformat(live.document["updated_at"])
    except (KeyError, TypeError, ValueError) as error:
        raise unreadable(thread, error) from error


@answers(FindThreads)
def find_threads(stores: Stores, verb: FindThreads, body: Body) -> list[ThreadView]:
    found = _named(stores, verb.text)
    if len(verb.text) >= 6 and not set(verb.text) - set("0123456789abcdef-"):
        logs = stores.ledger.logs(thread_log(verb.text), "", FIND_ITEMS_MAX)
        found += [log.removeprefix(THREADS) for log in logs]
    return shown(stores, dict.fromkeys(found))


def _named(stores: Stores, name: str) -> list[str]:
    """Return the ids of the threads with a name, newest first."""
    rows = stores.ledger.rows(THREAD_NAMES, RowKind.THREAD, f"{name}|", FIND_ITEMS_MAX)
    # A name may contain the separator, but the rest of the key has a fixed length.
    chars = len(name) + 1 + len(index_key(from_ms(0), "")) + REF_CHARS
    here = [row.key for row in rows if row.key.startswith(f"{name}|") and len(row.key) == chars]
    return [key[-REF_CHARS:] for key in here]


@answers(OpenThread)
def open_thread(stores: Stores, verb: OpenThread, body: Body) -> ThreadView:
    for _ in range(RETRIES_MAX):
        head = stores.ledger.last(THREAD_NAMES)
        there = shown(stores, _named(stores, verb.name))
        if len(there) > 1:
            raise ambiguous_name(verb.name, there)
        if there:
            return there[0]
        try:
            return make(stores, verb.name, verb.by, None, None, names_head=head)
        except Stale:
            continue
    raise Unavailable(f"too many concurrent creations of threads called {verb.name}", "try again")


def shown(stores: Stores, threads: Any) -> list[ThreadView]:
    """Return views of the threads that exist."""
    views: list[ThreadView] = []
    for thread in threads:
        try:
            views.append(show(stores, thread))
        except (NotFound, Gone):
            continue
        except Broken as error:
            views.append(_damaged(stores, thread, error))
    return views


def _damaged(stores: Stores, thread: str, error: Broken) -> ThreadView:
    """Return the known fields of a thread whose events or record cannot be read."""
    nothing_known = ThreadRecord(
        thread_id=thread,
        name=None,
        status="open",
        created_at=from_ms(0),
        created_by="",
        forked_from=None,
    )
    record = nothing_known
    with suppress(Broken):
        record = find_record(stores.ledger, thread)
    return ThreadView(
        **asdict(record),
        version=0,
        updated_at=record.created_at,
        artifacts=0,
        events=stores.ledger.last(thread_log(thread)),
        problem=error.message,
    )


@answers(ListThreadArtifacts)
def list_thread_artifacts(stores: Stores, verb: ListThreadArtifacts, body: Body) -> list[Artifact]:
    find_record(stores.ledger, verb.thread)
    every = (find_readable(stores.ledger, ref) for ref in listed(stores.ledger, verb.thread))
    there = [artifact for artifact in every if artifact is not None]
    there.sort(key=lambda artifact: artifact.created_at, reverse=True)
    return there[: verb.limit]


# Ending


@answers(CloseThread)
def close_thread(stores: Stores, verb: CloseThread, body: Body) -> ThreadView:
    record = find_record(stores.ledger, verb.thread)
    if record.status == "open":
        event = new_event(stores, "thread.closed", verb.by, {})
        row = record_row(replace(record, status="closed"))
        append_event(stores, verb.thread, event, (row,))
    return show(stores, verb.thread)


@answers(RemoveThread)
def remove_thread(stores: Stores, verb: RemoveThread, body: Body) -> ThreadView:
    keep_edit(stores, verb.thread)
    try:
        view = _end(stores, verb.thread)
    except Gone:
        before = find_earlier_answer(step(stores, "end"), thread_log(verb.thread))
        if before is None:
            raise
        view = decode(before, type=ThreadView)
    stores.live_states.drop(verb.thread)
    # Use the whole space, because logs that the caller cannot see may also have rows of this
    # thread.
    release_removed(stores.space, verb.thread)
    return view


def retention_row(stores: Stores, is_over: bool) -> Row:
    """Return the row that makes a sweep remove a thread of a kind, some time after its end.

    If the thread has not ended, the time counts from its last report, because a killed process
    sends no more reports.
    """
    kept_s = stores.settings.ended_kept_s
    due_ms = stores.now_ms() + max(kept_s, 0 if is_over else UNENDED_KEPT_S_MIN) * 1000
    return Row(RowKind.ENDED, ONLY, b"%d" % due_ms, due_ms)


def remove_ended(stores: Stores, thread: str) -> None:
    """Remove a thread that ended long enough ago; called by a sweep."""
    ended = stores.ledger.get(thread_log(thread), RowKind.ENDED, ONLY)
    # The thread may have continued, and ended again, after the row was due.
    if ended is not None and int(ended) <= stores.now_ms():
        with suppress(Gone, NotFound):
            remove_thread(stores, RemoveThread(thread), b"")


def _end(stores: Stores, thread: str) -> ThreadView:
    """Replace a thread by a tombstone; return the thread as it was before."""
    view = show(stores, thread)
    gone_at = from_ms(stores.now_ms())
    tombstone = {"gone_at": format_time(gone_at), "reason": "removed", "name": view.name}
    rows = (
        Row(RowKind.THREAD, ONLY, None),
        Row(RowKind.ENDED, ONLY, None),
        Row(RowKind.GONE, ONLY, encode(tombstone), to_ms(gone_at)),
    )
    rows += once_rows(step(stores, "end"), encode(view))
    listed_as = Row(RowKind.THREAD, index_key(view.created_at, thread), None)
    unindexed = [Write(thread_index(view.kind), rows=(listed_as,))]
    if view.name and view.kind is None:
        unindexed.append(Write(THREAD_NAMES, rows=(Row(RowKind.THREAD, _name_key(view), None),)))
    event = new_event(stores, "thread.removed", author_name(stores), {})
    append_event(stores, thread, event, rows, shared=SharedWrites(unindexed))
    return view


def release_removed(stores: Stores, thread: str) -> None:
    """Release what a removed thread held and, when the retention time of its tombstone is over, its
    name.

    A sweep calls this when the row `gone` is due. The row is due at once if a crash interrupted the
    removal.
    """
    log = thread_log(thread)
    row = stores.ledger.get(log, RowKind.GONE, ONLY)
    if row is None:
        return
    tombstone: dict[str, Any] = decode(row)
    if tombstone.get("is_settled"):
        # Check the time as well as `is_settled`, because another removal may have settled its own
        # tombstone after this row was due.
        if to_ms(datetime.fromisoformat(tombstone["gone_at"])) + _STAYS_MS <= stores.now_ms():
            with suppress(Stale):  # Another sweep was faster.
                stores.ledger.drop(log, expect=stores.ledger.last(log))
        return
    remove_mirror(stores, thread)
    while refs := [ref for ref, _ in islice(held(stores.ledger, thread), PAGE_ROWS_MAX)]:
        _release_artifacts(stores, thread, refs)
    stores.ledger.trim(log, stores.ledger.last(log) + 1)
    kinds = (RowKind.SNAPSHOT, RowKind.CHECKPOINT, RowKind.STEP)
    rows = [
        Row(kind, row.key, None) for kind in kinds for row in walk_rows(stores.ledger, log, kind)
    ]
    settled = encode({**tombstone, "is_settled": True})
    rows.append(Row(RowKind.GONE, ONLY, settled, stores.now_ms() + _STAYS_MS))
    for start in range(0, len(rows), PAGE_ROWS_MAX):
        stores.ledger.commit(Write(log, rows=tuple(rows[start : start + PAGE_ROWS_MAX])))


_STAYS_MS = TOMBSTONE_S * 1000


def _release_artifacts(stores: Stores, thread: str, refs: list[str]) -> None:
    """Remove a page of the holds of a thread.

    Artifacts that were added to a thread are removed with the last thread that holds them.
    """

    def unhold(ref: str) -> list[Write]:
        row = Row(RowKind.ARTIFACT, ref, None)
        return [unhold_write(ref, thread), Write(thread_log(thread), rows=(row,))]

    last_held = [
        artifact
        for ref in refs
        if not is_held(stores.ledger, ref)
        and (artifact := find(stores.ledger, ref)) is not None
        and artifact.thread is not None
    ]
    removed = {artifact.ref for artifact in last_held}
    replace_with_tombstones(stores, last_held, "removed", also=lambda each: unhold(each.ref))
    stores.ledger.commit(*(write for ref in refs if ref not in removed for write in unhold(ref)))
