"""Scoring: how relevant blocks are to a query, by an index that is kept, not fitted again."""

from __future__ import annotations

from operator import is_

from contextrelay.context.blocks import ContextBlock, ContextType
from contextrelay.context.sessions import ContextManager
from contextrelay.packing.embeddings import Embed
from contextrelay.packing.relevance import Relevance

FALLBACK = 0.5


class ContextualRelevanceCalculator:
    """Scores from 0 to 1, the best block of a query being 1; words alone, or an embedding too."""

    def __init__(self, embed: Embed | None = None) -> None:
        self._index = Relevance(embed=embed)
        self._blocks: list[ContextBlock] = []
        self._contents: list[str] = []

    def calculate_relevance(
        self, query: str, context_blocks: list[ContextBlock]
    ) -> dict[str, float]:
        """Each block's score; 0.5 for all where the query has no words."""
        self._follow(context_blocks)
        if not query.strip():
            return {block.id: FALLBACK for block in context_blocks}
        return self._index.shares(query)

    def _follow(self, blocks: list[ContextBlock]) -> None:
        """Take in what is new or has changed; what is no longer asked about is let go."""
        contents = [block.content for block in blocks]
        is_same = len(blocks) == len(self._blocks) and all(map(is_, blocks, self._blocks))
        if is_same and contents == self._contents:
            return
        known = {
            block.id: content for block, content in zip(self._blocks, self._contents, strict=True)
        }
        for block_id in known.keys() - {block.id for block in blocks}:
            self._index.remove(block_id)
        for block in blocks:
            if known.get(block.id) != block.content:
                self._index.add(block.as_block())
        self._blocks, self._contents = list(blocks), contents

    def update_relevance_scores(
        self, query: str, context_manager: ContextManager, session_id: str
    ) -> None:
        """Give every block of a session its score; SYSTEM blocks have 1.

        Raises:
            ValueError: there is no such session.
        """
        session = context_manager.session(session_id)
        others = [block for block in session.blocks if block.type is not ContextType.SYSTEM]
        scores = self.calculate_relevance(query, others)
        for block in session.blocks:
            block.relevance_score = scores.get(block.id, 1.0)
        session.version += 1
