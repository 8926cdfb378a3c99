"""Policy: the cheapest of three ways, checked against every call counted out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from contextrelay import Invalid
from contextrelay.packing.inline_or_ref import Costs, Prices, Pulls, WindowMessage, choose, weigh
from tests.rigs import length

sizes = st.integers(100, 200_000)
messages = st.builds(
    WindowMessage,
    tokens=sizes,
    prefix_tokens=st.integers(0, 200_000),
    calls=st.integers(0, 60),
    is_addressed=st.booleans(),
)


def seen(shown: int, first: int, later: int, tokens: int) -> Pulls:
    return Pulls(shown, min(first, shown), min(later, shown), tokens if shown else 0)


rates = st.builds(
    seen,
    st.integers(0, 500),
    st.integers(0, 500),
    st.integers(0, 500),
    st.integers(0, 100_000),
)
some_prices = st.builds(Prices, st.floats(1, 2), st.floats(0, 1), st.floats(1, 10))


def counted_out(message: WindowMessage, pulls: Pulls, prices: Prices) -> Costs:
    """The same costs, call by call: each later call reads what is cached, each pull is paid."""
    later_calls = max(3, message.calls)

    def cached(tokens: float) -> float:
        spent = prices.cache_write * tokens
        for _ in range(later_calls):
            spent += prices.cache_read * tokens
        return spent

    first = (pulls.at_first_call + 3) / (pulls.shown + 10)
    later = (pulls.later + 3) / (pulls.shown + 10)
    mean = (pulls.slice_tokens + 3_000) / (pulls.at_first_call + pulls.later + 10)
    pull = prices.cache_read * (message.prefix_tokens + 41) + 40 * prices.output + mean + 40
    return Costs(
        0.9 * cached(message.tokens),
        cached(41) + message.tokens + later * pull,
        cached(41) + first * pull + later * pull,
    )


@settings(max_examples=length(125, 500, 5000))
@given(messages, rates, some_prices)
def test_the_choice_is_the_cheapest_way(
    message: WindowMessage, pulls: Pulls, prices: Prices
) -> None:
    """Promise K6."""
    slow = counted_out(message, pulls, prices)
    costs = weigh(message, pulls, prices)

    for one, other in ((costs.inline, slow.inline), (costs.once, slow.once), (costs.ref, slow.ref)):
        assert one == pytest.approx(other)
    allowed = [costs.inline, costs.once] + ([] if message.is_addressed else [costs.ref])
    way = choose(message, pulls, prices)
    assert getattr(costs, way) == min(allowed)


def test_small_and_exempt_messages_are_sent_in_full() -> None:
    """Promise K6: from 100 tokens on, and not a system message, the task or one's own output."""
    assert choose(WindowMessage(tokens=99, calls=50), Pulls()) == "inline"
    assert choose(WindowMessage(tokens=90_000, is_exempt=True), Pulls()) == "inline"


def test_what_was_asked_for_is_shown_once_at_least() -> None:
    """Promise K6: ref only for what was not addressed to the agent."""
    large = WindowMessage(tokens=20_000, prefix_tokens=5_000, calls=20)

    assert choose(large, Pulls()) == "ref"
    assert choose(replace(large, is_addressed=True), Pulls()) == "once"


def test_what_is_always_pulled_is_not_passed_as_a_ref() -> None:
    """Promise K6: by the measured pull rates."""
    message = WindowMessage(tokens=400, prefix_tokens=8_000, calls=4)

    assert choose(message, Pulls(500, 500, 500, 400 * 1_000)) == "inline"
    assert choose(message, Pulls(500, 0, 0)) == "ref"


def test_prices_that_are_none_are_refused() -> None:
    with pytest.raises(Invalid):
        Prices(cache_read=float("nan"))
