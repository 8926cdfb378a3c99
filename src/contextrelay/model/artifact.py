"""Artifacts: descriptions of stored content, without the content."""

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
    """The truncated head of a body, defused so that it is safe to show in a prompt."""

    text: str
    truncated: bool
    size_bytes: int = field(name="size")
    line_count: int
    patterns: tuple[str, ...] = ()
    """Names of the prompt injection patterns that were found and defused."""


class Provenance(Struct, frozen=True, kw_only=True):
    """The origin of an artifact."""

    created_by: str
    created_at: datetime
    capability: str | None = None
    source_refs: tuple[str, ...] = ()


class Artifact(Struct, frozen=True, kw_only=True):
    """The description of a stored body."""

    ref: str
    type: ArtifactType
    media_type: str
    name: str | None
    size_bytes: int = field(name="size")
    sha256: str
    is_text: bool
    """Whether the body is valid UTF-8 and can therefore be sent as a string."""
    created_at: datetime
    expires_at: datetime | None
    ttl_s: int | None
    """Time to live in seconds as it was last set; None for a pinned artifact."""
    metadata: dict[str, Any]
    provenance: Provenance
    preview: Preview
    thread: str | None = None
    """The thread to which the artifact was added, if any."""
    has_own_ttl: bool = False
    """Whether the time to live was set explicitly. If so, the artifact expires even while it is
    referenced.
    """
    channel: str | None = None
    """The channel on which the artifact was announced by a signal, if any."""
    sealed: SealFormat | None = None
    """How the body is sealed, if it is. Size and hash are those of the sealed bytes; the type is as
    declared.
    """
    tokens: int | UnsetType | None = UNSET
    """Number of tokens of the body. This and the next two fields are set by a full peek; None if
    the body is sealed.
    """
    token_basis: TokenBasis | Literal["sealed"] | UnsetType = UNSET
    outline: str | UnsetType | None = UNSET


class Tombstone(Struct, frozen=True, kw_only=True):
    """The record of a removed or expired artifact."""

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
    """Whether the reference to the body was released. If False, a sweep has to release the
    reference.
    """
    thread: str | None = None
    channel: str | None = None


def from_ms(at_ms: int) -> datetime:
    """Convert milliseconds since 1970 to a datetime in UTC."""
    seconds, milliseconds = divmod(at_ms, 1000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=milliseconds * 1000)


def format_time(at: datetime) -> str:
    """Format a datetime in UTC in the form that is stored in documents."""
    return at.isoformat().replace("+00:00", "Z")


def to_ms(at: datetime) -> int:
    """Convert a datetime to milliseconds since 1970."""
    return round(at.timestamp() * 1000)


EXCHANGE_MEDIA_TYPE = "application/vnd.contextrelay.exchange+json"
"""Media type of a recorded model call. Artifacts of this type belong to their thread and are not
listed.
"""


def is_exchange(artifact: Artifact) -> bool:
    return artifact.media_type == EXCHANGE_MEDIA_TYPE
