"""Digests: head, tail, error lines and outline of a body, if that shows more than its head alone.

Rule: a digest is within the budget as counted by the real tokenizer, after defusing. Every line
shown has its number, and omitted lines are counted.
"""

from __future__ import annotations

from msgspec import Struct

from contextrelay.content.error_lines import error_lines
from contextrelay.content.outline import draft_of, outline
from contextrelay.content.shown_lines import choose_lines, ends_first, with_marks
from contextrelay.content.source import Source
from contextrelay.content.tokens import count_tokens, cut_to_tokens
from contextrelay.content.untrusted.defuse import defuse
from contextrelay.limits import DIGEST_LINES_MAX
from contextrelay.model.artifact import ArtifactType

_SMALL_TOKENS = 200
_MARK_TOKENS = 14
_OUTLINE_TOKENS_MIN = 12
_WITH_ERRORS = ("log", "tool_output", "text", "json", "csv")


# Share of the budget for the outline. It is largest for types whose structure says most.
_OUTLINE_SHARES: dict[ArtifactType, float] = {
    "json": 0.8,
    "csv": 0.8,
    "code": 0.8,
    "diff": 0.8,
    "html": 0.7,
    "log": 0.7,
}
# Types for which the outline replaces the text.
_OUTLINE_KIND_SHARES = {"settings": 0.8, "yaml": 0.8, "xml": 0.8, "log": 0.7}
# Types whose outline lists the failures, so the outline may use the whole budget.
_REPORTS = ("tests", "trace")


class BodyDigest(Struct, frozen=True):
    """A digest of a body, independent of the refs to it."""

    kind: str
    text: str
    tokens: int
    omitted_lines: int
    patterns: tuple[str, ...]


def digest(source: Source, kind: ArtifactType, tokens_max: int) -> BodyDigest:
    """Digest a body: use a part of the budget for the outline, and the rest for lines of the
    body.
    """
    if not source.is_text:
        shape = outline(source, kind, tokens_max)
        return BodyDigest(shape.kind, shape.text, shape.tokens, 0, shape.patterns)
    if not source.is_partial and len(source.text) <= 8 * tokens_max:
        whole = defuse(source.text)
        tokens = count_tokens(whole.text)
        if tokens <= tokens_max:
            return BodyDigest(kind, whole.text, tokens, 0, whole.patterns)
    outline_kind = draft_of(source, kind).kind
    share = _OUTLINE_SHARES.get(kind) or _OUTLINE_KIND_SHARES.get(outline_kind, 0.4)
    outline_tokens = tokens_max if outline_kind in _REPORTS else round(tokens_max * share)
    # Words like "error" are common in code and documents.
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
    shape = outline(source, kind, outline_tokens)
    budget_tokens = tokens_max - shape.tokens
    costs: dict[int, int] = {}
    lines, candidates = source.short_lines, _alternating_ends(len(source.short_lines))
    while True:
        shown = choose_lines(lines, errors, candidates, budget_tokens, costs, count_tokens)
        defused = defuse("\n".join((shape.text, "--- lines", *with_marks(source.lines, shown))))
        tokens = count_tokens(defused.text)
        if tokens <= tokens_max or budget_tokens <= 8:
            break
        budget_tokens -= max(tokens - tokens_max, budget_tokens // 8)
    if not shown:
        # No line is short enough, as in a body of one line: the outline gets the rest.
        shape = outline(source, kind, tokens_max)
        return BodyDigest(shape.kind, shape.text, shape.tokens, source.line_count, shape.patterns)
    text = cut_to_tokens(defused.text, tokens_max)
    omitted = source.line_count - len(shown)
    return BodyDigest(shape.kind, text, count_tokens(text), omitted, defused.patterns)


def _alternating_ends(count: int) -> list[int]:
    """Return the indexes of candidate lines, taken alternately from both ends."""
    if count <= DIGEST_LINES_MAX:
        return ends_first(range(count))
    half = DIGEST_LINES_MAX // 2
    return ends_first([*range(half), *range(count - half, count)])
