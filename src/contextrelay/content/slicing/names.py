"""Slices by names: a definition in code, or a section of Markdown or HTML.

Python, C and languages with a grammar are parsed; other languages are read by line: from a line
that defines the name, to where its braces close or its indent ends.

Rule: linear time, whatever the text contains and however often the name occurs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches

from msgspec import Struct

from contextrelay.content.slicing.ranges import lines_in, slice_lines
from contextrelay.content.slicing.source import (
    FittedPiece,
    SliceRange,
    SliceSource,
    close_names,
    decode_bytes,
    printable,
    with_name,
)
from contextrelay.errors import Invalid, NotFound, TooLarge
from contextrelay.limits import (
    NAMES_COMPARED_MAX,
    OUTLINE_LINE_CHARS_MAX,
    OUTLINE_LINES_MAX,
    PARSED_BYTES_MAX,
    TITLE_CHARS_MAX,
)

_SHOWN_MAX = 8
_COMPARED_MAX = 1_000
_NAME_CHARS_MAX = 100
_PATH_PARTS = 8
_STEPS_A_LINE, _STEPS_MIN = 2, 10_000
_DEFINES = (
    r"(?:^\s*#define\s+|\b(?:class|struct|enum|union|interface|trait|impl|protocol|record|object|module|namespace"
    r"|package|func|fn|fun|function|def|sub|procedure|macro|type|typedef|typealias|const|let|var"
    r"|val|static|public|private|protected|internal|abstract|override|create\s+(?:or\s+replace\s+)?\w+)\b[^=;(]{0,80}?(?<![\w$])"
    r"|\bfunc\s*\([^)]{0,80}\)\s*)"
)
# Braces, and strings and comments within a line, which may contain some.
_OPENS = re.compile(r"""[{}]|"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+'|//.*|#\s.*""")
_NO_CODE = re.compile(r"""\s*(?://|#(?!define)|\*|/\*|--)""")


class _Definition(Struct, frozen=True):
    """A definition: its enclosing names, and its first and last line."""

    path: tuple[str, ...]
    first: int
    last: int


def slice_definition(source: SliceSource, wanted: str, tokens_max: int) -> FittedPiece:
    """Return the definition of a name, or of `Class.name`.

    Raises:
        NotFound: there is no such definition; the hint lists similar ones.
        TooLarge: the body exceeds the limit of the definition search.
    """
    if source.size_bytes > PARSED_BYTES_MAX:
        limit = f"the limit is {PARSED_BYTES_MAX:,} bytes; find it with grep, then read lines"
        raise TooLarge(f"{source.ref} is too large to search for definitions", limit)
    text = printable(decode_bytes(source.bytes_of(0, source.size_bytes)))
    path = _parts(wanted.strip().removesuffix("()"))
    known = _definitions(source, text, path)
    found = [each for each in known if each.path[-len(path) :] == path] if path else []
    lines = text.split("\n") if path else []
    # Definitions before declarations, top-level ones before nested ones.
    found.sort(key=lambda each: (_is_declared(lines, each), len(each.path)))
    if not found and path:
        is_sql = source.media_type == "application/sql" or (source.name or "").endswith(".sql")
        by = _by_sql if is_sql else _by_lines
        # Definitions with a body come before declarations, and top-level ones before members.
        found = sorted(
            by(lines, path[-1]),
            key=lambda each: (_is_declared(lines, each), lines[each.first - 1][:1].isspace()),
        )
    if not found:
        raise _unknown_definition(source, text, known, wanted)
    first = found[0]
    taken = slice_lines(source, SliceRange(first.first, first.last + 1), tokens_max)
    others = [f"{'.'.join(each.path)} (line {each.first})" for each in found[1:]]
    return with_name(taken, ".".join(first.path), others)


def _parts(name: str) -> tuple[str, ...]:
    return tuple(part for part in re.split(r"\.|::|#|/", name) if part)


def _definitions(source: SliceSource, text: str, path: tuple[str, ...]) -> list[_Definition]:
    name, wanted = source.name or "", path[-1] if path else ""
    if "python" in source.media_type or name.endswith((".py", ".pyi")):
        from contextrelay.content.outline.code.python import read

        module = read(text, wanted)
        if module is None:
            return []
        parts_max = max(len(path), _PATH_PARTS)
        return [_Definition(each.path(parts_max), each.first, each.last) for each in module.nodes]
    if source.media_type == "text/x-c":
        from contextrelay.content.outline.code import c

        found = c.read(text, wanted)[0].found
    else:
        from contextrelay.content.outline.code import grammars

        found = grammars.read(source.media_type, name, text, wanted) or []
    named = ((_parts(f"{each.owner}.{each.name}"), each) for each in found)
    return [_Definition(path, each.first, each.last) for path, each in named]


def _by_lines(lines: list[str], name: str) -> Iterator[_Definition]:
    """Yield lines that look like definitions of a name in common languages, most reliable first."""
    word = rf"{re.escape(name)}(?![\w$])"
    sure = re.compile(_DEFINES + word, re.IGNORECASE if name.isupper() else 0)
    # A C function, or a method in Java or JavaScript: a name, arguments, and a body after them.
    likely = re.compile(
        rf"^[\w\s*&<>,\[\]:~@]{{0,120}}?(?<![\w$.]){word}\s*(?:=|:)?\s*(?:async\s*)?\("
    )
    found = False
    # The name may be on every line, with each definition apparently ending at the last line. Once
    # these steps are used up, a definition is only its first line.
    steps = iter(range(_STEPS_A_LINE * len(lines) + _STEPS_MIN))
    for pattern in (sure, likely):
        for index, line in enumerate(lines):
            if name not in line or _NO_CODE.match(line):
                continue
            if pattern.search(line[:OUTLINE_LINE_CHARS_MAX]):
                last = _last_line(lines, index, steps)
                if pattern is likely and last == index and not line.rstrip().endswith(("}", "};")):
                    continue  # A call or a declaration.
                found = True
                yield _Definition((name,), index + 1, last + 1)
        if found:
            return


_SQL = re.compile(
    r"\s*CREATE\s+(?:OR\s+REPLACE\s+)?(?:\w+\s+){0,3}?(TABLE|VIEW|INDEX|FUNCTION|TRIGGER|TYPE"
    r"|PROCEDURE|SEQUENCE|SCHEMA)\s+(?:IF\s+NOT\s+EXISTS\s+)?([\w.\"`\[\]]+)",
    re.IGNORECASE,
)
_SQL_ENDS = re.compile(r"\s*END\b[^;]{0,80};?\s*$", re.IGNORECASE)


def _by_sql(lines: list[str], name: str) -> Iterator[_Definition]:
    """Yield CREATE statements, up to the semicolon or the end of their body."""
    for index, line in enumerate(lines):
        match = _SQL.match(line[:OUTLINE_LINE_CHARS_MAX])
        if match is None:
            continue
        made = match[2].rpartition(".")[2].strip('"`[]')
        if made.lower() != name.lower():
            continue
        has_body = match[1].upper() in ("FUNCTION", "TRIGGER", "PROCEDURE")
        last, is_quoted = index, False
        for last in range(index, len(lines)):
            text = lines[last]
            is_quoted ^= text.count("$$") % 2 == 1
            is_end = _SQL_ENDS.match(text) if has_body and "$$" not in text else None
            if not is_quoted and (is_end or (text.rstrip().endswith(";") and not has_body)):
                break
            if not is_quoted and has_body and "$$" in text and text.rstrip().endswith(";"):
                break
        yield _Definition((made,), index + 1, last + 1)
        return


def _is_declared(lines: list[str], found: _Definition) -> bool:
    """Return True if this is only a declaration, with the body elsewhere."""
    last = lines[found.last - 1].rstrip()
    return last.endswith(";") and ")" in last and not {"{", "}", "="} & set(last)


def _last_line(lines: list[str], first: int, steps: Iterator[int]) -> int:
    """Return the last line of a definition: where its braces close, or its deeper indent ends.

    `steps`: how many more lines may be read.
    """
    depth = 0
    for index in range(first, len(lines)):
        if next(steps, None) is None:
            return first
        line = lines[index]
        for sign in _OPENS.findall(line[:OUTLINE_LINE_CHARS_MAX]):
            depth += {"{": 1, "}": -1}.get(sign, 0)
            if depth == 0 and sign == "}":
                return index
        is_directive = line.lstrip().startswith("#define") and not line.rstrip().endswith("\\")
        if depth == 0 and (line.rstrip().endswith(";") or is_directive):
            return index
        if depth == 0 and index > first + 3:
            break
    if depth > 0:
        return first
    margin = len(lines[first]) - len(lines[first].lstrip())
    last = first
    for index in range(first + 1, len(lines)):
        if next(steps, None) is None:
            break
        line = lines[index]
        if not line.strip():
            continue
        if len(line) - len(line.lstrip()) <= margin:
            closes = line.strip().split(None, 1)[0] in ("end", "end;", ")", "):", "]", "fi", "done")
            return index if closes and index == last + 1 else last
        last = index
    return last


def _unknown_definition(
    source: SliceSource, text: str, known: list[_Definition], wanted: str
) -> NotFound:
    paths = (".".join(each.path) for each in known[:_COMPARED_MAX])
    if not known:
        # The definitions that an outline shows.
        from contextrelay.content.outline.code.by_line import LANGUAGES, by_lines
        from contextrelay.content.source import Source as Outlined

        body = Outlined(b"", text, source.media_type, source.name or "", source.size_bytes)
        symbols, _ = by_lines(body, LANGUAGES.get(body.media_type, "code"))
        paths = (each.name for each in symbols[:_COMPARED_MAX])
    # Comparison takes quadratic time in the length of a name.
    names = list(dict.fromkeys(path[:_NAME_CHARS_MAX] for path in paths))
    wanted = wanted[:_NAME_CHARS_MAX]
    close = get_close_matches(wanted, names, _SHOWN_MAX, 0.4)
    close = close or get_close_matches(re.split(r"\.|::", wanted)[-1], names, _SHOWN_MAX, 0.4)
    hint = f"find it: relay get {source.ref[:8]} --grep {wanted[:80]!r}"
    if names:
        begin = "did you mean" if close else "definitions"
        hint = f"{begin}: {'; '.join(close or names[:_SHOWN_MAX])}"
    return NotFound(f"definition {wanted[:80]!r} not found", hint)


_TITLES_SHOWN_MAX = 8


class _Heading(Struct, frozen=True):
    """A title with its level and line."""

    level: int
    line: int
    title: str


def slice_section(source: SliceSource, wanted: str, tokens_max: int) -> FittedPiece:
    """Return the section with a title or a path of titles.

    Raises:
        Invalid: the body has no headings.
        NotFound: no title matches; the hint lists similar ones.
        TooLarge: the body exceeds the limit of the heading search.
    """
    headings = _headings(source)
    if not headings:
        hint = f"read lines instead: relay get {source.ref[:8]} --lines 1:40"
        raise Invalid(f"{source.ref} has no headings", hint)
    found = _sections(headings, wanted)
    if not found:
        raise _unknown_heading(headings, wanted)
    first = found[0]
    below = (each for each in headings if each.line > first.line and each.level <= first.level)
    stop = next((each.line for each in below), None)
    taken = slice_lines(source, SliceRange(first.line, stop), tokens_max)
    return with_name(taken, first.title, [f"{each.title} (line {each.line})" for each in found[1:]])


def _sections(headings: list[_Heading], wanted: str) -> list[_Heading]:
    """Return the headings that match a title or path: exactly, else as a prefix, else anywhere."""
    path = [_folded(part) for part in wanted.split(">") if part.strip()]
    if not path:
        return []
    for fits in (str.__eq__, str.startswith, str.__contains__):
        found: list[_Heading] = []
        above: list[tuple[int, str]] = []
        for each in headings:
            title = _folded(each.title)
            while above and above[-1][0] >= each.level:
                above.pop()
            if fits(title, path[-1]):
                # The enclosing sections contain the titles of the path, in that order.
                left = path[:-1]
                for _, outer in reversed(above):
                    if left and left[-1] in outer:
                        left.pop()
                found += [] if left else [each]
            above.append((each.level, title))
        if found:
            return found
    return []


def _folded(title: str) -> str:
    return " ".join(title.strip().strip("#").split()).casefold()


def _headings(source: SliceSource) -> list[_Heading]:
    if source.size_bytes > PARSED_BYTES_MAX:
        limit = f"{PARSED_BYTES_MAX:,} bytes; find them with grep '^#', then read lines"
        raise TooLarge(f"{source.ref} is too large to search for headings", f"the limit is {limit}")
    if source.type == "html":
        from contextrelay.content.outline import html

        text = printable(decode_bytes(source.bytes_of(0, source.size_bytes)))
        return [_Heading(*each) for each in html.find_headings(text)]
    from contextrelay.content.outline import markdown

    return [_Heading(*each) for each in markdown.find_headings(_beginnings(source))[0]]


def _beginnings(source: SliceSource) -> Iterator[str]:
    for line in lines_in(source.read_on(0), 1, 0, 4 * OUTLINE_LINE_CHARS_MAX):
        if line.number > OUTLINE_LINES_MAX:
            limit = f"the limit is {OUTLINE_LINES_MAX:,}; find them with grep '^#', then read lines"
            raise TooLarge(f"{source.ref} has too many lines to search for headings", limit)
        text = printable(decode_bytes(line.head)).removesuffix("\n")
        yield text[:OUTLINE_LINE_CHARS_MAX]


def _unknown_heading(headings: list[_Heading], wanted: str) -> NotFound:
    titles = {_folded(each.title): each.title for each in headings[:NAMES_COMPARED_MAX]}
    last = _folded(wanted.rpartition(">")[2])
    close = [titles[each] for each in close_names(last, titles)]
    names = [name[:TITLE_CHARS_MAX] for name in close or titles.values()][:_TITLES_SHOWN_MAX]
    begin = "did you mean" if close else "headings"
    return NotFound(f"heading {wanted[:80]!r} not found", f"{begin}: {'; '.join(names)}")
