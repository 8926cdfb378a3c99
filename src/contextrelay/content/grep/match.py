"""Grep: find the lines that match a regular expression, in a stream of blocks.

RE2 reads every byte once, whatever the pattern; features that would need more (backreferences,
lookaround) are refused. A match never spans a line end.

Rule: memory is bounded by a block and GREP_LINE_BYTES_MAX, however long a line is. A line that is
too long to show gives one match for each position not already shown. A line longer than a block is
searched in parts, and as a whole only if the parts have no match.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from contextrelay.content.slicing.source import decode_bytes, printable
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

_QUICK_BYTES = 4_096
_PATTERN = re.compile(r"[\\.^$*+?{}\[\]|()]")


def are_plain_texts(patterns: Sequence[str], is_fixed: bool) -> bool:
    """Return True if every pattern is a literal text."""
    return all(
        each and "\n" not in each and (is_fixed or not _PATTERN.search(each)) for each in patterns
    )


def json_forms(text: str) -> list[str]:
    """Return the forms of a text in JSON: unchanged, with quotes escaped, and ASCII only."""
    forms = (text, json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1])
    return list(dict.fromkeys(forms))


class _Span(Struct, frozen=True, gc=False):
    start: int
    stop: int

    def span(self) -> tuple[int, int]:
        return self.start, self.stop


class PlainTexts:
    """A search for the first occurrence of any of several texts, like a compiled pattern.

    Each text is searched on its own, which RE2 does many times faster than several at once.
    """

    def __init__(self, texts: Sequence[bytes], patterns: Sequence[Any], programsize: int) -> None:
        self.texts = texts  # The encoded texts; empty if case is ignored.
        self._patterns = patterns
        self.programsize = programsize
        self._raw = b""
        self._end: int = sys.maxsize
        self._next: list[_Span | None] = []
        """The next occurrence of each text in the last buffer, and its distance."""
        self._gaps = [sys.maxsize] * len(patterns)

    def search(self, raw: bytes, place: int = 0, end: int = sys.maxsize) -> Any:
        """Return the first match at or after a position."""
        best: _Span | None = None
        for span in self.following(raw, place, end):
            if span is not None and (best is None or span.start < best.start):
                best = span
        return best

    def following(self, raw: bytes, place: int, end: int) -> list[_Span | None]:
        """Return the next occurrence of each text; one that no longer occurs is not searched."""
        if raw is not self._raw or end != self._end or place == 0:
            self._raw, self._end = raw, end
            self._next = [self._find(at, raw, place, end) for at in range(len(self._patterns))]
        for index, span in enumerate(self._next):
            if span is not None and span.start < place:
                self._next[index] = self._find(index, raw, place, end)
        return self._next

    def _find(self, index: int, raw: bytes, place: int, end: int) -> _Span | None:
        """Return the next occurrence of a text, by bytes.find if the last one was near."""
        if self.texts and (self._gaps[index] < _QUICK_BYTES or len(raw) < _QUICK_BYTES):
            text = self.texts[index]
            start = raw.find(text, place, end)
            found = None if start < 0 else _Span(start, start + len(text))
        else:
            match = self._patterns[index].search(raw, place, min(end, len(raw)))
            found = None if match is None else _Span(*match.span())
        self._gaps[index] = len(raw) if found is None else found.start - place
        return found


WORD, VALUE = 1, 2
_BEFORE_VALUE = frozenset(b"\"',;|\t\n\r=>[(:")
_BEHIND_VALUE = frozenset(b"\"',;|\t\n\r<])}")
_WORD_SIGNS = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_WORD_BYTES = frozenset(_WORD_SIGNS)


def match_level(raw: bytes, start: int, stop: int) -> int:
    """Return VALUE if a match is a whole cell or member, WORD if it is whole words, else 0."""
    before = raw[start - 1] if start else 0x2C
    behind = raw[stop] if stop < len(raw) else 0x2C
    # At an end where the text has a symbol, no word boundary is needed.
    if before in _WORD_BYTES and raw[start : start + 1] in _WORD_SIGNS:
        return 0
    if behind in _WORD_BYTES and raw[stop - 1 : stop] in _WORD_SIGNS:
        return 0
    if before == 0x20 and start > 1:
        before = raw[start - 2] if raw[start - 2] in b":," else before
    return VALUE if before in _BEFORE_VALUE and behind in _BEHIND_VALUE else WORD


# Memory limits for one regular expression: for all of RE2, and for the compiled program alone
# (5,000 to 11,000 steps). When RE2 runs out of memory it executes each step for each byte, at 3 to
# 12 ns.
GREP_PATTERN_BYTES_MAX = 4 * MIB
GREP_PROGRAM_BYTES_MAX = 192 * KIB
# Maximum number of program steps times bytes between two checks of the clock, except in the
# smallest block.
GREP_STEPS_MAX = 1 << 25
GREP_LINE_BYTES_MAX = MIB

_MODE = "(?m)"  # A prefix for patterns that makes ^ and $ match at line ends.


class LineMatch(Struct, frozen=True, gc=False):
    """A match: its line, the offsets of the line and of the match, and the text shown."""

    line: int  # Line number from 1; 0 if lines are not counted.
    line_offset: int
    offset: int
    text: str
    is_folded: bool = False


class LineBlock(Struct, frozen=True, gc=False):
    """Whole lines, or a part of a long line, of which `seen` bytes were searched before."""

    line: int
    offset: int
    raw: bytes
    seen: int
    is_inside: bool  # Whether the block starts within a line.
    line_offset: int  # Offset of the line in which the block starts.
    is_cut: bool = False  # Whether the last line continues after the block.
    is_again: bool = False  # Whether it is a whole long line whose parts were searched before.


def compile_any(
    patterns: Sequence[str], ignore_case: bool = False, is_fixed: bool = False
) -> Pattern:
    """Compile several alternative patterns for RE2, or use a faster search for plain texts.

    Raises:
        Invalid: RE2 refuses one of the patterns, or their combination.
    """
    compiled = [compile_pattern(each, ignore_case, is_fixed) for each in patterns]
    if are_plain_texts(patterns, is_fixed):
        steps = sum(each.programsize for each in compiled)
        texts = [] if ignore_case else [each.encode() for each in patterns]
        return PlainTexts(texts, compiled, steps)
    if len(patterns) == 1:
        return compiled[0]
    parts = [_ESCAPED.sub(r"\\\g<0>", each) if is_fixed else each for each in patterns]
    return compile_pattern("|".join(f"(?:{part})" for part in parts), ignore_case)


_ESCAPED = re.compile(r"[^\w\s\x80-\U0010ffff]", re.ASCII)


def compile_pattern(pattern: str, ignore_case: bool = False, is_fixed: bool = False) -> Pattern:
    """Compile a pattern for RE2.

    Raises:
        Invalid: RE2 refuses the pattern; the error says why.
    """
    import re2  # pyright: ignore[reportMissingTypeStubs]

    library: Any = re2
    options = library.Options()
    options.log_errors = False
    options.never_nl = True
    options.literal = is_fixed
    # Groups are not used, and capturing them would need RE2's slowest mode.
    options.never_capture = True
    options.case_sensitive = not ignore_case
    options.max_mem = GREP_PROGRAM_BYTES_MAX
    try:
        source = (pattern if is_fixed else _MODE + pattern).encode()
        library.compile(source, options)
        # The pattern is compiled again with the memory with which it runs fast. With that limit
        # from the start, the program alone could fill the memory.
        options.max_mem = GREP_PATTERN_BYTES_MAX
        return library.compile(source, options)
    except (library.error, UnicodeEncodeError) as error:
        why = error.args[0] if isinstance(error, library.error) and error.args else "no Unicode"
        reason = why.decode(errors="replace") if isinstance(why, bytes) else str(why)
        raise Invalid(
            f"invalid pattern: {reason.replace(_MODE, '', 1)}",
            "RE2 has no backreferences and no lookaround; for plain text set is_fixed (--fixed)",
        ) from None


def blocks_of(
    chunks: Iterable[bytes], line: int = 1, offset: int = 0, most: int = GREP_BLOCK_BYTES_MAX
) -> Iterator[LineBlock]:
    """Split chunks into blocks that end at a line end, or anywhere in a line that is too long.

    The first block is small and the next ones grow, so that a caller with little time can stop
    early. If `line` is 0, lines are not counted, because for most patterns counting takes longer
    than searching.
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
            # A long line ends its block, so that the whole line is searched before later lines.
            stop = (part.find(b"\n", seen) if is_inside else part.rfind(b"\n")) + 1
            if stop:
                yield LineBlock(line, offset, part[:stop], seen, is_inside, line_offset)
                if is_inside and (whole := long_line.finish(part[seen:stop])):
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
        if whole := long_line.finish(carried[seen:stop]):
            yield LineBlock(line, line_offset, whole, 0, False, line_offset, is_again=True)
        if stop == len(carried):
            return
        line += 1 if line else 0
        carried, offset = carried[stop:], offset + stop
    yield LineBlock(line, offset, carried, 0, False, offset)


class _LongLine:
    """A line longer than a block; its bytes are kept while it can be searched as a whole."""

    def __init__(self) -> None:
        self._whole = b""
        self._size_bytes = 0

    def add(self, part: bytes) -> None:
        self._size_bytes += len(part)
        self._whole = self._whole + part if self._size_bytes <= GREP_LINE_BYTES_MAX else b""

    def finish(self, part: bytes) -> bytes:
        """Return the whole line, which ends with `part`; return b"" if the line is too long."""
        self.add(part)
        whole, self._whole, self._size_bytes = self._whole, b"", 0
        return whole


# Maximum number of matches that are only counted between two checks of the clock, for a fast
# pattern. Each such match may read the overlap of two blocks again.
_COUNTED_BETWEEN_LOOKS = 64


class LineSearcher:
    """Searches blocks, yields matches until the caller has enough, and counts all matches."""

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
        self.is_enough = False  # Set by the caller to count further matches without yielding them.
        self.needs_several = False
        """Set by the caller to only count lines that match just one of several texts."""
        self.needs_words = False
        """Set together with `needs_several` to still yield lines that have the text as a whole
        word.
        """
        self.has_places = False
        """Whether the count includes positions in lines that are too long to show."""
        self.is_complete = True  # False if the deadline or too many matches ended the search early.

    def hits(self, blocks: Iterable[LineBlock]) -> Iterator[LineMatch]:
        """Yield the matches in order, each once; end early when stopped."""
        for block in blocks:
            if self._is_stopped():
                return
            is_seen = self._shown_until > block.offset or len(block.raw) > self._again_bytes_max
            if block.is_again and is_seen:
                continue
            # Only the end of an overlap is new, but a match may start before it.
            place = max(1, self._shown_until - block.offset) if block.is_inside else 0
            line, counted = block.line, 0
            for found in self._matches_in(block, place):
                if line:
                    line += block.raw.count(b"\n", counted, found.line_start)
                    counted = found.line_start
                yield found.hit(block, line)
                if block.is_again:
                    break  # Each of these matches may read the whole block.

    def _is_stopped(self) -> bool:
        if self.count >= self._count_max or self._is_over():
            self.is_complete = False
        return not self.is_complete

    def _matches_in(self, block: LineBlock, place: int) -> Iterator[_Found]:
        """Yield the matches of a block from a position on, or count them if there are enough."""
        # RE2 sees the byte before the start and the one after the end: within a line, ^ and $ do
        # not match there.
        raw, search = block.raw, self._search
        end = len(raw) - block.is_cut
        is_whole = not (block.is_inside or block.is_cut)
        while True:
            if is_whole and self._plain and (self.is_enough or self.needs_several):
                place = self._count_lines(block, self._plain, place)
            if place >= end or (match := search(raw, place, end)) is None:
                return
            start, stop = match.span()
            if block.is_inside and stop <= block.seen:
                place = max(stop, place + 1)  # This match was already found in the previous block.
                continue
            if start == end and (block.is_cut or raw.endswith(b"\n") or block.is_inside):
                return  # An empty match after the last line end, where there is no line.
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

    def _count_lines(self, block: LineBlock, plain: PlainTexts, place: int) -> int:
        """Count lines with one of several texts, up to the end of the block or to a long line.

        If only lines with several texts are needed, also stop at a line that has more than one of
        them.
        """
        raw = block.raw
        while place < len(raw):
            spans = plain.following(raw, place, len(raw))
            there = sorted((span.start, at) for at, span in enumerate(spans) if span is not None)
            if not there:
                break
            (first, index), stop = there[0], len(raw)
            if len(there) > 1:
                # Up to the line that contains another text.
                stop = raw.rfind(b"\n", place, there[1][0]) + 1
                if first >= stop:
                    if not self.is_enough:
                        return place
                    stop = raw.find(b"\n", first) + 1 or len(raw)
            place, is_long = self._count_lines_with(block, plain.texts[index], place, stop)
            if is_long:
                return place
        return len(raw)

    def _count_lines_with(
        self, block: LineBlock, text: bytes, place: int, stop: int
    ) -> tuple[int, bool]:
        """Count lines with a text; return the end, and whether its line must be examined."""
        raw = block.raw
        looks_at_words = self.needs_words and not self.is_enough
        while (start := raw.find(text, place, stop)) >= 0:
            if self.count % self._looks_every == 0 and self._is_stopped():
                return len(raw), False
            line_start, line_stop = raw.rfind(b"\n", place, start), raw.find(b"\n", start)
            line_start = place if line_start < 0 else line_start
            line_stop = len(raw) if line_stop < 0 else line_stop
            is_word = looks_at_words and match_level(raw, start, start + len(text))
            if is_word or line_stop - line_start > MATCH_BYTES_SHOWN:
                return place, True
            self.count += 1
            self._shown_until = block.offset + line_stop
            place = line_stop + 1
        return max(place, stop), False


class _Found(Struct, frozen=True, gc=False):
    """A match in a block: its start, its line, and the text shown."""

    start: int
    line_start: int
    line_stop: int
    first: int
    last: int
    is_folded: bool
    is_cut: bool  # Whether the match's line starts before the block.

    def hit(self, block: LineBlock, line: int) -> LineMatch:
        raw = block.raw
        text = printable(decode_bytes(raw[self.first : self.last]))
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
    """Return the span of a long line to show around a match, without splitting a character."""
    room = max(0, MATCH_BYTES_SHOWN - (stop - start)) // 2
    first = max(line_start, start - room)
    last = min(line_stop, max(stop, first + MATCH_BYTES_SHOWN), start + 2 * MATCH_BYTES_SHOWN)
    while first < start and raw[first] & 0xC0 == 0x80:
        first += 1
    while last < line_stop and raw[last] & 0xC0 == 0x80:
        last += 1
    return first, max(last, start + 1)


# Scores


Search = Callable[..., Any]  # The search method of a compiled pattern.
# The score for each pattern that matches; whole words break ties.
PATTERN_SCORE = 100


def score_of(raw: bytes, searches: Sequence[Search], tries: int) -> int:
    """Return the score of a match: by the number of patterns, then of those found as whole words.

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
            if match_level(raw, start, stop):
                score += 1
                break
            place = max(stop, start + 1)
        score += PATTERN_SCORE * is_there
    return score


def cut_around(text: str, searches: Sequence[Search], chars_max: int) -> str:
    """Cut a long line: to its beginning if that has every pattern, else around the matches."""
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
