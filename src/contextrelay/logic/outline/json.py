"""Shapes: a JSON document by its keys, types, counts, ranges and samples.

All values that stand at the same place in their parents are looked at together, as a column, so
that an array of a thousand records is described once.

Rule: what is nested too deeply or is too broken for the parser is described as far as it can be
read.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, islice
from typing import Any, cast

import msgspec

from contextrelay.limits import OUTLINE_PIECES_MAX
from contextrelay.logic.content.source import Source
from contextrelay.logic.outline.layout import JOINED, Drawn, Piece, families, quoted

_NOT_READ = (msgspec.DecodeError, RecursionError, UnicodeError)
# An object with more keys than this, all alike in what they hold, is a map.
_MAP_KEYS_MIN = 12
_MAP_KEYS_SHOWN = 20
_DEPTH_MAX = 40
_SAMPLES = 3
_SAMPLE_CHARS = 60


def draw(source: Source) -> Drawn | None:
    """The outline of a JSON document, or of one document a line."""
    lines = _json_lines(source)
    if lines is not None:
        return lines
    try:
        value = read(source)
    except ValueError:
        return _unreadable(source)
    shape = _Shape()
    shape.whole(source.measure(), value)
    return Drawn("json", shape.pieces, _pointer(value), shape.left_out, shape.names)


def read(source: Source) -> Any:
    """A document's value.

    Raises:
        ValueError: it is none, or is nested too deeply.
    """
    try:
        return msgspec.json.decode(source.text)
    except _NOT_READ:
        pass
    try:
        return json.loads(source.text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _json_lines(source: Source) -> Drawn | None:
    """One document a line, if it is that; lines that are none are counted."""
    named = source.media_type == "application/x-ndjson"
    lines = source.lines
    if not named and not (len(lines) > 1 and _is_document(lines[0]) and _is_document(lines[1])):
        return None
    values: list[Any] = []
    bad: list[int] = []
    decode = msgspec.json.Decoder().decode
    for number, line in enumerate(lines, 1):
        try:
            values.append(decode(line))
        except _NOT_READ:
            if line.strip():
                bad.append(number)
    if len(bad) > len(lines) // 2:
        return None
    shape = _Shape()
    shape.add(0, f"JSON lines: {len(values)} documents, {source.measure()}")
    if bad:
        some = ", ".join(map(str, bad[:5]))
        shape.add(1, f"lines that are no JSON: {len(bad)} (at {some})")
    shape.elements(values, 1)
    return Drawn("json lines", shape.pieces, "--lines 1:5", shape.left_out, shape.names)


def _is_document(line: str) -> bool:
    if not line.startswith(("{", "[")):
        return False
    try:
        msgspec.json.decode(line)
    except _NOT_READ:
        return False
    return True


class _Shape:
    """Pieces for values, gathered place by place."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.left_out = 0
        self.names: dict[str, None] = {}
        """Those of fields: of a place at which there are too many to be shown as well."""

    def whole(self, measure: str, value: Any) -> None:
        """A whole document."""
        objects, arrays = _objects([value]), _arrays([value])
        if objects:
            self.add(0, f"JSON object, {measure}, {len(objects[0])} keys")
            self.members(objects, 1)
        elif arrays:
            self.add(0, f"JSON array, {measure}, {len(arrays[0])} elements")
            self.elements(arrays[0], 1)
        else:
            self.add(0, f"JSON, {measure}{_scalars([value])[-1]}")

    def elements(self, values: Sequence[Any], depth: int) -> None:
        """What the elements of an array are, or the values of a map."""
        objects = _objects(values)
        if objects and len(objects) == len(values):
            self.add(depth, f"{' ' * depth}each: object")
            self.members(objects, depth + 1)
        elif values:
            self._place("each", values, depth, "\n")

    def members(self, objects: Sequence[dict[str, Any]], depth: int) -> None:
        """The keys of objects that stand at one place: scalars on one line, the rest below."""
        columns = _columns(objects)
        if len(columns) >= _MAP_KEYS_MIN and self._map(objects, columns, depth):
            return
        keys = list(columns)
        self.names.update((key, None) for key in keys if _PLAIN_KEY.fullmatch(key))
        nested: list[tuple[str, Sequence[Any]]] = []
        glue = "\n"
        for label, indexes in families(keys):
            if len(self.pieces) >= OUTLINE_PIECES_MAX:
                self.left_out += 1
                continue
            values = columns[keys[indexes[0]]]
            if len(indexes) > 1:
                values = list(chain.from_iterable(columns[keys[index]] for index in indexes))
            name = label if len(indexes) > 1 else _name(label)
            if len(values) < len(objects):
                name += "?"
            if _has_nested(values):
                nested.append((name, values))
                continue
            self._scalar(name, values, depth, glue)
            glue = JOINED
        for name, values in nested:
            self._place(name, values, depth, "\n")

    def _map(
        self, objects: Sequence[dict[str, Any]], columns: dict[str, Sequence[Any]], depth: int
    ) -> bool:
        """Describe an object as a map, if all its values are objects of like shape."""
        values = list(chain.from_iterable(each.values() for each in objects))
        held = _objects(values)
        if len(held) < len(values) or not _alike(held):
            return False
        self.add(depth, f"{' ' * depth}map of {len(columns)} keys:")
        # They are names of records: what a record has comes before more of them.
        for index, key in enumerate(islice(columns, _MAP_KEYS_SHOWN)):
            self.add(depth if index < _SAMPLES else _DEPTH_MAX + 1, _name(key), glue=JOINED)
        self.left_out += max(0, len(columns) - _MAP_KEYS_SHOWN)
        self.add(depth, f"{' ' * depth}each value: object")
        self.members(held, depth + 1)
        return True

    def _place(self, name: str, values: Sequence[Any], depth: int, glue: str) -> None:
        """The values at one place, whatever they are."""
        if len(self.pieces) >= OUTLINE_PIECES_MAX:
            self.left_out += 1
            return
        objects, arrays = _objects(values), _arrays(values)
        if not objects and not arrays:
            self._scalar(name, values, depth, glue)
            return
        if len(objects) + len(arrays) < len(values):
            rest = [value for value in values if type(value) not in (dict, list)]
            kinds = "|".join(_TYPES.get(each, "?") for each in Counter(map(type, rest)))
            name += f" ({kinds} or)"
        if objects:
            is_large = len(objects) == 1 and len(objects[0]) > 3
            counted = f" ({len(objects[0])} keys)" if is_large else ""
            self.add(depth, f"{' ' * depth}{name}: {{}}{counted}")
            self._below(objects, depth)
        if arrays:
            self._array(name, arrays, depth)

    def _scalar(self, name: str, values: Sequence[Any], depth: int, glue: str) -> None:
        indent = " " * depth if glue == "\n" else ""
        forms = ("", *_scalars(values))
        self.add(depth, *(f"{indent}{name}{form}" for form in forms), glue=glue)

    def _array(self, name: str, arrays: Sequence[list[Any]], depth: int) -> None:
        sizes = {len(each) for each in arrays}
        size = str(min(sizes)) if len(sizes) == 1 else f"{min(sizes)}..{max(sizes)}"
        values = list(chain.from_iterable(arrays))
        head = f"{' ' * depth}{name}: [{size}]"
        if not _has_nested(values):
            self.add(depth, head, *(f"{head}{form}" for form in _scalars(values) if values))
            return
        objects = _objects(values)
        if len(objects) == len(values):
            self.add(depth, f"{head} of {{}}")
            self._below(objects, depth)
            return
        self.add(depth, head)
        if depth < _DEPTH_MAX:
            self._place("each", values, depth + 1, "\n")
        else:
            self.left_out += 1

    def _below(self, objects: Sequence[dict[str, Any]], depth: int) -> None:
        if depth < _DEPTH_MAX:
            self.members(objects, depth + 1)
        else:
            self.left_out += 1

    def add(self, rank: int, *forms: str, glue: str = "\n") -> None:
        self.pieces.append(Piece(rank, forms, glue))


def _columns(objects: Sequence[dict[str, Any]]) -> dict[str, Sequence[Any]]:
    """The values of each key, in one pass: keys times objects may be far more than there is."""
    keys = tuple(objects[0]) if objects else ()
    if all(map(keys.__eq__, map(tuple, objects))):  # As records mostly are: that is quicker.
        return dict(zip(keys, zip(*(each.values() for each in objects), strict=True), strict=True))
    columns: defaultdict[str, list[Any]] = defaultdict(list)
    for each in objects:
        for key, value in each.items():
            columns[key].append(value)
    return dict(columns)


def _objects(values: Sequence[Any]) -> Sequence[dict[str, Any]]:
    return _of_type(values, dict)


def _arrays(values: Sequence[Any]) -> Sequence[list[Any]]:
    return _of_type(values, list)


def _of_type(
    values: Sequence[Any], wanted: type, kinds: Collection[type] | None = None
) -> Sequence[Any]:
    """Those of a type; `kinds` are all types that there are, where they are known."""
    kinds = set(map(type, values)) if kinds is None else kinds
    if wanted not in kinds:
        return ()
    return values if len(kinds) == 1 else [value for value in values if type(value) is wanted]


def _has_nested(values: Sequence[Any]) -> bool:
    return not {dict, list}.isdisjoint(map(type, values))


def _pointer(value: Any) -> str:
    """The pointer of something that is there."""
    objects = _objects([value])
    if not objects:
        return "--json-pointer /0" if value else ""
    key = next(iter(objects[0]), "")
    return f"--json-pointer /{key.replace('~', '~0').replace('/', '~1')}" if key else ""


def _alike(values: Sequence[dict[str, Any]]) -> bool:
    """Whether objects share most of their keys, so that one shape describes them all."""
    some = list(islice(values, 200))
    counts = Counter(chain.from_iterable(some))
    shared = sum(count for count in counts.values() if count >= len(some) / 2)
    return bool(counts) and shared >= 0.6 * sum(counts.values())


_PLAIN_KEY = re.compile(r"[^\s,:{}\[\]\"]{1,60}")


def _name(key: str) -> str:
    return key if _PLAIN_KEY.fullmatch(key) else json.dumps(quoted(key, 60), ensure_ascii=False)


def _scalars(values: Sequence[Any]) -> tuple[str, ...]:
    """What values that hold no others are: the types, and the types with ranges and samples."""
    counts = Counter(map(type, values))
    types = "|".join(_TYPES.get(kind, "?") for kind in counts)
    if len(values) == 1:
        return (f" = {_sample(values[0])}",)
    details = list(_details(values, counts))
    return (f": {types}", f": {types} {', '.join(details)}") if details else (f": {types}",)


_TYPES: dict[type, str] = {
    str: "str",
    int: "int",
    float: "float",
    bool: "bool",
    type(None): "null",
    dict: "object",
    list: "array",
}


def _details(values: Sequence[Any], counts: Counter[type]) -> Iterator[str]:
    numbers = [*_of_type(values, int, counts), *_of_type(values, float, counts)]
    if numbers:
        low, high = min(numbers), max(numbers)
        yield f"{low}" if low == high else f"{low}..{high}"
    texts = _of_type(values, str, counts)
    if texts:
        distinct = Counter(texts)
        # The most common; of very many, which takes long to find out, the first.
        is_many = len(distinct) > 1_000
        common = list(distinct.items()) if is_many else distinct.most_common(_SAMPLES)
        samples = " ".join(_sample(text, _SAMPLE_CHARS // 2) for text, _ in common[:_SAMPLES])
        more = f" ({len(distinct)} distinct)" if len(distinct) > _SAMPLES else ""
        yield samples + more
    if counts.get(bool):
        true_count = sum(value is True for value in values)
        yield f"true {true_count} of {counts[bool]}"


def _sample(value: Any, chars_max: int = _SAMPLE_CHARS) -> str:
    if isinstance(value, str):
        return json.dumps(quoted(value, chars_max), ensure_ascii=False)
    return "null" if value is None else str(value).lower()[:chars_max]


# What cannot be parsed


def _unreadable(source: Source) -> Drawn | None:
    """A document that is cut, broken or too deep: its members as far as they can be read."""
    text = source.text
    start = len(text) - len(text.lstrip())
    if text[start : start + 1] not in ("{", "["):
        return None
    shape = _Shape()
    why = "read as far as was looked at" if source.is_partial else "broken, cut or too deep"
    shape.add(0, f"JSON, {why}; {source.measure()}")
    _walk(text, start, shape, 1)
    return Drawn("json", shape.pieces, "--bytes 0:2000", shape.left_out)


_BLANK = re.compile(r"[\s,:]*")
_MEMBERS_MAX = 200_000
_BROKEN_DEPTH_MAX = 6


def _walk(text: str, at: int, shape: _Shape, depth: int) -> None:
    """Read the members of an array or object one by one, and go into the one that breaks off."""
    decoder = json.JSONDecoder()
    is_object = text[at] == "{"
    at += 1
    keys: list[str] = []
    values: list[Any] = []
    broken = -1
    for _ in range(_MEMBERS_MAX):
        at = cast("re.Match[str]", _BLANK.match(text, at)).end()
        if at >= len(text) or text[at] in "]}":
            break
        try:
            if is_object:
                key, at = decoder.raw_decode(text, at)
                keys.append(str(key))
                at = cast("re.Match[str]", _BLANK.match(text, at)).end()
            broken = at
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        values.append(value)
        broken = -1
    indent = " " * (depth - 1)
    if is_object:
        shape.add(depth - 1, f"{indent}object, {len(keys)} keys read")
        shape.members([dict(zip(keys, values, strict=False))], depth)
    else:
        shape.add(depth - 1, f"{indent}array, {len(values)} elements read")
        shape.elements(values, depth)
    if broken >= 0 and text[broken : broken + 1] in ("{", "[") and depth < _BROKEN_DEPTH_MAX:
        name = _name(keys[-1]) if is_object and keys else f"element {len(values)}"
        shape.add(depth, f"{' ' * depth}{name}, not closed:")
        _walk(text, broken, shape, depth + 1)
