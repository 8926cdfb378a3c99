"""Overviews: outline, digest and token count of a body, for replies.

The bytes come from a store, or from a client that opened a sealed body. `make_overview` may be slow
on untrusted bytes; core runs it within limits (bounded/bodies.py).

Rule: a digest is within the budget as counted by the real tokenizer, after defusing. Every line
shown has its number, and omitted lines are counted.
"""

from __future__ import annotations

import shlex
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from contextrelay.content.outline import draft_by_lines, draft_of, outline
from contextrelay.content.shown_lines import choose_lines, ends_first, error_lines, with_marks
from contextrelay.content.source import Source
from contextrelay.content.tokens import TOKENIZER_DEFAULT, count_tokens, cut_to_tokens, measure
from contextrelay.content.untrusted.defuse import defuse
from contextrelay.limits import DIGEST_LINES_MAX, OUTLINE_BYTES_MAX, OUTLINE_TOKENS_DEFAULT
from contextrelay.model.artifact import Artifact, ArtifactType
from contextrelay.model.inspect import (
    OUTLINE_VERSION,
    BodyOutline,
    CachedOutline,
    Digested,
    Outlined,
)
from contextrelay.model.tokens import Spent, TokenCount

# No text has so many characters per token: counting tokens is not worthwhile.
_CHARS_A_TOKEN = 12
_SMALL_TOKENS = 200
_MARK_TOKENS = 14
_OUTLINE_TOKENS_MIN = 12
# Types whose lines are searched for errors: words like "error" are common in code and documents.
_WITH_ERRORS = ("log", "tool_output", "text", "json", "csv")
# Share of the budget for the outline. It is largest for types whose structure says most.
_OUTLINE_SHARES = {"json": 0.8, "csv": 0.8, "code": 0.8, "diff": 0.8, "html": 0.7, "log": 0.7}
# Kinds of outlines that replace the text.
_OUTLINE_KIND_SHARES = {"settings": 0.8, "yaml": 0.8, "xml": 0.8, "log": 0.7}
# Kinds of outlines that list the failures, so that the outline may use the whole budget.
_REPORTS = ("tests", "trace")


class OutlineRequest(Struct, frozen=True, kw_only=True):
    """What to compute for a body, and its declared type."""

    type: ArtifactType
    media_type: str
    name: str = ""
    size_bytes: int  # The size of the whole body; only its head may be read.
    is_known: bool = False  # Whether the cacheable results are already known.
    outline_tokens: int | None = None
    """Also compute an outline with this budget; the cached one has the default budget."""
    digest_tokens: int | None = None


class BodyDigest(Struct, frozen=True):
    """A digest of a body, independent of the refs to it."""

    kind: str
    text: str
    tokens: int
    omitted_lines: int
    patterns: tuple[str, ...]


class BodyOverview(Struct, frozen=True, kw_only=True):
    """The requested facts about a body."""

    cached: CachedOutline | None = None
    outline: BodyOutline | None = None
    digest: BodyDigest | None = None
    note: str = ""  # Why it was not parsed as expected; "" if it was.


def make_overview(request: OutlineRequest, body: bytes) -> BodyOverview:
    """Compute the overview of the first OUTLINE_BYTES_MAX of a body."""
    body = body[:OUTLINE_BYTES_MAX]
    source = Source.of(body, request.media_type, request.name, request.size_bytes)
    return _overview(request, source, "")


def make_overview_by_lines(request: OutlineRequest, head: bytes, note: str) -> BodyOverview:
    """Compute an overview by lines only, with a note that gives the reason."""
    source = Source.of(head, request.media_type, request.name, request.size_bytes)
    source.drafts[request.type] = draft_by_lines(source, request.type, note)
    return _overview(request, source, note)


def _overview(request: OutlineRequest, source: Source, note: str) -> BodyOverview:
    kind = request.type
    cached = shown = made = None
    if not request.is_known:
        cached = CachedOutline(
            outline=_outline_or_body(source, kind, OUTLINE_TOKENS_DEFAULT),
            whole=count(source),
            note=note,
            version=OUTLINE_VERSION,
        )
    if request.outline_tokens is not None:
        shown = _outline_or_body(source, kind, request.outline_tokens)
    if request.digest_tokens is not None:
        made = digest(source, kind, request.digest_tokens)
    return BodyOverview(cached=cached, outline=shown, digest=made, note=note)


def _outline_or_body(source: Source, kind: ArtifactType, tokens_max: int) -> BodyOutline:
    """Return the outline of a body, or the body itself if that takes no more tokens."""
    shown = outline(source, kind, tokens_max)
    if not source.is_text or source.is_partial or len(source.text) > _CHARS_A_TOKEN * shown.tokens:
        return shown
    whole = defuse(source.text)
    tokens = count_tokens(whole.text)
    if tokens > shown.tokens:
        return shown
    return replace(shown, text=whole.text, tokens=tokens, omitted=0, patterns=whole.patterns)


def count(source: Source) -> TokenCount:
    """Count the tokens of a body: measured for the part read, extrapolated for the rest.

    A binary body counts as 0: it is not read into a window.
    """
    if not source.is_text:
        return TokenCount(0, "measured", TOKENIZER_DEFAULT)
    counted = measure(source.text)
    if not source.is_partial:
        return counted
    tokens = counted.tokens * source.size_bytes // max(1, len(source.body))
    return TokenCount(tokens, "estimated", counted.tokenizer)


def digest(source: Source, kind: ArtifactType, tokens_max: int) -> BodyDigest:
    """Digest a body: head, tail and error lines, after an outline if that shows more."""
    if not source.is_text:
        shown = outline(source, kind, tokens_max)
        return BodyDigest(shown.kind, shown.text, shown.tokens, 0, shown.patterns)
    if not source.is_partial and len(source.text) <= 8 * tokens_max:
        whole = defuse(source.text)
        tokens = count_tokens(whole.text)
        if tokens <= tokens_max:
            return BodyDigest(kind, whole.text, tokens, 0, whole.patterns)
    outline_kind = draft_of(source, kind).kind
    share = _OUTLINE_SHARES.get(kind) or _OUTLINE_KIND_SHARES.get(outline_kind, 0.4)
    outline_tokens = tokens_max if outline_kind in _REPORTS else round(tokens_max * share)
    is_searched = kind in _WITH_ERRORS and outline_kind not in _REPORTS
    errors = error_lines(source.text, DIGEST_LINES_MAX) if is_searched else []
    errors = [index for index in errors if index < len(source.lines)]
    if errors and tokens_max < _SMALL_TOKENS:
        # An error is always shown, before the outline.
        error = "\n".join(with_marks(source.short_lines[: errors[0] + 1], errors[:1]))
        outline_tokens = min(outline_tokens, tokens_max - count_tokens(error) - _MARK_TOKENS)
        if outline_tokens < _OUTLINE_TOKENS_MIN:
            whole = defuse(error.rpartition("\n")[2])
            text = cut_to_tokens(whole.text, tokens_max)
            omitted = source.line_count - 1
            return BodyDigest(kind, text, count_tokens(text), omitted, whole.patterns)
    shown = outline(source, kind, outline_tokens)
    budget_tokens = tokens_max - shown.tokens
    costs: dict[int, int] = {}
    lines = source.short_lines
    half = DIGEST_LINES_MAX // 2
    ends: list[int] | range = range(len(lines))
    if len(lines) > DIGEST_LINES_MAX:
        ends = [*range(half), *range(len(lines) - half, len(lines))]
    candidates = ends_first(ends)
    while True:
        chosen = choose_lines(lines, errors, candidates, budget_tokens, costs, count_tokens)
        defused = defuse("\n".join((shown.text, "--- lines", *with_marks(source.lines, chosen))))
        tokens = count_tokens(defused.text)
        if tokens <= tokens_max or budget_tokens <= 8:
            break
        budget_tokens -= max(tokens - tokens_max, budget_tokens // 8)
    if not chosen:
        # No line is short enough, as in a body of one line: the outline gets the rest.
        shown = outline(source, kind, tokens_max)
        return BodyDigest(shown.kind, shown.text, shown.tokens, source.line_count, shown.patterns)
    text = cut_to_tokens(defused.text, tokens_max)
    omitted = source.line_count - len(chosen)
    return BodyDigest(shown.kind, text, count_tokens(text), omitted, defused.patterns)


def outlined(
    artifact: Artifact, cached: CachedOutline, shown: BodyOutline, note: str = ""
) -> Outlined:
    """Build the outline reply of an artifact from an outline."""
    return Outlined(
        kind=shown.kind,
        text=shown.text,
        omitted=shown.omitted,
        left_out=f"{shown.omitted} items that did not fit" if shown.omitted else "",
        patterns=shown.patterns,
        **_shared_fields(artifact, cached, shown, shown.tokens, note),
    )


def digested(
    artifact: Artifact, cached: CachedOutline, made: BodyDigest, note: str = ""
) -> Digested:
    """Build the digest reply of an artifact."""
    return Digested(
        kind=made.kind,
        text=made.text,
        omitted_lines=made.omitted_lines,
        left_out=f"{made.omitted_lines} lines" if made.omitted_lines else "",
        patterns=made.patterns,
        **_shared_fields(artifact, cached, cached.outline, made.tokens, note),
    )


def _shared_fields(
    artifact: Artifact, cached: CachedOutline, shown: BodyOutline, tokens: int, note: str
) -> dict[str, Any]:
    option = f"--{shown.way.replace('_', '-')} {shlex.quote(shown.value)}"
    unread_bytes = artifact.size_bytes - OUTLINE_BYTES_MAX
    unread = f"the last {unread_bytes} bytes were not read" if unread_bytes > 0 else ""
    return {
        "ref": artifact.ref,
        "next": f"relay get {artifact.ref[:8]} {option}" if shown.way else "",
        "next_args": {shown.way: shown.value} if shown.way else {},
        "notes": tuple(filter(None, (unread, note))),
        "spent": Spent.of(tokens, cached.whole),
    }
