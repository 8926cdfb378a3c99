"""YAML with positions: a document is parsed into nodes that know their line and column.

Rule: a document means what it shows. Aliases, anchors, tags, duplicate keys and multiple documents
are refused. `yes` and `on` are texts. Size, depth and the number of nodes are checked before
anything is built.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any, NamedTuple, NoReturn

import yaml
from msgspec import Struct
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from contextrelay.documents.values import quote_value
from contextrelay.errors import Invalid, TooLarge
from contextrelay.limits import PIPELINE_BYTES_MAX

PIPELINE_DEPTH_MAX = 32
PIPELINE_NODES_MAX = 20_000


_parse: Any = yaml.parse  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(0|[1-9][0-9]*)?\.?[0-9]+([eE][-+]?[0-9]+)?")
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}


class SourcePosition(NamedTuple):
    """A line and column in a file, both counted from 1."""

    line: int
    column: int


class YamlNode(Struct, frozen=True):
    """A value and its position: a scalar, a list of nodes, or a mapping of names to nodes."""

    value: Any
    place: SourcePosition
    keys: dict[str, SourcePosition] = {}
    """The positions of the keys, if the node is a mapping."""
    braces: tuple[SourcePosition, ...] = ()
    """The positions of each `{{` in a text."""

    def plain(self) -> Any:
        """Return the value as plain Python data, without positions."""
        if isinstance(self.value, dict):
            return {name: node.plain() for name, node in self.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.nodes()]
        return self.value

    def items(self) -> list[tuple[str, YamlNode]]:
        return list(self.value.items())

    def nodes(self) -> list[YamlNode]:
        return list(self.value)

    def scalars(self) -> Iterator[YamlNode]:
        """Yield all scalars in the node, in order."""
        if not isinstance(self.value, dict | list):
            yield self
            return
        inner = [node for _, node in self.items()] if self.keys else self.nodes()
        for node in inner:
            yield from node.scalars()

    def field(self, name: str) -> SourcePosition:
        """Return the position of the value of a key, or the position of the node if it has no such
        key.
        """
        return dict(self.items())[name].place if name in self.keys else self.place

    def place_in(self, details: Mapping[str, Any]) -> SourcePosition:
        """Return the position of an error. In `details`, `at` is the path to the node with the
        error, and `value` the index of a `{{` in its text.
        """
        node: Any = self
        for step in details.get("at", ()):
            try:
                node = node.value[step]
            except (KeyError, IndexError, TypeError):
                break
        number = details.get("value", len(node.braces))
        found: SourcePosition = node.braces[number] if number < len(node.braces) else node.place
        return found


def refuse(file: str, place: SourcePosition, message: str, hint: str) -> NoReturn:
    """Raise an error about a position in a document.

    Raises:
        Invalid: always; the message begins with the file, line and column.
    """
    raise Invalid(f"{file}:{place.line}:{place.column}: {message}", hint, _where(file, place))


def _where(file: str, place: SourcePosition) -> dict[str, object]:
    return {"file": file, "line": place.line, "column": place.column}


def place_behind(text: str) -> SourcePosition:
    """Return the position at which a text that begins a file ends."""
    return SourcePosition(text.count("\n") + 1, len(text) - text.rfind("\n"))


def read_yaml(text: str, file: str) -> YamlNode:
    """Parse a YAML document, which must be a mapping.

    Raises:
        Invalid: the text is not valid YAML or uses a refused feature; with file, line and column.
        TooLarge: the text is too long, too deep, or has too many values.
    """
    raw = text.encode(errors="replace")
    if len(raw) > PIPELINE_BYTES_MAX:
        place = place_behind(raw[:PIPELINE_BYTES_MAX].decode(errors="ignore"))
        raise TooLarge(
            f"{file}:{place.line}:{place.column}: longer than {PIPELINE_BYTES_MAX:,} bytes",
            "split the file",
            _where(file, place),
        )
    try:
        node = _Builder(file, text).build(_parse(text, yaml.CSafeLoader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = SourcePosition(mark.line + 1, mark.column + 1) if mark else SourcePosition(1, 1)
        if _has_tab(text, place):
            refuse(file, place, "tab in the indentation", "indent with spaces")
        problem = getattr(error, "problem", None) or str(error)
        refuse(
            file,
            place,
            f"invalid YAML: {problem}",
            "fix the line; quote texts that contain : or #",
        )
    if node is None or not isinstance(node.value, dict):
        place = node.place if node else SourcePosition(1, 1)
        refuse(file, place, "not a pipeline", "start with name: and steps:")
    return node


def _has_tab(text: str, place: SourcePosition) -> bool:
    line = text.split("\n")[place.line - 1 : place.line]
    return any("\t" in each[: len(each) - len(each.lstrip())] for each in line)


class _Builder:
    """Builds nodes from parser events, and checks the depth and number of nodes as the events
    arrive.
    """

    def __init__(self, file: str, text: str) -> None:
        self._file = file
        self._text = text
        self._nodes = 0

    def build(self, events: Iterator[Event]) -> YamlNode | None:
        root: YamlNode | None = None
        documents = 0
        for event in events:
            if isinstance(event, DocumentStartEvent):
                documents += 1
                if documents > 1:
                    refuse(
                        self._file,
                        _place(event),
                        "multiple documents in one file",
                        "use one file per pipeline",
                    )
            elif isinstance(event, NodeEvent):
                root = self._node(event, events, 1)
        return root

    def _node(self, event: Event, events: Iterator[Event], depth: int) -> YamlNode:
        place = _place(event)
        self._nodes += 1
        if self._nodes > PIPELINE_NODES_MAX or depth > PIPELINE_DEPTH_MAX:
            raise TooLarge(
                f"{self._file}:{place.line}:{place.column}: more than {PIPELINE_DEPTH_MAX} levels, "
                f"or more than {PIPELINE_NODES_MAX:,} values",
                "split the pipeline",
                _where(self._file, place),
            )
        self._refuse_marks(event, place)
        match event:
            case ScalarEvent(value=text) if "\0" in text:
                refuse(
                    self._file,
                    place,
                    "NUL character",
                    "remove it: a NUL character cannot be passed to a command",
                )
            case ScalarEvent():
                return YamlNode(_scalar(event), place, braces=self._braces(event, place))
            case SequenceStartEvent():
                return YamlNode(self._list(events, depth), place)
            case _:
                return self._mapping(events, place, depth)

    def _braces(self, event: Any, place: SourcePosition) -> tuple[SourcePosition, ...]:
        """Return the positions of each `{{` in a scalar, however the scalar is quoted."""
        if "{{" not in event.value:
            return ()
        source = self._text[event.start_mark.index : event.end_mark.index]
        found: list[SourcePosition] = []
        for match in re.finditer(r"\{\{(\{\{)?", source):
            if match[1]:
                continue  # These are literal braces.
            line, column = place_behind(source[: match.start()])
            found.append(
                SourcePosition(
                    place.line + line - 1, column + (place.column - 1 if line == 1 else 0)
                )
            )
        return tuple(found)

    def _refuse_marks(self, event: Any, place: SourcePosition) -> None:
        if isinstance(event, AliasEvent) or event.anchor:
            refuse(self._file, place, "aliases and anchors are not allowed", "write out the value")
        if getattr(event, "tag", None) and not isinstance(event, AliasEvent):
            refuse(
                self._file,
                place,
                f"tags are not allowed: {quote_value(event.tag)}",
                "remove the tag",
            )

    def _list(self, events: Iterator[Event], depth: int) -> list[YamlNode]:
        values: list[YamlNode] = []
        while not isinstance(event := next(events), SequenceEndEvent):
            values.append(self._node(event, events, depth + 1))
        return values

    def _mapping(self, events: Iterator[Event], place: SourcePosition, depth: int) -> YamlNode:
        values: dict[str, YamlNode] = {}
        keys: dict[str, SourcePosition] = {}
        while not isinstance(event := next(events), MappingEndEvent):
            if not isinstance(event, ScalarEvent):
                refuse(self._file, _place(event), "a key must be a text", "write name: value")
            key = self._node(event, events, depth + 1)
            name = event.value
            if name == "<<":
                refuse(
                    self._file, key.place, "the merge key << is not allowed", "write out the fields"
                )
            if name in values:
                again = f"duplicate key {quote_value(name)}, first at line {keys[name].line}"
                refuse(self._file, key.place, again, "remove one of them")
            values[name] = self._node(next(events), events, depth + 1)
            keys[name] = key.place
        return YamlNode(values, place, keys)


def _place(event: Any) -> SourcePosition:
    return SourcePosition(event.start_mark.line + 1, event.start_mark.column + 1)


def _scalar(event: Any) -> Any:
    """Return the value of a scalar. A quoted scalar is a text, and a plain scalar is read as in
    JSON.
    """
    text: str = event.value
    if event.style:
        return text
    if text in _WORDS:
        return _WORDS[text]
    # A number with many digits stays a text, because int() would be slow, and it is not meant as a
    # number.
    if len(text) <= 20 and _INTEGER.fullmatch(text):
        return int(text)
    if len(text) <= 30 and _FLOAT.fullmatch(text) and isfinite(float(text)):
        return float(text)
    return text
