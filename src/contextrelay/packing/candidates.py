"""Candidates: the contents of a thread that may go into a window: its state entries and its blocks.

Rule: every entry of a state is a block, whose id, such as `facts/f12`, leads back to the entry.
Hard constraints and the summary are always included.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from msgspec import Struct, ValidationError, convert

from contextrelay.model.artifact import Artifact, to_ms
from contextrelay.model.package import Block, BlockType
from contextrelay.state.schema import AHEAD

BLOCK_METADATA = "block"  # The metadata key that marks an artifact as a block of its thread.


class BlockFields(Struct, frozen=True):
    """The block fields in an artifact's metadata."""

    id: str = ""
    type: BlockType = "MEMORY"
    relevance_score: float = 1.0
    group: str | None = None
    timestamp: int = 0
    references: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}


def block_fields(artifact: Artifact) -> BlockFields | None:
    """Return the block fields of an artifact, or None if it was not added as a block."""
    given = artifact.metadata.get(BLOCK_METADATA)
    if given is None:
        return None
    try:
        return convert(given, BlockFields)
    except ValidationError:
        return None  # Someone else uses this metadata key for another purpose.


def state_blocks(state: dict[str, Any]) -> Iterator[Block]:
    """Yield the entries of a state as blocks; those that change least often come first."""
    if summary := state.get("session_summary"):
        yield Block("summary", f"Summary: {summary}", "SYSTEM")
    for each in _entries(state, "constraints"):
        kind: BlockType = "SYSTEM" if each.get("severity") == "hard" else "MEMORY"
        text = f"Constraint ({each.get('severity', 'soft')}): {each.get('description', '')}"
        yield Block(_id("constraints", each), text, kind)
    for each in _entries(state, "decisions"):
        text = f"Decision: {each.get('description', '')}"
        yield Block(_id("decisions", each), text, timestamp=_at(each))
    for each in _entries(state, "facts"):
        key = each.get("key")
        text = f"Fact: {key}: {each.get('value')}" if key else f"Fact: {each.get('value')}"
        yield Block(_id("facts", each), text, timestamp=_at(each))
    for each in _entries(state, "open_questions"):
        if each.get("status") != "resolved":
            text = f"Open question: {each.get('question', '')}"
            yield Block(_id("open_questions", each), text)
    for each in _entries(state, "plan"):
        if each.get("status") in AHEAD:
            label = "Step in progress" if each["status"] == "in_progress" else "Next step"
            yield Block(_id("plan", each), f"{label}: {each.get('step', '')}")
    for index, each in enumerate(_entries(state, "last_actions")):
        text = f"Done: {each.get('description', '')}"
        yield Block(f"last_actions/{index}", text, "AGENT", group="actions", timestamp=_at(each))


def artifact_block(
    artifact: Artifact, fields: BlockFields | None, content: str, is_whole: bool
) -> Block:
    """Return an artifact of a thread as a block, with its full content or a replacement text."""
    if fields is None:
        return Block(
            f"artifacts/{artifact.ref}",
            content,
            "KNOWLEDGE",
            metadata={"ref": artifact.ref},
            timestamp=to_ms(artifact.created_at),
            references=(artifact.ref,),
        )
    return Block(
        fields.id or f"artifacts/{artifact.ref}",
        content,
        fields.type,
        fields.relevance_score,
        {**fields.metadata, "ref": artifact.ref},
        fields.timestamp or to_ms(artifact.created_at),
        fields.group,
        fields.references if is_whole else (*fields.references, artifact.ref),
    )


def pruned_refs(state: dict[str, Any]) -> set[str]:
    """Return the refs of blocks that were pruned from a thread's context."""
    try:
        return {each.ref for each in convert(state.get("pruned") or [], list[_Pruned])}
    except ValidationError:
        return set()  # Someone else uses this field for another purpose.


class _Pruned(Struct, frozen=True):
    ref: str


def _entries(state: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return state.get(name) or []


def _id(name: str, entry: dict[str, Any]) -> str:
    return f"{name}/{entry.get('id', '')}"


def _at(entry: dict[str, Any]) -> int:
    at = entry.get("at")
    try:
        return to_ms(datetime.fromisoformat(at)) if isinstance(at, str) else 0
    except (ValueError, OverflowError):
        return 0
