"""Scoring: the relevance of blocks to a query, from an incremental index."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Collection, Sequence
from operator import is_

from contextrelay.content.tokens import count_tokens
from contextrelay.context.blocks import ContextBlock, ContextPackage, ContextType
from contextrelay.context.sessions import ContextManager, check_room
from contextrelay.model.package import Block, Budget
from contextrelay.packing.embeddings import Embed
from contextrelay.packing.pack import pack
from contextrelay.packing.relevance import Relevance

FALLBACK = 0.5


class ContextualRelevanceCalculator:
    """Scores from 0 to 1, with 1 for the best block; by words, and optionally an embedding."""

    def __init__(self, embed: Embed | None = None) -> None:
        self._index = Relevance(embed=embed)
        self._blocks: list[ContextBlock] = []
        self._contents: list[str] = []

    def calculate_relevance(
        self, query: str, context_blocks: list[ContextBlock]
    ) -> dict[str, float]:
        """Return the score of each block; 0.5 for all if the query has no words."""
        self._update_index(context_blocks)
        if not query.strip():
            return {block.id: FALLBACK for block in context_blocks}
        return self._index.shares(query)

    def _update_index(self, blocks: list[ContextBlock]) -> None:
        contents = [block.content for block in blocks]
        is_same = len(blocks) == len(self._blocks) and all(map(is_, blocks, self._blocks))
        if is_same and contents == self._contents:
            return
        pairs = zip(self._blocks, self._contents, strict=True)
        known = {block.id: content for block, content in pairs}
        for block_id in known.keys() - {block.id for block in blocks}:
            self._index.remove(block_id)
        for block in blocks:
            if known.get(block.id) != block.content:
                self._index.add(block.as_block())
        self._blocks, self._contents = list(blocks), contents

    def update_relevance_scores(
        self, query: str, context_manager: ContextManager, session_id: str
    ) -> None:
        """Set the score of every block of a session; 1 for SYSTEM blocks.

        Raises:
            ValueError: there is no such session.
        """
        session = context_manager.session(session_id)
        others = [block for block in session.blocks if block.type is not ContextType.SYSTEM]
        scores = self.calculate_relevance(query, others)
        for block in session.blocks:
            block.relevance_score = scores.get(block.id, 1.0)
        session.version += 1


METADATA_CHARS_MAX = 100
BLOCK_TOKENS_MAX = 1_000
KEPT_WORDS = 950
CUT_MARK = " [... content truncated ...]"
_MIB = 1024 * 1024


class ContextMemoryOptimizer:
    """Reduces the size of sessions."""

    def __init__(self, context_manager: ContextManager) -> None:
        self.context_manager = context_manager

    def optimize_memory_usage(self, session_id: str) -> float:
        """Reduce the size of a session; return how many MB that saved.

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
        """Return the approximate size of a session in bytes."""
        usage = len(session.session_id) + len(session.agent_id) + 16
        for block in session.blocks:
            metadata = sum(len(key) + len(str(value)) for key, value in block.metadata.items())
            usage += 2 * len(block.content) + metadata + 64
        return usage

    def _deduplicate_content(self, session: ContextPackage) -> None:
        """Drop blocks with the content of an earlier one, except SYSTEM blocks."""
        seen: dict[str, str] = {}
        out: dict[int, str] = {}
        for place, block in enumerate(session.blocks):
            if block.type is ContextType.SYSTEM:
                continue
            if block.content in seen:
                out[place] = f"duplicate of {seen[block.content]}"
            else:
                seen[block.content] = block.id
        self.context_manager.drop(session, out)

    def _compress_metadata(self, session: ContextPackage) -> None:
        for block in session.blocks:
            kept = {key: value for key, value in block.metadata.items() if value}
            for key, value in kept.items():
                if isinstance(value, str) and len(value) > METADATA_CHARS_MAX:
                    kept[key] = value[: METADATA_CHARS_MAX - 3] + "..."
            block.metadata = kept

    def _truncate_long_blocks(self, session: ContextPackage) -> None:
        """Truncate blocks over 1,000 tokens; with a relay, the full ref is `metadata["whole"]`."""
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


WINDOW_TOKENS = 4_096
TALK_SHARE = 0.7
DECAY_FLOOR = 0.1
RECENT_TURNS = 10
RECENT_FACTOR = 0.95
TALK = (ContextType.USER, ContextType.AGENT)
PRIORITY = {
    ContextType.SYSTEM: 0,
    ContextType.USER: 1,
    ContextType.AGENT: 1,
    ContextType.TOOL: 2,
    ContextType.MEMORY: 3,
    ContextType.KNOWLEDGE: 4,
}


class ContextWindowOptimizer:
    """Keeps SYSTEM blocks, the newest turns up to 70 %, other blocks, and older turns."""

    def __init__(self, context_manager: ContextManager) -> None:
        self.context_manager = context_manager

    async def optimize_session(self, session_id: str, max_tokens: int = WINDOW_TOKENS) -> None:
        """Reduce a session to a number of tokens.

        Raises:
            ValueError: there is no such session.
            BudgetTooSmall: SYSTEM blocks alone exceed it.
        """
        session = self.context_manager.session(session_id)
        blocks = session.blocks
        check_room(blocks, Budget(max_tokens).tokens_max)
        if session.metrics.total_tokens <= max_tokens:
            return
        shown = _shown_indexes(self.context_manager, session)
        talk = [place for place in shown if blocks[place].type in TALK]
        talk.sort(key=lambda place: (blocks[place].timestamp, place), reverse=True)
        used = sum(each.token_count for each in blocks if each.type is ContextType.SYSTEM)
        newest: set[int] = set()
        for place in talk:
            if used + blocks[place].token_count <= max_tokens * TALK_SHARE:
                newest.add(place)
                used += blocks[place].token_count
        # The remaining room is for other blocks first, and then for older turns.
        shown.sort(key=lambda place: (blocks[place].type in TALK, -blocks[place].relevance_score))
        _fit(self.context_manager, session, max_tokens, shown, newest)


def _shown_indexes(manager: ContextManager, session: ContextPackage) -> list[int]:
    """Return the indexes of the blocks shown to a model: SYSTEM and those above the threshold."""
    return [
        place
        for place, block in enumerate(session.blocks)
        if block.type is ContextType.SYSTEM or block.relevance_score >= manager.relevance_threshold
    ]


def _fit(
    manager: ContextManager,
    session: ContextPackage,
    tokens_max: int,
    ranked: Sequence[int],
    pins: Collection[int] = (),
) -> None:
    """Keep `pins` and the best of `ranked` (indexes) that fit; drop the rest by `pack`."""
    blocks = session.blocks
    counts = {blocks[place].content: blocks[place].token_count for place in ranked}
    worth = {place: float(len(ranked) - rank) for rank, place in enumerate(ranked)}
    some = ((place, blocks[place]) for place in sorted(ranked))
    package = pack(
        [Block(str(place), each.content, each.type.name, worth[place]) for place, each in some],
        budget_tokens=tokens_max,
        pins=[str(place) for place in pins],
        count=counts.__getitem__,
    )
    least = manager.relevance_threshold
    out = {
        place: f"relevance {block.relevance_score:.2f} is below the threshold of {least}"
        for place, block in enumerate(blocks)
        if place not in worth
    }
    window = f"in a window of {tokens_max} tokens"
    if pins:
        firsts = [block for block in package.blocks if package.why(block.id).rank == 0]
        taken = sum(package.why(block.id).tokens for block in firsts)
        window += f", {taken} of them for SYSTEM and the newest turns"
    for dropped in package.dropped:
        why = package.why(dropped.id)
        out[int(dropped.id)] = (
            f"no room for its {why.tokens} tokens at rank {why.rank} {window}"
            if why.of is None
            else f"duplicate of {blocks[int(why.of)].id}"
        )
    manager.drop(session, out)


class RealTimeContextOptimizer:
    """Reduces relevance with age, raises it for recent blocks, and enforces a budget, in a loop."""

    def __init__(
        self,
        context_manager: ContextManager,
        token_budget: int = WINDOW_TOKENS,
        optimization_interval: float = 0.1,
        relevance_decay_factor: float = 0.95,
    ) -> None:
        self.context_manager = context_manager
        self.token_budget = Budget(token_budget).tokens_max
        self.optimization_interval = optimization_interval
        self.relevance_decay_factor = relevance_decay_factor
        self.running = False
        self.last_error: Exception | None = None
        self.performance_metrics: deque[float] = deque(maxlen=1_000)
        self._given: dict[str, tuple[float, float]] = {}
        """Each block's original relevance, and the last computed one."""

    async def start_optimization_loop(self, session_id: str) -> None:
        """Optimize a session at every interval, until `stop_optimization_loop`."""
        self.running = True
        try:
            while self.running:
                start = time.perf_counter()
                await self.optimize_session(session_id)
                self.performance_metrics.append(time.perf_counter() - start)
                await asyncio.sleep(self.optimization_interval)
        except Exception as error:
            self.last_error = error
            raise
        finally:
            self.running = False

    def stop_optimization_loop(self) -> None:
        self.running = False

    async def optimize_session(self, session_id: str) -> None:
        """Optimize once; do nothing if there is no such session."""
        session = self.context_manager.sessions.get(session_id)
        if session is None:
            return
        self._apply_relevance_decay(session)
        self._update_recency_relevance(session)
        if session.metrics.total_tokens > self.token_budget:
            self._enforce_token_budget(session)

    def _apply_relevance_decay(self, session: ContextPackage) -> None:
        """Reduce relevance by age, starting from the original value: it does not compound."""
        now_ms = int(time.time() * 1000)
        for block in session.blocks:
            if block.type is ContextType.SYSTEM:
                continue
            minutes = max(0, now_ms - block.timestamp) / 60_000
            faded = self._base(block) * self.relevance_decay_factor**minutes
            self._set(block, max(DECAY_FLOOR, faded))

    def _update_recency_relevance(self, session: ContextPackage) -> None:
        talk = [block for block in session.blocks if block.type in TALK]
        talk.sort(key=lambda block: block.timestamp, reverse=True)
        for age, block in enumerate(talk[:RECENT_TURNS]):
            self._set(block, min(1.0, block.relevance_score + RECENT_FACTOR**age))

    def _base(self, block: ContextBlock) -> float:
        """Return a block's relevance as set by the caller, including later changes."""
        given, made = self._given.get(block.id, (block.relevance_score, block.relevance_score))
        if block.relevance_score != made:
            given = block.relevance_score
        self._given[block.id] = given, block.relevance_score
        return given

    def _set(self, block: ContextBlock, relevance: float) -> None:
        given = self._given[block.id][0] if block.id in self._given else block.relevance_score
        block.relevance_score = relevance
        self._given[block.id] = given, relevance

    def _enforce_token_budget(self, session: ContextPackage) -> None:
        """Keep SYSTEM, then recent turns, TOOL, MEMORY, KNOWLEDGE; in each, the most relevant
        first.
        """
        blocks = session.blocks
        check_room(blocks, self.token_budget)

        def worst_last(place: int) -> tuple[float, ...]:
            block = blocks[place]
            return PRIORITY[block.type], -block.relevance_score, -block.timestamp

        ranked = sorted(_shown_indexes(self.context_manager, session), key=worst_last)
        _fit(self.context_manager, session, self.token_budget, ranked)
        for gone in {block.id for block in blocks} - {block.id for block in session.blocks}:
            self._given.pop(gone, None)
