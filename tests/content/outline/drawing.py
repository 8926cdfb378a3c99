"""What the tests of outlines share: a text in, its outline out."""

from __future__ import annotations

from contextrelay.content.artifact_type import artifact_type
from contextrelay.content.description import Description
from contextrelay.content.outline import outline
from contextrelay.content.outline.code import grammars
from contextrelay.content.source import Source
from contextrelay.model.inspect import BodyOutline

# In a parser process, grammars are always allowed.
grammars.allow()


def outlined(body: str | bytes, name: str, tokens_max: int = 500) -> BodyOutline:
    """The outline of what a push under a name would store."""
    raw = body.encode() if isinstance(body, str) else body
    seen = Description()
    seen.feed(raw)
    kind, media_type = artifact_type(name, None, seen.head, seen.is_text)
    return outline(Source.of(raw, media_type, name, len(raw)), kind, tokens_max)
