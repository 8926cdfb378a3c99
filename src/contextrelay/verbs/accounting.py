"""Accounting: what refs have saved."""

from __future__ import annotations

from contextrelay.model.ref import Ref
from contextrelay.model.reports import Savings
from contextrelay.model.thread import Stats
from contextrelay.verbs.verb import Traits, Verb


class ReadStats(Verb[Stats], frozen=True):
    """What refs have saved in a thread."""

    traits = Traits(
        needs="read", answered_in="accounting.savings", http="GET /v1/threads/{thread}/stats"
    )

    thread: Ref


class ReadSavings(Verb[Savings], frozen=True):
    """What refs kept out of prompts, as it was counted: of a thread, or of the whole store."""

    traits = Traits(
        needs="read", answered_in="accounting.savings", http="GET /v1/savings", fails=(404, 410)
    )

    thread: Ref | None = None
