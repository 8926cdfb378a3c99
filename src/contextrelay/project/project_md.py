"""PROJECT.md: what a project is, read out of whatever people made of the template."""

from __future__ import annotations

import re
from typing import NamedTuple

_HEADING = re.compile(r"(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*")
_BLANK = re.compile(r"\[.*\]")
_EMPTY_ITEM = re.compile(r"[-*+][ \t]+[^:]+:[ \t]*")


class About(NamedTuple):
    """What PROJECT.md says."""

    name: str
    description: str
    stack: tuple[str, ...]
    constraints: tuple[str, ...]
    other_sections: tuple[str, ...]


def read_about(text: str, fallback_name: str) -> About:
    """Read PROJECT.md; what the template leaves to be filled in counts as nothing."""
    name, sections = _sections(text)
    by_name = {title.lower(): lines for title, lines in sections}
    description = _said(by_name.get("one-line description", ()))
    if not description and sections:
        description = _said(by_name.get("", ()))[:1] or ()
    known = ("", "one-line description", "tech stack", "key constraints", "related documents")
    return About(
        name=name or fallback_name,
        description=" ".join(description),
        stack=_said(by_name.get("tech stack", ())),
        constraints=_said(by_name.get("key constraints", ())),
        other_sections=tuple(
            title for title, lines in sections if title.lower() not in known and _said(lines)
        ),
    )


def _sections(text: str) -> tuple[str, list[tuple[str, list[str]]]]:
    """The name, and each section with its lines; those before the first have the title ""."""
    name = ""
    sections: list[tuple[str, list[str]]] = [("", [])]
    for line in text.lstrip("\ufeff").splitlines():
        heading = _HEADING.fullmatch(line.rstrip())
        if heading and len(heading[1]) == 1 and not name:
            name = heading[2]
        elif heading:
            sections.append((heading[2], []))
        else:
            sections[-1][1].append(line)
    return name, sections


def _said(lines: tuple[str, ...] | list[str]) -> tuple[str, ...]:
    """Lines that say something."""
    stripped = (line.strip() for line in lines)
    return tuple(
        line
        for line in stripped
        if line and not _BLANK.fullmatch(line) and not _EMPTY_ITEM.fullmatch(line)
    )
