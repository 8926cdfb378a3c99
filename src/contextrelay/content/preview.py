"""Previews: the defused and truncated head of a body, for prompts.

Rule: a preview never exceeds PREVIEW_BYTES_MAX, counted after defusing. Twice as much is defused
before the cut, so that a phrase across the cut is found. A truncated text ends with a line of three
dots.
"""

from __future__ import annotations

import codecs
import unicodedata

from contextrelay.content.untrusted.defuse import defuse
from contextrelay.content.untrusted.normalize import TOKEN
from contextrelay.limits import PREVIEW_BYTES_MAX, PREVIEW_HEAD_BYTES_MAX
from contextrelay.model.artifact import Preview

_CUT_LINE = "..."
# The longest replacement is `[SANITIZED]`.
_TOKEN_CHARS_MAX = 11
# No writing system has more marks on one letter; cut between them.
_MARKS_MAX = 30


def preview(head: bytes, size_bytes: int, line_count: int, is_text: bool) -> Preview:
    """Make the preview of a body from its first bytes.

    `truncated` says that the body has more than the text shows: the rest of a long text, or all of
    a binary body. `patterns` names what was found in the head, also shortly after the cut.
    """
    if not is_text:
        return Preview(
            text=f"[binary, {size_bytes} bytes]",
            truncated=size_bytes > 0,
            size_bytes=size_bytes,
            line_count=0,
        )
    head = head[:PREVIEW_HEAD_BYTES_MAX]
    is_whole = len(head) >= size_bytes
    # An incomplete last character is dropped; the rest of it may be in the body.
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(head, final=is_whole)
    if not is_whole:
        # The other half of a line end may follow, and half of one would be shown as a hidden
        # character.
        text = text.removesuffix("\r")
    defused = defuse(text)
    shown = defused.text
    is_cut = not is_whole or len(shown.encode()) > PREVIEW_BYTES_MAX
    if is_cut:
        shown = shown[: _cut(shown)]
        shown += _CUT_LINE if shown.endswith("\n") else f"\n{_CUT_LINE}"
    return Preview(
        text=shown,
        truncated=is_cut,
        size_bytes=size_bytes,
        line_count=line_count,
        patterns=defused.patterns,
    )


def hidden(size_bytes: int) -> Preview:
    """Return the preview of a sealed body, which shows nothing of it."""
    return Preview(
        text=f"[sealed, {size_bytes} bytes]", truncated=True, size_bytes=size_bytes, line_count=0
    )


def _cut(text: str) -> int:
    """Return where to cut: after the last line that fits, else after the last character."""
    room_bytes = PREVIEW_BYTES_MAX - len(f"\n{_CUT_LINE}")
    fitting = text.encode()[:room_bytes].decode(errors="ignore")
    line_end = fitting.rfind("\n") + 1
    return line_end or _between_characters(text, len(fitting))


def _between_characters(text: str, stop: int) -> int:
    """Step back to avoid splitting one of our replacements, or a letter and its marks."""
    for token in TOKEN.finditer(text, max(0, stop - _TOKEN_CHARS_MAX), stop + _TOKEN_CHARS_MAX):
        if token.start() < stop < token.end():
            return token.start()
    base = stop
    while 0 < base < len(text) and unicodedata.combining(text[base]):
        base -= 1
        if stop - base > _MARKS_MAX:
            return stop
    return base or stop
