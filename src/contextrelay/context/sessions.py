"""Sessions: blocks are added, formatted, pruned, exported and imported.

Rule: a session never holds more than its budget by the real tokenizer. SYSTEM blocks stay, the
order stays, and what is dropped is listed with the reason; with a relay, its content stays there.
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
from contextrelay.model.package import Budget, is_spelled

if TYPE_CHECKING:
    from contextrelay.client.relay import Relay

RELEVANCE_THRESHOLD = 0.2
PRUNE_AT, PRUNE_TO = 0.9, 0.8


# A generator of our own, reseeded in a child process: the system's takes longer than all the rest
# of an addition, and that of the module repeats itself where somebody seeds it.
_chance = Random()
if hasattr(os, "register_at_fork"):  # Elsewhere nothing forks.
    os.register_at_fork(after_in_child=_chance.seed)


def _new_id() -> str:
    """A random UUID. It names a block and keeps no secret."""
    digits = f"{_chance.getrandbits(128):032x}"
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


class ContextManager:
    """Looks after sessions. With a relay, what is pruned is pushed there first."""

    def __init__(
        self,
        max_tokens: int = MAX_TOKENS,
        relevance_threshold: float = RELEVANCE_THRESHOLD,
        relay: Relay | None = None,
    ) -> None:
        Budget(max_tokens)  # Refuses what is none.
        self.max_tokens = max_tokens
        self.relevance_threshold = relevance_threshold
        self.relay = relay
        self.sessions: dict[str, ContextPackage] = {}

    def create_session(self, agent_id: str) -> str:
        """Begin a session; its id."""
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
        """A session.

        Raises:
            ValueError: there is none of that id.
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
        """Add a block, and prune if the session is nearly full; the block's id.

        Raises:
            ValueError: there is no such session.
            BudgetTooSmall: SYSTEM blocks alone would be over the budget.
            Invalid: it is no type, or the relevance is no number.
        """
        session = self.session(session_id)
        if context_type.__class__ is not ContextType or not isfinite(relevance_score):
            raise Invalid(
                f"no block has type {context_type!r:.80} and relevance {relevance_score!r:.80}",
                "give a ContextType, and a number",
            )
        block = ContextBlock(
            id=_new_id(),
            content=content,
            relevance_score=relevance_score,
            type=context_type,
            metadata=metadata or {},
        )
        if not content.isascii() and not is_spelled(content):
            raise Invalid("the content has half a character", "decode the text rightly")
        if context_type is ContextType.SYSTEM:
            self._check_system(session, block)
        session.append(block)
        if session.may_exceed(PRUNE_AT * self.max_tokens):
            self._prune_context(session_id)
        return block.id

    def _check_system(self, session: ContextPackage, block: ContextBlock) -> None:
        fixed = [each for each in session.blocks if each.type is ContextType.SYSTEM]
        check_room((*fixed, block), self.max_tokens)

    def _prune_context(self, session_id: str) -> None:
        """Drop the least relevant, the oldest of them first, until the session is 80 % full."""
        session = self.session(session_id)
        check_room(session.blocks, self.max_tokens)
        target = PRUNE_TO * self.max_tokens
        tokens = session.metrics.total_tokens
        out: dict[int, str] = {}
        scores = [block.relevance_score for block in session.blocks]
        others = [
            place
            for place, block in enumerate(session.blocks)
            if block.type is not ContextType.SYSTEM
        ]
        others.sort(key=scores.__getitem__)
        for place in others:
            if tokens <= target:
                break
            block = session.blocks[place]
            tokens -= block.token_count
            out[place] = f"pruned at relevance {block.relevance_score:.2f}"
        self.drop(session, out)

    def drop(self, session: ContextPackage, out: dict[int, str]) -> None:
        """Take blocks out of a session, by place, each for a reason; they are listed there."""
        if not out:
            return
        for place in sorted(out):
            block = session.blocks[place]
            session.dropped.append(DroppedContext(block, out[place], self._kept(block)))
        session.take_out(out)

    def _kept(self, block: ContextBlock) -> str | None:
        """The ref by which what is dropped can be got back."""
        if self.relay is None:
            return None
        return self.relay.push(block.content, metadata={"context_block": block.id}).ref

    def get_formatted_context(
        self, session_id: str, formatter: Callable[[ContextPackage], str] | None = None
    ) -> str:
        """The blocks of a session that are relevant enough, as a model reads them.

        Raises:
            ValueError: there is no such session.
        """
        session = self.session(session_id)
        if formatter is not None:
            return formatter(session)
        least = self.relevance_threshold
        return "\n\n".join(
            [
                f"[{block.type._name_}]\n{block.content}"
                for block in session.blocks
                if block.relevance_score >= least
            ]
        )

    def export_session(self, session_id: str) -> dict[str, Any]:
        """A session as plain values.

        Raises:
            ValueError: there is no such session.
        """
        return self.session(session_id).to_dict()

    def import_session(self, session_data: dict[str, Any]) -> str:
        """Take in a session that was exported, under its own id; that id.

        It is counted here, whatever it says of itself, and pruned where it is too much.

        Raises:
            BudgetTooSmall: SYSTEM blocks alone are over the budget.
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
    """Refuse SYSTEM blocks that are more than a window can hold.

    Raises:
        BudgetTooSmall: they are.
    """
    tokens = sum(each.token_count for each in blocks if each.type is ContextType.SYSTEM)
    if tokens > tokens_max:
        raise BudgetTooSmall(
            f"SYSTEM blocks take {tokens} tokens of {tokens_max}",
            "give the session more tokens, or shorter prompts",
        )
