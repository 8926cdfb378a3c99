"""Retrieval: `retrieval.search`, which finds artifacts.

In a thread it looks for the query as it is written, whatever the case, as seed 002 has it; in the
whole store by words, through the search index, as the verb `Search` does. Its result says how many
artifacts it looked at and whether that was all.
"""

from __future__ import annotations

import codecs
import re
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

from msgspec.json import encode

from contextrelay.content.untrusted.defuse import defuse
from contextrelay.core.artifacts.bodies import read_body
from contextrelay.core.artifacts.records import is_over
from contextrelay.core.capabilities.registry import Call, Result
from contextrelay.core.inspect.grep import newest
from contextrelay.core.search.hits import snippet_of
from contextrelay.core.search.index_sync import SEARCH as NAME
from contextrelay.core.search.search import Asked
from contextrelay.limits import (
    GREP_ARTIFACTS_MAX,
    GREP_S_MAX,
    SEARCH_CANDIDATES,
    SEARCH_QUERY_CHARS_MAX,
    SEARCH_RESULTS_MAX,
    SEARCH_SNIPPET_CHARS,
)
from contextrelay.model.artifact import Artifact
from contextrelay.model.capability import Capability

SEARCH = Capability(
    name=NAME,
    description="Find artifacts: in a thread by a text in their content, else by words.",
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
                "description": "how many to list, best first",
            },
        },
        "required": ["query"],
        "additionalProperties": False,
    },
    cacheable=True,
    cache_ttl_s=300,
    version="3",
)


def run(call: Call) -> Result:
    """Answer one search."""
    query, limit = str(call.args["query"]), int(call.args["limit"])
    found = _by_words(call, query, limit) if call.thread is None else _by_text(call, query, limit)
    return Result(encode({"query": query, "count": len(found["results"]), **found}), _JSON)


_JSON = "application/json"


def _by_words(call: Call, query: str, limit: int) -> dict[str, Any]:
    """Artifacts of the whole store, by the best passage of each."""
    asked = Asked(call.stores, query, SEARCH_CANDIDATES)
    found: dict[str, dict[str, Any]] = {}
    for each in asked.seen:
        if each.artifact.ref not in found and len(found) < limit:
            found[each.artifact.ref] = _result(
                each.artifact,
                asked.count_in(each.ranked.text),
                snippet_of(call.stores, each, asked.words),
            )
    return {
        "results": list(found.values()),
        "found": asked.artifacts_found(),
        "looked_at": asked.looked_at,
        "is_partial": asked.is_partial,
    }


def _by_text(call: Call, query: str, limit: int) -> dict[str, Any]:
    """Artifacts of a thread that have the query in their content, whatever the case."""
    pattern = re.compile(re.escape(query), re.IGNORECASE)
    deadline_s = time.monotonic() + GREP_S_MAX
    found: list[dict[str, Any]] = []
    looked_at, is_partial = 0, False
    for artifact in islice(newest(call.stores, call.thread), GREP_ARTIFACTS_MAX):
        if time.monotonic() > deadline_s:
            is_partial = True
            break
        is_other = artifact.sealed is not None or artifact.provenance.capability == NAME
        if is_other or not artifact.is_text or is_over(artifact, call.stores.now_ms()):
            continue
        looked_at += 1
        hits, snippet = _hits(read_body(call.stores, artifact), pattern, len(query))
        if hits:
            found.append(_result(artifact, hits, snippet))
    found.sort(key=lambda each: -each["score"])
    return {
        "results": found[:limit],
        "found": len(found),
        "looked_at": looked_at,
        "is_partial": is_partial,
    }


def _hits(chunks: Iterator[bytes], pattern: re.Pattern[str], chars: int) -> tuple[int, str]:
    """How often a text of so many characters is in a body, and what stands around the first."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    count, snippet, text = 0, "", ""
    for chunk in chunks:
        text += decoder.decode(chunk)
        end = 0
        for match in pattern.finditer(text):
            if not count:
                start = max(0, match.start() - SEARCH_SNIPPET_CHARS // 4)
                snippet = " ".join(text[start : start + SEARCH_SNIPPET_CHARS].split())
            count, end = count + 1, match.end()
        # It may begin in this chunk and end in the next.
        text = text[max(end, len(text) - chars + 1) :]
    return count, defuse(snippet).text


def _result(artifact: Artifact, hits: int, snippet: str) -> dict[str, Any]:
    return {
        "ref": artifact.ref,
        "name": artifact.name,
        "type": artifact.type,
        "size": artifact.size_bytes,
        "hits": hits,
        "score": hits,
        "snippet": snippet,
    }
