"""JSON texts: a value, and where each part of it is in the text.

Rule: what people write is taken as it is: comments are read over and stay where they are, numbers
keep their spelling, unknown members stay. What is no JSON is named by its line and column.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from json import decoder
from typing import Any, Literal

from contextrelay.limits import JSON_DEPTH_MAX
from contextrelay.project.files.decode import MARK, broken

_SPACE = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*(?s:.*?)\*/)*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_LITERALS = (("true", True), ("false", False), ("null", None))
# Python refuses to read longer ones; such a number is kept as it is written anyway.
_INTEGER_CHARS_MAX = 4_000
_REPAIR = "repair it there, by hand or from git; nothing was changed"

# The scanner of the standard library, in C where there is one; it is not in the stubs.
_scan: Callable[[str, int, bool], tuple[str, int]] = getattr(decoder, "scanstring")  # noqa: B009

Kind = Literal["object", "list", "scalar"]


class Node:
    """A value in a text: from `start` to `stop`; of a member of an object, with its name."""

    __slots__ = ("children", "kind", "name", "start", "stop", "value", "value_start")

    def __init__(self, kind: Kind, start: int, name: str = "", name_start: int = -1) -> None:
        self.kind: Kind = kind
        self.name = name
        self.value_start = start
        self.start = start if name_start < 0 else name_start
        self.stop = start
        self.value: Any = None
        self.children: list[Node] = []


def read(text: str, name: str) -> Any:
    """The value of a text; `name` is that of its file, for errors.

    Raises:
        Broken: it is no JSON; the error names the place.
    """
    start = 1 if text.startswith(MARK) else 0
    try:
        # One in a thousand has comments, and is then read slowly.
        return json.loads(text[start:], parse_constant=_refused)
    except (ValueError, RecursionError):
        return parse(text, name).value


def _refused(constant: str) -> float:
    raise ValueError(constant)


def parse(text: str, name: str) -> Node:
    """The value of a text with the places of all its parts.

    Raises:
        Broken: it is no JSON; the error names the place.
    """
    reader = _Reader(text, name)
    start = reader.space(1 if text.startswith(MARK) else 0)
    if start == len(text):
        raise broken(
            name, text, start, "the file is empty", "write {} into it, or bring it back from git"
        )
    node = reader.value(start, "", -1, 0)
    stop = reader.space(node.stop)
    if stop != len(text):
        raise reader.wrong(stop, "there is more after the end")
    return node


class _Reader:
    """Reads one text."""

    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name

    def wrong(self, index: int, says: str) -> Exception:
        return broken(self.name, self.text, index, says, _REPAIR)

    def space(self, index: int) -> int:
        """Where white space and comments end."""
        found = _SPACE.match(self.text, index)
        return found.end() if found else index

    def value(self, start: int, name: str, name_start: int, depth: int) -> Node:
        text = self.text
        first = text[start : start + 1]
        if first == "{" or first == "[":
            if depth >= JSON_DEPTH_MAX:
                raise self.wrong(start, f"it is nested deeper than {JSON_DEPTH_MAX} levels")
            node = Node("object" if first == "{" else "list", start, name, name_start)
            (self._object if first == "{" else self._list)(node, depth)
            return node
        node = Node("scalar", start, name, name_start)
        if first == '"':
            node.value, node.stop = self.string(start)
        elif found := _NUMBER.match(text, start):
            node.value, node.stop = _number(found), found.end()
        else:
            for word, value in _LITERALS:
                if text.startswith(word, start):
                    node.value, node.stop = value, start + len(word)
                    break
            else:
                raise self.wrong(start, "a value is expected here")
        return node

    def string(self, start: int) -> tuple[str, int]:
        try:
            return _scan(self.text, start + 1, True)
        except ValueError as error:
            index = error.pos if isinstance(error, json.JSONDecodeError) else start
            raise self.wrong(index, "a string is not as it must be, or has no end") from error

    def _object(self, node: Node, depth: int) -> None:
        text, index = self.text, self.space(node.value_start + 1)
        values: dict[str, Any] = {}
        while text[index : index + 1] != "}":
            if node.children:
                index = self._comma(index, "}")
            if text[index : index + 1] != '"':
                raise self.wrong(index, 'a name in "quotes" is expected here')
            name, stop = self.string(index)
            colon = self.space(stop)
            if text[colon : colon + 1] != ":":
                raise self.wrong(colon, "a colon is expected here")
            child = self.value(self.space(colon + 1), name, index, depth + 1)
            node.children.append(child)
            values[name] = child.value
            index = self.space(child.stop)
        node.value, node.stop = values, index + 1

    def _list(self, node: Node, depth: int) -> None:
        text, index = self.text, self.space(node.value_start + 1)
        while text[index : index + 1] != "]":
            if node.children:
                index = self._comma(index, "]")
            node.children.append(self.value(index, "", -1, depth + 1))
            index = self.space(node.children[-1].stop)
        node.value, node.stop = [child.value for child in node.children], index + 1

    def _comma(self, index: int, end: str) -> int:
        if self.text[index : index + 1] != ",":
            raise self.wrong(index, f"a comma or {end} is expected here")
        behind = self.space(index + 1)
        if self.text[behind : behind + 1] == end:
            raise self.wrong(index, "there is a comma too many")
        return behind


def _number(found: re.Match[str]) -> int | float:
    digits = found[0]
    if found[1] is None and found[2] is None and len(digits) <= _INTEGER_CHARS_MAX:
        return int(digits)
    return float(digits)
