"""Masked code for parsing: its lines, its matching brackets and its definitions.

Rule: linear time. An unclosed bracket is searched for once; afterwards only brackets of its kind
that close nearby count.
"""

from __future__ import annotations

import re
from collections import Counter

from msgspec import Struct

from contextrelay.limits import OUTLINE_PIECES_MAX

OUTLINE_STATEMENTS_MAX = 500_000


DEFINITIONS_MAX = 20_000


class CodeDefinition(Struct, gc=False):
    """A definition and its lines."""

    kind: str
    name: str
    line: int
    first: int
    """Where it begins, including decorators and its type."""
    last: int = 0
    signature: str = ""
    owner: str = ""
    """The class or type that it is a member of, "" for none."""
    is_local: bool = False


def _near(opens: str, closes: str) -> str:
    """Return a pattern for the content of brackets, nested up to four levels."""
    plain = rf"[^{opens}{closes}]"
    inner = rf"{opens}{plain}*+{closes}"
    for _ in range(3):
        inner = rf"{opens}(?:{plain}++|{inner})*+{closes}"
    return inner


_PAIRS = {"{": (r"\{", r"\}"), "(": (r"\(", r"\)"), "[": (r"\[", r"\]")}
_NEAR = {sign: re.compile(_near(*pair)) for sign, pair in _PAIRS.items()}
# Short brackets in one step, other brackets one by one.
_SIGNS = {
    sign: re.compile(rf"{_near(*pair)}|[{pair[0]}{pair[1]}]") for sign, pair in _PAIRS.items()
}
_ENDS_MAX = 1_000
_BLANKS = re.compile(r"\s++")
_SIGNATURE_CHARS_MAX = 400


class Code:
    """A masked text and the definitions found in it."""

    def __init__(self, text: str, wanted: str | None) -> None:
        self.text = text
        self.found: list[CodeDefinition] = []
        self.more: Counter[str] = Counter()
        """Number of definitions beyond the limit, by kind."""
        self.note = ""
        """How far the text was read, if not to the end."""
        self._steps_left = OUTLINE_STATEMENTS_MAX
        self.is_outline = wanted is None
        """Whether start and end lines can be omitted."""
        self._wanted = wanted
        self._counted, self._line = 0, 1
        self._ends: dict[int, int] = {}
        """Cached positions of closing brackets, because they may be looked up again."""
        self._open: set[str] = set()
        """Kinds of brackets with an unclosed one."""

    def goes_on(self) -> bool:
        """Return False once the limit is reached; called for each statement and bracket."""
        self._steps_left -= 1
        return self._steps_left >= 0

    def read_to(self, at: int) -> None:
        """Record where reading ended."""
        if at < len(self.text):
            self.note = f"read up to line {self.line(at)}"

    def ends(self, found: CodeDefinition, at: int) -> None:
        """Set the last line of a definition."""
        if not self.is_outline:
            found.last = self.line(at)

    def line(self, at: int) -> int:
        """Return the line of a position; positions are passed in nearly ascending order."""
        if at >= self._counted:
            self._line += self.text.count("\n", self._counted, at)
        else:
            self._line -= self.text.count("\n", at, self._counted)
        self._counted = at
        return self._line

    def keep(self, definition: CodeDefinition) -> None:
        """Add a definition, unless the limit is reached and it was not requested."""
        if len(self.found) < DEFINITIONS_MAX or definition.name == self._wanted:
            self.found.append(definition)
        else:
            self.more["method" if definition.owner else definition.kind] += 1

    def signature(self, start: int, stop: int) -> str:
        """Return a piece of code on one line, or "" if no outline shows it."""
        if self.is_outline and len(self.found) > OUTLINE_PIECES_MAX:
            return ""
        return _BLANKS.sub(" ", self.text[start : min(stop, start + _SIGNATURE_CHARS_MAX)]).strip()

    def end(self, at: int) -> int:
        """Return the position after the closing bracket, or 0 if there is none."""
        sign = self.text[at]
        near = _NEAR[sign].match(self.text, at)
        if near is not None:
            return near.end()
        if sign in self._open:
            return 0
        if at in self._ends:
            return self._ends[at]
        depth = 1
        for each in _SIGNS[sign].finditer(self.text, at + 1):
            start, end = each.span()
            if end - start > 1:
                continue
            depth += 1 if self.text[start] == sign else -1
            if not depth:
                if len(self._ends) > _ENDS_MAX:
                    self._ends.clear()
                self._ends[at] = end
                return end
        self._open.add(sign)
        return 0
