"""Conditions: what `when` says, as `steps.test.json.failed > 0 and inputs.deep == true`.

Values, literals (texts in quotes, numbers, true, false, null, and lists of these in brackets),
== != < <= > >= in, and, or, not, parentheses; nothing else. A condition is parsed when the pipeline
is read, and evaluated on values that were looked up: no code of anybody's runs.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec import Struct

from contextrelay.documents.values import is_list, same, shown
from contextrelay.errors import Invalid
from contextrelay.limits import CONDITION_CHARS_MAX, CONDITION_DEPTH_MAX
from contextrelay.pipelines.template import Value, look_up, parse_value

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


class Literally(Struct, frozen=True):
    """A value that is written in the condition."""

    value: Any


class Compared(Struct, frozen=True):
    """Two values and what is asked of them."""

    sign: str
    left: Expression
    right: Expression


class Joined(Struct, frozen=True):
    """`and`, `or`, or `not` (which has one part)."""

    word: Literal["and", "or", "not"]
    parts: tuple[Expression, ...]


Expression = Value | Literally | Compared | Joined


def values_of(expression: Expression) -> list[Value]:
    """Every value that a condition looks up."""
    match expression:
        case Value():
            return [expression]
        case Literally():
            return []
        case Compared():
            return [*values_of(expression.left), *values_of(expression.right)]
        case Joined():
            return [value for part in expression.parts for value in values_of(part)]


def check_kinds(expression: Expression, kind_of: Callable[[Value], str | None]) -> None:
    """Refuse a comparison that can never be made, or never hold, by the kinds of its sides.

    `kind_of` a value: text, number, boolean, list, object; None where it is not known before a run.

    Raises:
        Invalid: there is one.
    """
    if isinstance(expression, Joined):
        for part in expression.parts:
            check_kinds(part, kind_of)
    if not isinstance(expression, Compared):
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
        raise Invalid(f"this cannot hold: {said}", "compare like with like; an input has a type:")


_TEXTS = ("text", None)


def _kind(side: Expression, kind_of: Callable[[Value], str | None]) -> str | None:
    match side:
        case Value():
            return kind_of(side)
        case Literally():
            return next((kind for each, kind in _KINDS if isinstance(side.value, each)), None)
        case _:
            return "boolean"


_KINDS = ((str, "text"), (bool, "boolean"), ((int, float), "number"), (list, "list"))


def holds(expression: Expression, known: Mapping[str, Any]) -> bool:
    """Whether a condition holds.

    Raises:
        Invalid: a value is not there, or two cannot be compared.
    """
    return bool(_evaluate(expression, known))


def _evaluate(expression: Expression, known: Mapping[str, Any]) -> Any:
    match expression:
        case Value():
            return look_up(expression, known)
        case Literally():
            return expression.value
        case Joined(word="not"):
            return not _evaluate(expression.parts[0], known)
        case Joined(word="and"):
            return all(_evaluate(part, known) for part in expression.parts)
        case Joined():
            return any(_evaluate(part, known) for part in expression.parts)
        case Compared():
            left, right = _evaluate(expression.left, known), _evaluate(expression.right, known)
            return _compare(expression.sign, left, right)


def _compare(sign: str, left: Any, right: Any) -> bool:
    try:
        match sign:
            case "==":
                return same(left, right)
            case "!=":
                return not same(left, right)
            case "in" if is_list(right):
                return any(same(left, each) for each in right)
            case "in":
                return left in right
            case _:
                return _ORDERS[sign](left, right)
    except TypeError:
        kinds = f"{type(left).__name__} {sign} {type(right).__name__}"
        raise Invalid(f"cannot be compared: {kinds}", "compare numbers, or texts") from None


def parse_condition(text: str) -> Expression:
    """Read a condition.

    Raises:
        Invalid: it is none, or too long or too deep.
    """
    if len(text) > CONDITION_CHARS_MAX:
        raise Invalid("the condition is too long", f"at most {CONDITION_CHARS_MAX} characters")
    if "{{" in text:
        bare = re.sub(r"\{\{\s*|\s*\}\}", "", text)
        raise Invalid("a condition names values without braces", f"write {bare}", {"value": 0})
    reader = _Reader(_tokens(text))
    expression = reader.joined("or", 0)
    if (left := reader.peek()) is not None:
        raise Invalid(f"{shown(left)} is one too many", "join two conditions by and, or")
    return expression


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    place = 0
    while text[place:].strip():
        match = _TOKEN.match(text, place)
        if match is None:
            raise Invalid(
                f"{shown(text[place:].strip()[:20])} is not understood",
                "use values, literals, == != < <= > >= in, and, or, not, parentheses",
            )
        tokens.append(match[0].strip())
        place = match.end()
    return tokens


class _Reader:
    """Reads tokens from the first to the last; `or` binds least, then `and`, `not`, a sign."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._place = 0

    def peek(self) -> str | None:
        return self._tokens[self._place] if self._place < len(self._tokens) else None

    def _take(self) -> str:
        token = self.peek()
        if token is None:
            raise Invalid("the condition ends too early", "finish it, or leave it out")
        self._place += 1
        return token

    def joined(self, word: Literal["or", "and"], depth: int) -> Expression:
        parts = [self._part(word, depth)]
        while self.peek() == word:
            self._place += 1
            parts.append(self._part(word, depth))
        return parts[0] if len(parts) == 1 else Joined(word, tuple(parts))

    def _part(self, word: str, depth: int) -> Expression:
        return self.joined("and", depth) if word == "or" else self._negated(depth)

    def _negated(self, depth: int) -> Expression:
        if depth > CONDITION_DEPTH_MAX:
            raise Invalid("the condition is too deep", "make it two steps")
        if self.peek() == "not":
            self._place += 1
            return Joined("not", (self._negated(depth + 1),))
        left = self._operand(depth)
        sign = self.peek()
        if sign not in _SIGNS:
            return left
        self._place += 1
        return Compared(sign, left, self._operand(depth))

    def _operand(self, depth: int) -> Expression:
        token = self._take()
        if token == "(":
            inner = self.joined("or", depth + 1)
            if self._take() != ")":
                raise Invalid("( without )", "close it")
            return inner
        if token == "[":
            return Literally(self._list())
        return _literal(token) or parse_value(token)

    def _list(self) -> list[Any]:
        values: list[Any] = []
        while (token := self._take()) != "]":
            if (literal := _literal(token)) is None:
                raise Invalid(f"{shown(token)} in a list", "lists have texts in quotes, numbers")
            values.append(literal.value)
            if self.peek() != "]" and self._take() != ",":
                raise Invalid("a list without its commas", "write ['a', 'b']")
        return values


def _literal(token: str) -> Literally | None:
    if token[0] in "'\"":
        return Literally(token[1:-1])
    if token[0] in "-0123456789":
        return Literally(float(token) if "." in token else int(token))
    return Literally(_LITERALS[token]) if token in _LITERALS else None
