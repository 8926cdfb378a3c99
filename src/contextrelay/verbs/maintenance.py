"""Maintenance: expire, check and measure a store."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from contextrelay.model.reports import LedgerReport, StoreReport, SweepReport, VerifyReport
from contextrelay.verbs.verb import Traits, Verb

SWEEP_ITEMS_MAX = 100_000


class Sweep(Verb[SweepReport], frozen=True):
    """Expire what is due, free bytes that nothing holds, repair what a crash left over."""

    traits = Traits(needs="owner", answered_in="sweep", http="POST /v1/sweep", slow=True)

    items_max: Annotated[int, Meta(ge=1, le=SWEEP_ITEMS_MAX)] = SWEEP_ITEMS_MAX
    is_deep: bool = True
    """Whether to go through all blobs too, which takes longer the more there are."""


class Verify(Verb[VerifyReport], frozen=True):
    """Re-derive every hash and follow every reference."""

    traits = Traits(
        while_locked=True,
        needs="owner",
        answered_in="verify",
        http="POST /v1/verify",
        slow=True,
    )


class Survey(Verb[StoreReport], frozen=True):
    """What the store is and holds, in numbers."""

    traits = Traits(needs="owner", answered_in="verify", http="GET /v1/survey")


class CheckLedger(Verb[LedgerReport], frozen=True):
    """Let the engine check its own files, and advise on its settings."""

    traits = Traits(needs="owner", while_locked=True, answered_in="verify")


class TryBlob(Verb[bool], frozen=True):
    """Write a large body, read it and delete it; False if it came back as another."""

    traits = Traits(needs="owner", answered_in="verify")
