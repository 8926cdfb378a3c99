"""Looking: what a body comes to, outlined, digested and counted, as a reader is told it.

The bytes may come from a store, or be opened by a client that has the key of a sealed body. What
may take long for foreign bytes is `see`, which core runs within bounds (core/inspect/bounded.py).
"""

from __future__ import annotations

import shlex
from typing import Any

from msgspec import Struct

from contextrelay.limits import OUTLINE_BYTES_MAX
from contextrelay.logic.content.digest import Digest, digest
from contextrelay.logic.content.source import Source
from contextrelay.logic.outline import draw_plainly, outline
from contextrelay.logic.tokens import TOKENIZER_DEFAULT, measure
from contextrelay.model.artifact import Artifact, ArtifactType
from contextrelay.model.inspect import Digested, Looked, Outlined, Shape
from contextrelay.model.tokens import Spent, TokenCount


class Look(Struct, frozen=True, kw_only=True):
    """What to find out of a body, and what it is said to be."""

    type: ArtifactType
    media_type: str
    name: str = ""
    size_bytes: int
    """All of it; what is looked at may be its first part."""
    is_known: bool = False
    """Whether what is worth keeping is known already."""
    outline_tokens: int | None = None
    """An outline within so many, beside the one that is kept."""
    digest_tokens: int | None = None


class Seen(Struct, frozen=True, kw_only=True):
    """What was found out of a body: what was asked for."""

    looked: Looked | None = None
    shape: Shape | None = None
    digest: Digest | None = None
    note: str = ""
    """Why it was not looked into as it should be; "" where it was."""


def see(asked: Look, body: bytes) -> Seen:
    """Look into the first OUTLINE_BYTES_MAX of a body."""
    return _see(asked, _source(asked, body[:OUTLINE_BYTES_MAX]), "")


def see_plainly(asked: Look, head: bytes, note: str) -> Seen:
    """Look at the lines of a head of a body, because of what the note says."""
    source = _source(asked, head)
    source.drawn[asked.type] = draw_plainly(source, asked.type, note)
    return _see(asked, source, note)


def _source(asked: Look, body: bytes) -> Source:
    return Source.of(body, asked.media_type, asked.name, asked.size_bytes)


def _see(asked: Look, source: Source, note: str) -> Seen:
    kind = asked.type
    looked = shape = made = None
    if not asked.is_known:
        looked = Looked(shape=outline(source, kind), whole=count(source), note=note)
    if asked.outline_tokens is not None:
        shape = outline(source, kind, asked.outline_tokens)
    if asked.digest_tokens is not None:
        made = digest(source, kind, asked.digest_tokens)
    return Seen(looked=looked, shape=shape, digest=made, note=note)


def count(source: Source) -> TokenCount:
    """How many tokens a body takes: measured as far as it is here, the rest by the same rate."""
    if not source.is_text:
        # Bytes would travel as base64, which takes about as many tokens as half its characters.
        return TokenCount(source.size_bytes * 2 // 3, "estimated", TOKENIZER_DEFAULT)
    counted = measure(source.text)
    if not source.is_partial:
        return counted
    tokens = counted.tokens * source.size_bytes // max(1, len(source.body))
    return TokenCount(tokens, "estimated", counted.tokenizer)


def outlined(artifact: Artifact, looked: Looked, shape: Shape, note: str = "") -> Outlined:
    """The outline of an artifact, as one of its shapes tells it."""
    step, args = _next(artifact.ref, shape)
    return Outlined(
        ref=artifact.ref,
        kind=shape.kind,
        text=shape.text,
        omitted=shape.omitted,
        left_out=f"{shape.omitted} things that had no room" if shape.omitted else "",
        next=step,
        next_args=args,
        notes=_notes(artifact, note),
        patterns=shape.patterns,
        spent=_spent(shape.tokens, looked),
    )


def digested(artifact: Artifact, looked: Looked, made: Digest, note: str = "") -> Digested:
    """The digest of an artifact."""
    step, args = _next(artifact.ref, looked.shape)
    return Digested(
        ref=artifact.ref,
        kind=made.kind,
        text=made.text,
        omitted_lines=made.omitted_lines,
        left_out=f"{made.omitted_lines} lines" if made.omitted_lines else "",
        next=step,
        next_args=args,
        notes=_notes(artifact, note),
        patterns=made.patterns,
        spent=_spent(made.tokens, looked),
    )


def _next(ref: str, shape: Shape) -> tuple[str, dict[str, Any]]:
    if not shape.way:
        return "", {}
    option = f"--{shape.way.replace('_', '-')}"
    return f"relay get {ref[:8]} {option} {shlex.quote(shape.value)}", {shape.way: shape.value}


def _notes(artifact: Artifact, note: str) -> tuple[str, ...]:
    unread = artifact.size_bytes - OUTLINE_BYTES_MAX
    told = f"the last {unread} bytes were not looked at" if unread > 0 else ""
    return tuple(each for each in (told, note) if each)


def _spent(tokens: int, looked: Looked) -> Spent:
    whole = looked.whole
    return Spent(
        tokens=tokens,
        whole_tokens=whole.tokens,
        basis=whole.basis,
        tokenizer=whole.tokenizer,
    )
