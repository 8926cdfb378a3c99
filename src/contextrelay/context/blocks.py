"""Blocks and packages of the article: the same fields, counted by a real tokenizer.

Tokens are counted on first access, because most counts are never read.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Container
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any, cast

from contextrelay.content.tokens import count_tokens
from contextrelay.model.package import Block

MAX_TOKENS = 8_192


class ContextType(Enum):
    """The type of a block."""

    SYSTEM = 0
    USER = 1
    AGENT = 2
    MEMORY = 3
    KNOWLEDGE = 4
    TOOL = 5


@dataclass
class ContextBlock:
    """A piece of content in a session."""

    id: str
    content: str
    relevance_score: float
    type: ContextType
    metadata: dict[str, Any] = None  # pyright: ignore[reportAssignmentType]
    timestamp: int = None  # pyright: ignore[reportAssignmentType]
    """Milliseconds since 1970."""
    token_count: int = None  # pyright: ignore[reportAssignmentType]
    references: list[str] = None  # pyright: ignore[reportAssignmentType]

    def __post_init__(self) -> None:
        # Not through `__dict__`: accessing it would create a dict for each block.
        if self.timestamp is None:  # pyright: ignore[reportUnnecessaryComparison]
            self.timestamp = int(time.time() * 1000)
        if self.metadata is None:  # pyright: ignore[reportUnnecessaryComparison]
            self.metadata = {}
        if self.references is None:  # pyright: ignore[reportUnnecessaryComparison]
            self.references = []
        if self.token_count is None:  # pyright: ignore[reportUnnecessaryComparison]
            del self.token_count

    def as_block(self) -> Block:
        """Return the same as a block that can be packed; its group is `metadata["group"]`."""
        return Block(
            self.id,
            self.content,
            self.type.name,
            self.relevance_score,
            self.metadata,
            self.timestamp,
            self.metadata.get("group"),
            tuple(self.references),
        )

    def to_dict(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {**fields, "type": self.type.name}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> ContextBlock:
        known: dict[str, Any] = {name: fields[name] for name in cls.__dataclass_fields__}
        known["type"] = ContextType[fields["type"]]
        return cls(**known)


class _Counted:
    """A descriptor that counts a block's tokens on first access and stores them on the block."""

    def __get__(self, block: ContextBlock | None, owner: type[ContextBlock]) -> int | None:
        if block is None:
            return None  # The default of the field.
        counted = block.token_count = count_tokens(block.content)
        return counted


ContextBlock.token_count = _Counted()  # pyright: ignore[reportAttributeAccessIssue]


@dataclass
class ContextMetrics:
    """The totals of a session's blocks."""

    total_tokens: int
    context_saturation: float
    type_distribution: dict[str, float]


_METRICS = tuple(ContextMetrics.__dataclass_fields__)


@dataclass
class DroppedContext:
    """A block that was removed from a session, with the reason and its ref."""

    block: ContextBlock
    reason: str
    ref: str | None = None


@dataclass
class ContextPackage:
    """A session: its blocks, in the order in which they were added."""

    session_id: str
    agent_id: str
    blocks: list[ContextBlock]
    metrics: ContextMetrics
    version: int = 1
    trace_id: str = None  # pyright: ignore[reportAssignmentType]
    max_tokens: int = field(default=MAX_TOKENS, compare=False)  # The limit for the saturation.
    dropped: list[DroppedContext] = field(default_factory=list[DroppedContext], compare=False)

    def __post_init__(self) -> None:
        if cast("str | None", self.trace_id) is None:
            self.trace_id = str(uuid.uuid4())
        self._uncounted: list[ContextBlock] = []
        self._uncounted_bytes = 0
        self._by_type: dict[str, int] | None = None

    def calculate_metrics(self) -> None:
        """Count everything again, for example after changing `blocks` directly."""
        self._uncounted, self._uncounted_bytes, self._by_type = [], 0, {}
        for block in self.blocks:
            name = block.type._name_  # Twenty times as fast as `name`.
            self._by_type[name] = self._by_type.get(name, 0) + block.token_count
        self._publish()

    def append(self, block: ContextBlock) -> None:
        """Add a block; tokens are counted on access, so this takes constant time."""
        if self._by_type is None:
            self.calculate_metrics()
        content = block.content
        self._uncounted_bytes += len(content) if content.isascii() else len(content.encode())
        self.blocks.append(block)
        self.version += 1
        self._uncounted.append(block)

    def take_out(self, places: Container[int]) -> None:
        """Remove blocks by index; the others keep their order."""
        self._settle()
        if self._by_type is None:
            self.calculate_metrics()
        assert self._by_type is not None
        kept: list[ContextBlock] = []
        for place, block in enumerate(self.blocks):
            if place in places:
                self._by_type[block.type._name_] -= block.token_count
            else:
                kept.append(block)
        self.blocks = kept
        self.version += 1
        self._by_type = {name: tokens for name, tokens in self._by_type.items() if tokens}
        self._publish()

    def may_exceed(self, tokens: float) -> bool:
        """Return False if the tokens cannot exceed this: each takes at least a byte."""
        if self._counted.total_tokens + self._uncounted_bytes < tokens:
            return False
        return self.metrics.total_tokens >= tokens

    def _settle(self) -> None:
        """Count the blocks that were added since the last count."""
        if self._by_type is None:
            return
        for block in self._uncounted:
            name = block.type._name_
            self._by_type[name] = self._by_type.get(name, 0) + block.token_count
        self._uncounted, self._uncounted_bytes = [], 0
        self._publish()

    def _publish(self) -> None:
        assert self._by_type is not None
        total = sum(self._by_type.values())
        counted = self._counted
        counted.total_tokens = total
        counted.context_saturation = min(1.0, total / self.max_tokens)
        counted.type_distribution = {
            name: tokens / total if total else 0 for name, tokens in self._by_type.items()
        }

    @property
    def _counted(self) -> ContextMetrics:
        """The metrics without blocks added since the last count."""
        return cast("ContextMetrics", self.__dict__["_metrics"])

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values that can be encoded as JSON."""
        return {
            "session_id": self.session_id,
            "agent_id": self.agent_id,
            "blocks": [block.to_dict() for block in self.blocks],
            "metrics": asdict(self.metrics),
            "version": self.version,
            "trace_id": self.trace_id,
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any], max_tokens: int = MAX_TOKENS) -> ContextPackage:
        return cls(
            session_id=fields["session_id"],
            agent_id=fields["agent_id"],
            blocks=[ContextBlock.from_dict(each) for each in fields["blocks"]],
            metrics=ContextMetrics(*(fields["metrics"][each] for each in _METRICS)),
            version=fields["version"],
            trace_id=fields["trace_id"],
            max_tokens=max_tokens,
        )


def _metrics(package: ContextPackage) -> ContextMetrics:
    if package.__dict__.get("_uncounted"):
        package._settle()  # pyright: ignore[reportPrivateUsage]
    return package.__dict__["_metrics"]


def _set_metrics(package: ContextPackage, metrics: ContextMetrics) -> None:
    package.__dict__["_metrics"] = metrics


ContextPackage.metrics = property(_metrics, _set_metrics)  # pyright: ignore[reportAttributeAccessIssue]
