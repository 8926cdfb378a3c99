"""Search: one box over everything that is stored, and over the names of threads."""

from __future__ import annotations

from collections import Counter
from typing import Any

from contextrelay.client.flow import run
from contextrelay.client.names import find_ref
from contextrelay.doors.cli import display
from contextrelay.doors.page.screen import Screen, Visit
from contextrelay.errors import Invalid, NotFound
from contextrelay.limits import (
    LABEL_CHARS_MAX,
    LIST_ITEMS_MAX,
    PAGE_PIECE_TOKENS,
    SEARCH_RESULTS_MAX,
)
from contextrelay.model.thread import ThreadView

_THREADS = 10


def search(visit: Visit) -> Screen:
    """Passages by words, threads by name, and the artifact whose ref begins so."""
    words, kind = visit.text("q").strip(), visit.text("type")
    command = f"relay search {display.quoted(words)}" if words else "relay search WORDS"
    answer: dict[str, Any] = {
        "words": words,
        "hits": None,
        "types": {},
        "threads": [],
        "ref": "",
        "type": kind,
    }
    if words:
        hits = visit.relay.search(words, limit=SEARCH_RESULTS_MAX, tokens_max=PAGE_PIECE_TOKENS)
        answer |= {
            "hits": hits,
            "types": dict(Counter(each.type for each in hits.hits).most_common()),
            "threads": _named(visit, words),
            "ref": _ref(visit, words),
        }
    return Screen(template="search", title="Search", command=command, answer=answer, place="search")


def _named(visit: Visit, words: str) -> list[ThreadView]:
    """Threads with the words in their names, or whose id begins so, among the newest."""
    if len(words) > LABEL_CHARS_MAX:
        return []
    listed = visit.relay.threads(LIST_ITEMS_MAX).threads
    found = [
        each
        for each in listed
        if words.lower() in (each.name or "").lower() or each.thread_id.startswith(words.lower())
    ]
    return found[:_THREADS]


def _ref(visit: Visit, words: str) -> str:
    try:
        return run(visit.relay.transport, find_ref(words, display.DOOR))
    except (Invalid, NotFound):
        return ""
