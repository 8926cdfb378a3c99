"""JSON shapes: keys, types, counts, ranges and samples of a document.

All values at the same path are described together, as a column, so that an array of a thousand
records is described once.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, islice
from typing import Any, cast

from msgspec import Struct

from contextrelay.content.outline.layout import JOINED, OutlinePiece, families, quoted
from contextrelay.limits import OUTLINE_PIECES_MAX

SAMPLES = 3
# Maximum size of a small object or array.
_SHORT_CHARS, _SHORT_ENTRIES, _SHORT_DEPTH = 100, 8, 3
_MAP_ENTRIES = (3, 20, 100)
_SAMPLE_CHARS = 60


def objects_of(values: Sequence[Any]) -> Sequence[dict[str, Any]]:
    return of_type(values, dict)


def arrays_of(values: Sequence[Any]) -> Sequence[list[Any]]:
    return of_type(values, list)


def of_type(
    values: Sequence[Any], wanted: type, kinds: Collection[type] | None = None
) -> Sequence[Any]:
    """Return the values of a type; `kinds` are the types present, if known."""
    kinds = set(map(type, values)) if kinds is None else kinds
    if wanted not in kinds:
        return ()
    return values if len(kinds) == 1 else [value for value in values if type(value) is wanted]


def has_nested(values: Sequence[Any]) -> bool:
    return not {dict, list}.isdisjoint(map(type, values))


PLAIN_KEY = re.compile(r"[^\s,:{}\[\]\"]{1,60}")


def shown_name(key: str) -> str:
    return key if PLAIN_KEY.fullmatch(key) else json.dumps(quoted(key, 60), ensure_ascii=False)


def scalars(values: Sequence[Any]) -> tuple[str, ...]:
    """Describe scalars: by type, and by type with ranges and samples."""
    counts = Counter(map(type, values))
    types = "|".join(TYPES.get(kind, "?") for kind in counts)
    if len(values) == 1:
        return (f" = {sample(values[0])}",)
    details = list(_details(values, counts))
    return (f": {types}", f": {types} {', '.join(details)}") if details else (f": {types}",)


TYPES: dict[type, str] = {
    str: "str",
    int: "int",
    float: "float",
    bool: "bool",
    type(None): "null",
    dict: "object",
    list: "array",
}


class Short(Struct, frozen=True):
    """A small object or array: its names only, and with its values."""

    forms: tuple[str, str]
    names: list[str]


def in_short(value: dict[str, Any] | list[Any]) -> Short | None:
    """Describe a small object or array in a few words; return None for a larger one."""
    names: dict[str, None] = {}
    written = _written(value, _SHORT_DEPTH, names)
    if written is None or len(written) > _SHORT_CHARS:
        return None
    listed = ", ".join(map(shown_name, names))
    of = f" of {{{listed}}}" if names else ""
    brief = f": {{{listed}}}" if isinstance(value, dict) else f": [{len(value)}]{of}"
    return Short((brief, f" = {written}"), [key for key in names if PLAIN_KEY.fullmatch(key)])


def _written(value: Any, depth: int, names: dict[str, None]) -> str | None:
    """Return a short value as JSON, or None; add its field names to `names`."""
    if not isinstance(value, dict | list):
        return sample(value) if len(str(value)) <= _SAMPLE_CHARS else None
    held = cast("dict[str, Any] | list[Any]", value)
    if len(held) > _SHORT_ENTRIES or not depth:
        return None
    parts: list[str] = []
    for key, each in held.items() if isinstance(held, dict) else ((None, each) for each in held):
        text = _written(each, depth - 1, names)
        if text is None:
            return None
        if key is not None:
            names[key] = None
        parts.append(text if key is None else f"{shown_name(key)}: {text}")
    joined = ", ".join(parts)
    return f"{{{joined}}}" if isinstance(held, dict) else f"[{joined}]"


def map_forms(held: dict[str, Any]) -> list[str]:
    """Describe a map of scalars: with some names, with more, and with values."""
    head = f"map of {len(held)} keys: "
    some = list(islice(held.items(), _MAP_ENTRIES[-1]))
    pairs = [f"{shown_name(key)}{scalars([value])[0]}" for key, value in some]
    # The first value shows what they are.
    listed = [pairs[0], *(shown_name(key) for key, _ in some[1:])]
    forms = [head + ", ".join(listed[:count]) for count in _MAP_ENTRIES]
    counted = [len(held) - min(len(some), count) for count in _MAP_ENTRIES]
    forms.append(head + ", ".join(pairs))
    counted.append(len(held) - len(some))
    return [f"{form} +{left}" if left else form for form, left in zip(forms, counted, strict=True)]


def _details(values: Sequence[Any], counts: Counter[type]) -> Iterator[str]:
    numbers = [*of_type(values, int, counts), *of_type(values, float, counts)]
    if numbers:
        low, high = min(numbers), max(numbers)
        yield f"{low}" if low == high else f"{low}..{high}"
    texts = of_type(values, str, counts)
    if texts:
        distinct = Counter(texts)
        # The most common values; the first ones if there are too many to count.
        is_many = len(distinct) > 1_000
        common = list(distinct.items()) if is_many else distinct.most_common(SAMPLES)
        samples = " ".join(sample(text, _SAMPLE_CHARS // 2) for text, _ in common[:SAMPLES])
        more = f" ({len(distinct)} distinct)" if len(distinct) > SAMPLES else ""
        yield samples + more
    if counts.get(bool):
        true_count = sum(value is True for value in values)
        yield f"true {true_count} of {counts[bool]}"


def sample(value: Any, chars_max: int = _SAMPLE_CHARS) -> str:
    if isinstance(value, str):
        return json.dumps(quoted(value, chars_max), ensure_ascii=False)
    return "null" if value is None else str(value).lower()[:chars_max]


# An object with more keys than this, and with similar values, is a map.
_MAP_KEYS_MIN = 12
_MAP_KEYS_SHOWN = 20
_MAP_KEYS_TRIED = 2_000
_SPARSE_SHARE, _WORDS_SHARE = 0.2, 0.75
_DEPTH_MAX = 40
_WORDS = re.compile(r"[A-Za-z_ ]*+")
_FIELD = re.compile(r"[A-Za-z_]*+")


class JsonShape:
    """Collects the pieces of an outline, path by path."""

    def __init__(self) -> None:
        self.pieces: list[OutlinePiece] = []
        self.left_out = 0
        self.names: dict[str, None] = {}
        """Field names; including those at paths with too many to show."""

    def whole(self, measure: str, value: Any) -> None:
        """Describe a whole document."""
        objects, arrays = objects_of([value]), arrays_of([value])
        if objects:
            self.add(0, f"JSON object, {measure}, {len(objects[0])} keys")
            self.members(objects, 1)
        elif arrays:
            self.add(0, f"JSON array, {measure}, {len(arrays[0])} elements")
            self.elements(arrays[0], 1)
        else:
            self.add(0, f"JSON, {measure}{scalars([value])[-1]}")

    def elements(self, values: Sequence[Any], depth: int) -> None:
        """Describe the elements of an array, or the values of a map."""
        objects = objects_of(values)
        if objects and len(objects) == len(values):
            self.add(depth, f"{' ' * depth}each: object")
            self.members(objects, depth + 1)
        elif values:
            self._place("each", values, depth, "\n")

    def members(self, objects: Sequence[dict[str, Any]], depth: int) -> None:
        """Describe the keys of all objects at one path: scalars on one line, the rest below."""
        columns = _columns(objects)
        if len(columns) >= _MAP_KEYS_MIN and self._map(objects, columns, depth):
            return
        keys = list(columns)
        self.names.update((key, None) for key in keys if PLAIN_KEY.fullmatch(key))
        nested: list[tuple[str, Sequence[Any]]] = []
        glue = "\n"
        for label, indexes in families(keys):
            if len(self.pieces) >= OUTLINE_PIECES_MAX:
                self.left_out += 1
                continue
            values = columns[keys[indexes[0]]]
            if len(indexes) > 1:
                values = list(chain.from_iterable(columns[keys[index]] for index in indexes))
            name = label if len(indexes) > 1 else shown_name(label)
            if len(values) < len(objects):
                name += "?"
            if has_nested(values):
                short = in_short(values[0]) if len(values) == 1 else None
                if short is None:
                    nested.append((name, values))
                    continue
                self.names.update((key, None) for key in short.names)
                forms = tuple(f"{name}{form}" for form in short.forms)
                self.add(depth, *_indented(forms, depth, glue), glue=glue)
                glue = JOINED
                continue
            self._scalar(name, values, depth, glue)
            glue = JOINED
        for name, values in nested:
            self._place(name, values, depth, "\n")

    def _map(
        self, objects: Sequence[dict[str, Any]], columns: dict[str, Sequence[Any]], depth: int
    ) -> bool:
        """Describe an object as a map, if its values are all objects of similar shape, or are all
        scalars whose keys are not field names.
        """
        values = list(chain.from_iterable(each.values() for each in objects))
        held = objects_of(values)
        if len(objects) == 1 and _is_map_of_scalars(objects[0]):
            self.add(depth, *(f"{' ' * depth}{form}" for form in map_forms(objects[0])))
            return True
        if _is_sparse(objects, columns) and not has_nested(values):
            known = {key: column[0] for key, column in columns.items()}
            if _is_map_of_scalars(known):
                self.add(depth, *(f"{' ' * depth}{form}" for form in map_forms(known)))
                return True
        if len(held) < len(values) or not _alike(held):
            return False
        self.add(depth, f"{' ' * depth}map of {len(columns)} keys:")
        # The keys name records: the structure of a record comes before more names.
        for index, key in enumerate(islice(columns, _MAP_KEYS_SHOWN)):
            self.add(depth if index < SAMPLES else _DEPTH_MAX + 1, shown_name(key), glue=JOINED)
        self.left_out += max(0, len(columns) - _MAP_KEYS_SHOWN)
        self.add(depth, f"{' ' * depth}each value: object")
        self.members(held, depth + 1)
        return True

    def _place(self, name: str, values: Sequence[Any], depth: int, glue: str) -> None:
        """Describe the values at one path."""
        if len(self.pieces) >= OUTLINE_PIECES_MAX:
            self.left_out += 1
            return
        objects, arrays = objects_of(values), arrays_of(values)
        if not objects and not arrays:
            self._scalar(name, values, depth, glue)
            return
        if len(objects) + len(arrays) < len(values):
            rest = [value for value in values if type(value) not in (dict, list)]
            kinds = "|".join(TYPES.get(each, "?") for each in Counter(map(type, rest)))
            name += f" ({kinds} or)"
        if len(objects) == 1 and _is_map_of_scalars(objects[0]):
            self.add(depth, *(f"{' ' * depth}{name}: {form}" for form in map_forms(objects[0])))
        elif objects:
            is_large = len(objects) == 1 and len(objects[0]) > 3
            counted = f" ({len(objects[0])} keys)" if is_large else ""
            self.add(depth, f"{' ' * depth}{name}: {{}}{counted}")
            self._below(objects, depth)
        if arrays:
            self._array(name, arrays, depth)

    def _scalar(self, name: str, values: Sequence[Any], depth: int, glue: str) -> None:
        # For a top-level number, the value is as short as its name.
        is_number = depth == 1 and len(values) == 1 and type(values[0]) is int
        forms = tuple(f"{name}{form}" for form in ("", *scalars(values))[is_number:])
        self.add(depth, *_indented(forms, depth, glue), glue=glue)

    def _array(self, name: str, arrays: Sequence[list[Any]], depth: int) -> None:
        sizes = {len(each) for each in arrays}
        size = str(min(sizes)) if len(sizes) == 1 else f"{min(sizes)}..{max(sizes)}"
        values = list(chain.from_iterable(arrays))
        head = f"{' ' * depth}{name}: [{size}]"
        if not has_nested(values):
            self.add(depth, head, *(f"{head}{form}" for form in scalars(values) if values))
            return
        objects = objects_of(values)
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
        self.pieces.append(OutlinePiece(rank, forms, glue))


def _indented(forms: tuple[str, ...], depth: int, glue: str) -> tuple[str, ...]:
    """Indent forms for a depth, if they start a line."""
    return tuple(f"{' ' * depth}{form}" for form in forms) if glue == "\n" else forms


def _columns(objects: Sequence[dict[str, Any]]) -> dict[str, Sequence[Any]]:
    """Return the values of each key, in one pass: keys times objects may far exceed the actual
    values.
    """
    keys = tuple(objects[0]) if objects else ()
    # The common case of uniform records, which is faster.
    if all(map(keys.__eq__, map(tuple, objects))):
        return dict(zip(keys, zip(*(each.values() for each in objects), strict=True), strict=True))
    columns: defaultdict[str, list[Any]] = defaultdict(list)
    for each in objects:
        for key, value in each.items():
            columns[key].append(value)
    return dict(columns)


def _is_sparse(objects: Sequence[dict[str, Any]], columns: dict[str, Sequence[Any]]) -> bool:
    """Return True if the objects at one path have few of its many keys each, and many of these do
    not look like field names.
    """
    if sum(map(len, objects)) >= _SPARSE_SHARE * len(objects) * len(columns):
        return False
    words = sum(_WORDS.fullmatch(key) is not None for key in columns)
    return words < _WORDS_SHARE * len(columns)


def _is_map_of_scalars(held: dict[str, Any]) -> bool:
    """Return True if an object maps arbitrary names, such as packages, to values of one type."""
    values = list(held.values())
    if len(held) < _MAP_KEYS_MIN or len(set(map(type, values))) > 1 or has_nested(values):
        return False
    if all(map(_FIELD.fullmatch, held)):
        return False
    some = list(islice(held, _MAP_KEYS_TRIED))
    return len(families(some)) > len(some) // 2


def _alike(values: Sequence[dict[str, Any]]) -> bool:
    """Return True if objects share most of their keys, so that one shape describes all of them."""
    some = list(islice(values, 200))
    counts = Counter(chain.from_iterable(some))
    shared = sum(count for count in counts.values() if count >= len(some) / 2)
    return bool(counts) and shared >= 0.6 * sum(counts.values())
