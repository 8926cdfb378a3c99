"""The pieces of an artifact that the tools for models can request."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from contextrelay.errors import Invalid
from contextrelay.limits import POINTER_CHARS_MAX
from contextrelay.verbs import GrepPattern, GrepPatterns, SpanText, Title

_WAYS = ("lines", "json_pointer", "rows", "heading", "symbol", "bytes")


class PieceChoice(Struct, frozen=True, kw_only=True):
    """The requested piece: one of these fields, or none of them for a digest."""

    outline: Annotated[bool, Meta(description="Outline instead of content.")] = False
    lines: Annotated[SpanText, Meta(description="A:B from 1; -20 for the last 20.")] | None = None
    grep: (
        Annotated[
            GrepPattern | GrepPatterns,
            Meta(description="RE2 pattern; with several, best matches first."),
        ]
        | None
    ) = None
    context: Annotated[int, Meta(ge=0, le=20, description="Context lines around a match.")] = 0
    after_line: Annotated[int, Meta(ge=0, description="Only matches after this line.")] = 0
    json_pointer: (
        Annotated[str, Meta(max_length=POINTER_CHARS_MAX, description="/a/0/b")] | None
    ) = None
    heading: Annotated[Title, Meta(description="A heading of a section.")] | None = None
    symbol: Annotated[Title, Meta(description="A name in code.")] | None = None
    rows: Annotated[SpanText, Meta(description="A:B of table rows, from 0.")] | None = None
    bytes: Annotated[SpanText, Meta(description="A:B from 0.")] | None = None

    def ways(self) -> dict[str, Any]:
        """Return the field of `Slice` for the requested piece; an empty dict for an outline,
        matches or a digest.

        Raises:
            Invalid: several pieces are requested.
        """
        ways = {way: value for way in _WAYS if (value := getattr(self, way)) is not None}
        if len(ways) + self.outline + (self.grep is not None) > 1:
            raise Invalid("only one piece can be requested at a time", "pass one of these options")
        return ways
