"""A bucket that fills with time: never more than was said, and always as much."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from contextrelay.access import Bucket, take_tokens


@given(st.integers(1, 1000), st.lists(st.integers(0, 5_000), max_size=200))
def test_no_more_is_spent_than_a_minutes_worth_and_what_time_brought(
    per_minute: int, pauses_ms: list[int]
) -> None:
    """Promise Z1: rate limits."""
    bucket: Bucket | None = None
    now_ms = spent = 0
    for pause_ms in pauses_ms:
        now_ms += pause_ms
        bucket, wait_s = take_tokens(bucket, per_minute, now_ms)
        spent += wait_s == 0.0

    assert spent <= per_minute + now_ms * per_minute / 60_000 + 1e-6


@given(st.integers(1, 1000))
def test_a_caller_that_waits_as_long_as_asked_is_let_in(per_minute: int) -> None:
    """Promise Z1."""
    bucket: Bucket | None = None
    for _ in range(per_minute):
        bucket, wait_s = take_tokens(bucket, per_minute, 0)
        assert wait_s == 0.0

    bucket, wait_s = take_tokens(bucket, per_minute, 0)
    assert wait_s > 0.0

    _, wait_s = take_tokens(bucket, per_minute, int(wait_s * 1000) + 1)
    assert wait_s == 0.0


def test_a_clock_that_goes_back_gives_nothing_away() -> None:
    bucket, _ = take_tokens(None, 1, 1_000_000)

    _, wait_s = take_tokens(bucket, 1, 0)

    assert wait_s > 0.0
