"""Policy: whether a message is re-sent in full, shown once, or passed as a ref, by what it costs.

With prompt caching, what stays in the prefix is cheap to send again; a ref costs a line now, and a
pull when the model wants to look. Prices are in units of an uncached input token.

Rule: the cheapest wins. Chances of a pull are this store's own, measured by kind and size; they
start from a prior that measurements soon outweigh.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from contextrelay.errors import Invalid

Way = Literal["inline", "once", "ref"]

REF_TOKENS = 41
"""A ref in one line of a prompt."""
MESSAGE_TOKENS_MIN = 100
"""Less than this is always sent in full."""
LATER_CALLS_MIN = 3
_PULL_TOKENS = 40
"""What asking for a piece takes, and what frames the answer."""
_KEPT_SHARE = 0.9
"""A part of what is inline is compacted away before the end."""
_PRIOR_CHANCE = 0.3
_PRIOR_WEIGHT = 10
_SLICE_TOKENS = 300


class Prices(Struct, frozen=True):
    """What a token costs, where an uncached input token costs 1."""

    cache_write: float = 1.25
    cache_read: float = 0.1
    output: float = 5.0

    def __post_init__(self) -> None:
        prices = (self.cache_write, self.cache_read, self.output)
        if not all(0 <= price < 1_000_000 for price in prices):
            raise Invalid(f"prices {prices}", "give numbers from 0 up")


class Pulls(Struct, frozen=True):
    """How often messages of a kind and size were pulled, of those that were passed as refs."""

    shown: int = 0
    at_first_call: int = 0
    later: int = 0
    slice_tokens: int = 0
    """All that the pulls brought, together."""

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
    """A message on its way into a window."""

    tokens: int
    prefix_tokens: int = 0
    """What stands before it, in the cache."""
    calls: int = 0
    """How often the model was called so far; as many are expected to follow."""
    is_addressed: bool = False
    """Whether the agent asked for it: then it is shown at least once."""
    is_exempt: bool = False
    """A system message, the task, or the agent's own output."""


class Costs(Struct, frozen=True):
    """What each way costs."""

    inline: float
    once: float
    ref: float


def choose(message: WindowMessage, pulls: Pulls, prices: Prices = Prices()) -> Way:  # noqa: B008
    """The cheapest way to pass a message on; the fuller one of two that cost the same."""
    if message.is_exempt or message.tokens < MESSAGE_TOKENS_MIN:
        return "inline"
    costs = weigh(message, pulls, prices)
    ways: Mapping[Way, float] = {"inline": costs.inline, "once": costs.once}
    if not message.is_addressed:
        ways = {**ways, "ref": costs.ref}
    return min(ways, key=lambda way: ways[way])


def weigh(message: WindowMessage, pulls: Pulls, prices: Prices = Prices()) -> Costs:  # noqa: B008
    """What each way costs over this call and those that follow."""
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
    """The class of sizes that pull rates are kept for."""
    for limit in (400, 1_600, 6_400, 25_600):
        if tokens < limit:
            return f"under_{limit}"
    return "over_25600"
