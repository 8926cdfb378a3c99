"""Text diffs: the edits from one text to another, line by line, in bounded time.

The common head and tail are removed first. In the rest, lines that occur exactly once on each side
are anchors, taken in their longest common order. The area between two anchors is compared line by
line if that is cheap; otherwise the area counts as one change.

Rule: correct for any two texts: applying the edits to the old text gives the new text. The edits
are small if the texts are similar.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher

from msgspec import Struct

from contextrelay.documents.diff import longest_increasing

# Limit for comparing line by line, if a line occurs more than once on both sides.
DIFF_STEPS_MAX = 20_000_000


class Edit(Struct, frozen=True, gc=False):
    """An edit that replaces lines old_start:old_stop of the old text by lines new_start:new_stop of
    the new text.
    """

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
        steps = _steps(old, new, area)
        if 0 < steps <= steps_left:
            steps_left -= steps
            edits += _compared(old, new, area)
        elif area.old_stop > area.old_start or area.new_stop > area.new_start:
            edits.append(area)
    return edits


def _steps(old: list[str], new: list[str], area: Edit) -> int:
    """Return the maximum number of steps to compare an area line by line; 0 if one side is
    empty.
    """
    old_lines, new_lines = area.old_stop - area.old_start, area.new_stop - area.new_start
    if old_lines <= 1 and new_lines <= 1:
        return 0
    in_old = Counter(old[area.old_start : area.old_stop])
    in_new = Counter(new[area.new_start : area.new_stop])
    pairs = sum(count * in_new[line] for line, count in in_old.items() if line in in_new)
    return pairs * min(old_lines, new_lines)


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
    """Return pairs of indexes of lines that occur exactly once on each side, in their longest
    common order.
    """
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


def _compared(old: list[str], new: list[str], area: Edit) -> Iterator[Edit]:
    """Compare a small area line by line and yield its edits."""
    one = old[area.old_start : area.old_stop]
    other = new[area.new_start : area.new_stop]
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    for tag, old_start, old_stop, new_start, new_stop in matcher.get_opcodes():
        if tag != "equal":
            yield Edit(
                area.old_start + old_start,
                area.old_start + old_stop,
                area.new_start + new_start,
                area.new_start + new_stop,
            )


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
        old_at = _range(self.old_start + skipped, self.old_stop + skipped)
        yield f"@@ -{old_at} +{_range(self.new_start + skipped, self.new_stop + skipped)} @@"
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
        yield Hunk(
            group,
            first.old_start - before,
            last.old_stop + after,
            first.new_start - before,
            last.new_stop + after,
        )


def _range(start: int, stop: int) -> str:
    """Format a range of lines for the header of a hunk."""
    count = stop - start
    first = start + 1 if count else start
    return f"{first}" if count == 1 else f"{first},{count}"
