"""Arguments: checked against a schema that is understood whole."""

from __future__ import annotations

from typing import Any

import pytest

from contextrelay.documents.args_schema import check_schema, validate_args
from contextrelay.errors import Invalid, TooLarge
from contextrelay.limits import ARGS_BYTES_MAX

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "minLength": 1, "maxLength": 5},
        "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 10},
        "share": {"type": ["number", "null"], "maximum": 0.5},
        "kind": {"enum": ["a", 1, None]},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2},
        "deep": {
            "type": "object",
            "properties": {"is_on": {"type": "boolean"}},
            "required": ["is_on"],
            "additionalProperties": True,
        },
    },
    "required": ["query"],
    "additionalProperties": False,
}


def test_arguments_that_fit_come_back_with_the_defaults() -> None:
    assert validate_args({"query": "abc"}, SCHEMA) == {"query": "abc", "limit": 10}


@pytest.mark.parametrize(
    "more",
    [
        {"limit": 1},
        {"share": None},
        {"share": -3},
        {"kind": 1.0},
        {"deep": {"is_on": True, "other": [1]}},
    ],
)
def test_what_fits(more: dict[str, Any]) -> None:
    assert validate_args({"query": "abc", **more}, SCHEMA)["query"] == "abc"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({}, "args lacks query"),
        ({"query": ""}, "args/query has fewer than 1 characters"),
        ({"query": "abcdef"}, "args/query has more than 5 characters"),
        ({"query": 1}, "args/query is not of type string"),
        ({"query": "a", "limit": 0}, "args/limit is less than 1"),
        ({"query": "a", "limit": 51}, "args/limit is more than 50"),
        ({"query": "a", "limit": True}, "args/limit is not of type integer"),
        ({"query": "a", "limit": 1.5}, "args/limit is not of type integer"),
        ({"query": "a", "limit": "5"}, "args/limit is not of type integer"),
        ({"query": "a", "share": "x"}, "args/share is not of type number or null"),
        ({"query": "a", "kind": "b"}, "args/kind is not an allowed value"),
        ({"query": "a", "tags": []}, "args/tags has fewer than 1 items"),
        ({"query": "a", "tags": ["a", 1]}, "args/tags/1 is not of type string"),
        ({"query": "a", "tags": ["a", "b", "c"]}, "args/tags has more than 2 items"),
        ({"query": "a", "deep": {}}, "args/deep lacks is_on"),
        ({"query": "a", "deep": {"is_on": 1}}, "args/deep/is_on is not of type boolean"),
        ({"query": "a", "other": 1}, "args has an unknown field other; fields: query, limit"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(args: dict[str, Any], said: str) -> None:
    with pytest.raises(Invalid) as refused:
        validate_args(args, SCHEMA)

    assert said in refused.value.message


def test_too_many_arguments_are_refused() -> None:
    with pytest.raises(TooLarge):
        validate_args({"query": "x" * ARGS_BYTES_MAX}, {"type": "object"})


@pytest.mark.parametrize(
    "schema",
    [
        [],
        {},
        {"type": "string"},
        {"type": "object", "properties": {"a": {"pattern": "^a+$"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/x"}}},
        {"type": "object", "anyOf": []},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": {"a": {"type": "text"}}},
        {"type": "object", "properties": {"a": {"type": []}}},
        {"type": "object", "properties": {"a": []}},
        {"type": "object", "properties": []},
        {"type": "object", "required": "a"},
        {"type": "object", "properties": {"a": {"enum": []}}},
        {"type": "object", "properties": {"a": {"minimum": "1"}}},
        {"type": "object", "properties": {"a": {"maxLength": -1}}},
        {"type": "object", "properties": {"a": {"items": {"format": "uri"}}}},
        {"type": "object", "properties": {"a": {"type": "string", "default": 1}}},
    ],
)
def test_a_schema_that_is_not_understood_whole_is_refused(schema: Any) -> None:
    """Promise C1."""
    with pytest.raises(Invalid):
        check_schema(schema)
