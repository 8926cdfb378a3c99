"""Capabilities: functions that are run by name, their results cached as artifacts."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from contextrelay.limits import TTL_S_MAX
from contextrelay.model.artifact import Artifact
from contextrelay.model.capability import CapabilityListing, Invoked, Purged
from contextrelay.model.ref import Ref
from contextrelay.verbs.verb import Label, Traits, TtlS, Verb


class ListCapabilities(Verb[CapabilityListing], frozen=True):
    """What can be invoked by name, with the arguments each takes."""

    traits = Traits(needs="read", answered_in="invoke", http="GET /v1/capabilities")


class Invoke(Verb[Invoked], frozen=True):
    """Run a capability, or take its cached result; either way the result is an artifact.

    `thread`: put the result into that thread, which may make so many hops. `is_cached`: False runs
    it even where a cached result would do, and caches the new one.
    """

    traits = Traits(
        needs="write",
        answered_in="invoke",
        http="POST /v1/capabilities/{capability}",
        slow=True,
        keyed=True,
        fills="made",
        sweeps=True,
        fails=(404, 409, 410, 429, 502),
    )

    capability: Label
    args: dict[str, Any] = {}  # noqa: RUF012 (each request has its own)
    thread: Ref | None = None
    by: Label = "you"
    is_cached: bool = True


CacheKey = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}$")]


class FindResult(Verb[list[Artifact]], frozen=True):
    """The result that was kept under a hash of what it was made of, if it is still there."""

    traits = Traits(needs="read", answered_in="invoke", http="GET /v1/cache/{cache_key}")

    cache_key: CacheKey


class KeepResult(Verb[Artifact], frozen=True):
    """Let a result be found under a hash of what it was made of, for so long."""

    traits = Traits(
        needs="write",
        answered_in="invoke",
        http="PUT /v1/cache/{cache_key}",
        fails=(404, 410),
    )

    cache_key: CacheKey
    ref: Ref
    ttl_s: TtlS = TTL_S_MAX
    capability: Label = "pipeline"
    """What made it: `PurgeCache` forgets results by this."""


class PurgeCache(Verb[Purged], frozen=True):
    """Forget cached results: those of one capability, or all."""

    traits = Traits(needs="admin", answered_in="invoke", http="DELETE /v1/cache")

    capability: Label | None = None
