"""Records: matches in structured content, each shown as the smallest record that contains it.

With several patterns, records that match more of them come first. A record is shown with its
pointer and the identity of the records around it; in a long record, matching members come first.

Rule: a record larger than GREP_RECORD_BYTES_MAX is not preferred for matching more patterns: it
matches them only because of its size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import islice

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from contextrelay.content.grep.match import (
    PATTERN_SCORE,
    VALUE,
    WORD,
    Search,
    are_plain_texts,
    compile_any,
    json_forms,
    match_level,
)
from contextrelay.content.grep.shown_record import RecordFormatter, identifies
from contextrelay.content.grep.tree import NoRecords, RecordFormat, RecordNode, nodes_of
from contextrelay.content.sniff import settings
from contextrelay.content.tokens import count_tokens
from contextrelay.limits import GREP_QUICK_STEPS_MAX, GREP_RECORD_BYTES_MAX
from contextrelay.model.artifact import ArtifactType

GREP_PLACES_MAX = 100_000

_CHARS_MIN = 100
_HEAD_TOKENS = 7
_RECORD_CHARS_MIN, _RECORD_CHARS_MAX = 200, 2_000
_TWO_TOKENS_MIN = 300
_NEAR = f"more than {GREP_PLACES_MAX:,} matches: only those near rarer ones were examined"
# A word in the identity of a record scores more than a word in a value.
NAME = VALUE + 1
# Matches further apart in one line are treated as unrelated.
_LINE_BYTES = 400


class RecordQuery(Struct, frozen=True, kw_only=True):
    """The patterns, the format of the body, and how much to show."""

    patterns: tuple[str, ...]
    ignore_case: bool = False
    is_fixed: bool = False
    type: ArtifactType
    media_type: str
    records_max: int
    tokens_max: int


class MatchedRecord(Struct, frozen=True, array_like=True):
    """A matching record: its position, the number of patterns in it, and its text."""

    line: int
    offset: int
    pointer: str
    score: int
    text: str


class Records(Struct, frozen=True, array_like=True):
    """The best matching records and the total count; None if the body has no records."""

    found: list[MatchedRecord] | None
    count: int = 0
    why: str = ""
    """Why there are no records although the format has some, or why the records are incomplete."""


def records(query: RecordQuery, body: bytes) -> Records:
    """Return the records of a body that match the patterns."""
    format = format_of(query.type, query.media_type, body)
    if format is None:
        return Records(None)
    if format == "table" and b"\n" not in body:
        body = body.replace(b"\r", b"\n")  # Old Mac line ends are replaced.
    looked_for = _places(query, body, format)
    if looked_for is None:
        return Records(None, why=f"more than {GREP_PLACES_MAX:,} matches")
    places, is_all = looked_for
    try:
        nodes = nodes_of(body.decode("latin-1"), format, [place[0] for place in places])
    except NoRecords as error:
        return Records(None, why=str(error))
    holders = _matched_nodes(nodes, _with_lines(places, body), len(query.patterns), format)
    if not holders:
        return Records(None)
    order = sorted(holders, key=lambda each: (-each.score, -each.in_line, each.offset))
    searches = [
        compile_any((each,), query.ignore_case, query.is_fixed).search for each in query.patterns
    ]
    showing = RecordFormatter(searches, body, nodes, format)
    found: list[MatchedRecord] = []
    # One record may use about half of the budget.
    share_chars = min(max(2 * query.tokens_max, _RECORD_CHARS_MIN), _RECORD_CHARS_MAX)
    left = 10 * query.tokens_max + share_chars
    room_tokens = query.tokens_max - _HEAD_TOKENS
    # If one record is better than all others, it may use the whole budget; so may the first one if
    # there is not enough for two.
    is_best = len(order) == 1 or order[0].score > order[1].score or room_tokens < _TWO_TOKENS_MIN
    for rank, each in enumerate(order[: query.records_max]):
        is_alone = is_best and not rank
        chars_max = 2 * share_chars if is_alone else share_chars
        tokens_max = room_tokens if is_alone else None
        text = showing.text(each.node, chars_max, tokens_max)
        # The matches of the first record are always shown, with less context if necessary.
        while not rank and chars_max > _CHARS_MIN and count_tokens(text) > room_tokens:
            chars_max = chars_max * 9 // 10
            text = showing.text(each.node, chars_max, tokens_max)
        pointer, score = showing.pointer(each.node), each.score
        found.append(MatchedRecord(0, each.offset, pointer, score, text))
        left -= len(text)
        if left <= 0:
            break
    lines: dict[int, int] = {}
    line, counted = 1, 0
    for offset in sorted(each.offset for each in found):
        line += body.count(b"\n", counted, offset)
        lines[offset], counted = line, offset
    numbered = [replace(each, line=lines[each.offset]) for each in found]
    return Records(numbered, len(holders), why="" if is_all else _NEAR)


def is_quick(query: RecordQuery) -> bool:
    """Return True if the search is so fast that it takes no noticeable time for a small body."""
    compiled = [compile_any((each,), query.ignore_case, query.is_fixed) for each in query.patterns]
    return sum(each.programsize for each in compiled) <= GREP_QUICK_STEPS_MAX


def structured_type(type: ArtifactType, media_type: str, head: bytes) -> ArtifactType | None:
    """Return the type as which a body is parsed for records; None if it has no records."""
    if type in ("json", "csv") or format_of(type, media_type, head) is not None:
        return type
    # A log of JSON lines, or a document whose name does not show its type.
    is_json = type in ("log", "text", "tool_output") and head.lstrip()[:1] in (b"{", b"[")
    return "json" if is_json else None


_FORMATS: dict[str, RecordFormat] = {
    "application/yaml": "yaml",
    "application/x-yaml": "yaml",
    "text/yaml": "yaml",
    "application/xml": "xml",
    "text/xml": "xml",
    "image/svg+xml": "xml",
    "application/toml": "sections",
}
_SETTINGS_BYTES = 1_024


def format_of(type: ArtifactType, media_type: str, body: bytes) -> RecordFormat | None:
    """Return the record format of a body, or None if it has no records."""
    if type == "csv":
        return "table"
    if type == "text" and media_type == "text/plain":
        # Sections with names and values, like an INI file.
        rows = body[:_SETTINGS_BYTES].decode("utf-8", "replace").splitlines()
        guess = settings([row for row in rows if row.strip()])
        return "sections" if guess is not None and guess[1] == "application/toml" else None
    if type != "json":
        return _FORMATS.get(media_type)
    if _is_json(body):
        return "json"
    return "json lines" if _is_json(body.lstrip().partition(b"\n")[0]) else None


def _is_json(raw: bytes) -> bool:
    try:
        msgspec.json.decode(raw, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


# Start and end of a match, the index of its pattern, and whether the match is a word or a value.
Place = tuple[int, int, int, int]


def _places(
    query: RecordQuery, body: bytes, format: RecordFormat
) -> tuple[list[Place], bool] | None:
    """Return the matches of all patterns and whether they are complete; None if there are too many.

    Frequent patterns are searched only near matches of the others: further away, they cannot be in
    a record that is preferred for matching both.
    """
    found: dict[int, list[Place]] = {}
    seeks: list[Callable[[int, int], Iterator[Place]]] = []
    for index, each in enumerate(query.patterns):
        forms, is_fixed = [each], query.is_fixed
        if format in ("json", "json lines") and are_plain_texts(forms, is_fixed):
            forms, is_fixed = json_forms(each), True
        search = compile_any(forms, query.ignore_case, is_fixed).search
        seeks.append(partial(_pattern_matches, search, body, index, format == "sections"))
        found[index] = list(islice(seeks[index](0, len(body)), GREP_PLACES_MAX + 1))
        while sum(map(len, found.values())) > GREP_PLACES_MAX:
            found.pop(max(found, key=lambda at: len(found[at])))
    rare = sorted(place for each in found.values() for place in each)
    common = [seek for index, seek in enumerate(seeks) if index not in found]
    if not common:
        return rare, True
    # A small enough record that contains a rare match is within one of these spans.
    spans: list[tuple[int, int]] = []
    for start, stop, _, _ in rare:
        first = max(0, start - GREP_RECORD_BYTES_MAX)
        last = min(len(body), stop + GREP_RECORD_BYTES_MAX)
        if spans and first <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(last, spans[-1][1])
        else:
            spans.append((first, last))
    near = (place for seek in common for span in spans for place in seek(*span))
    places = rare + list(islice(near, GREP_PLACES_MAX + 1 - len(rare)))
    return (sorted(places), False) if rare and len(places) <= GREP_PLACES_MAX else None


def _pattern_matches(
    search: Search, body: bytes, index: int, has_names: bool, start: int, end: int
) -> Iterator[Place]:
    at = start
    while at <= end and (match := search(body, at, end)) is not None:
        start, stop = match.span()
        whole = match_level(body, start, stop)
        yield start, stop, index, NAME if has_names and whole and identifies(body, start) else whole
        at = max(stop, start + 1)


class _MatchedNode(Struct):
    """A node that contains matches, while no smaller node contains as many of the patterns."""

    node: int
    offset: int  # Byte offset of the first match.
    # The patterns in the node, as bit sets: any, as whole words, as a value, in its identity.
    levels: list[int]
    together: int = 0  # The largest number of patterns in one line of the node.

    @property
    def score(self) -> int:
        patterns, *better = (level.bit_count() for level in self.levels)
        return PATTERN_SCORE * patterns + sum(better)

    @property
    def in_line(self) -> int:
        """The number of the node's patterns that occur in one line."""
        return min(self.together, self.levels[0].bit_count())

    def add(self, other: _MatchedNode) -> None:
        self.levels = [one | more for one, more in zip(self.levels, other.levels, strict=True)]
        self.offset = min(self.offset, other.offset)
        self.together = max(self.together, other.together)


def _with_lines(places: list[Place], body: bytes) -> Iterator[tuple[Place, int]]:
    """Yield matches, each with the number of patterns so far in the same part of its line."""
    mask = last = 0
    for place in places:
        is_same = place[0] - last <= _LINE_BYTES and body.find(b"\n", last, place[0]) < 0
        mask, last = (mask if is_same else 0) | 1 << place[2], place[0]
        yield place, mask.bit_count()


def _matched_nodes(
    nodes: list[RecordNode],
    places: Iterable[tuple[Place, int]],
    patterns: int,
    format: RecordFormat,
) -> list[_MatchedNode]:
    own: dict[int, _MatchedNode] = {}
    stack: list[int] = []
    following = 0
    for (start, stop, pattern, whole), together in places:
        while following < len(nodes) and nodes[following].start <= start:
            while stack and stack[-1] != nodes[following].parent:
                stack.pop()
            stack.append(following)
            following += 1
        index = next((each for each in reversed(stack) if nodes[each].stop >= stop), 0)
        # The node, or its nearest enclosing record, or the root.
        while index and not nodes[index].is_record and nodes[index].parent >= 0:
            index = nodes[index].parent
        levels = [(whole >= level) << pattern for level in (0, WORD, VALUE, NAME)]
        found = _MatchedNode(index, start, levels, together)
        if index in own:
            own[index].add(found)
        else:
            own[index] = found
    if patterns > 1:
        _join(nodes, own)
    if format == "table":
        own.pop(0, None)  # Node 0 is the header, which is shown with every row.
    return list(own.values())


def _join(nodes: list[RecordNode], own: dict[int, _MatchedNode]) -> None:
    """Add the records that contain more of the patterns than any single record inside them."""
    below: dict[int, _MatchedNode] = {}
    best: dict[int, int] = {}
    # Smallest first, so that the patterns of an inner record are not counted again for outer ones.
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
            is_small = node.is_record and node.stop - node.body <= GREP_RECORD_BYTES_MAX
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
