"""Masked code as a reader walks it: its lines, where its brackets close, what it defines.

Rule: time grows with the text. A bracket that is never closed is looked for once; from then on, of
its kind, only those count whose end is near.
"""

from __future__ import annotations

import re
from collections import Counter

from msgspec import Struct

from contextrelay.limits import OUTLINE_STATEMENTS_MAX

DEFINITIONS_MAX = 20_000


class Definition(Struct, gc=False):
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


def _near(opens: str, closes: str) -> re.Pattern[str]:
    """What stands in brackets, up to four of them within each other."""
    plain = rf"[^{opens}{closes}]"
    inner = rf"{opens}{plain}*+{closes}"
    for _ in range(3):
        inner = rf"{opens}(?:{plain}++|{inner})*+{closes}"
    return re.compile(inner)


_NEAR = {"{": _near(r"\{", r"\}"), "(": _near(r"\(", r"\)"), "[": _near(r"\[", r"\]")}
_SIGNS = {"{": re.compile(r"[{}]"), "(": re.compile(r"[()]"), "[": re.compile(r"[\[\]]")}


class Code:
    """A masked text, and what was found in it."""

    def __init__(self, text: str, wanted: str | None) -> None:
        self.text = text
        self.found: list[Definition] = []
        self.more: Counter[str] = Counter()
        """What was left out, because there was too much, by kind."""
        self.note = ""
        """How far it was read, if not to its end."""
        self._steps = iter(range(OUTLINE_STATEMENTS_MAX))
        self._wanted = wanted
        self._counted, self._line = 0, 1
        self._open: set[str] = set()
        """Kinds of brackets of which one is never closed."""

    def goes_on(self) -> bool:
        """Whether there may be one more statement or bracket; to be asked at each."""
        return next(self._steps, None) is not None

    def read_to(self, at: int) -> None:
        """Note where reading ended."""
        if at < len(self.text):
            self.note = f"read up to line {self.line(at)}"

    def line(self, at: int) -> int:
        """The line of a place; places are asked about in their order, nearly."""
        if at >= self._counted:
            self._line += self.text.count("\n", self._counted, at)
        else:
            self._line -= self.text.count("\n", at, self._counted)
        self._counted = at
        return self._line

    def keep(self, definition: Definition) -> None:
        """Add what was found, unless there is too much that nobody asked for."""
        if len(self.found) < DEFINITIONS_MAX or definition.name == self._wanted:
            self.found.append(definition)
        else:
            self.more["method" if definition.owner else definition.kind] += 1

    def end(self, at: int) -> int:
        """Where the bracket that opens here is closed: the place behind; 0 if it never is."""
        sign = self.text[at]
        near = _NEAR[sign].match(self.text, at)
        if near is not None:
            return near.end()
        if sign in self._open:
            return 0
        depth = 0
        for each in _SIGNS[sign].finditer(self.text, at):
            depth += 1 if self.text[each.start()] == sign else -1
            if not depth:
                return each.end()
        self._open.add(sign)
        return 0


_BLANKS = re.compile(r"\s++")


def in_one_line(text: str) -> str:
    """A piece of code with one blank for each space between its words."""
    return _BLANKS.sub(" ", text[:400]).strip()
