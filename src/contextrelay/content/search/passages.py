"""Passages: split a text into pieces for search, each with its position.

Prose is split at empty lines and headings, code before definitions, and everything at a maximum
length. A longer line is split between words; JSON on one line, between its entries.

Rule: passages are consecutive and cover the whole text; each has its lines and bytes, counted from
0 and half open, so that a hit can be sliced.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from math import log

from msgspec import DecodeError, Struct
from msgspec.json import decode

from contextrelay.content.search.words import words
from contextrelay.documents.pointer import escape
from contextrelay.limits import PASSAGE_CHARS, PASSAGE_CHARS_MIN, POINTER_CHARS_MAX
from contextrelay.model.artifact import ArtifactType

PASSAGE_WORDS_MAX = 1_023

# BM25 parameters: saturation of repeated words (k1), and influence of the passage length (b).
SATURATION = 1.2
LENGTH_WEIGHT = 0.75
# A word in a neighbouring passage counts too, depending on the distance. What follows a passage
# says more about it than what precedes it: an answer comes after its question.
NEIGHBOURS = ((-2, 0.2), (-1, 0.35), (1, 0.45), (2, 0.25))


def length_of(words: Sequence[str]) -> int:
    """Return a passage's length for scoring: at least 1, because 0 means deleted."""
    return min(max(len(words), 1), PASSAGE_WORDS_MAX)


def rarity(found: int, total: int) -> float:
    """Return the weight of a word that occurs in `found` of `total` passages."""
    return log(1 + (total - found + 0.5) / (found + 0.5))


def norms_of(average: float) -> list[float]:
    """Return the length normalisation for every possible length."""
    slope = SATURATION * LENGTH_WEIGHT / max(average, 1.0)
    start = SATURATION * (1 - LENGTH_WEIGHT)
    return [start + slope * length for length in range(PASSAGE_WORDS_MAX + 1)]


def weigh(
    numbers: Sequence[int],
    counts: Sequence[int],
    lengths: Sequence[int],
    norms: Sequence[float],
    weight: float,
    start: int = 0,
) -> dict[int, float]:
    """Score one word, skipping deleted passages (length 0); numbers count from `start`."""
    full = weight * (SATURATION + 1)
    return {
        start + number: full * count / (count + norms[lengths[number]])
        for number, count in zip(numbers, counts, strict=True)
        if lengths[number]
    }


def add_up(total: dict[int, float], scores: dict[int, float]) -> None:
    """Add the scores of a word to those of the previous words."""
    # Few passages have both words: the others are copied at once, which is twice as fast.
    both = {number: total[number] + scores[number] for number in total.keys() & scores.keys()}
    total.update(scores)
    total.update(both)


def with_neighbours(
    number: int, start: int, stop: int, by_word: Sequence[Mapping[int, float]]
) -> float:
    """Return the score of one passage plus its neighbours' in the same text, start:stop."""
    total = 0.0
    for scores in by_word:
        best = scores.get(number, 0.0)
        for offset, weight in NEIGHBOURS:
            neighbour = number + offset
            if start <= neighbour < stop:
                best = max(best, weight * scores.get(neighbour, 0.0))
        total += best
    return total


# Maximum number of lines of a passage.
PASSAGE_LINES_MAX = 24
# Different words in a body: 4 MiB of prose or code have some 50,000.
SEARCHED_WORDS_MAX = 60_000


class Passage(Struct, frozen=True, gc=False):
    """A piece of a text with its position."""

    text: str
    start_line: int
    stop_line: int
    start_byte: int
    stop_byte: int
    pointer: str | None = None  # The JSON entry that contains it.


def passages(text: str, kind: ArtifactType) -> Iterator[Passage]:
    """Split a text into passages, lazily."""
    begins = _BEGINS.get(kind)
    splitter = _Splitter()
    for match in _LINE.finditer(text):
        line = match[0]
        if len(line) > PASSAGE_CHARS:
            yield from splitter.end()
            for piece, pointer in _pieces(line, kind):
                yield splitter.passage(piece, splitter.line, splitter.line + 1, pointer)
            splitter.line += 1
            continue
        is_heading = begins is not None and begins.match(line) is not None
        if splitter.chars and (
            splitter.chars + len(line) > PASSAGE_CHARS
            or len(splitter.lines) == PASSAGE_LINES_MAX
            or (splitter.is_pausing and line.strip() and splitter.chars >= PASSAGE_CHARS_MIN)
            or (is_heading and not splitter.is_heading)
        ):
            yield from splitter.end()
        splitter.add_line(line, is_heading=is_heading)
    yield from splitter.end()


# Only \n ends a line, as everywhere else.
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
# Where a new passage begins, by type.
_BEGINS: dict[ArtifactType, re.Pattern[str]] = {
    "markdown": re.compile(r"#{1,6} "),
    "diff": re.compile(r"diff |@@ |--- "),
    "code": re.compile(
        r"(?:@|(?:export |default |public |private |pub |static |async |abstract |unsafe )*"
        r"(?:def|class|func|fn|function|impl|struct|enum|trait|interface|type|module) )"
    ),
}


class _Splitter:
    """Collects lines until they form a passage."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.chars = 0
        self.line = 0
        self.is_pausing = False
        self.is_heading = False
        self._byte = 0

    def add_line(self, line: str, is_heading: bool) -> None:
        self.lines.append(line)
        self.chars += len(line)
        self.line += 1
        self.is_pausing = not line.strip()
        # A decorator, or a heading directly below another, belongs to what follows.
        self.is_heading = is_heading and (self.is_heading or len(self.lines) == 1)

    def end(self) -> Iterator[Passage]:
        """Yield the collected lines as a passage, if there are any."""
        if self.lines:
            yield self.passage("".join(self.lines), self.line - len(self.lines), self.line, None)
            self.lines = []
        self.chars = 0
        self.is_pausing = self.is_heading = False

    def passage(self, text: str, start: int, stop: int, pointer: str | None) -> Passage:
        """Return the passage after the previous one."""
        start_byte = self._byte
        self._byte += len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
        return Passage(text, start, stop, start_byte, self._byte, pointer)


def _pieces(line: str, kind: ArtifactType) -> Iterator[tuple[str, str | None]]:
    """Split a long line between words into pieces, each with the pointer of its entry."""
    spans = _entries(line) if kind == "json" else None
    for start, stop, pointer in spans or [(0, len(line), None)]:
        while stop - start > PASSAGE_CHARS:
            space = line.rfind(" ", start + PASSAGE_CHARS // 2, start + PASSAGE_CHARS)
            cut = space + 1 if space >= 0 else start + PASSAGE_CHARS
            yield line[start:cut], pointer
            start = cut
        if stop > start:
            yield line[start:stop], pointer


# A string, which is a key if a colon follows, or a bracket, comma or colon. Possessive, because
# backtracking through a long string would take much memory.
_SIGN = re.compile(r'("(?:[^"\\]++|\\.)*+")\s*(:)?|[\[\]{},]')
_DEPTH_MAX = 3

Span = tuple[int, int, str | None]


def _entries(line: str) -> list[Span] | None:
    """Return spans that cover the line, each a JSON entry or several small ones.

    Return None if it is not JSON: only valid JSON has balanced quotes, which keeps the scan linear.
    """
    try:
        decode(line)
    except (DecodeError, RecursionError, UnicodeEncodeError):
        return None
    top = _Level("", False, 0)
    levels = [top]
    depth = 0
    for sign in _SIGN.finditer(line):
        mark = sign[0]
        if mark in "[{":
            depth += 1
            if depth <= _DEPTH_MAX:
                levels.append(_Level(levels[-1].pointer(), mark == "[", sign.end()))
        elif mark in "]}":
            if depth <= _DEPTH_MAX:
                inner = levels.pop()
                inner.end_entry(sign.start())
                levels[-1].inner = inner.finish()
            depth -= 1
        elif depth > _DEPTH_MAX:
            continue
        elif mark == ",":
            levels[-1].end_entry(sign.end())
        elif sign[2] is not None:
            levels[-1].key = sign[1]
    top.end_entry(len(line))
    return top.finish()


class _Level:
    """The entries of one list or object, collected into spans."""

    def __init__(self, parent: str | None, is_list: bool, start: int) -> None:
        self.key = ""
        self.inner: list[Span] = []
        self._parent = parent
        self._is_list = is_list
        self._entries = 0
        self._start = start
        self._spans: list[Span] = []
        # Small entries not yet in a span: start, number, and the index of the first.
        self._small: tuple[int, int, str | None] | None = None

    def pointer(self) -> str | None:
        """Return the pointer of the current entry, or None if it would be too long."""
        if self._parent is None or len(self._parent) + len(self.key) > POINTER_CHARS_MAX:
            return None
        if self._is_list:
            return f"{self._parent}/{self._entries}"
        return f"{self._parent}/{escape(decode(self.key, type=str))}" if self.key else self._parent

    def end_entry(self, stop: int) -> None:
        """End an entry: it becomes a span, is split, or is joined with other small ones."""
        start, inner, self.inner = self._start, self.inner, []
        pointer = self.pointer()
        self._start = stop
        self._entries += 1
        if stop - start > PASSAGE_CHARS:
            self._end_small(start)
            if inner:
                inner[0] = (start, *inner[0][1:])
                inner[-1] = (inner[-1][0], stop, inner[-1][2])
            self._spans += inner or [(start, stop, pointer)]
            return
        first_start, entries, first_pointer = self._small or (start, 0, pointer)
        self._small = first_start, entries + 1, first_pointer
        if stop - first_start >= PASSAGE_CHARS_MIN:
            self._end_small(stop)

    def _end_small(self, stop: int) -> None:
        if self._small is not None:
            start, entries, pointer = self._small
            self._spans.append((start, stop, pointer if entries == 1 else None))
            self._small = None

    def finish(self) -> list[Span]:
        self._end_small(self._start)
        return self._spans


# Contents of a search index


class IndexRequest(Struct, frozen=True):
    """What to split into passages: the type of a text whose head is the body."""

    type: ArtifactType
    passages_max: int


class IndexedPassage(Struct, frozen=True, array_like=True, gc=False):
    """The index data of a passage: position, length, and counts of its stems."""

    start_line: int
    stop_line: int
    start_byte: int
    stop_byte: int
    pointer: str | None
    length: int
    stems: dict[str, int]


class IndexedText(Struct, frozen=True, array_like=True):
    """The index data of a text."""

    passages: list[IndexedPassage]
    is_cut: bool = False  # Whether there are more passages than the limit.


def index_body(request: IndexRequest, body: bytes) -> IndexedText:
    """Return the passages of the head of a body with their words, up to the limits."""
    found = passages(body.decode(errors="ignore"), request.type)
    kept: list[IndexedPassage] = []
    different: set[str] = set()
    for each in islice(found, request.passages_max):
        stems = words(each.text)
        place = each.start_line, each.stop_line, each.start_byte, each.stop_byte
        kept.append(IndexedPassage(*place, each.pointer, length_of(stems), Counter(stems)))
        different.update(kept[-1].stems)
        if len(different) > SEARCHED_WORDS_MAX:
            break  # Each different word is a row to write.
    return IndexedText(kept, next(found, None) is not None)
