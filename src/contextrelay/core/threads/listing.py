"""Lists of threads, newest first, filtered by their records; the current thread of a place.

Rule: a filter reads only records; the state of a thread, which is slower, is read only if it is
shown.
"""

from __future__ import annotations

from contextrelay.core.artifacts.records import place_key
from contextrelay.core.registry import answers
from contextrelay.core.schema import LAST_USED, THREAD_NAMES, RowKind, thread_index
from contextrelay.core.stores import Stores
from contextrelay.core.threads.head import find_record
from contextrelay.core.threads.threads import REF_CHARS, index_key, show, shown
from contextrelay.errors import Broken, Gone, NotFound, Refused
from contextrelay.limits import LIST_ITEMS_MAX, LIST_LOOKED_AT_MAX
from contextrelay.model.artifact import from_ms
from contextrelay.model.thread import CurrentThread, ThreadListing, ThreadView
from contextrelay.store.ledger import Row, Write
from contextrelay.verbs import Body, ListThreads, ReadCurrentThread, UseThread

# The threads that one owner used in one folder: more are not offered.
CANDIDATES_MAX = 50


@answers(ListThreads)
def list_threads(stores: Stores, verb: ListThreads, body: Body) -> ThreadListing:
    is_filtered = (verb.text, verb.status, verb.agent) != (None, None, None)
    index, most = thread_index(verb.kind), LIST_ITEMS_MAX if is_filtered else verb.limit
    rows = stores.ledger.rows(index, RowKind.THREAD, verb.after, most + 1)
    page = rows[:most]
    found = _filtered(stores, page, verb) if is_filtered else page
    if len(found) > verb.limit:
        found = found[: verb.limit]
        page = page[: page.index(found[-1]) + 1]
    return ThreadListing(
        threads=shown(stores, (row.key.partition("-")[2] for row in found)),
        next=page[-1].key if len(rows) > len(page) else "",
    )


def _filtered(stores: Stores, rows: list[Row], verb: ListThreads) -> list[Row]:
    known = None if verb.text is None or verb.kind else _with_text(stores, verb.text.casefold())
    return [row for row in rows if _matches(stores, row.key.partition("-")[2], verb, known)]


def _with_text(stores: Stores, text: str) -> set[str] | None:
    """Return the threads whose name contains a text, or None if there are too many."""
    rows = stores.ledger.rows(THREAD_NAMES, RowKind.THREAD, "", LIST_LOOKED_AT_MAX + 1)
    if len(rows) > LIST_LOOKED_AT_MAX:
        return None
    chars = 1 + len(index_key(from_ms(0), "")) + REF_CHARS
    return {row.key[-REF_CHARS:] for row in rows if text in row.key[:-chars].casefold()}


def _matches(stores: Stores, thread: str, verb: ListThreads, known: set[str] | None) -> bool:
    """Return True if a thread matches the filter.

    Only its record is read, because reading the state is slower.
    """
    if known is not None and thread not in known and not thread.startswith(verb.text or ""):
        return False
    try:
        record = find_record(stores.ledger, thread)
    except (NotFound, Gone):
        return False
    except Broken:
        # A thread whose record is damaged is listed with its problem.
        return verb.text is None or thread.startswith(verb.text)
    text, agent = (verb.text or "").casefold(), (verb.agent or "").casefold()
    return (
        (text in (record.name or "").casefold() or thread.startswith(text))
        and verb.status in (None, record.status)
        and agent in record.created_by.casefold()
    )


# The current thread


@answers(UseThread)
def use_thread(stores: Stores, verb: UseThread, body: Body) -> ThreadView:
    view = show(stores, verb.thread)
    if view.kind is not None:
        raise Refused(f"{verb.thread} is a {view.kind}, not a thread to work on", "use a thread")
    current, previous = _current(stores, verb.place)
    if current != verb.thread:
        current, previous = verb.thread, current
    owner = place_key(stores, verb.owner)
    rows = [
        Row(RowKind.FOLDER, place_key(stores, verb.place), f"{current}\n{previous}".encode()),
        Row(RowKind.CANDIDATE, f"{owner}\n{verb.thread}", b""),
    ]
    used = _used(stores, owner)
    open_threads = {each.thread_id for each in _open(stores, used)} | {verb.thread}
    rows += [
        Row(RowKind.CANDIDATE, f"{owner}\n{thread}", None)
        for thread in used
        if thread not in open_threads
    ]
    stores.ledger.commit(Write(LAST_USED, rows=tuple(rows)))
    return view


@answers(ReadCurrentThread)
def read_current_thread(stores: Stores, verb: ReadCurrentThread, body: Body) -> CurrentThread:
    current, previous = (
        next(iter(shown(stores, [thread] if thread else [])), None)
        for thread in _current(stores, verb.place)
    )
    candidates = _open(stores, _used(stores, place_key(stores, verb.owner)))
    candidates.sort(key=lambda view: view.created_at, reverse=True)
    return CurrentThread(thread=current, previous=previous, candidates=candidates)


def _current(stores: Stores, place: str) -> tuple[str, str]:
    """Return the ids of the current thread of a place and of the one before; "" for none."""
    row = stores.ledger.get(LAST_USED, RowKind.FOLDER, place_key(stores, place)) or b""
    current, _, previous = row.decode().partition("\n")
    return current, previous


def _used(stores: Stores, owner: str) -> list[str]:
    start = f"{owner}\n"
    rows = stores.ledger.rows(LAST_USED, RowKind.CANDIDATE, start, CANDIDATES_MAX)
    keys = [row.key for row in rows if row.key.startswith(start)]
    return [key[-REF_CHARS:] for key in keys if len(key) == len(start) + REF_CHARS]


def _open(stores: Stores, threads: list[str]) -> list[ThreadView]:
    return [view for view in shown(stores, threads) if view.status == "open"]
