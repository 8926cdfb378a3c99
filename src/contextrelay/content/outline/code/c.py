"""C: functions, types and macros, from the code outside braces.

The text is masked first, so that every remaining bracket is syntax. A statement ends at its
semicolon, or at the end of a function body; the contents of bodies are skipped.
"""

from __future__ import annotations

import re

from contextrelay.content.outline.code.brackets import (
    Code,
    CodeDefinition,
)
from contextrelay.content.outline.code.masked import Directive, masked_c
from contextrelay.content.outline.code.symbols import code_draft, symbols_of
from contextrelay.content.outline.layout import OutlineDraft
from contextrelay.content.source import Source

_HEAD_CHARS_MAX = 4_000
# The start of a statement: after macros on lines of their own.
_BEGINS = re.compile(
    r"\s*+(?:[A-Z_][A-Z0-9_]{2,}+(?:[ \t]*+\([^()\n]{0,200}\))?[ \t]*+\r?\n\s*+(?=[A-Za-z_]))*+"
)
_BOUND = re.compile(r"[{};]")
_WRAPS = re.compile(
    r"\s*+(?:extern\s*+\"[^\"\n]*+\"|(?:inline\s++)?namespace\b[\w:\s]{0,200})\s*+\Z"
)
_NO_DEFINITION = re.compile(r"(?:if|for|while|switch|do|else|return|case|goto|default|using)\b")
_RECORD = re.compile(
    r"\b(struct|union|enum|class)\b(?:\s++(?:class|struct)\b)?"
    r"((?:\s|__attribute__\s*+\(\([^{};]{0,200}?\)\)|__declspec\s*+\([^()]{0,80}\)"
    r"|(?:[A-Z][A-Z0-9_]{2,}|alignas|_Alignas)\s*+\([^()]{0,80}\)|\w++(?=\s++[A-Za-z_]))*+)"
    r"([A-Za-z_][\w:]*+)?\s*+(?:final\s*+)?(?::(?!:)[^(){};]{0,300})?\Z"
)
_TABLE = re.compile(r"([A-Za-z_]\w*+)\s*+(?:\[[^\]]{0,80}\]\s*+){0,4}=\Z")
_CALLED = re.compile(r"([A-Za-z_~][\w:~]*+)?\s*+\(")
_ATTRIBUTES = re.compile(
    r"_{0,2}attribute_{0,2}|__declspec|_?[Aa]lignas|_{0,2}asm_{0,2}|_{0,2}typeof_{0,2}|decltype"
    r"|noexcept|throw|_Pragma|__pragma|__extension__"
)
_TYPE_WORDS = (
    "void",
    "char",
    "short",
    "int",
    "long",
    "float",
    "double",
    "unsigned",
    "bool",
    "_Bool",
)
_NO_TYPES = re.compile(
    r"\s*+(?:(?:static|extern|inline|const|__inline|__inline__|volatile)\b\s*+)*+"
)
_POINTS = re.compile(
    r"\s*+(?:\w++\s++)?[*^]\s*+(?:(?:const|volatile)\s++)?([A-Za-z_]\w*+)\s*+(\(?)"
)
_IN_BRACKETS = re.compile(r"\s*+\*?\s*+([A-Za-z_]\w*+)\s*+\)\s*+\(")
# int f(a, b) int a; char *b; { ... }
_OLD_STYLE = re.compile(r"\s*+[a-z_]\w*+[\w\s*]*?[\s*]\w++")
_BARE_NAMES = re.compile(r"\(\s*+\w++(?:\s*+,\s*+\w++)*+\s*+\)")
_ATTRIBUTE = re.compile(
    r"__attribute__\s*+\(\((?:[^()]++|\((?:[^()]++|\([^()]*+\))*+\))*+\)\)|\b__extension__\b"
)
_ALIASED = re.compile(
    r"\(\s*+(?:\w++\s*+)?[*^][\s*]*+(?:(?:const|volatile)\s++)?([A-Za-z_]\w*+)\s*+(?:\[[^\]]*+\]\s*+)?\)"
    r"|\(\s*+([A-Za-z_]\w*+)\s*+\)\s*+\(|([A-Za-z_]\w*+)\s*+\((?!\s*+(?:\w++\s*+)?\**+\s*+\w++\s*+\)\s*+\()"
)
_LAST_WORDS = re.compile(r"([A-Za-z_]\w*+)\s*+(?:\[[^\]]*+\]\s*+)*+(?::\s*+\w++\s*+)?\Z")
_BLANKS = re.compile(r"\s*+")
_ARGUMENT = re.compile(
    r"[(,]\s*+(?!(?:void|char|short|int|long|float|double|bool)\b)([A-Za-z_]\w*+)\s*+(?=[,)])"
)
_WORD = re.compile(r"[A-Za-z_]\w*+")
_ENDS_AT_MARGIN = re.compile(r"\n\}")
_MACRO = re.compile(r"\w++")
_INCLUDED = re.compile(r"[<\"]([^>\"\n]*+)")


def draft_outline(source: Source) -> OutlineDraft | None:
    """Return the outline of a C file, or None for another language."""
    if source.media_type != "text/x-c":
        return None
    code, imports = read(source.text)
    return code_draft(source, "C", symbols_of(code.found), imports, "", code.more, code.note)


def read(text: str, wanted: str | None = None) -> tuple[Code, list[str]]:
    """Return the definitions and includes of a C file."""
    masked, directives = masked_c(text)
    code = Code(masked, wanted)
    _Walk(code).run()
    imports: list[str] = []
    for each in directives:
        if each.word == "define":
            _keep_macro(code, each)
        elif found := _INCLUDED.match(each.text):
            imports.append(found[1])
    code.found.sort(key=lambda each: each.line)
    return code, imports


def _keep_macro(code: Code, each: Directive) -> None:
    if name := _MACRO.match(each.text):
        code.keep(CodeDefinition("macro", name[0], each.line, each.line, each.last))


class _Walk:
    """Reads statements one after the other."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._text = code.text
        self._start = 0
        """Start of the statement."""
        self._tail = -1
        """Where it continues after its braces."""

    def run(self) -> None:
        text, at = self._text, 0
        self._next(0)
        while (bound := _BOUND.search(text, at)) is not None and self._code.goes_on():
            at = bound.end()
            sign = text[at - 1]
            if sign == "{":
                at = self._opens(at - 1)
            elif sign == ";":
                if not self._is_old_style(at - 1):
                    self._ends(at - 1)
                    self._next(at)
            else:
                self._next(at)  # A wrapper around statements, or unknown.
        self._code.read_to(at if bound else len(text))

    def _next(self, at: int) -> None:
        begins = _BEGINS.match(self._text, at)
        assert begins is not None
        self._start, self._tail = begins.end(), -1

    def _opens(self, brace: int) -> int:
        """Read what a brace belongs to; return where to continue."""
        text, start = self._text, self._start
        if _WRAPS.match(text, start, brace):
            self._next(brace + 1)
            return brace + 1
        end = self._code.end(brace)
        if not end:
            margin = _ENDS_AT_MARGIN.search(text, brace)
            end = margin.end() if margin else len(text)
        head = text[max(start, brace - _HEAD_CHARS_MAX) : brace]
        stripped = head.rstrip()
        if self._tail >= 0 or not stripped or stripped.endswith(("=", ",", "(")):
            if self._tail < 0 and (table := _TABLE.search(stripped)):
                found = self._keep("constant", table[1], brace - len(head) + table.start(1))
                found.is_local = stripped.startswith("static")
                self._code.ends(found, end)
            self._tail = end  # An initializer, or unknown.
            if not stripped:
                self._next(end)
            return end
        if record := _RECORD.search(stripped):
            if record[3]:
                at = start + record.start(3) if brace - start <= _HEAD_CHARS_MAX else start
                self._code.ends(self._keep(record[1], record[3], at), end)
            self._tail = end
            return end
        if self._function(brace, end) or not stripped.endswith(")"):
            self._next(end)
        else:
            self._tail = end
        return end

    def _function(self, brace: int, end: int) -> bool:
        found = self._named(brace, has_body=True)
        if found is not None:
            self._code.ends(found, end)
        return found is not None

    def _named(self, stop: int, has_body: bool) -> CodeDefinition | None:
        """Return the function that a statement defines or declares."""
        text, start, code = self._text, self._start, self._code
        if _NO_DEFINITION.match(text, start):
            return None
        no_types = _NO_TYPES.match(text, start)
        assert no_types is not None
        chosen: tuple[str, int, int, int] | None = None
        is_typed, typed_from, passed = False, no_types.end(), 0
        at = start
        for _ in range(6):
            called = _CALLED.search(text, at, min(stop, at + _HEAD_CHARS_MAX))
            if called is None or text.find("=", at, called.end()) >= 0:
                break
            opens = called.end() - 1
            at = code.end(opens)
            if not at or at > stop:
                break
            name, named_at = called[1] or "", called.start(1)
            if _ATTRIBUTES.fullmatch(name):
                continue
            if bracketed := _IN_BRACKETS.match(text, opens + 1):
                # The name is in brackets of its own.
                opens, name, named_at = bracketed.end() - 1, bracketed[1], bracketed.start(1)
                at = code.end(opens) or at
            elif (points := _POINTS.match(text, opens + 1)) and (not name or name in _TYPE_WORDS):
                if not points[2]:
                    break  # A variable that points to a function.
                name, named_at, opens = points[1], points.start(1), points.end() - 1
                at = code.end(opens) or at
            if not name or name in _TYPE_WORDS:
                continue
            # Macros with arguments may precede it.
            is_typed = named_at > typed_from and not (name.isupper() and named_at <= passed)
            chosen = name, named_at, opens, at
            if is_typed:
                break
            gap = _BLANKS.match(text, at)
            passed = gap.end() if gap else at
        if chosen is None or not (has_body or is_typed):
            return None
        name, named_at, opens, close = chosen
        signature = code.signature(opens, close)
        if not is_typed and name.isupper() and (first := _ARGUMENT.search(text, opens, close)):
            name, signature = first[1], f"({name})"  # A macro generates it.
        is_static = text.startswith("static", start) or "static " in text[start:named_at]
        found = self._keep("function" if has_body else "declaration", name, named_at)
        found.signature, found.is_local = signature, is_static and has_body
        return found

    def _is_old_style(self, at: int) -> bool:
        """Return True if arguments are declared between a function's name and its body."""
        text = self._text
        if self._tail >= 0 or at - self._start > _HEAD_CHARS_MAX or text[at - 1] == ")":
            return False
        opens = text.find("(", self._start, at)
        names = _BARE_NAMES.match(text, opens, at) if opens > 0 else None
        if names is None or not _OLD_STYLE.match(text, names.end(), at):
            return False
        return _NO_DEFINITION.match(text, self._start) is None

    def _ends(self, at: int) -> None:
        """Read a statement that ends with a semicolon: a typedef or a declaration."""
        text, start = self._text, self._start
        if text.startswith("typedef", start):
            self._aliases(at)
        elif self._tail < 0 and text.find("(", start, at) >= 0:
            found = self._named(at, has_body=False)
            if found is not None:
                self._code.ends(found, at)

    def _aliases(self, stop: int) -> None:
        start = self._start + len("typedef") if self._tail < 0 else self._tail
        start = max(start, stop - _HEAD_CHARS_MAX)
        text = _ATTRIBUTE.sub(lambda each: " " * len(each[0]), self._text[start:stop])
        places: list[tuple[str, int]] = []
        if aliased := _ALIASED.search(text):
            group = aliased.lastindex or 0
            places.append((aliased[group], aliased.start(group)))
        else:
            at = 0
            for part in text.split(",")[:8]:
                end = at + len(part)
                last = _LAST_WORDS.search(text, at, end)
                if last:
                    name, named_at = last[1], last.start(1)
                    first = _WORD.search(text, at, end)
                    if name.isupper() and self._tail >= 0 and first:
                        name, named_at = first[0], first.start()  # A macro follows it.
                    places.append((name, named_at))
                at = end + 1
        for name, named_at in places:
            self._code.ends(self._keep("type", name, start + named_at), stop)

    def _keep(self, kind: str, name: str, named_at: int) -> CodeDefinition:
        first = 0 if self._code.is_outline else self._code.line(self._start)
        found = CodeDefinition(kind, name, self._code.line(named_at), first)
        self._code.keep(found)
        return found
