"""Metrics of a thread: how often it used capabilities, and the figures in its state."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from contextrelay.core.artifacts.holds import ArtifactWeights
from contextrelay.model.thread import CALLED, INVOKED, Event


class Uses(Struct, frozen=True):
    """How often capabilities were invoked in a thread, and how often the result was cached."""

    hops: int = 0
    cache_hits: int = 0
    cache_misses: int = 0

    def after(self, *events: Event) -> Uses:
        """Return the counts after some events."""
        hops, hits, misses = self.hops, self.cache_hits, self.cache_misses
        for event in events:
            if event.type == CALLED:
                hops += 1
            elif event.type == INVOKED and event.detail.get("cache_hit") is True:
                hops, hits = hops + 1, hits + 1
            elif event.type == INVOKED:
                misses += 1
        return Uses(hops, hits, misses)


def metrics_of(weights: ArtifactWeights, uses: Uses, state_bytes: int) -> dict[str, Any]:
    """Return the figures that the state shows for its current version."""
    return {
        "cache_hits": uses.cache_hits,
        "cache_misses": uses.cache_misses,
        "tokens_estimate": state_bytes // 4,
        # Counts in the state cannot be negative: if previews are longer than their content, 0
        # tokens are avoided.
        "tokens_avoided": max(0, weights.naive_tokens - weights.actual_tokens),
        "hop_count": uses.hops,
    }
