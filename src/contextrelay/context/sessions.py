"""Sessions: add, format, prune, export and import blocks.

Rule: a session never exceeds its budget as counted by the real tokenizer. SYSTEM blocks are kept,
the order is kept, and dropped blocks are listed with the reason; with a relay, their content is
stored.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable
from math import isfinite
from random import Random
from typing import TYPE_CHECKING, Any

from contextrelay.context.blocks import (
    MAX_TOKENS,
    ContextBlock,
    ContextMetrics,
    ContextPackage,
    ContextType,
    DroppedContext,
)
from contextrelay.errors import BudgetTooSmall, Invalid
from contextrelay.model.package import Budget, is_encodable

if TYPE_CHECKING:
    from contextrelay.client.relay import Relay

RELEVANCE_THRESHOLD = 0.2
PRUNE_AT, PRUNE_TO = 0.9, 0.8

# A separate generator, reseeded in a child process: the system's would take longer than the rest of
# an addition, and that of the `random` module repeats if a program seeds it.
_random = Random()
if hasattr(os, "register_at_fork"):  # Other systems do not fork.
    os.register_at_fork(after_in_child=_random.seed)


def _new_id() -> str:
    """Return a random UUID. It names a block and is not a secret."""
    digits = f"{_random.getrandbits(128):032x}"
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


class ContextManager:
    """Manages sessions. With a relay, pruned blocks are pushed there first."""

    def __init__(
        self,
        max_tokens: int = MAX_TOKENS,
        relevance_threshold: float = RELEVANCE_THRESHOLD,
        relay: Relay | None = None,
    ) -> None:
        Budget(max_tokens)  # Raises for an invalid budget.
        self.max_tokens = max_tokens
        self.relevance_threshold = relevance_threshold
        self.relay = relay
        self.sessions: dict[str, ContextPackage] = {}

    def create_session(self, agent_id: str) -> str:
        """Start a session and return its id."""
        session_id = str(uuid.uuid4())
        self.sessions[session_id] = ContextPackage(
            session_id=session_id,
            agent_id=agent_id,
            blocks=[],
            metrics=ContextMetrics(0, 0.0, {}),
            max_tokens=self.max_tokens,
        )
        return session_id

    def session(self, session_id: str) -> ContextPackage:
        """Return a session.

        Raises:
            ValueError: there is no session with that id.
        """
        try:
            return self.sessions[session_id]
        except KeyError:
            raise ValueError(f"Session {session_id} does not exist") from None

    def add_context(
        self,
        session_id: str,
        content: str,
        context_type: ContextType,
        relevance_score: float = 1.0,
        metadata: dict[str, Any] | None = None,
    ) -> str:
        """Add a block, and prune if the session is nearly full; return the block's id.

        Raises:
            ValueError: there is no such session.
            BudgetTooSmall: SYSTEM blocks alone would exceed the budget.
            Invalid: the type is unknown, or the relevance is not a number.
        """
        session = self.session(session_id)
        if context_type.__class__ is not ContextType or not isfinite(relevance_score):
            wrong = f"invalid type {context_type!r:.80} or relevance {relevance_score!r:.80}"
            raise Invalid(wrong, "pass a ContextType and a number")
        block = ContextBlock(
            id=_new_id(),
            content=content,
            relevance_score=relevance_score,
            type=context_type,
            metadata=metadata or {},
        )
        if not content.isascii() and not is_encodable(content):
            hint = "check how the text was decoded"
            raise Invalid("the content has a lone surrogate (half a character)", hint)
        if context_type is ContextType.SYSTEM:
            check_room((*session.blocks, block), self.max_tokens)
        session.append(block)
        if session.may_exceed(PRUNE_AT * self.max_tokens):
            self._prune_context(session_id)
        return block.id

    def _prune_context(self, session_id: str) -> None:
        """Drop the least relevant blocks, oldest first, until the session is 80 % full."""
        session = self.session(session_id)
        check_room(session.blocks, self.max_tokens)
        target = PRUNE_TO * self.max_tokens
        tokens = session.metrics.total_tokens
        out: dict[int, str] = {}
        ranked = sorted(enumerate(session.blocks), key=lambda each: each[1].relevance_score)
        for place, block in ranked:
            if tokens <= target:
                break
            if block.type is not ContextType.SYSTEM:
                tokens -= block.token_count
                out[place] = f"pruned at relevance {block.relevance_score:.2f}"
        self.drop(session, out)

    def drop(self, session: ContextPackage, out: dict[int, str]) -> None:
        """Remove blocks from a session by index, each with a reason, and list them as dropped."""
        if not out:
            return
        for place in sorted(out):
            block, ref = session.blocks[place], None
            if self.relay is not None:
                ref = self.relay.push(block.content, metadata={"context_block": block.id}).ref
            session.dropped.append(DroppedContext(block, out[place], ref))
        session.take_out(out)

    def get_formatted_context(
        self, session_id: str, formatter: Callable[[ContextPackage], str] | None = None
    ) -> str:
        """Return the sufficiently relevant blocks of a session as a model reads them.

        Raises:
            ValueError: there is no such session.
        """
        session = self.session(session_id)
        if formatter is not None:
            return formatter(session)
        least = self.relevance_threshold
        shown = [block for block in session.blocks if block.relevance_score >= least]
        return "\n\n".join([f"[{block.type._name_}]\n{block.content}" for block in shown])

    def export_session(self, session_id: str) -> dict[str, Any]:
        """Return a session as plain values.

        Raises:
            ValueError: there is no such session.
        """
        return self.session(session_id).to_dict()

    def import_session(self, session_data: dict[str, Any]) -> str:
        """Import an exported session under its own id and return that id.

        Its tokens are counted again, and it is pruned if necessary.

        Raises:
            BudgetTooSmall: SYSTEM blocks alone exceed the budget.
        """
        session = ContextPackage.from_dict(session_data, self.max_tokens)
        for block in session.blocks:
            vars(block).pop("token_count", None)
        session.calculate_metrics()
        check_room(session.blocks, self.max_tokens)
        self.sessions[session.session_id] = session
        if session.may_exceed(PRUNE_AT * self.max_tokens):
            self._prune_context(session.session_id)
        return session.session_id


def check_room(blocks: Iterable[ContextBlock], tokens_max: int) -> None:
    """Refuse SYSTEM blocks that do not fit into a window.

    Raises:
        BudgetTooSmall: they do not.
    """
    tokens = sum(each.token_count for each in blocks if each.type is ContextType.SYSTEM)
    if tokens > tokens_max:
        raise BudgetTooSmall(
            f"SYSTEM blocks take {tokens} tokens of {tokens_max}",
            "increase the session's budget, or shorten the prompts",
        )
