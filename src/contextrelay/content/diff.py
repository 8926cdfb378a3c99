"""Differences of two bodies: a unified diff within a budget, in bounded memory and time.

Rule: the common head and tail are never kept in memory. Of the middle, DIFF_MIDDLE_BYTES_MAX of
each side are compared, and the reply says if there was more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from difflib import SequenceMatcher
from itertools import islice
from typing import AnyStr

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from contextrelay.content.slicing.slice import spent
from contextrelay.content.slicing.source import (
    SliceSource,
    as_utf8,
    bytes_for,
    decode_bytes,
    fit_lines,
    printable,
)
from contextrelay.content.tokens import count_tokens
from contextrelay.documents.diff import diff_values, longest_increasing
from contextrelay.errors import Invalid
from contextrelay.limits import (
    CHUNK_BYTES,
    LINE_BYTES_SHOWN,
    LINE_MARK_BYTES,
    MATCH_BYTES_SHOWN,
    MIB,
)
from contextrelay.model.inspect import Change, Differing
from contextrelay.model.tokens import Spent

DIFF_MIDDLE_BYTES_MAX = 4 * MIB
DIFF_JSON_BYTES_MAX = MIB
DIFF_CHANGES_MAX = 50


class DiffRequest(Struct, frozen=True, kw_only=True):
    """Two texts to compare: the middle of two bodies, between their common head and tail."""

    labels: tuple[str, str]
    context: int
    tokens_max: int
    start: int  # Byte offset at which the texts begin in both bodies.
    lines_before: int
    is_cut: bool  # Whether the middle is longer than these texts, which are then cut.
    is_inside: bool  # Whether the texts begin within a long line.


class TextDifference(Struct, frozen=True, kw_only=True):
    """The differences between two texts."""

    text: str = ""
    added: int = 0
    removed: int = 0
    changes: list[Change] = []
    left_out: str = ""
    notes: tuple[str, ...] = ()


def diff_texts(request: DiffRequest, bodies: Sequence[bytes]) -> TextDifference:
    """Compare two texts and, if possible, the JSON documents that contain them."""
    old_lines, new_lines = _lines(bodies[0]), _lines(bodies[1])
    edits = find_edits(old_lines, new_lines)
    lines = [f"--- {request.labels[0]}\n", f"+++ {request.labels[1]}\n"]
    room, line_count = bytes_for(request.tokens_max), len(lines)
    for hunk in unified(old_lines, edits, request.context):
        line_count += hunk.line_count
        if room <= 0:
            continue  # This hunk is counted, but not rendered.
        for line in _folded(hunk.lines(old_lines, new_lines, request.lines_before)):
            lines.append(f"{line}\n")
            room -= len(line) + 1
            if room <= 0:
                break
    text, count = fit_lines(lines, request.tokens_max)
    left_out = [f"{line_count - count:,} lines of the diff"] if line_count > count else []
    notes: list[str] = []
    if request.is_cut:
        left_out.append(f"everything after the first {DIFF_MIDDLE_BYTES_MAX:,} bytes that differ")
    if not edits and not request.is_cut:
        notes.append("they differ only in the newline at the end of the last line")
    elif request.is_inside:
        where = f"shown from byte {request.start:,} on"
        notes.append(f"line {request.lines_before + 1:,} is long: {where}")
    changes: list[Change] = []  # Of two JSON documents.
    if len(bodies) == 4:
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            found = diff_values(*map(msgspec.json.decode, bodies[2:]))
            some = islice(found, DIFF_CHANGES_MAX)
            changes = [Change(op=each.op, path=each.path) for each in some]
    return TextDifference(
        text=text,
        added=sum(edit.new_stop - edit.new_start for edit in edits),
        removed=sum(edit.old_stop - edit.old_start for edit in edits),
        changes=changes,
        left_out=", and ".join(left_out),
        notes=tuple(notes),
    )


def diff_bodies(
    old: SliceSource,
    new: SliceSource,
    context: int,
    tokens_max: int,
    compare: Callable[[DiffRequest, Sequence[bytes]], TextDifference] = diff_texts,
) -> Differing:
    """Return the differences between two bodies. `compare` is the part that may be slow."""
    if old.sha256 == new.sha256 and old.sha256:
        return _answer(old, new, TextDifference(), is_same=True)
    labels = f"{old.ref[:8]} {old.name or ''}".rstrip(), f"{new.ref[:8]} {new.name or ''}".rstrip()
    try:
        one, other = as_utf8(old), as_utf8(new)
    except Invalid:
        text = "".join(
            f"{sign} {label}: {each.size_bytes:,} bytes, sha256 {each.sha256}\n"
            for sign, label, each in zip("-+", labels, (old, new), strict=True)
        )
        return _answer(old, new, TextDifference(text=text), is_text=False)
    request, bodies = _middle(one, other, labels, context, tokens_max)
    is_small = max(old.size_bytes, new.size_bytes) <= DIFF_JSON_BYTES_MAX
    if old.type == new.type == "json" and is_small:
        bodies += [each.bytes_of(0, each.size_bytes) for each in (old, new)]
    compared = compare(request, bodies)
    notes = (*one.notes, *other.notes, *compared.notes)
    return _answer(old, new, replace(compared, notes=notes))


def _answer(
    old: SliceSource,
    new: SliceSource,
    compared: TextDifference,
    is_same: bool = False,
    is_text: bool = True,
) -> Differing:
    one, other = spent(0, old), spent(0, new)
    is_measured = one.basis == other.basis == "measured"
    return Differing(
        old=old.ref,
        new=new.ref,
        is_same=is_same,
        is_text=is_text,
        text=compared.text,
        added=compared.added,
        removed=compared.removed,
        changes=compared.changes,
        left_out=compared.left_out,
        notes=compared.notes,
        spent=Spent(
            tokens=count_tokens(compared.text),
            whole_tokens=one.whole_tokens + other.whole_tokens,
            basis="measured" if is_measured else "estimated",
            tokenizer=one.tokenizer,
        ),
    )


# Common head and tail


def _middle(
    old: SliceSource, new: SliceSource, labels: tuple[str, str], context: int, tokens_max: int
) -> tuple[DiffRequest, list[bytes]]:
    """Return the middle of both bodies, between common head and tail, with some context lines."""
    head = 0
    for one, other in zip(_blocks(old), _blocks(new), strict=False):
        head += len(one) if one == other else _common_prefix(one, other)
        if one != other:
            break
    start, is_inside = _context_start(old, head, context)
    lines_before = sum(chunk.count(b"\n") for chunk in old.read(0, start))
    tail = _context_tail(old, _common_tail(old, new, start), context)
    old_stop, new_stop = old.size_bytes - tail, new.size_bytes - tail
    room = DIFF_MIDDLE_BYTES_MAX
    request = DiffRequest(
        labels=labels,
        context=context,
        tokens_max=tokens_max,
        start=start,
        lines_before=lines_before,
        is_cut=max(old_stop, new_stop) - start > room,
        is_inside=is_inside,
    )
    bodies: list[bytes] = []
    for each, stop in ((old, old_stop), (new, new_stop)):
        raw = each.bytes_of(start, min(stop, start + room))
        # Whole lines, if it is cut.
        bodies.append(raw[: raw.rfind(b"\n") + 1] or raw if start + room < stop else raw)
    return request, bodies


def _blocks(source: SliceSource) -> Iterator[bytes]:
    """Yield a body in blocks of equal size, however the body is stored."""
    carried = b""
    for chunk in source.read(0, source.size_bytes):
        carried += chunk
        while len(carried) >= CHUNK_BYTES:
            yield carried[:CHUNK_BYTES]
            carried = carried[CHUNK_BYTES:]
    if carried:
        yield carried


def _common_prefix(one: AnyStr, other: AnyStr) -> int:
    """Return the length of the common prefix of two texts, found by bisection."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _common_tail(old: SliceSource, new: SliceSource, start: int) -> int:
    """Return the length in bytes of the common tail of two bodies, after the offset `start`."""
    most = min(old.size_bytes, new.size_bytes) - start
    same = 0
    while same < most:
        step = min(CHUNK_BYTES, most - same)
        one = old.bytes_of(old.size_bytes - same - step, old.size_bytes - same)
        other = new.bytes_of(new.size_bytes - same - step, new.size_bytes - same)
        if one != other:
            return same + _common_prefix(one[::-1], other[::-1])
        same += step
    return same


def _context_start(source: SliceSource, place: int, context: int) -> tuple[int, bool]:
    """Return the offset `context` lines before a place, and whether that is in a long line."""
    window = source.bytes_of(max(0, place - LINE_MARK_BYTES), place)
    first = place - len(window)
    start = window.rfind(b"\n") + 1
    if not start and first:
        near = max(0, len(window) - MATCH_BYTES_SHOWN)
        while near < len(window) and window[near] & 0xC0 == 0x80:
            near += 1
        return first + near, True
    for _ in range(context):
        if not start:
            break
        start = window.rfind(b"\n", 0, start - 1) + 1
    return first + start, False


def _context_tail(source: SliceSource, tail: int, context: int) -> int:
    """Return the length of the tail after `context` more lines."""
    begin = source.size_bytes - tail
    window = source.bytes_of(begin, min(begin + LINE_MARK_BYTES, source.size_bytes))
    place = -1
    for _ in range(context + 1):
        place = window.find(b"\n", place + 1)
        if place < 0:
            # No line ends nearby: take a little of the tail, or nothing at the end of the body.
            return 0 if len(window) == tail else max(0, tail - MATCH_BYTES_SHOWN)
    return tail - place - 1


def _lines(raw: bytes) -> list[str]:
    lines = printable(decode_bytes(raw)).split("\n")
    return lines[:-1] if lines and not lines[-1] else lines


# Display


def _folded(lines: Iterator[str]) -> Iterator[str]:
    """Yield the lines of a hunk with long lines folded, around the first change if there is one."""
    before = " "
    line = next(lines, None)
    while line is not None:
        following = next(lines, None)
        if len(line) <= LINE_BYTES_SHOWN:
            yield line
        elif line[0] == "-" and following is not None and following[0] == "+":
            yield _fold(line, following)
        else:
            yield _fold(line, before if line[0] == "+" and before[0] == "-" else "")
        before, line = line, following


def _fold(line: str, other: str) -> str:
    """Return the beginning of a long line, or the text around its difference from the other."""
    change = _common_prefix(line[1:], other[1:]) if other else 0
    first = max(0, change - MATCH_BYTES_SHOWN // 2)
    text = line[1 + first : 1 + first + MATCH_BYTES_SHOWN]
    left = len(line) - 1 - len(text)
    return f"{line[0]}{'…' if first else ''}{text} [… {left:,} characters more]"


# Limit for comparing line by line, if a line occurs more than once on both sides.
DIFF_STEPS_MAX = 20_000_000


class Edit(Struct, frozen=True, gc=False):
    """An edit that replaces lines of the old text by lines of the new text."""

    old_start: int
    old_stop: int
    new_start: int
    new_stop: int


def find_edits(old: list[str], new: list[str]) -> list[Edit]:
    """Return the edits between two lists of lines, in order."""
    head = 0
    for one, other in zip(old, new, strict=False):
        if one != other:
            break
        head += 1
    most = min(len(old), len(new)) - head
    tail = 0
    while tail < most and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    edits: list[Edit] = []
    steps_left = DIFF_STEPS_MAX
    for area in _areas(old, new, head, len(old) - tail, head, len(new) - tail):
        old_at, new_at = area.old_start, area.new_start
        one, other = old[old_at : area.old_stop], new[new_at : area.new_stop]
        # The maximum number of steps to compare the area line by line.
        counts = Counter(other) if len(one) > 1 or len(other) > 1 else Counter[str]()
        steps = sum(map(counts.__getitem__, one)) * min(len(one), len(other))
        if 0 < steps <= steps_left:
            steps_left -= steps
            matcher = SequenceMatcher(None, one, other, autojunk=False)
            for tag, old_start, old_stop, new_start, new_stop in matcher.get_opcodes():
                if tag != "equal":
                    olds = old_at + old_start, old_at + old_stop
                    edits.append(Edit(*olds, new_at + new_start, new_at + new_stop))
        elif one or other:
            edits.append(area)
    return edits


def _areas(
    old: list[str], new: list[str], old_start: int, old_stop: int, new_start: int, new_stop: int
) -> Iterator[Edit]:
    """Yield the areas between anchors, before the first and after the last."""
    for old_index, new_index in _anchors(old, new, old_start, old_stop, new_start, new_stop):
        if old_index < old_start or new_index < new_start:
            continue  # Already included in the area after the previous anchor.
        # Equal lines before an anchor belong to it.
        back = 0
        while (
            old_index - back > old_start
            and new_index - back > new_start
            and old[old_index - back - 1] == new[new_index - back - 1]
        ):
            back += 1
        yield Edit(old_start, old_index - back, new_start, new_index - back)
        old_start, new_start = old_index + 1, new_index + 1
        while old_start < old_stop and new_start < new_stop and old[old_start] == new[new_start]:
            old_start += 1
            new_start += 1
    yield Edit(old_start, old_stop, new_start, new_stop)


def _anchors(
    old: list[str], new: list[str], old_start: int, old_stop: int, new_start: int, new_stop: int
) -> list[tuple[int, int]]:
    """Return the indexes of lines that occur once on each side, in their longest common order."""
    once_old = Counter(old[old_start:old_stop])
    once_new = Counter(new[new_start:new_stop])
    places = {
        line: index
        for index, line in enumerate(new[new_start:new_stop], new_start)
        if once_new[line] == 1 and once_old[line] == 1
    }
    pairs = [
        (places[line], index)
        for index, line in enumerate(old[old_start:old_stop], old_start)
        if line in places
    ]
    return [(index, place) for place, index in longest_increasing(pairs)]


def hunks(edits: list[Edit], context: int) -> Iterator[list[Edit]]:
    """Group edits whose context lines touch or overlap, as a unified diff does."""
    group: list[Edit] = []
    for edit in edits:
        if group and edit.old_start - group[-1].old_stop > 2 * context:
            yield group
            group = []
        group.append(edit)
    if group:
        yield group


class Hunk(Struct, frozen=True):
    """Edits with their context lines, as a unified diff shows them."""

    edits: list[Edit]
    old_start: int
    old_stop: int
    new_start: int
    new_stop: int

    @property
    def line_count(self) -> int:
        """The number of lines of the hunk, including its header."""
        added = sum(edit.new_stop - edit.new_start for edit in self.edits)
        return 1 + self.old_stop - self.old_start + added

    def lines(self, old: list[str], new: list[str], skipped: int) -> Iterator[str]:
        """Yield the lines of the hunk. `skipped` is the number of lines before both sides."""
        old_at = _line_range(self.old_start + skipped, self.old_stop + skipped)
        yield f"@@ -{old_at} +{_line_range(self.new_start + skipped, self.new_stop + skipped)} @@"
        place = self.old_start
        for edit in self.edits:
            yield from (f" {old[index]}" for index in range(place, edit.old_start))
            yield from (f"-{old[index]}" for index in range(edit.old_start, edit.old_stop))
            yield from (f"+{new[index]}" for index in range(edit.new_start, edit.new_stop))
            place = edit.old_stop
        yield from (f" {old[index]}" for index in range(place, self.old_stop))


def unified(old: list[str], edits: list[Edit], context: int) -> Iterator[Hunk]:
    """Yield the hunks of a unified diff between two texts."""
    for group in hunks(edits, context):
        first, last = group[0], group[-1]
        before = min(context, first.old_start)
        after = min(context, len(old) - last.old_stop)
        olds = first.old_start - before, last.old_stop + after
        yield Hunk(group, *olds, first.new_start - before, last.new_stop + after)


def _line_range(start: int, stop: int) -> str:
    count = stop - start
    first = start + 1 if count else start
    return f"{first}" if count == 1 else f"{first},{count}"
