"""Reports: the results of the verbs that maintain a store."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct, field

from contextrelay.model.artifact import Artifact
from contextrelay.model.tokens import TokenBasis


class Listing(Struct, frozen=True, kw_only=True):
    """One page of artifacts, newest first; `next` is "" on the last one."""

    artifacts: list[Artifact]
    next: str = ""


class Lineage(Struct, frozen=True, kw_only=True):
    """What an artifact was made from (`sources`), and what was made from it (`derived`)."""

    ref: str
    sources: list[str]
    derived: list[str]
    holders: list[str] = []
    """The threads that keep it from expiring, by id."""


class SweepReport(Struct, frozen=True, kw_only=True):
    """The results of a sweep."""

    expired: int = 0
    """The number of artifacts that had expired."""
    freed_bodies: int = 0
    freed_bytes: int = 0
    forgotten_tombstones: int = 0
    mended: int = 0
    """Leftovers of pushes and removals that a crash interrupted."""
    is_done: bool = True
    """False if there is more work than one sweep does."""


class Problem(Struct, frozen=True, kw_only=True):
    """An inconsistency in a store."""

    what: str
    ref: str | None = None
    next_step: str = ""


class VerifyReport(Struct, frozen=True, kw_only=True):
    """What was checked, and the problems found (at most 100 are listed, all are counted)."""

    artifacts: int
    bodies: int
    body_bytes: int = field(name="bytes")
    events: int
    problem_count: int
    problems: list[Problem]
    unchecked: int = 0
    """Artifacts stored by an earlier version without a hash: they could not be checked."""


class BackupReport(Struct, frozen=True, kw_only=True):
    """The contents of a backup."""

    created_at: datetime
    address: str


class RestoreReport(Struct, frozen=True, kw_only=True):
    """The contents that a restore brought back."""

    logs: int
    bodies: int
    body_bytes: int = field(name="bytes")
    created_at: datetime
    """When the backup was made."""


class MigrateProgress(Struct, frozen=True):
    """The progress of a migration."""

    pass_number: int
    logs: int
    logs_total: int
    body_bytes: int
    body_bytes_total: int
    seconds_left: float | None
    """Of this pass, extrapolated from its speed so far."""


class MigrateReport(Struct, frozen=True, kw_only=True):
    """The totals of a migration, over all its passes."""

    source: str
    target: str
    passes: int
    logs: int
    """The number of logs."""
    changes: int
    """Writes to the target."""
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
    """Recommended server settings, each with the next step after "; ". These are not problems yet.
    """


class StoreReport(Struct, frozen=True, kw_only=True):
    """A store's type, contents and size."""

    address: str
    engine: str
    artifacts: int
    bodies: int
    body_bytes: int = field(name="bytes")
    due: int
    """Artifacts and tombstones that have expired and await cleanup."""


class Figure(Struct, frozen=True):
    """A number of tokens with the method by which it was found."""

    tokens: int
    basis: TokenBasis
    """`estimated` if any part of it is."""


class Priced(Struct, frozen=True, kw_only=True):
    """The tokens priced as input tokens at full price; see docs/savings.md."""

    calls: int
    """How often a prompt is sent again, with its contents."""
    asking_tokens: int
    """Estimated tokens that the model wrote to request what it read; deducted at output price."""
    uncached: float
    """Saved if every call pays for the whole prompt."""
    cached: float
    """Saved if the provider caches prompts."""


class Share(Struct, frozen=True, kw_only=True):
    """A part of the savings, in tokens; counted or estimated like the total."""

    name: str
    """A day (UTC), an agent or a source; `others` combines several, or those beyond the limit."""
    whole: int
    sent: int
    pulled_back: int
    net: int


class Savings(Struct, frozen=True, kw_only=True):
    """The savings of a store, or of the artifacts in a thread.

    net = whole - sent - pulled_back. It may be negative.
    """

    scope: str
    """The scope: all, or thread <id>."""
    answers: int
    """The number of previews, outlines, slices, greps, searches and digests returned."""
    pulls: int
    uncounted: int
    """Replies that came too fast to be counted; no other figure includes them."""
    whole: Figure
    """The tokens of the artifacts read, as if pasted: each artifact once, however often it was
    read.
    """
    sent: Figure
    """The tokens that readers received instead, each time."""
    pulled_back: Figure
    """The tokens that were loaded in full afterwards, each time."""
    avoided: int
    """whole - sent."""
    net: int
    tokenizer: str
    priced: Priced
    artifacts: int
    naive_tokens: int
    """For comparison, the formula of the seed: for every current artifact, size // 4 ..."""
    actual_tokens: int
    """... and len(preview.text) // 4."""
    tokens_avoided: int
    seed_basis: str = "estimated: characters / 4"
    is_partial: bool = False
    """Whether the seed's formula covers only some of the artifacts."""
    by_day: list[Share] = []
    """For the whole store, like the next two: the last days on which something was read."""
    by_agent: list[Share] = []
    """By the agent that stored what was read, largest net first."""
    by_source: list[Share] = []
    """By the capability that produced it, otherwise by its type."""
