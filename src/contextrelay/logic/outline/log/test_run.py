"""Runs of tests: what failed, why, and the summary, of what pytest, unittest, go, cargo and others
print."""

from __future__ import annotations

import re

from contextrelay.limits import OUTLINE_PIECES_MAX
from contextrelay.logic.content.source import Source
from contextrelay.logic.outline.layout import Drawn, Piece, quoted

_SUMMARY = re.compile(
    r"=+ (?:\d++ [a-z]++,? ?)++(?:in [\d.]+s.*)?=*$|\d+ (?:passed|failed|error)[\w, ]* in [\d.]+s"
    r"|Ran \d+ tests? in |FAILED \((?:failures|errors|skipped)|test result: |Tests?: +\d+ "
    r"|Test Suites: |(?:ok|FAIL)\s+\S+\s+(?:[\d.]+s|\(cached\)|\[)"
    r"|[#\u2139] (?:tests|pass|fail) \d+|Tests run: \d+|\d+ (?:tests|examples), \d+ failures"
)
_FAILED = re.compile(
    r"(?:FAILED|ERROR) (?P<pytest>\S+::\S+)(?: - (?P<why>.*))?"
    r"|(?:FAIL|ERROR): (?P<unit>\S+ \(.*\))"
    r"|\s*--- FAIL: (?P<go>\S+)"
    r"|test (?P<cargo>\S+) \.\.\. FAILED"
    r"|\s*\u25cf (?P<jest>.+ \u203a .+)"
    r"|\s*[\u2716\u2715] (?P<node>[^(]{1,200})"
    r"|\s*not ok \d+ -? ?(?P<tap>.{1,200})"
)
_WHY = re.compile(
    r"E   +(?!\+|-|\?)(.+)|(\w*(?:Error|Exception)\b(?:: .*)?)$"
    r"|\s*((?:Expected|Received|error):? .+)|\s+((?:left|right): .+)|thread '.*' panicked at (.*)"
    r"|\s+(\S+_test\.go:\d+: .*)|\s*(assertion .*failed.*)"
)
_SUMMARIES_MAX = 6


def draw(source: Source) -> Drawn | None:
    """The outline of a run of tests; None if it is none."""
    lines = source.short_lines
    summaries = [(number, line) for number, line in enumerate(lines, 1) if _SUMMARY.match(line)]
    if not summaries:
        return None
    failed: dict[str, tuple[int, str]] = {}
    reasons: list[tuple[int, str]] = []
    for number, line in enumerate(lines, 1):
        if match := _FAILED.match(line):
            group = match.lastgroup if match.lastgroup != "why" else "pytest"
            name = (match[group or 0] or "").strip()
            why = match["why"] or ""
            if name and (name not in failed or why):
                failed[name] = (number, why)
        elif match := _WHY.match(line):
            reasons.append((number, next(filter(None, match.groups()), "").strip()))
    pieces = [Piece(0, (f"run of tests, {source.measure()}",))]
    pieces += [
        Piece(0, (f"{number}: {quoted(line.strip(' ='), 160)}",))
        for number, line in summaries[-_SUMMARIES_MAX:]
    ]
    pieces.append(Piece(0, (f"failed: {len(failed)}",)))
    for name, (number, why) in list(failed.items())[:OUTLINE_PIECES_MAX]:
        label = f"{number}: {quoted(name, 160)}"
        pieces.append(Piece(1, (label, f"{label} - {quoted(why, 160)}") if why else (label,)))
    distinct = {why: number for number, why in reversed(reasons) if why}
    for why, number in sorted(distinct.items(), key=lambda each: each[1])[:OUTLINE_PIECES_MAX]:
        pieces.append(Piece(2, (f"{number}: {quoted(why, 100)}", f"{number}: {quoted(why, 200)}")))
    first = next(iter(failed.values()), summaries[0])[0]
    return Drawn("tests", pieces, f"--lines {max(1, first - 5)}:{first + 20}")
