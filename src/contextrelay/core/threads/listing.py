"""Lists of threads, newest first, filtered by their records.

Rule: a filter reads only records; the state of a thread, which is slower, is read only if it is
shown.
"""

from __future__ import annotations

from contextrelay.core.registry import answers
from contextrelay.core.schema import THREAD_NAMES, RowKind, thread_index
from contextrelay.core.stores import Stores
from contextrelay.core.threads.head import find_record
from contextrelay.core.threads.threads import REF_CHARS, index_key, shown
from contextrelay.errors import Broken, Gone, NotFound
from contextrelay.limits import LIST_ITEMS_MAX, LIST_LOOKED_AT_MAX
from contextrelay.model.artifact import from_ms
from contextrelay.model.thread import ThreadListing
from contextrelay.store.ledger import Row
from contextrelay.verbs import Body, ListThreads


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
    """Return the ids of threads whose name contains a text, or None if there are too many threads
    to search.
    """
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
