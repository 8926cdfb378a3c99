"""Savings: what refs have kept out of prompts, by the seed's formula, marked as an estimate."""

from __future__ import annotations

from typing import Any

from contextrelay.core.answering import answers
from contextrelay.core.holding import held
from contextrelay.core.live import Live, Uses, Weights, catch_up, head_of
from contextrelay.core.stores import Stores
from contextrelay.model.thread import Stats
from contextrelay.wire.verbs import Body, ReadStats


@answers(ReadStats)
def read_stats(stores: Stores, verb: ReadStats, body: Body) -> Stats:
    live = head_of(stores, verb.thread)
    with live.lock:
        catch_up(stores, verb.thread, live)
        weights, uses = weights_of(stores, verb.thread, live), live.uses
    return Stats(
        thread_id=verb.thread,
        artifacts=weights.count,
        naive_tokens=weights.naive_tokens,
        actual_tokens=weights.actual_tokens,
        tokens_avoided=weights.naive_tokens - weights.actual_tokens,
        cache_hits=uses.cache_hits,
        session_cache_hits=stores.cache_hits.number,
        cache_misses=uses.cache_misses,
        hop_count=uses.hops,
    )


def weights_of(stores: Stores, thread: str, live: Live) -> Weights:
    """What the thread's artifacts weigh; counted once, then kept up. The caller holds the lock."""
    if live.weights is None:
        total = Weights()
        for _, each in held(stores.ledger, thread):
            total = total.plus(each)
        live.weights = total
    return live.weights


def metrics_of(weights: Weights, uses: Uses, state_bytes: int) -> dict[str, Any]:
    """The figures that a version of the state shows."""
    return {
        "cache_hits": uses.cache_hits,
        "cache_misses": uses.cache_misses,
        "tokens_estimate": state_bytes // 4,
        # A state has counts: where previews are longer than what they are of, nothing is avoided.
        "tokens_avoided": max(0, weights.naive_tokens - weights.actual_tokens),
        "hop_count": uses.hops,
    }
