"""Accounting: the number of tokens saved by passing refs instead of content."""

from __future__ import annotations

from contextrelay.model.ref import Ref
from contextrelay.model.reports import Savings
from contextrelay.model.thread import Stats
from contextrelay.verbs.verb import Traits, Verb


class ReadStats(Verb[Stats], frozen=True):
    """Return the number of tokens that refs saved in a thread."""

    traits = Traits(
        needs="read", answered_in="accounting.savings", http="GET /v1/threads/{thread}/stats"
    )

    thread: Ref


class ReadSavings(Verb[Savings], frozen=True):
    """Return the number of tokens that refs kept out of prompts, in one thread or in the whole
    store.
    """

    traits = Traits(
        needs="read", answered_in="accounting.savings", http="GET /v1/savings", fails=(404, 410)
    )

    thread: Ref | None = None
