"""Pacing: how often is too often, as a bucket that fills with time and empties with use."""

from __future__ import annotations

from msgspec import Struct

_MINUTE_MS = 60_000


class Bucket(Struct, frozen=True, gc=False):
    """What may be spent at once, as it was at a moment. It holds a minute's worth."""

    left: float
    at_ms: int


def spend(
    bucket: Bucket | None, per_minute: int, now_ms: int, amount: int = 1
) -> tuple[Bucket, float]:
    """Take so many out of a bucket, None for a full one; the bucket after, and the seconds to wait.

    The wait is 0.0 where they were there to take; else nothing is taken.
    """
    left = float(per_minute)
    if bucket is not None:
        filled = max(0, now_ms - bucket.at_ms) * per_minute / _MINUTE_MS
        left = min(left, bucket.left + filled)
    if left >= amount:
        return Bucket(left - amount, now_ms), 0.0
    return Bucket(left, now_ms), (amount - left) * _MINUTE_MS / per_minute / 1000
