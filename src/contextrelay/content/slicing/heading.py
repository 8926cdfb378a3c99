"""Sections of Markdown and HTML: a heading and everything up to the next one of its level.

A section is selected by its title, ignoring case, or by a path of titles, `Part > Chapter`. Partial
matches are used only if no title matches exactly.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from contextrelay.content.slicing.fit import FittedPiece, close_names, named
from contextrelay.content.slicing.lines import lines_in, take_lines
from contextrelay.content.slicing.source import SliceRange, SliceSource, shown, text_of
from contextrelay.errors import Invalid, NotFound, TooLarge
from contextrelay.limits import (
    NAMES_COMPARED_MAX,
    OUTLINE_LINE_CHARS_MAX,
    OUTLINE_LINES_MAX,
    PARSED_BYTES_MAX,
    TITLE_CHARS_MAX,
)

_SHOWN_MAX = 8


class _Heading(Struct, frozen=True):
    """A title with its level and line."""

    level: int
    line: int
    title: str


def take_section(source: SliceSource, wanted: str, tokens_max: int) -> FittedPiece:
    """Return the section with a title or a path of titles.

    Raises:
        Invalid: the body has no headings.
        NotFound: no title matches; the hint lists similar ones.
        TooLarge: the body exceeds the limit of the heading search.
    """
    headings = _headings(source)
    if not headings:
        raise Invalid(
            f"{source.ref} has no headings",
            f"read lines instead: relay get {source.ref[:8]} --lines 1:40",
        )
    found = _sections(headings, wanted)
    if not found:
        raise _unknown(headings, wanted)
    first = found[0]
    below = (each for each in headings if each.line > first.line and each.level <= first.level)
    stop = next((each.line for each in below), None)
    taken = take_lines(source, SliceRange(first.line, stop), tokens_max)
    return named(taken, first.title, [f"{each.title} (line {each.line})" for each in found[1:]])


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
            if fits(title, path[-1]) and _is_below(above, path[:-1]):
                found.append(each)
            above.append((each.level, title))
        if found:
            return found
    return []


def _is_below(above: list[tuple[int, str]], path: list[str]) -> bool:
    """Return True if the enclosing sections contain the titles of the path, in that order."""
    left = list(path)
    for _, title in reversed(above):
        if left and left[-1] in title:
            left.pop()
    return not left


def _folded(title: str) -> str:
    return " ".join(title.strip().strip("#").split()).casefold()


def _headings(source: SliceSource) -> list[_Heading]:
    if source.size_bytes > PARSED_BYTES_MAX:
        raise TooLarge(
            f"{source.ref} is too large to search for headings",
            f"the limit is {PARSED_BYTES_MAX:,} bytes; find them with grep '^#', then read lines",
        )
    if source.type == "html":
        from contextrelay.content.outline import html

        text = shown(text_of(source.bytes_of(0, source.size_bytes)))
        return [_Heading(*each) for each in html.find_headings(text)]
    from contextrelay.content.outline import markdown

    return [_Heading(*each) for each in markdown.find_headings(_lines(source))[0]]


def _lines(source: SliceSource) -> Iterator[str]:
    """Yield the beginnings of all lines, without keeping them in memory."""
    for line in lines_in(source.read_on(0), 1, 0, 4 * OUTLINE_LINE_CHARS_MAX):
        if line.number > OUTLINE_LINES_MAX:
            raise TooLarge(
                f"{source.ref} has too many lines to search for headings",
                f"the limit is {OUTLINE_LINES_MAX:,}; find them with grep '^#', then read lines",
            )
        text = shown(text_of(line.head)).removesuffix("\n")
        yield text[:OUTLINE_LINE_CHARS_MAX]


def _unknown(headings: list[_Heading], wanted: str) -> NotFound:
    titles = {_folded(each.title): each.title for each in headings[:NAMES_COMPARED_MAX]}
    last = _folded(wanted.rpartition(">")[2])
    close = [titles[each] for each in close_names(last, titles)]
    names = [name[:TITLE_CHARS_MAX] for name in close or titles.values()][:_SHOWN_MAX]
    begin = "did you mean" if close else "headings"
    return NotFound(f"heading {wanted[:80]!r} not found", f"{begin}: {'; '.join(names)}")
