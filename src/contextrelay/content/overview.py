"""Overviews: outline, digest and token count of a body, for replies.

The bytes come from a store, or from a client that opened a sealed body. `see` may be slow on
untrusted bytes; core runs it within limits (bounded/bodies.py).
"""

from __future__ import annotations

import shlex
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from contextrelay.content.digest import BodyDigest, digest
from contextrelay.content.outline import draw_lines, outline
from contextrelay.content.source import Source
from contextrelay.content.tokens import TOKENIZER_DEFAULT, count_tokens, measure
from contextrelay.content.untrusted.defuse import defuse
from contextrelay.limits import OUTLINE_BYTES_MAX, OUTLINE_TOKENS_DEFAULT
from contextrelay.model.artifact import Artifact, ArtifactType
from contextrelay.model.inspect import OUTLINE_VERSION, CachedOutline, Digested, Outlined, Shape
from contextrelay.model.tokens import Spent, TokenCount

# No text has so many characters per token: counting tokens is not worthwhile.
_CHARS_A_TOKEN = 12


class OutlineRequest(Struct, frozen=True, kw_only=True):
    """What to compute for a body, and its declared type."""

    type: ArtifactType
    media_type: str
    name: str = ""
    size_bytes: int
    """The size of the whole body; only its head may be read."""
    is_known: bool = False
    """Whether the cacheable results are already known."""
    outline_tokens: int | None = None
    """Also compute an outline with this budget; the cached one has the default budget."""
    digest_tokens: int | None = None


class BodyOverview(Struct, frozen=True, kw_only=True):
    """The requested facts about a body."""

    looked: CachedOutline | None = None
    shape: Shape | None = None
    digest: BodyDigest | None = None
    note: str = ""
    """Why it was not parsed as expected; "" if it was."""


def see(request: OutlineRequest, body: bytes) -> BodyOverview:
    """Compute the overview of the first OUTLINE_BYTES_MAX of a body."""
    body = body[:OUTLINE_BYTES_MAX]
    return _see(request, Source.of(body, request.media_type, request.name, request.size_bytes), "")


def see_lines(request: OutlineRequest, head: bytes, note: str) -> BodyOverview:
    """Compute an overview by lines only, with a note that gives the reason."""
    source = Source.of(head, request.media_type, request.name, request.size_bytes)
    source.drafts[request.type] = draw_lines(source, request.type, note)
    return _see(request, source, note)


def _see(request: OutlineRequest, source: Source, note: str) -> BodyOverview:
    kind = request.type
    looked = shape = made = None
    if not request.is_known:
        looked = CachedOutline(
            shape=shape_of(source, kind), whole=count(source), note=note, drawn_by=OUTLINE_VERSION
        )
    if request.outline_tokens is not None:
        shape = shape_of(source, kind, request.outline_tokens)
    if request.digest_tokens is not None:
        made = digest(source, kind, request.digest_tokens)
    return BodyOverview(looked=looked, shape=shape, digest=made, note=note)


def shape_of(source: Source, kind: ArtifactType, tokens_max: int = OUTLINE_TOKENS_DEFAULT) -> Shape:
    """Return the outline of a body, or the body itself if that takes no more tokens."""
    shape = outline(source, kind, tokens_max)
    if not source.is_text or source.is_partial or len(source.text) > _CHARS_A_TOKEN * shape.tokens:
        return shape
    whole = defuse(source.text)
    tokens = count_tokens(whole.text)
    if tokens > shape.tokens:
        return shape
    return replace(shape, text=whole.text, tokens=tokens, omitted=0, patterns=whole.patterns)


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


def outlined(artifact: Artifact, looked: CachedOutline, shape: Shape, note: str = "") -> Outlined:
    """Build the outline reply of an artifact from a shape."""
    return Outlined(
        kind=shape.kind,
        text=shape.text,
        omitted=shape.omitted,
        left_out=f"{shape.omitted} items that did not fit" if shape.omitted else "",
        patterns=shape.patterns,
        **_common(artifact, looked, shape, shape.tokens, note),
    )


def digested(
    artifact: Artifact, looked: CachedOutline, made: BodyDigest, note: str = ""
) -> Digested:
    """Build the digest reply of an artifact."""
    return Digested(
        kind=made.kind,
        text=made.text,
        omitted_lines=made.omitted_lines,
        left_out=f"{made.omitted_lines} lines" if made.omitted_lines else "",
        patterns=made.patterns,
        **_common(artifact, looked, looked.shape, made.tokens, note),
    )


def _common(
    artifact: Artifact, looked: CachedOutline, shape: Shape, tokens: int, note: str
) -> dict[str, Any]:
    """Return the fields that outline and digest replies share."""
    option = f"--{shape.way.replace('_', '-')} {shlex.quote(shape.value)}"
    unread_bytes = artifact.size_bytes - OUTLINE_BYTES_MAX
    unread = f"the last {unread_bytes} bytes were not read" if unread_bytes > 0 else ""
    return {
        "ref": artifact.ref,
        "next": f"relay get {artifact.ref[:8]} {option}" if shape.way else "",
        "next_args": {shape.way: shape.value} if shape.way else {},
        "notes": tuple(filter(None, (unread, note))),
        "spent": Spent.of(tokens, looked.whole),
    }
