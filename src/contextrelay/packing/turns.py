"""Turns: the features of blocks in a conversation, and the weights of words and features."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from datetime import UTC, datetime

from msgspec import Struct

from contextrelay.model.package import Block


class IndexedBlock(Struct):
    """A block as stored in the relevance index."""

    id: str
    place: int
    group: str | None
    place_in_group: int
    words: dict[str, int]
    """For each word, its count packed with the block's length: a key into the weight table."""
    length: int
    speaker: str
    is_question: bool
    says_when: bool
    says_number: bool
    address_share: float
    """How much the block addresses the other speaker: 1 if it does so three times or more."""
    day: tuple[int, int] | None  # The month and day of the block.
    # Positions of the block's neighbours, with their shares of its score; None if not cached.
    neighbour_shares: list[tuple[int, float]] | None = None
    answer_place: int = -1
    """If the block is a question, the position of the block after it; -1 if it is not computed."""


def weigh(
    summed: list[float],
    turns: Collection[IndexedBlock],
    query: str,
    speakers: set[str],
    weights: Weights,
    has_groups: bool,
) -> None:
    """Add the scores of group, speaker and date to the word scores. This modifies `summed`."""
    days = days_in(query)
    asks_when = ASKS_WHEN.search(query) is not None
    asks_number = ASKS_NUMBER.search(query) is not None
    if not (has_groups or speakers or days or asks_when or asks_number):
        return
    best_in_group: dict[str | None, float] = {}
    for turn in turns:
        score = summed[turn.place]
        if score > best_in_group.get(turn.group, 0.0):
            best_in_group[turn.group] = score
    best_in_group[None] = 0.0
    highest = max(summed, default=0.0)
    answers: list[tuple[int, float]] = []
    for turn in turns:
        of_group = best_in_group.get(turn.group, 0.0)
        own = summed[turn.place]
        score = own + weights.group * of_group
        if not score:
            continue
        if not own:
            score *= weights.only_group
        if turn.is_question and turn.group is not None:
            score *= 1 - weights.question
        if turn.address_share and turn.group is not None:
            score *= 1 - weights.you * turn.address_share
        if speakers and turn.speaker in speakers:
            score *= 1 + weights.speaker
        if days and turn.day is not None:
            score += weights.date * highest * same_days(turn.day, days)
        if asks_when and turn.says_when:
            score *= 1 + weights.when
        if asks_number and turn.says_number:
            score *= 1 + weights.number
        summed[turn.place] = score
        if own and turn.answer_place >= 0:
            answers.append((turn.answer_place, score * weights.answer))
    for place, score in answers:
        if score > summed[place]:
            summed[place] = score


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


class Weights(Struct, frozen=True):
    """The parameters of relevance."""

    # Parameters of BM25 for blocks, which are shorter than documents: repetition means little, and
    # length matters less.
    saturation: float = 0.9
    length: float = 0.4
    group_idf: float = 0.4
    # The shares that a block gets of a word in the next blocks, and in the previous ones.
    before: tuple[float, ...] = (0.4, 0.2, 0.1, 0.06)
    behind: tuple[float, ...] = (0.5, 0.3, 0.1, 0.06)
    after_question: float = 0.7
    answer: float = 0.85  # The minimum score of an answer, relative to the score of its question.
    question: float = 0.1  # The penalty of a question, compared with a statement.
    you: float = 0.1
    """The penalty of a turn that addresses the other speaker instead of stating something."""
    group: float = 0.3
    only_group: float = 0.5
    """The factor of the group score for a block that has no query word nearby."""
    framing: float = 0.5
    synonym: float = 0.45
    beginning: float = 0.4  # The weight of a word that starts like a query word.
    speaker: float = 0.4
    date: float = 0.3
    when: float = 0.3
    number: float = 0.3
    # The exponent of the score by words, if there is an embedding. Above 1, blocks that are best by
    # words stay first, and vectors decide the order of the others.
    words_power: float = 1.5
    embedded: float = 0.25  # The score of the block nearest by embedding; 1 is the best by words.
    # The weights of neighbours in the topic of a block, the nearest first.
    embedded_lent: tuple[float, ...] = (0.6, 0.36, 0.22)


WEIGHTS = Weights()
LENGTH_BITS = 32


class WordWeights(dict[int, float]):
    """A table of the weight of a word in a block, by the word's count and the block's length.

    Many blocks share few distinct keys, so each weight is computed only once for a mean length.
    """

    def __init__(self, weights: Weights, mean: float) -> None:
        super().__init__()
        self._weights = weights
        self._mean = mean

    def at(self, mean: float) -> WordWeights:
        """Return a table for a mean length, or this table if the mean length is unchanged."""
        return self if mean == self._mean else WordWeights(self._weights, mean)

    def __missing__(self, packed: int) -> float:
        weights, length = self._weights, packed & ((1 << LENGTH_BITS) - 1)
        times = packed >> LENGTH_BITS
        longer = 1 - weights.length + weights.length * length / (self._mean or 1.0)
        weight = (weights.saturation + 1) * times / (times + weights.saturation * longer)
        self[packed] = weight
        return weight


def idf(count: int, with_it: int) -> float:
    """Return the inverse document frequency of a word in `with_it` of `count` blocks."""
    return math.log(1 + (count - with_it + 0.5) / (with_it + 0.5))
