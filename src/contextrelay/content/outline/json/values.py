"""JSON values at one path: types, ranges and samples."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Any, cast

from msgspec import Struct

from contextrelay.content.outline.layout import quoted

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
