"""Outputs of tools: read as what they look like, and as a log if some lines tell of errors."""

from __future__ import annotations

from importlib import import_module

from contextrelay.limits import HEAD_BYTES_MAX
from contextrelay.logic.content.sniff import sniff_text
from contextrelay.logic.content.source import Source
from contextrelay.logic.outline import log
from contextrelay.logic.outline.layout import Drawn
from contextrelay.logic.outline.log import is_error_line

_FILES = {
    "json": "json",
    "csv": "table",
    "diff": "diff",
    "html": "html",
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
        return log.draw(source)
    return None
