"""The article's own algorithm, written from its description, to be measured next to ours.

Every block that is added is counted by its words, and all metrics are taken again; a session counts
as full by 8,192 words whatever it may hold, and is then pruned with every block; relevance is a
TF-IDF model that is fitted again to every query; what is pruned is gone.
"""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass, field
from enum import Enum
from importlib import import_module
from typing import Any

from contextrelay.errors import Unavailable

FULL_WORDS = 8_192


class ArticleType(Enum):
    """The two types that the measuring needs."""

    SYSTEM = 0
    MEMORY = 3


@dataclass
class ArticleBlock:
    """A block, with the article's fields."""

    id: str
    content: str
    relevance_score: float
    type: ArticleType
    timestamp: int
    token_count: int
    metadata: dict[str, str] = field(default_factory=dict[str, str])
    references: list[str] = field(default_factory=list[str])


class ArticleSession:
    """One session, kept as the article keeps it."""

    def __init__(self, max_tokens: int) -> None:
        self.max_tokens = max_tokens
        self.blocks: list[ArticleBlock] = []
        self.metrics: dict[str, Any] = {}

    def add(self, content: str, relevance: float) -> None:
        words = len(content.split())
        now_ms = int(time.time() * 1000)
        kind = ArticleType.MEMORY
        self.blocks.append(ArticleBlock(str(uuid.uuid4()), content, relevance, kind, now_ms, words))
        self.calculate_metrics()
        if self.metrics["context_saturation"] >= 0.9:
            self.prune()

    def calculate_metrics(self) -> None:
        total = sum(block.token_count for block in self.blocks)
        by_type: dict[str, int] = {}
        for block in self.blocks:
            name = block.type.name
            if name not in by_type:
                by_type[name] = 0
            by_type[name] += block.token_count
        self.metrics = {
            "total_tokens": total,
            "context_saturation": min(1.0, total / FULL_WORDS),
            "type_distribution": {kind: each / (total or 1) for kind, each in by_type.items()},
        }

    def prune(self) -> None:
        fixed = [block for block in self.blocks if block.type == ArticleType.SYSTEM]
        others = [block for block in self.blocks if block.type != ArticleType.SYSTEM]
        others.sort(key=lambda block: block.relevance_score)
        room = int(self.max_tokens * 0.8) - sum(block.token_count for block in fixed)
        total = sum(block.token_count for block in others)
        while total > room and others:
            total -= others.pop(0).token_count
        self.blocks = fixed + others
        self.calculate_metrics()

    def format(self) -> str:
        return "\n\n".join(
            [
                f"[{block.type.name}]\n{block.content}"
                for block in self.blocks
                if block.relevance_score >= 0.2
            ]
        )

    def export(self) -> bytes:
        blocks = [
            {
                "id": block.id,
                "content": block.content,
                "relevance_score": block.relevance_score,
                "type": block.type.name,
                "metadata": block.metadata,
                "timestamp": block.timestamp,
                "token_count": block.token_count,
                "references": block.references,
            }
            for block in self.blocks
        ]
        return json.dumps({"blocks": blocks, "metrics": self.metrics}).encode()

    def relevance(self, query: str) -> list[float]:
        """Fit TF-IDF to the query and all blocks, and compare.

        Raises:
            Unavailable: scikit-learn is not installed.
        """
        try:
            text: Any = import_module("sklearn.feature_extraction.text")
            pairwise: Any = import_module("sklearn.metrics.pairwise")
        except ImportError as error:
            raise Unavailable(
                "scikit-learn is not installed", "pip install scikit-learn"
            ) from error
        fitted = text.TfidfVectorizer(stop_words="english").fit_transform(
            [query, *(block.content for block in self.blocks)]
        )
        return pairwise.cosine_similarity(fitted[0:1], fitted[1:]).flatten().tolist()

    def pack(self, query: str, budget_tokens: int) -> list[ArticleBlock]:
        """The most relevant blocks up to a budget of words."""
        scores = self.relevance(query)
        chosen: list[ArticleBlock] = []
        for place in sorted(range(len(scores)), key=lambda each: -scores[each]):
            if self.blocks[place].token_count <= budget_tokens:
                budget_tokens -= self.blocks[place].token_count
                chosen.append(self.blocks[place])
        return chosen
