"""The fields of the pipeline language: for each field its description, JSON Schema and parser."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar, cast, get_args

from contextrelay.documents.bounds import check_label, check_name
from contextrelay.documents.values import quote_value
from contextrelay.errors import Invalid
from contextrelay.limits import FOREACH_ITEMS_MAX, NAME_CHARS_MAX, PIPELINE_PARALLEL_MAX, TTL_S_MAX
from contextrelay.model.artifact import ArtifactType
from contextrelay.pipelines.expressions import Expression, Template, parse_condition, parse_template

STEP_RETRIES_MAX = 10
STEP_S_MAX = 7 * 86_400
RUN_TOKENS_MAX = 10**9


NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d)?")
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_OURS = ("RELAY_STEP_KEY", "RELAY_STEP", "RELAY_RUN", "RELAY_COMPLAINT")
Result = TypeVar("Result")


class Field(NamedTuple):
    """A field: its description, its JSON Schema, and the function that parses its YAML value."""

    meaning: str
    schema: dict[str, Any]
    read: Callable[[Any], Any]
    is_required: bool = False


def nested(value: Any) -> Any:
    """Return the value unchanged. This is the parser of fields that have a table of fields of their
    own.
    """
    return value


def anything(value: Any) -> Any:
    return value


# Parsers. Each takes a YAML value and returns the value for a Step, or raises Invalid.


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise Invalid(
            f"expected text, got {quote_value(str(value)[:40])}", "put the text in quotes"
        )
    return value


def word(value: Any) -> str:
    """Parse a text that is not blank."""
    if not text(value).strip():
        raise Invalid("empty value", "write a text, or omit the field")
    return value


def fixed(value: Any) -> str:
    """Parse a text in which references to values, such as {{inputs.topic}}, are not allowed."""
    if "{{" in word(value):
        raise Invalid(
            f"values are not allowed here: {quote_value(value[:40])}", "write the text itself"
        )
    return value


def name(value: Any) -> str:
    """Parse the name of a thread, an artifact or a channel."""
    return check_label(fixed(value), "this", NAME_CHARS_MAX)


def file_name(value: Any) -> str:
    return check_name(fixed(value))


def template(value: Any) -> Template:
    return parse_template(text(value))


def question(value: Any) -> Template:
    return parse_template(word(value))


def condition(value: Any) -> Expression:
    return parse_condition("true" if value is True else "false" if value is False else text(value))


def templates(value: Any) -> tuple[Template, ...]:
    return tuple(_at(index, parse_template, word) for index, word in enumerate(words(value)))


def _at(step: str | int, read: Callable[[Any], Result], value: Any) -> Result:
    """Parse a part of a value. An error gets the path to the part, so that its position can be
    shown.
    """
    try:
        return read(value)
    except Invalid as error:
        error.details["at"] = [step, *cast("list[Any]", error.details.get("at", []))]
        raise


def words(value: Any) -> tuple[str, ...]:
    """Parse a list of texts. A number is taken as the text that was written."""
    if not isinstance(value, list):
        raise Invalid("expected a list", "write [a, b], or - a below it")
    items = cast("list[Any]", value)
    for index, each in enumerate(items):
        if not isinstance(each, str | int | float) or isinstance(each, bool):
            raise Invalid("expected text in the list", "put it in quotes", {"at": [index]})
    return tuple(map(str, items))


def command(value: Any) -> Template | tuple[Template, ...]:
    """Parse a command: a list of words, or one line for the shell.

    In a list, a value is an argument or a part of one, and the program itself is fixed. A line is
    code and is not changed, so values reach it only through environment variables.
    """
    read = parse_template(value) if isinstance(value, str) else templates(value)
    first = value if isinstance(value, str) else str(value[0]) if value else ""
    if not first.strip():
        at = {} if isinstance(value, str) else {"at": [0]}
        raise Invalid("empty command", "start with the program", at)
    if isinstance(read, Template) and (used := read.values()):
        raise Invalid(
            f"{{{{{used[0]}}}}} is not allowed in a shell line",
            f'add env: {{VALUE: "{{{{{used[0]}}}}}"}} and write "$VALUE" in the line; or write the'
            " command as a list",
            {"value": 0},
        )
    if not isinstance(read, Template) and (used := read[0].values()):
        what = f"{{{{{used[0]}}}}} cannot be the program"
        raise Invalid(what, "name the program, and pass the value as an argument", {"at": [0]})
    return read


def arguments(value: Any) -> Any:
    """Parse a document in which every text is a template."""
    if isinstance(value, str):
        return parse_template(value)
    if isinstance(value, dict):
        named = cast("dict[str, Any]", value).items()
        return {name: _at(name, arguments, each) for name, each in named}
    if isinstance(value, list):
        return [_at(index, arguments, each) for index, each in enumerate(cast("list[Any]", value))]
    return value


def mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Invalid("expected a mapping", "write name: value below it")
    return cast("dict[str, Any]", value)


def environment(value: Any) -> dict[str, Template]:
    read: dict[str, Template] = {}
    for name, each in mapping(value).items():
        if not _ENV_NAME.fullmatch(name):
            at = {"at": [name]}
            raise Invalid(
                f"invalid variable name {quote_value(name)}", "use letters, digits and _", at
            )
        if name in _OURS:
            raise Invalid(f"{name} is reserved", "use another name", {"at": [name]})
        plain = str(each) if type(each) in (int, float) else each
        read[name] = _at(name, template, plain)
    return read


def each_of(value: Any) -> Template | tuple[Any, ...]:
    """Parse the items of a fan-out: a literal list, or one reference to a value that contains the
    list.
    """
    if isinstance(value, list):
        items = cast("list[Any]", value)
        if len(items) > FOREACH_ITEMS_MAX:
            raise Invalid(f"more than {FOREACH_ITEMS_MAX:,} items", "split the list")
        return tuple(items)
    read = template(value)
    if read.lone_value is None:
        raise Invalid(
            "foreach needs a list, or a single value", "write [a, b] or {{steps.NAME.json}}"
        )
    return read


def duration(value: Any) -> float:
    """Parse a duration, a number of seconds or a text such as 30s, 5m or 2h, and return the
    seconds.
    """
    match = _DURATION.fullmatch(str(value).strip()) if type(value) is not bool else None
    if match is None:
        raise Invalid(
            f"invalid duration {quote_value(str(value)[:40])}", "use for example 30s, 5m or 2h"
        )
    seconds = float(match[1]) * _UNITS_S[match[2] or "s"]
    if not 0 < seconds <= STEP_S_MAX:
        raise Invalid(
            f"{quote_value(str(value)[:40])} is out of range", f"at most {STEP_S_MAX:,} s"
        )
    return seconds


def cache(value: Any) -> int | None:
    """Parse `off`, `on` or a duration, and return the number of seconds that a result is cached."""
    if value in (False, "off"):
        return 0
    if value in (True, "on"):
        return TTL_S_MAX
    return max(1, int(duration(value)))


def function(value: Any) -> str:
    if not _FUNCTION.fullmatch(text(value)):
        raise Invalid(f"invalid function {quote_value(value)}", "use package.module:function")
    return value


def _number(least: int, most: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise Invalid(
                f"{quote_value(str(value)[:40])} is out of range",
                f"use an integer from {least} to {most:,}",
            )
        return value

    return read


def _amount(value: Any) -> float:
    if type(value) not in (int, float) or not 0 < value <= 1_000_000:
        raise Invalid(
            f"invalid amount {quote_value(str(value)[:40])}", "use dollars, for example 0.50"
        )
    return float(value)


def _one_of(*allowed: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in allowed:
            raise Invalid(
                f"invalid value {quote_value(str(value)[:40])}", f"use one of: {', '.join(allowed)}"
            )
        return value

    return read


def _names(value: Any) -> tuple[str, ...]:
    return words([value] if isinstance(value, str) else value)


# JSON Schemas

_TEXT: dict[str, Any] = {"type": "string"}
_WORDS: dict[str, Any] = {"type": "array", "items": {"type": ["string", "number"]}}
_TIME: dict[str, Any] = {"type": ["string", "number"]}
_TYPES = get_args(ArtifactType)
_INPUT_TYPES = ("text", "number", "integer", "boolean", "list", "object", "ref")


def _integer(least: int, most: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": least, "maximum": most}


# Tables

TOP: Mapping[str, Field] = {
    "name": Field("Name of the pipeline", _TEXT, name, is_required=True),
    "description": Field("Description of the pipeline", _TEXT, text),
    "inputs": Field("Inputs of a run", {}, nested),
    "defaults": Field("Defaults for all steps", {}, nested),
    "budget": Field("Limits after which a run stops", {}, nested),
    "steps": Field("The steps, by name", {}, nested, is_required=True),
}
INPUT: Mapping[str, Field] = {
    "type": Field("Type of the value", {"enum": [*_INPUT_TYPES]}, _one_of(*_INPUT_TYPES)),
    "default": Field("Default value", {}, anything),
    "description": Field("Description of the input", _TEXT, text),
}
BUDGET: Mapping[str, Field] = {
    "tokens": Field(
        "Input and output tokens", _integer(1, RUN_TOKENS_MAX), _number(1, RUN_TOKENS_MAX)
    ),
    "price": Field("US dollars", {"type": "number", "exclusiveMinimum": 0}, _amount),
    "time": Field("Duration, for example 10m", _TIME, duration),
}
OUT: Mapping[str, Field] = {
    "name": Field("Name of the artifact", _TEXT, file_name),
    "type": Field("Type of the artifact", {"enum": [*_TYPES]}, _one_of(*_TYPES)),
    "schema": Field("JSON Schema of the result", {"type": "object"}, mapping),
}
_RETRIES = Field("Number of retries", _integer(0, STEP_RETRIES_MAX), _number(0, STEP_RETRIES_MAX))
_TIMEOUT = Field("Time limit, for example 30s", _TIME, duration)
_MODEL = Field("PROVIDER[:MODEL]", _TEXT, text)
DEFAULTS: Mapping[str, Field] = {
    "model": _MODEL,
    "timeout": _TIMEOUT,
    "retries": _RETRIES,
}
STEP: Mapping[str, Field] = {
    "needs": Field("Steps that must end before", {"type": ["string", "array"]}, _names),
    "when": Field("Run the step only if this is true", {"type": ["string", "boolean"]}, condition),
    "foreach": Field("Run the step for each item", {"type": ["string", "array"]}, each_of),
    "max_parallel": Field(
        "Maximum parallel items",
        _integer(1, PIPELINE_PARALLEL_MAX),
        _number(1, PIPELINE_PARALLEL_MAX),
    ),
    "retries": _RETRIES,
    "timeout": _TIMEOUT,
    "cache": Field("off, on, or a duration", {"type": ["string", "number", "boolean"]}, cache),
    "env": Field("Environment variables", {"type": "object"}, environment),
    "out": Field("The result: name, type, schema", {}, nested),
    "on_failure": Field(
        "Stop the run, or continue",
        {"enum": ["stop", "continue"]},
        _one_of("stop", "continue"),
    ),
}
_REFS = Field("Refs to show as previews", _WORDS, templates)
_SYSTEM = Field("System prompt", _TEXT, template)
_ARGS = Field("Arguments; texts are templates", {"type": "object"}, arguments)
KINDS: Mapping[str, Mapping[str, Field]] = {
    "prompt": {
        "prompt": Field("Prompt for a model", _TEXT, question, is_required=True),
        "model": _MODEL,
        "system": _SYSTEM,
        "refs": _REFS,
    },
    "cli": {
        "cli": Field("Command-line agent", _TEXT, fixed, is_required=True),
        "prompt": Field("Prompt for the agent", _TEXT, question, is_required=True),
        "args": Field("Arguments of the agent", _WORDS, templates),
        "refs": _REFS,
    },
    "exec": {
        "exec": Field(
            "Command: a list of words, or a line for sh -c",
            {"type": ["string", "array"]},
            command,
            is_required=True,
        ),
    },
    "cap": {"cap": Field("Capability", _TEXT, fixed, is_required=True), "args": _ARGS},
    "python": {
        "python": Field("module:function", _TEXT, function, is_required=True),
        "args": _ARGS,
    },
    "pipeline": {
        "pipeline": Field("Path of another pipeline", _TEXT, fixed, is_required=True),
        "inputs": _ARGS,
    },
    "approve": {
        "approve": Field("Question to decide", _TEXT, question, is_required=True),
        "channel": Field("Channel for decisions by signal", _TEXT, name),
    },
}


SCHEMA_ID = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a pipeline file, for editors."""

    def mapping(table: Mapping[str, Field], **parts: Any) -> dict[str, Any]:
        return {
            "type": "object",
            "additionalProperties": False,
            "required": [name for name, field in table.items() if field.is_required],
            "properties": {
                name: {"description": field.meaning, **parts.get(name, field.schema)}
                for name, field in table.items()
            },
        }

    def named(schema: dict[str, Any]) -> dict[str, Any]:
        names = {"pattern": NAME.pattern}
        return {"type": "object", "propertyNames": names, "additionalProperties": schema}

    out = mapping(OUT)
    kinds = [mapping({**kind, **STEP}, out=out) for kind in KINDS.values()]
    taken: dict[str, Any] = {"anyOf": [mapping(INPUT), {"not": {"type": "object"}}]}
    top = mapping(
        TOP,
        inputs=named(taken),
        defaults=mapping(DEFAULTS),
        budget=mapping(BUDGET),
        steps=named({"oneOf": kinds}),
    )
    return {"$schema": SCHEMA_ID, "title": "A pipeline of Context Relay", **top}
