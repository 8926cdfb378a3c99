"""Tokens: how much of a window a text takes, how that is known, and what an answer cost."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

TokenBasis = Literal["measured", "estimated"]
Tokenizer = Literal["o200k_base", "cl100k_base"]


class TokenCount(Struct, frozen=True):
    """A number of tokens, never without how it was found."""

    tokens: int
    basis: TokenBasis
    """`measured` is what the tokenizer counts, `estimated` is near it and no more."""
    tokenizer: Tokenizer


class Spent(Struct, frozen=True, kw_only=True):
    """Tokens of what was given, and of the whole that it stands for.

    `tokens` is counted by the tokenizer named. `basis` is that of `whole_tokens`: a large body is
    not read only to be counted.
    """

    tokens: int
    whole_tokens: int
    basis: TokenBasis
    tokenizer: str

    @classmethod
    def of(cls, tokens: int, whole: TokenCount) -> Spent:
        """Of tokens that were given out of a whole."""
        return cls(
            tokens=tokens,
            whole_tokens=whole.tokens,
            basis=whole.basis,
            tokenizer=whole.tokenizer,
        )
