"""Blocks: candidates for a window, and the budget that chosen ones have to keep to."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any, Literal, cast, get_args

from msgspec import Struct
from msgspec.structs import force_setattr

from contextrelay.errors import Invalid

BlockType = Literal["SYSTEM", "USER", "AGENT", "MEMORY", "KNOWLEDGE", "TOOL"]
BLOCK_TYPES: tuple[str, ...] = get_args(BlockType)


class Block(Struct, frozen=True):
    """A piece of content that may go into a window."""

    id: str
    content: str
    type: BlockType = "MEMORY"
    relevance_score: float = 1.0
    """What its maker thinks of it, without a query."""
    metadata: dict[str, Any] = {}
    timestamp: int = 0
    """Milliseconds since 1970; 0 where nobody knows."""
    group: str | None = None
    """What it was said in: a session, a document. Its neighbours there help to find it."""
    references: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        given: dict[str, Any] = {name: getattr(self, name) for name in _TOLERANT}
        if not isinstance(cast("object", self.id), str) or not self.id:
            raise Invalid(f"a block's id is a text, not {self.id!r}")
        if not isinstance(cast("object", self.content), str):
            raise Invalid(f"block {self.id}: its content is a text, not {self.content!r:.80}")
        if not is_spelled(self.id) or not is_spelled(self.content):
            raise Invalid(f"block {self.id!a:.80}: half a character", "decode the text rightly")
        kind = getattr(self.type, "name", self.type)  # A member of an enum will do.
        if kind not in BLOCK_TYPES:
            raise Invalid(
                f"block {self.id}: no type {kind!r:.80}", f"one of {', '.join(BLOCK_TYPES)}"
            )
        score = given["relevance_score"]
        if not isinstance(score, int | float) or not math.isfinite(score):
            raise Invalid(f"block {self.id}: its relevance is {score!r:.80}", "give a number")
        force_setattr(self, "type", kind)
        force_setattr(self, "timestamp", _in_ms(self.id, given["timestamp"]))
        group = given["group"]
        force_setattr(self, "group", group if group is None else str(group))
        force_setattr(self, "references", tuple(given["references"] or ()))
        force_setattr(self, "metadata", self.metadata or {})
        if not isinstance(cast("object", self.metadata), dict):
            raise Invalid(f"block {self.id}: its metadata is {self.metadata!r:.80}", "give a dict")


def is_spelled(text: str) -> bool:
    """Whether a text can be written: half of a pair of surrogates cannot."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


_TOLERANT = ("relevance_score", "timestamp", "group", "references")


def _in_ms(block_id: str, given: object) -> int:
    if isinstance(given, datetime):
        return round(given.timestamp() * 1000)
    if isinstance(given, int | float) and math.isfinite(given) and given >= 0:
        return int(given)
    raise Invalid(f"block {block_id}: its timestamp is {given!r:.80}", "milliseconds since 1970")


class Budget(Struct, frozen=True):
    """How many tokens a package may spend, and how many it must leave free."""

    tokens_max: int
    reserve_tokens: int = 0
    each_tokens: int = 0
    """What a block costs beside its content: the words that announce it."""

    def __post_init__(self) -> None:
        for given in (self.tokens_max, self.reserve_tokens, self.each_tokens):
            if not isinstance(cast("object", given), int):
                raise Invalid(f"a budget is a number of tokens, not {given!r:.80}")
        if not 0 <= self.reserve_tokens < self.tokens_max:
            raise Invalid(
                f"a budget of {self.tokens_max} tokens with {self.reserve_tokens} kept free",
                "give it more tokens",
            )
        if self.each_tokens < 0:
            raise Invalid(f"a block cannot cost {self.each_tokens} tokens beside its content")

    @property
    def spendable_tokens(self) -> int:
        return self.tokens_max - self.reserve_tokens
