"""HTML pages: title, headings, links, forms and tables.

Tags are found by one pattern instead of a parser: it takes linear time on any input, unlike the
standard library's parser.
"""

from __future__ import annotations

import re
from collections import Counter
from html import unescape

from msgspec import Struct, field

from contextrelay.content.outline.layout import JOINED, OutlineDraft, OutlinePiece, shorten
from contextrelay.content.source import Source
from contextrelay.limits import OUTLINE_PIECES_MAX, OUTLINE_TAGS_MAX

_TAG = re.compile(
    r"<(?:!--|(title|h[1-6]|a|meta|script|style|table|form|input|img|section|article|ul|ol|pre"
    r"|iframe|svg|main|nav|button|dt|caption)(?=[\s>/])([^<>]{0,2000})>)",
    re.IGNORECASE,
)
_ATTRIBUTE = re.compile(
    r"""(?<![a-zA-Z-])([a-zA-Z-]++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'>]++))"""
)
_ANY_TAG = re.compile(r"<[^<>]{0,2000}>")
_TEXT_CHARS_MAX = 1_000
# How many of each tag are read; further ones are only counted.
_READ_MAX = 2_000
_CLOSINGS = {name: re.compile(f"</{name}", re.IGNORECASE) for name in ("script", "style", "svg")}
_COUNTED = ("table", "form", "img", "script", "pre", "iframe", "svg", "input", "button")


class _Page(Struct):
    title: str = ""
    description: str = ""
    headings: list[tuple[int, int, str]] = []  # Level, line and text.
    links: list[tuple[str, str]] = []
    counts: Counter[str] = field(default_factory=lambda: Counter[str]())
    is_whole: bool = True
    linked: int = 0  # Total number of links, read or not.


def draft_outline(source: Source) -> OutlineDraft | None:
    """Return the outline of a page."""
    page = _read(source.text)
    headings = page.headings
    pieces = [OutlinePiece(0, (f"HTML, {source.measure()}",))]
    if page.title:
        pieces.append(OutlinePiece(0, (f"title: {shorten(page.title, 120)}",)))
    if page.description:
        pieces.append(OutlinePiece(3, (f"about: {shorten(page.description, 160)}",)))
    heading_count = sum(page.counts[f"h{level}"] for level in range(1, 7))
    counted = [f"{heading_count} headings", f"{page.linked} links"]
    counted += [f"{name} {page.counts[name]}" for name in _COUNTED if page.counts[name]]
    least = "" if page.is_whole else f"in the first {OUTLINE_TAGS_MAX} tags: "
    pieces.append(OutlinePiece(0, (least + ", ".join(counted),)))
    is_long = len(headings) > 25
    for index, (level, line, text) in enumerate(headings[:OUTLINE_PIECES_MAX]):
        forms = (f"{shorten(text, 50)}:{line}", f"{shorten(text, 100)}:{line}")
        if is_long and level > 2 and index:
            pieces.append(OutlinePiece(level, forms, JOINED))
        else:
            pieces.append(OutlinePiece(min(level, 2), tuple(f"h{level} {form}" for form in forms)))
    pieces += _links(page)
    line = headings[0][1] if headings else 1
    return OutlineDraft("html", pieces, f"--lines {line}:{line + 40}")


def find_headings(text: str) -> list[tuple[int, int, str]]:
    """Return headings as (level, line, text), in order."""
    return _read(text).headings


def _read(text: str) -> _Page:
    page = _Page()
    at = counted = 0
    line = 1
    unclosed: set[str] = set()
    for _ in range(OUTLINE_TAGS_MAX):
        match = _TAG.search(text, at)
        if match is None:
            return page
        at = match.end()
        if match[1] is None:
            end = text.find("-->", at)
            at = len(text) if end < 0 else end + 3
            continue
        name = match[1].lower()
        page.counts[name] += 1
        if name in _CLOSINGS:
            end = None if name in unclosed else _CLOSINGS[name].search(text, at)
            # An unclosed tag is skipped, and searched for only once.
            if end is None:
                unclosed.add(name)
            else:
                at = end.end()
        elif page.counts[name] > _READ_MAX:
            page.linked += name == "a" and "href" in match[2].lower()
        elif name == "title" and not page.title:
            page.title = _inner(text, at, name)
        elif name[0] == "h" and name[1:].isdecimal():
            line += text.count("\n", counted, match.start())
            counted = match.start()
            page.headings.append((int(name[1]), line, _inner(text, at, name)))
        elif name == "a" and (target := _attributes(match[2]).get("href")):
            page.linked += 1
            page.links.append((target, _inner(text, at, name)))
        elif name == "meta" and not page.description:
            attributes = _attributes(match[2])
            if attributes.get("name", "").lower() == "description":
                page.description = attributes.get("content", "")
    page.is_whole = False
    return page


def _inner(text: str, at: int, name: str) -> str:
    piece = text[at : at + _TEXT_CHARS_MAX]
    end = re.search(f"</{name}", piece, re.IGNORECASE)
    return " ".join(unescape(_ANY_TAG.sub(" ", piece[: end.start() if end else 200])).split())


def _attributes(text: str) -> dict[str, str]:
    return {
        match[1].lower(): unescape(match[2] or match[3] or match[4] or "")
        for match in _ATTRIBUTE.finditer(text)
    }


def _links(page: _Page) -> list[OutlinePiece]:
    if not page.links:
        return []
    external = [target for target, _ in page.links if target.startswith(("http://", "https://"))]
    hosts = Counter(target.split("/")[2] for target in external)
    pieces: list[OutlinePiece] = []
    if hosts:
        pieces.append(OutlinePiece(2, ("links to:",)))
        pieces += [
            OutlinePiece(3 + (index > 5), (f"{shorten(host, 60)} x{count}",), JOINED)
            for index, (host, count) in enumerate(hosts.most_common(30))
        ]
    pieces.append(OutlinePiece(3, ("links:",)))
    links = sorted(dict.fromkeys(page.links), key=lambda each: each[0].startswith("#"))
    for target, text in links[:200]:
        named = f"<{shorten(target, 80)}>"
        named = f"{shorten(text, 40)} {named}" if text else named
        pieces.append(OutlinePiece(5, (named,), JOINED))
    return pieces
