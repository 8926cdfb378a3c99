"""Python by lines: imports, constants, classes with their methods, functions.

No parser: `ast.parse` takes gigabytes for a few hundred kilobytes of `a.a.a`, and holds the
interpreter meanwhile (docs/decisions/0017). One pattern finds strings, comments, brackets and line
ends, which is enough to know where statements begin. It takes linear time on any input.

Rule: everything that `ast` would find in a valid file is found, at the same lines
(tests/content/outline/test_python.py).
"""

from __future__ import annotations

import re
from collections import Counter

from msgspec import Struct

from contextrelay.content.outline.code import Symbol, code_draft
from contextrelay.content.outline.layout import OutlineDraft
from contextrelay.content.source import Source
from contextrelay.limits import MIB, OUTLINE_LINES_MAX

# Every alternative matches whatever follows its first characters, so that nothing is read twice:
# an unclosed string continues to the end of its line, or of the text.
STRING = (
    r'"""(?:[^"\\]++|\\.|"(?!""))*+(?:"""|\\?\Z)'
    r"|'''(?:[^'\\]++|\\.|'(?!''))*+(?:'''|\\?\Z)"
    r'|"(?:[^"\\\n]++|\\.)*+"?|'
    r"'(?:[^'\\\n]++|\\.)*+'?"
)
NAME = r"[^\W\d]\w*+"
# Maximum length of a header that is read for its arguments.
HEADER_CHARS_MAX = 4_000

_KEYWORD = re.compile(rf"{NAME}=(?!=)")
_ARGUMENT = re.compile(rf"\*{{0,2}}{NAME}")
_SPELLED = re.compile(
    rf"(?P<string>{STRING})|#[^\n]*+|\\\r?\n|(?P<equals>[ \t]*+(?<![=!<>:])=(?!=)[ \t]*+)"
    r"|(?P<edge>(?<=[(\[{])\s++|,?+[ \t]*+\r?\n\s*+(?=[)\]}]))|\s++",
    re.DOTALL,
)


def bases_in(statement: str, name: str) -> str:
    """Return the bases of a class in parentheses; "" for none."""
    parts, _ = _taken_apart(_in_one_line(statement), name)
    bases = ", ".join(part for part in parts if not _KEYWORD.match(part))
    return f"({bases})" if bases else ""


def signature_in(statement: str, name: str) -> tuple[str, str]:
    """Return the arguments and return type of a function, and the arguments without types."""
    parts, returns = _taken_apart(_in_one_line(statement), name)
    names = [match[0] for match in map(_ARGUMENT.match, parts) if match]
    return f"({', '.join(parts)}){returns}", f"({', '.join(names)})"


def _in_one_line(statement: str) -> str:
    """Return a header on one line without comments, formatted like `ast.unparse`: `a: int=1`."""

    def spelled(match: re.Match[str]) -> str:
        if match["string"]:
            return match[0]
        return "=" if match["equals"] else "" if match["edge"] else " "

    return _SPELLED.sub(spelled, statement)


_PART = re.compile(rf"[(\[{{)\]}}]|->|[:,]|{STRING}", re.DOTALL)


def _taken_apart(header: str, name: str) -> tuple[list[str], str]:
    """Return the parts between the parentheses after a name, and the return type."""
    at = header.find(name) + len(name)
    depth = 0
    parts: list[str] = []
    begins, arrow = at, -1
    is_open, returns = False, ""
    for token in _PART.finditer(header, at):
        sign = token[0]
        if sign in ("(", "[", "{"):
            depth += 1
            if depth == 1 and sign == "(" and not is_open:
                is_open, begins = True, token.end()
        elif sign in (")", "]", "}"):
            depth -= 1
            if depth == 0 and is_open and arrow < 0:
                parts.append(header[begins : token.start()])
                begins = token.end()
        elif depth == 1 and sign == "," and is_open and arrow < 0:
            parts.append(header[begins : token.start()])
            begins = token.end()
        elif depth == 0 and sign == "->":
            arrow = token.end()
        elif depth == 0 and sign == ":":
            returns = f" -> {header[arrow : token.start()].strip()}" if arrow >= 0 else ""
            break
    else:
        if depth > 0 and is_open:
            parts.append(header[begins:])  # Longer than the limit, or never closed.
    return [part.strip() for part in parts if part.strip()], returns


# Python up to this size is read by statement; larger files by line.
OUTLINE_PARSE_BYTES_MAX = 4 * MIB

# The common case: a statement on one line, with brackets that are not nested.
_SIMPLE = re.compile(
    r"""(?:[^\n"'#\\()\[\]{}]++|\([^\n"'#\\()\[\]{}]*+\)|\[[^\n"'#\\()\[\]{}]*+\]"""
    r"""|"(?!"")(?:[^"\\\n]++|\\[^\n])*+"|'(?!'')(?:[^'\\\n]++|\\[^\n])*+')*+(?:#[^\n]*+)?\n"""
)
_TOKEN = re.compile(rf"\n|[(\[{{)\]}}]|#[^\n]*+|\\\r?\n|{STRING}", re.DOTALL)
_STATEMENT = re.compile(
    r"(?P<indent>[ \t\f]*+)(?:"
    rf"(?:async[ \t]++)?def\s++(?P<function>{NAME})"
    rf"|class\s++(?P<class>{NAME})"
    r"|(?P<import>(?:import|from)\b)"
    r"|(?P<decorator>@)"
    r"|(?P<branch>(?:if|elif|else|try|except)\b)"
    r"|(?P<block>(?:async[ \t]++)?(?:finally|with|for|while)\b)"
    rf"|(?P<target>{NAME})[ \t]*+[=:](?!=)"
    r"|(?P<soft>(?:match|case)\b)"
    r"|(?P<nothing>[#\r\n]|\Z)"
    r")?"
)
_NAMED = re.compile(NAME)
# `a, b = NAME = ...` and `a.b = NAME = ...`
_CHAINED = re.compile(rf"[\w.,()\[\] \t]{{1,200}}?=[ \t]*+({NAME})[ \t]*+=(?!=)")
_TARGET = re.compile(rf"\s*+({NAME})[ \t]*+=(?!=)")
_DOC = re.compile(rf"[rRuU]?({STRING})[ \t]*+(?:#[^\n]*+|\r)?(?=\n|\Z|;)", re.DOTALL)
_RECOVERS = re.compile(rf"[ \t]*+(?:(?:async[ \t]++)?def|class)[ \t]++{NAME}[ \t]*+[(:\[]")
# Maximum nesting of branches that are searched for definitions.
_BRANCHES_MAX = 3
_DOC_CHARS_MAX = 1_000
_NODES_MAX = 20_000
_NEVER = 1 << 30


class PythonDefinition(Struct, gc=False):
    """A definition and its lines."""

    kind: str  # class, function or constant.
    name: str
    line: int
    first: int  # Where its decorators begin.
    start: int  # Offsets of the start and the end of its header.
    stop: int
    is_member: bool
    is_shown: bool
    """Whether an outline shows it: definitions within functions and loops are not shown."""
    above: PythonDefinition | None
    last: int = 0
    doc: str = ""

    def path(self, parts_max: int) -> tuple[str, ...]:
        """Return the name with its enclosing names, at most `parts_max` in all."""
        names: list[str] = []
        node: PythonDefinition | None = self
        while node is not None and len(names) < parts_max:
            names.append(node.name)
            node = node.above
        return tuple(reversed(names))


class Module(Struct):
    """The imports and definitions of a Python file, in order."""

    imports: list[str]
    nodes: list[PythonDefinition]
    more: Counter[str]  # Number of definitions beyond the limit, by kind.
    doc: str = ""


class _Block(Struct, gc=False):
    """An indented block."""

    indent: int
    node: PythonDefinition | None
    owner: PythonDefinition | None  # The class or function that contains it, or whose body it is.
    is_shown: bool
    is_member: bool
    is_branch: bool
    branches: int


def draft_outline(source: Source) -> OutlineDraft | None:
    """Return the outline of a Python file, or None if it cannot be read."""
    if source.media_type != "text/x-python" or len(source.body) > OUTLINE_PARSE_BYTES_MAX:
        return None
    module = read(source.text)
    if module is None:
        return None
    symbols: list[Symbol] = []
    for node in module.nodes:
        header = source.text[node.start : min(node.stop, node.start + HEADER_CHARS_MAX)]
        kind, name, signature, brief = node.kind, node.name, "", ""
        if kind == "class":
            signature = bases_in(header, name)
        elif kind == "function":
            signature, brief = signature_in(header, name)
        doc, is_member = node.doc, node.is_member
        symbols.append(Symbol(kind, name, node.line, signature, brief, doc, is_member))
    return code_draft(source, "Python", symbols, module.imports, module.doc, module.more)


def read(text: str, wanted: str | None = None) -> Module | None:
    """Return the imports and definitions of a file: those of an outline, or all if one is wanted.

    Nodes beyond _NODES_MAX are counted, and kept only if they have the wanted name. Return None if
    a string is unclosed, because the start of further statements is then unknown.
    """
    reading = _Reading(text, wanted)
    lines_max = OUTLINE_LINES_MAX if wanted is None else len(text)
    start, line = 0, 1
    while start < len(text) and line <= lines_max:
        if simple := _SIMPLE.match(text, start):
            reading.statement(start, simple.end(), line, line)
            start, line = simple.end(), line + 1
            continue
        end, last, is_closed = _end(text, start, line)
        if not is_closed:
            return None
        reading.statement(start, end, line, last)
        start, line = end, last + 1
    reading.close(0)
    return reading.module


def _end(text: str, start: int, line: int) -> tuple[int, int, bool]:
    """Return the start of the next statement, this one's last line, and whether its strings end."""
    depth = 0
    for token in _TOKEN.finditer(text, start):
        at = token.start()
        sign = text[at]
        if sign == "\n":
            if not depth or _RECOVERS.match(text, at + 1):
                return at + 1, line, True
            line += 1
        elif sign in "([{":
            depth += 1
        elif sign in ")]}":
            depth = max(0, depth - 1)
        elif sign == "\\":
            line += 1
        elif sign != "#":
            quotes = sign * 3 if token[0][:3] in ('"""', "'''") else sign
            is_closed = len(token[0]) >= 2 * len(quotes) and token[0].endswith(quotes)
            if token.end() == len(text) and not is_closed:
                return len(text), line, False
            line += text.count("\n", at, token.end())
    return len(text), line, True


class _Reading:
    """Reads statements one after the other, with the blocks that contain them."""

    def __init__(self, text: str, wanted: str | None) -> None:
        self.module = Module([], [], Counter())
        self._text = text
        self._wanted = wanted
        self._is_outline = wanted is None
        self._blocks = [_Block(-1, None, None, True, False, False, 0)]
        self._decorated = 0
        self._last = 0
        self._passed_indent = _NEVER  # The indent of the function whose body is being skipped.
        self._may_be_doc = True  # Whether the previous statement was a header, or there was none.

    def statement(self, start: int, stop: int, line: int, last: int) -> None:
        """Read the statement at these offsets, on lines `line` to `last`."""
        found = _STATEMENT.match(self._text, start)
        assert found is not None
        what = found.lastgroup
        if what == "nothing":
            return
        margin = found["indent"]
        indent = len(margin.expandtabs(8)) if "\t" in margin else len(margin)
        if indent > self._passed_indent and not self._may_be_doc:
            self._last = last  # Inside a function, of which an outline shows only the header.
            return
        if indent <= self._passed_indent:
            self._passed_indent = _NEVER
        was_branch = self.close(indent)
        self._last = last
        if what == "indent":
            self._plain((found.end(), stop), indent, line, last)
        elif what == "decorator":
            self._decorated = self._decorated or line
        elif what == "function" or what == "class":
            self._header(what, found[what], indent, (start, stop), line)
            return
        elif what == "import":
            if not indent and len(self._blocks) == 1:
                end = min(stop, start + HEADER_CHARS_MAX)
                self.module.imports += _imported(self._text[found.start("import") : end])
        elif what == "target":
            self._targets((found.start("target"), stop), line, last)
        else:
            # A block that defines nothing itself.
            above = self._blocks[-1]
            is_branch = what == "branch" and (
                was_branch or found["branch"] not in ("else", "elif", "except")
            )
            branches = above.branches + 1
            is_shown = above.is_shown and is_branch and branches <= _BRANCHES_MAX
            self._blocks.append(
                _Block(indent, None, above.owner, is_shown, above.is_member, is_branch, branches)
            )
        if what != "decorator":
            self._decorated = 0
        self._may_be_doc = False

    def close(self, indent: int) -> bool:
        """End the blocks that a line of this indent ends; return whether the last was a branch."""
        was_branch = False
        while self._blocks[-1].indent >= indent:
            block = self._blocks.pop()
            was_branch = block.is_branch
            if block.node is not None:
                block.node.last = self._last
        return was_branch

    def _header(self, kind: str, name: str, indent: int, at: tuple[int, int], line: int) -> None:
        above = self._blocks[-1]
        first = self._decorated or line
        self._decorated = 0
        self._may_be_doc = True
        node = PythonDefinition(
            kind, name, line, first, *at, above.is_member, above.is_shown, above.owner
        )
        if above.is_shown or not self._is_outline:
            self._keep(node)
        is_shown = above.is_shown and kind == "class" and not above.is_member
        if self._is_outline and not is_shown:
            self._passed_indent = min(self._passed_indent, indent)
        self._blocks.append(_Block(indent, node, node, is_shown, True, False, 0))

    def _plain(self, at: tuple[int, int], indent: int, line: int, last: int) -> None:
        """Read a statement that does not start with a definition: it may be a docstring."""
        start, stop = at
        if not self._may_be_doc:
            if chained := _CHAINED.match(self._text, start, stop):
                self._targets((chained.start(1), stop), line, last)
            return
        block = self._blocks[-1]
        is_body = block.indent < indent if block.node is not None else len(self._blocks) == 1
        match = _DOC.match(self._text, start) if is_body else None
        if match is None:
            return
        doc = _first_line(match[1])
        if block.node is not None:
            block.node.doc = doc
        else:
            self.module.doc = doc

    def _targets(self, at: tuple[int, int], line: int, last: int) -> None:
        """Read `A = B = 1`, `a: int = 1` and `a: int`, up to the end of the statement."""
        start, stop = at
        above = self._blocks[-1]
        is_shown = above.is_shown and not above.is_member
        if self._is_outline and not is_shown:
            return
        name = _NAMED.match(self._text, start)
        assert name is not None
        names = [name[0]]
        follows = _TARGET.match(self._text, start, stop)
        while follows is not None:
            start = follows.end()
            names.append(follows[1])
            follows = _TARGET.match(self._text, start, stop)
        owner, is_member = above.owner, above.is_member
        places = (line, line, start, start)
        for each in dict.fromkeys(names):
            if not (self._is_outline and each.startswith("__")):
                found = PythonDefinition(
                    "constant", each, *places, is_member, is_shown, owner, last
                )
                self._keep(found)

    def _keep(self, node: PythonDefinition) -> None:
        if len(self.module.nodes) < _NODES_MAX or node.name == self._wanted:
            self.module.nodes.append(node)
        else:
            self.module.more["method" if node.is_member else node.kind] += 1


def _first_line(string: str) -> str:
    quote = 3 if string[:3] in ('"""', "'''") else 1
    text = string[quote : quote + _DOC_CHARS_MAX] if len(string) > 2 * quote else ""
    if quote + len(text) > len(string) - quote:
        text = string[quote : len(string) - quote]
    return text.removeprefix("\\").strip().partition("\n")[0].rstrip("\\ \r")


_FROM = re.compile(r"from\b([.\s]*+)(?:(?!import\b)([\w.]+))?")
_IMPORTED = re.compile(r"\s*+([\w.]+)[^,;#\n]*+(,)?")


def _imported(statement: str) -> list[str]:
    statement = statement.replace("\\\n", " ")
    if match := _FROM.match(statement):
        return ["".join(match[1].split()) + (match[2] or "")]
    names: list[str] = []
    at = len("import")
    while (match := _IMPORTED.match(statement, at)) is not None:
        names.append(match[1])
        if not match[2]:
            break
        at = match.end()
    return names
