"""Prices: exact, by band, with and without a cache; unknown is None."""

from __future__ import annotations

from decimal import Decimal

import pytest

from contextrelay.errors import Invalid
from contextrelay.runs.prices import PRICES, Rates, estimate, price, read_prices
from contextrelay.runs.provider import Tokens


def test_a_price_is_the_sum_of_fresh_cached_and_written_tokens() -> None:
    """Promise X2."""
    spent = Tokens(input=10_000, output=500, cache_read=6_000, cache_write=3_000)

    # 1,000 fresh at 2, 6,000 read at 0.10, 3,000 written at 2.50, 500 out at 10: per million.
    assert price(spent, "claude-sonnet-5-5", PRICES) == Decimal("0.0151")


def test_an_unknown_price_is_none_and_never_zero() -> None:
    """Promise X2."""
    table = {"half-known": Rates(input=Decimal(1), output=Decimal(2))}

    assert price(Tokens(input=10), "some-model", PRICES) is None
    assert price(Tokens(input=10, cache_read=5), "half-known", table) is None
    assert price(Tokens(input=10), "half-known", table) == Decimal("0.00001")
    assert estimate(10, 10, 10, "some-model", PRICES) == (None, None, None)


def test_a_snapshot_of_a_model_costs_what_the_model_does() -> None:
    """Promise X2."""
    model = "claude-haiku-4-5-20251001"
    assert price(Tokens(input=1_000_000, output=0), model, PRICES) is not None
    assert price(Tokens(input=1), f"{model}-turbo", PRICES) is None


def test_a_long_prompt_pays_the_higher_band_for_all_of_it() -> None:
    """Promise X2."""
    short = Tokens(input=100_000, output=1_000)
    long = Tokens(input=100_001, output=1_000)

    assert price(short, "claude-haiku-5-5", PRICES) == Decimal("0.0105")
    assert price(long, "claude-haiku-5-5", PRICES) == Decimal("0.0525005")
    assert price(Tokens(input=272_001), "gpt-6.1-terra", PRICES) is None


@pytest.mark.parametrize(
    "text",
    [b"no JSON", b'{"m": {"input": 1}}', b'{"m": {"input": 1, "output": 1, "outptu": 1}}'],
)
def test_prices_that_are_none_are_refused(text: bytes) -> None:
    """Promise X2."""
    with pytest.raises(Invalid) as raised:
        read_prices(text)

    assert raised.value.hint
