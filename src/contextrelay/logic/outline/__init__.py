"""Outlines: the shape of a body by its kind, for a reader to decide what to load.

Rule: the same body gives the same outline, in time that grows with the body, whatever is in it. A
body that is not what it is called is outlined as what it can be read as, plain text in the end.
"""

from __future__ import annotations

from importlib import import_module

from contextrelay.limits import HEAD_BYTES_MAX, OUTLINE_TOKENS_DEFAULT
from contextrelay.logic.content.sniff import sniff_text
from contextrelay.logic.content.source import Source
from contextrelay.logic.outline.layout import Drawn, Piece, fit
from contextrelay.logic.slicing.source import is_binary
from contextrelay.model.artifact import ArtifactType
from contextrelay.model.inspect import Shape

# Each kind's file has a function `draw`, which returns None for what it cannot read.
_FILES: dict[ArtifactType, tuple[str, ...]] = {
    "json": ("notebook", "json"),
    "code": ("code.python", "code.by_line"),
    "markdown": ("markdown",),
    "log": ("log",),
    "tool_output": ("tool_output",),
    "csv": ("table",),
    "diff": ("diff",),
    "html": ("html",),
    "email": ("email",),
    "text": ("config", "xml"),
    "binary": ("binary",),
    "image": ("binary",),
    "pdf": ("binary",),
}


def outline(source: Source, kind: ArtifactType, tokens_max: int = OUTLINE_TOKENS_DEFAULT) -> Shape:
    """Outline a body within a number of tokens."""
    drawn = source.drawn.get(kind)
    if drawn is None:
        drawn = source.drawn[kind] = draw(source, kind)
    fitted = fit(drawn, tokens_max)
    way, _, value = drawn.next.removeprefix("--").partition(" ")
    return Shape(
        kind=drawn.kind,
        text=fitted.text,
        tokens=fitted.tokens,
        omitted=fitted.omitted,
        way=way.replace("-", "_"),
        value=value,
        patterns=fitted.patterns,
    )


def draw(source: Source, kind: ArtifactType) -> Drawn:
    """The pieces of an outline, by the first way to read the body that succeeds."""
    if kind == "binary" and source.is_text and not is_binary(_head(source)):
        # Text in another encoding than UTF-8, which is stored as what it is.
        kind, media_type = sniff_text(_head(source))
        source = source.read_as(media_type)
    files = _FILES[kind] if source.is_text else _FILES["binary"]
    for file in (*files, "text"):
        drawn: Drawn | None = import_module(f"contextrelay.logic.outline.{file}").draw(source)
        if drawn is not None:
            return drawn
    raise AssertionError("plain text reads everything")


def draw_plainly(source: Source, kind: ArtifactType, note: str) -> Drawn:
    """The pieces of an outline by lines alone, for what no other reader came to an end with."""
    file = "binary" if not source.is_text else "code.by_line" if kind == "code" else "text"
    drawn: Drawn = import_module(f"contextrelay.logic.outline.{file}").draw(source)
    return Drawn(drawn.kind, [*drawn.pieces[:1], Piece(0, (note,)), *drawn.pieces[1:]], drawn.next)


def _head(source: Source) -> bytes:
    return source.text[:HEAD_BYTES_MAX].encode("utf-8", "replace")[:HEAD_BYTES_MAX]
