"""OpenAPI: the HTTP API described for machines: GET /openapi.json.

Operations of verbs come from the table of routes and from the verbs' own types, those of seed 002
from the types of their endpoints; the others are in seed_operations.py.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from inspect import cleandoc
from typing import TYPE_CHECKING, Any

from msgspec.json import encode, schema_components

import contextrelay
from contextrelay.doors.http.openapi.endpoints import ENDPOINTS
from contextrelay.doors.http.openapi.endpoints import operation as endpoint_operation
from contextrelay.doors.http.openapi.endpoints import types as endpoint_types
from contextrelay.doors.http.openapi.operations import (
    KEY,
    PROBLEMS,
    SECURITY,
    SECURITY_SCHEMES,
    WAIT,
    Json,
    Operation,
    header,
    query,
)
from contextrelay.doors.http.openapi.seed_operations import OPERATIONS, SCHEMAS, TAGS
from contextrelay.doors.http.routes.seed000 import Described, Pushed
from contextrelay.doors.http.routes.send_artifact import has_tag
from contextrelay.doors.http.server.request import JSON, Exchange
from contextrelay.limits import KEY_CHARS_MAX
from contextrelay.wire import verbs
from contextrelay.wire.routes import FRAMED, Route, reply_type, routes

if TYPE_CHECKING:
    from contextrelay.doors.http.app import Door
    from contextrelay.doors.http.server.router import Paths

ABOUT = f"""Content goes in once; small refs travel; look before you load; state is patched, never
re-sent.

`HEAD` is answered wherever `GET` is, and `OPTIONS` names the methods of a path. Another method gets
405 with `Allow`. Errors are problems (RFC 9457) with the message in `error` and the next step in
`hint`; on the routes of tag `relay` they are plain text. A write with the header `Idempotency-Key`
(up to {KEY_CHARS_MAX} printable characters) is done once in a day, however often it is sent.

A caller is known by a token: `Authorization: Bearer TOKEN`. A server on loopback may do without.

`{FRAMED}` is one line of JSON and bytes behind it. A request that brings a body comes framed, its
fields on that line, or bare, with its fields in the query. A reply with a body is framed for those
who accept that, and bare for the rest."""

BYTES: Json = {"type": "string", "format": "binary"}

_IN_QUERY_AS_JSON = ("object", "array")


def add_to(paths: Paths) -> None:
    paths.add("GET", "/openapi.json", show)


async def show(door: Door, exchange: Exchange, values: dict[str, str]) -> None:
    body, tag = _spelled()
    headers = [(b"etag", tag), (b"cache-control", b"no-cache")]
    if has_tag(exchange, tag):
        await exchange.start(304, headers)
        await exchange.send(b"", more=False)
        return
    await exchange.reply(200, body, JSON, headers)


@cache
def _spelled() -> tuple[bytes, bytes]:
    body = encode(document())
    return body, f'"{hashlib.sha256(body).hexdigest()[:32]}"'.encode()


@cache
def document() -> Json:
    """The whole document."""
    of_verbs = routes()
    kinds: list[Any] = [route.verb for route in of_verbs]
    kinds += [*(reply_type(route.verb) for route in of_verbs), *endpoint_types(), Pushed, Described]
    spelled, components = schema_components(kinds, ref_template="#/components/schemas/{name}")
    schemas_of = dict(zip(kinds, spelled, strict=True))

    def fields_of(kind: Any) -> Json:
        return _written_out(schemas_of[kind], components)

    paths: dict[str, Json] = {}
    for route in of_verbs:
        reply = schemas_of[reply_type(route.verb)]
        _add(paths, _operation(route, fields_of(route.verb), reply))
    for endpoint in ENDPOINTS:
        _add(paths, endpoint_operation(endpoint, schemas_of.__getitem__, fields_of))
    for operation in OPERATIONS:
        _add(paths, operation)
    schemas = {name: _cleaned(schema) for name, schema in components.items()} | SCHEMAS
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Context Relay",
            "version": contextrelay.__version__,
            "description": ABOUT,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
        "paths": paths,
        "security": SECURITY,
        "components": {
            "schemas": _used(schemas, paths),
            "responses": PROBLEMS,
            "securitySchemes": SECURITY_SCHEMES,
        },
    }


def _add(paths: dict[str, Json], operation: Operation) -> None:
    at = paths.setdefault(operation.path, {})
    method = operation.method.lower()
    assert method not in at, f"{operation.method} {operation.path} is described twice"
    at[method] = operation.described()


# The operations of verbs


def _operation(route: Route, asked: Json, reply: Json) -> Operation:
    text = cleandoc(route.verb.__doc__ or "")
    summary, _, description = text.partition("\n\n")
    return Operation(
        method=route.method,
        path=route.path,
        id=route.name or route.verb.__name__,
        tag=_tag(route),
        summary=" ".join(summary.split()),
        description=description,
        parameters=_parameters(route, asked),
        body=_body(route, asked),
        replies={str(route.status): _replies(route, reply), **_more_replies(route)},
        errors=_errors(route),
    )


def _tag(route: Route) -> str:
    part = route.path.split("/")[2]
    return {each: each for each in ("artifacts", "threads", "channels", "keys")}.get(
        part, "capabilities" if part in ("capabilities", "cache") else "store"
    )


def _parameters(route: Route, asked: Json) -> list[Json]:
    """What stands in the path, the query and the headers."""
    properties: Json = asked["properties"]
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": properties[name]}
        for name in route.in_path
    ]
    # Many pushes come framed only.
    if route.in_query or (route.takes_body and route.verb is not verbs.PushMany):
        required: list[str] = asked["required"] if route.in_query else []
        parameters += [
            _in_query(name, schema, name in required)
            for name, schema in properties.items()
            if name not in route.in_path
        ]
    if route.verb.traits.waits:
        parameters.append(WAIT)
    if route.verb.traits.keyed:
        parameters.append(KEY)
    if route.verb is verbs.Pull:
        parameters.append(
            header("range", {"type": "string"}, "One range of bytes, like bytes=0-99.")
        )
        parameters.append(
            header("if-none-match", {"type": "string"}, "Tags of what the client has.")
        )
    return parameters


def _in_query(name: str, schema: Json, is_required: bool) -> Json:
    """A field in the query; what is no text, number or truth value is JSON there."""
    if schema.get("type") in _IN_QUERY_AS_JSON:
        return {
            "name": name,
            "in": "query",
            "required": is_required,
            "content": {"application/json": {"schema": schema}},
        }
    return query(name, schema, is_required=is_required)


def _body(route: Route, asked: Json) -> Json | None:
    fields = {
        "type": "object",
        "properties": {
            name: schema
            for name, schema in asked["properties"].items()
            if name not in route.in_path
        },
        "required": [name for name in asked["required"] if name not in route.in_path],
        "additionalProperties": False,
    }
    if route.takes_body:
        framed: Json = {FRAMED: {"schema": BYTES, "x-first-line": fields}}
        bare: Json = {} if route.verb is verbs.PushMany else {"*/*": {"schema": BYTES}}
        return {"required": route.verb is verbs.PushMany, "content": {**framed, **bare}}
    if route.in_query:
        return None
    return {
        "required": bool(fields["required"]),
        "content": {"application/json": {"schema": fields}},
    }


def _replies(route: Route, reply: Json) -> Json:
    if not route.media_type:
        return {"application/json": {"schema": reply}}
    bare = "*/*" if route.verb is verbs.Pull else route.media_type
    return {bare: {}, FRAMED: {"x-first-line": reply}}


def _more_replies(route: Route) -> dict[str, Json]:
    return {"206": {"*/*": {}}, "304": {}} if route.verb is verbs.Pull else {}


def _errors(route: Route) -> tuple[int, ...]:
    """The statuses of what can go wrong."""
    traits = route.verb.traits
    may = {400, 403, 421, 500, 503, *traits.fails}
    if "{ref}" in route.path or "{thread}" in route.path:
        may |= {404, 410}
    if "{id}" in route.path:
        may |= {404}
    if route.method in ("POST", "PATCH"):
        may |= {408, 413}
    if route.method != "GET":
        may |= {507}
    if traits.keyed:
        may |= {422}
    if traits.fills is not None:
        may |= {402}
    return tuple(sorted(may))


# Schemas


def _written_out(schema: Json, components: Json) -> Json:
    """A schema without a `$ref` at its top, or at those of its alternatives."""
    if "$ref" in schema:
        return _cleaned(components[schema["$ref"].rpartition("/")[2]])
    if "anyOf" in schema:
        return {**schema, "anyOf": [_written_out(each, components) for each in schema["anyOf"]]}
    return schema


def _cleaned(schema: Json) -> Json:
    """A schema whose description is not indented as in the code."""
    if "description" not in schema:
        return schema
    return {**schema, "description": cleandoc(schema["description"])}


def _used(schemas: dict[str, Json], paths: Any) -> dict[str, Json]:
    """The schemas that something refers to."""
    wanted = _references([paths, PROBLEMS])
    used: dict[str, Json] = {}
    while wanted:
        name = wanted.pop()
        if name not in used:
            used[name] = schemas[name]
            wanted += _references(schemas[name])
    return dict(sorted(used.items()))


def _references(value: Any) -> list[str]:
    return re.findall(r'"#/components/schemas/(\w+)"', encode(value).decode())
