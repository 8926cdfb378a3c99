"""JSON queries: evaluate a parsed JSONPath (RFC 9535) on a document, within a step limit.

jsonpath parses the query but is not used to evaluate it, because it limits neither the number of
visited positions nor the length of their paths.

Rule: every position that is visited, compared or matched is a step, as is every part of a text that
is read; JSON_PATH_STEPS_MAX ends a query. A position stores its parent and key, so that pointers
are formatted only for results that are shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from typing import Any

from contextrelay.content.grep.match import compile_pattern
from contextrelay.documents.values import is_list, is_object
from contextrelay.errors import Invalid, TooLarge

JSON_PATH_STEPS_MAX = 500_000


Link = tuple[Any, str | int] | None
"""The parent's link and the key in it; None for the document."""
Place = tuple[Any, Link]
"""A value and its link."""

# Each step also pays for this many characters of a text.
CHARS_A_STEP = 64
_NOTHING: Any = object()
"""The result of a query that selects nothing."""


class Query:
    """A query on a document."""

    def __init__(self, query: str, document: Any) -> None:
        """Parse a query.

        Raises:
            Invalid: it is invalid.
        """
        self._segments: Any = _parsed(query).segments
        self._document = document
        self._steps = 0
        self._known: dict[tuple[int, int | None], list[Any]] = {}

    def places(self) -> Iterator[Place]:
        """Yield the selected values, in order.

        Raises:
            TooLarge: it takes too many steps.
            Invalid: it is nested too deeply.
        """
        try:
            yield from self._selected(self._segments, self._document)
        except RecursionError as error:
            raise _too_deep() from error

    def count(self, steps: int) -> None:
        """Count steps of a caller.

        Raises:
            TooLarge: the limit is exceeded.
        """
        self._steps += steps
        if self._steps > JSON_PATH_STEPS_MAX:
            raise TooLarge(
                "the query takes too many steps on this document",
                f"the limit is {JSON_PATH_STEPS_MAX:,}; start the query closer to the target",
            )

    def _selected(self, segments: Iterable[Any], value: Any) -> Iterator[Place]:
        """Yield the positions that segments select, starting from a value."""
        from jsonpath.segments import JSONPathRecursiveDescentSegment as Descent

        places: Iterator[Place] = iter([(value, None)])
        for segment in segments:
            if isinstance(segment, Descent):
                places = self._all_below(places)
            places = self._children(places, segment.selectors)
        return places

    def _children(self, places: Iterator[Place], selectors: Any) -> Iterator[Place]:
        for place in places:
            for selector in selectors:
                self.count(1)
                yield from self._select(place, selector)

    def _select(self, place: Place, selector: Any) -> Iterator[Place]:
        """Yield the children of a position that one selector matches."""
        from jsonpath import selectors as kinds

        value, link = place
        items: Any
        if isinstance(selector, kinds.NameSelector):
            items = _member(value, selector.name)
        elif isinstance(selector, kinds.IndexSelector):
            items = _item(value, selector.index)
        elif isinstance(selector, kinds.SliceSelector):
            items = _slice(value, selector.slice)
        else:
            items = _all(value)
        expression = selector.expression if isinstance(selector, kinds.Filter) else None
        for key, child in items:
            self.count(1)
            if expression is None or self._is_true(expression.expression, child):
                yield child, (link, key)

    def _all_below(self, places: Iterator[Place]) -> Iterator[Place]:
        """Yield each position and its descendants, parents first."""
        for place in places:
            yield place
            open_places = [self._containers(place)]
            while open_places:
                inner = next(open_places[-1], None)
                if inner is None:
                    open_places.pop()
                    continue
                yield inner
                open_places.append(self._containers(inner))

    def _containers(self, place: Place) -> Iterator[Place]:
        value, link = place
        for key, child in _all(value):
            self.count(1)
            if is_object(child) or is_list(child):
                yield child, (link, key)

    # Filters

    def _is_true(self, expression: Any, here: Any) -> bool:
        """Return True if a filter matches a value."""
        from jsonpath import filter as kinds

        self.count(1)
        if isinstance(expression, kinds.PrefixExpression):
            return not self._is_true(expression.right, here)
        if isinstance(expression, kinds.InfixExpression):
            if expression.operator == "&&":
                return self._is_true(expression.left, here) and self._is_true(
                    expression.right, here
                )
            if expression.operator == "||":
                return self._is_true(expression.left, here) or self._is_true(expression.right, here)
            left, right = self._value(expression.left, here), self._value(expression.right, here)
            return self._compare(left, expression.operator, right)
        if isinstance(expression, kinds.FilterQuery):
            return bool(self._values(expression, here, count_max=1))
        return self._value(expression, here) is True

    def _values(self, query: Any, here: Any, count_max: int | None = None) -> list[Any]:
        """Return the values of a query in a filter; absolute queries are evaluated once."""
        from jsonpath.filter import RootFilterQuery

        is_root = isinstance(query, RootFilterQuery)
        found = self._known.get((id(query), count_max)) if is_root else None
        if found is None:
            places = self._selected(query.path.segments, self._document if is_root else here)
            found = [value for value, _ in islice(places, count_max)]
            if is_root:
                self._known[id(query), count_max] = found
        return found

    def _value(self, expression: Any, here: Any) -> Any:
        """Evaluate a side of a comparison, or an argument; return `_NOTHING` if it is missing."""
        from jsonpath import filter as kinds

        if isinstance(expression, kinds.FilterQuery):
            return self._only_value(expression, here)
        if isinstance(expression, kinds.FunctionExtension):
            return self._call_function(expression.name, expression.args, here)
        if isinstance(expression, kinds.ListLiteral):
            return [self._value(each, here) for each in expression.items]
        if isinstance(expression, kinds.InfixExpression | kinds.PrefixExpression):
            return self._is_true(expression, here)
        return None if isinstance(expression, kinds.Nil) else expression.value

    def _only_value(self, query: Any, here: Any) -> Any:
        found = self._values(query, here)
        return found[0] if len(found) == 1 else _NOTHING

    def _call_function(self, name: str, args: Any, here: Any) -> Any:
        """Evaluate a function of RFC 9535."""
        if name == "count":
            return len(self._values(args[0], here))
        if name == "value":
            return self._only_value(args[0], here)
        value = self._value(args[0], here)
        if name == "length":
            is_long = isinstance(value, str) or is_list(value) or is_object(value)
            return len(value) if is_long else _NOTHING
        return self._matches(value, self._value(args[1], here), is_whole=name == "match")

    def _matches(self, value: Any, pattern: Any, is_whole: bool) -> bool:
        if not isinstance(value, str) or not isinstance(pattern, str):
            return False
        self.count(1 + (len(value) + len(pattern)) // CHARS_A_STEP)
        compiled = _compiled(pattern)
        if compiled is None:
            return False
        find = compiled.fullmatch if is_whole else compiled.search
        return find(value.encode("utf-8", "replace")) is not None

    def _compare(self, left: Any, operator: str, right: Any) -> bool:
        if operator == "==":
            return self._is_deep_equal(left, right)
        if operator == "!=":
            return not self._is_deep_equal(left, right)
        if operator not in ("<", "<=", ">", ">="):
            return False  # The parser accepts other operators, which RFC 9535 does not define.
        if operator in (">", ">="):
            left, right = right, left
        if self._is_less(left, right):
            return True
        return operator in ("<=", ">=") and self._is_deep_equal(left, right)

    def _is_less(self, left: Any, right: Any) -> bool:
        if isinstance(left, str) and isinstance(right, str):
            self.count(min(len(left), len(right)) // CHARS_A_STEP)
            return left < right
        return _is_number(left) and _is_number(right) and left < right

    def _is_deep_equal(self, left: Any, right: Any) -> bool:
        """Compare two values deeply; each compared pair is a step."""
        pairs: list[tuple[Any, Any]] = [(left, right)]
        while pairs:
            one, other = pairs.pop()
            self.count(1)
            if is_list(one) and is_list(other):
                if len(one) != len(other):
                    return False
                self.count(len(one))
                pairs.extend(zip(one, other, strict=True))
            elif is_object(one) and is_object(other):
                if one.keys() != other.keys():
                    return False
                self.count(len(one))
                pairs.extend((each, other[name]) for name, each in one.items())
            elif not self._is_equal(one, other):
                return False
        return True

    def _is_equal(self, one: Any, other: Any) -> bool:
        """Compare two scalars."""
        if isinstance(one, str) and isinstance(other, str):
            self.count(min(len(one), len(other)) // CHARS_A_STEP)
            return one == other
        return one is other or (_is_number(one) and _is_number(other) and one == other)


def _member(value: Any, name: str) -> Iterable[tuple[str, Any]]:
    return [(name, value[name])] if is_object(value) and name in value else ()


def _item(value: Any, index: int) -> Iterable[tuple[int, Any]]:
    if not is_list(value) or not -len(value) <= index < len(value):
        return ()
    place = index % len(value)
    return [(place, value[place])]


def _slice(value: Any, span: slice) -> Iterable[tuple[int, Any]]:
    if not is_list(value) or span.step == 0:
        return ()
    return ((index, value[index]) for index in range(*span.indices(len(value))))


def _all(value: Any) -> Iterable[tuple[str | int, Any]]:
    if is_object(value):
        return value.items()
    return enumerate(value) if is_list(value) else ()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _parsed(query: str) -> Any:
    from jsonpath import JSONPath, JSONPathEnvironment
    from jsonpath.exceptions import JSONPathError

    hint = "use RFC 9535 syntax, for example $.orders[?@.total > 100].id"
    try:
        parsed = JSONPathEnvironment(strict=True, filter_caching=False).compile(query)
    except JSONPathError as error:
        why = error.args[0] if error.args else error
        raise Invalid(f"invalid JSONPath query: {why}", hint) from error
    except RecursionError as error:
        raise _too_deep() from error
    except (ValueError, OverflowError) as error:
        raise Invalid("invalid JSONPath query: a number is too large", hint) from error
    if not isinstance(parsed, JSONPath):
        raise Invalid("invalid JSONPath query: more than one query", hint)
    return parsed


def _too_deep() -> Invalid:
    return Invalid(
        "the query or the document is nested too deeply", "name the path explicitly, without `..`"
    )


@lru_cache(maxsize=32)
def _compiled(pattern: str) -> Any:
    """Compile a pattern; an invalid one matches nothing (RFC 9535)."""
    try:
        return compile_pattern(pattern)
    except Invalid:
        return None
