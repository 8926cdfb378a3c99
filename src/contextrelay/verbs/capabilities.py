"""Capabilities: functions that are invoked by name, with their results cached as artifacts."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from contextrelay.limits import TTL_S_MAX
from contextrelay.model.artifact import Artifact
from contextrelay.model.capability import CapabilityListing, Invoked, Purged
from contextrelay.model.ref import Ref
from contextrelay.verbs.verb import (
    Author,
    Label,
    Traits,
    TtlS,
    Verb,
)


class ListCapabilities(Verb[CapabilityListing], frozen=True):
    """List the capabilities, with the arguments of each."""

    traits = Traits(needs="read", answered_in="invoke", http="GET /v1/capabilities")


class Invoke(Verb[Invoked], frozen=True):
    """Run a capability or return its cached result; in both cases the result is an artifact.

    `thread`: add the result to that thread and count a hop. `is_cached`: False runs the capability
    even if there is a cached result, and caches the new one.
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
    by: Author = ""
    is_cached: bool = True


CacheKey = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}$")]


class FindResult(Verb[list[Artifact]], frozen=True):
    """Return a list with the result cached under a hash of the inputs; empty if there is none."""

    traits = Traits(needs="read", answered_in="invoke", http="GET /v1/cache/{cache_key}")

    cache_key: CacheKey


class KeepResult(Verb[Artifact], frozen=True):
    """Cache a result under a hash of the inputs for a limited time."""

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
    """The capability that produced the result; `PurgeCache` selects results by this name."""


class PurgeCache(Verb[Purged], frozen=True):
    """Delete cached results: those of one capability, or all."""

    traits = Traits(needs="admin", answered_in="invoke", http="DELETE /v1/cache")

    capability: Label | None = None
