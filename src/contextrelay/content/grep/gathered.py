"""The matches of a grep, in order or, for several patterns, the best ones first, within a
budget.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappush, heappushpop
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from contextrelay.content.grep.match import LineMatch, compile_any, wholeness
from contextrelay.content.slicing.source import Marks, SliceSource, find_marks, fit, shown, text_of
from contextrelay.content.tokens import count_tokens
from contextrelay.limits import GREP_QUICK_STEPS_MAX, LINE_MARK_BYTES, MATCH_BYTES_SHOWN
from contextrelay.model.inspect import Match, Skipped
from contextrelay.model.tokens import Spent

Search = Callable[..., Any]  # The search method of a compiled pattern.

SHORT_REF_CHARS = 8
PATTERN_SCORE = 100  # The score for each pattern that matches; whole words break ties.
# Lines longer than this are searched only around their matches.
_LINE_BYTES = 8_192
_ROOM_TOKENS = 4
_WHOLE_TRIES = 8
_SKIPPED_MAX = 100


class GrepQuery(Struct, frozen=True, kw_only=True):
    """The patterns to search for, and how much to show."""

    pattern: str | tuple[str, ...]
    ignore_case: bool = False
    is_fixed: bool = False
    context: int = 0
    is_count: bool = False
    after_line: int = 0
    matches_max: int
    tokens_max: int

    @property
    def patterns(self) -> tuple[str, ...]:
        return (self.pattern,) if isinstance(self.pattern, str) else self.pattern

    @property
    def shows_records(self) -> bool:
        """Whether to show records where possible. If a position is given, lines are shown."""
        return not (self.context or self.is_count or self.after_line)


class GrepMatches:
    """The matches found so far."""

    def __init__(self, query: GrepQuery, is_one: bool = False) -> None:
        self.query = query
        self._is_one = is_one  # Whether all matches are in one body, so that its name is not shown.
        self.matches: list[Match] = []
        self.names: dict[str, str] = {}
        self.count = self.looked_at = self.skipped_count = self.record_bodies = 0
        self.skipped: list[Skipped] = []
        self.notes: list[str] = []
        self.counts: list[str] = []
        self.whole: list[Spent] = []
        self.tokens_left = query.tokens_max
        self.is_full = query.is_count
        self.is_counted = True
        """Whether the count includes all matching records; if False, the count is a minimum."""
        self.unshown_in = ""  # The first ref with matches that are not shown.
        self.is_ranked = len(query.patterns) > 1 and not query.is_count
        """Whether the best matches are shown instead of the first ones."""
        self._best: list[tuple[int, int, SliceSource | None, LineMatch | Match]] = []
        self._order = 0
        compiled = [
            compile_any((each,), query.ignore_case, query.is_fixed) for each in query.patterns
        ]
        self._searches = [each.search for each in compiled]
        self._is_quick = sum(each.programsize for each in compiled) <= GREP_QUICK_STEPS_MAX
        self._lines: set[tuple[str, int]] = set()
        self._marks: dict[str, Marks] = {}

    def skip(self, ref: str, why: str) -> None:
        self.skipped_count += 1
        if len(self.skipped) < _SKIPPED_MAX:
            self.skipped.append(Skipped(ref=ref, why=why))

    def match(self, source: SliceSource, hit: LineMatch) -> Match:
        """Return a match with its context lines."""
        context = self.query.context
        before, after = _around(source, hit, context) if context else ((), ())
        return Match(
            ref=source.ref,
            line=hit.line or self._line_of(source, hit.line_offset),
            offset=hit.offset,
            text=hit.text,
            before=before,
            after=after,
        )

    def _line_of(self, source: SliceSource, offset: int) -> int:
        """Return the line number of the line that starts at an offset."""
        marks = self._marks.get(source.ref)
        if marks is None:
            size_bytes = source.size_bytes
            marks = source.marks() or find_marks(source.read(0, size_bytes), size_bytes)
            self._marks[source.ref] = marks
        line, place = marks.before_offset(offset)
        return line + source.bytes_of(place, offset).count(b"\n")

    def add_if_fits(self, match: Match) -> bool:
        """Add a match if it fits. After the first match that does not fit, no more are added."""
        if not self.is_full:
            match = match if self.matches else self._shortened(match)
            cost = count_tokens(_lines_of(match, self.query.context) + self._head(match))
            self.is_full = (
                cost + 1 > self.tokens_left or len(self.matches) >= self.query.matches_max
            )
            self.tokens_left -= cost + 1
        if self.is_full:
            self.unshown_in = self.unshown_in or match.ref
            return False
        self.matches.append(match)
        return True

    def _shortened(self, match: Match) -> Match:
        """Shorten the first match to fit the budget: remove its context lines, then cut its
        text.
        """
        if (match.before or match.after) and (
            count_tokens(_lines_of(match, self.query.context)) > self.tokens_left // 2
        ):
            match = replace(match, before=(), after=())
        around = count_tokens(_lines_of(replace(match, text=""), 0) + self._head(match))
        room_tokens = self.tokens_left - around - _ROOM_TOKENS
        if count_tokens(match.text) <= room_tokens:
            return match
        text = match.text
        if match.pointer is None:
            chars = 4 * max(1, room_tokens)
            while count_tokens(text) > room_tokens and chars > 4:
                text = cut_around(match.text, self._searches, chars)
                chars = chars * 9 // 10
        return replace(match, text=fit(text, max(1, room_tokens)))

    def _head(self, match: Match) -> str:
        """Return the longest possible heading line for the body of a match."""
        is_new = not self.matches or self.matches[-1].ref != match.ref
        return f"{match.ref} {match.line}" if is_new and not self._is_one else ""

    # Ranking for several patterns

    def rank_line(self, source: SliceSource, hit: LineMatch) -> None:
        """Keep a line if it is among the best so far, by the number of patterns in it."""
        at = hit.offset - hit.line_offset
        if hit.is_folded and self._is_quick and at < _LINE_BYTES:
            stop = min(hit.line_offset + _LINE_BYTES, source.size_bytes)
            raw = source.bytes_of(hit.line_offset, stop)
            end = raw.find(b"\n", at)
            if end >= 0 or stop == source.size_bytes:
                if (source.ref, hit.line_offset) in self._lines:
                    return  # This line was already seen at an earlier match.
                self._lines.add((source.ref, hit.line_offset))
                text = shown(text_of(raw[:end] if end >= 0 else raw)).removesuffix("\r")
                hit = replace(hit, text=text)
        raw = hit.text.encode("utf-8", "replace")
        tries = _WHOLE_TRIES if self._is_quick else 1
        self._rank(score_of(raw, self._searches, tries), source, hit)

    def rank_record(self, score: int, match: Match) -> None:
        """Keep a record if it is among the best so far, by the number of patterns in it."""
        self._rank(score, None, match)

    def _rank(self, score: int, source: SliceSource | None, found: LineMatch | Match) -> None:
        self._order += 1
        entry = (score, -self._order, source, found)
        if len(self._best) < self.query.matches_max:
            heappush(self._best, entry)
        else:
            heappushpop(self._best, entry)

    @property
    def needs_several(self) -> bool:
        """Whether a line with a single pattern no longer ranks among the best, unless the match is
        a whole word.
        """
        return self.is_ranked and len(self._best) >= max(1, self.query.matches_max)

    @property
    def needs_words(self) -> bool:
        """Whether a line with a single pattern as a whole word can still rank among the best."""
        return bool(self._best) and self._best[0][0] <= PATTERN_SCORE

    def add_ranked(self) -> None:
        """Add the best matches to those shown: by number of patterns, then in order."""
        for _, _, source, found in sorted(self._best, key=lambda each: each[:2], reverse=True):
            if isinstance(found, LineMatch):
                assert source is not None
                if self.matches and len(found.text) > MATCH_BYTES_SHOWN:
                    text = cut_around(found.text, self._searches, MATCH_BYTES_SHOWN)
                    found = replace(found, text=text)
                found = self.match(source, found)
            if not self.add_if_fits(found):
                return


def score_of(raw: bytes, searches: Sequence[Search], tries: int) -> int:
    """Return the score of a match: first the number of patterns, then the number of patterns found
    as whole words.

    `tries`: how many occurrences of a pattern are checked for a whole word.
    """
    score = 0
    for search in searches:
        place, is_there = 0, False
        for _ in range(tries):
            if place > len(raw) or (found := search(raw, place)) is None:
                break
            start, stop = found.span()
            is_there = True
            if wholeness(raw, start, stop):
                score += 1
                break
            place = max(stop, start + 1)
        score += PATTERN_SCORE * is_there
    return score


def cut_around(text: str, searches: Sequence[Search], chars_max: int) -> str:
    """Cut a long line: keep its beginning if every pattern is in it, or the text around the
    matches.
    """
    raw = text.encode("utf-8", "replace")
    if len(raw) <= chars_max:
        return text
    spans = sorted(found.span() for search in searches if (found := search(raw)) is not None)
    spans = [(start, min(stop, start + chars_max // 2)) for start, stop in spans]
    if max((stop for _, stop in spans), default=0) <= chars_max:
        return raw[:chars_max].decode("utf-8", "ignore") + "…"
    matched = sum(stop - start for start, stop in spans)
    room = max(0, chars_max - matched) // max(1, 2 * len(spans))
    parts: list[tuple[int, int]] = []
    for start, stop in spans or [(0, 0)]:
        first = max(0, min(start - room, len(raw) - 2 * room))
        last = min(len(raw), max(stop + room, first + 2 * room))
        if parts and first <= parts[-1][1]:
            parts[-1] = (parts[-1][0], max(last, parts[-1][1]))
        else:
            parts.append((first, last))
    said = "…".join(raw[first:last].decode("utf-8", "ignore") for first, last in parts)
    return f"{'…' if parts[0][0] else ''}{said}{'…' if parts[-1][1] < len(raw) else ''}"


def _around(
    source: SliceSource, hit: LineMatch, context: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the lines before and after a match, reading at most one window each."""
    window = min(LINE_MARK_BYTES, 4 * MATCH_BYTES_SHOWN * context)
    start = max(0, hit.line_offset - window)
    raw = source.bytes_of(start, hit.line_offset)
    # Read one line more than is shown, to know whether the first line is complete.
    before = raw.rsplit(b"\n", context + 1)[:-1] if raw else []
    if len(before) > context or start:
        before = before[1:]  # The beginning of this line is missing.
    rest = source.bytes_of(hit.offset, min(hit.offset + window, source.size_bytes))
    after = rest.split(b"\n", context + 2)[1:]
    if after and (not after[-1] or hit.offset + len(rest) < source.size_bytes):
        after = after[:-1]
    return tuple(map(_short, before[-context:])), tuple(map(_short, after[:context]))


def _short(raw: bytes) -> str:
    """Return a context line as text, truncated if it is long."""
    cut = raw[:MATCH_BYTES_SHOWN].removesuffix(b"\r")
    return shown(text_of(cut)) + ("…" if len(raw) > MATCH_BYTES_SHOWN else "")


def _lines_of(match: Match, context: int) -> str:
    """Return a match with its context as text, at the maximum length of its lines."""
    parting = ("--",) if context else ()
    lines = (*match.before, match.text, *match.after, *parting)
    return "".join(f"{match.line}- {line}\n" for line in lines)
