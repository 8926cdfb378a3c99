"""JavaScript and TypeScript: functions, classes with their methods and types, by statement.

The text is masked first, so that every remaining bracket is syntax. Then statements are read: those
of the file, of wrappers around a whole file, of namespaces, classes and named objects. Function
bodies are skipped.
"""

from __future__ import annotations

import re

from msgspec import Struct

from contextrelay.content.outline.code import script_patterns as on
from contextrelay.content.outline.code import script_wrappers as wrappers
from contextrelay.content.outline.code.brackets import Code, CodeDefinition
from contextrelay.content.outline.code.masked import masked_script
from contextrelay.content.outline.code.symbols import code_draft, symbols_of
from contextrelay.content.outline.layout import OutlineDraft
from contextrelay.content.source import Source

LANGUAGES = {"text/javascript": "JavaScript", "text/x-typescript": "TypeScript"}
_LEVELS_MAX = 8
_HEADER_CHARS_MAX = 2_000


class _Level(Struct, gc=False):
    """A region that is read: a body of statements, a class, an object, or a module table."""

    kind: str
    owner: CodeDefinition | None = None


def draft_outline(source: Source) -> OutlineDraft | None:
    """Return the outline of a script, or None for another language."""
    language = LANGUAGES.get(source.media_type)
    if language is None:
        return None
    code, imports = read(source.text)
    return code_draft(source, language, symbols_of(code.found), imports, "", code.more, code.note)


def read(text: str, wanted: str | None = None) -> tuple[Code, list[str]]:
    """Return the definitions and imports of a script."""
    walk = _Walk(Code(masked_script(text), wanted))
    walk.run()
    return walk.code, walk.imports


class _Walk:
    """Reads statements one after the other."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.imports: list[str] = []
        self._text = code.text
        self._levels = [_Level("body")]
        self._at = 0
        self._decorated = -1
        self._read = 0
        """How far the current statement has been read."""

    def run(self) -> None:
        text = self._text
        if text.startswith("#!"):
            self._at = text.find("\n") + 1 or len(text)
        while True:
            gap = on.GAP.match(text, self._at)
            assert gap is not None
            self._at = gap.end()
            if self._at >= len(text) or not self.code.goes_on():
                break
            sign = text[self._at]
            if sign == "}":
                self._close()
            elif sign == "@" and (decorator := on.DECORATOR.match(text, self._at)):
                self._decorated = self._at if self._decorated < 0 else self._decorated
                end = self.code.end(decorator.end()) if decorator[1] else 0
                self._at = max(decorator.end(), end, self._at + 1)
            else:
                self._statement()
                self._decorated = -1
        self.code.read_to(self._at)
        for level in self._levels:
            if level.owner is not None:
                self.code.ends(level.owner, self._at)

    def _close(self) -> None:
        self._at += 1
        if len(self._levels) > 1:
            level = self._levels.pop()
            if level.owner is not None:
                self.code.ends(level.owner, self._at)
            if level.kind == "object" and self._levels[-1].kind == "body":
                self._at = self._rest(self._at)

    def _statement(self) -> None:
        """Read the statement at the current position, and move to the next one."""
        start, level = self._at, self._levels[-1]
        if level.kind == "body":
            found = self._body(start)
            is_read = found is not None and found.kind == "function" and start < self._read
            if is_read and (brace := wrappers.whole_body(self.code, self._read)):
                self._go_in("body", brace, found)
        elif level.kind == "modules":
            found = self._module(start)
        else:
            found = self._member(start, level)
        if self._at > start:
            return  # Its body is read next.
        self._at = max(self._rest(max(start, self._read)), start + 1)
        if found is not None:
            self.code.ends(found, self._at - (self._text[self._at - 1] == "\n"))

    # -- starts of statements

    def _body(self, start: int) -> CodeDefinition | None:
        text = self._text
        match = on.DEFINES.match(text, start)
        if match is None:
            return self._unnamed(start)
        if match["word"] or match["target"]:
            return self._assigned(start, match)
        if match["kind"] or match["global"]:
            return self._type(start, match)
        kind = "function" if match["function"] else "class" if match["class"] else ""
        if not kind:
            if not match[0].startswith("export"):
                return None
            kind = "class" if match[0].rstrip().endswith("class") else "function"
        name = match[kind] or "default"
        found = self._keep(kind, name, start, match.start(kind) if match[kind] else start)
        if kind == "class":
            self._enter(found, match.end())
        else:
            found.signature = self._arguments(match.end())
        return found

    def _unnamed(self, start: int) -> CodeDefinition | None:
        """Read an import, or a wrapper around the statements of a whole file."""
        text = self._text
        if match := on.IMPORT.match(text, start):
            self.imports.append(match[1] or match[2] or "")
            return None
        if match := on.TEST.match(text, start):
            return self._test(start, match)
        if match := on.DEFAULT.match(text, start):
            found = CodeDefinition(
                "object", "default", self.code.line(start), self.code.line(start)
            )
            self._go_in("object", match.end(), found)
            return None
        if match := on.RUNS_NOW.match(text, start):
            end = self.code.end(match.end())
            body = end and on.BODY.match(text, end)
            if body:
                self._go_in("body", body.end(), None)
            return None
        is_called = text[start] in "()"
        at = start
        for _ in range(3):
            called = on.CALLS.match(text, at)
            if called is None:
                return None
            opens = called.end()
            if table := wrappers.modules_in(self.code, opens):
                self._go_in("modules", table, None)
                return None
            at = self.code.end(opens) or len(text)
            brace = wrappers.function_in(self.code, opens, at)
            size = brace and (self.code.end(brace) or len(text)) - brace
            if brace and (is_called or 2 * size > len(text)):
                self._go_in("body", brace, None)
                return None
        return None

    def _module(self, start: int) -> CodeDefinition | None:
        """Read a module of a bundle; its statements are read like those of a file."""
        match = on.MODULE.match(self._text, start)
        brace = match and wrappers.module_body(self.code, match.end())
        if not match or not brace:
            return None
        name = (match["name"] or "").strip("'\"")
        found = self._keep("module", name, start, start) if name[:1] in ".@/" else None
        self._go_in("body", brace, found)
        return found

    def _test(self, start: int, match: re.Match[str]) -> CodeDefinition | None:
        """Read a test with its title, and the tests in it."""
        above = self._levels[-1].owner
        owner = above.name if above is not None and above.kind == "test" else ""
        found = self._keep("test", match[2], start, start, owner) if match[2] else None
        opens = self._text.index("(", start)
        self._read = self.code.end(opens)
        brace = match[1] and wrappers.function_in(self.code, opens, self._read or len(self._text))
        if brace:
            self._go_in("body", brace, found)
        return found

    def _type(self, start: int, match: re.Match[str]) -> CodeDefinition | None:
        kind = (match["kind"] or "module").split()[-1]
        name = match["type"]
        if kind in ("module", "namespace"):
            brace = on.BRACE.match(self._text, match.end())
            found = self._keep("namespace", name, start, match.start("type")) if name else None
            if brace:
                self._go_in("body", brace.end() - 1, found)
            return found
        if not name:
            return None
        found = self._keep(kind, name, start, match.start("type"))
        generics = on.GENERICS.match(self._text, match.end(), match.end() + 600) or match
        if end := on.SIGNATURE_END.search(self._text, generics.end(), generics.end() + 200):
            found.signature = self.code.signature(match.end(), end.start())
        return found

    def _assigned(self, start: int, match: re.Match[str]) -> CodeDefinition | None:
        """Read an assignment: a definition if the value is a function, a class or an object."""
        text = self._text
        group = "variable" if match["word"] else "target"
        name, named_at, at = match[group], match.start(group), match.end()
        if match["word"] and (annotation := on.ANNOTATION.match(text, at)):
            at = annotation.end()
        assigns = on.ASSIGNS.match(text, at)
        if assigns is None or not assigns[0].strip().startswith("="):
            return self._keep("constant", name, start, named_at) if match["export"] else None
        at = assigns.end()
        for _ in range(4):
            chained = on.CHAINED.match(text, at)
            if chained is None:
                break
            if name == "module.exports":
                name, named_at = chained["target"], chained.start()
            at = chained.end()
        found = self._value(name, start, named_at, at)
        if found is not None:
            return found
        if match["word"] and (required := on.REQUIRED.match(text, at)):
            self.imports.append(required[1])
            return None
        exported = None if on.NO_VALUE.match(text, at) else on.EXPORTED.match(name)
        is_constant = match["export"] or (match["word"] and on.CONSTANT.fullmatch(name))
        if exported or is_constant:
            name = name[exported.end() :] if exported else name
            found = self._keep("constant", name, start, named_at)
            if self._at > start:
                found.last = -1  # Its object is read next and is not a second definition.
                self._levels[-1].owner = found
        return found

    def _value(
        self, name: str, start: int, named_at: int, at: int, owner: str = ""
    ) -> CodeDefinition | None:
        """Return a definition if a function, a class or an object starts here."""
        text = self._text
        match = on.VALUE.match(text, at)
        if match is None:
            return None
        end = match.end()
        if table := wrappers.modules_in(self.code, end):
            self._go_in("modules", table, None)
            return None
        if match["object"] is not None:
            if not owner and len(self._levels) <= 2:
                found = CodeDefinition(
                    "object", name, self.code.line(named_at), self.code.line(start)
                )
                self._go_in("object", end, found)
            return None
        if match["class"]:
            found = self._keep("class", self._own(name, match["own"]), start, named_at, owner)
            self._enter(found, end)
            return found
        if match["open"] is not None:
            close = self.code.end(end)
            if not close or not on.ARROW.match(text, close):
                return None
            self._read = close
            signature = self.code.signature(end, close)
        elif match["function"]:
            signature = self._arguments(end)
            body = on.BODY.match(text, self._read) if text[at] == "(" and self._read > end else None
            if body and on.CALLED.match(text, self.code.end(body.end()) or len(text)):
                # The value is the function's result, not the function.
                found = self._keep("object", name, start, named_at, owner)
                self._go_in("body", body.end(), found)
                return found
        else:
            signature = f"({match['arrow']})"
        name = self._own(name, match["named"])
        found = self._keep("function", name, start, named_at, owner)
        found.signature = signature
        return found

    def _own(self, name: str, own: str | None) -> str:
        """Return the name of a default export: its own name, if it has one."""
        return own if own and name in ("module.exports", "exports") else name

    def _member(self, start: int, level: _Level) -> CodeDefinition | None:
        text = self._text
        match = on.MEMBER.match(text, start)
        if match is None:
            return None
        assert level.owner is not None
        owner = level.owner.name
        name, named_at, at = match["name"], match.start("name"), match.end()
        if match["sign"] in "(<":
            signature = self._arguments(at)
            if self._read < at:
                return None
            if level.kind == "object":
                if not on.BODY.match(text, self._read):
                    return None
                self._own_object(level)
            found = self._keep("function", name, start, named_at, owner)
            found.signature = signature
            return found
        if level.kind == "class" and (annotation := on.ANNOTATION.match(text, at)):
            at = annotation.end()
        assigns = on.ASSIGNS.match(text, at)
        if assigns is None:
            return None
        kept = len(self.code.found)
        found = self._value(name, start, named_at, assigns.end(), owner)
        if found is not None and level.kind == "object":
            self._own_object(level, kept)
        return found

    def _own_object(self, level: _Level, at: int | None = None) -> None:
        """Show an object only if it has functions."""
        if level.owner is not None and not level.owner.last:
            level.owner.last = -1
            found = self.code.found
            found.insert(len(found) if at is None else at, level.owner)

    # -- continuations

    def _keep(
        self, kind: str, name: str, start: int, named_at: int, owner: str = ""
    ) -> CodeDefinition:
        code, first = self.code, 0
        if not code.is_outline:
            first = code.line(self._decorated if self._decorated >= 0 else start)
        found = CodeDefinition(kind, name, code.line(named_at), first, owner=owner)
        self.code.keep(found)
        return found

    def _enter(self, found: CodeDefinition, at: int) -> None:
        """Read the body of a class next."""
        brace = self._text.find("{", at, at + _HEADER_CHARS_MAX)
        for _ in range(4):
            header = self._text[at:brace]
            if brace < 0 or header.count("<") <= header.count(">") - header.count("=>"):
                break
            end = self.code.end(brace)  # It belongs to a type argument of the class.
            brace = self._text.find("{", end, at + _HEADER_CHARS_MAX) if end else -1
        if brace >= 0:
            found.signature = self.code.signature(at, brace)
            self._go_in("class", brace, found)

    def _go_in(self, kind: str, brace: int, owner: CodeDefinition | None) -> None:
        if len(self._levels) < _LEVELS_MAX:
            self._levels.append(_Level(kind, owner))
            self._at = brace + 1

    def _arguments(self, at: int) -> str:
        opens = self._text.find("(", at, at + 200)
        close = self.code.end(opens) if opens >= 0 else 0
        if not close:
            return ""
        self._read = close
        end = on.SIGNATURE_END.search(self._text, close, close + 200)
        return self.code.signature(at, end.start() if end else close).rstrip(" :")

    def _rest(self, at: int) -> int:
        """Return where the statement that continues here ends."""
        text, kind = self._text, self._levels[-1].kind
        run = on.RUN_OF_OBJECT if kind in ("object", "modules") else on.RUN
        while True:
            match = run.match(text, at)
            assert match is not None
            at = match.end()
            sign = text[at : at + 1]
            if sign in ("", "}"):
                return at
            if sign in ";,":
                return at + 1
            if sign == "\n":
                before = text[max(match.start(), at - 40) : at].rstrip()
                is_open = before.endswith(on.ENDS_OPEN) or on.LINE_GOES_ON.match(text, at)
                if not is_open or (before.endswith(",") and on.NEXT_NAME.match(text, at)):
                    return at + 1
                at += 1
            elif sign in ")]":
                at += 1
            else:
                end = self.code.end(at)
                at = end or at + 1
                if not self.code.goes_on():
                    return at
                if (
                    sign == "{"
                    and kind not in ("object", "modules")
                    and not on.GOES_ON.match(text, at)
                ):
                    return at
