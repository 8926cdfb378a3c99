"""OpenAPI operations of endpoints, made from their types and the docstrings of their handlers."""

from __future__ import annotations

import re
from collections.abc import Callable
from inspect import cleandoc
from typing import Any, cast

from contextrelay.server.openapi.operations import (
    ANY_BYTES,
    BYTES,
    FINDS,
    FROM,
    KEY,
    LAST_EVENT,
    RANGE,
    READS,
    STRING,
    TAGS_HELD,
    WRITES,
    ApiOperation,
    Json,
    as_json,
    header,
    in_path,
    query,
)
from contextrelay.server.router import RELAY, Endpoint
from contextrelay.verbs.routes import FROM_HEADER, KEY_HEADER

_HEADERS: dict[str, Json] = {
    KEY_HEADER: KEY,
    FROM_HEADER: FROM,
    "range": RANGE,
    "if-none-match": TAGS_HELD,
    "if-match": header("if-match", STRING, 'For example "v7".'),
    "last-event-id": LAST_EVENT,
}

SchemaOf = Callable[[Any], Json]


def types(endpoint: Endpoint) -> list[Any]:
    """Return every type that the requests and responses of an endpoint use."""
    kinds = (endpoint.query, endpoint.takes, endpoint.form, *_gives(endpoint))
    return [kind for kind in kinds if kind is not None]


def _gives(endpoint: Endpoint) -> tuple[Any, ...]:
    gives: Any = endpoint.gives
    return cast("tuple[Any, ...]", gives) if isinstance(gives, tuple) else (gives,)


def operation(endpoint: Endpoint, schema_of: SchemaOf, fields_of: SchemaOf) -> ApiOperation:
    """Return the OpenAPI operation of an endpoint.

    `schema_of` returns the schema of a type, possibly as a `$ref`. `fields_of` returns the schema
    without a `$ref`.
    """
    text = cleandoc(endpoint.handler.__doc__ or "")
    summary, _, description = text.partition("\n\n")
    path = endpoint.path.replace("...}", "}")
    names = re.findall(r"\{(\w+)\}", path)
    parameters = [in_path(name, STRING) for name in names]
    if endpoint.query is not None:
        fields = fields_of(endpoint.query)
        for name, schema in fields["properties"].items():
            schema = {key: value for key, value in schema.items() if key != "description"}
            text = fields["properties"][name].get("description", "")
            parameters.append(query(name, schema, text))
    parameters += [_HEADERS[name] for name in endpoint.headers]
    replies: dict[str, Json] = {
        str(status): ANY_BYTES if media_types == ("*/*",) else {each: {} for each in media_types}
        for status, media_types in endpoint.also.items()
    }
    if endpoint.gives is not None:
        status = str(endpoint.status)
        schemas = [schema_of(kind) for kind in _gives(endpoint)]
        schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
        replies[status] = {**as_json(schema), **replies.get(status, {})}
    errors = WRITES if endpoint.method == "POST" else READS
    return ApiOperation(
        method=endpoint.method,
        path=path,
        id=endpoint.name,
        tag=endpoint.tag,
        summary=" ".join(summary.split()),
        description=description,
        parameters=parameters,
        body=_body(endpoint, fields_of),
        replies=replies,
        errors=(*errors, *(FINDS if names else ()), *endpoint.fails),
        has_text_errors=endpoint.tag == RELAY,
        is_stream=endpoint.takes_token,
    )


def _body(endpoint: Endpoint, fields_of: SchemaOf) -> Json | None:
    if endpoint.takes is None:
        return None
    schema = fields_of(endpoint.takes)
    content = as_json(schema)
    if endpoint.takes_bytes:
        content |= ANY_BYTES
    if endpoint.form is not None:
        fields = dict.fromkeys(fields_of(endpoint.form)["properties"], STRING)
        content["multipart/form-data"] = {
            "schema": {
                "type": "object",
                "properties": {**fields, "file": BYTES},
                "required": ["file"],
                "additionalProperties": False,
            }
        }
    is_required = bool(schema.get("anyOf") or schema.get("required"))
    return {"required": is_required, "content": content}
