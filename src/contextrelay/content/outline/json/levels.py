"""Levels: find JSON lines records that report errors or warnings, as in a log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

from contextrelay.content.outline.log.format import ERRORS, level_of

_NAMES = ("level", "severity", "log.level", "loglevel", "lvl", "levelname", "severity_text")
_RECORDS_TRIED = 50
# Numeric levels of some loggers: 50 is an error, 40 a warning.
_NUMBERED = {40: "WARN", 50: "ERROR", 60: "FATAL"}


def find_errors(values: Sequence[Any]) -> tuple[list[int], list[int]]:
    """Return the indexes of records that report errors, and of those that report warnings."""
    tried = [path for value in values[:_RECORDS_TRIED] for path in _paths(value)]
    if not tried:
        return [], []
    path = Counter(tried).most_common(1)[0][0]
    errors: list[int] = []
    warnings: list[int] = []
    for index, value in enumerate(values):
        level = _level(_at(value, path))
        if level in ERRORS:
            errors.append(index)
        elif level == "WARN":
            warnings.append(index)
    return errors, warnings


def _paths(record: Any) -> list[tuple[str, ...]]:
    """Return the paths at which a record has a level: top-level, or in its log metadata."""
    if not isinstance(record, dict):
        return []
    held = cast("dict[str, Any]", record)
    paths = [(key,) for key in held if key.lower() in _NAMES]
    return [path for path in (*paths, ("log", "level")) if _level(_at(held, path))]


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        value = cast("dict[str, Any]", value).get(key) if isinstance(value, dict) else None
    return value


def _level(value: Any) -> str | None:
    if isinstance(value, str):
        return level_of(value.strip()) if len(value) <= 20 else None
    return _NUMBERED.get(value, "INFO") if type(value) is int else None
