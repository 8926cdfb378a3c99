"""Commands with values: how a value is written in a line for the shell, and where it is refused.

Rule: a value is data, behind a program that the file names. In a line it is a variable that the
shell looks up, so a line with values is a plain one: words, quotes, pipes, redirections. What is
evaluated again, by the shell or by an interpreter, gets its values in `env:`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NoReturn

from contextrelay.errors import Invalid
from contextrelay.logic.pipeline.template import Template, Value

HOLE = "\0"
"""Stands for a value in a word; no text of a file has one."""

_TAKES_CODE = re.compile(r"(?:ba|da|z|k|mk|a|fi|rba)?sh|(?:python|pypy)[0-9.]*")
_TAKES_FILE = re.compile(r"(?:perl|php|lua)[0-9.]*|ruby|node|nodejs|tclsh|Rscript|pwsh|osascript")
_STARTS = re.compile(
    r"env|exec|command|builtin|eval|source|\.|trap|let|alias|unset|read|export|declare|typeset"
    r"|local|readonly|coproc|xargs|parallel|ssh|su|sudo|doas|nohup|nice|timeout|setsid|stdbuf"
    r"|time|watch|busybox|at|batch|deno|bun|function|flock|ionice|taskset|chrt|chroot|unshare"
    r"|nsenter|runuser|systemd-run|strace"
)
"""What starts another program with its words, or takes them, or its input, for code."""
_RUNS_WORDS = re.compile(r"[gmn]?awk|g?sed")
_FLAGS = re.compile(r"-[abefhnuvxBEIP]+")
_CODE_OPTION = re.compile(r"-[abefhnuvxBEIP]*c|-m")
_ENV = 'give it in env:, and use "$NAME" there'
_EXAMPLE = '[sh, -c, \'echo "$1"\', sh, "{{VALUE}}"]'
_ARGUMENT = f"give it in env:, or behind a program that is written out: {_EXAMPLE}"

_PIECE = re.compile(
    r"(?P<single>'[^']*')"
    r'|(?P<double>"(?:[^"\\]|\\.)*")'
    r"|(?P<escape>\\.)"
    r"|(?P<comment>(?<![^\s;&|()<>])#[^\n]*)"
    r"|(?P<blank>[ \t]+)"
    r"|(?P<redirect>[0-9]*[<>]+[&|]?)"
    r"|(?P<end>[;&|()\n]+)"
    r"|(?P<plain>[^ \t\n'\"\\;&|()<>]+)",
    re.DOTALL,
)
_KEYWORDS = frozenset(("if", "then", "else", "elif", "do", "while", "until", "!", "{"))
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


def with_holes(word: Template) -> str:
    """A word with a hole for each of its values."""
    return "".join(HOLE if isinstance(part, Value) else part for part in word.parts)


def quoting(line: Template) -> list[bool]:
    """Of each value in a line for the shell, whether it stands in double quotes.

    Raises:
        Invalid: it stands where it cannot be written safely; `value` in `details` says which.
    """
    if not line.values():
        return []
    reader = _Reader(with_holes(line), line.values())
    reader.read()
    return reader.found


def check_words(words: Sequence[Template]) -> None:
    """Refuse a value in a command that may run it.

    Raises:
        Invalid: there is one; `at` and `value` in `details` say where.
    """
    for index, word in enumerate(words):
        if word.values():
            if trouble := danger([with_holes(each) for each in words]):
                what = f"{{{{{word.values()[0]}}}}} {trouble}"
                raise Invalid(what, _ARGUMENT, {"at": [index], "value": 0})
            return


def danger(words: Sequence[str]) -> str:
    """What a command would do with values in its words or its input, but to take them as data."""
    program = _name(words[0])
    if HOLE in words[0] or "$" in words[0]:  # Of an empty variable the next word is the program.
        return "would be the program that is run"
    if _RUNS_WORDS.fullmatch(program) and any(HOLE in word for word in words):
        return f"may be run as code by {program}"
    # A shell evaluates what names a variable: a[$(...)].
    names_variable = program in ("printf", "test", "[") and "-v" in words
    if _STARTS.fullmatch(program) or names_variable:
        return f"may be run as code by {program}"
    for index, word in enumerate(words):
        name = _name(word)
        if _TAKES_CODE.fullmatch(name) or _TAKES_FILE.fullmatch(name):
            # What stands behind its program is the program's own, whatever its name is.
            runs_value = not _has_program(name, words[index + 1 :])
            return f"would be run as code by {name}" if runs_value else ""
    return ""


def _name(word: str) -> str:
    return word.rpartition("/")[2]


def _has_program(interpreter: str, rest: Sequence[str]) -> bool:
    """Whether what an interpreter runs is written out behind it, as code or as a file."""
    behind = list(rest)
    if _TAKES_CODE.fullmatch(interpreter):
        while behind and _FLAGS.fullmatch(behind[0]):
            behind.pop(0)
        if behind and _CODE_OPTION.fullmatch(behind[0]):
            behind.pop(0)
    # An option may stand behind -c, too, a variable may be empty, and its input is no file.
    no_file = rf"\A[-+]|\A\$\w*\Z|\A/dev/(?:stdin|fd/)|\A/proc/.*/fd/|{HOLE}"
    return bool(behind) and not re.search(no_file, behind[0])


class _Reader:
    """Reads a line into its commands, as far as that decides what a value in it is."""

    def __init__(self, line: str, values: Sequence[Value]) -> None:
        self._line, self._values = line, values
        self.found: list[bool] = []
        self._commands: list[list[str]] = [[]]
        self._word: str | None = None
        self._is_target = False
        """Whether the next word is that of a redirection."""

    def read(self) -> None:
        place = 0
        while place < len(self._line):
            match = _PIECE.match(self._line, place)
            if match is None:
                self._refuse("stands in a line with a quote or a backslash that is open", "end it")
            self._take(str(match.lastgroup), match[0], self._line[match.end() : match.end() + 1])
            place = match.end()
        self._end_word()
        for command in filter(None, self._commands):
            if trouble := danger(command):
                self.found = []
                self._refuse(trouble, _ARGUMENT)

    def _take(self, kind: str, piece: str, behind: str) -> None:
        if kind in ("blank", "comment", "redirect", "end"):
            self._end_word()
            if kind == "comment" and HOLE in piece:
                self._refuse("stands in a comment", "leave it out")
            if "<<" in piece or "((" in piece:
                what = "a here-document" if "<<" in piece else "arithmetic"
                self._refuse(f"stands in a line with {what}", _ENV)
            self._is_target = kind == "redirect" or (self._is_target and kind == "blank")
            if kind == "end":
                self._commands.append([])
            return
        if piece == "\\\n":
            return  # The line goes on.
        text = piece[1:-1] if kind in ("single", "double") else piece
        if kind == "single" and HOLE in piece:
            self._refuse("stands between single quotes", "use double quotes, or none")
        if kind == "double":
            self._check(re.sub(r"\\[^\0]", "", text), r"`|\$[({]")
        elif kind == "plain":
            self._check(piece + behind, r"`|\$[({]|\$['\"]\Z|^\[\[")
        elif kind == "escape":
            self._check(piece, r"\Z.")
            text = piece[1:]
        self.found += [kind == "double"] * text.count(HOLE)
        self._word = (self._word or "") + text

    def _check(self, text: str, evaluated: str) -> None:
        """Refuse what is looked up or evaluated in another way."""
        if "\\" + HOLE in text:
            self._refuse("stands behind a backslash", "leave the backslash out")
        if "$" + HOLE in text:
            self._refuse("stands behind a $", "write \\$ for a dollar sign")
        if again := re.search(evaluated, text):
            self._refuse(f"stands in a line with {again[0]}, which is evaluated again", _ENV)

    def _end_word(self) -> None:
        word, self._word = self._word, None
        if word is None:
            return
        command = self._commands[-1]
        is_before = not command and (word in _KEYWORDS or _ASSIGNMENT.match(word))
        if not self._is_target and not is_before:
            command.append(word)
        self._is_target = False

    def _refuse(self, what: str, hint: str) -> NoReturn:
        number = min(len(self.found), len(self._values) - 1)
        message = f"{{{{{self._values[number]}}}}} {what}"
        raise Invalid(message, hint, {"value": number})
