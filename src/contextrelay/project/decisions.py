"""Decisions: sections `## ADR-NNN: Title` of decisions.md, read and appended, never edited.

Rule: a decision that no longer holds is superseded by a new one, which names it. What people write
between the sections stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from contextrelay.errors import Invalid, NotFound
from contextrelay.limits import PROJECT_FIELD_CHARS_MAX
from contextrelay.model.project import Decision
from contextrelay.project.files.decode import newline_of

_HEADING = re.compile(
    r"#{2,3}[ \t]+ADR[- ]?([0-9]{1,9})[ \t]*(?:[:.)–—-][ \t]*)?(.*)", re.IGNORECASE
)
_NAMES = "Date|Status|Context|Decision|Consequences?|Supersedes"
_FIELD = re.compile(rf"[ \t]*[-*+][ \t]+[*_]*({_NAMES})[*_]*[ \t]*:[*_]*[ \t]*(.*)", re.IGNORECASE)
_SECTION = re.compile(rf"#{{3,6}}[ \t]+({_NAMES})[ \t]*:?[ \t]*(.*)", re.IGNORECASE)
_FENCE = re.compile(r"[ ]{0,3}(`{3,}|~{3,})")
_NUMBER = re.compile(r"ADR[- ]?([0-9]{1,9})", re.IGNORECASE)
_HEAD = "# Architecture Decision Records"


def read_decisions(text: str) -> list[Decision]:
    """Every decision of a file, in its order, each with the one that supersedes it."""
    lines = text.splitlines()
    starts = [index for index, _ in _headings(lines)]
    found: list[Decision] = []
    for place, (index, match) in enumerate(_headings(lines)):
        stop = starts[place + 1] if place + 1 < len(starts) else len(lines)
        found.append(_decision(match, lines[index:stop], index + 1))
    successors = {old: each.number for each in found for old in each.supersedes}
    for each in found:
        if each.status.lower().startswith("superseded") and each.number not in successors:
            named = _NUMBER.search(each.status)
            successors[each.number] = int(named[1]) if named else each.number
    return [each._replace(superseded_by=successors.get(each.number, 0)) for each in found]


def _headings(lines: list[str]) -> Iterator[tuple[int, re.Match[str]]]:
    """The headings of decisions, with the index of their line; code blocks are read over."""
    fence = ""
    for index, line in enumerate(lines):
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
            fence = ""
        elif not fence and (match := _HEADING.fullmatch(line.rstrip())):
            yield index, match


def _decision(heading: re.Match[str], lines: list[str], line: int) -> Decision:
    fields: dict[str, list[str]] = {}
    current: list[str] = []
    for each in lines[1:]:
        field = _FIELD.fullmatch(each) or _SECTION.fullmatch(each.strip())
        if field:
            current = fields.setdefault(field[1].lower().rstrip("s"), [])
            current.append(field[2])
        else:
            current.append(each)

    def field_text(name: str) -> str:
        return "\n".join(part.strip() for part in fields.get(name, ())).strip()

    return Decision(
        number=int(heading[1]),
        title=heading[2].strip(),
        date=field_text("date"),
        status=field_text("statu"),
        context=field_text("context"),
        decision=field_text("decision"),
        consequences=field_text("consequence"),
        supersedes=tuple(int(number) for number in _NUMBER.findall(field_text("supersede"))),
        line=line,
        text="\n".join(lines).rstrip(),
    )


def appended(
    text: str | None,
    title: str,
    date: str,
    status: str = "Accepted",
    context: str = "",
    decision: str = "",
    consequences: str = "",
    supersedes: Sequence[str] = (),
) -> tuple[str, str]:
    """The file with one more decision at its end, and the id of that.

    Raises:
        Invalid: the title is none.
        NotFound: what it supersedes is not there.
    """
    _check(title, status, context, decision, consequences)
    known = read_decisions(text or "")
    number = max((each.number for each in known), default=0) + 1
    replaced = [_known(known, each) for each in supersedes]
    lines = [f"## ADR-{number:03d}: {title.strip()}", f"- Date: {date}", f"- Status: {status}"]
    if replaced:
        lines.append(f"- Supersedes: {', '.join(f'ADR-{each:03d}' for each in replaced)}")
    for name, said in (
        ("Context", context),
        ("Decision", decision or title),
        ("Consequences", consequences),
    ):
        lines.append(f"- {name}: {_indented(said)}".rstrip())
    return joined(text, "\n".join(lines)), f"ADR-{number:03d}"


def joined(text: str | None, section: str) -> str:
    """A file with one more section at its end, in the line ends that it has."""
    if text is None or not text.strip("\ufeff \t\r\n"):
        return f"{text or ''}{_HEAD}\n\n{section}\n"
    newline = newline_of(text)
    body = text.rstrip("\r\n")
    ends = text[len(body) :]
    return body + newline * 2 + section.replace("\n", newline) + (newline if ends else "")


def _check(title: str, *texts: str) -> None:
    if not title.strip() or "\n" in title.strip():
        raise Invalid("a decision needs a title of one line", 'relay project decide "Use SQLite"')
    if any(len(each) > PROJECT_FIELD_CHARS_MAX for each in (title, *texts)):
        most = f"the limit is {PROJECT_FIELD_CHARS_MAX:,} characters"
        raise Invalid("a part of the decision is too long", f"{most}; push it, and name the ref")


def _known(known: list[Decision], word: str) -> int:
    digits = word.strip().upper().removeprefix("ADR-")
    number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else -1
    if not any(each.number == number for each in known):
        raise NotFound(f"there is no decision {word}", "see: relay project decisions")
    return number


def _indented(said: str) -> str:
    """A text of several lines as one item of a list."""
    first, *rest = said.strip().splitlines() or [""]
    return "\n".join([first.rstrip(), *(f"  {line}".rstrip() for line in rest)])
