"""Capabilities: what can be invoked by name, and what came of it."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from contextrelay.model.artifact import Preview


class Capability(Struct, frozen=True, kw_only=True):
    """Something that can be invoked: what it is called, takes, and how long its results hold."""

    name: str
    description: str
    args_schema: dict[str, Any]
    """A JSON Schema; arguments that break it are refused before anything is done."""
    cacheable: bool
    cache_ttl_s: int = field(name="cache_ttl_sec")
    version: str
    """Part of the cache key: a new version never answers with an old one's results."""
    cache_hits: int = 0
    """How often the cache had its result, in this store."""


class CapabilityListing(Struct, frozen=True, kw_only=True):
    """Every capability, by name."""

    capabilities: list[Capability]
    problems: list[str] = []
    """What is wrong with those that packages bring and that could not be loaded."""


class Invoked(Struct, frozen=True, kw_only=True):
    """What came of invoking a capability; its whole result is the artifact."""

    capability: str
    preview: Preview
    artifact_ref: str
    cache_hit: bool
    cache_key: str
    duration_ms: int


class Purged(Struct, frozen=True, kw_only=True):
    """How many cached results were forgotten; their artifacts stay until they expire."""

    entries: int
