"""Inspect: read limited parts of a body, by position or content, and search across bodies."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from msgspec import Meta
from msgspec.structs import force_setattr

from contextrelay.errors import Invalid
from contextrelay.limits import (
    GREP_MATCHES_DEFAULT,
    GREP_PATTERNS_MAX,
    LIST_ITEMS_MAX,
    OUTLINE_TOKENS_DEFAULT,
    OUTLINE_TOKENS_MIN,
    PIECE_TOKENS_DEFAULT,
    POINTER_CHARS_MAX,
    QUERY_CHARS_MAX,
    SEARCH_RESULTS_MAX,
    TITLE_CHARS_MAX,
)
from contextrelay.model.inspect import Differing, Digested, Found, Hits, IndexState, Outlined, Piece
from contextrelay.model.ref import Ref
from contextrelay.verbs.verb import Index, PieceTokens, ShortText, Traits, Verb, fields_hint

OUTLINE_TOKENS_MAX = 16_000
DIGEST_TOKENS_DEFAULT = 1_000
SPAN_CHARS_MAX = 40
JSON_PATH_CHARS_MAX = 1_000
GREP_PATTERN_CHARS_MAX = 1_000
GREP_CONTEXT_LINES_MAX = 100
GREP_MATCHES_MAX = 10_000
DIFF_CONTEXT_LINES_MAX = 20


OutlineTokens = Annotated[int, Meta(ge=OUTLINE_TOKENS_MIN, le=OUTLINE_TOKENS_MAX)]
SpanText = Annotated[str, Meta(min_length=1, max_length=SPAN_CHARS_MAX)]
"""A span A:B, which excludes B. A or B may be omitted; a negative number counts from the end, as in
-20:
"""
Title = Annotated[str, Meta(min_length=1, max_length=TITLE_CHARS_MAX)]

_looks = partial(Traits, needs="read", looks=True, counted=True)
_scans = partial(Traits, needs="read", slow=True, counted=True, fails=(404, 410, 413, 423))


class Slice(Verb[Piece], frozen=True):
    """Return a piece of a body, of limited size. Pass exactly one selector; `columns` requires
    `rows`.

    Spans are A:B and exclude B; A or B may be omitted. Lines are numbered from 1; bytes, tokens
    and rows count from 0. A heading is a title or a path of titles, `A > B`; a symbol is a name,
    such as `Class.method`.
    """

    traits = _looks(answered_in="inspect", http="GET /v1/artifacts/{ref}/slice", fails=(413, 423))

    ref: Ref
    lines: SpanText | None = None
    bytes: SpanText | None = None
    tokens: SpanText | None = None
    json_pointer: Annotated[str, Meta(max_length=POINTER_CHARS_MAX)] | None = None
    json_path: Annotated[str, Meta(max_length=JSON_PATH_CHARS_MAX)] | None = None
    rows: SpanText | None = None
    columns: Annotated[tuple[ShortText, ...], Meta(max_length=LIST_ITEMS_MAX)] = ()
    heading: Title | None = None
    symbol: Title | None = None
    tokens_max: PieceTokens = PIECE_TOKENS_DEFAULT


GrepPattern = Annotated[str, Meta(min_length=1, max_length=GREP_PATTERN_CHARS_MAX)]
GrepPatterns = Annotated[tuple[GrepPattern, ...], Meta(min_length=1, max_length=GREP_PATTERNS_MAX)]


class Grep(Verb[Found], frozen=True):
    """Find lines that match a regular expression (RE2) in one ref, a thread, or the whole store.

    With several patterns, lines that match more of the patterns come first. In JSON, YAML, XML and
    tables, the smallest record that contains a match is shown, unless `context` is passed.
    `context`: the number of lines before and after each match. `is_fixed`: the pattern is plain
    text. `after_line`: only lines after this line number, for a single ref. `is_count`: only count
    the matches.
    """

    traits = _scans(answered_in="inspect", http="GET /v1/grep", also="GET /v1/artifacts/{ref}/grep")

    pattern: GrepPattern | GrepPatterns
    ref: Ref | None = None
    thread: Ref | None = None
    context: Annotated[int, Meta(ge=0, le=GREP_CONTEXT_LINES_MAX)] = 0
    ignore_case: bool = False
    is_fixed: bool = False
    is_count: bool = False
    after_line: Index = 0
    matches_max: Annotated[int, Meta(ge=1, le=GREP_MATCHES_MAX)] = GREP_MATCHES_DEFAULT
    tokens_max: PieceTokens = PIECE_TOKENS_DEFAULT

    def __post_init__(self) -> None:
        patterns = (self.pattern,) if isinstance(self.pattern, str) else self.pattern
        if not patterns or "" in patterns:
            raise Invalid("pattern: must not be empty", fields_hint(Grep))
        if len(patterns) == 1:
            force_setattr(self, "pattern", patterns[0])


class Outline(Verb[Outlined], frozen=True):
    """Return the structure of a body according to its type, most useful items first, within a
    number of tokens.
    """

    traits = _looks(answered_in="inspect", http="GET /v1/artifacts/{ref}/outline", fails=(423,))

    ref: Ref
    tokens_max: OutlineTokens = OUTLINE_TOKENS_DEFAULT


class Digest(Verb[Digested], frozen=True):
    """Return head, tail, error lines and outline of a body, within a number of tokens."""

    traits = _looks(answered_in="inspect", http="GET /v1/artifacts/{ref}/digest", fails=(423,))

    ref: Ref
    tokens_max: OutlineTokens = DIGEST_TOKENS_DEFAULT


class DiffRefs(Verb[Differing], frozen=True):
    """Compare two bodies and return a unified diff; for JSON, also list the changed locations."""

    traits = _scans(answered_in="inspect", http="GET /v1/diff")

    old: Ref
    new: Ref
    context: Annotated[int, Meta(ge=0, le=DIFF_CONTEXT_LINES_MAX)] = 3
    tokens_max: PieceTokens = PIECE_TOKENS_DEFAULT


class Search(Verb[Hits], frozen=True):
    """Find passages that match a query in plain words, best first, in one ref, a thread, or the
    whole store.
    """

    traits = _looks(answered_in="search", http="GET /v1/search", fails=(404, 410, 413))

    query: Annotated[str, Meta(min_length=1, max_length=QUERY_CHARS_MAX)]
    thread: Ref | None = None
    ref: Ref | None = None
    limit: Annotated[int, Meta(ge=1, le=SEARCH_RESULTS_MAX)] = 10
    tokens_max: PieceTokens = PIECE_TOKENS_DEFAULT


class RebuildSearch(Verb[IndexState], frozen=True):
    """Delete the search index and rebuild it from the stored artifacts."""

    traits = Traits(needs="admin", answered_in="search", http="POST /v1/search/rebuild", slow=True)


class ReadSearchIndex(Verb[IndexState | None], frozen=True):
    """Return the progress of the search index, or None if there is no index yet."""

    traits = Traits(needs="owner", answered_in="search")
