"""Hooks: where the updates of tasks are sent, and how far they were delivered.

Rule: a hook contains secrets, so these verbs are the owner's. The delivery position is in the index
of tasks: a server that starts finds there what another one has not sent.
"""

from __future__ import annotations

from typing import Any

from msgspec.json import decode, encode

from contextrelay.core.registry import answers
from contextrelay.core.schema import RowKind, thread_index
from contextrelay.core.stores import Stores
from contextrelay.core.threads.head import find_record
from contextrelay.documents.bounds import check_json, check_label
from contextrelay.limits import EVENT_BYTES_MAX, LIST_ITEMS_MAX
from contextrelay.model.names import thread_log
from contextrelay.model.thread import Sent
from contextrelay.store.ledger import Row, Write
from contextrelay.verbs import Body, ListHooks, ListSent, PutHook, PutSent, ReadSent

_INDEX = thread_index("task")


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
