"""Policy: whether to send a message in full each time, show it once, or pass it as a ref, by cost.

With prompt caching, text that stays in the prefix is cheap to send again. A ref costs a line now,
and a pull if the model wants to read the message. Prices are in units of an uncached input token.

Rule: the cheapest option wins. Pull probabilities are measured in this store by kind and size. They
start from a prior that measurements soon outweigh.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from contextrelay.errors import Invalid

Way = Literal["inline", "once", "ref"]

REF_TOKENS = 41  # The number of tokens of a ref on one line of a prompt.
MESSAGE_TOKENS_MIN = 100  # The number of tokens below which a message is always sent in full.
LATER_CALLS_MIN = 3
_PULL_TOKENS = 40  # Of the request for a piece, and of the text around it in the reply.
_KEPT_SHARE = 0.9  # The share of inline text that compaction does not remove early.
_PRIOR_CHANCE = 0.3
_PRIOR_WEIGHT = 10
_SLICE_TOKENS = 300


class Prices(Struct, frozen=True):
    """Prices of tokens, relative to an uncached input token."""

    cache_write: float = 1.25
    cache_read: float = 0.1
    output: float = 5.0

    def __post_init__(self) -> None:
        prices = (self.cache_write, self.cache_read, self.output)
        if not all(0 <= price < 1_000_000 for price in prices):
            raise Invalid(f"prices {prices}", "pass numbers of 0 or more")


class Pulls(Struct, frozen=True):
    """How often messages of a kind and size were shown as refs, and how often then pulled."""

    shown: int = 0
    at_first_call: int = 0
    later: int = 0
    slice_tokens: int = 0  # The total number of tokens of all pulls.

    @property
    def first_chance(self) -> float:
        return (self.at_first_call + _PRIOR_CHANCE * _PRIOR_WEIGHT) / (self.shown + _PRIOR_WEIGHT)

    @property
    def later_chance(self) -> float:
        return (self.later + _PRIOR_CHANCE * _PRIOR_WEIGHT) / (self.shown + _PRIOR_WEIGHT)

    @property
    def mean_slice_tokens(self) -> float:
        pulls = self.at_first_call + self.later
        return (self.slice_tokens + _SLICE_TOKENS * _PRIOR_WEIGHT) / (pulls + _PRIOR_WEIGHT)


class WindowMessage(Struct, frozen=True, kw_only=True):
    """A message that is to be put into a window."""

    tokens: int
    prefix_tokens: int = 0  # The number of tokens before the message, which are in the prompt cache
    calls: int = 0  # The number of model calls so far. The same number is expected to follow.
    is_addressed: bool = False
    """Whether the agent asked for the message, so that it is shown at least once."""
    is_exempt: bool = False
    """Whether it is always inline: a system message, the task, or the agent's own output."""


class Costs(Struct, frozen=True):
    """The cost of each way to pass on a message."""

    inline: float
    once: float
    ref: float


def choose(message: WindowMessage, pulls: Pulls, prices: Prices = Prices()) -> Way:  # noqa: B008
    """Return the cheapest way to pass a message on.

    If costs are equal, return the way that shows more.
    """
    if message.is_exempt or message.tokens < MESSAGE_TOKENS_MIN:
        return "inline"
    costs = weigh(message, pulls, prices)
    ways: Mapping[Way, float] = {"inline": costs.inline, "once": costs.once}
    if not message.is_addressed:
        ways = {**ways, "ref": costs.ref}
    return min(ways, key=lambda way: ways[way])


def weigh(message: WindowMessage, pulls: Pulls, prices: Prices = Prices()) -> Costs:  # noqa: B008
    """Return the cost of each way to pass a message on, over this and the expected later calls."""
    later_calls = max(LATER_CALLS_MIN, message.calls)
    kept = prices.cache_write + prices.cache_read * later_calls
    one_pull = (
        prices.cache_read * (message.prefix_tokens + REF_TOKENS)
        + _PULL_TOKENS * prices.output
        + pulls.mean_slice_tokens
        + _PULL_TOKENS
    )
    return Costs(
        inline=_KEPT_SHARE * kept * message.tokens,
        once=kept * REF_TOKENS + message.tokens + pulls.later_chance * one_pull,
        ref=kept * REF_TOKENS + (pulls.first_chance + pulls.later_chance) * one_pull,
    )


def size_class(tokens: int) -> str:
    """Return the name of the size class for which pull rates are kept."""
    for limit in (400, 1_600, 6_400, 25_600):
        if tokens < limit:
            return f"under_{limit}"
    return "over_25600"
