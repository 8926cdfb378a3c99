"""Mask code: blank out comments, strings, templates, regular expressions and directives.

The lines stay the same, and every remaining bracket is syntax. A short string without special
characters is kept, because imports are such strings.

Rule: every alternative matches whatever follows its first character, so that nothing is read twice
and time is linear.
"""

from __future__ import annotations

import re

from msgspec import Struct

_STRING = r'"(?:[^"\\\n]++|\\.)*+"?|' + r"'(?:[^'\\\n]++|\\.)*+'?"
_COMMENT = r"/\*(?:[^*]++|\*(?!/))*+(?:\*/)?|//(?:[^\n\\]++|\\(?:\r?\n)?)*+"
# A string that is kept.
_PLAIN = r"(\"[\w./@:+~$?!*%&# -]{0,120}+\"|'[\w./@:+~$?!*%&# -]{0,120}+')"


class Directive(Struct, frozen=True, gc=False):
    """A C preprocessor directive: `define` or `include`, and its arguments."""

    word: str
    text: str
    line: int
    last: int


# -- JavaScript and TypeScript

# The content of a template expression without nested templates, or a template without expressions.
_VALUE = r"\$\{(?:[^{}`'\"/]++|\{[^{}`'\"/]*+\}|'[^'\\\n]*+'|\"[^\"\\\n]*+\"|`[^`\\$]*+`)*+\}"
_SCRIPT = re.compile(
    rf"{_PLAIN}|{_STRING}|/\*(?:[^*]++|\*(?!/))*+(?:\*/)?|//[^\n]*+|/|"
    rf"`(?:[^`\\$]++|\\.|\$(?!\{{)|{_VALUE})*+`?",
    re.DOTALL,
)
_IN_TEXT = re.compile(r"`|\\.|\$\{", re.DOTALL)
_IN_EXPRESSION = re.compile(
    rf"[`{{}}]|{_STRING}|/\*(?:[^*]++|\*(?!/))*+(?:\*/)?|//[^\n]*+|/", re.DOTALL
)
_EXPRESSION = re.compile(r"/(?:[^/\\\[\n]++|\\.?|\[(?:[^\]\\\n]++|\\.?)*+\]?)*+(?:/\w*+)?")
# After these a slash starts a regular expression; after anything else it divides.
_BEFORE_EXPRESSION = frozenset("(,=:[!&|?{};+-*%~^")
_WORDS_BEFORE = re.compile(r"return|typeof|case|in|of|delete|void|throw|new|do|else|yield")
_LAST_WORD = re.compile(r"\w*\Z")
# How much is read of a possible regular expression that is not closed in its line.
_EXPRESSION_CHARS_MAX = 200
# Nesting limit of templates.
_TEMPLATES_MAX = 100


def masked_script(text: str) -> str:
    """Return JavaScript or TypeScript without comments and strings."""
    kept: list[str] = []
    at, is_sound = 0, True
    while at < len(text):
        for token in _SCRIPT.finditer(text, at):
            if token.lastindex:
                continue
            start, end = token.span()
            sign = text[start]
            kept.append(text[at:start])
            at = end
            if sign == "/":
                if end - start > 1:
                    kept.append(" " + "\n" * text.count("\n", start, end))
                    continue
                found = _expression_end(text, start)
                kept.append("0" if found else "/")
                if found:
                    at = found
                    break
            elif sign != "`" or (end - start > 1 and text[end - 1] == "`") or not is_sound:
                kept.append('""' + "\n" * text.count("\n", start, end))
            else:
                found = _template_end(text, start + 1)
                is_sound = found > 0
                at = found or end
                kept.append('""' + "\n" * text.count("\n", start, at))
                break
        else:
            break
    kept.append(text[at:])
    return "".join(kept)


def _expression_end(text: str, start: int) -> int:
    """Return the end of a regular expression that starts here, or 0 if the slash divides."""
    at = start - 1
    while at >= 0 and text[at] in " \t\r\n":
        at -= 1
    before = text[at] if at >= 0 else ";"
    if before in _BEFORE_EXPRESSION:
        if text.startswith("/>", start) or (before in "+-" and text[at - 1 : at] == before):
            return 0
    elif before == ">":
        if text[at - 1 : at] != "=":
            return 0
    elif not _WORDS_BEFORE.fullmatch(_last_word(text, at)):
        return 0
    found = _EXPRESSION.match(text, start)
    assert found is not None
    end = found.end()
    is_closed = "/" in text[max(start + 1, end - 12) : end]
    return end if is_closed or end - start > _EXPRESSION_CHARS_MAX else 0


def _last_word(text: str, at: int) -> str:
    found = _LAST_WORD.search(text, max(0, at - 8), at + 1)
    return found[0] if found else ""


def _template_end(text: str, start: int) -> int:
    """Return the end of a template that starts before this position, or 0 if it is unclosed."""
    # For each open template: the number of open braces in its expression, or -1 in its text.
    open_braces = [-1]
    at = start
    while open_braces:
        token = (_IN_TEXT if open_braces[-1] < 0 else _IN_EXPRESSION).search(text, at)
        if token is None:
            return 0
        at = token.end()
        sign = token[0]
        if sign == "`" and open_braces[-1] < 0:
            open_braces.pop()
        elif sign == "`":
            open_braces.append(-1)
            if len(open_braces) > _TEMPLATES_MAX:
                return 0
        elif sign in ("{", "${"):
            open_braces[-1] += 1
        elif sign == "}":
            open_braces[-1] -= 1
        elif sign == "/":
            at = _expression_end(text, at - 1) or at
    return at


# -- Go

_GO = re.compile(rf"{_PLAIN}|{_STRING}|{_COMMENT}|`[^`]*+`?", re.DOTALL)


def masked_go(text: str) -> str:
    """Return Go without comments and strings."""
    return _GO.sub(_masked, text)


def _masked(token: re.Match[str]) -> str:
    if token.lastindex:
        return token[0]
    sign, lines = token[0][0], "\n" * token[0].count("\n")
    # In brackets, line ends do not end statements.
    return lines if sign == "/" else f"({lines})" if sign == "`" else f'""{lines}'


# -- C

_C = re.compile(
    rf"{_PLAIN}|{_STRING}|{_COMMENT}|/"
    rf"|\#(?:[^\n\\/]++|\\(?:\r?\n)?|/\*(?:[^*]++|\*(?!/))*+(?:\*/)?|//[^\n]*+|/)*+",
    re.DOTALL,
)
_DIRECTIVE = re.compile(r"#[ \t]*+([a-z_]*+)[ \t]*+([^\n]{0,300})")
_BRANCHES_MAX = 20


def masked_c(text: str) -> tuple[str, list[Directive]]:
    """Return C without comments, strings and directives; and the directives.

    Of `#if` branches the first is kept, if the braces that it opens are closed after it.
    """
    directives: list[Directive] = []
    branches = _Branches()
    counted = line = 0
    kept: list[str] = branches.kept
    at = 0
    for token in _C.finditer(text):
        if token.lastindex:
            continue
        start, end = token.span()
        sign = text[start]
        kept.append(text[at:start])
        at = end
        if sign == "/":
            kept.append(" " + "\n" * text.count("\n", start, end) if end - start > 1 else "/")
        elif sign != "#":
            kept.append('""' + "\n" * text.count("\n", start, end))
        else:
            found = _DIRECTIVE.match(text, start)
            assert found is not None
            word = found[1]
            if word in ("define", "include", "import"):
                line += text.count("\n", counted, start)
                counted = start
                last = line + 1 + text.count("\n", start, end)
                directives.append(Directive(word, found[2], line + 1, last))
            elif word in _BRANCH_WORDS:
                branches.turn(word)
            kept.append("\n" * text.count("\n", start, end))
    kept.append(text[at:])
    branches.drop()
    return "".join(kept), directives


_BRANCH_WORDS = frozenset(("if", "ifdef", "ifndef", "else", "elif", "elifdef", "endif"))


class _Branches:
    """Tracks which code to keep of conditional branches, of which a compiler uses one."""

    def __init__(self) -> None:
        self.kept: list[str] = []
        self._starts: list[tuple[int, int]] = []
        """For each open branch: its start, and the start of the dropped part, or -1."""
        self._deeper = 0

    def turn(self, word: str) -> None:
        """Process a directive that starts, switches or ends a branch."""
        if word.startswith("if"):
            if len(self._starts) < _BRANCHES_MAX and not self._deeper:
                self._starts.append((len(self.kept), -1))
            else:
                self._deeper += 1
        elif self._deeper:
            self._deeper -= word == "endif"
        elif self._starts:
            start, dropped = self._starts[-1]
            if dropped < 0 and word != "endif" and self._is_open(start):
                self._starts[-1] = start, len(self.kept)
            elif word == "endif":
                self.drop()

    def drop(self) -> None:
        """End the last branch: only the line ends of its dropped part remain."""
        if not self._starts:
            return
        _, dropped = self._starts.pop()
        if dropped >= 0:
            lines = sum(each.count("\n") for each in self.kept[dropped:])
            self.kept[dropped:] = ["\n" * lines]

    def _is_open(self, start: int) -> bool:
        part = self.kept[start:]
        return sum(each.count("{") - each.count("}") for each in part) != 0
