"""Go: types with their methods, functions, constants and variables, including grouped ones.

The text is masked first, so that every remaining bracket is syntax. Each statement at the left
margin is read, and skipped to its end.
"""

from __future__ import annotations

import re

from contextrelay.content.outline.code.brackets import Code, CodeDefinition
from contextrelay.content.outline.code.masked import masked_go
from contextrelay.content.outline.code.symbols import code_draft, symbols_of
from contextrelay.content.outline.layout import OutlineDraft
from contextrelay.content.source import Source

_TOP = re.compile(r"^(func|type|const|var|import|package)\b[ \t]*+", re.MULTILINE)
_FUNCTION = re.compile(
    r"(?:\(\s*+(?:\w++\s++)?\*?\s*+(\w++)[^()\n]{0,200}\)\s*+)?(\w++)\s*+(?:\[[^\n]{0,300}?\]\s*+)?(?=\()"
)
_RESULT = re.compile(r"[ \t]*+(?:\(|(?:[^\n{]|(?<=interface)\{\}|(?<=struct)\{\})*+)")
_BODY = re.compile(r"[ \t]*+\{")
_SPEC = re.compile(r"(\w++)((?:\s*+,\s*+\w++){0,20}+)")
_NEXT = re.compile(r"[\s;]*+")
_RUN = re.compile(r"[^\n;{(\[]*+")
_QUOTED = re.compile(r"[^\n\"]{0,100}\"([^\"\n]*+)")
_SHAPE = re.compile(r"\s*+=?\s*+((?:\[\w++\s[^\n\]]*+\]\s*+)?[A-Za-z][^\n{]{0,100})")
_WORD = re.compile(r"\w++")
_KINDS = {"const": "constant", "var": "variable", "type": "type"}
# Entry points, which are called from outside.
_CALLED = ("main", "init")


def draft_outline(source: Source) -> OutlineDraft | None:
    """Return the outline of a Go file, or None for another language."""
    if source.media_type != "text/x-go":
        return None
    walk = _walked(source.text, None)
    code, package = walk.code, f"package {walk.package}" if walk.package else ""
    symbols = symbols_of(_by_type(code.found))
    return code_draft(source, "Go", symbols, walk.imports, package, code.more, code.note)


def read(text: str, wanted: str | None = None) -> tuple[Code, list[str]]:
    """Return the definitions and imports of a Go file."""
    walk = _walked(text, wanted)
    return walk.code, walk.imports


def _by_type(found: list[CodeDefinition]) -> list[CodeDefinition]:
    """Sort methods after their type; prefix those of types defined elsewhere with its name."""
    methods: dict[str, list[CodeDefinition]] = {
        each.name: [] for each in found if each.kind == "type" and not each.owner
    }
    ordered: list[CodeDefinition] = []
    for each in found:
        if each.owner in methods:
            methods[each.owner].append(each)
            continue
        if each.owner:
            each.name, each.owner = f"{each.owner}.{each.name}", ""
        ordered.append(each)
    # A type that is defined again lists them once.
    return [
        one
        for each in ordered
        for one in (each, *(methods.pop(each.name, ()) if each.kind == "type" else ()))
    ]


def _walked(text: str, wanted: str | None) -> _Walk:
    walk = _Walk(Code(masked_go(text), wanted))
    walk.run()
    return walk


class _Walk:
    """Reads statements one after the other."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.imports: list[str] = []
        self.package = ""
        self._text = code.text

    def run(self) -> None:
        at = 0
        while top := _TOP.search(self._text, at):
            if not self.code.goes_on():
                self.code.read_to(top.start())
                return
            word, start, at = top[1], top.start(), top.end()
            if word == "func":
                at = self._function(start, at)
            elif word == "package":
                name = _WORD.match(self._text, at)
                self.package = name[0][:60] if name else ""
            elif self._text[at : at + 1] == "(":
                at = self._block(word, at)
            else:
                at = self._spec(word, start, at)

    def _function(self, start: int, at: int) -> int:
        text, code = self._text, self.code
        match = _FUNCTION.match(text, at)
        if match is None:
            return at
        close = code.end(match.end())
        if not close:
            return match.end()
        result = _RESULT.match(text, close)
        end = result.end() if result else close
        if text[end - 1] == "(":
            end = code.end(end - 1) or end
        kind = "method" if match[1] else "function"
        found = self._keep(kind, match[2], start, match.start(2))
        found.owner = match[1] or ""
        found.signature = code.signature(match.end(2), end)
        body = _BODY.match(text, end)
        end = (body and code.end(body.end() - 1)) or end
        code.ends(found, end)
        return end

    def _block(self, word: str, opens: int) -> int:
        """Read a bracketed group after a keyword."""
        stop = self.code.end(opens) - 1
        at = opens + 1
        while True:
            gap = _NEXT.match(self._text, at)
            at = gap.end() if gap else at
            if at >= stop or not self.code.goes_on():
                return max(at, stop + 1)
            at = max(self._spec(word, at, at), at + 1)

    def _spec(self, word: str, start: int, at: int) -> int:
        """Read one or several comma-separated names with their declaration."""
        text = self._text
        if word == "import":
            module = _QUOTED.match(text, at)
            self.imports += [module[1]] if module else []
            return self._rest(at)
        match = _SPEC.match(text, at)
        if match is None:
            return self._rest(at)
        found = [self._keep(_KINDS[word], match[1], start, at)]
        if word == "type" and (shape := _SHAPE.match(text, match.end())):
            found[0].signature = self.code.signature(shape.start(1), shape.end(1))
        others = _WORD.findall(match[2]) if word != "type" else ()
        found += [self._keep(_KINDS[word], other, start, at) for other in others]
        end = self._rest(match.end())
        for each in found:
            self.code.ends(each, end)
        return end

    def _rest(self, at: int) -> int:
        """Return where a line ends, including the brackets that it opens."""
        while True:
            run = _RUN.match(self._text, at)
            at = run.end() if run else at
            if self._text[at : at + 1] in ("", "\n", ";") or not self.code.goes_on():
                return at
            at = self.code.end(at) or at + 1

    def _keep(self, kind: str, name: str, start: int, named_at: int) -> CodeDefinition:
        first = 0 if self.code.is_outline else self.code.line(start)
        found = CodeDefinition(kind, name, self.code.line(named_at), first)
        found.is_local = kind != "type" and not name[0].isupper() and name not in _CALLED
        if name != "_":
            self.code.keep(found)
        return found
