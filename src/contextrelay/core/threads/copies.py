"""Copies: a thread with the recorded history of another up to a version.

A fork starts with a state; a copy has the events that led to it, with their original times, ids and
refs. So a replay ends in the same state as the original, including what the state says of itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec.structs import replace

from contextrelay.core.artifacts.holds import held, hold_writes
from contextrelay.core.registry import answers
from contextrelay.core.schema import walk_facts
from contextrelay.core.stores import Stores
from contextrelay.core.threads.head import find_record
from contextrelay.core.threads.patch import new_event
from contextrelay.core.threads.threads import (
    find_earlier_thread,
    index_writes,
    new_id,
    record_row,
    show,
)
from contextrelay.documents.bounds import check_label
from contextrelay.errors import NotFound, TooLarge
from contextrelay.limits import ARCHIVE_HISTORY_BYTES_MAX
from contextrelay.model.artifact import from_ms
from contextrelay.model.names import thread_log
from contextrelay.model.thread import CREATED, PATCHED, Event, ThreadRecord, ThreadView
from contextrelay.state import event_chain
from contextrelay.store.ledger import Stale, Write
from contextrelay.verbs import Body, CopyThread

_REF = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@answers(CopyThread)
def copy_thread(stores: Stores, verb: CopyThread, body: Body) -> ThreadView:
    if verb.name is not None:
        check_label(verb.name, "name")
    version = show(stores, verb.thread).version if verb.version is None else verb.version
    if (made := find_earlier_thread(stores)) is not None:
        return made
    thread, origin = new_id(stores), f"{verb.thread}@v{version}"
    record = ThreadRecord(
        thread_id=thread,
        name=verb.name,
        status="open",
        created_at=from_ms(stores.request_ms()),
        created_by=verb.by,
        forked_from=origin,
    )
    created = new_event(stores, "thread.created", verb.by, {"name": verb.name, "from": origin})
    facts, named = _copied(stores, verb.thread, version, thread, created)
    kept = named.intersection(ref for ref, _ in held(stores.ledger, verb.thread))
    holds, rows = hold_writes(stores, thread, kept)
    begin = Write(thread_log(thread), tuple(facts), (record_row(record), *rows), expect=0)
    try:
        stores.ledger.commit(*index_writes(record), *holds, begin)
    except Stale as stale:
        if stores.once is None or stale.log != begin.log:
            raise
        # The same request with a key, sent in parallel, was faster.
    return show(stores, thread)


def _copied(
    stores: Stores, source: str, version: int, thread: str, created: Event
) -> tuple[list[bytes], set[str]]:
    """Return the facts of the copy, and the refs that its events name."""
    facts = [event_chain.encode(created, b"")]
    size_bytes = 0
    named: set[str] = set()
    for event in _until(stores, source, version):
        facts.append(event_chain.encode(_own(event, thread), facts[-1]))
        size_bytes += len(facts[-1])
        if size_bytes > ARCHIVE_HISTORY_BYTES_MAX:
            raise TooLarge(
                f"the history of thread {source} is too long to copy",
                f"at most {ARCHIVE_HISTORY_BYTES_MAX:,} bytes of events; fork it instead",
            )
        named.update(found.decode() for found in _REF.findall(facts[-1]))
    return facts, named


def _until(stores: Stores, source: str, version: int) -> Iterator[Event]:
    """Yield the events of a thread up to a version, except those about the thread itself.

    Raises:
        NotFound: the thread does not have that version.
    """
    find_record(stores.ledger, source)
    newest = 0
    for fact in walk_facts(stores.ledger, thread_log(source)):
        event = event_chain.decode(fact.body)
        if event.type.startswith("thread."):
            continue
        yield replace(event, hash="")
        if event.type in (CREATED, PATCHED):
            newest = event.detail.get("state", event.detail)["version"]
            if newest == version:
                return
    raise NotFound(
        f"thread {source} has no version {version}; the newest is {newest}",
        "list the versions: relay state log",
    )


def _own(event: Event, thread: str) -> Event:
    """Return an event for the copy. In the first event, the state gets the id of the copy."""
    if event.type != CREATED:
        return event
    state = {**event.detail["state"], "thread_id": thread}
    return replace(event, detail={**event.detail, "state": state})
