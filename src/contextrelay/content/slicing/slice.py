"""Slices: read the piece of a source that a selector names, by lines, bytes, JSON path, rows or
names.

Rule: works the same for a body in a store, in memory, or opened from a seal: only a source is
needed.
"""

from __future__ import annotations

import shlex
from importlib import import_module

from msgspec import Struct

from contextrelay.content.slicing.source import (
    FittedPiece,
    SliceSource,
    as_utf8,
    find_marks,
    memory_reader,
    parse_range,
)
from contextrelay.content.tokens import (
    TOKENIZER_DEFAULT,
    count_tokens,
    estimate_tokens,
    measure,
)
from contextrelay.errors import Invalid
from contextrelay.limits import PIECE_TOKENS_MAX, PIECE_TOKENS_MIN, ROW_BODY_BYTES_MAX
from contextrelay.model.artifact import ArtifactType
from contextrelay.model.inspect import Piece, Selector
from contextrelay.model.tokens import Spent, TokenCount

_SHORT_REF_CHARS = 8
# Module and function of each selector, imported on first use, because few calls need most of them.
_WAYS = {
    "lines": ("ranges", "slice_lines"),
    "bytes": ("ranges", "slice_bytes"),
    "tokens": ("ranges", "slice_tokens"),
    "json_pointer": ("json_pointer", "slice_at_pointer"),
    "json_path": ("json_path", "slice_by_path"),
    "rows": ("rows", "slice_rows"),
    "heading": ("names", "slice_section"),
    "symbol": ("names", "slice_definition"),
}
_SPANS = ("lines", "bytes", "tokens", "rows")
_DESCRIBED = ("ref", "type", "media_type", "name", "is_text", "size_bytes", "line_count", "notes")


def selector_of(request: object, columns: tuple[str, ...]) -> Selector:
    """Return the single selector of a slice request; each possible one is a field of it.

    Raises:
        Invalid: there is none, or more than one, or columns without rows.
    """
    ways = {way: value for way in _WAYS if (value := getattr(request, way)) is not None}
    if len(ways) > 1:
        got = " and ".join(ways)
        raise Invalid(f"a slice takes one selector, got {got}", "pass only one of them")
    if not ways and columns:
        ways = {"rows": ":"}
    if not ways:
        raise Invalid("a slice needs a selector", f"pass one of {', '.join(_WAYS)}")
    ((way, value),) = ways.items()
    if columns and way != "rows":
        raise Invalid(f"columns cannot be combined with {way}", "omit columns, or pass rows")
    return Selector(way, value, columns)  # pyright: ignore[reportArgumentType]


def read_piece(source: SliceSource, selector: Selector, tokens_max: int) -> Piece:
    """Return the piece that a selector names, within a number of tokens.

    Raises:
        Invalid: the selector does not apply to this body, or the body is binary.
        NotFound: there is nothing at that position.
        TooLarge: the body exceeds a limit of the selector.
    """
    if not PIECE_TOKENS_MIN <= tokens_max <= PIECE_TOKENS_MAX:
        hint = f"pass {PIECE_TOKENS_MIN} to {PIECE_TOKENS_MAX}"
        raise Invalid(f"invalid tokens_max {tokens_max}", hint)
    text = as_utf8(source)
    way = selector.way
    place = parse_range(selector.value, way) if way in _SPANS else selector.value
    columns = (selector.columns,) if way == "rows" else ()
    module, function = _WAYS[way]
    slice_by = getattr(import_module(f"contextrelay.content.slicing.{module}"), function)
    fitted: FittedPiece = slice_by(text, place, tokens_max, *columns)
    command = [f"relay get {source.ref[:_SHORT_REF_CHARS]}"] if fitted.next_args else []
    for name, value in fitted.next_args.items():
        spelled = ",".join(map(str, value)) if name == "columns" else str(value)
        command.append(f"--{name.replace('_', '-')} {shlex.quote(spelled)}")
    return Piece(
        ref=source.ref,
        way=way,
        at=fitted.at,
        text=fitted.text,
        left_out=fitted.left_out,
        next=" ".join(command),
        next_args=dict(fitted.next_args),
        notes=(*text.notes, *fitted.notes),
        spent=spent(count_tokens(fitted.text), source),
    )


class SliceRequest(Struct, frozen=True, kw_only=True):
    """A slice request for a body in memory, with the declared properties of the body."""

    ref: str
    type: ArtifactType
    media_type: str
    name: str | None
    is_text: bool
    size_bytes: int
    line_count: int | None
    whole: TokenCount | None = None  # The tokens of the whole body, if known.
    notes: tuple[str, ...] = ()
    selector: Selector
    tokens_max: int


def slice_request(
    source: SliceSource, selector: Selector, tokens_max: int, whole: TokenCount | None = None
) -> SliceRequest:
    """Build a slice request to run where the source's body is in memory."""
    described = {name: getattr(source, name) for name in _DESCRIBED}
    return SliceRequest(**described, whole=whole, selector=selector, tokens_max=tokens_max)


def slice_body(request: SliceRequest, body: bytes) -> Piece:
    """Return the requested piece of a body in memory. Raises the same errors as `read_piece`."""

    def whole() -> TokenCount | None:
        if request.whole is not None or not request.is_text or len(body) > ROW_BODY_BYTES_MAX:
            return request.whole
        return measure(body.decode(errors="replace"))

    read = memory_reader(body)
    source = SliceSource(
        **{name: getattr(request, name) for name in _DESCRIBED},
        read=read,
        marks=lambda: find_marks(read(0, len(body)), len(body)),
        whole=whole,
    )
    return read_piece(source, request.selector, request.tokens_max)


def spent(tokens: int, source: SliceSource) -> Spent:
    """Return the tokens of the reply, and those of the whole body."""
    whole = source.whole()
    if whole is None:
        estimated = max(tokens, estimate_tokens(source.size_bytes))
        whole = TokenCount(estimated, "estimated", TOKENIZER_DEFAULT)
    return Spent.of(tokens, whole)
