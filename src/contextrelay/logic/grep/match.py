"""Grep: lines in which a regular expression is found, in a stream of blocks.

RE2 goes once over every byte, whatever the pattern: what would need more (backreferences, looking
around) it refuses. A match never goes over a line end.

Rule: memory is a block, however long a line is. A line longer than is shown is told once for every
place in it that does not stand beside one told before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from contextrelay.errors import Invalid
from contextrelay.limits import (
    GREP_BLOCK_BYTES_MAX,
    GREP_BLOCK_BYTES_MIN,
    GREP_COUNTED_MAX,
    GREP_OVERLAP_BYTES,
    GREP_PATTERN_BYTES_MAX,
    MATCH_BYTES_SHOWN,
)
from contextrelay.logic.slicing.source import shown, text_of

if TYPE_CHECKING:
    Pattern = Any

_MODE = "(?m)"
"""A pattern's ^ and $ are those of a line."""


class Hit(Struct, frozen=True, gc=False):
    """A match: its line, where the line and the match begin, and what is shown of the line."""

    line: int
    line_offset: int
    offset: int
    text: str
    is_folded: bool = False


class Block(Struct, frozen=True, gc=False):
    """Whole lines, or a part of a long one: then `seen` bytes of it were looked at before."""

    line: int
    offset: int
    raw: bytes
    seen: int
    is_inside: bool
    """Whether it begins within a line."""
    line_offset: int
    """Where the line in which it begins does."""


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
    # Nobody asks what is in its parentheses, and to tell would take RE2's slowest way.
    options.never_capture = True
    options.case_sensitive = not ignore_case
    options.max_mem = GREP_PATTERN_BYTES_MAX
    try:
        return library.compile((pattern if is_fixed else _MODE + pattern).encode(), options)
    except (library.error, UnicodeEncodeError) as error:
        why: Any = (
            error.args[0] if isinstance(error, library.error) and error.args else "no Unicode"
        )
        told = why.decode(errors="replace") if isinstance(why, bytes) else str(why)
        raise Invalid(
            f"the pattern cannot be used: {told.replace(_MODE, '', 1)}",
            "RE2 has no backreferences and does not look around; for plain text give is_fixed"
            " (--fixed)",
        ) from None


def blocks_of(chunks: Iterable[bytes], line: int = 1, offset: int = 0) -> Iterator[Block]:
    """Chunks as blocks that end with a line, or, in a line that does not end, anywhere.

    The first is small and the next ones grow, so that who watches the time can stop early.
    """
    size = GREP_BLOCK_BYTES_MIN
    carried = b""
    seen, is_inside, line_offset = 0, False, offset
    for chunk in chunks:
        view, place = chunk, 0
        while len(carried) + len(view) - place >= size:
            part = carried + view[place : place + size - len(carried)]
            place += size - len(carried)
            size = min(2 * size, GREP_BLOCK_BYTES_MAX)
            stop = part.rfind(b"\n") + 1
            if stop > seen:
                yield Block(line, offset, part[:stop], seen, is_inside, line_offset)
                line += part.count(b"\n", seen, stop)
                offset += stop
                carried = part[stop:]
                seen, is_inside, line_offset = 0, False, offset
            else:
                yield Block(line, offset, part, seen, is_inside, line_offset)
                carried = part[-GREP_OVERLAP_BYTES:]
                offset += len(part) - len(carried)
                seen, is_inside = len(carried), True
        carried += view[place:]
    if len(carried) > seen or not seen:
        yield Block(line, offset, carried, seen, is_inside, line_offset)


# How many matches are counted before somebody looks at the clock again.
_COUNTED_BETWEEN_LOOKS = 64


class Seeker:
    """Goes through blocks, tells matches until it is enough, and counts all of them."""

    def __init__(
        self, pattern: Pattern, is_over: Callable[[], bool], count_max: int = GREP_COUNTED_MAX
    ) -> None:
        self._search = pattern.search
        self._is_over = is_over
        self._count_max = count_max
        self.count = 0
        self.is_enough = False
        """Set by who has seen enough: from then on matches are counted and not told."""
        self.is_complete = True
        """False once the time was over, or the matches were too many, before the end."""

    def hits(self, blocks: Iterable[Block]) -> Iterator[Hit]:
        """The matches in order, each once; ends early when it is stopped."""
        told_until = -1
        for block in blocks:
            if self._is_stopped():
                return
            # Of an overlap only the end is new; but a match may begin before it.
            place = max(0, told_until - block.offset) if block.is_inside else 0
            if self.is_enough:
                told_until = block.offset + self._counted(block, place)
                continue
            for hit, until in self._told(block, place):
                told_until = block.offset + until
                self.count += 1
                yield hit
                if self.is_enough:
                    place = until if hit.is_folded else _line_end(block.raw, until) + 1
                    told_until = block.offset + self._counted(block, place)
                    break

    def _is_stopped(self) -> bool:
        """Whether the time is over, or there are too many matches; from then on it is."""
        if self.count >= self._count_max or self._is_over():
            self.is_complete = False
        return not self.is_complete

    def _counted(self, block: Block, place: int) -> int:
        """Count the matches of a block from a place on, as they would be told; up to where."""
        raw, search = block.raw, self._search
        until = place
        while place < len(raw) and (match := search(raw, place)) is not None:
            start, stop = match.span()
            if _is_told(block, start, stop):
                place = max(stop, place + 1)
                continue
            if _is_behind(block, start):
                break
            self.count += 1
            if self.count % _COUNTED_BETWEEN_LOOKS == 0 and self._is_stopped():
                break
            end = _line_end(raw, start)
            until = place = end + 1
            if end - start > MATCH_BYTES_SHOWN // 2:
                line_start = raw.rfind(b"\n", 0, start) + 1
                is_first = line_start == 0 and block.is_inside
                if is_first or end - line_start > MATCH_BYTES_SHOWN:
                    until = place = max(stop, _shown_span(raw, start, stop, line_start, end)[1])
        return until

    def _told(self, block: Block, place: int) -> Iterator[tuple[Hit, int]]:
        """The matches of a block from a place on, each with the place up to which it is shown."""
        raw, offset, search = block.raw, block.offset, self._search
        line, counted = block.line, 0
        while place < len(raw) and (match := search(raw, place)) is not None:
            start, stop = match.span()
            if _is_told(block, start, stop):
                place = max(stop, place + 1)
                continue
            if _is_behind(block, start):
                return
            if self._is_stopped():
                return
            line_start = raw.rfind(b"\n", 0, start) + 1
            line_stop = _line_end(raw, start)
            line += raw.count(b"\n", counted, line_start)
            counted = line_start
            is_first = line_start == 0 and block.is_inside
            is_long = is_first or line_stop - line_start > MATCH_BYTES_SHOWN
            if is_long:
                text, until = _around(raw, line_start, line_stop, start, stop, is_first)
                until = max(stop, until)
            else:
                text = shown(text_of(raw[line_start:line_stop].removesuffix(b"\r")))
                until = line_stop
            begin = block.line_offset if is_first else offset + line_start
            yield Hit(line, begin, offset + start, text, is_long), until
            place = until if is_long and until < line_stop else line_stop + 1


def _line_end(raw: bytes, place: int) -> int:
    stop = raw.find(b"\n", place)
    return len(raw) if stop < 0 else stop


def _is_told(block: Block, start: int, stop: int) -> bool:
    """Whether a match was there already when the block before this one was looked at."""
    return block.is_inside and stop <= block.seen


def _is_behind(block: Block, start: int) -> bool:
    """Whether it is an empty match behind the last line end, where no line is."""
    return start == len(block.raw) and (block.raw.endswith(b"\n") or block.is_inside)


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


def _around(
    raw: bytes, line_start: int, line_stop: int, start: int, stop: int, is_cut: bool
) -> tuple[str, int]:
    """What stands around a match in a long line, and up to where."""
    first, last = _shown_span(raw, start, stop, line_start, line_stop)
    before = "…" if first > line_start or is_cut else ""
    after = "…" if last < line_stop or line_stop == len(raw) else ""
    return f"{before}{shown(text_of(raw[first:last]))}{after}", last
