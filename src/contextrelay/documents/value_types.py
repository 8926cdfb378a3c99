"""JSON values as plain Python: which kind one is, and when two are the same.

Rule: nothing heavy is imported here; what reads a project's files at every start needs only this.
"""

from __future__ import annotations

from typing import Any, TypeGuard


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether a value is a JSON object."""
    return type(value) is dict


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Whether a value is a JSON list."""
    return type(value) is list


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON: 1 is 1.0, but true is not 1."""
    if is_object(one):
        if not is_object(other) or len(one) != len(other):
            return False
        return all(name in other and same(value, other[name]) for name, value in one.items())
    if is_list(one):
        if not is_list(other) or len(one) != len(other):
            return False
        return all(same(left, right) for left, right in zip(one, other, strict=True))
    return (type(one) is bool) == (type(other) is bool) and bool(one == other)
