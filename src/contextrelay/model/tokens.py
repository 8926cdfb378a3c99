"""Tokens: the number of tokens in a text, how it was determined, and the cost of a reply."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

TokenBasis = Literal["measured", "estimated"]
Tokenizer = Literal["o200k_base", "cl100k_base"]


class TokenCount(Struct, frozen=True):
    """A number of tokens, with the method by which it was determined."""

    tokens: int
    basis: TokenBasis
    """`measured`: counted by the tokenizer. `estimated`: an approximation."""
    tokenizer: Tokenizer


class Spent(Struct, frozen=True, kw_only=True):
    """The tokens of a reply, and of the whole body that the reply stands for.

    `tokens` is counted by the tokenizer named. `basis` is that of `whole_tokens`, which is
    estimated if a large body would be read only to count its tokens.
    """

    tokens: int
    whole_tokens: int
    basis: TokenBasis
    tokenizer: str

    @classmethod
    def of(cls, tokens: int, whole: TokenCount) -> Spent:
        """Return the cost of a reply of `tokens` tokens that stands for a body of `whole`."""
        return cls(
            tokens=tokens,
            whole_tokens=whole.tokens,
            basis=whole.basis,
            tokenizer=whole.tokenizer,
        )
