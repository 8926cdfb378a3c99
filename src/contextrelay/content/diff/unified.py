"""Differences of two bodies: a unified diff within a budget, in bounded memory and time.

Rule: the common head and tail are never kept in memory. Of the middle, DIFF_MIDDLE_BYTES_MAX of
each side are compared, and the reply says if there was more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import AnyStr

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from contextrelay.content.diff.lines import find_edits, unified
from contextrelay.content.slicing.slice import spent
from contextrelay.content.slicing.source import (
    SliceSource,
    as_utf8,
    bytes_for,
    fit_lines,
    shown,
    text_of,
)
from contextrelay.content.tokens import count_tokens
from contextrelay.documents.diff import diff_values
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


class Compare(Struct, frozen=True, kw_only=True):
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


def compare(request: Compare, bodies: Sequence[bytes]) -> TextDifference:
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
    return TextDifference(
        text=text,
        added=sum(edit.new_stop - edit.new_start for edit in edits),
        removed=sum(edit.old_stop - edit.old_start for edit in edits),
        changes=_changes(*bodies[2:]) if len(bodies) == 4 else [],
        left_out=", and ".join(left_out),
        notes=tuple(notes),
    )


def differ(
    old: SliceSource,
    new: SliceSource,
    context: int,
    tokens_max: int,
    compare: Callable[[Compare, Sequence[bytes]], TextDifference] = compare,
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
        spent=_both_spent(count_tokens(compared.text), old, new),
    )


def _both_spent(tokens: int, old: SliceSource, new: SliceSource) -> Spent:
    """Return the number of tokens of the reply, and of both bodies in full."""
    one, other = spent(0, old), spent(0, new)
    is_measured = one.basis == other.basis == "measured"
    return Spent(
        tokens=tokens,
        whole_tokens=one.whole_tokens + other.whole_tokens,
        basis="measured" if is_measured else "estimated",
        tokenizer=one.tokenizer,
    )


# Common head and tail


def _middle(
    old: SliceSource, new: SliceSource, labels: tuple[str, str], context: int, tokens_max: int
) -> tuple[Compare, list[bytes]]:
    """Return the middle of both bodies, between common head and tail, with some context lines."""
    head = _common_head(old, new)
    start, is_inside = _context_start(old, head, context)
    lines_before = sum(chunk.count(b"\n") for chunk in old.read(0, start))
    tail = _common_tail(old, new, start)
    tail = _context_tail(old, tail, context)
    old_stop, new_stop = old.size_bytes - tail, new.size_bytes - tail
    room = DIFF_MIDDLE_BYTES_MAX
    request = Compare(
        labels=labels,
        context=context,
        tokens_max=tokens_max,
        start=start,
        lines_before=lines_before,
        is_cut=max(old_stop, new_stop) - start > room,
        is_inside=is_inside,
    )
    return request, [
        _whole_lines(old.bytes_of(start, min(old_stop, start + room)), start + room < old_stop),
        _whole_lines(new.bytes_of(start, min(new_stop, start + room)), start + room < new_stop),
    ]


def _common_head(old: SliceSource, new: SliceSource) -> int:
    """Return the length in bytes of the common head of two bodies."""
    place = 0
    for one, other in zip(_blocks(old), _blocks(new), strict=False):
        if one != other:
            return place + _common_prefix(one, other)
        place += len(one)
    return place


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
    """Return the length in bytes of the common tail of two bodies. The tail starts after the offset
    `start`.
    """
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
    """Return the offset of the line `context` lines before an offset, and whether that is within a
    long line.
    """
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
    """Return the length of a tail that starts at a line and leaves `context` lines before it in the
    middle.
    """
    begin = source.size_bytes - tail
    window = source.bytes_of(begin, min(begin + LINE_MARK_BYTES, source.size_bytes))
    place = -1
    for _ in range(context + 1):
        place = window.find(b"\n", place + 1)
        if place < 0:
            # No line ends nearby: take a little of the tail, or nothing at the end of the body.
            return 0 if len(window) == tail else max(0, tail - MATCH_BYTES_SHOWN)
    return tail - place - 1


def _whole_lines(raw: bytes, is_cut: bool) -> bytes:
    return raw[: raw.rfind(b"\n") + 1] or raw if is_cut else raw


def _lines(raw: bytes) -> list[str]:
    lines = shown(text_of(raw)).split("\n")
    return lines[:-1] if lines and not lines[-1] else lines


# Display


def _folded(lines: Iterator[str]) -> Iterator[str]:
    """Yield the lines of a hunk with long lines folded. A changed line is folded around its first
    change.
    """
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
    """Return a part of a long line: its beginning, or the text around its difference from the other
    line.
    """
    change = _common_prefix(line[1:], other[1:]) if other else 0
    first = max(0, change - MATCH_BYTES_SHOWN // 2)
    text = line[1 + first : 1 + first + MATCH_BYTES_SHOWN]
    left = len(line) - 1 - len(text)
    return f"{line[0]}{'…' if first else ''}{text} [… {left:,} characters more]"


def _changes(old: bytes, new: bytes) -> list[Change]:
    """Return the differences of two JSON documents; empty if one is not JSON."""
    try:
        found = diff_values(msgspec.json.decode(old), msgspec.json.decode(new))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    return [Change(op=each.op, path=each.path) for each in islice(found, DIFF_CHANGES_MAX)]
