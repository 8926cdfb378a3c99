"""Facts: what is asked about a file, drawn from the file alone.

Rule: nothing here knows of outlines. Facts are drawn by lot from the raw text by simple means of
their own, before anything is shown. Structural: how many records or lines, every field, column,
definition and heading, and the end of each kind of error or warning line. Detail: a value, of which
two words of its own line or record are known, one of them rare.
"""

from __future__ import annotations

import ast
import csv
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, cast
from xml.etree import ElementTree

from msgspec import Struct

from bench.quality.look.files import File

STRUCTURAL_MAX = 60
DETAILS_MAX = 8
TROUBLE_MAX = 15
TAIL_CHARS = 50
RECORDS = ("json", "jsonl", "csv")


class Fact(Struct, frozen=True):
    """A question about a file: what it is about, its answer, and for a detail two words."""

    about: str
    answer: str
    cues: tuple[str, str] = ("", "")


def structural(file: File) -> list[Fact]:
    """Facts about how a file is built; none of a file that its own reader cannot read."""
    lot = random.Random(f"{file.name} {len(file.body)}")
    try:
        found = list(dict.fromkeys(_STRUCTURE[file.kind](file.text)))
    except (ValueError, SyntaxError, csv.Error, RecursionError):
        return []
    return found if len(found) <= STRUCTURAL_MAX else lot.sample(found, STRUCTURAL_MAX)


def details(file: File) -> list[Fact]:
    """Values by lot."""
    lot = random.Random(f"detail {file.name} {len(file.body)}")
    try:
        draw = _of_record(file) if file.kind in RECORDS else _of_line(file)
    except (ValueError, csv.Error, RecursionError):
        return []
    found: list[Fact] = []
    for _ in range(20 * DETAILS_MAX):
        fact = draw(lot)
        if fact is not None and len(found) < DETAILS_MAX:
            found.append(fact)
    return found


_WORD = re.compile(r"[A-Za-z0-9_]{2,}")
# In a longer line, words that are far apart have nothing to do with each other.
_LINE_CHARS_MAX = 400

Draw = Callable[[random.Random], Fact | None]


def _of_line(file: File) -> Draw:
    lines = [line[:_LINE_CHARS_MAX] for line in file.text.split("\n")]
    lines = [line for line in lines if len(_WORD.findall(line)) >= 4]
    counts = Counter(word for line in lines for word in set(_WORD.findall(line)))

    def draw(lot: random.Random) -> Fact | None:
        if not lines:
            return None
        words = list(dict.fromkeys(_WORD.findall(lot.choice(lines))))
        rare = min(words, key=lambda word: (counts[word], -len(word)))
        others = [word for word in words if word != rare and len(word) >= 4]
        if len(others) < 2:
            return None
        second, answer = lot.sample(others, 2)
        if any(answer in cue or cue in answer for cue in (rare, second)):
            return None
        return Fact("a word of a line", answer, (rare, second))

    return draw


def _of_record(file: File) -> Draw:
    """A field of a record; known are its name and a value that no other record has."""
    records = [each for each in _records(file) if len(each) >= 2]
    texts = [{str(value) for value in each.values()} for each in records]
    counts = Counter(text for each in texts for text in each)

    def draw(lot: random.Random) -> Fact | None:
        if not records:
            return None
        record = lot.choice(records)
        ids = [key for key, value in record.items() if _is_name(value) and counts[str(value)] == 1]
        if not ids:
            return None
        known = min(ids, key=lambda key: (" " in str(record[key]), "id" not in key.lower()))
        fields = [key for key, value in record.items() if key != known and len(str(value)) >= 2]
        if not fields:
            return None
        field = lot.choice(fields)
        answer = str(record[field])
        if answer in str(record[known]) or len(answer) > 80:
            return None
        return Fact(f"{field} of a record", answer, (str(record[known]), field))

    return draw


def _is_name(value: Any) -> bool:
    return isinstance(value, str | int) and 3 <= len(str(value)) <= 60


def _records(file: File) -> Iterator[dict[str, Any]]:
    if file.kind == "csv":
        rows = _rows(file.text)
        for row in rows[1:]:
            yield dict(zip(rows[0], row, strict=False))
        return
    for value in _documents(file.text):
        for each in _objects(value):
            yield {key: item for key, item in each.items() if _is_plain(item)}


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _documents(text: str) -> list[Any]:
    try:
        return [json.loads(text)]
    except ValueError:
        return [json.loads(line) for line in text.split("\n") if line.strip()]


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield cast("dict[str, Any]", value)
    if isinstance(value, dict | list):
        held = cast("Any", value)
        for each in held.values() if isinstance(value, dict) else held:
            yield from _objects(each)


def _number(about: str, number: int) -> Iterator[Fact]:
    if number >= 10:
        yield Fact(about, str(number))


def _names(about: str, names: Any) -> Iterator[Fact]:
    for name in dict.fromkeys(names):
        if len(name) >= 2 and name.strip() == name:
            yield Fact(about, name)


def _json(text: str) -> Iterator[Fact]:
    documents = _documents(text)
    top = documents if len(documents) > 1 else documents[0]
    if isinstance(top, dict | list):
        yield from _number("records", len(cast("Any", top)))
    yield from _names("a field", _fields(documents))


def _fields(values: list[Any]) -> Iterator[str]:
    """Keys of objects; those of a map of records, and such with long numbers, are no fields."""
    for value in values:
        if isinstance(value, list):
            yield from _fields(cast("list[Any]", value))
        elif isinstance(value, dict):
            held = cast("dict[str, Any]", value)
            if not _is_map(held):
                yield from (key for key in held if not re.search(r"\d{4}", key))
            yield from _fields(list(held.values()))


def _is_map(held: dict[str, Any]) -> bool:
    if len(held) < 8:
        return False
    shapes = Counter(type(each).__name__ for each in held.values())
    return len(shapes) == 1 and (
        "dict" in shapes or any(re.search(r"[^A-Za-z_]", key) for key in held)
    )


def _rows(text: str) -> list[list[str]]:
    delimiter = max("\t,;|", key=text.partition("\n")[0].count)
    return [row for row in csv.reader(text.splitlines(), delimiter=delimiter) if row]


def _table(text: str) -> Iterator[Fact]:
    rows = _rows(text)
    yield from _number("rows", len(rows) - 1)
    if len(rows[0]) > 1 and len(set(rows[0])) == len(rows[0]):
        yield from _names("a column", rows[0])


_YAML_KEY = re.compile(r"^(?: {0,4}(?:- )?)([A-Za-z][\w.-]*):(?: |$)", re.MULTILINE)
_SECTION = re.compile(r"^\[+([^\]\n]+)\]+\s*$", re.MULTILINE)
_SETTING = re.compile(r"^([A-Za-z][\w.-]*) ?=", re.MULTILINE)
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)


def _lines(text: str) -> Iterator[Fact]:
    yield from _number("lines", len(text.split("\n")) - text.endswith("\n"))


def _yaml(text: str) -> Iterator[Fact]:
    yield from _lines(text)
    yield from _names("a key", _YAML_KEY.findall(text))


def _settings(text: str) -> Iterator[Fact]:
    yield from _lines(text)
    yield from _names("a section", _SECTION.findall(text))
    yield from _names("a setting", _SETTING.findall(text))


def _xml(text: str) -> Iterator[Fact]:
    if "<!ENTITY" in text:
        return
    try:
        tags = [str(each.tag).rpartition("}")[2] for each in ElementTree.fromstring(text).iter()]
    except ElementTree.ParseError as error:
        raise ValueError from error
    yield from _names("an element", tags)


def _python(text: str) -> Iterator[Fact]:
    yield from _lines(text)
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield Fact("a definition", node.name)


_JS = re.compile(
    r"^(?:export )?(?:default )?(?:async )?(?:abstract )?(?:class|function\*?|interface|enum) +"
    r"([A-Za-z_$][\w$]+)|^(?:export )?(?:const|let|var) ([A-Za-z_$][\w$]+) *= *(?:async *)?"
    r"(?:function|\([^()]*\) *=>|class)|^exports\.([A-Za-z_$][\w$]+) *=",
    re.MULTILINE,
)
_C = re.compile(
    r"^(?!return|else|if|for|while|typedef)(?:[A-Za-z_]\w*[ *]+){1,5}([A-Za-z_]\w+) ?\([^;{}]*\)"
    r"\s*\{"
    r"|^(?:struct|union|enum) (\w+)\s*\{|^\}\s*(\w+);",
    re.MULTILINE,
)


def _matched(pattern: re.Pattern[str]) -> Callable[[str], Iterator[Fact]]:
    def draw(text: str) -> Iterator[Fact]:
        yield from _lines(text)
        found = pattern.findall(re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL))
        yield from _names("a definition", ("".join(each) for each in found))

    return draw


def _markdown(text: str) -> Iterator[Fact]:
    outside = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.MULTILINE | re.DOTALL)
    plain = [each for each in _HEADING.findall(outside) if re.fullmatch(r"[\w ,.'():/-]+", each)]
    yield from _names("a heading", (" ".join(each.split()[:6]) for each in plain))


# A word for trouble where levels stand: alone, in capitals or marked, near the start.
_TROUBLE = re.compile(
    r"^.{0,100}?(?:(?<![\w.-])(?:WARN(?:ING)?|ERROR|FATAL|CRITICAL|SEVERE)(?![\w.-])"
    r"|[\[=\"](?:warn(?:ing)?|error|fatal|crit(?:ical)?)(?![\w.-])| [WEF](?= |/|:))"
)
_QUIET = re.compile(r"^.{0,80}?(?<![\w.-])(?:TRACE|DEBUG|INFO|NOTICE|info|debug|notice)(?![\w.-])")


def _log(text: str) -> Iterator[Fact]:
    yield from _lines(text)
    kinds: dict[str, str] = {}
    for line in text.split("\n"):
        trouble, quiet = _TROUBLE.match(line), _QUIET.match(line)
        if trouble and not (quiet and quiet.end() < trouble.end()):
            kinds.setdefault(re.sub(r"\d+", "#", line[20:]), line.rstrip()[-TAIL_CHARS:])
    lot = random.Random(len(text))
    tails = list(dict.fromkeys(kinds.values()))
    for tail in lot.sample(tails, min(TROUBLE_MAX, len(tails))):
        yield Fact("the end of a line of trouble", tail)


def _diff(text: str) -> Iterator[Fact]:
    paths = re.findall(r"^\+\+\+ (?:b/)?(\S+)", text, re.MULTILINE)
    yield from _number("files", len(paths))
    there = (path for path in paths if path != "/dev/null")  # A file that was removed.
    yield from _names("a file", (path.rpartition("/")[2] for path in there))


_STRUCTURE: dict[str, Callable[[str], Iterator[Fact]]] = {
    "json": _json,
    "jsonl": _json,
    "csv": _table,
    "yaml": _yaml,
    "xml": _xml,
    "settings": _settings,
    "python": _python,
    "javascript": _matched(_JS),
    "c": _matched(_C),
    "markdown": _markdown,
    "log": _log,
    "diff": _diff,
}
