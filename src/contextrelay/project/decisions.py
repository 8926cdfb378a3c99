"""The two Markdown files: decisions.md is only appended to, and PROJECT.md is only read.

Rule: a decision is never edited. A new one supersedes an old one and names it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from contextrelay.errors import Invalid, NotFound
from contextrelay.model.project import Decision
from contextrelay.project.changes import NewDecision, as_list
from contextrelay.project.confined import BOM, newline_of

_HEADING = r"(?i)#{2,3}[ \t]+ADR[- ]?([0-9]{1,9})[ \t]*(?:[:.)–—-][ \t]*)?(.*)"
_NAMES = "Date|Status|Context|Decision|Consequences?|Supersedes"
_FIELD = (
    rf"(?i)[ \t]*[-*+][ \t]+[*_]*({_NAMES})[*_]*[ \t]*:[*_]*[ \t]*(.*)"
    rf"|[ \t]*#{{3,6}}[ \t]+({_NAMES})[ \t]*:?[ \t]*(.*?)[ \t]*"
)
_FENCE = r"[ ]{0,3}(`{3,}|~{3,})"
_NUMBER = r"(?i)ADR[- ]?([0-9]{1,9})"
_MARKDOWN_HEADING = r"(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*"
_UNFILLED = r"\[.*\]|[-*+][ \t]+[^:]+:[ \t]*"


def read_decisions(text: str) -> list[Decision]:
    """Return every decision of a file, each with the decision that supersedes it."""
    lines = text.splitlines()
    headings = list(_headings(lines))
    stops = [index for index, _ in headings[1:]] + [len(lines)]
    found = [
        _read_decision(heading, lines[index:stop], index + 1)
        for (index, heading), stop in zip(headings, stops, strict=False)
    ]
    successors = {old: each.number for each in found for old in each.supersedes}
    for each in found:
        if each.status.lower().startswith("superseded"):
            named = re.search(_NUMBER, each.status)
            successors.setdefault(each.number, int(named[1]) if named else each.number)
    return [each._replace(superseded_by=successors.get(each.number, 0)) for each in found]


def _headings(lines: list[str]) -> Iterator[tuple[int, re.Match[str]]]:
    """Yield the headings of decisions outside code blocks, with their line index."""
    fence = ""
    for index, line in enumerate(lines):
        mark = re.match(_FENCE, line)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
            fence = ""
        elif not fence and (match := re.fullmatch(_HEADING, line.rstrip())):
            yield index, match


def _read_decision(heading: re.Match[str], lines: list[str], line: int) -> Decision:
    fields: dict[str, list[str]] = {}
    current: list[str] = []
    for each in lines[1:]:
        if field := re.fullmatch(_FIELD, each):
            name, value = field.group(1, 2) if field[1] else field.group(3, 4)
            current = fields.setdefault(name.lower(), [])
            current.append(value)
        else:
            current.append(each)

    def value_of(*names: str) -> str:
        values = [part.strip() for name in names for part in fields.get(name, ())]
        return "\n".join(values).strip()

    return Decision(
        number=int(heading[1]),
        title=heading[2].strip(),
        date=value_of("date"),
        status=value_of("status"),
        context=value_of("context"),
        decision=value_of("decision"),
        consequences=value_of("consequence", "consequences"),
        supersedes=tuple(int(number) for number in re.findall(_NUMBER, value_of("supersedes"))),
        line=line,
        text="\n".join(lines).rstrip(),
    )


def append_decision(text: str | None, new: NewDecision, date: str) -> tuple[str, str]:
    """Return the text of the file with one more decision, and the id of the new decision.

    Raises:
        Invalid: the title is invalid; NotFound: a superseded decision does not exist.
    """
    title = new.title.strip()
    if not title or "\n" in title:
        raise Invalid("a decision needs a title of one line", 'relay project decide "Use SQLite"')
    known = {each.number for each in read_decisions(text or "")}
    number = max(known, default=0) + 1
    replaced = [f"ADR-{_known_number(known, each):03d}" for each in as_list(new.supersedes)]
    fields = {
        "Date": date,
        "Status": new.status,
        "Supersedes": ", ".join(replaced),
        "Context": new.context,
        "Decision": new.decision or title,
        "Consequences": new.consequences,
    }
    lines = [f"## ADR-{number:03d}: {title}"]
    for name, value in fields.items():
        if value or name != "Supersedes":
            first, *rest = value.strip().splitlines() or [""]
            # Further lines are indented, so that no line of a value starts a section.
            lines += [f"- {name}: {first}".rstrip(), *(f"  {line}".rstrip() for line in rest)]
    return append_section(text, "\n".join(lines)), f"ADR-{number:03d}"


def append_section(text: str | None, section: str) -> str:
    """Return the text of a file with one more section, with the line endings of the file."""
    if text is None or not text.strip(f"{BOM} \t\r\n"):
        return f"{text or ''}# Architecture Decision Records\n\n{section}\n"
    newline = newline_of(text)
    body = text.rstrip("\r\n")
    end = newline if len(body) < len(text) else ""
    return body + newline * 2 + section.replace("\n", newline) + end


def _known_number(known: set[int], word: str) -> int:
    digits = word.strip().upper().removeprefix("ADR-")
    number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else -1
    if number not in known:
        raise NotFound(f"decision {word} not found", "see: relay project decisions")
    return number


class About(NamedTuple):
    """The content of PROJECT.md."""

    name: str
    description: str
    stack: tuple[str, ...]
    constraints: tuple[str, ...]
    other_sections: tuple[str, ...]


def read_about(text: str, fallback_name: str) -> About:
    """Return the content of PROJECT.md. The placeholders of the template are ignored."""
    name = ""
    sections: list[tuple[str, list[str]]] = [("", [])]
    for line in map(str.strip, text.removeprefix(BOM).splitlines()):
        heading = re.fullmatch(_MARKDOWN_HEADING, line)
        if heading and len(heading[1]) == 1 and not name:
            name = heading[2]
        elif heading:
            sections.append((heading[2], []))
        elif line and not re.fullmatch(_UNFILLED, line):
            sections[-1][1].append(line)
    by_title = {title.lower(): tuple(lines) for title, lines in sections}
    known = ("", "one-line description", "tech stack", "key constraints", "related documents")
    return About(
        name=name or fallback_name,
        description=" ".join(by_title.get(known[1]) or by_title.get("", ())[:1]),
        stack=by_title.get("tech stack", ()),
        constraints=by_title.get("key constraints", ()),
        other_sections=tuple(t for t, lines in sections if t.lower() not in known and lines),
    )
