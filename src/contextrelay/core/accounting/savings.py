"""Savings: the tokens that refs have kept out of prompts, by the seed's formula and as counted.

The seed's formula assumes that every artifact would have been pasted, and subtracts nothing. The
counted figure (core/accounting/usage.py) includes artifacts that were read, once each, and
subtracts everything that readers received. docs/savings.md explains both, and how prices apply to
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from itertools import islice

from contextrelay.content.tokens import TOKENIZER_DEFAULT
from contextrelay.core.accounting.savings_breakdown import by_day, by_name
from contextrelay.core.accounting.usage import usage_of
from contextrelay.core.artifacts.catalog import entries
from contextrelay.core.artifacts.holds import ArtifactWeights, weight
from contextrelay.core.artifacts.records import find_readable, has_expired
from contextrelay.core.registry import answers
from contextrelay.core.schema import savings_counters
from contextrelay.core.stores import Stores
from contextrelay.core.threads.head import find_record, state_of, weights_of
from contextrelay.errors import Forbidden, Full
from contextrelay.model.reports import Figure, Priced, Savings
from contextrelay.model.settings import Settings
from contextrelay.model.thread import Stats
from contextrelay.verbs import Body, ReadSavings, ReadStats

# The approximate number of tokens that a model writes to request one piece.
ASKING_TOKENS = 60
STATS_ARTIFACTS_MAX = 100_000


@answers(ReadStats)
def read_stats(stores: Stores, verb: ReadStats, body: Body) -> Stats:
    with state_of(stores, verb.thread) as live:
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


@answers(ReadSavings)
def read_savings(stores: Stores, verb: ReadSavings, body: Body) -> Savings:
    if verb.thread is not None:
        find_record(stores.ledger, verb.thread)
    elif stores.is_limited:
        raise Forbidden("this key is limited to some threads", "name one of its threads")
    # If this fails, recent reads are missing and the earlier figures are shown.
    with suppress(Full):
        usage_of(stores).write()
    ledger, is_all = stores.space.ledger, verb.thread is None
    counts = ledger.tally(savings_counters(verb.thread))
    weights, is_partial = _weights(stores, verb.thread)
    whole, sent, pulled = (_figure(counts, name) for name in ("whole", "sent", "pulled"))
    answers, pulls = counts.get("answers", 0), counts.get("pulls", 0)
    net = whole.tokens - sent.tokens - pulled.tokens
    return Savings(
        scope="all" if verb.thread is None else f"thread {verb.thread}",
        answers=answers,
        pulls=pulls,
        uncounted=counts.get("uncounted", 0),
        whole=whole,
        sent=sent,
        pulled_back=pulled,
        avoided=whole.tokens - sent.tokens,
        net=net,
        tokenizer=TOKENIZER_DEFAULT,
        priced=_priced(stores.settings, net, answers + pulls),
        artifacts=weights.count,
        naive_tokens=weights.naive_tokens,
        actual_tokens=weights.actual_tokens,
        tokens_avoided=weights.naive_tokens - weights.actual_tokens,
        is_partial=is_partial,
        by_day=by_day(ledger, stores.now_ms()) if is_all else [],
        by_agent=by_name(ledger, "agent") if is_all else [],
        by_source=by_name(ledger, "source") if is_all else [],
    )


def _figure(counts: Mapping[str, int], name: str) -> Figure:
    measured, estimated = counts.get(f"{name}_measured", 0), counts.get(f"{name}_estimated", 0)
    return Figure(measured + estimated, "estimated" if estimated else "measured")


def _priced(settings: Settings, net: int, asked: int) -> Priced:
    """Return the price of `net` tokens kept out of a prompt, for all calls that would have sent
    them.
    """
    calls = settings.prompt_calls
    asking_tokens = asked * ASKING_TOKENS
    asking = asking_tokens * settings.price_output
    cached_each = settings.price_cache_write + (calls - 1) * settings.price_cache_read
    return Priced(
        calls=calls,
        asking_tokens=asking_tokens,
        uncached=round(calls * net - asking, 1),
        cached=round(cached_each * net - asking, 1),
    )


def _weights(stores: Stores, thread: str | None) -> tuple[ArtifactWeights, bool]:
    """Return the weights of artifacts by the seed's formula, and True if some artifacts were not
    examined.
    """
    if thread is not None:
        with state_of(stores, thread) as live:
            return weights_of(stores, thread, live), False
    total, now_ms, looked_at = ArtifactWeights(), stores.now_ms(), 0
    for entry in islice(entries(stores.ledger), STATS_ARTIFACTS_MAX + 1):
        looked_at += 1
        artifact = find_readable(stores.ledger, entry.ref)
        if artifact is not None and not has_expired(artifact, now_ms):
            total = total.plus(weight(artifact))
    return total, looked_at > STATS_ARTIFACTS_MAX
