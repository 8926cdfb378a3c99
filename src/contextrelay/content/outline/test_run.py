"""Test runs: failures, their reasons and the summary, from the output of pytest, unittest, go,
cargo, jest, vitest, mocha, node and TAP.

Rule: each pattern matches a line once, in linear time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from msgspec import DecodeError, Struct, ValidationError, field
from msgspec.json import Decoder

from contextrelay.content.outline.layout import OutlineDraft, OutlinePiece, shorten
from contextrelay.content.source import Source
from contextrelay.limits import OUTLINE_LINE_CHARS_MAX, OUTLINE_PIECES_MAX

_SUMMARY = re.compile(
    r"""=+[ ]\d+[ ](?:passed|failed|errors?|skipped|deselected|warnings?)\b[^=]*+=+$  # pytest
    |\d+[ ](?:passed|failed|errors?|skipped|deselected)\b[\w, ]*[ ]in[ ][\d.]+s
    |Ran[ ]\d+[ ]tests?[ ]in[ ]|FAILED[ ]\((?:failures|errors|skipped)      # unittest
    |test[ ]result:[ ]                                                       # cargo
    |(?:ok|FAIL)\s+\S+\s+(?:[\d.]+s|\(cached\)|\[)                           # go
    |Test[ ]Suites:[ ]|Tests?:[ ]+\d+[ ]                                     # jest
    |[ ]*(?:Test[ ]Files|Tests)[ ]+\d+[ ](?:failed|passed|skipped|todo)\b    # vitest
    |[ ]+\d+[ ](?:passing|failing|pending)\b                                 # mocha
    |[#\u2139][ ](?:tests|pass|fail)[ ]+\d+                                  # node, TAP
    |Tests[ ]run:[ ]\d+|\d+[ ](?:tests|examples?),[ ]\d+[ ]failures?""",
    re.VERBOSE,
)
# Lines that identify a test run without a summary.
_RUN = re.compile(r"TAP version \d+$|Failed tests:$")
_FAILED = re.compile(
    r"""(?:(?:SUB)?FAILED|ERROR)[ ](?P<pytest>\S+?(?:::.+?|\.py))(?:[ ]-[ ](?P<why>.*))?$
    |_{3,}[ ](?P<section>[^_\s].*?)[ ]_{3,}$
    |(?:FAIL|ERROR):[ ](?P<unit>\S+[ ]\(.*\))
    |\s*+---[ ]FAIL:[ ](?P<go>\S+)
    |FAIL\s+(?P<build>\S+)\s+\[(?:build|setup)[ ]failed\]
    |test[ ](?P<cargo>\S.*?)[ ]\.\.\.[ ]FAILED
    |\s*+\u25cf[ ](?!Console|Validation|Deprecation)(?P<jest>\S.*)
    |[ ]FAIL[ ]+(?P<vitest>\S+\.[cm]?[jt]sx?[ ](?:>|\[)[ ].+)
    |\s*+[\u2716\u2715\u00d7][ ](?P<mark>\S.*?)(?:[ ]\([\d.]+[ ]?m?s\)|[ ]\d+m?s)?$
    |\s*+not[ ]ok[ ]\d+[ ]?-?[ ]?(?!.*\#[ ](?:TODO|SKIP))
        (?P<tap>\S.*?)(?:[ ]\#[ ]time=\S+)?(?P<open>[ ]\{)?$
    |[ ]+\d+\)[ ](?P<mocha>\S.*)
    |[ ]+\d+[ ](?P<failing>failing)$
    |\s*+FAIL[ ]+(?P<file>\S+\.[cm]?[jt]sx?)(?:\s|$)""",
    re.VERBOSE,
)
_WHY = re.compile(
    r"""E[ ]{3,}+(?!\?)(?P<pytest>.+)
    |\s*+(?P<raised>[\w.]*(?:Error|Exception)(?:[ ]\[\w+\])?(?:$|:[ ].+)|Cannot[ ]find[ ].+)
    |\s*+(?P<expect>expect\(.*\)\..+|(?:Expected|Received)\b[^:]{0,60}:[ ].+)
    |\s*+(?P<error>error(?:\[\w+\])?:[ ](?!\|).+|(?:assertion|panic:|message:|Messages:)\s.+)
    |\s++(?P<side>(?:left|right|expected|actual)[ ]*:[ ].+|[+-][ ]+\S.*)
    |(?P<unequal>[^\s|=!][^|=!]{0,200}[ ]!==?[ ].+)
    |thread[ ]'[^']*+'(?:[ ]\(\d+\))?[ ]panicked[ ]at[ ](?P<panic>.+)
    |\s*+(?P<go>[^\s:]+\.go:\d+:(?:\d+:)?[ ].*)""",
    re.VERBOSE,
)
_AGAIN = "\u2716 failing tests:"
_SUMMARIES_MAX = 6
_SUITES_MAX = 8
_OPENED = -1
# Maximum number of lines with names of failed tests.
_NAMES_MAX = 20_000
_EVENT_CHARS = 1_000
# Lines of one failure that are shown before those of others; and maximum distance between its
# lines.
_WHY_LINES = 3
_GAP_LINES = 2

_Line = tuple[int, str]


def draft_outline(source: Source) -> OutlineDraft | None:
    """Return the outline of a test run, or None for other text."""
    lines = source.short_lines
    if source.media_type == "application/x-ndjson":
        lines = _printed(source)
    for sign in (_SUMMARY, _RUN):
        summaries = [(number, line) for number, line in enumerate(lines, 1) if sign.match(line)]
        if summaries:
            break
    else:
        return None
    failed, is_cut = _failed(lines)
    pieces = [OutlinePiece(0, (f"run of tests, {source.measure()}",))]
    for number, line in summaries[-_SUMMARIES_MAX:]:
        pieces.append(OutlinePiece(0, (f"{number}: {shorten(line.strip(' ='), 160)}",)))
    least = "at least " if is_cut else ""
    pieces.append(OutlinePiece(0, (f"failed: {least}{len(failed)}",)))
    for name, (number, why) in list(failed.items())[:OUTLINE_PIECES_MAX]:
        label = f"{number}: {shorten(name, 160)}"
        forms = (label, f"{label} - {shorten(why, 160)}") if why else (label,)
        pieces.append(OutlinePiece(1, forms))
    blocks: list[list[_Line]] = []  # Consecutive reasons.
    for each in islice(_reasons(lines), 2 * OUTLINE_PIECES_MAX):
        if not blocks or each[0] - blocks[-1][-1][0] > _GAP_LINES:
            blocks.append([])
        blocks[-1].append(each)
    distinct = {tuple(why for _, why in block): block for block in reversed(blocks)}
    for block in reversed(distinct.values()):
        for index, (number, why) in enumerate(block):
            forms = (f"{number}: {shorten(why, 100)}", f"{number}: {shorten(why, 200)}")
            pieces.append(OutlinePiece(2 + (index >= _WHY_LINES), forms))
    first = next(iter(failed.values()), summaries[0])[0]
    kept = 2 + _SUMMARIES_MAX + 2 * OUTLINE_PIECES_MAX
    left_out = max(0, len(failed) - OUTLINE_PIECES_MAX) + max(0, len(pieces) - kept)
    step = f"--lines {max(1, first - 5)}:{first + 20}"
    return OutlineDraft("tests", pieces[:kept], step, left_out)


class _Event(Struct):
    """A line of the output of `go test -json`."""

    output: str = field(name="Output", default="")


def _printed(source: Source) -> list[str]:
    """Return the lines of a run recorded as JSON events; none for other JSON lines."""
    head = source.text[:_EVENT_CHARS]
    if '"Action":' not in head or '"Package":' not in head:
        return []
    decode = Decoder(_Event).decode
    lines: list[str] = []
    for line in source.lines:
        try:
            lines.append(decode(line).output.rstrip("\n")[:OUTLINE_LINE_CHARS_MAX])
        except (DecodeError, ValidationError):
            lines.append("")
    return lines


def _failed(lines: Sequence[str]) -> tuple[dict[str, _Line], bool]:
    """Return the failures by name, with line and any reason on it; and whether there are more."""
    found: dict[str, _Line] = {}
    sections: dict[str, _Line] = {}
    parents: set[str] = set()
    file = ""
    depth = 0
    is_listed = False
    matches = ((number, _FAILED.match(line)) for number, line in enumerate(lines, 1) if line)
    named = ((number, match) for number, match in matches if match is not None)
    for number, match in islice(named, _NAMES_MAX):
        line = match.string
        if line.startswith(_AGAIN):
            found.clear()  # They are listed again, without their suites.
            continue
        group = "pytest" if match["pytest"] else match.lastgroup or ""
        name, why = match[group].strip(), match["why"] or ""
        if group == "failing":
            found.clear()  # They are listed again, each with its suites and the reason.
            is_listed = True
        elif group == "file":
            file = f"{name} "
        elif group == "section":
            sections.setdefault(name, (number, ""))
        elif group == "open":
            depth = _OPENED  # Suites precede their contents.
        if group in ("failing", "file", "section", "open") or (group == "mocha" and not is_listed):
            continue
        if group == "mocha":
            # The suites, up to a line that ends with a colon.
            for below in lines[number : number + _SUITES_MAX]:
                if name.endswith(":") or not below.strip():
                    break
                name = f"{name} {below.strip()}"
            name = name.removesuffix(":")
        elif group in ("jest", "vitest"):
            parts = name.split(" > ") if group == "vitest" else name.split(" \u203a ")
            found.pop(file + parts[-1], None)
            found.pop(parts[-1], None)
        elif group == "go":
            parents.add(parent := name.rpartition("/")[0])
            found.pop(parent, None)
            if name in parents:
                continue
        elif group == "tap" and depth != _OPENED:
            above, depth = depth, len(line) - len(line.lstrip())
            if depth < above:
                continue  # The suite of the failure before it.
        if group in ("jest", "mark"):
            name = file + name
        if name not in found or why:
            found[name] = (number, why)
    return found or sections, next(named, None) is not None


def _reasons(lines: Sequence[str]) -> Iterator[_Line]:
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
