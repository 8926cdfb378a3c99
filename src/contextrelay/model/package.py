"""Candidate blocks for a window, the budget, and the package: which blocks were chosen, and why."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Annotated, Any, Literal, cast, get_args

from msgspec import Meta, Struct
from msgspec.json import Encoder
from msgspec.structs import force_setattr

from contextrelay.errors import Invalid, NotFound
from contextrelay.model.ref import Ref

BlockType = Literal["SYSTEM", "USER", "AGENT", "MEMORY", "KNOWLEDGE", "TOOL"]
BLOCK_TYPES: tuple[str, ...] = get_args(BlockType)


class Block(Struct, frozen=True):
    """A piece of content that may be included in a context window."""

    id: Annotated[str, Meta(min_length=1)]
    content: str
    type: BlockType = "MEMORY"
    relevance_score: float = 1.0
    """The creator's relevance estimate, independent of any query."""
    metadata: dict[str, Any] = {}
    timestamp: Annotated[int, Meta(ge=0)] = 0
    """Milliseconds since 1970; 0 if unknown."""
    group: str | None = None
    """The session or document that the block belongs to. Neighbours in the same group help to find
    the block.
    """
    references: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        given: dict[str, Any] = {name: getattr(self, name) for name in _TOLERANT}
        if not isinstance(cast("object", self.id), str) or not self.id:
            raise Invalid(f"invalid block id {self.id!r}: expected a string")
        if not isinstance(cast("object", self.content), str):
            raise Invalid(
                f"block {self.id}: invalid content {self.content!r:.80}: expected a string"
            )
        if not is_encodable(self.id) or not is_encodable(self.content):
            raise Invalid(
                f"block {self.id!a:.80}: the text has a lone surrogate (half a character)",
                "check how the text was decoded",
            )
        # Enum members are accepted too, by their name.
        kind = getattr(self.type, "name", self.type)
        if kind not in BLOCK_TYPES:
            raise Invalid(
                f"block {self.id}: unknown type {kind!r:.80}",
                f"expected one of {', '.join(BLOCK_TYPES)}",
            )
        score = given["relevance_score"]
        if not isinstance(score, int | float) or not math.isfinite(score):
            raise Invalid(f"block {self.id}: invalid relevance {score!r:.80}", "pass a number")
        force_setattr(self, "type", kind)
        force_setattr(self, "timestamp", _in_ms(self.id, given["timestamp"]))
        group = given["group"]
        force_setattr(self, "group", group if group is None else str(group))
        force_setattr(self, "references", tuple(given["references"] or ()))
        force_setattr(self, "metadata", self.metadata or {})
        if not isinstance(cast("object", self.metadata), dict):
            raise Invalid(f"block {self.id}: invalid metadata {self.metadata!r:.80}", "pass a dict")


def is_encodable(text: str) -> bool:
    """Return True if a text can be encoded, that is, has no lone surrogate."""
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
    raise Invalid(
        f"block {block_id}: invalid timestamp {given!r:.80}", "pass milliseconds since 1970"
    )


class Budget(Struct, frozen=True):
    """The number of tokens that a package may use, and the number that must stay free."""

    tokens_max: int
    reserve_tokens: int = 0
    each_tokens: int = 0
    """Overhead per block: the number of tokens of the block's heading."""

    def __post_init__(self) -> None:
        for given in (self.tokens_max, self.reserve_tokens, self.each_tokens):
            if not isinstance(cast("object", given), int):
                raise Invalid(f"invalid budget {given!r:.80}: expected a number of tokens")
        if not 0 <= self.reserve_tokens < self.tokens_max:
            raise Invalid(
                f"budget of {self.tokens_max} tokens too small: {self.reserve_tokens} are reserved",
                "pass a larger budget",
            )
        if self.each_tokens < 0:
            raise Invalid(f"invalid overhead per block: {self.each_tokens} tokens")

    @property
    def spendable_tokens(self) -> int:
        return self.tokens_max - self.reserve_tokens


PACKAGE_VERSION = 1

Verdict = Literal["kept", "dropped"]
# Deterministic for any metadata, so that equal blocks have the same hash.
_encoder = Encoder(order="deterministic", enc_hook=lambda value: type(value).__qualname__)


class Reason(Struct, frozen=True, kw_only=True):
    """The reason why a block is in a package, or is not."""

    verdict: Verdict
    because: Literal["system", "pinned", "relevant", "recent", "duplicate", "over_budget", "pruned"]
    tokens: int
    score: float = 0.0
    rank: int = 0
    """Rank among the competing blocks, from 1."""
    of: str | None = None
    """The id of the block that this block duplicates."""
    words: tuple[str, ...] = ()
    """The words of the query found in the block or in its neighbours."""
    is_digest: bool = False
    """Whether the block's text is replaced by a digest and a ref."""

    def __str__(self) -> str:
        match self.because:
            case "system" | "pinned":
                reason = self.because
            case "duplicate":
                reason = f"duplicate of {self.of}"
            case "relevant":
                reason = f"relevance {self.score:.2f}, rank {self.rank}"
            case "recent":
                reason = f"recency, rank {self.rank}"
            case "over_budget":
                reason = f"no room for its {self.tokens} tokens at rank {self.rank}"
            case _:
                reason = "pruned"
        found = f"; found: {', '.join(self.words)}" if self.words else ""
        digest = "; as a digest, the full text by its ref" if self.is_digest else ""
        return f"{self.verdict}: {reason}{found}{digest}"


class Package(Struct, frozen=True, kw_only=True):
    """The chosen blocks, in the order in which they were given."""

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
    """The hash of the chosen blocks; equal choices have equal hashes."""

    def __post_init__(self) -> None:
        if self.version != PACKAGE_VERSION:
            raise Invalid(
                f"unsupported package version {self.version}",
                f"this is version {PACKAGE_VERSION}: request a new one, or upgrade contextrelay",
            )
        import hashlib

        sha256 = hashlib.sha256(_encoder.encode(self.blocks)).hexdigest()
        if self.sha256 not in ("", sha256):
            raise Invalid(
                "the blocks of the package do not match its hash", "request the package again"
            )
        force_setattr(self, "sha256", sha256)

    def why(self, block_id: str) -> Reason:
        """Return the reason why a block was included or dropped.

        Raises:
            NotFound: the block was not among the candidates.
        """
        try:
            return self.reasons[block_id]
        except KeyError:
            raise NotFound(f"block {block_id} was not among the candidates") from None

    @property
    def context_saturation(self) -> float:
        return min(1.0, self.total_tokens / self.budget.tokens_max)

    @property
    def type_distribution(self) -> dict[str, float]:
        """A dict that maps each block type to its share of the tokens used."""
        shares: dict[str, float] = {}
        for block in self.blocks:
            tokens = self.reasons[block.id].tokens
            shares[block.type] = shares.get(block.type, 0) + tokens
        return {kind: tokens / max(self.total_tokens, 1) for kind, tokens in shares.items()}

    @property
    def text(self) -> str:
        """Return the text of the blocks, with headings, as a model reads it."""
        return "\n\n".join(f"[{block.type}]\n{block.content}" for block in self.blocks)


class PrunedBlock(Struct, frozen=True):
    """A block that was removed from a thread's context, with its ref and the reason."""

    ref: Ref
    why: str


class Pruned(Struct, frozen=True, kw_only=True):
    """The blocks removed from a thread's context, and the tokens that remain."""

    pruned: list[PrunedBlock]
    kept_tokens: int
    budget_tokens: int


class StoredSession(Struct, frozen=True):
    """A session of `DistributedContextStore`: its fields, and its blocks as JSON by id."""

    fields: dict[str, str]
    """The session's fields; empty if only blocks have been stored so far."""
    blocks: dict[str, bytes]
