"""Packages: the blocks that were chosen for a window, those that were not, and why."""

from __future__ import annotations

import hashlib
from typing import Literal

from msgspec import Struct
from msgspec.json import Encoder
from msgspec.structs import force_setattr

from contextrelay.errors import Invalid, NotFound
from contextrelay.model.block import Block, Budget

PACKAGE_VERSION = 1

Verdict = Literal["kept", "dropped"]
# Whatever is in metadata, the same blocks have the same hash.
_encoder = Encoder(order="deterministic", enc_hook=lambda value: type(value).__qualname__)


class Reason(Struct, frozen=True, kw_only=True):
    """Why a block is in a package, or is not."""

    verdict: Verdict
    because: Literal["system", "pinned", "relevant", "recent", "duplicate", "over_budget", "pruned"]
    tokens: int
    score: float = 0.0
    rank: int = 0
    """Among those that competed, the best is 1."""
    of: str | None = None
    """The block that it repeats."""
    words: tuple[str, ...] = ()
    """What of the query was found in it, or beside it."""
    is_digest: bool = False
    """Whether a digest and a ref stand in for the whole."""

    def __str__(self) -> str:
        match self.because:
            case "system" | "pinned":
                told = self.because
            case "duplicate":
                told = f"the same as {self.of}"
            case "relevant":
                told = f"relevance {self.score:.2f}, rank {self.rank}"
            case "recent":
                told = f"recency, rank {self.rank}"
            case "over_budget":
                told = f"no room for its {self.tokens} tokens at rank {self.rank}"
            case _:
                told = "it was pruned"
        found = f"; found: {', '.join(self.words)}" if self.words else ""
        digest = "; a digest, the whole by its ref" if self.is_digest else ""
        return f"{self.verdict}: {told}{found}{digest}"


class Package(Struct, frozen=True, kw_only=True):
    """What was chosen, in the order in which it was given."""

    blocks: tuple[Block, ...]
    dropped: tuple[Block, ...]
    reasons: dict[str, Reason]
    budget: Budget
    total_tokens: int
    tokenizer: str
    query: str = ""
    agent_id: str = ""
    session_id: str = ""
    version: int = PACKAGE_VERSION
    trace_id: str = ""
    sha256: str = ""
    """The hash of what was chosen: the same choice, the same hash."""

    def __post_init__(self) -> None:
        if self.version != PACKAGE_VERSION:
            raise Invalid(
                f"a package of version {self.version}",
                f"this is version {PACKAGE_VERSION}: ask for one, or upgrade contextrelay",
            )
        sha256 = hashlib.sha256(_encoder.encode(self.blocks)).hexdigest()
        if self.sha256 not in ("", sha256):
            raise Invalid("the blocks of a package are not those of its hash", "ask for it again")
        force_setattr(self, "sha256", sha256)

    def why(self, block_id: str) -> Reason:
        """Why a block was kept or dropped.

        Raises:
            NotFound: it was not among those given.
        """
        try:
            return self.reasons[block_id]
        except KeyError:
            raise NotFound(f"no block {block_id} was given") from None

    @property
    def context_saturation(self) -> float:
        return min(1.0, self.total_tokens / self.budget.tokens_max)

    @property
    def type_distribution(self) -> dict[str, float]:
        """Of the tokens spent, each type's share."""
        shares: dict[str, float] = {}
        for block in self.blocks:
            tokens = self.reasons[block.id].tokens
            shares[block.type] = shares.get(block.type, 0) + tokens
        return {kind: tokens / max(self.total_tokens, 1) for kind, tokens in shares.items()}

    def text(self) -> str:
        """The blocks as a model reads them."""
        return "\n\n".join(f"[{block.type}]\n{block.content}" for block in self.blocks)
