"""JSONPath (RFC 9535) into a body: every value that a query selects, each with its pointer.

Rule: a query is counted while it runs: every place that it visits, compares or matches is a step,
and JSON_PATH_STEPS_MAX ends it. Regular expressions in it are RE2's.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Any

import msgspec

from contextrelay.errors import Invalid, TooLarge
from contextrelay.limits import (
    JSON_PATH_BYTES_MAX,
    JSON_PATH_MATCHES_MAX,
    JSON_PATH_STEPS_MAX,
    LINE_BYTES_SHOWN,
)
from contextrelay.logic.document.pointer import spell
from contextrelay.logic.grep.match import compile_pattern
from contextrelay.logic.slicing.fit import Taken, fit_lines
from contextrelay.logic.slicing.json_pointer import is_lines, json_of, lines_of
from contextrelay.logic.slicing.source import Source

# A string that is matched costs a step, and one more for each of so many characters.
_CHARS_A_STEP = 64


class _Steps:
    """How far a query has got."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, steps: int = 1) -> None:
        self.count += steps
        if self.count > JSON_PATH_STEPS_MAX:
            raise TooLarge(
                "the query takes too many steps in this document",
                f"the limit is {JSON_PATH_STEPS_MAX:,}; begin nearer to what you look for",
            )


def take_by_path(source: Source, query: str, tokens_max: int) -> Taken:
    """The values that a query selects, one a line: pointer, a tab, JSON.

    Raises:
        Invalid: the query is none, or the body no JSON.
        TooLarge: the body, or what the query does in it, is over a limit.
    """
    found = _selected(query, _document(source))
    selected = list(islice(found, JSON_PATH_MATCHES_MAX))
    is_more = next(found, None) is not None
    lines = [_line(pointer, value) for pointer, value in selected]
    text, count = fit_lines(lines, tokens_max)
    if not selected:
        return Taken(at=query, text="", notes=("nothing is selected",))
    if count == len(selected) and not is_more:
        return Taken(at=query, text=text, notes=_folded(selected, lines))
    first = selected[min(count, len(selected) - 1)][0]
    many = f"{'more than ' if is_more else ''}{len(selected):,}"
    return Taken(
        at=query,
        text=text,
        left_out=f"{len(selected) - count:,} of {many} values",
        next_args={"json_pointer": first},
        notes=_folded(selected[:count], lines),
    )


def _document(source: Source) -> Any:
    if source.size_bytes > JSON_PATH_BYTES_MAX:
        raise TooLarge(
            f"{source.ref} has {source.size_bytes:,} bytes, too many for JSONPath",
            f"the limit is {JSON_PATH_BYTES_MAX:,} bytes; a JSON pointer has none",
        )
    body = json_of(source)
    try:
        if is_lines(source):
            return [msgspec.json.decode(line) for line in lines_of(body)]
        return msgspec.json.decode(body)
    except RecursionError:
        raise Invalid(
            f"{source.ref} is nested too deep to be read as JSON",
            f"take bytes of it: relay get {source.ref[:8]} --bytes 0:2000",
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        hint = f"take lines of it: relay get {source.ref[:8]} --lines 1:40"
        raise Invalid(f"{source.ref} is not JSON: {error}", hint) from None


def _line(pointer: str, value: Any) -> str:
    told = msgspec.json.encode(value).decode()
    if len(told) > LINE_BYTES_SHOWN:
        told = f"{told[:LINE_BYTES_SHOWN]} [… {len(told) - LINE_BYTES_SHOWN:,} more]"
    return f"{pointer}\t{told}\n"


def _folded(selected: list[tuple[str, Any]], lines: list[str]) -> tuple[str, ...]:
    for (pointer, _), line in zip(selected, lines, strict=False):
        if len(line) > LINE_BYTES_SHOWN and line.endswith(" more]\n"):
            return (f"long values are folded; all of one: --json-pointer '{pointer}'",)
    return ()


def _selected(query: str, document: Any) -> Iterator[tuple[str, Any]]:
    from jsonpath.exceptions import JSONPathError

    try:
        for match in _environment(_Steps()).finditer(query, document):
            yield spell([str(part) for part in match.parts]), match.obj
    except RecursionError as error:
        raise Invalid(
            "the query or the document is nested too deep", "name the way there, without `..`"
        ) from error
    except JSONPathError as error:
        raise Invalid(
            f"the query cannot be used: {error.args[0] if error.args else error}",
            "write it as RFC 9535 has it, like $.orders[?@.total > 100].id",
        ) from error


def _environment(steps: _Steps) -> Any:
    """A JSONPath environment that counts what it does."""
    from jsonpath import JSONPathEnvironment, JSONPathMatch
    from jsonpath.function_extensions import ExpressionType, FilterFunction

    class Counted(JSONPathMatch):
        __slots__ = ()

        def __init__(self, **fields: Any) -> None:
            steps.add()
            super().__init__(**fields)

        def add_child(self, *children: Any) -> None:
            """Not kept: nobody asks, and it would hold every place that was visited."""

    class Matching(FilterFunction):
        def __init__(self, is_whole: bool) -> None:
            self._is_whole = is_whole

        @property
        def arg_types(self) -> list[ExpressionType]:
            return [ExpressionType.VALUE, ExpressionType.VALUE]

        @property
        def return_type(self) -> ExpressionType:
            return ExpressionType.LOGICAL

        def __call__(self, value: object, pattern: object) -> bool:
            if not isinstance(value, str) or not isinstance(pattern, str):
                return False
            steps.add(1 + len(value) // _CHARS_A_STEP)
            compiled = _compiled(pattern)
            if compiled is None:
                return False
            raw = value.encode("utf-8", "replace")
            find = compiled.fullmatch if self._is_whole else compiled.search
            return find(raw) is not None

    class Counting(JSONPathEnvironment):
        match_class = Counted

        def setup_function_extensions(self) -> None:
            super().setup_function_extensions()
            self.function_extensions["match"] = Matching(is_whole=True)
            self.function_extensions["search"] = Matching(is_whole=False)

        def compare(self, left: object, operator: str, right: object) -> bool:
            steps.add()
            _weigh(left, steps)
            _weigh(right, steps)
            return super().compare(left, operator, right)

    return Counting(strict=True)


def _weigh(value: object, steps: _Steps) -> None:
    """Count what comparing a value takes; most are no lists and no objects."""
    waiting: list[Any] = [value]
    while waiting:
        here = waiting.pop()
        if type(here) is dict or type(here) is list:
            steps.add(len(here))  # pyright: ignore[reportUnknownArgumentType]
            waiting.extend(here.values() if type(here) is dict else here)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


@lru_cache(maxsize=32)
def _compiled(pattern: str) -> Any:
    """A pattern that cannot be used selects nothing, as RFC 9535 has it."""
    try:
        return compile_pattern(pattern)
    except Invalid:
        return None
