"""Reports: what the verbs that look after a store found and did."""

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
    """What a sweep freed and repaired."""

    expired: int = 0
    """Artifacts whose time was up."""
    freed_bodies: int = 0
    freed_bytes: int = 0
    forgotten_tombstones: int = 0
    mended: int = 0
    """Leftovers of pushes and removals that a crash cut short."""
    is_done: bool = True
    """False if there is more to do than one sweep takes on."""


class Problem(Struct, frozen=True, kw_only=True):
    """Something that should not be so."""

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
    """Descriptions that an earlier version stored, without a hash: they could not be checked."""


class BackupReport(Struct, frozen=True, kw_only=True):
    """What a backup holds."""

    created_at: datetime
    address: str


class RestoreReport(Struct, frozen=True, kw_only=True):
    """What a restore brought back."""

    logs: int
    bodies: int
    body_bytes: int = field(name="bytes")
    created_at: datetime
    """When the backup was made."""


class MigrateProgress(Struct, frozen=True):
    """How far a migration is."""

    pass_number: int
    logs: int
    logs_total: int
    body_bytes: int
    body_bytes_total: int
    seconds_left: float | None
    """Of this pass, as it went so far."""


class MigrateReport(Struct, frozen=True, kw_only=True):
    """What a migration moved, in all its passes together."""

    source: str
    target: str
    passes: int
    logs: int
    """How many there are."""
    changes: int
    """Writes to the target."""
    bodies: int
    body_bytes: int = field(name="bytes")
    is_same: bool
    """Whether a last pass found nothing more to move."""
    is_open: bool
    """Whether the target may be used."""
    verified: VerifyReport | None = None


class LedgerReport(Struct, frozen=True, kw_only=True):
    """What an engine says of its own files and settings."""

    problems: list[str]
    advice: list[str]
    """What its server had better be set to: no problem yet, and the next step after "; "."""


class StoreReport(Struct, frozen=True, kw_only=True):
    """What a store is and holds."""

    address: str
    engine: str
    artifacts: int
    bodies: int
    body_bytes: int = field(name="bytes")
    due: int
    """Artifacts and tombstones whose time is up and that a sweep will take."""


class Figure(Struct, frozen=True):
    """A number of tokens, never without how it was found."""

    tokens: int
    basis: TokenBasis
    """`estimated` as soon as any part of it is."""


class Priced(Struct, frozen=True, kw_only=True):
    """What the tokens are worth, in input tokens at full price; by docs/savings.md."""

    calls: int
    """How often a prompt is sent on, with what is in it."""
    asking_tokens: int
    """What the model wrote to ask for what it read: an estimate, and taken off as output."""
    uncached: float
    """Saved where every call pays for the whole prompt."""
    cached: float
    """Saved where the provider caches prompts."""


class Share(Struct, frozen=True, kw_only=True):
    """A part of the savings, in tokens; counted or estimated as the whole is."""

    name: str
    """A day (UTC), an agent or a source; `others` is what belongs to several, or one too many."""
    whole: int
    sent: int
    pulled_back: int
    net: int


class Savings(Struct, frozen=True, kw_only=True):
    """The honest ledger of a store, or of the artifacts that were put into a thread.

    net = whole - sent - pulled_back. It may be less than nothing.
    """

    scope: str
    """all, or thread <id>."""
    answers: int
    """Previews, outlines, slices, greps, searches and digests that were given."""
    pulls: int
    uncounted: int
    """Answers that came too fast to be counted; nothing of them is in the other figures."""
    whole: Figure
    """What was looked into, had it been pasted: each artifact once, however often it was read."""
    sent: Figure
    """What readers received instead, each time."""
    pulled_back: Figure
    """What was then loaded after all, each time."""
    avoided: int
    """whole - sent."""
    net: int
    tokenizer: str
    priced: Priced
    artifacts: int
    naive_tokens: int
    """The seed's formula, to compare: of every artifact there is now, size // 4 ..."""
    actual_tokens: int
    """... and len(preview.text) // 4."""
    tokens_avoided: int
    seed_basis: str = "estimated: characters / 4"
    is_partial: bool = False
    """Whether there are more artifacts than the seed's formula was taken over."""
    by_day: list[Share] = []
    """Of the whole store, as are the next two: the last days on which something was read."""
    by_agent: list[Share] = []
    """By who put in what was read, the largest net first."""
    by_source: list[Share] = []
    """By the capability that made it, or else its type."""
