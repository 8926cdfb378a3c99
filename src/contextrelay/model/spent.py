"""Spent: what an answer cost its reader in tokens, beside what the whole would have cost."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Basis = Literal["measured", "estimated"]


class Spent(Struct, frozen=True, kw_only=True):
    """Tokens of what was given, and of the whole that it stands for.

    `tokens` is counted by the tokenizer named. `basis` is that of `whole_tokens`: a large body is
    not read only to be counted.
    """

    tokens: int
    whole_tokens: int
    basis: Basis
    tokenizer: str
