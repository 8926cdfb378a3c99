"""Templates and conditions: `{{steps.plan.ref}}` in a text, and simple comparisons.

A value is a root (`inputs`, `steps`, `item`, `run`) followed by names and indexes:
`{{inputs.topic}}`, `{{steps.plan.json.items[0].title}}`, `{{item}}`. There are no calls, no Python
attributes and no operators: values are looked up in a JSON document that the runner made.
`{{{{` stands for a literal `{{`.

Rule: a template is parsed once, when the pipeline is read. The content of a value is never parsed
again, so an input that looks like a template stays text.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct

from contextrelay.documents.values import is_equal, is_list, is_object, quote_value
from contextrelay.errors import Invalid

TEMPLATE_PATH_MAX = 32
CONDITION_CHARS_MAX = 2_000
CONDITION_DEPTH_MAX = 32


ROOTS = ("inputs", "steps", "item", "run")
STEP_FIELDS = ("ref", "refs", "preview", "json", "status", "by")
"""The fields that a finished step has: its artifact (of a fan-out, all artifacts), its status and
its approver.
"""

_NAME = r"[A-Za-z_][A-Za-z0-9_-]*"
_VALUE = re.compile(rf"({_NAME})((?:\.{_NAME}|\[[0-9]{{1,6}}\])*)")
_PART = re.compile(rf"\.({_NAME})|\[([0-9]+)\]")
_OPEN, _CLOSE = "{{", "}}"


class Value(Struct, frozen=True):
    """A reference to a value: a root, and the path from the root to the value."""

    root: str
    path: tuple[str | int, ...] = ()

    def __str__(self) -> str:
        steps = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path)
        return self.root + "".join(steps)


class Template(Struct, frozen=True):
    """A text with references to values, split into parts in the order of the text."""

    parts: tuple[str | Value, ...]

    def values(self) -> list[Value]:
        return [part for part in self.parts if isinstance(part, Value)]

    @property
    def lone_value(self) -> Value | None:
        """Return the value reference if the template consists only of it, or None. The value then
        keeps its type.
        """
        only = self.parts[0] if len(self.parts) == 1 else None
        return only if isinstance(only, Value) else None


def parse_value(text: str) -> Value:
    """Parse a reference to a value, from between double braces or from a condition.

    Raises:
        Invalid: the text is not a reference to a value.
    """
    match = _VALUE.fullmatch(text.strip())
    if match is None:
        raise Invalid(
            f"invalid value {quote_value(text.strip())}",
            "use a value such as inputs.topic, steps.plan.ref or item.name, without calls or "
            "operators;"
            " {{{{ for literal braces",
        )
    parts = [name or int(index) for name, index in _PART.findall(match[2])]
    if match[1] not in ROOTS:
        raise Invalid(
            f"unknown value {quote_value(match[1])}",
            f"a value starts with one of: {', '.join(ROOTS)}",
        )
    if len(parts) > TEMPLATE_PATH_MAX:
        raise Invalid(
            f"value too deep: {quote_value(text.strip())}", f"at most {TEMPLATE_PATH_MAX} parts"
        )
    return Value(match[1], tuple(parts))


def parse_template(text: str) -> Template:
    """Parse a text that contains references to values in double braces.

    Raises:
        Invalid: braces are not closed, or contain no valid value.
    """
    return Template(tuple(_parts(text)))


def _parts(text: str) -> Iterator[str | Value]:
    place = number = 0
    while (start := text.find(_OPEN, place)) >= 0:
        if text.startswith(_OPEN * 2, start):
            yield text[place:start] + _OPEN
            place = start + 2 * len(_OPEN)
            continue
        stop = text.find(_CLOSE, start)
        if stop < 0:
            hint = "close them with }}, or write {{{{ for literal braces"
            raise Invalid("unclosed {{", hint, {"value": number})
        if start > place:
            yield text[place:start]
        try:
            yield parse_value(text[start + len(_OPEN) : stop])
        except Invalid as error:
            error.details["value"] = number
            raise
        number += 1
        place = stop + len(_CLOSE)
    if place < len(text) or not text:
        yield text[place:]


def look_up(value: Value, known: Mapping[str, Any]) -> Any:
    """Return the value that a reference names in the document `known`.

    Raises:
        Invalid: there is no such value.
    """
    found: Any = dict(known)
    for part in (value.root, *value.path):
        here: Any = found
        is_there = part < len(here) if is_list(here) and isinstance(part, int) else False
        if not is_there and not (is_object(here) and part in here):
            raise Invalid(
                f"{{{{{value}}}}} has no value: {quote_value(str(part))} not found",
                "check the result of the step before: relay pipeline show RUN",
            )
        found = found[part]
    return found


_TOKEN = re.compile(
    r"\s*(?:(?P<text>'[^']*'|\"[^\"]*\")|(?P<number>-?[0-9]+(?:\.[0-9]+)?)|(?P<sign>==|!=|<=|>=|[<>()\[\],])"
    r"|(?P<word>[A-Za-z_][A-Za-z0-9_.-]*(?:\[[0-9]+\][A-Za-z0-9_.-]*)*))"
)
_LITERALS = {"true": True, "false": False, "null": None}
_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SIGNS = ("==", "!=", *_ORDERS, "in")


class LiteralValue(Struct, frozen=True):
    """A literal in a condition, such as a number or a quoted text."""

    value: Any


class Comparison(Struct, frozen=True):
    """A comparison of two values or literals."""

    sign: str
    left: Expression
    right: Expression


class BooleanExpression(Struct, frozen=True):
    """An expression of `and`, `or`, or `not`. An expression of `not` has only one part."""

    word: Literal["and", "or", "not"]
    parts: tuple[Expression, ...]


Expression = Value | LiteralValue | Comparison | BooleanExpression


def values_of(expression: Expression) -> list[Value]:
    """Return every value that a condition looks up."""
    match expression:
        case Value():
            return [expression]
        case LiteralValue():
            return []
        case Comparison():
            return [*values_of(expression.left), *values_of(expression.right)]
        case BooleanExpression():
            return [value for part in expression.parts for value in values_of(part)]


def check_kinds(expression: Expression, kind_of: Callable[[Value], str | None]) -> None:
    """Check that each comparison can be evaluated and can be true, by the types of its two sides.

    `kind_of` returns text, number, boolean, list or object, or None if the type is unknown before a
    run.

    Raises:
        Invalid: a comparison cannot be evaluated, or can never be true.
    """
    if isinstance(expression, BooleanExpression):
        for part in expression.parts:
            check_kinds(part, kind_of)
    if not isinstance(expression, Comparison):
        return
    sides = (expression.left, expression.right)
    for side in sides:
        check_kinds(side, kind_of)
    left, right = (_kind(side, kind_of) for side in sides)
    match expression.sign:
        case "in":
            is_wrong = right in ("number", "boolean") or (right == "text" and left not in _TEXTS)
        case "==" | "!=":
            is_wrong = None not in (left, right) and left != right
        case _:
            is_wrong = {left, right} - {None} not in (set(), {"text"}, {"number"})
    if is_wrong:
        said = f"{left or 'a value'} {expression.sign} {right or 'a value'}"
        raise Invalid(
            f"this comparison is never true: {said}",
            "compare values of the same type; an input has a type:",
        )


_TEXTS = ("text", None)


def _kind(side: Expression, kind_of: Callable[[Value], str | None]) -> str | None:
    match side:
        case Value():
            return kind_of(side)
        case LiteralValue():
            return next((kind for each, kind in _KINDS if isinstance(side.value, each)), None)
        case _:
            return "boolean"


_KINDS = ((str, "text"), (bool, "boolean"), ((int, float), "number"), (list, "list"))


def holds(expression: Expression, known: Mapping[str, Any]) -> bool:
    """Return True if a condition is true for the values in the document `known`.

    Raises:
        Invalid: a value does not exist, or two values cannot be compared.
    """
    return bool(_evaluate(expression, known))


def _evaluate(expression: Expression, known: Mapping[str, Any]) -> Any:
    match expression:
        case Value():
            return look_up(expression, known)
        case LiteralValue():
            return expression.value
        case BooleanExpression(word="not"):
            return not _evaluate(expression.parts[0], known)
        case BooleanExpression(word="and"):
            return all(_evaluate(part, known) for part in expression.parts)
        case BooleanExpression():
            return any(_evaluate(part, known) for part in expression.parts)
        case Comparison():
            left, right = _evaluate(expression.left, known), _evaluate(expression.right, known)
            return _compare(expression.sign, left, right)


def _compare(sign: str, left: Any, right: Any) -> bool:
    try:
        match sign:
            case "==":
                return is_equal(left, right)
            case "!=":
                return not is_equal(left, right)
            case "in" if is_list(right):
                return any(is_equal(left, each) for each in right)
            case "in":
                return left in right
            case _:
                return _ORDERS[sign](left, right)
    except TypeError:
        kinds = f"{type(left).__name__} {sign} {type(right).__name__}"
        raise Invalid(f"cannot compare: {kinds}", "compare numbers or texts") from None


def parse_condition(text: str) -> Expression:
    """Parse a condition.

    Raises:
        Invalid: the condition is malformed, too long or too deep.
    """
    if len(text) > CONDITION_CHARS_MAX:
        raise Invalid("condition too long", f"at most {CONDITION_CHARS_MAX} characters")
    if "{{" in text:
        bare = re.sub(r"\{\{\s*|\s*\}\}", "", text)
        raise Invalid("values in a condition have no braces", f"use: {bare}", {"value": 0})
    reader = _Reader(_tokens(text))
    expression = reader.joined("or", 0)
    if (left := reader.peek()) is not None:
        raise Invalid(f"unexpected {quote_value(left)}", "join two conditions with and, or")
    return expression


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    place = 0
    while text[place:].strip():
        match = _TOKEN.match(text, place)
        if match is None:
            raise Invalid(
                f"invalid syntax: {quote_value(text[place:].strip()[:20])}",
                "use values, literals, == != < <= > >= in, and, or, not, parentheses",
            )
        tokens.append(match[0].strip())
        place = match.end()
    return tokens


class _Reader:
    """A parser of conditions. `or` binds weakest, then `and`, then `not`, then comparisons."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._place = 0

    def peek(self) -> str | None:
        return self._tokens[self._place] if self._place < len(self._tokens) else None

    def _take(self) -> str:
        token = self.peek()
        if token is None:
            raise Invalid("incomplete condition", "complete the condition, or omit it")
        self._place += 1
        return token

    def joined(self, word: Literal["or", "and"], depth: int) -> Expression:
        parts = [self._part(word, depth)]
        while self.peek() == word:
            self._place += 1
            parts.append(self._part(word, depth))
        return parts[0] if len(parts) == 1 else BooleanExpression(word, tuple(parts))

    def _part(self, word: str, depth: int) -> Expression:
        return self.joined("and", depth) if word == "or" else self._negated(depth)

    def _negated(self, depth: int) -> Expression:
        if depth > CONDITION_DEPTH_MAX:
            raise Invalid("condition too deep", "split the condition over two steps")
        if self.peek() == "not":
            self._place += 1
            return BooleanExpression("not", (self._negated(depth + 1),))
        left = self._operand(depth)
        sign = self.peek()
        if sign not in _SIGNS:
            return left
        self._place += 1
        return Comparison(sign, left, self._operand(depth))

    def _operand(self, depth: int) -> Expression:
        token = self._take()
        if token == "(":
            inner = self.joined("or", depth + 1)
            if self._take() != ")":
                raise Invalid("unclosed (", "add )")
            return inner
        if token == "[":
            return LiteralValue(self._list())
        return _literal(token) or parse_value(token)

    def _list(self) -> list[Any]:
        values: list[Any] = []
        while (token := self._take()) != "]":
            if (literal := _literal(token)) is None:
                raise Invalid(
                    f"unexpected {quote_value(token)} in a list",
                    "lists contain quoted texts and numbers",
                )
            values.append(literal.value)
            if self.peek() != "]" and self._take() != ",":
                raise Invalid("missing comma in a list", "for example ['a', 'b']")
        return values


def _literal(token: str) -> LiteralValue | None:
    if token[0] in "'\"":
        return LiteralValue(token[1:-1])
    if token[0] in "-0123456789":
        return LiteralValue(float(token) if "." in token else int(token))
    return LiteralValue(_LITERALS[token]) if token in _LITERALS else None
