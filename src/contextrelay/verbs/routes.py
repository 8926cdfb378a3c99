"""Routes: how a verb is sent over HTTP, from the traits of its class; for server, client and
OpenAPI.

A field that the path names is sent in the path, percent-encoded. The other fields are sent in the
query of a GET or DELETE, otherwise in a JSON object. A verb with a body is sent framed (its JSON on
the first line, then the bytes), or with its fields in the query and the bare bytes as the body. A
reply with a body is framed for clients that accept that, and bare bytes for others.

Rule: this file defines both the documentation and the behaviour of both sides; no route is special.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints
from urllib.parse import quote, urlencode

from msgspec import NODEFAULT, UNSET, DecodeError, Raw, Struct, ValidationError, convert
from msgspec.json import decode as decode_json
from msgspec.json import encode as encode_json
from msgspec.structs import fields as fields_of

from contextrelay import verbs
from contextrelay.errors import Invalid
from contextrelay.verbs import Stream, Verb
from contextrelay.verbs.verb import check_verb, fields_hint, from_json, invalid_field

AnyVerb = TypeVar("AnyVerb", bound=Verb[Any])

FRAMED = "application/vnd.contextrelay.framed"
"""Media type of a line of JSON, followed by bytes."""
JSON_PATCH = "application/json-patch+json"
"""Media type of a list of JSON Patch operations without a surrounding object (RFC 6902)."""
KEY_HEADER = "idempotency-key"
FROM_HEADER = "x-relay-from"
"""Request header with the name of the agent that sends the request, percent-encoded."""

_TEXT = frozenset((str, Literal))


class Route(Struct, frozen=True):
    """The method, path and media type of a verb over HTTP."""

    verb: type[Verb[Any]]
    method: str
    path: str
    status: int = 200
    takes_body: bool = False
    media_type: str = ""
    """Media type of the reply's body; "" if the reply is JSON only."""
    name: str = ""
    """Name of a second route to the same verb, which the included clients do not use; "" for the
    first route.
    """

    @property
    def in_path(self) -> list[str]:
        """Return the names of the fields in the path."""
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]

    @property
    def in_query(self) -> bool:
        """Whether the fields that are not in the path are sent in the query."""
        return self.method in ("GET", "DELETE")


@cache
def route_of(verb: type[Verb[Any]]) -> Route:
    """Return the route that the included clients use for a verb.

    Raises:
        Invalid: the verb works on files of the store and is not available over HTTP.
    """
    if not verb.traits.http:
        raise Invalid(
            f"{verb.__name__} is not available over HTTP: it works on files of the store",
            "run it on the machine of the store",
        )
    return _route(verb, verb.traits.http)


def routes() -> list[Route]:
    """Return every route of every verb."""
    return [
        _route(verb, http, f"{verb.__name__}One" if http == verb.traits.also else "")
        for verb in verbs.VERBS
        for http in (verb.traits.http, verb.traits.also)
        if http
    ]


def _route(verb: type[Verb[Any]], http: str, name: str = "") -> Route:
    method, path = http.split(" ")
    traits = verb.traits
    return Route(verb, method, path, traits.status, traits.takes_body, traits.media_type, name)


class EncodedVerb(Struct, frozen=True):
    """A verb encoded as a request. `json` is the object with the fields that are in neither path
    nor query; for a verb with a body, it is sent as the line before the body.
    """

    method: str
    target: str
    json: bytes | None


def encode_verb(verb: Verb[Any]) -> EncodedVerb:
    """Encode a verb as a request.

    Raises:
        Invalid: the verb is not available over HTTP, or a value is not JSON.
    """
    route = route_of(type(verb))
    values = dict(_explicit_fields(check_verb(verb)))
    path = route.path
    for name in route.in_path:
        path = path.replace(f"{{{name}}}", _in_path(values.pop(name)))
    if not route.in_query:
        return EncodedVerb(route.method, path, encode_json(values))
    query = spell_query(type(verb), values)
    return EncodedVerb(route.method, f"{path}?{query}" if query else path, None)


def _explicit_fields(verb: Verb[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the name and value of each field that differs from its default."""
    for field in fields_of(type(verb)):
        value = getattr(verb, field.name)
        is_default = field.default is not NODEFAULT and value == field.default
        if value is UNSET or is_default:
            continue
        if field.default_factory is not NODEFAULT and not value:
            continue
        yield field.name, value


def spell_query(verb: type[Verb[Any]], values: Mapping[str, Any]) -> str:
    """Encode fields of a verb as a query string: strings without quotes, other values as JSON.

    If a field accepts a string or a list of strings, a string that looks like a list is sent as a
    list with one item. Every optional string defaults to None, so the string "null" is unambiguous.
    """
    return urlencode(
        {
            name: value
            if isinstance(value, str) and not _is_like_texts(_kinds(verb)[name], value)
            else encode_json([value] if isinstance(value, str) else value).decode()
            for name, value in values.items()
        }
    )


def _in_path(value: str) -> str:
    """Percent-encode a path segment, including "." and "..", which clients and proxies would
    resolve.
    """
    return quote(value, safe="") if value.strip(".") else value.replace(".", "%2E")


def patch_operations(body: bytes) -> bytes:
    """Convert a body that is a list of operations (RFC 6902) to the JSON of a patch verb.

    Raises:
        Invalid: the body is not a list.
    """
    try:
        return encode_json({"operations": decode_json(body, type=list[Raw])})
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        hint = f"send a list of operations, or an object as application/json: {error}"
        raise Invalid(f"invalid {JSON_PATCH} body: expected a list of operations", hint) from None


def decode_verb(
    route: Route,
    in_path: Mapping[str, str],
    query: Mapping[str, str],
    json: bytes | None,
) -> Verb[Any]:
    """Decode a verb from a request.

    Raises:
        Invalid: a value is invalid or a field is unknown.
    """
    values: dict[str, Any] = {**_json_object(json), **_from_query(route.verb, query), **in_path}
    for name in values:
        if name not in route.verb.__struct_fields__:
            raise Invalid(f"unknown field {name[:80]!r}", fields_hint(route.verb))
    try:
        # Integers in a query consist of digits only.
        return (from_json if json else convert)(values, route.verb)
    except ValidationError as error:
        raise invalid_field(route.verb, error) from None


def _json_object(json: bytes | None) -> dict[str, Any]:
    if json is None or not json:
        return {}
    try:
        return decode_json(json, type=dict[str, Any])
    except ValidationError:
        raise Invalid(
            "invalid request body: expected a JSON object", "send an object with the fields"
        ) from None
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(
            f"invalid JSON in the request body: {error}", "send a JSON object in UTF-8"
        ) from None


def _from_query(verb: type[Verb[Any]], query: Mapping[str, str]) -> dict[str, Any]:
    """Decode the fields in a query that was encoded by `spell_query`."""
    kinds = _kinds(verb)
    return {name: _field(name, kinds.get(name, _TEXT), text) for name, text in query.items()}


def _field(name: str, kinds: frozenset[Any], text: str) -> Any:
    if kinds & _TEXT:
        return _texts(text) if _is_like_texts(kinds, text) else text
    try:
        return decode_json(text)
    except (DecodeError, RecursionError) as error:
        if kinds & {dict, list, tuple}:
            raise Invalid(f"invalid JSON in {name}: {error}", "encode the value as JSON") from None
        # The later conversion to the field's type raises an error that says what was expected.
        return text


@cache
def _kinds(verb: type[Verb[Any]]) -> dict[str, frozenset[Any]]:
    """Return a dict that maps each field of a verb to the types that it accepts."""
    return {
        name: frozenset(
            get_origin(each) or each
            for each in (get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,))
        )
        for name, hint in get_type_hints(verb).items()
    }


def _is_like_texts(kinds: frozenset[Any], text: str) -> bool:
    """Return True if a text starts like a JSON list of strings and its field accepts both a string
    and a list.
    """
    return tuple in kinds and text.startswith('["')


def _texts(text: str) -> str | list[str]:
    """Decode a JSON list of strings; return the text unchanged if it is not such a list."""
    try:
        return decode_json(text, type=list[str])
    except (DecodeError, RecursionError):
        return text


def framed_tag(sha256: str) -> str:
    """Return the ETag of a framed reply. It differs from the ETag of the same bytes without a
    frame.
    """
    return f'"{sha256}-f"'


def reply_type(verb: type[Verb[Any]]) -> Any:
    """Return the type of a verb's reply or, if the reply has a body, of its value."""
    bases: tuple[Any, ...] = getattr(verb, "__orig_bases__", ())
    (reply,) = get_args(next(base for base in bases if get_origin(base) is Verb))
    return get_args(reply)[0] if get_origin(reply) is Stream else reply
