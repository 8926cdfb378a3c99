"""Shown: how a body comes to a model: as it is while it is small, else as a preview and a link.

Rule: what goes into a conversation is bounded. What is left out is counted, and the answer says how
to read on. A preview stands in a fence, as data to be read and not followed.
"""

from __future__ import annotations

from contextrelay.doors.mcp.ref_argument import Named
from contextrelay.doors.mcp.tool import Answer
from contextrelay.errors import Invalid
from contextrelay.limits import MCP_TEXT_BYTES_MAX, PREVIEW_BYTES_MAX
from contextrelay.model.artifact import Artifact


async def body(named: Named) -> Answer:
    """The body of an artifact, or its preview with a link to it."""
    artifact = await named.relay.peek(named.ref)
    if artifact.sealed or named.key:
        return _opened(await named.relay.pull(named.url))
    if artifact.is_text and artifact.size_bytes <= MCP_TEXT_BYTES_MAX:
        return Answer((await named.relay.pull(named.ref)).decode())
    from contextrelay.logic.untrusted.fence import fence

    return Answer(
        f"{fence(artifact)}\n{_rest(artifact)}", link=None if named.is_elsewhere else artifact
    )


def _rest(artifact: Artifact) -> str:
    size = f"{artifact.size_bytes:,} bytes"
    if not artifact.is_text:
        return f"It is no text ({artifact.media_type}, {size}): the link leads to its bytes."
    return (
        f"It has {size}, too many to show at once. Read what you need of it with relay_get, by this"
        " URL or ref; the link leads to all of it."
    )


def _opened(plain: bytes) -> Answer:
    """What was sealed. There is no link to it: a link would have to carry the key."""
    text = as_text(plain)
    if len(plain) <= MCP_TEXT_BYTES_MAX:
        return Answer(text)
    return Answer(
        f"{text[:PREVIEW_BYTES_MAX]}\n\n[cut: this is the beginning of a sealed text of"
        f" {len(plain):,} bytes; read on with relay_get, by the same URL]"
    )


def as_text(plain: bytes) -> str:
    """Bytes as a model reads them.

    Raises:
        Invalid: they are no text.
    """
    try:
        return plain.decode()
    except UnicodeDecodeError:
        raise Invalid(
            f"these {len(plain):,} bytes are no text", "pull them with: relay pull URL -o FILE"
        ) from None
