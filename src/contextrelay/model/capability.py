"""Capabilities: functions that can be invoked by name, and their results."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from contextrelay.model.artifact import Preview


class Capability(Struct, frozen=True, kw_only=True):
    """A function that can be invoked by name, with its arguments and result lifetime."""

    name: str
    description: str
    args_schema: dict[str, Any]
    """A JSON Schema; invalid arguments are refused before the capability runs."""
    cacheable: bool
    cache_ttl_s: int = field(name="cache_ttl_sec")
    version: str
    """Part of the cache key, so that a new version never returns results of an old version."""
    cache_hits: int = 0
    """The number of cache hits in this store."""


class CapabilityListing(Struct, frozen=True, kw_only=True):
    """All capabilities, by name."""

    capabilities: list[Capability]
    problems: list[str] = []
    """Errors of capabilities that could not be loaded from installed packages."""


class Invoked(Struct, frozen=True, kw_only=True):
    """The result of invoking a capability; the full result is the artifact."""

    capability: str
    preview: Preview
    artifact_ref: str
    cache_hit: bool
    cache_key: str
    duration_ms: int


class Purged(Struct, frozen=True, kw_only=True):
    """The number of cached results that were deleted. Their artifacts stay until they expire."""

    entries: int
