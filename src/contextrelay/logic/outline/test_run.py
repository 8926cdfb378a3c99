"""Runs of tests: what failed, why, and the summary, as pytest, unittest, go, cargo, jest, node and
TAP print them.

Rule: each line is matched once by each pattern, in time that grows with the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from contextrelay.limits import OUTLINE_PIECES_MAX
from contextrelay.logic.content.sniff import COLOURS
from contextrelay.logic.content.source import Source
from contextrelay.logic.outline.layout import Drawn, Piece, quoted

_SUMMARY = re.compile(
    r"""=+[ ](?:\d++[ ][a-z]++,?[ ]?)++(?:in[ ][\d.]+s.*)?=*$                # pytest
    |\d+[ ](?:passed|failed|errors?|skipped|deselected)\b[\w, ]*[ ]in[ ][\d.]+s
    |Ran[ ]\d+[ ]tests?[ ]in[ ]|FAILED[ ]\((?:failures|errors|skipped)      # unittest
    |test[ ]result:[ ]                                                       # cargo
    |(?:ok|FAIL)\s+\S+\s+(?:[\d.]+s|\(cached\)|\[)                           # go
    |Test[ ]Suites:[ ]|Tests?:[ ]+\d+[ ]                                     # jest
    |[#\u2139][ ](?:tests|pass|fail)[ ]\d+                                   # node, TAP
    |Tests[ ]run:[ ]\d+|\d+[ ](?:tests|examples),[ ]\d+[ ]failures""",
    re.VERBOSE,
)
_FAILED = re.compile(
    r"""(?:FAILED|ERROR)[ ](?P<pytest>\S+?(?:::.+?|\.py))(?:[ ]-[ ](?P<why>.*))?$
    |_{3,}[ ](?P<section>[^_\s].*?)[ ]_{3,}$
    |(?:FAIL|ERROR):[ ](?P<unit>\S+[ ]\(.*\))
    |\s*+---[ ]FAIL:[ ](?P<go>\S+)
    |test[ ](?P<cargo>\S.*?)[ ]\.\.\.[ ]FAILED
    |\s*+\u25cf[ ](?!Console|Validation|Deprecation)(?P<jest>\S.*)
    |\s*+[\u2716\u2715][ ](?P<mark>\S.*?)(?:[ ]\([\d.]+[ ]?m?s\))?$
    |\s*+not[ ]ok[ ]\d+[ ]?-?[ ]?(?P<tap>\S.*)""",
    re.VERBOSE,
)
_FILE = re.compile(r"\s*+FAIL +(\S+\.[cm]?[jt]sx?)(?:\s|$)")
_WHY = re.compile(
    r"""E[ ]{3,}+(?!\?)(?P<pytest>.+)
    |\s*+(?P<raised>[\w.]*(?:Error|Exception)(?:[ ]\[\w+\])?(?:$|:[ ].+))
    |\s*+(?P<expect>expect\(.*\)\..+|(?:Expected|Received)\b[^:]{0,60}:[ ].+)
    |\s*+(?P<error>error(?:\[\w+\])?:[ ](?!\|).+|(?:assertion|panic:)[ ].+)
    |\s++(?P<side>(?:left|right|expected|actual)[ ]*:[ ].+|[+-][ ]+\S.*)
    |thread[ ]'[^']*+'(?:[ ]\(\d+\))?[ ]panicked[ ]at[ ](?P<panic>.+)
    |\s++(?P<go>\S+_test\.go:\d+:[ ].*)""",
    re.VERBOSE,
)
_AGAIN = "\u2716 failing tests:"
_SUMMARIES_MAX = 6
# Of one failure so many lines come before the others; and so many may be between two of its lines.
_WHY_LINES = 3
_GAP_LINES = 2

_Line = tuple[int, str]


def draw(source: Source) -> Drawn | None:
    """The outline of a run of tests; None if it is none."""
    lines = source.short_lines
    if "\x1b" in source.text:
        lines = [COLOURS.sub("", line) for line in lines]
    summaries = [(number, line) for number, line in enumerate(lines, 1) if _SUMMARY.match(line)]
    if not summaries:
        return None
    failed = _failed(lines)
    pieces = [Piece(0, (f"run of tests, {source.measure()}",))]
    for number, line in summaries[-_SUMMARIES_MAX:]:
        pieces.append(Piece(0, (f"{number}: {quoted(line.strip(' ='), 160)}",)))
    pieces.append(Piece(0, (f"failed: {len(failed)}",)))
    for name, (number, why) in list(failed.items())[:OUTLINE_PIECES_MAX]:
        label = f"{number}: {quoted(name, 160)}"
        pieces.append(Piece(1, (label, f"{label} - {quoted(why, 160)}") if why else (label,)))
    for block in _blocks(_reasons(lines)):
        for index, (number, why) in enumerate(block):
            forms = (f"{number}: {quoted(why, 100)}", f"{number}: {quoted(why, 200)}")
            pieces.append(Piece(2 + (index >= _WHY_LINES), forms))
    first = next(iter(failed.values()), summaries[0])[0]
    kept = 2 + _SUMMARIES_MAX + 2 * OUTLINE_PIECES_MAX
    left_out = max(0, len(failed) - OUTLINE_PIECES_MAX) + max(0, len(pieces) - kept)
    return Drawn("tests", pieces[:kept], f"--lines {max(1, first - 5)}:{first + 20}", left_out)


def _failed(lines: Sequence[str]) -> dict[str, _Line]:
    """What failed, by name: its line, and why if that line says it; nothing twice."""
    found: dict[str, _Line] = {}
    sections: dict[str, _Line] = {}
    file = ""
    depth = 0
    for number, line in enumerate(lines, 1):
        if match := _FILE.match(line):
            file = f"{match[1]} "
        match = _FAILED.match(line)
        if match is None:
            continue
        if line.startswith(_AGAIN):
            found.clear()  # They come again, without the suites that they are in.
            continue
        group = "pytest" if match["pytest"] else match.lastgroup or ""
        name, why = match[group].strip(), match["why"] or ""
        if group == "section":
            sections.setdefault(name, (number, ""))
            continue
        if group == "jest":
            found.pop(file + name.rpartition(" \u203a ")[2], None)
        elif group == "go":
            found.pop(name.rpartition("/")[0], None)
        elif group == "tap":
            above, depth = depth, len(line) - len(line.lstrip())
            if depth < above:
                continue  # The suite of what failed before it.
        if group in ("jest", "mark"):
            name = file + name
        if name not in found or why:
            found[name] = (number, why)
    return found or sections


def _reasons(lines: Sequence[str]) -> Iterator[_Line]:
    """The lines that say why; of a panic with what it says in the next one."""
    for number, line in enumerate(lines, 1):
        match = _WHY.match(line)
        if match is None:
            continue
        why = match[match.lastgroup or 0].strip()
        is_open = match["panic"] and why.endswith(":") and number < len(lines)
        if is_open and not _WHY.match(lines[number]):
            why = f"{why} {lines[number].strip()}"
        if why:
            yield number, why


def _blocks(reasons: Iterator[_Line]) -> list[list[_Line]]:
    """Reasons that stand together, each such block once."""
    blocks: list[list[_Line]] = []
    for each in reasons:
        if not blocks or each[0] - blocks[-1][-1][0] > _GAP_LINES:
            blocks.append([])
        blocks[-1].append(each)
    distinct = {tuple(why for _, why in block): block for block in reversed(blocks)}
    return list(reversed(distinct.values()))
