"""Sources: a body for outlines, with text and lines computed on demand."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from contextrelay.limits import OUTLINE_LINE_CHARS_MAX, OUTLINE_LINES_MAX
from contextrelay.model.artifact import ArtifactType

if TYPE_CHECKING:
    from contextrelay.content.outline.layout import OutlineDraft


class Source:
    """A body, or the head of a large one, with its declared properties."""

    def __init__(self, body: bytes, text: str, media_type: str, name: str, size_bytes: int) -> None:
        self.body = body
        self.text = text
        self.media_type = media_type.partition(";")[0].strip().lower()
        self.name = name
        self.size_bytes = size_bytes
        self.drafts: dict[ArtifactType, OutlineDraft] = {}  # Outlines drawn before, by type.

    @classmethod
    def of(cls, body: bytes, media_type: str, name: str, size_bytes: int) -> Source:
        """Decode a body that is text: UTF-8, UTF-16 with a byte order mark, or nearly UTF-8."""
        text = _text(body)
        # Old Mac line ends; replacing them keeps all positions.
        text = text.replace("\r", "\n") if "\r" in text and "\n" not in text else text
        return cls(body, text, media_type, name, size_bytes)

    def read_as(self, media_type: str) -> Source:
        """Return the same body with another media type."""
        return Source(self.body, self.text, media_type, self.name, self.size_bytes)

    def plain(self) -> Source:
        """Return the same body without terminal colours; its lines stay the same."""
        text = without_colours(self.text)
        if text is self.text:
            return self
        return Source(self.body, text, self.media_type, self.name, self.size_bytes)

    @property
    def is_text(self) -> bool:
        return bool(self.text) or not self.body

    @property
    def is_partial(self) -> bool:
        """Whether the body continues after the part in memory."""
        return self.size_bytes > len(self.body)

    @cached_property
    def lines(self) -> list[str]:
        """The lines without line ends; outlines number them from 1."""
        lines = self.text.split("\n", OUTLINE_LINES_MAX)
        if lines and (not lines[-1] or len(lines) > OUTLINE_LINES_MAX):
            lines.pop()
        return lines

    @cached_property
    def line_count(self) -> int:
        """The number of lines, including those not read."""
        return self.text.count("\n") + (not self.text.endswith("\n") and bool(self.text))

    @cached_property
    def short_lines(self) -> list[str]:
        """The lines, truncated to a length that is safe for patterns."""
        if max(map(len, self.lines), default=0) <= OUTLINE_LINE_CHARS_MAX:
            return self.lines
        return [line[:OUTLINE_LINE_CHARS_MAX] for line in self.lines]

    def measure(self) -> str:
        """Return its size in words."""
        partly = f", outlined: the first {len(self.body)} bytes" if self.is_partial else ""
        if self.line_count > OUTLINE_LINES_MAX:
            partly = f", outlined: the first {OUTLINE_LINES_MAX} lines"
        lines = f"{self.line_count} line{'s' * (self.line_count != 1)}"
        return f"{lines}, {self.size_bytes} bytes{partly}"


_COLOURS = re.compile(r"\x1b\[[\d;]{0,40}m")


def without_colours(text: str) -> str:
    """Return a text without terminal colour codes; the same object if it has none."""
    # A single character is found several times faster than two.
    return _COLOURS.sub("", text) if "\x1b" in text and "\x1b[" in text else text


def _text(body: bytes) -> str:
    """Return the text of a body, or "" if it is not text."""
    if body.startswith((b"\xff\xfe", b"\xfe\xff")):
        try:
            return body.decode("utf-16")
        except UnicodeDecodeError:
            return ""
    if b"\0" in body:
        return ""
    text = body.decode("utf-8", "replace")
    # A few invalid bytes mean a legacy encoding or a cut; many mean binary data.
    if text.count("\ufffd") * 10 > len(text):
        return ""
    return text.removeprefix("\ufeff")
