"""Events: what happened in a thread, read page by page; callers may add their own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import Any

from msgspec.json import decode, encode

from contextrelay.core.registry import answers
from contextrelay.core.schema import RowKind, thread_index, walk_facts
from contextrelay.core.stores import Stores
from contextrelay.core.threads.head import find_record
from contextrelay.core.threads.patch import append_event, event_at, new_event
from contextrelay.core.threads.threads import make, retention_row, show
from contextrelay.documents.bounds import check_json, check_label
from contextrelay.errors import Refused
from contextrelay.limits import EVENT_BYTES_MAX, LIST_ITEMS_MAX
from contextrelay.model.names import thread_log
from contextrelay.model.thread import (
    Event,
    EventPage,
    Numbered,
    Sent,
    TaskListing,
    TaskLog,
    ThreadView,
)
from contextrelay.state import event_chain
from contextrelay.store.ledger import Reads, Row, Write
from contextrelay.verbs import (
    AddEvent,
    BeginTask,
    Body,
    ListHooks,
    ListSent,
    ListTasks,
    MakeCheckpoint,
    NoteTask,
    PutHook,
    PutSent,
    ReadEvents,
    ReadSent,
    ReadTask,
)


@answers(ReadEvents)
def read_events(stores: Stores, verb: ReadEvents, body: Body) -> EventPage:
    find_record(stores.ledger, verb.thread)
    facts = stores.ledger.read(thread_log(verb.thread), verb.after, verb.limit)
    return EventPage(
        events=[Numbered(seq=fact.seq, event=event_chain.decode(fact.body)) for fact in facts]
    )


@answers(AddEvent)
def add_event(stores: Stores, verb: AddEvent, body: Body) -> Numbered:
    check_own_type(verb.type)
    check_json(verb.detail, "detail", EVENT_BYTES_MAX)
    event = new_event(stores, verb.type, verb.by, verb.detail)
    return numbered(stores, verb.thread, append_event(stores, verb.thread, event), event)


@answers(BeginTask)
def begin_task(stores: Stores, verb: BeginTask, body: Body) -> ThreadView:
    more: tuple[Event, ...] = ()
    if verb.asked is not None:
        check_json(verb.asked, "asked", EVENT_BYTES_MAX)
        more = (new_event(stores, "task.asked", verb.by, verb.asked),)
    return make(stores, verb.name, verb.by, None, None, kind="task", more=more)


@answers(NoteTask)
def note_task(stores: Stores, verb: NoteTask, body: Body) -> Numbered:
    check_json(verb.detail, "detail", EVENT_BYTES_MAX)
    if find_record(stores.ledger, verb.thread).kind != "task":
        raise Refused(
            f"thread {verb.thread} is not a task", "list the tasks: relay thread list --kind task"
        )
    event = new_event(stores, verb.type, verb.by, verb.detail)
    rows = (retention_row(stores, is_over=True),) if verb.is_over else ()
    return numbered(stores, verb.thread, append_event(stores, verb.thread, event, rows), event)


def check_own_type(type: str) -> None:
    """Raise an error for an event type that is reserved for another verb."""
    if type.startswith(OUR_EVENTS):
        raise Refused(
            f"event type {type!r} is reserved",
            "use another type, for example note.added",
        )


def numbered(stores: Stores, thread: str, seq: int, event: Event) -> Numbered:
    """Return an event that was added, with its number.

    For a request with a key, an earlier attempt may have added the event.
    """
    return Numbered(seq=seq, event=event if stores.once is None else event_at(stores, thread, seq))


# Event types that are interpreted when a log is read, so only their own verbs may write them.
OUR_EVENTS = (
    *("state.", "thread.", "artifact.", "checkpoint.", "capability.", "handoff."),
    *("pipeline.", "run.", "task.", "a2a."),
)


@answers(ListTasks)
def list_tasks(stores: Stores, verb: ListTasks, body: Body) -> TaskListing:
    log = thread_index("task")
    rows = stores.ledger.rows(log, RowKind.THREAD, verb.after, LIST_ITEMS_MAX + 1)
    page = rows[:LIST_ITEMS_MAX]
    ids = [row.key.partition("-")[2] for row in page]
    return TaskListing(ids=ids, next=page[-1].key if len(rows) > len(page) else "")


@answers(ReadTask)
def read_task(stores: Stores, verb: ReadTask, body: Body) -> TaskLog:
    record = find_record(stores.ledger, verb.thread)
    facts = stores.ledger.read(thread_log(verb.thread), 0, LIST_ITEMS_MAX)
    events = [Numbered(seq=fact.seq, event=event_chain.decode(fact.body)) for fact in facts]
    return TaskLog(record=record, events=events)


@answers(MakeCheckpoint)
def make_checkpoint(stores: Stores, verb: MakeCheckpoint, body: Body) -> Numbered:
    check_label(verb.label, "label")
    version = show(stores, verb.thread).version
    detail = {"label": verb.label, "version": version}
    event = new_event(stores, "checkpoint.created", verb.by, detail)
    row = Row(RowKind.CHECKPOINT, verb.label, b"%d" % version)
    return numbered(stores, verb.thread, append_event(stores, verb.thread, event, (row,)), event)


def history(ledger: Reads, thread: str, until: int) -> Iterator[Event]:
    """Yield the first `until` events of a thread."""
    for fact in takewhile(lambda fact: fact.seq <= until, walk_facts(ledger, thread_log(thread))):
        yield event_chain.decode(fact.body)


_INDEX = thread_index("task")


# Hooks: where the updates of tasks are sent, and how far they were delivered. A hook contains
# secrets, so these verbs are the owner's. The delivery position is in the index of tasks: a server
# that starts finds there what another one has not sent.


@answers(PutHook)
def put_hook(stores: Stores, verb: PutHook, body: Body) -> None:
    find_record(stores.ledger, verb.thread)
    check_label(verb.id, "id")
    kept = None if verb.hook is None else check_json(verb.hook, "hook", EVENT_BYTES_MAX)
    row = Row(RowKind.HOOK, verb.id, kept)
    stores.ledger.commit(Write(thread_log(verb.thread), rows=(row,)))


@answers(ListHooks)
def list_hooks(stores: Stores, verb: ListHooks, body: Body) -> list[dict[str, Any]]:
    find_record(stores.ledger, verb.thread)
    rows = stores.ledger.rows(thread_log(verb.thread), RowKind.HOOK, "", LIST_ITEMS_MAX)
    return [decode(row.body) for row in rows if row.body is not None]


@answers(PutSent)
def put_sent(stores: Stores, verb: PutSent, body: Body) -> None:
    if verb.sent is not None:
        find_record(stores.ledger, verb.thread)
    row = Row(RowKind.HOOK, verb.thread, None if verb.sent is None else encode(verb.sent))
    stores.ledger.commit(Write(_INDEX, rows=(row,)))


@answers(ReadSent)
def read_sent(stores: Stores, verb: ReadSent, body: Body) -> Sent | None:
    find_record(stores.ledger, verb.thread)
    found = stores.ledger.get(_INDEX, RowKind.HOOK, verb.thread)
    return None if found is None else decode(found, type=Sent)


@answers(ListSent)
def list_sent(stores: Stores, verb: ListSent, body: Body) -> list[Sent]:
    rows = stores.ledger.rows(_INDEX, RowKind.HOOK, verb.after, LIST_ITEMS_MAX)
    return [decode(row.body, type=Sent) for row in rows if row.body is not None]
