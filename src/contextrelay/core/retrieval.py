"""Retrieval: `retrieval.search`, which finds artifacts by the words in and about them.

Rule: a search is bounded. It looks at the newest artifacts and at the head of each, and its result
tells how many it looked at and whether that was all.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from msgspec import Struct
from msgspec.json import encode

from contextrelay.core.artifacts import find, is_over
from contextrelay.core.bodies import opener
from contextrelay.core.holding import held
from contextrelay.core.index import entries
from contextrelay.core.live import find_record
from contextrelay.core.registry import Call, Result
from contextrelay.core.stores import Stores
from contextrelay.errors import Broken
from contextrelay.limits import (
    CHUNK_BYTES,
    SEARCH_ARTIFACTS_MAX,
    SEARCH_QUERY_CHARS_MAX,
    SEARCH_RESULTS_MAX,
    SEARCH_SNIPPET_CHARS,
    SEARCH_TERMS_MAX,
    SEARCH_TEXT_BYTES_MAX,
)
from contextrelay.model.artifact import Artifact
from contextrelay.model.capability import Capability

SEARCH = Capability(
    name="retrieval.search",
    description="Find artifacts by words in their content, name or metadata.",
    args_schema={
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "minLength": 1,
                "maxLength": SEARCH_QUERY_CHARS_MAX,
                "description": "words to look for",
            },
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": SEARCH_RESULTS_MAX,
                "default": 10,
                "description": "how many to tell of, best first",
            },
        },
        "required": ["query"],
        "additionalProperties": False,
    },
    cacheable=True,
    cache_ttl_s=300,
    version="1",
)


class Match(Struct, frozen=True, kw_only=True):
    """How well a text answers a query."""

    terms: int
    """How many of the words are there."""
    hits: int
    """How often, all together."""
    first: int
    """Where the first of them is."""


def match(text: str, terms: list[str]) -> Match | None:
    """Find words in a text, whatever their case; None where there are none."""
    folded = text.casefold()
    counts = {term: folded.count(term) for term in terms}
    found = [term for term in terms if counts[term]]
    if not found:
        return None
    first = min(folded.find(term) for term in found)
    return Match(terms=len(found), hits=sum(counts.values()), first=first)


def run(call: Call) -> Result:
    """Answer one search; best first: most of the words, then most often, then newest."""
    query, limit = str(call.args["query"]), int(call.args["limit"])
    terms = list(dict.fromkeys(query.casefold().split()))[:SEARCH_TERMS_MAX]
    looked_at, is_partial = 0, False
    found: list[tuple[tuple[int, int, float], dict[str, object]]] = []
    for artifact in islice(_newest(call), SEARCH_ARTIFACTS_MAX + 1):
        if looked_at == SEARCH_ARTIFACTS_MAX:
            is_partial = True
            break
        looked_at += 1
        is_partial = is_partial or (artifact.is_text and artifact.size_bytes > _HEAD_BYTES)
        text = f"{_about(artifact)}\n{_text(call.stores, artifact)}"
        matched = match(text, terms)
        if matched is not None:
            rank = (matched.terms, matched.hits, artifact.created_at.timestamp())
            found.append((rank, _told(artifact, matched, text)))
    found.sort(key=lambda each: each[0], reverse=True)
    told = {
        "query": query,
        "results": [each for _, each in found[:limit]],
        "found": len(found),
        "looked_at": looked_at,
        "is_partial": is_partial,
    }
    return Result(encode(told), "application/json")


_HEAD_BYTES = SEARCH_TEXT_BYTES_MAX


def _newest(call: Call) -> Iterator[Artifact]:
    """The artifacts of the thread, or all of them, newest first; not the results of searches."""
    stores = call.stores
    if call.thread is None:
        every = (find(stores.ledger, entry.ref) for entry in entries(stores.ledger))
    else:
        find_record(stores.ledger, call.thread)
        there = [find(stores.ledger, ref) for ref, _ in held(stores.ledger, call.thread)]
        known = [each for each in there if each is not None]
        every = iter(sorted(known, key=lambda each: each.created_at, reverse=True))
    now_ms = stores.now_ms()
    for artifact in every:
        if artifact is None or is_over(artifact, now_ms):
            continue
        if artifact.provenance.capability != SEARCH.name:
            yield artifact


def _about(artifact: Artifact) -> str:
    return (
        f"{artifact.name or ''}\n{encode(artifact.metadata).decode() if artifact.metadata else ''}"
    )


def _text(stores: Stores, artifact: Artifact) -> str:
    """The head of an artifact's text; "" for what is none, or is damaged."""
    if not artifact.is_text:
        return ""
    stop = min(artifact.size_bytes, _HEAD_BYTES)
    try:
        body = b"".join(opener(stores, artifact.sha256, artifact.size_bytes, 0, stop)(CHUNK_BYTES))
    except Broken:
        return artifact.preview.text  # Searching is no place to stop for this; verify tells of it.
    return body.decode(errors="ignore")


def _told(artifact: Artifact, matched: Match, text: str) -> dict[str, object]:
    # Folding can make a text longer or shorter, so this may be a little beside the first hit.
    start = max(0, matched.first - SEARCH_SNIPPET_CHARS // 4)
    return {
        "ref": artifact.ref,
        "name": artifact.name,
        "type": artifact.type,
        "size": artifact.size_bytes,
        "hits": matched.hits,
        "snippet": " ".join(text[start : start + SEARCH_SNIPPET_CHARS].split()),
    }
