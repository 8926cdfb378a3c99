"""Reports: the results of the verbs that maintain a store."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct, field

from contextrelay.model.artifact import Artifact
from contextrelay.model.tokens import TokenBasis


class Listing(Struct, frozen=True, kw_only=True):
    """One page of artifacts, newest first; `next` is "" on the last page."""

    artifacts: list[Artifact]
    next: str = ""


class Lineage(Struct, frozen=True, kw_only=True):
    """What an artifact was made from (`sources`), and what was made from it (`derived`)."""

    ref: str
    sources: list[str]
    derived: list[str]
    holders: list[str] = []
    """The ids of the threads that keep the artifact from expiring."""


class SweepReport(Struct, frozen=True, kw_only=True):
    """The counts of a sweep."""

    expired: int = 0
    """The number of artifacts that had expired."""
    freed_bodies: int = 0
    freed_bytes: int = 0
    forgotten_tombstones: int = 0
    mended: int = 0
    """The number of repaired pushes and removals that a crash had interrupted."""
    is_done: bool = True
    """False if another sweep is needed to finish."""


class Problem(Struct, frozen=True, kw_only=True):
    """An inconsistency in a store."""

    what: str
    ref: str | None = None
    next_step: str = ""


class VerifyReport(Struct, frozen=True, kw_only=True):
    """What was checked, and the problems that were found. At most 100 are listed, but all are
    counted.
    """

    artifacts: int
    bodies: int
    body_bytes: int = field(name="bytes")
    events: int
    problem_count: int
    problems: list[Problem]
    unchecked: int = 0
    """The number of artifacts that could not be checked because an earlier version stored them
    without a hash.
    """


class BackupReport(Struct, frozen=True, kw_only=True):
    """The contents of a backup."""

    created_at: datetime
    address: str


class RestoreReport(Struct, frozen=True, kw_only=True):
    """The contents that were restored from a backup."""

    logs: int
    bodies: int
    body_bytes: int = field(name="bytes")
    created_at: datetime
    """The time at which the backup was made."""


class MigrateProgress(Struct, frozen=True):
    """The progress of a migration."""

    pass_number: int
    logs: int
    logs_total: int
    body_bytes: int
    body_bytes_total: int
    seconds_left: float | None
    """Estimated seconds until the end of this pass, from the speed so far."""


class MigrateReport(Struct, frozen=True, kw_only=True):
    """The totals of a migration, over all its passes."""

    source: str
    target: str
    passes: int
    logs: int
    """The number of logs in the source."""
    changes: int
    """The number of writes to the target."""
    bodies: int
    body_bytes: int = field(name="bytes")
    is_same: bool
    """Whether the last pass found nothing more to copy."""
    is_open: bool
    """Whether the target can be used."""
    verified: VerifyReport | None = None


class LedgerReport(Struct, frozen=True, kw_only=True):
    """The storage engine's report on its files and settings."""

    problems: list[str]
    advice: list[str]
    """Recommended server settings, each with the next step after "; ". These settings are not
    problems yet.
    """


class StoreReport(Struct, frozen=True, kw_only=True):
    """A store's type, contents and size."""

    address: str
    engine: str
    artifacts: int
    bodies: int
    body_bytes: int = field(name="bytes")
    due: int
    """The number of artifacts and tombstones that have expired and await cleanup."""


class Figure(Struct, frozen=True):
    """A number of tokens, with the method by which it was determined."""

    tokens: int
    basis: TokenBasis
    """The method; `estimated` if any part of the number is estimated."""


class Priced(Struct, frozen=True, kw_only=True):
    """The saved tokens converted to input tokens at full price; see docs/savings.md."""

    calls: int
    """How often a prompt is sent again with the same contents."""
    asking_tokens: int
    """Estimated number of tokens that the model wrote to request what it read. They are deducted at
    output price.
    """
    uncached: float
    """The number saved if every call pays for the whole prompt."""
    cached: float
    """The number saved if the provider caches prompts."""


class Share(Struct, frozen=True, kw_only=True):
    """A part of the savings, in tokens, counted or estimated like the total."""

    name: str
    """A day (UTC), an agent or a source; `others` combines several that have no share of their own.
    """
    whole: int
    sent: int
    pulled_back: int
    net: int


class Savings(Struct, frozen=True, kw_only=True):
    """The tokens saved in a store, or for the artifacts in one thread.

    net = whole - sent - pulled_back. The net number may be negative.
    """

    scope: str
    """The scope: all, or thread <id>."""
    answers: int
    """The number of previews, outlines, slices, greps, searches and digests returned."""
    pulls: int
    uncounted: int
    """The number of replies that came too fast to be counted. They are included in no other figure.
    """
    whole: Figure
    """The tokens of the artifacts that were read, as if pasted. Each artifact counts once, however
    often it was read.
    """
    sent: Figure
    """The tokens that readers received instead, counted for each read."""
    pulled_back: Figure
    """The tokens of artifacts that were loaded in full afterwards, counted for each load."""
    avoided: int
    """whole - sent."""
    net: int
    tokenizer: str
    priced: Priced
    artifacts: int
    naive_tokens: int
    """For comparison, the seed's formula: the sum of size // 4 over all current artifacts."""
    actual_tokens: int
    """For comparison, the seed's formula: the sum of len(preview.text) // 4 over all current
    artifacts.
    """
    tokens_avoided: int
    seed_basis: str = "estimated: characters / 4"
    is_partial: bool = False
    """Whether the seed's formula covers only some of the artifacts."""
    by_day: list[Share] = []
    """The savings of each recent day on which something was read. This and the next two fields are
    for the whole store only.
    """
    by_agent: list[Share] = []
    """The savings of each agent that stored what was read, largest net first."""
    by_source: list[Share] = []
    """The savings by the capability that produced an artifact or, if none did, by the artifact's
    type.
    """
