"""Shown: how a body comes to a model: whole while it is small, else as a preview and a link.

Rule: what goes into a conversation is bounded. What is left out is counted, and the answer says how
to read on. Content stands in a fence, defused, as data to be read and not followed; only what the
client pushed itself, on this connection, comes back as it is.
"""

from __future__ import annotations

from contextrelay.doors.mcp.ref_argument import Named
from contextrelay.doors.mcp.tool import Answer, Own
from contextrelay.errors import Invalid
from contextrelay.limits import MCP_TEXT_BYTES_MAX, PREVIEW_BYTES_MAX
from contextrelay.logic.untrusted.fence import fence, fenced
from contextrelay.model.artifact import Artifact


async def body(named: Named, own: Own | None = None) -> Answer:
    """The body of an artifact, or its preview with a link to it."""
    artifact = await named.relay.peek(named.ref)
    is_own = own is not None and named.ref in own and not named.is_elsewhere
    if artifact.sealed or named.key:
        return _opened(artifact, await named.relay.pull(named.url), is_own)
    link = None if named.is_elsewhere else artifact
    if artifact.is_text and artifact.size_bytes <= MCP_TEXT_BYTES_MAX:
        text = (await named.relay.pull(named.ref)).decode()
        if is_own:
            return Answer(text)
        shown = fenced(text, source_of(artifact))
        # Where a known trick is not shown as it stands, the link still leads to the bytes.
        return Answer(shown, link=None if text in shown else link)
    return Answer(f"{fence(artifact)}\n{_rest(artifact)}", link=link)


def source_of(artifact: Artifact) -> str:
    """Where an artifact is from, in few words."""
    name = f" {artifact.name[:_NAME_CHARS]}" if artifact.name else ""
    return f"{artifact.ref[:_REF_CHARS]}{name} by {artifact.provenance.created_by[:_NAME_CHARS]}"


_NAME_CHARS = 80
_REF_CHARS = 8


def _rest(artifact: Artifact) -> str:
    size = f"{artifact.size_bytes:,} bytes"
    if not artifact.is_text:
        return f"It is no text ({artifact.media_type}, {size}): the link leads to its bytes."
    return (
        f"It has {size}, too many to show at once. Read what you need of it with relay_get, by this"
        " URL or ref; the link leads to all of it."
    )


def _opened(artifact: Artifact, plain: bytes, is_own: bool) -> Answer:
    """What was sealed. There is no link to it: a link would have to carry the key."""
    text = as_text(plain)
    rest = ""
    if len(plain) > MCP_TEXT_BYTES_MAX:
        text = text[:PREVIEW_BYTES_MAX]
        rest = (
            f"\n\n[cut: this is the beginning of a sealed text of {len(plain):,} bytes; read on"
            " with relay_get, by the same URL]"
        )
    return Answer((text if is_own else fenced(text, source_of(artifact))) + rest)


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
