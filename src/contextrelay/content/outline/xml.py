"""XML: the kinds of elements with their numbers, attributes and first lines. JUnit test reports:
failures with their messages, and the counts of each suite.

Rule: no XML parser; tags are matched one by one, up to a limit.
"""

from __future__ import annotations

import re
from collections import Counter
from html import unescape
from itertools import islice

from contextrelay.content.outline.layout import JOINED, OutlineDraft, OutlinePiece, shorten
from contextrelay.content.source import Source
from contextrelay.limits import OUTLINE_PIECES_MAX, OUTLINE_TAGS_MAX

# Elements in comments are ignored; an unclosed comment extends to the end.
_ASIDE = r"<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)"
_TAG = re.compile(rf"{_ASIDE}|<([A-Za-z_][\w:.-]{{0,80}}+)([^<>]{{0,2000}}+)>", re.DOTALL)
_ATTRIBUTE = re.compile(r"(?<![\w:.-])([A-Za-z_][\w:.-]{0,60}+)\s*+=\s*+[\"']")
_REPORT = re.compile(r"<testsuites?\b")
_REPORT_TAG = re.compile(
    _ASIDE + r"|<(testsuites?|testcase|failure|error)\b((?:[^<>\"']|\"[^\"]*+\"|'[^']*+')*+)>",
    re.DOTALL,
)
_VALUE = re.compile(r"([A-Za-z_][\w:.-]{0,60}+)\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)')")
_HEAD_CHARS = 2_000
_TEXT_CHARS, _ATTRIBUTES_CHARS = 400, 4_000
_COUNTS = ("tests", "failures", "errors", "skipped", "time")
_SUITES_MAX = 6


def draft_outline(source: Source) -> OutlineDraft | None:
    """Return the outline of an XML document, or None for other text."""
    head = source.text[:_HEAD_CHARS]
    if _REPORT.search(head):
        return _report(source)
    is_xml = head.lstrip().startswith(("<?xml", "<!DOCTYPE", "<svg")) or "xml" in source.media_type
    return _elements(source) if is_xml else None


def _elements(source: Source) -> OutlineDraft | None:
    counts: Counter[str] = Counter()
    attributes: dict[str, Counter[str]] = {}
    firsts: dict[str, int] = {}
    others = place = 0
    line = 1
    tags = _TAG.finditer(source.text)
    for match in islice(tags, OUTLINE_TAGS_MAX):
        name = match[1]
        if name is None:
            continue
        if name not in counts:
            if len(counts) >= OUTLINE_PIECES_MAX:
                others += 1
                continue
            line += source.text.count("\n", place, match.start())
            place = match.start()
            firsts[name], attributes[name] = line, Counter()
        counts[name] += 1
        if counts[name] <= 100:
            attributes[name].update(_ATTRIBUTE.findall(match[2]))
    if not counts:
        return None
    total = f"{'more than ' if next(tags, None) else ''}{counts.total() + others}"
    kinds = f"{'more than ' if others else ''}{len(counts)} kinds"
    title = f"XML, root {shorten(next(iter(counts)), 60)}, {total} elements of {kinds}"
    pieces = [OutlinePiece(0, (f"{title}, {source.measure()}",)), OutlinePiece(1, ("elements:",))]
    for name, count in counts.most_common():
        held = ", ".join(shorten(each, 40) for each in list(attributes[name])[:8])
        short = f"{shorten(name, 60)} x{count}"
        rich = f"{short} ({held}):{firsts[name]}" if held else f"{short}:{firsts[name]}"
        pieces.append(OutlinePiece(2, (short, rich), JOINED))
    step = f"--lines 1:{min(len(source.lines), 40) + 1}"
    return OutlineDraft("xml", pieces, step, names=counts.keys())


def _report(source: Source) -> OutlineDraft:
    suites: list[tuple[int, str]] = []
    failed: list[tuple[int, str, str]] = []  # Line, name of the test, and reason.
    cases = place = 0
    line, case = 1, ""
    tags = _REPORT_TAG.finditer(source.text)
    for match in islice(tags, OUTLINE_TAGS_MAX):
        if match[1] is None:
            continue
        line += source.text.count("\n", place, match.start())
        place = match.start()
        if match[1] == "testcase":
            cases, case = cases + 1, match[2]
            continue
        values = _values(match[2])
        if match[1] in ("failure", "error"):
            said = unescape(source.text[match.end() : match.end() + _TEXT_CHARS])
            said = said.removeprefix("<![CDATA[").strip().partition("\n")[0]
            test = _values(case)
            name = ".".join(filter(None, (test.get("classname"), test.get("name"))))
            failed.append((line, name, values.get("message") or said))
        elif counts := ", ".join(f"{key} {values[key]}" for key in _COUNTS if values.get(key)):
            suites.append((line, f"{values.get('name') or match[1]}: {counts}"))
    many = f"{'more than ' if next(tags, None) else ''}{cases}"
    title = f"run of tests, {many} in {len(suites)} suites, {source.measure()}"
    pieces = [OutlinePiece(0, (title,))]
    pieces += [
        OutlinePiece(0, (f"{at}: {shorten(text, 160)}",)) for at, text in suites[:_SUITES_MAX]
    ]
    pieces.append(OutlinePiece(0, (f"failed: {len(failed)}",)))
    for at, name, why in failed[:OUTLINE_PIECES_MAX]:
        label = f"{at}: {shorten(name, 160)}"
        forms = (label, f"{label} - {shorten(why, 60)}", f"{label} - {shorten(why, 200)}")
        pieces.append(OutlinePiece(1, forms))
    first = failed[0][0] if failed else 1
    left_out = max(0, len(failed) - OUTLINE_PIECES_MAX) + max(0, len(suites) - _SUITES_MAX)
    return OutlineDraft("tests", pieces, f"--lines {max(1, first - 5)}:{first + 20}", left_out)


def _values(attributes: str) -> dict[str, str]:
    found = _VALUE.findall(attributes[:_ATTRIBUTES_CHARS])
    return {key: unescape(one or other) for key, one, other in found}
