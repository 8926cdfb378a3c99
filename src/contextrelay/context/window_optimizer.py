"""Windows: sessions are brought within a number of tokens, at once or again and again.

Rule: the order of the conversation stays, SYSTEM blocks stay, and what is dropped is listed.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque

from contextrelay.context.blocks import ContextBlock, ContextPackage, ContextType
from contextrelay.context.sessions import ContextManager, check_room
from contextrelay.model.package import Budget

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
    """Keeps SYSTEM, then the newest turns up to 70 %, then the rest by relevance."""

    def __init__(self, context_manager: ContextManager) -> None:
        self.context_manager = context_manager

    async def optimize_session(self, session_id: str, max_tokens: int = WINDOW_TOKENS) -> None:
        """Bring a session within so many tokens.

        Raises:
            ValueError: there is no such session.
            BudgetTooSmall: SYSTEM blocks alone are more.
        """
        session = self.context_manager.session(session_id)
        check_room(session.blocks, Budget(max_tokens).tokens_max)
        if session.metrics.total_tokens <= max_tokens:
            return
        places = range(len(session.blocks))
        blocks = session.blocks
        keep = {place for place in places if blocks[place].type is ContextType.SYSTEM}
        used = sum(blocks[place].token_count for place in keep)
        newest = sorted(
            (place for place in places if blocks[place].type in TALK),
            key=lambda place: (blocks[place].timestamp, place),
            reverse=True,
        )
        rest = sorted(
            (place for place in places if place not in keep and blocks[place].type not in TALK),
            key=lambda place: (-blocks[place].relevance_score, place),
        )
        for some, limit in ((newest, max_tokens * TALK_SHARE), (rest, max_tokens)):
            for place in some:
                if used + blocks[place].token_count <= limit:
                    keep.add(place)
                    used += blocks[place].token_count
        why = f"no room in a window of {max_tokens} tokens"
        self.context_manager.drop(session, {place: why for place in places if place not in keep})


class RealTimeContextOptimizer:
    """Lets relevance fade with age and rise with recency, and keeps to a budget, in a loop."""

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
        """Each block's relevance as it was given, and what was made of it last."""

    async def start_optimization_loop(self, session_id: str) -> None:
        """Optimize a session every interval, until it is told to stop."""
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
        """One round; nothing where there is no such session."""
        session = self.context_manager.sessions.get(session_id)
        if session is None:
            return
        self._apply_relevance_decay(session)
        self._update_recency_relevance(session)
        if session.metrics.total_tokens > self.token_budget:
            self._enforce_token_budget(session)

    def _apply_relevance_decay(self, session: ContextPackage) -> None:
        """Relevance less age, counted from what was given: it does not compound."""
        now_ms = int(time.time() * 1000)
        for block in session.blocks:
            if block.type is ContextType.SYSTEM:
                continue
            minutes = max(0, now_ms - block.timestamp) / 60_000
            faded = self._base(block) * self.relevance_decay_factor**minutes
            self._set(block, max(DECAY_FLOOR, faded))

    def _update_recency_relevance(self, session: ContextPackage) -> None:
        """Raise the last turns of the talk."""
        talk = [block for block in session.blocks if block.type in TALK]
        talk.sort(key=lambda block: block.timestamp, reverse=True)
        for age, block in enumerate(talk[:RECENT_TURNS]):
            self._set(block, min(1.0, block.relevance_score + RECENT_FACTOR**age))

    def _base(self, block: ContextBlock) -> float:
        """A block's relevance as others gave it, also where they gave another since."""
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
        """SYSTEM, then recent talk, TOOL, MEMORY, KNOWLEDGE; of each the most relevant first."""
        blocks = session.blocks
        check_room(blocks, self.token_budget)
        ranked = sorted(
            range(len(blocks)),
            key=lambda place: (
                PRIORITY[blocks[place].type],
                -blocks[place].relevance_score,
                -blocks[place].timestamp,
            ),
        )
        used, out = 0, dict[int, str]()
        for place in ranked:
            is_system = blocks[place].type is ContextType.SYSTEM
            if is_system or used + blocks[place].token_count <= self.token_budget:
                used += blocks[place].token_count
            else:
                out[place] = f"no room in a budget of {self.token_budget} tokens"
                self._given.pop(blocks[place].id, None)
        self.context_manager.drop(session, out)
