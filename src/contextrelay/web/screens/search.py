"""Search: one box over everything that is stored, and over the names of threads."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from contextrelay.cli import display
from contextrelay.client.flow import run
from contextrelay.client.names import find_ref
from contextrelay.errors import Invalid, NotFound
from contextrelay.limits import (
    LABEL_CHARS_MAX,
    PAGE_HITS,
    PAGE_PIECE_TOKENS,
)
from contextrelay.model.thread import ThreadView
from contextrelay.web.screen import Screen, Visit

_THREADS = 10
# What a ref, the beginning of one, or a URL ends with.
_REF = re.compile(r"(^|/)[0-9a-f-]{6,}(#|$)")


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
        hits = visit.relay.search(words, limit=PAGE_HITS, tokens_max=PAGE_PIECE_TOKENS)
        answer |= {
            "hits": hits,
            "types": dict(Counter(each.type for each in hits.hits).most_common()),
            "threads": _named(visit, words),
            "ref": _ref(visit, words),
        }
    return Screen(template="search", title="Search", command=command, answer=answer, place="search")


def _named(visit: Visit, words: str) -> list[ThreadView]:
    """Threads with the words in their names, or whose id begins so."""
    if len(words) > LABEL_CHARS_MAX:
        return []
    return visit.relay.threads(_THREADS, text=words).threads


def _ref(visit: Visit, words: str) -> str:
    if not _REF.search(words):
        return ""
    try:
        return run(visit.relay.transport, find_ref(words, display.DOOR))
    except (Invalid, NotFound):
        return ""
