"""Templates: `{{steps.plan.ref}}` in a text, and nothing cleverer.

A value is a root (`inputs`, `steps`, `item`, `run`) followed by names and indexes:
`{{inputs.topic}}`, `{{steps.plan.json.items[0].title}}`, `{{item}}`. There are no calls, no
attributes and no expressions: what is looked up is a JSON document that the runner made.

`{{{{` stands for `{{` as it is.

Rule: a template is parsed once, when the pipeline is read. What a value holds is never parsed
again, so an input that looks like a template is a text.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct

from contextrelay.documents.values import is_list, is_object, same, shown
from contextrelay.errors import Invalid

TEMPLATE_PATH_MAX = 32
CONDITION_CHARS_MAX = 2_000
CONDITION_DEPTH_MAX = 32


ROOTS = ("inputs", "steps", "item", "run")
STEP_FIELDS = ("ref", "refs", "preview", "json", "status", "by")
"""What is known of a finished step: its artifact, of a fan-out all of them; who approved it."""

_NAME = r"[A-Za-z_][A-Za-z0-9_-]*"
_VALUE = re.compile(rf"({_NAME})((?:\.{_NAME}|\[[0-9]{{1,6}}\])*)")
_PART = re.compile(rf"\.({_NAME})|\[([0-9]+)\]")
_OPEN, _CLOSE = "{{", "}}"


class Value(Struct, frozen=True):
    """What stands between the braces: a root, and the way from it."""

    root: str
    path: tuple[str | int, ...] = ()

    def __str__(self) -> str:
        steps = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path)
        return self.root + "".join(steps)


class Template(Struct, frozen=True):
    """A text with values in it, in order."""

    parts: tuple[str | Value, ...]

    def values(self) -> list[Value]:
        return [part for part in self.parts if isinstance(part, Value)]

    @property
    def lone_value(self) -> Value | None:
        """The value, where the template is nothing but one: it then keeps its type."""
        only = self.parts[0] if len(self.parts) == 1 else None
        return only if isinstance(only, Value) else None


def parse_value(text: str) -> Value:
    """Read what stands between braces, or in a condition.

    Raises:
        Invalid: it is no value.
    """
    match = _VALUE.fullmatch(text.strip())
    if match is None:
        raise Invalid(
            f"{shown(text.strip())} is no value",
            "write one such as inputs.topic, steps.plan.ref or item.name; no calls, no operators;"
            " {{{{ for braces as they are",
        )
    parts = [name or int(index) for name, index in _PART.findall(match[2])]
    if match[1] not in ROOTS:
        raise Invalid(f"{shown(match[1])} is not known", f"begin with {', '.join(ROOTS)}")
    if len(parts) > TEMPLATE_PATH_MAX:
        raise Invalid(f"{shown(text.strip())} is too deep", f"at most {TEMPLATE_PATH_MAX} steps")
    return Value(match[1], tuple(parts))


def parse_template(text: str) -> Template:
    """Read a text with values in double braces.

    Raises:
        Invalid: braces are not closed, or hold no value.
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
            hint = "close it, or write {{{{ for braces as they are"
            raise Invalid("{{ without }}", hint, {"value": number})
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
    """The value in what is known.

    Raises:
        Invalid: it is not there.
    """
    found: Any = dict(known)
    for part in (value.root, *value.path):
        here: Any = found
        is_there = part < len(here) if is_list(here) and isinstance(part, int) else False
        if not is_there and not (is_object(here) and part in here):
            raise Invalid(
                f"{{{{{value}}}}} has no value: there is no {shown(str(part))}",
                "look at what the step before gave: relay pipeline show RUN",
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


class Literally(Struct, frozen=True):
    """A value that is written in the condition."""

    value: Any


class Comparison(Struct, frozen=True):
    """Two values and what is asked of them."""

    sign: str
    left: Expression
    right: Expression


class BooleanExpression(Struct, frozen=True):
    """`and`, `or`, or `not` (which has one part)."""

    word: Literal["and", "or", "not"]
    parts: tuple[Expression, ...]


Expression = Value | Literally | Comparison | BooleanExpression


def values_of(expression: Expression) -> list[Value]:
    """Every value that a condition looks up."""
    match expression:
        case Value():
            return [expression]
        case Literally():
            return []
        case Comparison():
            return [*values_of(expression.left), *values_of(expression.right)]
        case BooleanExpression():
            return [value for part in expression.parts for value in values_of(part)]


def check_kinds(expression: Expression, kind_of: Callable[[Value], str | None]) -> None:
    """Refuse a comparison that can never be made, or never hold, by the kinds of its sides.

    `kind_of` a value: text, number, boolean, list, object; None where it is not known before a run.

    Raises:
        Invalid: there is one.
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
        return parts[0] if len(parts) == 1 else BooleanExpression(word, tuple(parts))

    def _part(self, word: str, depth: int) -> Expression:
        return self.joined("and", depth) if word == "or" else self._negated(depth)

    def _negated(self, depth: int) -> Expression:
        if depth > CONDITION_DEPTH_MAX:
            raise Invalid("the condition is too deep", "make it two steps")
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
