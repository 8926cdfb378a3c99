"""Capabilities: invoked by name, cached, and counted as hops of a thread.

In a thread, `capability.called` is written before a capability runs and `capability.invoked` with
the patch that puts its result there; a cached result writes only the latter. Either way the hop is
an event that follows the count it was checked against, so the limit holds while others invoke too.

Rule: what a capability does is done without a lock or a transaction: it may take long, and fail.
"""

from __future__ import annotations

import time
from contextlib import suppress
from copy import deepcopy
from typing import Any

from msgspec import Struct
from msgspec.json import decode, encode
from msgspec.structs import replace

from contextrelay.core.artifacts.lifetime import extend
from contextrelay.core.artifacts.records import live
from contextrelay.core.capabilities import http_fetch, registry, result_cache, retrieval
from contextrelay.core.capabilities.registry import Call, Registered, Result, without_paths
from contextrelay.core.idempotency import keep_reply, reply_before, step
from contextrelay.core.push.push import push_with_events, pushed_before
from contextrelay.core.registry import answers
from contextrelay.core.stores import Stores
from contextrelay.core.threads.head import Live, check_open
from contextrelay.core.threads.patch import append_event, new_event
from contextrelay.documents.args_schema import checked
from contextrelay.documents.bounds import check_json, check_label
from contextrelay.documents.values import is_list, is_object
from contextrelay.errors import Failed, Invalid, Limited, Refused, RelayError, Unavailable
from contextrelay.limits import BODY_BYTES_MAX, TTL_S_MAX
from contextrelay.model.artifact import Artifact
from contextrelay.model.capability import CapabilityListing, Invoked, Purged
from contextrelay.model.thread import CALLED, FAILED, INVOKED, Event
from contextrelay.verbs import (
    Body,
    Extend,
    FindResult,
    Invoke,
    KeepResult,
    ListCapabilities,
    PurgeCache,
    Push,
)

registry.add(registry.built_in(retrieval.SEARCH, retrieval.run))
registry.add(registry.built_in(http_fetch.FETCH, http_fetch.run))

_SHOWN_CHARS = 300


@answers(ListCapabilities)
def list_capabilities(stores: Stores, verb: ListCapabilities, body: Body) -> CapabilityListing:
    every, hits = registry.known(), result_cache.hits(stores)
    return CapabilityListing(
        capabilities=[
            replace(each.capability, cache_hits=hits.get(each.capability.name, 0))
            for each in every.registered
        ],
        problems=every.problems,
    )


@answers(PurgeCache)
def purge_cache(stores: Stores, verb: PurgeCache, body: Body) -> Purged:
    return Purged(entries=result_cache.purge(stores, verb.capability))


@answers(FindResult)
def find_result(stores: Stores, verb: FindResult, body: Body) -> list[Artifact]:
    found = result_cache.find(stores, verb.cache_key)
    return [] if found is None else [found]


@answers(KeepResult)
def keep_result(stores: Stores, verb: KeepResult, body: Body) -> Artifact:
    artifact = live(stores, verb.ref)
    result_cache.keep(stores, verb.cache_key, verb.capability, verb.ref, verb.ttl_s)
    return artifact


class _Asked(Struct, frozen=True):
    """One invocation on its way."""

    registered: Registered
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
    registered = registry.find(verb.capability)
    described = registered.capability
    args = checked(verb.args, described.args_schema)
    key = result_cache.key_of("", described, args, verb.thread)
    asked = _Asked(registered, args, verb.thread, verb.by, key, time.monotonic())
    before = reply_before(stores)
    if before is not None:
        return decode(before, type=Invoked)
    if (stored := _stored_before(stores, asked)) is not None:
        invoked = _remembered(stores, asked, *stored)
    else:
        if verb.thread is not None:
            check_open(stores, verb.thread)
        found = result_cache.find(stores, key) if described.cacheable and verb.is_cached else None
        invoked = _ran(stores, asked) if found is None else _cached(stores, asked, found)
    if stores.once is None:
        return invoked
    return decode(keep_reply(stores, encode(invoked)), type=Invoked)


def _cached(stores: Stores, asked: _Asked, artifact: Artifact) -> Invoked:
    invoked = _invoked(asked, artifact, is_hit=True)
    if asked.thread is not None:
        _hop(stores, asked.thread, _invoked_event(stores, asked, invoked))
    result_cache.count_hit(stores, asked.name)
    return invoked


def _ran(stores: Stores, asked: _Asked) -> Invoked:
    if asked.thread is not None:
        detail = {"capability": asked.name, "cache_key": asked.cache_key}
        _hop(stores, asked.thread, new_event(stores, CALLED, asked.by, detail))
    try:
        result = _result(asked.name, _run(stores, asked))
        artifact, invoked = _stored(stores, asked, result)
    except RelayError as error:
        _note_failure(stores, asked, error)
        raise
    return _remembered(stores, asked, artifact, invoked)


def _remembered(stores: Stores, asked: _Asked, artifact: Artifact, invoked: Invoked) -> Invoked:
    """Let the cache answer with a result that is stored, from now on."""
    described = asked.registered.capability
    if described.cacheable:
        if artifact.expires_at is not None:
            # The last caller who gets it from the cache may read it as long as the first.
            lease_s = min(described.cache_ttl_s + stores.settings.ttl_s, TTL_S_MAX)
            extend(stores, Extend(artifact.ref, lease_s), b"")
        ttl_s = described.cache_ttl_s
        result_cache.keep(stores, asked.cache_key, asked.name, artifact.ref, ttl_s)
    return invoked


def _hop(stores: Stores, thread: str, event: Event) -> None:
    """Write an event that is a hop, unless the thread has made all it may.

    Raises:
        Limited: it has.
    """
    most = stores.settings.hops_max

    def check(live: Live) -> None:
        if live.is_closed:
            raise Refused(f"thread {thread} is closed", "fork it: relay thread fork")
        if live.uses.hops >= most:
            raise Limited(
                f"hop limit exceeded: {live.uses.hops}/{most}",
                "is it going in circles? else raise it: relay config set hops_max N; or go on in a "
                "fork: relay thread fork",
            )

    append_event(stores, thread, event, check=check)


def _run(stores: Stores, asked: _Asked) -> Any:
    """Run what may be anybody's code; whatever it raises becomes an error of ours.

    Raises:
        Failed: it did. Also where it says Unavailable: that would make a client ask again, and so
            do again what it did until then. What is built in says so of the store, and only reads.
    """
    # A copy: what is given away may be changed, and these are what the cache key was made of.
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
            f"{asked.name} failed: {ascii(said)[1:-1]}", "repair the capability, or its arguments"
        ) from error


def _result(name: str, brought: Any) -> Result:
    """What a capability returned, as a body.

    Raises:
        Invalid: it is neither text, bytes nor JSON.
    """
    if isinstance(brought, Result):
        return brought
    if isinstance(brought, bytes | bytearray):
        return Result(bytes(brought))
    if isinstance(brought, str):
        try:
            return Result(brought.encode())
        except UnicodeEncodeError as error:
            raise Invalid(f"{name} returned text that is no Unicode", "return bytes") from error
    if is_object(brought) or is_list(brought):
        encoded = check_json(brought, f"the result of {name}", BODY_BYTES_MAX)
        return Result(encoded, "application/json")
    raise Invalid(
        f"{name} returned a {type(brought).__name__}", "return text, bytes, or a dict or list"
    )


def _stored(stores: Stores, asked: _Asked, result: Result) -> tuple[Artifact, Invoked]:
    made: list[Invoked] = []

    def events(artifact: Artifact) -> tuple[Event, ...]:
        made.append(_invoked(asked, artifact, is_hit=False))
        return (_invoked_event(stores, asked, made[0]),)

    push = Push(
        name=result.name,
        media_type=result.media_type,
        metadata=result.metadata,
        created_by=asked.by,
        capability=asked.name,
        thread=asked.thread,
    )
    artifact = push_with_events(_for_result(stores), push, result.body, events)
    return artifact, made[0] if made else _invoked(asked, artifact, is_hit=False)


def _stored_before(stores: Stores, asked: _Asked) -> tuple[Artifact, Invoked] | None:
    """The result of the same request, asked before with the same key, if it got that far."""

    artifact = pushed_before(_for_result(stores), asked.thread)
    if artifact is None:
        return None
    return artifact, _invoked(asked, artifact, is_hit=False)


def _for_result(stores: Stores) -> Stores:
    # Run again, a capability may bring something else: what is stored already stands.
    return step(stores, "result", takes_any=True)


def _invoked(asked: _Asked, artifact: Artifact, is_hit: bool) -> Invoked:
    return Invoked(
        capability=asked.name,
        preview=artifact.preview,
        artifact_ref=artifact.ref,
        cache_hit=is_hit,
        cache_key=asked.cache_key,
        duration_ms=asked.duration_ms(),
    )


def _invoked_event(stores: Stores, asked: _Asked, invoked: Invoked) -> Event:
    detail = {
        "capability": invoked.capability,
        "cache_key": invoked.cache_key,
        "cache_hit": invoked.cache_hit,
        "artifact_ref": invoked.artifact_ref,
        "duration_ms": invoked.duration_ms,
    }
    return new_event(stores, INVOKED, asked.by, detail)


def _note_failure(stores: Stores, asked: _Asked, error: RelayError) -> None:
    if asked.thread is None:
        return
    detail = {
        "capability": asked.name,
        "cache_key": asked.cache_key,
        "error": error.code,
        "message": error.message,
        "duration_ms": asked.duration_ms(),
    }
    with suppress(RelayError):  # The first error is the one that is raised.
        event = new_event(stores, FAILED, asked.by, detail)
        append_event(step(stores, "failed"), asked.thread, event)
