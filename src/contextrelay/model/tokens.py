"""Token counts: how much of a window a text takes, and how that is known."""

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
