"""JSON shapes: keys, types, counts, ranges and samples of a document.

All values at the same path are described together, as a column, so that an array of a thousand
records is described once.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import chain, islice
from typing import Any

from contextrelay.content.outline.json.values import (
    PLAIN_KEY,
    SAMPLES,
    TYPES,
    arrays_of,
    has_nested,
    in_short,
    map_forms,
    objects_of,
    scalars,
    shown_name,
)
from contextrelay.content.outline.layout import JOINED, OutlinePiece, families
from contextrelay.limits import OUTLINE_PIECES_MAX

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
