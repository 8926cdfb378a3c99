"""Masked code as a reader walks it: its lines, where its brackets close, what it defines.

Rule: time grows with the text. A bracket that is never closed is looked for once; from then on, of
its kind, only those count whose end is near.
"""

from __future__ import annotations

import re
from collections import Counter

from msgspec import Struct

from contextrelay.limits import OUTLINE_PIECES_MAX

OUTLINE_STATEMENTS_MAX = 500_000


DEFINITIONS_MAX = 20_000


class CodeDefinition(Struct, gc=False):
    """Something that is defined, and the lines that it takes."""

    kind: str
    name: str
    line: int
    first: int
    """Where it begins: decorators, its type."""
    last: int = 0
    signature: str = ""
    owner: str = ""
    """What it is a member of, "" for what stands by itself."""
    is_local: bool = False


def _near(opens: str, closes: str) -> str:
    """What stands in brackets, up to four of them within each other."""
    plain = rf"[^{opens}{closes}]"
    inner = rf"{opens}{plain}*+{closes}"
    for _ in range(3):
        inner = rf"{opens}(?:{plain}++|{inner})*+{closes}"
    return inner


_PAIRS = {"{": (r"\{", r"\}"), "(": (r"\(", r"\)"), "[": (r"\[", r"\]")}
_NEAR = {sign: re.compile(_near(*pair)) for sign, pair in _PAIRS.items()}
# What is near in one step, other brackets one by one.
_SIGNS = {
    sign: re.compile(rf"{_near(*pair)}|[{pair[0]}{pair[1]}]") for sign, pair in _PAIRS.items()
}
_ENDS_MAX = 1_000
_BLANKS = re.compile(r"\s++")
_SIGNATURE_CHARS_MAX = 400


class Code:
    """A masked text, and what was found in it."""

    def __init__(self, text: str, wanted: str | None) -> None:
        self.text = text
        self.found: list[CodeDefinition] = []
        self.more: Counter[str] = Counter()
        """What was left out, because there was too much, by kind."""
        self.note = ""
        """How far it was read, if not to its end."""
        self._steps_left = OUTLINE_STATEMENTS_MAX
        self.is_outline = wanted is None
        """Whether first and last lines do not matter."""
        self._wanted = wanted
        self._counted, self._line = 0, 1
        self._ends: dict[int, int] = {}
        """Where brackets end that were looked for, because they may be asked about again."""
        self._open: set[str] = set()
        """Kinds of brackets of which one is never closed."""

    def goes_on(self) -> bool:
        """Whether there may be one more statement or bracket; to be asked at each."""
        self._steps_left -= 1
        return self._steps_left >= 0

    def read_to(self, at: int) -> None:
        """Note where reading ended."""
        if at < len(self.text):
            self.note = f"read up to line {self.line(at)}"

    def ends(self, found: CodeDefinition, at: int) -> None:
        """Note the last line of what was found."""
        if not self.is_outline:
            found.last = self.line(at)

    def line(self, at: int) -> int:
        """The line of a place; places are asked about in their order, nearly."""
        if at >= self._counted:
            self._line += self.text.count("\n", self._counted, at)
        else:
            self._line -= self.text.count("\n", at, self._counted)
        self._counted = at
        return self._line

    def keep(self, definition: CodeDefinition) -> None:
        """Add what was found, unless there is too much that nobody asked for."""
        if len(self.found) < DEFINITIONS_MAX or definition.name == self._wanted:
            self.found.append(definition)
        else:
            self.more["method" if definition.owner else definition.kind] += 1

    def signature(self, start: int, stop: int) -> str:
        """A piece of code in one line; of what no outline shows, nothing."""
        if self.is_outline and len(self.found) > OUTLINE_PIECES_MAX:
            return ""
        return _BLANKS.sub(" ", self.text[start : min(stop, start + _SIGNATURE_CHARS_MAX)]).strip()

    def end(self, at: int) -> int:
        """Where the bracket that opens here is closed: the place behind; 0 if it never is."""
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
