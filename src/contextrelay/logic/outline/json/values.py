"""Values: what stands at one place of documents, by types, ranges and samples."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from contextrelay.logic.outline.layout import quoted

SAMPLES = 3
_SAMPLE_CHARS = 60


def objects_of(values: Sequence[Any]) -> Sequence[dict[str, Any]]:
    return of_type(values, dict)


def arrays_of(values: Sequence[Any]) -> Sequence[list[Any]]:
    return of_type(values, list)


def of_type(
    values: Sequence[Any], wanted: type, kinds: Collection[type] | None = None
) -> Sequence[Any]:
    """Those of a type; `kinds` are all types that there are, where they are known."""
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
    """What values that hold no others are: the types, and the types with ranges and samples."""
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


def _details(values: Sequence[Any], counts: Counter[type]) -> Iterator[str]:
    numbers = [*of_type(values, int, counts), *of_type(values, float, counts)]
    if numbers:
        low, high = min(numbers), max(numbers)
        yield f"{low}" if low == high else f"{low}..{high}"
    texts = of_type(values, str, counts)
    if texts:
        distinct = Counter(texts)
        # The most common; of very many, which takes long to find out, the first.
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
