"""Invocation of capabilities: run by name, cached, and counted as hops of a thread.

In a thread, `capability.called` is written before a capability runs and `capability.invoked` with
the patch that adds its result; a cached result writes only the latter. Either way the hop is an
event that follows the count it was checked against, so the limit holds under concurrent calls.

A result, its cache entry, its event and the reply of a request with a key are one commit.

Rule: a capability runs without a lock or a transaction: it may take long, and fail.
"""

from __future__ import annotations

import codecs
import re
import time
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from copy import deepcopy
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.json import decode, encode
from msgspec.structs import replace

from contextrelay.access import reach_of
from contextrelay.bounded.fetch import FetchPolicy, fetch
from contextrelay.content.untrusted.defuse import defuse
from contextrelay.core import capabilities
from contextrelay.core.artifacts.bodies import read_body
from contextrelay.core.artifacts.records import has_expired, live
from contextrelay.core.capabilities import Call, RegisteredCapability, Result, without_paths
from contextrelay.core.idempotency import find_earlier_reply, reply_writes, step
from contextrelay.core.inspect import newest
from contextrelay.core.push.push import push_with_events
from contextrelay.core.registry import answers
from contextrelay.core.search import SearchedQuery
from contextrelay.core.search_hits import snippet_of
from contextrelay.core.search_index import SEARCH as NAME
from contextrelay.core.stores import Stores
from contextrelay.core.threads.head import LiveState, check_open
from contextrelay.core.threads.patch import SharedWrites, append_event, new_event
from contextrelay.documents.args_schema import validate_args
from contextrelay.documents.bounds import check_json, check_label, check_name
from contextrelay.documents.values import is_list, is_object
from contextrelay.errors import Failed, Full, Invalid, Limited, Refused, RelayError, Unavailable
from contextrelay.limits import (
    BODY_BYTES_MAX,
    FETCH_BYTES_MAX,
    FETCH_PREVIEW_CHARS,
    GREP_ARTIFACTS_MAX,
    GREP_S_MAX,
    PREVIEW_BYTES_MAX,
    SEARCH_CANDIDATES,
    SEARCH_RESULTS_MAX,
    SEARCH_SNIPPET_CHARS,
    TTL_S_MAX,
    URL_CHARS_MAX,
)
from contextrelay.model.artifact import Artifact
from contextrelay.model.capability import Capability, CapabilityListing, Invoked, Purged
from contextrelay.model.thread import CALLED, FAILED, INVOKED, Event
from contextrelay.store.ledger import Stale, Write
from contextrelay.verbs import (
    Body,
    FindResult,
    Invoke,
    KeepResult,
    ListCapabilities,
    PurgeCache,
    Push,
)

SEARCH_QUERY_CHARS_MAX = 1_000


_SHOWN_CHARS = 300


@answers(ListCapabilities)
def list_capabilities(stores: Stores, verb: ListCapabilities, body: Body) -> CapabilityListing:
    every, hits = capabilities.known(), capabilities.hits(stores)
    return CapabilityListing(
        capabilities=[
            replace(each.capability, cache_hits=hits.get(each.capability.name, 0))
            for each in every.registered
        ],
        problems=every.problems,
    )


@answers(PurgeCache)
def purge_cache(stores: Stores, verb: PurgeCache, body: Body) -> Purged:
    return Purged(entries=capabilities.purge(stores, verb.capability))


@answers(FindResult)
def find_result(stores: Stores, verb: FindResult, body: Body) -> list[Artifact]:
    found = capabilities.find_cached(stores, verb.cache_key)
    return [] if found is None else [found]


@answers(KeepResult)
def keep_result(stores: Stores, verb: KeepResult, body: Body) -> Artifact:
    artifact = live(stores, verb.ref)
    capabilities.keep(stores, verb.cache_key, verb.capability, verb.ref, verb.ttl_s)
    return artifact


class _Invocation(Struct, frozen=True):
    """A capability call in progress."""

    registered: RegisteredCapability
    args: dict[str, Any]
    thread: str | None
    by: str
    cache_key: str
    began_s: float

    @property
    def name(self) -> str:
        return self.registered.capability.name

    def duration_ms(self) -> int:
        return round((time.monotonic() - self.began_s) * 1000)


@answers(Invoke)
def invoke(stores: Stores, verb: Invoke, body: Body) -> Invoked:
    check_label(verb.by, "by")
    registered = capabilities.find(verb.capability)
    described = registered.capability
    args = validate_args(verb.args, described.args_schema)
    key = capabilities.key_of("", described, args, verb.thread)
    asked = _Invocation(registered, args, verb.thread, verb.by, key, time.monotonic())
    before = find_earlier_reply(stores)
    if before is not None:
        return decode(before, type=Invoked)
    if verb.thread is not None:
        check_open(stores, verb.thread)
    is_cached = described.cacheable and verb.is_cached
    found = capabilities.find_cached(stores, key) if is_cached else None
    invoked = _ran(stores, asked) if found is None else _cached(stores, asked, found)
    # The same request, sent in parallel, may have stored its reply first.
    before = find_earlier_reply(stores)
    return invoked if before is None else decode(before, type=Invoked)


def _cached(stores: Stores, asked: _Invocation, artifact: Artifact) -> Invoked:
    invoked = _invoked(asked, artifact, asked.duration_ms(), is_hit=True)
    count = capabilities.count_hit(stores, asked.name)
    writes = [count, *reply_writes(stores, encode(invoked))]
    # Stale: the same request, sent in parallel, has stored its reply first.
    with suppress(Stale):
        if asked.thread is not None:
            event = _invoked_event(stores, asked, invoked)
            _hop(stores, asked.thread, event, SharedWrites(writes))
            return invoked
        # If there is no room, a reply without a key needs none.
        with suppress(Full) if stores.once is None else nullcontext():
            stores.ledger.commit(*writes)
    return invoked


def _ran(stores: Stores, asked: _Invocation) -> Invoked:
    if asked.thread is not None:
        detail = {"capability": asked.name, "cache_key": asked.cache_key}
        _hop(stores, asked.thread, new_event(stores, CALLED, asked.by, detail))
    try:
        return _stored(stores, asked, _result(asked.name, _run(stores, asked)))
    except RelayError as error:
        _note_failure(stores, asked, error)
        raise


def _hop(stores: Stores, thread: str, event: Event, shared: SharedWrites | None = None) -> None:
    """Write the event of a hop to a thread, together with other writes.

    Raises:
        Limited: the thread has reached its limit of hops.
    """
    most = stores.settings.hops_max

    def check(live: LiveState) -> None:
        if live.is_closed:
            raise Refused(f"thread {thread} is closed", "fork it: relay thread fork")
        if live.uses.hops >= most:
            raise Limited(
                f"hop limit exceeded: {live.uses.hops}/{most}",
                "check for a loop; or raise the limit: relay config set hops_max N; or go on in a "
                "fork: relay thread fork",
            )

    append_event(stores, thread, event, check=check, shared=shared)


def _run(stores: Stores, asked: _Invocation) -> Any:
    """Run a capability, which may be foreign code; convert any exception to a Context Relay error.

    Raises:
        Failed: the capability failed. An Unavailable raised by foreign code becomes Failed too,
        because
            a client would retry and repeat its side effects. Built-in capabilities only
            read, and keep
            Unavailable.
    """
    # Pass a copy, because the function may change it, and the cache key is derived from these
    # arguments.
    call = Call(stores, deepcopy(asked.args), asked.thread)
    try:
        return asked.registered.run(call)
    except Unavailable as error:
        if asked.registered.is_built_in:
            raise
        raise Failed(error.message, error.hint, error.details) from error
    except RelayError:
        raise
    except Exception as error:
        said = without_paths(f"{type(error).__name__}: {error}")[:_SHOWN_CHARS]
        raise Failed(
            f"{asked.name} failed: {ascii(said)[1:-1]}", "fix the capability or its arguments"
        ) from error


def _result(name: str, brought: Any) -> Result:
    """Convert the value that a capability returned to a result with a body.

    Raises:
        Invalid: the value is neither text, bytes nor JSON.
    """
    if isinstance(brought, Result):
        return brought
    if isinstance(brought, bytes | bytearray):
        return Result(bytes(brought))
    if isinstance(brought, str):
        try:
            return Result(brought.encode())
        except UnicodeEncodeError as error:
            raise Invalid(f"{name} returned text with invalid Unicode", "return bytes") from error
    if is_object(brought) or is_list(brought):
        encoded = check_json(brought, f"the result of {name}", BODY_BYTES_MAX)
        return Result(encoded, "application/json")
    raise Invalid(
        f"{name} returned an unsupported type: {type(brought).__name__}",
        "return text, bytes, or a dict or list",
    )


def _stored(stores: Stores, asked: _Invocation, result: Result) -> Invoked:
    """Store a result, its cache entry, its event and the reply in one commit."""
    described = asked.registered.capability
    duration_ms = asked.duration_ms()

    def additions(artifact: Artifact) -> tuple[Event | Write, ...]:
        invoked = _invoked(asked, artifact, duration_ms, is_hit=False)
        writes = reply_writes(stores, encode(invoked))
        if described.cacheable:
            writes.append(
                capabilities.cache_write(
                    stores, asked.cache_key, asked.name, artifact.ref, described.cache_ttl_s
                )
            )
        events = () if asked.thread is None else (_invoked_event(stores, asked, invoked),)
        return (*events, *writes)

    push = Push(
        name=result.name,
        media_type=result.media_type,
        metadata=result.metadata,
        created_by=asked.by,
        capability=asked.name,
        thread=asked.thread,
    )
    # A second run may return something else, so the result that is already stored is used.
    pusher = step(stores, "result", takes_any=True)
    if described.cacheable:
        # The last caller that gets the result from the cache can then read it as long as the first.
        lease_s = min(described.cache_ttl_s + stores.settings.ttl_s, TTL_S_MAX)
        pusher = replace(pusher, settings=replace(pusher.settings, ttl_s=lease_s))
    artifact = push_with_events(pusher, push, result.body, additions)
    return _invoked(asked, artifact, duration_ms, is_hit=False)


def _invoked(asked: _Invocation, artifact: Artifact, duration_ms: int, *, is_hit: bool) -> Invoked:
    return Invoked(
        capability=asked.name,
        preview=artifact.preview,
        artifact_ref=artifact.ref,
        cache_hit=is_hit,
        cache_key=asked.cache_key,
        duration_ms=duration_ms,
    )


def _invoked_event(stores: Stores, asked: _Invocation, invoked: Invoked) -> Event:
    detail = {
        "capability": invoked.capability,
        "cache_key": invoked.cache_key,
        "cache_hit": invoked.cache_hit,
        "artifact_ref": invoked.artifact_ref,
        "duration_ms": invoked.duration_ms,
    }
    return new_event(stores, INVOKED, asked.by, detail)


def _note_failure(stores: Stores, asked: _Invocation, error: RelayError) -> None:
    if asked.thread is None:
        return
    detail = {
        "capability": asked.name,
        "cache_key": asked.cache_key,
        "error": error.code,
        "message": error.message,
        "duration_ms": asked.duration_ms(),
    }
    with suppress(RelayError):  # Raise the error of the capability, not the one of this write.
        event = new_event(stores, FAILED, asked.by, detail)
        append_event(step(stores, "failed"), asked.thread, event)


SEARCH = Capability(
    name=NAME,
    description="Find artifacts: by text in their content within a thread, else by words.",
    args_schema={
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "minLength": 1,
                "maxLength": SEARCH_QUERY_CHARS_MAX,
                "description": "words to search for",
            },
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": SEARCH_RESULTS_MAX,
                "default": 10,
                "description": "maximum number of artifacts, best first",
            },
        },
        "required": ["query"],
        "additionalProperties": False,
    },
    cacheable=True,
    cache_ttl_s=300,
    version="3",
)


def run_search(call: Call) -> Result:
    """Search by words, or by text within a thread; return the result as JSON."""
    query, limit = str(call.args["query"]), int(call.args["limit"])
    found = _by_words(call, query, limit) if call.thread is None else _by_text(call, query, limit)
    return Result(encode({"query": query, "count": len(found["results"]), **found}), _JSON)


_JSON = "application/json"


def _by_words(call: Call, query: str, limit: int) -> dict[str, Any]:
    """Search the whole store by words; return the best passage of each artifact found."""
    asked = SearchedQuery(call.stores, query, SEARCH_CANDIDATES)
    found: dict[str, dict[str, Any]] = {}
    for each in asked.seen:
        if each.artifact.ref not in found and len(found) < limit:
            found[each.artifact.ref] = _found(
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
    """Find artifacts of a thread whose content contains the query as text, ignoring case."""
    pattern = re.compile(re.escape(query), re.IGNORECASE)
    deadline_s = time.monotonic() + GREP_S_MAX
    found: list[dict[str, Any]] = []
    looked_at, is_partial = 0, False
    for artifact in islice(newest(call.stores, call.thread), GREP_ARTIFACTS_MAX):
        if time.monotonic() > deadline_s:
            is_partial = True
            break
        is_other = artifact.sealed is not None or artifact.provenance.capability == NAME
        if is_other or not artifact.is_text or has_expired(artifact, call.stores.now_ms()):
            continue
        looked_at += 1
        hits, snippet = _hits(read_body(call.stores, artifact), pattern, len(query))
        if hits:
            found.append(_found(artifact, hits, snippet))
    found.sort(key=lambda each: -each["score"])
    return {
        "results": found[:limit],
        "found": len(found),
        "looked_at": looked_at,
        "is_partial": is_partial,
    }


def _hits(chunks: Iterator[bytes], pattern: re.Pattern[str], chars: int) -> tuple[int, str]:
    """Count the matches of a pattern in a body; return the count and the text around the first
    match.

    `chars` is the length of the longest match.
    """
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
        # Keep the end of the chunk, because a match may start in this chunk and end in the next.
        text = text[max(end, len(text) - chars + 1) :]
    return count, defuse(snippet).text


def _found(artifact: Artifact, hits: int, snippet: str) -> dict[str, Any]:
    return {
        "ref": artifact.ref,
        "name": artifact.name,
        "type": artifact.type,
        "size": artifact.size_bytes,
        "hits": hits,
        "score": hits,
        "snippet": snippet,
    }


FETCH = Capability(
    name="http.fetch",
    description="Download an http or https URL: at most 10 MB, within 30 seconds.",
    args_schema={
        "type": "object",
        "properties": {
            "url": {
                "type": "string",
                "minLength": 1,
                "maxLength": URL_CHARS_MAX,
                "description": "an http or https URL",
            },
            "method": {"enum": ["GET"], "default": "GET"},
            "preview_size": {
                "type": "integer",
                "minimum": 1,
                "maximum": PREVIEW_BYTES_MAX,
                "default": FETCH_PREVIEW_CHARS,
                "description": "maximum number of characters in the preview",
            },
        },
        "required": ["url"],
        "additionalProperties": False,
    },
    cacheable=True,
    cache_ttl_s=600,
    version="1",
)


def run_fetch(call: Call) -> Result:
    """Download a URL; return its content as the result."""
    settings = call.stores.settings
    wanted = ("public", "private") if settings.fetch_private else ("public",)
    ways = FetchPolicy(
        lambda address: reach_of(address) in wanted,
        bytes_max=min(FETCH_BYTES_MAX, settings.body_bytes_max),
    )
    fetched = fetch(str(call.args["url"]), ways)
    return Result(
        fetched.body,
        fetched.media_type,
        _name_in(fetched.url),
        {"url": fetched.url, "status": fetched.status},
    )


def _name_in(url: str) -> str | None:
    """Return the last part of a URL's path if it is a valid name, or None."""
    name = urlsplit(url).path.rpartition("/")[2]
    try:
        return check_name(name) if name else None
    except Invalid:
        return None


capabilities.add(capabilities.built_in(SEARCH, run_search))
capabilities.add(capabilities.built_in(FETCH, run_fetch))
