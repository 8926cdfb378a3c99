"""Moments: times as people write them into project files.

Rule: a time without a zone is taken as UTC, so that the same file says the same everywhere.
"""

from __future__ import annotations

from datetime import UTC, datetime


def parsed(text: str) -> datetime | None:
    """The time that a text says; None where it says none."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def older_than(text: str, now: str, seconds: float) -> bool:
    """Whether a time is longer ago than so many seconds; what is no time counts as long ago."""
    then, here = parsed(text), parsed(now)
    return then is None or here is None or (here - then).total_seconds() > seconds
