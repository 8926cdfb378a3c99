"""Sources: a body as outlines read it, its text and lines made once, when asked for."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from contextrelay.limits import OUTLINE_LINE_CHARS_MAX, OUTLINE_LINES_MAX
from contextrelay.model.artifact import ArtifactType

if TYPE_CHECKING:
    from contextrelay.content.outline.layout import Drawn


class Source:
    """A body, or the first part of a large one, with what is said of it."""

    def __init__(self, body: bytes, text: str, media_type: str, name: str, size_bytes: int) -> None:
        self.body = body
        self.text = text
        self.media_type = media_type.partition(";")[0].strip().lower()
        self.name = name
        self.size_bytes = size_bytes
        self.drawn: dict[ArtifactType, Drawn] = {}
        """What was drawn of it before, by what it was taken for."""

    @classmethod
    def of(cls, body: bytes, media_type: str, name: str, size_bytes: int) -> Source:
        """Read a body as text if it is one: UTF-8, or UTF-16 with its mark, or nearly UTF-8."""
        text = _text(body)
        # Lines that end in an old way; what stands where does not change by this.
        text = text.replace("\r", "\n") if "\r" in text and "\n" not in text else text
        return cls(body, text, media_type, name, size_bytes)

    def read_as(self, media_type: str) -> Source:
        """The same body, taken for something else."""
        return Source(self.body, self.text, media_type, self.name, self.size_bytes)

    def plain(self) -> Source:
        """The same body without the colours of a terminal; its lines are the same."""
        text = without_colours(self.text)
        if text is self.text:
            return self
        return Source(self.body, text, self.media_type, self.name, self.size_bytes)

    @property
    def is_text(self) -> bool:
        return bool(self.text) or not self.body

    @property
    def is_partial(self) -> bool:
        """Whether the body goes on behind what is here."""
        return self.size_bytes > len(self.body)

    @cached_property
    def lines(self) -> list[str]:
        """The lines without their ends, numbered from 1 in what an outline says."""
        lines = self.text.split("\n", OUTLINE_LINES_MAX)
        if lines and (not lines[-1] or len(lines) > OUTLINE_LINES_MAX):
            lines.pop()
        return lines

    @cached_property
    def line_count(self) -> int:
        """How many lines there are, also where not all are read."""
        return self.text.count("\n") + (not self.text.endswith("\n") and bool(self.text))

    @cached_property
    def short_lines(self) -> list[str]:
        """The lines, each cut to a length that a pattern may be tried on."""
        if max(map(len, self.lines), default=0) <= OUTLINE_LINE_CHARS_MAX:
            return self.lines
        return [line[:OUTLINE_LINE_CHARS_MAX] for line in self.lines]

    def measure(self) -> str:
        """How long it is, in words."""
        partly = f", outlined: the first {len(self.body)} bytes" if self.is_partial else ""
        if self.line_count > OUTLINE_LINES_MAX:
            partly = f", outlined: the first {OUTLINE_LINES_MAX} lines"
        return f"{_counted(self.line_count, 'line')}, {self.size_bytes} bytes{partly}"


_COLOURS = re.compile(r"\x1b\[[\d;]{0,40}m")


def without_colours(text: str) -> str:
    """A text without the codes that colour it in a terminal; the same one if it has none."""
    return _COLOURS.sub("", text) if "\x1b[" in text else text


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _text(body: bytes) -> str:
    """The text of a body, "" if it is none."""
    if body.startswith((b"\xff\xfe", b"\xfe\xff")):
        try:
            return body.decode("utf-16")
        except UnicodeDecodeError:
            return ""
    if b"\0" in body:
        return ""
    text = body.decode("utf-8", "replace")
    # A few odd bytes are an old encoding or a cut; many are no text.
    if text.count("\ufffd") * 10 > len(text):
        return ""
    return text.removeprefix("\ufeff")
