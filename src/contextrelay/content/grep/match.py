"""Grep: lines in which a regular expression is found, in a stream of blocks.

RE2 goes once over every byte, whatever the pattern: what would need more (backreferences, looking
around) it refuses. A match never goes over a line end.

Rule: memory is a block and GREP_LINE_BYTES_MAX, however long a line is. A line longer than is shown
gives one match for every place in it that was not shown with the one before. One longer than a
block is looked at in parts, and as a whole only where these have no match.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from contextrelay.content.grep.plain_text import PlainTexts, is_plain, wholeness
from contextrelay.content.slicing.source import shown, text_of
from contextrelay.errors import Invalid
from contextrelay.limits import (
    GREP_BLOCK_BYTES_MAX,
    GREP_BLOCK_BYTES_MIN,
    GREP_COUNTED_MAX,
    GREP_OVERLAP_BYTES,
    GREP_TEXT_BLOCK_BYTES_MAX,
    KIB,
    MATCH_BYTES_SHOWN,
    MIB,
)

if TYPE_CHECKING:
    Pattern = Any

# Of one regular expression, all that RE2 makes of it; and its program alone, 5,000 to 11,000 steps:
# where RE2 runs out of room, it takes each of them for each byte, in 3 to 12 ns.
GREP_PATTERN_BYTES_MAX = 4 * MIB
GREP_PROGRAM_BYTES_MAX = 192 * KIB
# Steps of a program times bytes between two looks at the clock; more only in the smallest block.
GREP_STEPS_MAX = 1 << 25
GREP_LINE_BYTES_MAX = MIB


_MODE = "(?m)"
"""A pattern's ^ and $ are those of a line."""


class LineMatch(Struct, frozen=True, gc=False):
    """A match: its line, where the line and the match begin, and what is shown of the line."""

    line: int
    """0 where lines are not counted."""
    line_offset: int
    offset: int
    text: str
    is_folded: bool = False


class LineBlock(Struct, frozen=True, gc=False):
    """Whole lines, or a part of a long one: then `seen` bytes of it were looked at before."""

    line: int
    offset: int
    raw: bytes
    seen: int
    is_inside: bool
    """Whether it begins within a line."""
    line_offset: int
    """Where the line in which it begins does."""
    is_cut: bool = False
    """Whether its last line goes on behind it: then its end is no line's end."""
    is_again: bool = False
    """Whether it is a long line as a whole, of which the parts were looked at before."""


def compile_any(
    patterns: Sequence[str], ignore_case: bool = False, is_fixed: bool = False
) -> Pattern:
    """Make RE2 ready to look for any of several patterns; for plain texts, with what helps it.

    Raises:
        Invalid: RE2 does not take one of them, or all together.
    """
    compiled = [compile_pattern(each, ignore_case, is_fixed) for each in patterns]
    if is_plain(patterns, is_fixed):
        steps = sum(each.programsize for each in compiled)
        return PlainTexts(
            [] if ignore_case else [each.encode() for each in patterns], compiled, steps
        )
    if len(patterns) == 1:
        return compiled[0]
    parts = [_ESCAPED.sub(r"\\\g<0>", each) if is_fixed else each for each in patterns]
    return compile_pattern("|".join(f"(?:{part})" for part in parts), ignore_case)


_ESCAPED = re.compile(r"[^\w\s\x80-\U0010ffff]", re.ASCII)


def compile_pattern(pattern: str, ignore_case: bool = False, is_fixed: bool = False) -> Pattern:
    """Make RE2 ready to look for a pattern.

    Raises:
        Invalid: RE2 does not take it; the error says why.
    """
    import re2  # pyright: ignore[reportMissingTypeStubs]

    library: Any = re2
    options = library.Options()
    options.log_errors = False
    options.never_nl = True
    options.literal = is_fixed
    # What its parentheses match is not used, and to find it would take RE2's slowest way.
    options.never_capture = True
    options.case_sensitive = not ignore_case
    options.max_mem = GREP_PROGRAM_BYTES_MAX
    try:
        source = (pattern if is_fixed else _MODE + pattern).encode()
        library.compile(source, options)
        # With the room that it is fast in. Had it that at first, its program might fill it.
        options.max_mem = GREP_PATTERN_BYTES_MAX
        return library.compile(source, options)
    except (library.error, UnicodeEncodeError) as error:
        why = error.args[0] if isinstance(error, library.error) and error.args else "no Unicode"
        reason = why.decode(errors="replace") if isinstance(why, bytes) else str(why)
        raise Invalid(
            f"the pattern cannot be used: {reason.replace(_MODE, '', 1)}",
            "RE2 has no backreferences and does not look around; for plain text give is_fixed"
            " (--fixed)",
        ) from None


def blocks_of(
    chunks: Iterable[bytes], line: int = 1, offset: int = 0, most: int = GREP_BLOCK_BYTES_MAX
) -> Iterator[LineBlock]:
    """Chunks as blocks that end with a line, or, in a line that does not end, anywhere.

    The first is small and the next ones grow, so that a caller with little time can stop early.
    From a line 0 on, lines are not counted: that takes longer than to look for most patterns.
    """
    size = GREP_BLOCK_BYTES_MIN
    carried = b""
    seen, long_line, line_offset = 0, _LongLine(), offset
    for chunk in chunks:
        view, place = chunk, 0
        while len(carried) + len(view) - place >= size:
            part = carried + view[place : place + size - len(carried)]
            place += size - len(carried)
            size = min(2 * size, most)
            is_inside = seen > 0
            # A long line ends its block, so that it can be looked at as a whole before others.
            stop = (part.find(b"\n", seen) if is_inside else part.rfind(b"\n")) + 1
            if stop:
                yield LineBlock(line, offset, part[:stop], seen, is_inside, line_offset)
                if is_inside and (whole := long_line.ended(part[seen:stop])):
                    yield LineBlock(line, line_offset, whole, 0, False, line_offset, is_again=True)
                line += part.count(b"\n", seen, stop) if line else 0
                offset += stop
                carried, seen, line_offset = part[stop:], 0, offset
            else:
                yield LineBlock(line, offset, part, seen, is_inside, line_offset, is_cut=True)
                long_line.add(part[seen:])
                carried = part[-GREP_OVERLAP_BYTES:]
                offset += len(part) - len(carried)
                seen = len(carried)
        carried += view[place:]
    if seen:
        stop = carried.find(b"\n", seen) + 1 or len(carried)
        if len(carried) > seen:
            yield LineBlock(line, offset, carried[:stop], seen, True, line_offset)
        if whole := long_line.ended(carried[seen:stop]):
            yield LineBlock(line, line_offset, whole, 0, False, line_offset, is_again=True)
        if stop == len(carried):
            return
        line += 1 if line else 0
        carried, offset = carried[stop:], offset + stop
    yield LineBlock(line, offset, carried, 0, False, offset)


class _LongLine:
    """A line that is longer than a block, as long as it is not too long to be looked at whole."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size_bytes = 0

    def add(self, part: bytes) -> None:
        self._size_bytes += len(part)
        if self._size_bytes <= GREP_LINE_BYTES_MAX:
            self._parts.append(part)
        else:
            self._parts.clear()

    def ended(self, part: bytes) -> bytes:
        """The whole line with its end; nothing where it is too long."""
        self.add(part)
        whole = b"".join(self._parts)
        self._parts.clear()
        self._size_bytes = 0
        return whole


# Matches that are only counted between two looks at the clock, of a pattern that is looked for
# quickly; each may have had as much read again as two blocks overlap.
_COUNTED_BETWEEN_LOOKS = 64


class Seeker:
    """Goes through blocks, gives matches until it is enough, and counts all of them."""

    def __init__(
        self, pattern: Pattern, is_over: Callable[[], bool], count_max: int = GREP_COUNTED_MAX
    ) -> None:
        self._search = pattern.search
        self._plain = pattern if isinstance(pattern, PlainTexts) and pattern.texts else None
        most = GREP_STEPS_MAX // max(1, pattern.programsize)
        block = GREP_TEXT_BLOCK_BYTES_MAX if self._plain else GREP_BLOCK_BYTES_MAX
        self.block_bytes_max = min(block, max(GREP_BLOCK_BYTES_MIN, most))
        self._again_bytes_max = most
        self._looks_every = min(_COUNTED_BETWEEN_LOOKS, 1 + most // GREP_OVERLAP_BYTES)
        self._is_over = is_over
        self._count_max = count_max
        self.count = 0
        self._shown_until = -1
        self.is_enough = False
        """Set by the caller: from then on matches are counted and not given."""
        self.needs_several = False
        """Set by the caller: from then on lines with one of several texts are counted only."""
        self.needs_words = False
        """Set with it: except those that have it as a whole word."""
        self.has_places = False
        """Whether some of what was counted are places in lines that are longer than is shown."""
        self.is_complete = True
        """False once the time was over, or the matches were too many, before the end."""

    def hits(self, blocks: Iterable[LineBlock]) -> Iterator[LineMatch]:
        """The matches in order, each once; ends early when it is stopped."""
        for block in blocks:
            if self._is_stopped():
                return
            is_seen = self._shown_until > block.offset or len(block.raw) > self._again_bytes_max
            if block.is_again and is_seen:
                continue
            # Of an overlap only the end is new; but a match may begin before it.
            place = max(1, self._shown_until - block.offset) if block.is_inside else 0
            line, counted = block.line, 0
            for found in self._found(block, place):
                if line:
                    line += block.raw.count(b"\n", counted, found.line_start)
                    counted = found.line_start
                yield found.hit(block, line)
                if block.is_again:
                    break  # Each of them may take a look at all of it.

    def _is_stopped(self) -> bool:
        """Whether the time is over, or there are too many matches; from then on it is."""
        if self.count >= self._count_max or self._is_over():
            self.is_complete = False
        return not self.is_complete

    def _found(self, block: LineBlock, place: int) -> Iterator[_Found]:
        """The matches of a block from a place on; where it is enough, they are only counted."""
        # RE2 sees the byte before a place and the one behind its end: within a line, ^ and $ are
        # found at neither.
        raw, search = block.raw, self._search
        end = len(raw) - block.is_cut
        is_whole = not (block.is_inside or block.is_cut)
        while True:
            if is_whole and self._plain and (self.is_enough or self.needs_several):
                place = self._counted(block, self._plain, place)
            if place >= end or (match := search(raw, place, end)) is None:
                return
            start, stop = match.span()
            if block.is_inside and stop <= block.seen:
                place = max(stop, place + 1)  # It was found in the block before this one.
                continue
            if start == end and (block.is_cut or raw.endswith(b"\n") or block.is_inside):
                return  # An empty match behind the last line end, where no line is.
            is_looking = not self.is_enough or self.count % self._looks_every == 0
            if is_looking and self._is_stopped():
                return
            line_start, line_stop = raw.rfind(b"\n", 0, start) + 1, raw.find(b"\n", start)
            line_stop = len(raw) if line_stop < 0 else line_stop
            self.count += 1
            is_cut = line_start == 0 and block.is_inside
            if is_cut or line_stop - line_start > MATCH_BYTES_SHOWN:
                first, last = _shown_span(raw, start, stop, line_start, line_stop)
                until = max(stop, last)
                place = until if until < line_stop else line_stop + 1
                is_folded = self.has_places = True
            else:
                first, last, until, is_folded = line_start, line_stop, line_stop, False
                place = line_stop + 1
            self._shown_until = block.offset + until
            if not self.is_enough:
                yield _Found(start, line_start, line_stop, first, last, is_folded, is_cut)

    def _counted(self, block: LineBlock, plain: PlainTexts, place: int) -> int:
        """Count lines with one of several texts, up to the end or to a line that is long.

        Where it is not enough, also up to a line that has more than one of them.
        """
        raw = block.raw
        while place < len(raw):
            spans = plain.following(raw, place, len(raw))
            there = sorted((span.start, at) for at, span in enumerate(spans) if span is not None)
            if not there:
                break
            (first, index), stop = there[0], len(raw)
            if len(there) > 1:
                # Up to the line in which another text is.
                stop = raw.rfind(b"\n", place, there[1][0]) + 1
                if first >= stop:
                    if not self.is_enough:
                        return place
                    stop = raw.find(b"\n", first) + 1 or len(raw)
            place, is_long = self._counted_of(block, plain.texts[index], place, stop)
            if is_long:
                return place
        return len(raw)

    def _counted_of(self, block: LineBlock, text: bytes, place: int, stop: int) -> tuple[int, bool]:
        """Count lines with a text up to a place; how far it came, and whether one is to be looked
        at: it is long, or has the text as a word where that matters."""
        raw = block.raw
        looks_at_words = self.needs_words and not self.is_enough
        while (start := raw.find(text, place, stop)) >= 0:
            if self.count % self._looks_every == 0 and self._is_stopped():
                return len(raw), False
            line_start, line_stop = raw.rfind(b"\n", place, start), raw.find(b"\n", start)
            line_start = place if line_start < 0 else line_start
            line_stop = len(raw) if line_stop < 0 else line_stop
            is_word = looks_at_words and wholeness(raw, start, start + len(text))
            if is_word or line_stop - line_start > MATCH_BYTES_SHOWN:
                return place, True
            self.count += 1
            self._shown_until = block.offset + line_stop
            place = line_stop + 1
        return max(place, stop), False


class _Found(Struct, frozen=True, gc=False):
    """A match in a block: where it begins, its line, and what is shown of it."""

    start: int
    line_start: int
    line_stop: int
    first: int
    last: int
    is_folded: bool
    is_cut: bool
    """Whether its line begins before the block."""

    def hit(self, block: LineBlock, line: int) -> LineMatch:
        raw = block.raw
        text = shown(text_of(raw[self.first : self.last]))
        if self.is_folded:
            before = "…" if self.first > self.line_start or self.is_cut else ""
            after = "…" if self.last < self.line_stop or self.line_stop == len(raw) else ""
            text = f"{before}{text}{after}"
        else:
            text = text.removesuffix("\r")
        line_offset = block.line_offset if self.is_cut else block.offset + self.line_start
        return LineMatch(line, line_offset, block.offset + self.start, text, self.is_folded)


def _shown_span(
    raw: bytes, start: int, stop: int, line_start: int, line_stop: int
) -> tuple[int, int]:
    """From where to where a long line is shown around a match; no character is cut."""
    room = max(0, MATCH_BYTES_SHOWN - (stop - start)) // 2
    first = max(line_start, start - room)
    last = min(line_stop, max(stop, first + MATCH_BYTES_SHOWN), start + 2 * MATCH_BYTES_SHOWN)
    while first < start and raw[first] & 0xC0 == 0x80:
        first += 1
    while last < line_stop and raw[last] & 0xC0 == 0x80:
        last += 1
    return first, max(last, start + 1)
