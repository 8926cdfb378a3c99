"""Markdown: headings with their lines, and numbers of code blocks, tables, links and lists."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from itertools import chain, islice

from contextrelay.content.outline.layout import JOINED, OutlineDraft, OutlinePiece, shorten
from contextrelay.content.source import Source
from contextrelay.limits import OUTLINE_PIECES_MAX

_ATX = re.compile(r" {0,3}(#{1,6})[ \t]++(?=.)(.*)")
_RULES = ("=", "-", " ")
_SETEXT = re.compile(r" {0,3}(=+|-{2,})[ \t]*")
# In a list it may be indented further.
_FENCE = re.compile(r" {0,12}(`{3,}|~{3,})[ \t]*([\w+#.-]*)")
_LINK = re.compile(r"\]\((?:https?:|/|\.|#|mailto:|\w)[^)\s]{0,300}")
_TABLE = re.compile(r" {0,3}\|?[ ]*:?-{3,}:?[ ]*\|[-:| ]*")
_MARKS = re.compile(r"[*`]|!?\[|\]\([^)\]]{0,300}+\)|\]")
# Above this number, headings share lines.
_OWN_LINES_MAX = 25
_FRONT_MATTER_LINES_MAX = 200
_AGAIN = 8
_FIRST_WORDS = 6
_TITLE_CHARS = 200


def draft_outline(source: Source) -> OutlineDraft | None:
    """Return the outline of a Markdown document, or None if it has no heading."""
    lines = source.short_lines
    headings, fences = find_headings(lines)
    if not headings:
        return None
    counts = Counter(fences)
    tables = sum(
        _TABLE.fullmatch(line) is not None for line in lines if "-" in line and "|" in line
    )
    links = sum(len(_LINK.findall(line)) for line in lines if "](" in line)
    pieces = [OutlinePiece(0, (f"Markdown, {source.measure()}, {len(headings)} headings",))]
    if counts:
        languages = ", ".join(f"{name or 'plain'} {count}" for name, count in counts.most_common(6))
        pieces.append(OutlinePiece(2, (f"{sum(counts.values())} code blocks: {languages}",)))
    if tables or links:
        pieces.append(OutlinePiece(2, (f"{tables} tables, {links} links",)))
    start = headings[0][1]
    for line in map(str.strip, lines[start : start + 30]):
        if line and not line.startswith(("#", "[!", "![", "<", "=", "-", "|", "```")):
            pieces.append(OutlinePiece(4, (shorten(line, 100), shorten(line, 300))))
            break
    pieces += _pieces(headings[:OUTLINE_PIECES_MAX])
    left_out = max(0, len(headings) - OUTLINE_PIECES_MAX)
    named = headings[min(1, len(headings) - 1)][2]
    names = dict.fromkeys(_brief(text) for _, _, text in headings)
    return OutlineDraft(
        "markdown", pieces, f"--heading {shorten(named, 60)}", left_out, names, kept_rank=1
    )


def _brief(text: str) -> str:
    return shorten(" ".join(text[:_TITLE_CHARS].split(" ")[:_FIRST_WORDS]), 50)


def _pieces(headings: list[tuple[int, int, str]]) -> list[OutlinePiece]:
    is_long = len(headings) > _OWN_LINES_MAX
    top = min(level for level, _, _ in headings)
    tops = sum(level == top for level, _, _ in headings)
    own_depth = 0 if tops > _OWN_LINES_MAX else 1
    pieces: list[OutlinePiece] = []
    seen: set[str] = set()
    for level, line, text in headings:
        # A repeated title gives way to others.
        depth = level - top
        rank = 1 + depth + (_AGAIN if text in seen else 0)
        seen.add(text)
        short = shorten(text, 50)
        brief = short if short == (first := _brief(text)) else f"{first}…"
        forms = (brief, f"{brief}:{line}", f"{short}:{line}", f"{shorten(text, 100)}:{line}")
        if is_long and depth >= own_depth and pieces:
            # The number of # shows how far it is below the heading that starts the line.
            mark = "" if depth == own_depth else ">" * (depth - own_depth) + " "
            marked = (mark + form for form in forms)
            pieces.append(OutlinePiece(rank, (brief, *marked) if mark else forms, JOINED))
        else:
            pieces.append(OutlinePiece(rank, tuple(f"{'#' * level} {form}" for form in forms)))
    return pieces


def find_headings(lines: Iterable[str]) -> tuple[list[tuple[int, int, str]], list[str]]:
    """Return headings as (level, line, text), and the languages of code blocks."""
    following = iter(lines)
    head = list(islice(following, _FRONT_MATTER_LINES_MAX))
    headings: list[tuple[int, int, str]] = []
    fences: list[str] = []
    closing = ""
    is_comment = False
    previous = ""
    start = 0
    if head and head[0].rstrip() == "---":
        ends = (at for at, line in enumerate(head) if at and line.rstrip() in ("---", "..."))
        start = next(ends, -1) + 1
    for index, line in enumerate(chain(head[start:], following), start):
        may_fence = not is_comment and ("```" in line or "~~~" in line)
        fence = _FENCE.match(line) if may_fence else None
        if closing:
            if fence and fence[1].startswith(closing) and not fence[2]:
                closing = ""
            previous = ""
            continue
        if fence:
            closing = fence[1]
            fences.append(fence[2].lower())
            continue
        begun = line.lstrip(" ")
        if is_comment or begun.startswith("<!--"):
            is_comment = "-->" not in line
            previous = ""
            continue
        if begun.startswith("#") and (match := _ATX.match(line)):
            title = match[2].rstrip("#").rstrip(" \t") or match[2][:1]
            headings.append((len(match[1]), index + 1, _MARKS.sub("", title)))
        elif line.startswith(_RULES) and (match := _SETEXT.fullmatch(line)):
            title = previous.strip()
            if title and not title.startswith(("-", "*", ">", "|", "#")):
                headings.append((1 if match[1][0] == "=" else 2, index, _MARKS.sub("", title)))
        previous = line
    return headings, fences
