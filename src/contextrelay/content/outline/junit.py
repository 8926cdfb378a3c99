"""JUnit XML test reports: failures with their messages, and the counts of each suite.

Rule: no XML parser; tags are matched one by one, up to a limit.
"""

from __future__ import annotations

import re
from html import unescape
from itertools import islice

from msgspec import Struct

from contextrelay.content.outline.layout import OutlineDraft, OutlinePiece, quoted
from contextrelay.content.source import Source
from contextrelay.limits import OUTLINE_PIECES_MAX, OUTLINE_TAGS_MAX

_TAG = re.compile(
    r"<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)"
    r"|<(testsuites?|testcase|failure|error)\b((?:[^<>\"']|\"[^\"]*+\"|'[^']*+')*+)>",
    re.DOTALL,
)
_ATTRIBUTE = re.compile(r"([A-Za-z_][\w:.-]{0,60}+)\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)')")
_ROOT = re.compile(r"<testsuites?\b")
_HEAD_CHARS = 2_000
_TEXT_CHARS, _ATTRIBUTES_CHARS = 400, 4_000
_COUNTS = ("tests", "failures", "errors", "skipped", "time")
_SUITES_MAX = 6


class _Failure(Struct):
    line: int
    name: str
    why: str


def draft_outline(source: Source) -> OutlineDraft | None:
    """Return the outline of a report, or None for other text."""
    if _ROOT.search(source.text[:_HEAD_CHARS]) is None:
        return None
    suites: list[tuple[int, str]] = []
    failed: list[_Failure] = []
    cases = place = 0
    line, case = 1, ""
    tags = _TAG.finditer(source.text)
    for match in islice(tags, OUTLINE_TAGS_MAX):
        if match[1] is None:
            continue
        line += source.text.count("\n", place, match.start())
        place = match.start()
        if match[1] == "testcase":
            cases, case = cases + 1, match[2]
        elif match[1] in ("failure", "error"):
            said = unescape(source.text[match.end() : match.end() + _TEXT_CHARS])
            said = said.removeprefix("<![CDATA[").strip().partition("\n")[0]
            values = _values(case)
            name = ".".join(filter(None, (values.get("classname"), values.get("name"))))
            failed.append(_Failure(line, name, _values(match[2]).get("message") or said))
        else:
            values = _values(match[2])
            counts = ", ".join(f"{key} {values[key]}" for key in _COUNTS if values.get(key))
            if counts:
                suites.append((line, f"{values.get('name') or match[1]}: {counts}"))
    many = f"{'more than ' if next(tags, None) else ''}{cases}"
    pieces = [
        OutlinePiece(0, (f"run of tests, {many} in {len(suites)} suites, {source.measure()}",))
    ]
    for at, text in suites[:_SUITES_MAX]:
        pieces.append(OutlinePiece(0, (f"{at}: {quoted(text, 160)}",)))
    pieces.append(OutlinePiece(0, (f"failed: {len(failed)}",)))
    for each in failed[:OUTLINE_PIECES_MAX]:
        label = f"{each.line}: {quoted(each.name, 160)}"
        short, full = f"{label} - {quoted(each.why, 60)}", f"{label} - {quoted(each.why, 200)}"
        pieces.append(OutlinePiece(1, (label, short, full)))
    first = failed[0].line if failed else 1
    left_out = max(0, len(failed) - OUTLINE_PIECES_MAX) + max(0, len(suites) - _SUITES_MAX)
    return OutlineDraft("tests", pieces, f"--lines {max(1, first - 5)}:{first + 20}", left_out)


def _values(attributes: str) -> dict[str, str]:
    found = _ATTRIBUTE.findall(attributes[:_ATTRIBUTES_CHARS])
    return {key: unescape(one or other) for key, one, other in found}
