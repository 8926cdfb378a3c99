"""Relevance: score blocks for a query, with an incremental index.

A word of the query counts where it occurs and, with less weight, in neighbouring blocks, because
the answer to a question seldom repeats its words. For each word only the best neighbour counts, not
the sum, because otherwise talk about one thing would outweigh the turn that states it. The score
also includes the group as a whole, a speaker named in the query, and the date, if the query has
one.

Rule: the cost of adding a block depends only on its length; nothing is ever recomputed. The weights
work over a wide range around these values (bench/quality/locomo).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from contextrelay.content.search.words import query_words, stem, words
from contextrelay.model.package import Block
from contextrelay.packing.embeddings import Embed, Vectors
from contextrelay.packing.related_words import (
    BEGINNING_CHARS,
    begin_alike,
    framing_words,
    synonyms,
)
from contextrelay.packing.turns import (
    LENGTH_BITS,
    SAYS_NUMBER,
    SAYS_WHEN,
    SAYS_YOU,
    WEIGHTS,
    IndexedBlock,
    Weights,
    WordWeights,
    day_of,
    group_of,
    idf,
    speaker_of,
    weigh,
)

_SPEAKER_TURNS_MIN = 3


class _ParsedQuery(Struct, frozen=True):
    """A parsed query: the speakers that it names, and its other words."""

    speakers: set[str]
    spelled: dict[str, str]
    meant: dict[str, dict[str, float]]
    """For each word, the words that it may mean, with their weights."""
    reached: dict[str, dict[int, float]]
    """For each word, its scores at the positions where it occurs, and near them."""


class Relevance:
    """An index over blocks, in the order in which they were added."""

    def __init__(
        self, blocks: Sequence[Block] = (), embed: Embed | None = None, weights: Weights = WEIGHTS
    ) -> None:
        self._weights = weights
        self._entries: dict[str, IndexedBlock] = {}
        self._ids: list[str] = []  # By position; an empty text stands for a removed block.
        self._free: list[int] = []
        # For each word, packed counts and lengths by position, as in the entries.
        self._postings: dict[str, dict[int, int]] = {}
        # The ids of the blocks of each group, in order; None stands for a removed block.
        self._groups: dict[str, list[str | None]] = {}
        self._in_groups: dict[str, dict[str, int]] = {}
        self._beginnings: dict[str, list[str]] = {}  # Words by their first characters.
        self._speakers: dict[str, int] = {}
        self._length_sum = 0
        self._packs: dict[int, int] = {}
        self._table = WordWeights(weights, 1.0)
        self._last_query: tuple[str, _ParsedQuery] | None = None
        """The last query and its parsed form, which is used for every block that is shown."""
        self._vectors = None if embed is None else Vectors(embed, weights.embedded_lent)
        for block in blocks:
            self.add(block)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, block_id: object) -> bool:
        return block_id in self._entries

    def add(self, block: Block) -> None:
        """Add a block after the others.

        A block with a known id replaces the old one, at the same position.
        """
        self._last_query = None
        old = self._entries.get(block.id)
        if old is not None:
            self._forget_words(old)
        speaker, said = speaker_of(block)
        counted: dict[str, int] = {}
        for word in words(said):
            counted[word] = counted.get(word, 0) + 1
        length = sum(counted.values())
        if old is not None:
            place = old.place
        elif self._free:
            place = self._free.pop()
            self._ids[place] = block.id
        else:
            place = len(self._ids)
            self._ids.append(block.id)
        entry = IndexedBlock(
            id=block.id,
            place=place,
            group=group_of(block),
            place_in_group=-1,
            words={word: self._packed(times, length) for word, times in counted.items()},
            length=length,
            speaker=speaker,
            is_question=said.rstrip().endswith("?"),
            says_when=SAYS_WHEN.search(said) is not None,
            says_number=SAYS_NUMBER.search(said) is not None,
            address_share=min(len(SAYS_YOU.findall(said)), 3) / 3,
            day=day_of(block),
        )
        self._entries[block.id] = entry
        self._join_group(entry, old)
        self._note_words(entry)
        if self._vectors is not None:
            self._vectors.add(block.id, " ".join(query_words(said).values()) or said)

    def remove(self, block_id: str) -> None:
        """Remove a block, if it exists; its neighbours keep their positions."""
        self._last_query = None
        entry = self._entries.get(block_id)
        if entry is not None:
            self._forget_words(entry)
            self._leave_group(entry)
            del self._entries[block_id]
            self._ids[entry.place] = ""
            self._free.append(entry.place)
            if self._vectors is not None:
                self._vectors.remove(block_id)

    def scores(self, query: str) -> dict[str, float]:
        """Return the scores of the relevant blocks by id."""
        summed = self._place_scores(query)
        found = {name: score for name, score in zip(self._ids, summed, strict=True) if score}
        return found if self._vectors is None else self._with_vectors(found, query, self._vectors)

    def _with_vectors(
        self, found: dict[str, float], query: str, vectors: Vectors
    ) -> dict[str, float]:
        """Return the scores of blocks by words plus their scores by embedding."""
        asked = self._parse_query(query)
        bare = " ".join(asked.spelled[word] for word in asked.meant) or query
        near, highest = vectors.near(bare, self._groups.values()), max(found.values(), default=1.0)
        power, of_vectors = self._weights.words_power, self._weights.embedded
        mixed = {
            block_id: (found.get(block_id, 0.0) / highest) ** power + of_vectors * share
            for block_id, share in near.items()
        }
        return {block_id: score for block_id, score in mixed.items() if score}

    def shares(self, query: str) -> dict[str, float]:
        """Return scores relative to the best block: 1 for the best block, 0 for irrelevant ones."""
        if self._vectors is None:
            ids, scores = self._ids, self._place_scores(query)
        else:
            found = self.scores(query)
            ids, scores = list(self._entries), [found.get(each, 0.0) for each in self._entries]
        highest = max(scores, default=0.0) or 1.0
        shares = dict(zip(ids, [score and score / highest for score in scores], strict=True))
        shares.pop("", None)  # The empty id stands for the positions of removed blocks.
        return shares

    def _place_scores(self, query: str) -> list[float]:
        asked = self._parse_query(query)
        summed = [0.0] * len(self._ids)
        how_asked = framing_words().intersection(asked.meant)
        for word, reached in asked.reached.items():
            is_framing = word in how_asked and len(how_asked) < len(asked.meant)
            share = self._weights.framing if is_framing else 1.0
            for place, score in reached.items():
                summed[place] += score * share
        has_groups = bool(self._groups)
        for turn in self._entries.values() if has_groups else ():
            if turn.is_question and turn.neighbour_shares is None:
                self._neighbour_shares(turn)  # This call also finds the answer to a question.
        weigh(summed, self._entries.values(), query, asked.speakers, self._weights, has_groups)
        return summed

    def found(self, query: str, block_id: str) -> tuple[str, ...]:
        """Return the words of a query that occur in a block or in its neighbours."""
        entry = self._entries.get(block_id)
        if entry is None:
            return ()
        asked = self._parse_query(query)
        return tuple(
            asked.spelled[word] for word, places in asked.reached.items() if entry.place in places
        )

    def _parse_query(self, query: str) -> _ParsedQuery:
        if self._last_query is not None and self._last_query[0] == query:
            return self._last_query[1]
        self._table = self._table.at(self._length_sum / max(len(self._entries), 1))
        spoken = set(re.findall(r"\w+", query.casefold()))
        speakers = {
            name
            for name, turns in self._speakers.items()
            if turns >= _SPEAKER_TURNS_MIN and spoken.issuperset(name.split())
        }
        names = {stem(word) for name in speakers for word in name.split()}
        spelled = query_words(query)
        meant = {word: self._related(word) for word in spelled if word not in names}
        reached = {word: self._of_word(word, others) for word, others in meant.items()}
        asked = _ParsedQuery(speakers, spelled, meant, reached)
        self._last_query = query, asked
        return asked

    # Groups

    def _join_group(self, entry: IndexedBlock, old: IndexedBlock | None) -> None:
        if old is not None and old.group == entry.group:
            entry.place_in_group = old.place_in_group
        else:
            if old is not None:
                self._leave_group(old)
            if entry.group is not None:
                members = self._groups.setdefault(entry.group, [])
                entry.place_in_group = len(members)
                members.append(entry.id)
        self._clear_neighbours(entry)

    def _leave_group(self, entry: IndexedBlock) -> None:
        if entry.group is not None:
            # The position of the block stays empty, because closing the gap would take time linear
            # in the size of the group.
            self._groups[entry.group][entry.place_in_group] = None
            self._clear_neighbours(entry)

    def _clear_neighbours(self, changed: IndexedBlock) -> None:
        """Clear the cached neighbours of the blocks that are near a changed block."""
        for entry in self._neighbours(changed):
            entry.neighbour_shares = None
        changed.neighbour_shares = None

    def _neighbours(self, entry: IndexedBlock) -> Iterator[IndexedBlock]:
        """Yield the neighbours of a block that are near enough to share words."""
        if entry.group is not None:
            members, place = self._groups[entry.group], entry.place_in_group
            reach = max(len(self._weights.before), len(self._weights.behind))
            for neighbour in members[max(0, place - reach) : place + reach + 1]:
                if neighbour is not None and neighbour != entry.id:
                    yield self._entries[neighbour]

    def _neighbour_shares(self, entry: IndexedBlock) -> list[tuple[int, float]]:
        """Return the positions of a block's neighbours, with their shares of the block's score."""
        neighbour_shares: list[tuple[int, float]] = []
        entry.answer_place = -1
        if entry.group is not None:
            members, place = self._groups[entry.group], entry.place_in_group
            for offset, share in enumerate(self._weights.before, 1):
                if place >= offset and (neighbour := members[place - offset]) is not None:
                    neighbour_shares.append((self._entries[neighbour].place, share))
            for offset, share in enumerate(self._weights.behind, 1):
                if (
                    place + offset < len(members)
                    and (neighbour := members[place + offset]) is not None
                ):
                    is_answer = offset == 1 and entry.is_question
                    given = self._weights.after_question if is_answer else share
                    neighbour_place = self._entries[neighbour].place
                    neighbour_shares.append((neighbour_place, given))
                    if is_answer:
                        entry.answer_place = neighbour_place
        entry.neighbour_shares = neighbour_shares
        return neighbour_shares

    # Words

    def _packed(self, times: int, length: int) -> int:
        """Pack the count of a word in a block and the block's length into one number."""
        packed = times << LENGTH_BITS | length
        # Return the same object for equal numbers, which keeps the lookups of postings in the CPU
        # cache.
        return self._packs.setdefault(packed, packed)

    def _note_words(self, entry: IndexedBlock) -> None:
        self._length_sum += entry.length
        if entry.speaker:
            self._speakers[entry.speaker] = self._speakers.get(entry.speaker, 0) + 1
        place = entry.place
        for word, packed in entry.words.items():
            postings = self._postings.get(word)
            if postings is None:
                postings = self._postings[word] = {}
                self._beginnings.setdefault(word[:BEGINNING_CHARS], []).append(word)
            postings[place] = packed
            if entry.group is not None:
                in_groups = self._in_groups.setdefault(word, {})
                in_groups[entry.group] = in_groups.get(entry.group, 0) + 1

    def _forget_words(self, entry: IndexedBlock) -> None:
        self._length_sum -= entry.length
        if entry.speaker:
            self._speakers[entry.speaker] -= 1
        for word in entry.words:
            del self._postings[word][entry.place]
            if entry.group is not None:
                in_groups = self._in_groups[word]
                in_groups[entry.group] -= 1
                if not in_groups[entry.group]:
                    del in_groups[entry.group]

    def _of_word(self, word: str, meant: dict[str, float]) -> dict[int, float]:
        """Return the scores of a query word by position, also for neighbouring blocks."""
        own = self._postings.get(word)
        limit = self._rarity(word, own) if own else math.inf
        best: dict[int, float] = {}
        for other, share in meant.items():
            postings = self._postings.get(other)
            if not postings:
                continue
            # A rare related word must not count more than the word of the query.
            rarity = share * min(self._rarity(other, postings), limit)
            table = {packed: rarity * self._table[packed] for packed in set(postings.values())}
            if not best:
                best = {place: table[packed] for place, packed in postings.items()}
                continue
            for place, packed in postings.items():
                if table[packed] > best.get(place, 0.0):
                    best[place] = table[packed]
        return self._with_neighbours(best) if self._groups else best

    def _with_neighbours(self, own: dict[int, float]) -> dict[int, float]:
        """Return scores by position, where the neighbours of a block get a share of its score."""
        best, turns, ids = dict(own), self._entries, self._ids
        get = best.get
        for place, value in own.items():
            turn = turns[ids[place]]
            neighbour_shares = turn.neighbour_shares
            for neighbour, share in (
                self._neighbour_shares(turn) if neighbour_shares is None else neighbour_shares
            ):
                if value * share > get(neighbour, 0.0):
                    best[neighbour] = value * share
        return best

    def _related(self, word: str) -> dict[str, float]:
        """Return the words that a query word may mean, itself first, with their weights."""
        weights, meant = self._weights, {word: 1.0}
        for other in self._beginnings.get(word[:BEGINNING_CHARS], ()):
            if begin_alike(word, other):
                meant.setdefault(other, weights.beginning)
        for other in synonyms().get(word, ()):
            meant[other] = weights.synonym
        return meant

    def _rarity(self, word: str, postings: dict[int, int]) -> float:
        """Return the rarity of a word.

        It is counted by blocks, and partly by groups, because a group repeats its words.
        """
        by_block = idf(len(self._entries), len(postings))
        in_groups = self._in_groups.get(word)
        if not in_groups or len(self._groups) < 2:
            return by_block
        by_group = idf(len(self._groups), len(in_groups))
        share = self._weights.group_idf
        return (1 - share) * by_block + share * by_group
