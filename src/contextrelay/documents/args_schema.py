"""Validation of capability arguments against a subset of JSON Schema.

Rule: a schema is supported completely or refused. An unknown keyword would be a check that is never
made, so a capability with such a schema cannot be registered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from contextrelay.documents.bounds import check_json
from contextrelay.documents.values import is_equal, is_list, is_object, quote_value
from contextrelay.errors import Invalid
from contextrelay.limits import ARGS_BYTES_MAX, KIB

ARGS_SCHEMA_BYTES_MAX = 64 * KIB

Schema = dict[str, Any]

# Keywords that only document a schema and are never checked.
_ANNOTATIONS = ("$schema", "title", "description", "examples", "default")
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems")
_NUMBERS = ("minimum", "maximum")


def check_schema(schema: object) -> None:
    """Check that a schema uses only supported keywords with valid values.

    Raises:
        Invalid: the schema uses other keywords, or is not the schema of an object.
    """
    check_json(schema, "args_schema", ARGS_SCHEMA_BYTES_MAX)
    if not is_object(schema) or schema.get("type") != "object":
        hint = 'start it with "type": "object"'
        raise Invalid("args_schema is not the schema of an object", hint)
    check_keywords(schema, "args_schema")


def check_keywords(schema: object, place: str, at: tuple[str, ...] = ()) -> None:
    """Check that a schema uses only supported keywords; `place` names the schema in errors.

    Raises:
        Invalid: a keyword or its value is not supported; `at` in `details` is the path of the
        error.
    """
    if not is_object(schema):
        raise Invalid(f"{place} is not a schema", "pass an object, such as {}", {"at": at})
    for word, setting in schema.items():
        if word not in _KEYWORDS:
            raise Invalid(
                f"{place} has an unsupported keyword {quote_value(word)}",
                f"use only {', '.join(each for each in _KEYWORDS if each not in _ANNOTATIONS)}",
                {"at": (*at, word)},
            )
        if not _KEYWORDS[word](setting):
            hint = "see the JSON Schema specification"
            raise Invalid(f"{place} has an invalid value of {word}", hint, {"at": (*at, word)})
    for name, each in schema.get("properties", {}).items():
        check_keywords(each, f"{place}/{quote_value(name)[1:-1]}", (*at, "properties", name))
        if "default" in each:
            check_value(each["default"], each, f"the default of {quote_value(name)}")
    if "items" in schema:
        check_keywords(schema["items"], f"{place}/items", (*at, "items"))


def validate_args(args: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """Check arguments; return them with the schema's defaults filled in.

    Raises:
        Invalid: the arguments do not match the schema.
        TooLarge: the arguments are too large.
    """
    check_json(args, "args", ARGS_BYTES_MAX)
    properties: dict[str, Schema] = schema.get("properties", {})
    defaults = {name: each["default"] for name, each in properties.items() if "default" in each}
    whole = {**defaults, **args}
    try:
        check_value(whole, schema, "args")
    except Invalid as error:
        raise Invalid(error.message, "list the arguments with: relay cap list --json") from None
    return whole


def check_value(value: Any, schema: Schema, place: str) -> None:
    """Check a value against a checked schema; `place` names the value in errors.

    Raises:
        Invalid: the value does not match the schema.
    """
    named = schema.get("type", [])
    wanted: list[str] = named if is_list(named) else [named]
    if wanted and not any(_TYPES[each](value) for each in wanted):
        raise _wrong(place, f"is not of type {' or '.join(wanted)}")
    if "enum" in schema and not any(is_equal(value, each) for each in schema["enum"]):
        raise _wrong(place, "is not an allowed value")
    if is_object(value):
        properties: dict[str, Schema] = schema.get("properties", {})
        for name in schema.get("required", ()):
            if name not in value:
                raise _wrong(place, f"lacks {quote_value(name)[1:-1]}")
        for name, each in value.items():
            shown = quote_value(name)[1:-1]
            if name in properties:
                check_value(each, properties[name], f"{place}/{shown}")
            elif schema.get("additionalProperties") is False:
                taken = ", ".join(properties) or "nothing"
                raise _wrong(place, f"has an unknown field {shown}; fields: {taken}")
    elif is_list(value):
        _check_count(len(value), schema, place, "Items", "items")
        for index, each in enumerate(value):
            check_value(each, schema.get("items", {}), f"{place}/{index}")
    elif isinstance(value, str):
        _check_count(len(value), schema, place, "Length", "characters")
    elif _is_number(value):
        if value < schema.get("minimum", value):
            raise _wrong(place, f"is less than {schema['minimum']}")
        if value > schema.get("maximum", value):
            raise _wrong(place, f"is more than {schema['maximum']}")


def _check_count(count: int, schema: Schema, place: str, word: str, what: str) -> None:
    if count < schema.get(f"min{word}", 0):
        raise _wrong(place, f"has fewer than {schema[f'min{word}']} {what}")
    if count > schema.get(f"max{word}", count):
        raise _wrong(place, f"has more than {schema[f'max{word}']} {what}")


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return _is_integer(value) or isinstance(value, float)


_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": is_object,
    "array": is_list,
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: (
        _is_integer(value) or (isinstance(value, float) and value.is_integer())
    ),
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}


# Whether the value of a keyword is valid.
_KEYWORDS: dict[str, Callable[[Any], bool]] = {
    "type": lambda value: (
        all(
            isinstance(each, str) and each in _TYPES
            for each in (value if is_list(value) else [value])
        )
        and value != []
    ),
    "enum": lambda value: is_list(value) and bool(value),
    "properties": is_object,
    "required": lambda value: is_list(value) and all(isinstance(each, str) for each in value),
    "additionalProperties": lambda value: isinstance(value, bool),
    "items": is_object,
    **dict.fromkeys(_NUMBERS, _is_number),
    **dict.fromkeys(_COUNTS, lambda value: _is_integer(value) and value >= 0),
    **dict.fromkeys(_ANNOTATIONS, lambda _: True),
}


def _wrong(place: str, why: str) -> Invalid:
    return Invalid(f"{place} {why}", "pass what the schema describes")
