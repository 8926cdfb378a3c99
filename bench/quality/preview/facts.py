"""Facts: what is asked about a file, drawn from the file alone.

Rule: nothing here knows of outlines. Facts are drawn by lot from the raw text by simple means of
their own, before anything is shown. A structural fact is answered where its answer stands in what
is shown, as a whole word; a detail fact also where it stands in what one grep for its cue brings.
"""

from __future__ import annotations

import csv
import json
import random
import re
from collections.abc import Callable, Iterator
from typing import Any, cast

from msgspec import Struct

from bench.quality.preview.files import File

STRUCTURAL_MAX = 8
DETAILS_MAX = 6
# Smaller numbers stand everywhere.
NUMBER_MIN = 10
# In a longer line, words that are far apart have nothing to do with each other.
LINE_CHARS_MAX = 240


class Fact(Struct, frozen=True):
    """A question about a file: what it is about, the answer, and for a detail what to grep for."""

    about: str
    answer: str
    cue: str = ""


def structural(file: File) -> list[Fact]:
    """Facts about how a file is built."""
    lot = random.Random(f"{file.name} {len(file.body)}")
    found = list(dict.fromkeys(_STRUCTURE[file.kind](file.text, lot)))
    return found if len(found) <= STRUCTURAL_MAX else lot.sample(found, STRUCTURAL_MAX)


def details(file: File) -> list[Fact]:
    """Facts that stand on one line: a word of it, to be found by the longest of its other words.

    The longest, because a question about a line says what is special about it.
    """
    lot = random.Random(f"detail {file.name} {len(file.body)}")
    lines = [line for line in file.text.split("\n") if len(_WORD.findall(line)) >= 3]
    found: list[Fact] = []
    for _ in range(10 * DETAILS_MAX):
        if not lines or len(found) == DETAILS_MAX:
            break
        words = _WORD.findall(lot.choice(lines)[:LINE_CHARS_MAX])
        answer = lot.choice(words)
        others = [word for word in words if answer not in word and word not in answer]
        if len(answer) >= 4 and others:
            found.append(Fact("a word of a line", answer, max(others, key=len)))
    return found


_WORD = re.compile(r"[A-Za-z0-9_]{2,}")


def _some(lot: random.Random, about: str, names: list[str], count: int) -> Iterator[Fact]:
    names = list(dict.fromkeys(name for name in names if name.strip()))
    for name in lot.sample(names, min(count, len(names))):
        yield Fact(about, name)


def _number(about: str, number: int) -> Iterator[Fact]:
    if number >= NUMBER_MIN:
        yield Fact(about, str(number))


def _json(text: str, lot: random.Random) -> Iterator[Fact]:
    value: Any = json.loads(text)
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        yield from _number("top-level keys", len(members))
        yield from _some(lot, "a top-level key", list(members), 5)
        held: list[Any] = [each for each in members.values() if each and _holds_others(each)]
        for each in lot.sample(held, min(2, len(held))):
            yield from _number("members", len(each))
            yield from _some(lot, "a second-level key", _keys(each), 1)
    elif isinstance(value, list):
        yield from _number("elements", len(cast("list[Any]", value)))
        yield from _some(lot, "a key of elements", _keys(value), 5)


def _holds_others(value: Any) -> bool:
    return isinstance(value, dict | list)


def _keys(value: Any) -> list[str]:
    """The keys of an object, or of the first objects in an array."""
    if isinstance(value, dict):
        return list(cast("dict[str, Any]", value))
    if not isinstance(value, list):
        return []
    return [key for each in cast("list[Any]", value)[:100] for key in _keys(each)]


_DEFINITION = re.compile(
    r"^(?:export |default |async |static |pub |typedef |public |abstract |final )*(?:class|def"
    r"|function|interface|struct|enum|fn|func|type|trait)\*? +([A-Za-z_]\w+)",
    re.MULTILINE,
)
_MEMBER = re.compile(
    r"^    (?:async |pub )*(?:def|fn) ([a-z]\w+)|^ {2,4}public [\w<>\[\]. ]+ ([a-z]\w+)\("
    r"|^func \(\w+ \S+\) (\w+)",
    re.MULTILINE,
)
_MACRO = re.compile(r"^#define (\w{4,})", re.MULTILINE)
_IMPORTED = re.compile(
    r"^(?:import|from) ([\w.]+)|^import .* from ['\"]([^'\"]+)|^#include [<\"]([^>\"]+)",
    re.MULTILINE,
)


def _code(text: str, lot: random.Random) -> Iterator[Fact]:
    names = _DEFINITION.findall(text)
    yield from _some(lot, "a definition", names, 5)
    if text.startswith("#") or "\n#define" in text:
        yield from _some(lot, "a macro", _MACRO.findall(text), 2)
    members = [first or second or third for first, second, third in _MEMBER.findall(text)]
    yield from _some(lot, "a method", members, 1)
    imports = [first or second or third for first, second, third in _IMPORTED.findall(text)]
    yield from _some(lot, "an import", imports, 1)
    yield from _number("lines", len(text.split("\n")) - text.endswith("\n"))


def _first_words(text: str) -> str:
    return " ".join(text.split()[:5])


_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)


def _markdown(text: str, lot: random.Random) -> Iterator[Fact]:
    outside = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.MULTILINE | re.DOTALL)
    headings = _HEADING.findall(outside)
    plain = [_first_words(each) for each in headings if re.fullmatch(r"[\w ,.'-]+", each)]
    yield from _some(lot, "a heading", plain, 7)
    yield from _number("headings", len(headings))


def _table(text: str, lot: random.Random) -> Iterator[Fact]:
    delimiter = "\t" if text.partition("\n")[0].count("\t") else ","
    rows = [row for row in csv.reader(text.splitlines(), delimiter=delimiter) if row]
    yield Fact("rows", str(len(rows)))
    yield Fact("columns", str(len(rows[0])))
    columns = list(zip(*(row for row in rows if len(row) == len(rows[0])), strict=True))
    has_names = not any(cell.isdecimal() or "/" in cell for cell in rows[0])
    if has_names and len(set(rows[0])) == len(rows[0]):
        yield from _some(lot, "a column", rows[0], 4)
    for column in columns:
        cells = [cell for cell in column[1:] if cell]
        if cells and all(cell.isdecimal() for cell in cells):
            yield from _number("a maximum", max(int(cell) for cell in cells))
            break


_TIME = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?|\d\d/[A-Z][a-z]{2}/\d{4} \d\d:\d\d:\d\d"
)
_TROUBLE = re.compile(
    r"(?:^|[\s\[(])(?:ERROR|Error|error|FAILED|FAIL|failed|Exception|Traceback)[\s:,)\]]"
)


def _log(text: str, lot: random.Random) -> Iterator[Fact]:
    lines = text.split("\n")
    yield from _number("lines", len(lines) - (not lines[-1]))
    times = _TIME.findall(text)
    if times:
        yield Fact("the first time", times[0])
        yield Fact("the last time", times[-1])
    trouble = [line for line in lines if _TROUBLE.search(line)]
    yield from _some(lot, "a line of trouble", [_core(line) for line in trouble], 4)
    # Words that begin many lines tell what the log is about.
    firsts = [line.split(" ")[0] for line in lines if line[:1].isalpha()]
    common = [word for word in dict.fromkeys(firsts) if firsts.count(word) >= len(lines) // 10]
    yield from _some(lot, "how many lines begin", [word for word in common if len(word) > 3], 2)


def _core(line: str) -> str:
    """A line of a log without the time at its start, as far as words go."""
    words = re.findall(r"[A-Za-z_]{3,}", _TIME.sub("", line))
    return " ".join(words[:4])


def _diff(text: str, lot: random.Random) -> Iterator[Fact]:
    paths = re.findall(r"^diff --git .* b/(.*)$", text, re.MULTILINE)
    yield from _number("files", len(paths))
    yield from _some(lot, "a file", [path.rpartition("/")[2] for path in paths], 5)
    hunks = re.findall(r"^@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@", text, re.MULTILINE)
    yield from _number("hunks", len(hunks))
    added = sum(line[:1] == "+" and not line.startswith("+++") for line in text.split("\n"))
    yield from _number("lines added", added)


_TITLE = re.compile(r"<title[^>]*>([^<]+)</title>", re.IGNORECASE)
_HTML_HEADING = re.compile(r"<h[1-6][^>]*>([^<>&]{3,60})</h[1-6]>", re.IGNORECASE)


def _html(text: str, lot: random.Random) -> Iterator[Fact]:
    title = _TITLE.search(text)
    if title:
        yield Fact("the title", _first_words(title[1]))
    yield from _some(lot, "a heading", [each.strip() for each in _HTML_HEADING.findall(text)], 5)
    links = re.findall(r"<a\s[^>]*href=[\"']([^\"']+)", text)
    yield from _number("links", len(links))
    hosts = [link.split("/")[2] for link in links if link.startswith("http")]
    yield from _some(lot, "a host", hosts, 1)


_STRUCTURE: dict[str, Callable[[str, random.Random], Iterator[Fact]]] = {
    "json": _json,
    "code": _code,
    "markdown": _markdown,
    "csv": _table,
    "log": _log,
    "diff": _diff,
    "html": _html,
}
