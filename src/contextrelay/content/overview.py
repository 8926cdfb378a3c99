"""Overviews: the outline, the digest and the token count of a body, as answers have them.

The bytes may come from a store, or be opened by a client that has the key of a sealed body. What
may take long for foreign bytes is `see`, which core runs within bounds (bounded/bodies.py).
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
from contextrelay.model.inspect import DRAWN_BY, CachedOutline, Digested, Outlined, Shape
from contextrelay.model.tokens import Spent, TokenCount

# No text has so many characters a token that it would be worth counting.
_CHARS_A_TOKEN = 12


class OutlineRequest(Struct, frozen=True, kw_only=True):
    """What to find out of a body, and what it is said to be."""

    type: ArtifactType
    media_type: str
    name: str = ""
    size_bytes: int
    """All of it; what is looked at may be its first part."""
    is_known: bool = False
    """Whether what is worth keeping is known already."""
    outline_tokens: int | None = None
    """Also an outline within so many; the one that is kept has the default."""
    digest_tokens: int | None = None


class BodyOverview(Struct, frozen=True, kw_only=True):
    """What was found out of a body: what was asked for."""

    looked: CachedOutline | None = None
    shape: Shape | None = None
    digest: BodyDigest | None = None
    note: str = ""
    """Why it was not looked into as it should be; "" where it was."""


def see(asked: OutlineRequest, body: bytes) -> BodyOverview:
    """Look into the first OUTLINE_BYTES_MAX of a body."""
    body = body[:OUTLINE_BYTES_MAX]
    return _see(asked, Source.of(body, asked.media_type, asked.name, asked.size_bytes), "")


def see_lines(asked: OutlineRequest, head: bytes, note: str) -> BodyOverview:
    """Look at the lines of a head of a body, because of what the note says."""
    source = Source.of(head, asked.media_type, asked.name, asked.size_bytes)
    source.drawn[asked.type] = draw_lines(source, asked.type, note)
    return _see(asked, source, note)


def _see(asked: OutlineRequest, source: Source, note: str) -> BodyOverview:
    kind = asked.type
    looked = shape = made = None
    if not asked.is_known:
        looked = CachedOutline(
            shape=shape_of(source, kind), whole=count(source), note=note, drawn_by=DRAWN_BY
        )
    if asked.outline_tokens is not None:
        shape = shape_of(source, kind, asked.outline_tokens)
    if asked.digest_tokens is not None:
        made = digest(source, kind, asked.digest_tokens)
    return BodyOverview(looked=looked, shape=shape, digest=made, note=note)


def shape_of(source: Source, kind: ArtifactType, tokens_max: int = OUTLINE_TOKENS_DEFAULT) -> Shape:
    """The outline of a body; the body itself where that takes no more tokens."""
    shape = outline(source, kind, tokens_max)
    if not source.is_text or source.is_partial or len(source.text) > _CHARS_A_TOKEN * shape.tokens:
        return shape
    whole = defuse(source.text)
    tokens = count_tokens(whole.text)
    if tokens > shape.tokens:
        return shape
    return replace(shape, text=whole.text, tokens=tokens, omitted=0, patterns=whole.patterns)


def count(source: Source) -> TokenCount:
    """How many tokens a body takes: measured as far as it is here, the rest by the same rate.

    What is no text takes none: nobody reads it into a window.
    """
    if not source.is_text:
        return TokenCount(0, "measured", TOKENIZER_DEFAULT)
    counted = measure(source.text)
    if not source.is_partial:
        return counted
    tokens = counted.tokens * source.size_bytes // max(1, len(source.body))
    return TokenCount(tokens, "estimated", counted.tokenizer)


def outlined(artifact: Artifact, looked: CachedOutline, shape: Shape, note: str = "") -> Outlined:
    """The outline of an artifact, by one of its shapes."""
    return Outlined(
        kind=shape.kind,
        text=shape.text,
        omitted=shape.omitted,
        left_out=f"{shape.omitted} things that had no room" if shape.omitted else "",
        patterns=shape.patterns,
        **_common(artifact, looked, shape, shape.tokens, note),
    )


def digested(
    artifact: Artifact, looked: CachedOutline, made: BodyDigest, note: str = ""
) -> Digested:
    """The digest of an artifact."""
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
    """The fields that an outline and a digest share."""
    option = f"--{shape.way.replace('_', '-')} {shlex.quote(shape.value)}"
    unread_bytes = artifact.size_bytes - OUTLINE_BYTES_MAX
    unread = f"the last {unread_bytes} bytes were not looked at" if unread_bytes > 0 else ""
    return {
        "ref": artifact.ref,
        "next": f"relay get {artifact.ref[:8]} {option}" if shape.way else "",
        "next_args": {shape.way: shape.value} if shape.way else {},
        "notes": tuple(filter(None, (unread, note))),
        "spent": Spent.of(tokens, looked.whole),
    }
