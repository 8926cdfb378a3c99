"""Records: matches in structured content, each as the smallest record that holds it.

Of several patterns, a record that has more of them comes first. It is shown with its pointer and
with what identifies the records that it is in; of a long one, first the members that match.

Rule: what holds more than GREP_RECORD_BYTES_MAX is no record that is preferred for having more of
the patterns: it has them only because it has so much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import islice

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from contextrelay.content.grep.gathered import ONE_MORE, Search
from contextrelay.content.grep.identity import identifies
from contextrelay.content.grep.match import compile_any
from contextrelay.content.grep.plain_text import VALUE, WORD, is_plain, spellings, wholeness
from contextrelay.content.grep.shown_record import Showing
from contextrelay.content.grep.tree import Format, JsonContainer, TooMany, nodes_of
from contextrelay.content.settings import settings
from contextrelay.content.tokens import count_tokens
from contextrelay.limits import GREP_QUICK_STEPS_MAX, GREP_RECORD_BYTES_MAX
from contextrelay.model.artifact import ArtifactType

GREP_PLACES_MAX = 100_000


_CHARS_MIN = 100
_TWO_TOKENS_MIN = 300
_NEAR = f"of more than {GREP_PLACES_MAX:,} matches, those near rarer ones were looked at"
# A word in what identifies its record counts more than a value in it.
NAME = VALUE + 1
# What stands further apart in one line has nothing to do with each other.
_LINE_BYTES = 400


class RecordQuery(Struct, frozen=True, kw_only=True):
    """What to look for in a body, what that is, and how much of a record is shown."""

    patterns: tuple[str, ...]
    ignore_case: bool = False
    is_fixed: bool = False
    type: ArtifactType
    media_type: str
    records_max: int
    chars_max: int
    """Of one record."""
    best_chars_max: int
    """Of one that is better than all others."""
    all_chars_max: int
    tokens_max: int


class MatchedRecord(Struct, frozen=True, array_like=True):
    """A record that matches: where it is, how many of the patterns it has, and its text."""

    line: int
    offset: int
    pointer: str
    score: int
    text: str


class Records(Struct, frozen=True, array_like=True):
    """The best of the records that match, and how many there are; None where they are none."""

    found: list[MatchedRecord] | None
    count: int = 0
    why: str = ""
    """Why there are none, where there may be some; or why these are not all."""


def records(wanted: RecordQuery, body: bytes) -> Records:
    """Look for patterns in the records of a body."""
    format = format_of(wanted.type, wanted.media_type, body)
    if format is None:
        return Records(None)
    if format == "table" and b"\n" not in body:
        body = body.replace(b"\r", b"\n")  # Lines that end in an old way.
    looked_for = _places(wanted, body, format)
    if looked_for is None:
        return Records(None, why=f"more than {GREP_PLACES_MAX:,} matches")
    places, is_all = looked_for
    try:
        nodes = nodes_of(body.decode("latin-1"), format, [place[0] for place in places])
    except TooMany as error:
        return Records(None, why=str(error))
    holders = _holders(nodes, _with_lines(places, body), len(wanted.patterns), format)
    if not holders:
        return Records(None)
    order = sorted(holders, key=lambda each: (-each.score, -each.in_line, each.offset))
    searches = [
        compile_any((each,), wanted.ignore_case, wanted.is_fixed).search for each in wanted.patterns
    ]
    showing = Showing(searches, body, nodes, format)
    found: list[MatchedRecord] = []
    left = wanted.all_chars_max
    # One that is better than all others is shown with all the room there is; so is the first where
    # there is not enough for two.
    is_best = wanted.tokens_max < _TWO_TOKENS_MIN or (
        len(order) == 1 or order[0].score > order[1].score
    )
    for rank, each in enumerate(order[: wanted.records_max]):
        is_alone = is_best and not rank
        chars_max = wanted.best_chars_max if is_alone else wanted.chars_max
        tokens_max = wanted.tokens_max if is_alone else None
        text = showing.text(each.node, chars_max, tokens_max)
        # What matches is shown of the first in any case: with less around it where that is much.
        while not rank and chars_max > _CHARS_MIN and count_tokens(text) > wanted.tokens_max:
            chars_max = chars_max * 9 // 10
            text = showing.text(each.node, chars_max, tokens_max)
        pointer, score = showing.pointer(each.node), each.score
        found.append(MatchedRecord(0, each.offset, pointer, score, text))
        left -= len(text)
        if left <= 0:
            break
    return Records(_numbered(found, body), len(holders), why="" if is_all else _NEAR)


def _numbered(found: list[MatchedRecord], body: bytes) -> list[MatchedRecord]:
    """Records with the numbers of their lines."""
    lines: dict[int, int] = {}
    line, counted = 1, 0
    for offset in sorted(each.offset for each in found):
        line += body.count(b"\n", counted, offset)
        lines[offset], counted = line, offset
    return [replace(each, line=lines[each.offset]) for each in found]


def is_quick(wanted: RecordQuery) -> bool:
    """Whether the patterns are looked for so quickly that a small body takes no time."""
    compiled = [
        compile_any((each,), wanted.ignore_case, wanted.is_fixed) for each in wanted.patterns
    ]
    return sum(each.programsize for each in compiled) <= GREP_QUICK_STEPS_MAX


def structured_type(type: ArtifactType, media_type: str, head: bytes) -> ArtifactType | None:
    """What a body that may have records is read as; None if it has none."""
    if type in ("json", "csv") or format_of(type, media_type, head) is not None:
        return type
    # A log of JSON lines, or a document without a name that shows it.
    is_json = type in ("log", "text", "tool_output") and head.lstrip()[:1] in (b"{", b"[")
    return "json" if is_json else None


_FORMATS: dict[str, Format] = {
    "application/yaml": "yaml",
    "application/x-yaml": "yaml",
    "text/yaml": "yaml",
    "application/xml": "xml",
    "text/xml": "xml",
    "image/svg+xml": "xml",
    "application/toml": "sections",
}
_SETTINGS_BYTES = 1_024


def format_of(type: ArtifactType, media_type: str, body: bytes) -> Format | None:
    """What a body is built as; None if it is nothing that has records."""
    if type == "csv":
        return "table"
    if type != "json":
        is_plain_text = type == "text" and media_type == "text/plain"
        return "sections" if is_plain_text and _has_sections(body) else _FORMATS.get(media_type)
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        first = body.lstrip().partition(b"\n")[0]
        try:
            msgspec.json.decode(first, type=msgspec.Raw)
        except (msgspec.DecodeError, RecursionError):
            return None
        return "json lines"
    return "json"


def _has_sections(body: bytes) -> bool:
    """Whether a text, by its beginning, has names with values in sections."""
    rows = body[:_SETTINGS_BYTES].decode("utf-8", "replace").splitlines()
    guess = settings([row for row in rows if row.strip()])
    return guess is not None and guess[1] == "application/toml"


Place = tuple[int, int, int, int]
"""Where a match begins and ends, which pattern it is of, and whether it is a word or a value."""


def _places(wanted: RecordQuery, body: bytes, format: Format) -> tuple[list[Place], bool] | None:
    """Every match of every pattern, and whether these are all; None where they are too many.

    What matches too often is looked for only near the others: further away it is in no record
    that is preferred for having both.
    """
    found: dict[int, list[Place]] = {}
    seeks: list[Callable[[int, int], Iterator[Place]]] = []
    for index, each in enumerate(wanted.patterns):
        forms, is_fixed = [each], wanted.is_fixed
        if format in ("json", "json lines") and is_plain(forms, is_fixed):
            forms, is_fixed = spellings(each), True
        search = compile_any(forms, wanted.ignore_case, is_fixed).search
        seeks.append(partial(_seek, search, body, index, format == "sections"))
        found[index] = list(islice(seeks[index](0, len(body)), GREP_PLACES_MAX + 1))
        while sum(map(len, found.values())) > GREP_PLACES_MAX:
            found.pop(max(found, key=lambda at: len(found[at])))
    rare = sorted(place for each in found.values() for place in each)
    common = [seek for index, seek in enumerate(seeks) if index not in found]
    if not common:
        return rare, True
    spans = _around(rare, len(body))
    near = (place for seek in common for span in spans for place in seek(*span))
    places = rare + list(islice(near, GREP_PLACES_MAX + 1 - len(rare)))
    return (sorted(places), False) if rare and len(places) <= GREP_PLACES_MAX else None


def _seek(
    search: Search, body: bytes, index: int, has_names: bool, start: int, end: int
) -> Iterator[Place]:
    """The matches of a pattern between two places."""
    at = start
    while at <= end and (match := search(body, at, end)) is not None:
        start, stop = match.span()
        whole = wholeness(body, start, stop)
        yield start, stop, index, NAME if has_names and whole and identifies(body, start) else whole
        at = max(stop, start + 1)


def _around(places: Iterable[Place], end: int) -> list[tuple[int, int]]:
    """Spans in which a record that holds one of the places is, if it is no larger than is kept."""
    spans: list[tuple[int, int]] = []
    for start, stop, _, _ in places:
        first, last = max(0, start - GREP_RECORD_BYTES_MAX), min(end, stop + GREP_RECORD_BYTES_MAX)
        if spans and first <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(last, spans[-1][1])
        else:
            spans.append((first, last))
    return spans


class _Holder(Struct):
    """A node that holds matches, and no smaller one holds as many of the patterns."""

    node: int
    mask: int
    whole: int
    """The patterns that it has as whole words."""
    values: int
    """Those that are a whole value in it."""
    names: int
    """Those that are in what identifies it."""
    offset: int
    """Where the first of them is."""
    together: int = 0
    """How many patterns are in one line in which it has some."""

    @property
    def score(self) -> int:
        whole = self.whole.bit_count() + self.values.bit_count() + self.names.bit_count()
        return ONE_MORE * self.mask.bit_count() + whole

    @property
    def in_line(self) -> int:
        """How many of the patterns that it has are in one line."""
        return min(self.together, self.mask.bit_count())

    def add(self, other: _Holder) -> None:
        self.mask |= other.mask
        self.whole |= other.whole
        self.values |= other.values
        self.names |= other.names
        self.offset = min(self.offset, other.offset)
        self.together = max(self.together, other.together)


def _with_lines(places: list[Place], body: bytes) -> Iterator[tuple[Place, int]]:
    """Places in order, each with how many of the patterns its line has up to it, not far before."""
    mask = last = 0
    for place in places:
        is_same = place[0] - last <= _LINE_BYTES and body.find(b"\n", last, place[0]) < 0
        mask, last = (mask if is_same else 0) | 1 << place[2], place[0]
        yield place, mask.bit_count()


def _holders(
    nodes: list[JsonContainer], places: Iterable[tuple[Place, int]], patterns: int, format: Format
) -> list[_Holder]:
    """The smallest records that hold matches."""
    own: dict[int, _Holder] = {}
    stack: list[int] = []
    following = 0
    for (start, stop, pattern, whole), together in places:
        while following < len(nodes) and nodes[following].start <= start:
            stack = _opened(nodes, stack, following)
            following += 1
        index = next((each for each in reversed(stack) if nodes[each].stop >= stop), 0)
        index = _record(nodes, index)
        holder = own.setdefault(index, _Holder(index, 0, 0, 0, 0, start))
        holder.mask |= 1 << pattern
        holder.together = max(holder.together, together)
        holder.whole |= (whole >= WORD) << pattern
        holder.values |= (whole >= VALUE) << pattern
        holder.names |= (whole >= NAME) << pattern
    if patterns > 1:
        _join(nodes, own)
    if format == "table":
        own.pop(0, None)  # The header: it is shown with every row.
    return list(own.values())


def _opened(nodes: list[JsonContainer], stack: list[int], index: int) -> list[int]:
    while stack and stack[-1] != nodes[index].parent:
        stack.pop()
    stack.append(index)
    return stack


def _record(nodes: list[JsonContainer], index: int) -> int:
    """The node itself if it is a record, else the nearest that it is in; the first at last."""
    while index and not nodes[index].is_record and nodes[index].parent >= 0:
        index = nodes[index].parent
    return index


def _size(node: JsonContainer) -> int:
    return node.stop - node.body


def _join(nodes: list[JsonContainer], own: dict[int, _Holder]) -> None:
    """Add the records that have more of the patterns than any one in them."""
    below: dict[int, _Holder] = {}
    best: dict[int, int] = {}
    # The smallest first: what one of them has is no news in those that it is in.
    pending = [-index for index in own]
    heapify(pending)
    while pending:
        index = -heappop(pending)
        if pending and -pending[0] == index:
            continue
        node, mine, under = nodes[index], own.get(index), below.get(index)
        score = mine.score if mine else 0
        if under is not None:
            both = replace(under, node=index)
            if mine is not None:
                both.add(mine)
            is_small = node.is_record and _size(node) <= GREP_RECORD_BYTES_MAX
            if is_small and both.score > max(best[index], score):
                own[index] = both
            mine, score = both, max(best[index], score, both.score if is_small else 0)
        assert mine is not None
        if node.parent >= 0:
            if node.parent in below:
                below[node.parent].add(mine)
            else:
                below[node.parent] = replace(mine, node=node.parent)
                heappush(pending, -node.parent)
            best[node.parent] = max(best.get(node.parent, 0), score)
