"""Features of turns: speaker, group and day of a block, and words that name a time."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from contextrelay.model.package import Block

_SAID = re.compile(r"\s*([^\W\d_][\w.'-]{0,30}(?: [\w.'-]{1,30})?):\s")
_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip
_DATE_TEXT = re.compile(rf"(?:(\d{{1,2}})(?:st|nd|rd|th)? )?({'|'.join(_MONTHS)})\b", re.IGNORECASE)
_ISO_DATE = re.compile(r"\b\d{4}-(\d\d)-(\d\d)")
ASKS_WHEN = re.compile(
    r"\b(?:when|how long|what (?:date|day|time|month|year)|since)\b", re.IGNORECASE
)
SAYS_WHEN = re.compile(
    r"\b(?:yesterday|today|tonight|tomorrow|last|next|ago|week|weekend|month|year|day|since|recently"
    r"|soon|started|already|(?:mon|tues|wednes|thurs|fri|satur|sun)day|summer|winter|spring|fall"
    rf"|autumn|morning|evening|{'|'.join(_MONTHS)}|\d{{4}})s?\b",
    re.IGNORECASE,
)
ASKS_NUMBER = re.compile(r"\bhow (?:many|much|old|often|long|far)\b", re.IGNORECASE)
SAYS_NUMBER = re.compile(
    r"\b(?:\d+|one|two|three|four|five|six|seven|eight|nine|ten|once|twice|couple|few|several|dozen)\b",
    re.IGNORECASE,
)
SAYS_YOU = re.compile(r"\b(?:you|your|you're|you've|yours)\b", re.IGNORECASE)


def group_of(block: Block) -> str | None:
    """Return the group of a block, or None. Conversation turns that name no group share one."""
    if block.group is not None:
        return block.group
    return "" if block.type in ("USER", "AGENT") else None


def speaker_of(block: Block) -> tuple[str, str]:
    """Return the speaker of a block in lower case, and the text without the speaker's name."""
    said = _SAID.match(block.content)
    named = block.metadata.get("speaker")
    if isinstance(named, str):
        prefix = said is not None and said[1].casefold() == named.casefold()
        return named.casefold(), block.content[said.end() :] if said and prefix else block.content
    if said is None:
        return "", block.content
    return said[1].casefold(), block.content[said.end() :]


def day_of(block: Block) -> tuple[int, int] | None:
    """Return month and day of a block, from its timestamp or metadata; None if it has neither."""
    if block.timestamp:
        try:
            at = datetime.fromtimestamp(block.timestamp / 1000, UTC)
        except (OverflowError, ValueError, OSError):
            return None
        return at.month, at.day
    for value in block.metadata.values():
        if isinstance(value, str) and (days := days_in(value)):
            return days[0]
    return None


def days_in(text: str) -> list[tuple[int, int]]:
    """Return the months and days that a text names; the day is 0 if only the month is named."""
    found = [
        (_MONTHS.index(month.lower()) + 1, int(day or 0))
        for day, month in _DATE_TEXT.findall(text)
        if month != "may"  # Without a capital letter, may is usually not the month.
    ]
    return found + [(int(month), int(day)) for month, day in _ISO_DATE.findall(text)]


def same_days(day: tuple[int, int], asked: list[tuple[int, int]]) -> int:
    """Return how well a date matches those of a query: 1 for the month, 2 for month and day."""
    return max((1 + (number == day[1]) for month, number in asked if month == day[0]), default=0)
