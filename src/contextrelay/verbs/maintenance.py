"""Maintenance: sweep, verify and measure a store."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from contextrelay.model.reports import LedgerReport, StoreReport, SweepReport, VerifyReport
from contextrelay.verbs.verb import Traits, Verb

SWEEP_ITEMS_MAX = 100_000


class Sweep(Verb[SweepReport], frozen=True):
    """Delete expired artifacts, free unreferenced bytes and clean up what a crash left behind."""

    traits = Traits(needs="owner", answered_in="sweep", http="POST /v1/sweep", slow=True)

    items_max: Annotated[int, Meta(ge=1, le=SWEEP_ITEMS_MAX)] = SWEEP_ITEMS_MAX
    is_deep: bool = True
    """Whether to scan all blobs too, which takes time proportional to their number."""


class Verify(Verb[VerifyReport], frozen=True):
    """Check the store: recompute every hash and follow every reference."""

    traits = Traits(
        while_locked=True,
        needs="owner",
        answered_in="verify",
        http="POST /v1/verify",
        slow=True,
    )


class Survey(Verb[StoreReport], frozen=True):
    """Return the type, contents and size of the store."""

    traits = Traits(needs="owner", answered_in="verify", http="GET /v1/survey")


class CheckLedger(Verb[LedgerReport], frozen=True):
    """Run the integrity check of the storage engine and return its advice on settings."""

    traits = Traits(needs="owner", while_locked=True, answered_in="verify")


class TryBlob(Verb[bool], frozen=True):
    """Write, read and delete a large body as a test. Return False if the bytes read differ."""

    traits = Traits(needs="owner", answered_in="verify")
