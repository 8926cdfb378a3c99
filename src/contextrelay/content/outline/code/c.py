"""C: functions, types and macros, from the code outside braces.

The text is masked first, so that every remaining bracket is syntax. A statement ends at its
semicolon, or at the end of a function body; the contents of bodies are skipped.
"""

from __future__ import annotations

import re

from msgspec import Struct

from contextrelay.content.outline.code import (
    Definitions,
    Symbol,
    code_draft,
    listed,
)
from contextrelay.content.outline.layout import OutlineDraft
from contextrelay.content.source import Source
from contextrelay.limits import OUTLINE_PIECES_MAX

OUTLINE_STATEMENTS_MAX = 500_000
_HEAD_CHARS_MAX = 4_000
# The start of a statement, which may follow macros on lines of their own.
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
_TYPE_WORDS = frozenset(
    ("void", "char", "short", "int", "long", "float", "double", "unsigned", "bool", "_Bool")
)
_NO_TYPES = re.compile(
    r"\s*+(?:(?:static|extern|inline|const|__inline|__inline__|volatile)\b\s*+)*+"
)
_POINTS = re.compile(
    r"\s*+(?:\w++\s++)?[*^]\s*+(?:(?:const|volatile)\s++)?([A-Za-z_]\w*+)\s*+(\(?)"
)
_IN_BRACKETS = re.compile(r"\s*+\*?\s*+([A-Za-z_]\w*+)\s*+\)\s*+\(")
# Old style: int f(a, b) int a; char *b; { ... }
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
    return code_draft(source, "C", listed(code.found), imports, "", code.more, code.note)


def read(text: str, wanted: str | None = None) -> tuple[Code, list[str]]:
    """Return the definitions and includes of a C file."""
    masked, directives = masked_c(text)
    code = Code(masked, wanted)
    _Walk(code).run()
    imports: list[str] = []
    for each in directives:
        if each.word == "define":
            if name := _MACRO.match(each.text):
                at = each.line
                code.keep(Symbol("macro", name[0], at, first=at, last=each.last))
        elif found := _INCLUDED.match(each.text):
            imports.append(found[1])
    code.found.sort(key=lambda each: each.line)
    return code, imports


class _Walk:
    """Reads the statements of a C file one after the other."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._text = code.text
        self._start = 0  # Offset at which the current statement starts.
        self._tail = -1
        """Offset at which the current statement continues after its braces; -1 if it has none."""

    def run(self) -> None:
        text, at = self._text, 0
        self._next(0)
        steps_left = OUTLINE_STATEMENTS_MAX
        while (bound := _BOUND.search(text, at)) is not None and steps_left:
            steps_left -= 1
            at = bound.end()
            sign = text[at - 1]
            if sign == "{":
                at = self._opens(at - 1)
            elif sign == ";":
                if not self._is_old_style(at - 1):
                    self._ends(at - 1)
                    self._next(at)
            else:
                self._next(at)  # The brace belongs to a wrapper around statements, or is unknown.
        if bound:
            self._code.note = f"read up to line {self._code.line(at)}"

    def _next(self, at: int) -> None:
        begins = _BEGINS.match(self._text, at)
        assert begins is not None
        self._start, self._tail = begins.end(), -1

    def _opens(self, brace: int) -> int:
        """Read the definition of a brace, and return the offset at which to continue."""
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
            self._tail = end  # The brace belongs to an initializer, or is unknown.
            if not stripped:
                self._next(end)
            return end
        if record := _RECORD.search(stripped):
            if record[3]:
                at = start + record.start(3) if brace - start <= _HEAD_CHARS_MAX else start
                self._code.ends(self._keep(record[1], record[3], at), end)
            self._tail = end
            return end
        found = self._named(brace, has_body=True)
        if found is not None:
            self._code.ends(found, end)
        if found is not None or not stripped.endswith(")"):
            self._next(end)
        else:
            self._tail = end
        return end

    def _named(self, stop: int, has_body: bool) -> Symbol | None:
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
                # The function's name is in parentheses.
                opens, name, named_at = bracketed.end() - 1, bracketed[1], bracketed.start(1)
                at = code.end(opens) or at
            elif (points := _POINTS.match(text, opens + 1)) and (not name or name in _TYPE_WORDS):
                if not points[2]:
                    break  # A variable that points to a function.
                name, named_at, opens = points[1], points.start(1), points.end() - 1
                at = code.end(opens) or at
            if not name or name in _TYPE_WORDS:
                continue
            # Macros with arguments may precede the function's name.
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
            name, signature = first[1], f"({name})"  # A macro generates the function.
        is_static = text.startswith("static", start) or "static " in text[start:named_at]
        found = self._keep("function" if has_body else "declaration", name, named_at)
        found.signature, found.is_local = signature, is_static and has_body
        return found

    def _is_old_style(self, at: int) -> bool:
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
                        name, named_at = first[0], first.start()  # A macro follows the name.
                    places.append((name, named_at))
                at = end + 1
        for name, named_at in places:
            self._code.ends(self._keep("type", name, start + named_at), stop)

    def _keep(self, kind: str, name: str, named_at: int) -> Symbol:
        first = 0 if self._code.is_outline else self._code.line(self._start)
        found = Symbol(kind, name, self._code.line(named_at), first=first)
        self._code.keep(found)
        return found


# The text with comments, strings and directives masked, in lines of the same length

_STRING = r'"(?:[^"\\\n]++|\\.)*+"?|' + r"'(?:[^'\\\n]++|\\.)*+'?"
_COMMENT = r"/\*(?:[^*]++|\*(?!/))*+(?:\*/)?|//(?:[^\n\\]++|\\(?:\r?\n)?)*+"
# A string that is not masked.
_PLAIN = r"(\"[\w./@:+~$?!*%&# -]{0,120}+\"|'[\w./@:+~$?!*%&# -]{0,120}+')"


class Directive(Struct, frozen=True, gc=False):
    """A C preprocessor directive: `define` or `include`, and its arguments."""

    word: str
    text: str
    line: int
    last: int


_BRANCHES_MAX = 20
_BRANCH_WORDS = frozenset(("if", "ifdef", "ifndef", "else", "elif", "elifdef", "endif"))
_DIRECTIVE = re.compile(r"#[ \t]*+([a-z_]*+)[ \t]*+([^\n]{0,300})")
_C = re.compile(
    rf"{_PLAIN}|{_STRING}|{_COMMENT}|/"
    rf"|\#(?:[^\n\\/]++|\\(?:\r?\n)?|/\*(?:[^*]++|\*(?!/))*+(?:\*/)?|//[^\n]*+|/)*+",
    re.DOTALL,
)


def masked_c(text: str) -> tuple[str, list[Directive]]:
    """Return C code without comments, strings and directives, and the list of directives.

    If a branch of an `#if` leaves a brace open, the other branches are dropped.
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


class _Branches:
    """Decides which of several conditional branches to keep, because a compiler uses only one."""

    def __init__(self) -> None:
        self.kept: list[str] = []
        # For each open branch: its start, and the start of the dropped part, or -1.
        self._starts: list[tuple[int, int]] = []
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
            part = self.kept[start:] if dropped < 0 and word != "endif" else []
            if sum(each.count("{") - each.count("}") for each in part):
                self._starts[-1] = start, len(self.kept)
            elif word == "endif":
                self.drop()

    def drop(self) -> None:
        """End the last branch. Of the dropped part only the line ends remain."""
        if not self._starts:
            return
        _, dropped = self._starts.pop()
        if dropped >= 0:
            lines = sum(each.count("\n") for each in self.kept[dropped:])
            self.kept[dropped:] = ["\n" * lines]


# Matching brackets


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
_SPACES = re.compile(r"\s++")
_SIGNATURE_CHARS_MAX = 400


class Code(Definitions):
    """A masked text and the definitions found in it."""

    def __init__(self, text: str, wanted: str | None) -> None:
        super().__init__(wanted)
        self.text = text
        self._counted, self._line = 0, 1
        self._ends: dict[int, int] = {}
        """Cached positions of closing brackets, which may be looked up repeatedly."""
        self._open: set[str] = set()  # Kinds of brackets of which one is unclosed.

    def ends(self, found: Symbol, at: int) -> None:
        """Set the last line of a definition, given the offset of its end."""
        if not self.is_outline:
            found.last = self.line(at)

    def line(self, at: int) -> int:
        """Return the line number of an offset; offsets should be nearly ascending."""
        if at >= self._counted:
            self._line += self.text.count("\n", self._counted, at)
        else:
            self._line -= self.text.count("\n", at, self._counted)
        self._counted = at
        return self._line

    def signature(self, start: int, stop: int) -> str:
        """Return a piece of code on one line, or "" if it is not needed for an outline."""
        if self.is_outline and len(self.found) > OUTLINE_PIECES_MAX:
            return ""
        return _SPACES.sub(" ", self.text[start : min(stop, start + _SIGNATURE_CHARS_MAX)]).strip()

    def end(self, at: int) -> int:
        """Return the offset after the bracket that closes the one at `at`; 0 if there is none."""
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
