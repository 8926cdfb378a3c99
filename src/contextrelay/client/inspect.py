"""One look into a ref: a piece of an artifact, as the tools for models ask for it."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from contextrelay.errors import Invalid
from contextrelay.limits import POINTER_CHARS_MAX
from contextrelay.verbs import GrepPattern, GrepPatterns, SpanText, Title

_WAYS = ("lines", "json_pointer", "rows", "heading", "symbol", "bytes")


class PieceChoice(Struct, frozen=True, kw_only=True):
    """Which piece is wanted: one of these, or none for a digest."""

    outline: Annotated[bool, Meta(description="Its shape.")] = False
    lines: Annotated[SpanText, Meta(description="A:B from 1; -20: the end.")] | None = None
    grep: (
        Annotated[
            GrepPattern | GrepPatterns,
            Meta(description="RE2; of several, what has most of them."),
        ]
        | None
    ) = None
    context: Annotated[int, Meta(ge=0, le=20, description="Lines around a match.")] = 0
    after_line: Annotated[int, Meta(ge=0, description="Matches behind this line only.")] = 0
    json_pointer: (
        Annotated[str, Meta(max_length=POINTER_CHARS_MAX, description="/a/0/b")] | None
    ) = None
    heading: Annotated[Title, Meta(description="A section.")] | None = None
    symbol: Annotated[Title, Meta(description="Of code.")] | None = None
    rows: Annotated[SpanText, Meta(description="A:B of a table, from 0.")] | None = None
    bytes: Annotated[SpanText, Meta(description="A:B from 0.")] | None = None

    def ways(self) -> dict[str, Any]:
        """The one field of `Slice` that is asked for; none for an outline, matches or a digest.

        Raises:
            Invalid: several pieces are asked for.
        """
        ways = {way: value for way in _WAYS if (value := getattr(self, way)) is not None}
        if len(ways) + self.outline + (self.grep is not None) > 1:
            raise Invalid("this asks for several pieces at once", "ask for one of them")
        return ways
