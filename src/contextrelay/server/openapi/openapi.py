"""GET /openapi.json: the OpenAPI document of the HTTP API.

The operations of verbs are made from the table of routes and the types of the verbs. All other
operations are made from the types of their endpoints.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from html import escape
from inspect import cleandoc
from typing import Any, cast

from msgspec.json import encode, schema_components

import contextrelay
from contextrelay import verbs
from contextrelay.limits import KEY_CHARS_MAX
from contextrelay.mcp import http_transport
from contextrelay.server import metrics, token_verifier
from contextrelay.server.openapi import endpoints, manual
from contextrelay.server.openapi.operations import (
    ANY_BYTES,
    BYTES,
    KEY,
    OCTETS,
    PROBLEM,
    PROBLEMS,
    RANGE,
    SECURITY,
    SECURITY_SCHEMES,
    TAGS_HELD,
    WAIT,
    ApiOperation,
    Json,
    as_json,
    in_path,
    query,
)
from contextrelay.server.request import JSON, Exchange
from contextrelay.server.router import SERVER, Endpoint
from contextrelay.server.routes import legacy_contextrelay as seed000
from contextrelay.server.routes import status
from contextrelay.server.routes.legacy_relay import threads
from contextrelay.server.routes.send_artifact import reply_tagged
from contextrelay.server.security_headers import page
from contextrelay.server.streams import signals, thread_events
from contextrelay.verbs.routes import FRAMED, JSON_PATCH, Route, reply_type, routes
from contextrelay.web import mount

ABOUT = f"""Store content once, pass small refs, read only what you need, and patch shared state.

`HEAD` works wherever `GET` does, and `OPTIONS` lists the methods of a path. Other methods get 405
with `Allow`. Errors are problems (RFC 9457) with the message in `error` and the next step in
`hint`; on the routes of tag `relay` they are plain text. A write with the header `Idempotency-Key`
(up to {KEY_CHARS_MAX} printable characters) is done once within a day, however often it is sent.

Names, labels and other single-line texts must not contain control characters or lone surrogates
(400). An integer in JSON may be written with a zero fraction, as 1.0; in a query only with digits.

Callers authenticate with `Authorization: Bearer TOKEN`. A server on loopback may not require it.

`{FRAMED}` is one line of JSON followed by bytes. A request with a body is either framed, with its
fields in that line, or bare, with its fields in the query. A response with a body is framed if the
client accepts that, and bare otherwise."""

_IN_QUERY_AS_JSON = {"object", "array"}


TAGS = {
    "relay": "Push once, pass a URL. Errors are plain text.",
    "artifacts": "Content and metadata, by ref.",
    "threads": "Threads and their state.",
    "channels": "Signals: notifications of pushes and messages.",
    "capabilities": "Named capabilities with cached results.",
    "keys": "Keys: their scopes and usage.",
    "store": "Maintenance of the store.",
    "threads, plain": "Threads under the paths of relay's own clients.",
    "server": "Health, version, documents, metrics.",
}


async def show(exchange: Exchange) -> None:
    """Return this document."""
    body = _spelled()
    await reply_tagged(exchange, body, JSON, _tag_of(body), [(b"cache-control", b"no-cache")])


async def show_page(exchange: Exchange) -> None:
    """Return this document as a page for people."""
    body = _page().replace(manual.ORIGIN.encode(), escape(exchange.origin).encode())
    headers = page(style=manual.STYLE)
    await reply_tagged(exchange, body, b"text/html; charset=utf-8", _tag_of(body), headers)


@cache
def _spelled() -> bytes:
    return encode(document())


@cache
def _page() -> bytes:
    return "".join(manual.written(document())).encode()


def _tag_of(body: bytes) -> bytes:
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'.encode()


ENDPOINTS = [
    *seed000.ENDPOINTS,
    *threads.ENDPOINTS,
    *signals.ENDPOINTS,
    *thread_events.ENDPOINTS,
    *status.ENDPOINTS,
    *metrics.ENDPOINTS,
    *http_transport.ENDPOINTS,
    *token_verifier.ENDPOINTS,
    *mount.ENDPOINTS,
    Endpoint(
        http="GET /openapi.json",
        handler=show,
        id="openapi",
        tag=SERVER,
        gives=dict[str, Any],
        also={304: ()},
    ),
    Endpoint(
        http="GET /docs",
        handler=show_page,
        id="docs",
        tag=SERVER,
        also={200: ("text/html",), 304: ()},
    ),
]
"""All endpoints that are not verbs."""


@cache
def document() -> Json:
    """Return the whole OpenAPI document."""
    of_verbs = routes()
    kinds: list[Any] = [route.verb for route in of_verbs]
    kinds += [reply_type(route.verb) for route in of_verbs]
    kinds += [kind for endpoint in ENDPOINTS for kind in endpoints.types(endpoint)]
    spelled, components = schema_components(kinds, ref_template="#/components/schemas/{name}")
    schemas_of = dict(zip(kinds, spelled, strict=True))

    def fields_of(kind: Any) -> Json:
        return _written_out(schemas_of[kind], components)

    paths: dict[str, Json] = {}
    for route in of_verbs:
        reply = schemas_of[reply_type(route.verb)]
        _add(paths, _operation(route, fields_of(route.verb), reply))
    for endpoint in ENDPOINTS:
        _add(paths, endpoints.operation(endpoint, schemas_of.__getitem__, fields_of))
    schemas = {name: _cleaned(schema) for name, schema in components.items()}
    schemas["ProblemDetails"] = PROBLEM
    paths, schemas = _with_items(paths), _with_items(schemas)
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


def _add(paths: dict[str, Json], operation: ApiOperation) -> None:
    at = paths.setdefault(operation.path, {})
    method = operation.method.lower()
    assert method not in at, f"duplicate operation {operation.method} {operation.path}"
    at[method] = operation.described()


# Operations of verbs


def _operation(route: Route, asked: Json, reply: Json) -> ApiOperation:
    # JSON uses null where Python uses None.
    text = re.sub(r"\bNone\b", "null", cleandoc(route.verb.__doc__ or ""))
    summary, _, description = text.partition("\n\n")
    if route.verb is verbs.PatchState:
        # The default is given only as words, because openapi-python-client generates broken code
        # for a default list or object.
        description += f"\n\nA bare list of operations is accepted as `{JSON_PATCH}` (RFC 6902)."
    return ApiOperation(
        method=route.method,
        path=route.path,
        id=route.name or route.verb.__name__,
        tag=_tag(route),
        summary=" ".join(summary.split()),
        description=description,
        parameters=_parameters(route, asked),
        body=_body(route, asked),
        replies=_replies(route, reply),
        errors=_errors(route),
    )


def _tag(route: Route) -> str:
    part = route.path.split("/")[2]
    return {each: each for each in ("artifacts", "threads", "channels", "keys")}.get(
        part, "capabilities" if part in ("capabilities", "cache") else "store"
    )


def _parameters(route: Route, asked: Json) -> list[Json]:
    """Return the parameters of a route in the path, the query and the headers."""
    properties: Json = asked["properties"]
    parameters = [in_path(name, _without_null(properties[name])) for name in route.in_path]
    # Batches of pushes are always framed.
    if route.in_query or (route.takes_body and route.verb is not verbs.PushMany):
        required: list[str] = asked["required"] if route.in_query else []
        parameters += [
            _in_query(name, schema, name in required)
            for name, schema in properties.items()
            # A grep of one ref has no thread.
            if name not in (*route.in_path, *(("thread",) if route.name == "GrepOne" else ()))
        ]
    if route.verb.traits.waits:
        parameters.append(WAIT)
    if route.verb.traits.keyed:
        parameters.append(KEY)
    if route.verb is verbs.Pull:
        parameters += [RANGE, TAGS_HELD]
    return parameters


def _in_query(name: str, schema: Json, is_required: bool) -> Json:
    """Return the parameter of a query field. Values other than text, numbers and booleans are
    encoded as JSON.
    """
    kinds = {
        each.get("type", "$ref" in each and "object") for each in (schema, *schema.get("anyOf", ()))
    }
    if kinds & _IN_QUERY_AS_JSON and "string" not in kinds:
        where = {"name": name, "in": "query", "required": is_required}
        return {**where, "content": as_json(schema)}
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
        # Generated clients use the first media type that they support.
        bare: Json = {OCTETS: {"schema": BYTES}}
        framed: Json = {FRAMED: {"schema": BYTES, "x-first-line": fields}}
        return {"required": route.verb is verbs.PushMany, "content": {**bare, **framed}}
    if route.in_query:
        return None
    return {"required": bool(fields["required"]), "content": as_json(fields)}


def _replies(route: Route, reply: Json) -> dict[str, Json]:
    status = str(route.status)
    if not route.media_type:
        return {status: as_json(reply)}
    framed: Json = {FRAMED: {"x-first-line": reply}}
    if route.verb is verbs.Pull:
        return {status: {**ANY_BYTES, **framed}, "206": ANY_BYTES, "304": {}}
    return {status: {route.media_type: {}, **framed}}


def _errors(route: Route) -> tuple[int, ...]:
    """Return the possible error statuses of a route."""
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
    """Return a schema whose `$ref`, at the top or in an alternative, is replaced by the schema that
    it names.
    """
    if "$ref" in schema:
        return _cleaned(components[schema["$ref"].rpartition("/")[2]])
    if "anyOf" in schema:
        return {**schema, "anyOf": [_written_out(each, components) for each in schema["anyOf"]]}
    return schema


def _cleaned(schema: Json) -> Json:
    """Return a schema whose description has no indentation."""
    if "description" not in schema:
        return schema
    return {**schema, "description": cleandoc(schema["description"])}


def _without_null(schema: Json) -> Json:
    """Return the schema of a path parameter, which cannot be null."""
    kinds = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    return kinds[0] if len(kinds) == 1 else schema


def _with_items(value: Any) -> Any:
    """Return a schema whose arrays only use `items`, as client generators require.

    Otherwise a pair of integers would have `prefixItems` and `items: false`.
    """
    if isinstance(value, list):
        return [_with_items(each) for each in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    made = {name: _with_items(each) for name, each in cast("Json", value).items()}
    if made.get("type") == "array":
        kinds = [*{encode(each): each for each in made.pop("prefixItems", ())}.values()]
        if kinds:
            made["items"] = {"anyOf": kinds} if len(kinds) > 1 else kinds[0]
        made.setdefault("items", {})
    return made


def _used(schemas: dict[str, Json], paths: Any) -> dict[str, Json]:
    """Return the schemas that the paths refer to, directly or through other schemas."""
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
