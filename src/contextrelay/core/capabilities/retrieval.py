"""Retrieval: `retrieval.search`, which finds artifacts by the words in and about them.

It asks the search index, as the verb `Search` does, and lists artifacts where that lists
passages. Its result says how many artifacts it looked at and whether that was all.
"""

from __future__ import annotations

from msgspec.json import encode

from contextrelay.core.capabilities.registry import Call, Result
from contextrelay.core.search.index_sync import SEARCH as NAME
from contextrelay.core.search.search import Asked, snippet_of
from contextrelay.limits import SEARCH_CANDIDATES, SEARCH_QUERY_CHARS_MAX, SEARCH_RESULTS_MAX
from contextrelay.model.capability import Capability

SEARCH = Capability(
    name=NAME,
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
                "description": "how many to list, best first",
            },
        },
        "required": ["query"],
        "additionalProperties": False,
    },
    cacheable=True,
    cache_ttl_s=300,
    version="2",
)


def run(call: Call) -> Result:
    """Answer one search: artifacts, by the best passage of each."""
    query, limit = str(call.args["query"]), int(call.args["limit"])
    asked = Asked(call.stores, query, SEARCH_CANDIDATES, call.thread)
    found: dict[str, dict[str, object]] = {}
    for each in asked.seen:
        artifact = each.artifact
        if artifact.ref not in found and len(found) < limit:
            found[artifact.ref] = {
                "ref": artifact.ref,
                "name": artifact.name,
                "type": artifact.type,
                "size": artifact.size_bytes,
                "hits": asked.count_in(each.ranked.text),
                "snippet": snippet_of(call.stores, each, asked.words),
            }
    result = {
        "query": query,
        "results": list(found.values()),
        "found": asked.artifacts_found(),
        "looked_at": asked.looked_at,
        "is_partial": asked.is_partial,
    }
    return Result(encode(result), "application/json")
