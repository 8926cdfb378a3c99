"""Savings: what refs kept out of prompts, counted as it happened, with what they cost taken off."""

from __future__ import annotations

from msgspec import Struct

from contextrelay.model.tokens import TokenBasis


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
