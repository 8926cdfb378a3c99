"""Turns: indexed blocks, and the scores of their group, speaker and date."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from contextrelay.packing.turn_features import ASKS_NUMBER, ASKS_WHEN, days_in, same_days
from contextrelay.packing.weights import Weights


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
