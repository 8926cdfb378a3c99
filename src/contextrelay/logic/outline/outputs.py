"""Outputs of tools: read as what they look like, and as a log if some lines tell of errors."""

from __future__ import annotations

from importlib import import_module

from contextrelay.limits import HEAD_BYTES_MAX
from contextrelay.logic.outline.logs import is_error_line
from contextrelay.logic.outline.pieces import Drawn
from contextrelay.logic.outline.source import Source
from contextrelay.logic.sniffing import sniff_text

_FILES = {
    "json": "shapes",
    "csv": "tables",
    "diff": "diffs",
    "html": "pages",
    "markdown": "markdown",
}
_LINES_LOOKED_AT = 20_000


def draw(source: Source) -> Drawn | None:
    """The outline of what a tool printed."""
    kind, media_type = sniff_text(source.body[:HEAD_BYTES_MAX])
    if kind in _FILES:
        drawn: Drawn | None = import_module(f"contextrelay.logic.outline.{_FILES[kind]}").draw(
            source.read_as(media_type)
        )
        if drawn is not None:
            return drawn
    if kind == "log" or any(map(is_error_line, source.short_lines[:_LINES_LOOKED_AT])):
        from contextrelay.logic.outline import logs

        return logs.draw(source)
    return None
