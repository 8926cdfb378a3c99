"""Looking: what a body comes to, outlined, digested and counted, as a reader is told it.

The bytes may come from a store, or be opened by a client that has the key of a sealed body.
"""

from __future__ import annotations

import shlex
from typing import Any

from contextrelay.limits import OUTLINE_BYTES_MAX, OUTLINE_TOKENS_DEFAULT
from contextrelay.logic.content.digest import digest
from contextrelay.logic.content.source import Source
from contextrelay.logic.outline import outline
from contextrelay.logic.tokens import TOKENIZER_DEFAULT, measure
from contextrelay.model.artifact import Artifact
from contextrelay.model.outline import Digested, Looked, Outlined, Shape
from contextrelay.model.spent import Spent
from contextrelay.model.tokens import TokenCount


def source_of(artifact: Artifact, body: bytes, size_bytes: int | None = None) -> Source:
    """The first OUTLINE_BYTES_MAX of a body of a size, to be looked into."""
    size_bytes = artifact.size_bytes if size_bytes is None else size_bytes
    return Source.of(body[:OUTLINE_BYTES_MAX], artifact.media_type, artifact.name or "", size_bytes)


def look(artifact: Artifact, source: Source) -> Looked:
    """What is worth keeping of a body: its outline, and how long it is."""
    return Looked(shape=outline(source, artifact.type), whole=count(source))


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


def outlined(
    artifact: Artifact, looked: Looked, source: Source | None, tokens_max: int
) -> Outlined:
    """The outline of an artifact; `source` is needed unless the kept one will do."""
    shape = looked.shape
    if tokens_max != OUTLINE_TOKENS_DEFAULT and source is not None:
        shape = outline(source, artifact.type, tokens_max)
    step, args = _next(artifact.ref, shape)
    return Outlined(
        ref=artifact.ref,
        kind=shape.kind,
        text=shape.text,
        omitted=shape.omitted,
        left_out=f"{shape.omitted} things that had no room" if shape.omitted else "",
        next=step,
        next_args=args,
        notes=_notes(artifact),
        patterns=shape.patterns,
        spent=_spent(shape.tokens, looked),
    )


def digested(artifact: Artifact, looked: Looked, source: Source, tokens_max: int) -> Digested:
    """The digest of an artifact."""
    made = digest(source, artifact.type, tokens_max)
    step, args = _next(artifact.ref, looked.shape)
    return Digested(
        ref=artifact.ref,
        kind=made.kind,
        text=made.text,
        omitted_lines=made.omitted_lines,
        left_out=f"{made.omitted_lines} lines" if made.omitted_lines else "",
        next=step,
        next_args=args,
        notes=_notes(artifact),
        patterns=made.patterns,
        spent=_spent(made.tokens, looked),
    )


def _next(ref: str, shape: Shape) -> tuple[str, dict[str, Any]]:
    if not shape.way:
        return "", {}
    option = f"--{shape.way.replace('_', '-')}"
    return f"relay get {ref[:8]} {option} {shlex.quote(shape.value)}", {shape.way: shape.value}


def _notes(artifact: Artifact) -> tuple[str, ...]:
    unread = artifact.size_bytes - OUTLINE_BYTES_MAX
    return (f"the last {unread} bytes were not looked at",) if unread > 0 else ()


def _spent(tokens: int, looked: Looked) -> Spent:
    whole = looked.whole
    return Spent(
        tokens=tokens,
        whole_tokens=whole.tokens,
        basis=whole.basis,
        tokenizer=whole.tokenizer,
    )
