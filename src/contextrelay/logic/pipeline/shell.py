"""Commands with values: how a value is written in a line for the shell, and where it is refused.

Rule: a value travels as a variable, and is never part of a line. Where the shell would not look it
up, or would read what it holds as more than a text, it is refused when the pipeline is read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from contextrelay.errors import Invalid
from contextrelay.logic.pipeline.template import Template, Value

_WORD_ENDS = " \t\n;&|()<>"
_NOWHERE = {
    "'": ("between single quotes", "use double quotes, or none"),
    "#": ("in a comment", "leave it out"),
    "`": ("between backticks", "use $(...)"),
    "${": ("in ${...}", "give it to a variable first, in env:"),
    "((": ("in arithmetic, which runs what it holds", "give it to a variable first, in env:"),
    "<<'": ("in a here-document whose end is in quotes", "leave the quotes of its end out"),
}
_SHELL = r"(?:\S*/)?(?:da|ba|z|k|a|fi)?sh(?:\s+[-+][oO]\s+\S+|\s+[-+]\S+)*?\s+-[a-z]{0,4}c"
_INTERPRETER = (
    r"(?:\S*/)?(?:python[0-9.]*|perl|ruby|node|php|lua)(?:\s+-\S+)*?\s+-[a-zA-Z]{0,2}[ceEr]"
)
_RUNS = re.compile(
    rf"(?:^|[\s;&|(`{{])(?:(?:eval|let|trap|\[\[)\s[^;&|\n]*|(?:{_SHELL}|{_INTERPRETER})\s+"
    r"(?:\"[^\"]*|[^\s\"';&|]*))\Z"
)
_DOCUMENT = re.compile(r"<<-?[ \t]*((?:'[^']*'|\"[^\"]*\"|\\.|[^\s;&|()<>'\"\\])*)")
_ARGUMENT = 'give it as an argument: [sh, -c, \'echo "$1"\', sh, "{{VALUE}}"]; or in env:'


def quoting(line: Template) -> list[bool]:
    """Of each value in a line for the shell, whether it stands in double quotes.

    Raises:
        Invalid: it stands where it cannot be written safely; `value` in `details` says which.
    """
    reader, found = _Reader(), list[bool]()
    for part in line.parts:
        if isinstance(part, str):
            reader.read(part)
            continue
        if trouble := reader.trouble():
            what, hint = trouble
            raise Invalid(f"{{{{{part}}}}} stands {what}", hint, {"value": len(found)})
        found.append(reader.is_quoted)
        reader.take_value()
    return found


def check_words(words: Sequence[Template]) -> None:
    """Refuse a value in a word that a shell or another interpreter runs.

    Raises:
        Invalid: there is one; `at` and `value` in `details` say where.
    """
    for index, word in enumerate(words):
        before = " ".join(_plain(each) for each in words[:index])
        if word.values() and _RUNS.search(_unquoted(f"{before} ")):
            what = f"{{{{{word.values()[0]}}}}} would be run as code"
            raise Invalid(what, _ARGUMENT, {"at": [index], "value": 0})


def _plain(word: Template) -> str:
    """A word without its values; one with spaces is no name of a program, nor an option."""
    # What begins with a dash may be any option, and so the one that names code.
    filled = "c" if word.parts and str(word.parts[0]).startswith("-") else "x"
    text = "".join(filled if isinstance(part, Value) else part for part in word.parts)
    return "x" if re.search(r"\s", text) else text


def _unquoted(text: str) -> str:
    """A line in which words that are quoted for no reason are not: `"sh" '-c'`, `e\\val`."""
    return re.sub(r"\\(\w)", r"\1", re.sub(r"(['\"])([^\s'\"]*)\1", r"\2", text))


class _Reader:
    """Reads a line as the shell does, as far as that decides what a value in it is."""

    def __init__(self) -> None:
        self._open: list[str] = []
        """What is open, innermost last: quotes, `$(`, `(`, `((`, `${`, backticks, `#`, `<<`."""
        self._ends: list[str] = []
        """Of the here-documents that are open, innermost last, the line that ends each."""
        self._announced: list[tuple[str, str]] = []
        self._before = ""
        """All that was read, with x for values."""
        self._line = ""
        """Of a here-document, the line that is being read."""
        self._unsure = ""

    @property
    def _top(self) -> str:
        return self._open[-1] if self._open else ""

    @property
    def is_quoted(self) -> bool:
        return self._top in ('"', "<<")

    def _is_in_quotes(self) -> bool:
        """Whether a single quote is a plain character: in `"${x:-'a'}"`, not in `"$('a')"`."""
        for each in reversed(self._open):
            if each in ('"', "$("):
                return each == '"'
        return False

    def trouble(self) -> tuple[str, str] | None:
        """Why a value must not stand here, and what to do; None where it may."""
        for each in reversed(self._open):
            if each in _NOWHERE:
                return _NOWHERE[each]
        if "<<" in self._open[:-1]:
            return "in $(...) in a here-document", "give it to a variable first, in env:"
        if self._unsure:
            return f"behind {self._unsure}, which shells read in different ways", "put it in env:"
        if re.search(r"(?<!\\)(?:\\\\)*\\\Z", self._before):
            return "behind a backslash", "leave the backslash out"
        if re.search(r"(?<!\\)(?:\\\\)*\$\Z", self._before):
            return "behind a $", "write \\$ for a dollar sign"
        if re.search(r"(?<!<)<<-?[ \t]*[^\s<]*\Z", self._before) and self._top != "<<":
            return "in the end of a here-document", "write a word"
        if _RUNS.search(_unquoted(self._before)):
            return "where it would be run as code", _ARGUMENT
        return None

    def take_value(self) -> None:
        self._before += "x"
        self._line += "x"

    def read(self, text: str) -> None:
        place = 0
        while place < len(text):
            step = self._step(text, place)
            piece = text[place : place + step]
            self._before += piece
            self._line = "" if piece == "\n" else self._line + piece
            place += step

    def _step(self, text: str, place: int) -> int:
        """Read what stands at a place; how many characters that are."""
        char, two = text[place], text[place : place + 2]
        top = self._top
        if top == "'":
            return self._closed_by(char == "'")
        if top == "#":
            self._closed_by(char == "\n")
            return 0 if char == "\n" else 1
        if top in ("<<", "<<'") and char == "\n":
            return self._line_of_document()
        if top == "<<'":
            return 1
        if char == "\\":
            return min(2, len(text) - place)
        if char == "`":
            return self._closed_by(True) if top == "`" else self._opened(char, 1)
        if char == "$":
            return self._dollar(text, place)
        if top in ('"', "<<"):
            return self._closed_by(char == '"' and top == '"')
        if char == '"' or (char == "'" and not self._is_in_quotes()):
            return self._opened(char, 1)
        if top == "${":
            return self._closed_by(char == "}")
        return self._plain(text, place, two)

    def _plain(self, text: str, place: int, two: str) -> int:
        char = text[place]
        if char == "\n":
            for end, frame in reversed(self._announced):
                self._open.append(frame)
                self._ends.append(end)
            self._announced = []
            return 1
        is_first = not self._before or self._before[-1] in _WORD_ENDS
        if char == "#" and is_first:
            return self._opened("#", 1)
        if two == "((" or (two == "))" and self._top == "(("):
            return self._opened("((", 2) if two == "((" else self._closed_by(True) + 1
        if char == "(":
            return self._opened("(", 1)
        if char == ")":
            return self._closed_by(self._top in ("(", "$("))
        if two == "<<" and text[place + 2 : place + 3] != "<":
            return self._document(text, place)
        if self._open and is_first and re.compile(r"case\b").match(text, place):
            self._unsure = "a case in parentheses"
        return 1

    def _dollar(self, text: str, place: int) -> int:
        for opening, frame in (("$((", "(("), ("$(", "$("), ("${", "${")):
            if text.startswith(opening, place):
                return self._opened(frame, len(opening))
        if text.startswith("$'", place) and self._top not in ('"', "<<"):
            self._unsure = "$'"
        return 1

    def _document(self, text: str, place: int) -> int:
        """A here-document is announced: it begins with the next line."""
        match = _DOCUMENT.match(text, place)
        assert match is not None
        end = re.sub(r"['\"\\]", "", match[1])
        self._announced.append((end, "<<" if end == match[1] else "<<'"))
        return len(match[0])

    def _line_of_document(self) -> int:
        if self._line.strip("\t") == self._ends[-1]:
            self._ends.pop()
            self._open.pop()
        return 1

    def _opened(self, frame: str, length: int) -> int:
        self._open.append(frame)
        return length

    def _closed_by(self, is_end: bool) -> int:
        if is_end:
            self._open.pop()
        return 1
