"""Smaller sessions: duplicates, long metadata and long blocks are cut; a relay keeps the whole."""

from __future__ import annotations

from contextrelay.content.tokens import count_tokens
from contextrelay.context.blocks import ContextPackage, ContextType
from contextrelay.context.sessions import ContextManager

METADATA_CHARS_MAX = 100
BLOCK_TOKENS_MAX = 1_000
KEPT_WORDS = 950
CUT_MARK = " [... content truncated ...]"
_MIB = 1024 * 1024


class ContextMemoryOptimizer:
    """Makes sessions smaller."""

    def __init__(self, context_manager: ContextManager) -> None:
        self.context_manager = context_manager

    def optimize_memory_usage(self, session_id: str) -> float:
        """Make a session smaller; how many MB that saved.

        Raises:
            ValueError: there is no such session.
        """
        session = self.context_manager.session(session_id)
        before = self._estimate_memory_usage(session)
        self._deduplicate_content(session)
        self._compress_metadata(session)
        self._truncate_long_blocks(session)
        return (before - self._estimate_memory_usage(session)) / _MIB

    def _estimate_memory_usage(self, session: ContextPackage) -> int:
        """About how many bytes a session takes."""
        usage = len(session.session_id) + len(session.agent_id) + 16
        for block in session.blocks:
            metadata = sum(len(key) + len(str(value)) for key, value in block.metadata.items())
            usage += 2 * len(block.content) + metadata + 64
        return usage

    def _deduplicate_content(self, session: ContextPackage) -> None:
        """Of blocks with the same content the first stays; SYSTEM blocks all stay."""
        seen: dict[str, str] = {}
        out: dict[int, str] = {}
        for place, block in enumerate(session.blocks):
            if block.type is ContextType.SYSTEM:
                continue
            if block.content in seen:
                out[place] = f"the same as {seen[block.content]}"
            else:
                seen[block.content] = block.id
        self.context_manager.drop(session, out)

    def _compress_metadata(self, session: ContextPackage) -> None:
        """Empty values go, long ones are cut."""
        for block in session.blocks:
            kept = {key: value for key, value in block.metadata.items() if value}
            for key, value in kept.items():
                if isinstance(value, str) and len(value) > METADATA_CHARS_MAX:
                    kept[key] = value[: METADATA_CHARS_MAX - 3] + "..."
            block.metadata = kept

    def _truncate_long_blocks(self, session: ContextPackage) -> None:
        """Cut blocks of over 1,000 tokens; with a relay, `metadata["whole"]` is the ref of all."""
        is_changed = False
        for block in session.blocks:
            if block.type is ContextType.SYSTEM or block.token_count <= BLOCK_TOKENS_MAX:
                continue
            cut = " ".join(block.content.split()[:KEPT_WORDS]) + CUT_MARK
            if len(cut) >= len(block.content):
                continue
            if self.context_manager.relay is not None:
                ref = self.context_manager.relay.push(block.content).ref
                block.metadata = {**block.metadata, "whole": ref}
            block.content = cut
            block.token_count = count_tokens(cut)
            is_changed = True
        if is_changed:
            session.version += 1
        session.calculate_metrics()
