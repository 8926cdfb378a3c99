"""Artifacts: content plus what describes it. The content itself is never in here."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType, field

from contextrelay.model.tokens import TokenBasis

ArtifactType = Literal[
    "markdown",
    "json",
    "html",
    "text",
    "binary",
    "tool_output",
    "email",
    "code",
    "csv",
    "log",
    "diff",
    "image",
    "pdf",
]

SealFormat = Literal["k1", "k2"]
"""How a body was sealed before it was pushed: k1 is Fernet, k2 is described in docs/security.md."""


class Preview(Struct, frozen=True, kw_only=True):
    """The cut, defused head of a body: what a prompt may show of it."""

    text: str
    truncated: bool
    size_bytes: int = field(name="size")
    line_count: int
    patterns: tuple[str, ...] = ()
    """Which known tricks were seen and defused, by name."""


class Provenance(Struct, frozen=True, kw_only=True):
    """Where an artifact came from."""

    created_by: str
    created_at: datetime
    capability: str | None = None
    source_refs: tuple[str, ...] = ()


class Artifact(Struct, frozen=True, kw_only=True):
    """Everything about a stored body except the body."""

    ref: str
    type: ArtifactType
    media_type: str
    name: str | None
    size_bytes: int = field(name="size")
    sha256: str
    is_text: bool
    """Whether the body is UTF-8, so that it may travel as a string."""
    created_at: datetime
    expires_at: datetime | None
    ttl_s: int | None
    """How long the lease was granted for; None for a pinned artifact."""
    metadata: dict[str, Any]
    provenance: Provenance
    preview: Preview
    thread: str | None = None
    """The thread it was put into."""
    has_own_ttl: bool = False
    """Whether its time to live was asked for: then it expires even while it is referred to."""
    channel: str | None = None
    """The channel on which its signal was sent."""
    sealed: SealFormat | None = None
    """How its body is sealed; size and hash are of the sealed bytes, the type is as declared."""
    tokens: int | UnsetType | None = UNSET
    """Set by a full peek, as are the next two; None where it is sealed."""
    token_basis: TokenBasis | Literal["sealed"] | UnsetType = UNSET
    outline: str | UnsetType | None = UNSET


class Tombstone(Struct, frozen=True, kw_only=True):
    """What stays of an artifact that is gone."""

    ref: str
    gone_at: datetime
    reason: Literal["expired", "removed"]
    name: str | None
    type: ArtifactType
    size_bytes: int = field(name="size")
    sha256: str
    created_at: datetime
    metadata: dict[str, Any]
    is_released: bool = False
    """Whether the hold on the body was let go; until then a sweep has to finish it."""
    thread: str | None = None
    channel: str | None = None


def moment(at_ms: int) -> datetime:
    """Milliseconds since 1970 as a datetime in UTC."""
    seconds, milliseconds = divmod(at_ms, 1000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=milliseconds * 1000)


def spell(at: datetime) -> str:
    """A datetime in UTC as documents write it."""
    return at.isoformat().replace("+00:00", "Z")


def in_ms(at: datetime) -> int:
    """A datetime as milliseconds since 1970."""
    return round(at.timestamp() * 1000)


EXCHANGE_MEDIA_TYPE = "application/vnd.contextrelay.exchange+json"
"""Of what a model was sent and answered in one call: in its thread's keeping, listed nowhere."""


def is_exchange(artifact: Artifact) -> bool:
    return artifact.media_type == EXCHANGE_MEDIA_TYPE
