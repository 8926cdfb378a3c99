"""Routes: how a verb travels over HTTP, by the traits of its class; for server, client and OpenAPI.

A field of the verb that the path names is in the path, percent-encoded. The others are in the query
of a GET or DELETE, and in a JSON object otherwise. A verb that brings a body comes framed: its JSON
on the first line, the bytes after it; or with its fields in the query and the bare bytes. A reply
with a body likewise: framed for clients that accept that, bare bytes for the others.

Rule: what is written here is what is documented and what both sides do; no route is special here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from types import UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints
from urllib.parse import quote, urlencode

from msgspec import NODEFAULT, UNSET, DecodeError, Raw, Struct, ValidationError, convert
from msgspec.json import decode as decode_json
from msgspec.json import encode as encode_json
from msgspec.structs import fields as fields_of

from contextrelay import verbs
from contextrelay.errors import Invalid
from contextrelay.verbs import Stream, Verb
from contextrelay.verbs.verb import from_json, takes, wrong

AnyVerb = TypeVar("AnyVerb", bound=Verb[Any])

FRAMED = "application/vnd.contextrelay.framed"
"""A line of JSON, then bytes."""
JSON_PATCH = "application/json-patch+json"
"""A bare list of operations (RFC 6902)."""
KEY_HEADER = "idempotency-key"
FROM_HEADER = "x-relay-from"
"""The name of the caller, where the verb has none."""
VALUE_BYTES_MAX = 32 * 1024 * 1024
"""Of the JSON that a verb or the value of a framed reply may be."""


_WHO = ("by", "created_by")
_TEXT = frozenset((str, Literal))


class Route(Struct, frozen=True):
    """Where and how a verb is asked."""

    verb: type[Verb[Any]]
    method: str
    path: str
    status: int = 200
    takes_body: bool = False
    media_type: str = ""
    """Of the body of the reply; "" where the reply is JSON alone."""
    name: str = ""
    """Of a second route to the same verb, which our own clients do not take."""

    @property
    def in_path(self) -> list[str]:
        """Names of the fields that are in the path."""
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]

    @property
    def in_query(self) -> bool:
        """Whether the other fields are in the query."""
        return self.method in ("GET", "DELETE")


@cache
def route_of(verb: type[Verb[Any]]) -> Route:
    """How our own clients ask a verb.

    Raises:
        Invalid: it works on files of the store, and cannot be asked over HTTP.
    """
    if not verb.traits.http:
        raise Invalid(
            f"{verb.__name__} works on files of the store", "do it on the machine of the store"
        )
    return _route(verb, verb.traits.http)


def routes() -> list[Route]:
    """Every route of every verb."""
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
    """A verb as it travels; `json` is the object with the fields that are in neither path nor
    query, or, for a verb with a body, the line before it."""

    method: str
    target: str
    json: bytes | None


def spell(verb: Verb[Any]) -> EncodedVerb:
    """Write a verb down for its journey.

    Raises:
        Invalid: it can be asked only where the store's files are.
    """
    route = route_of(type(verb))
    values = dict(_sent(verb))
    path = route.path
    for name in route.in_path:
        path = path.replace(f"{{{name}}}", _in_path(values.pop(name)))
    if not route.in_query:
        return EncodedVerb(route.method, path, encode_json(values))
    query = spell_query(type(verb), values)
    return EncodedVerb(route.method, f"{path}?{query}" if query else path, None)


def _sent(verb: Verb[Any]) -> Iterator[tuple[str, Any]]:
    """The fields of a verb that are not the default; the name of the caller is always sent."""
    for field in fields_of(type(verb)):
        value = getattr(verb, field.name)
        is_default = field.default is not NODEFAULT and value == field.default
        if value is UNSET or (is_default and field.name not in _WHO):
            continue
        if field.default_factory is not NODEFAULT and not value:
            continue
        yield field.name, value


def spell_query(verb: type[Verb[Any]], values: Mapping[str, Any]) -> str:
    """Write fields of a verb as a query: texts as they are, all else as JSON.

    Where a field takes a list of texts too, a text that looks like one is sent as a list of one.
    None is the default of every text that may be missing, so that the text "null" is free.
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
    """Encode a part of a path; clients and proxies would resolve "." and ".." as they are."""
    return quote(value, safe="") if value.strip(".") else value.replace(".", "%2E")


def operations_in(body: bytes) -> bytes:
    """Return the JSON of a patch whose body is a bare list of operations (RFC 6902).

    Raises:
        Invalid: the body is no list.
    """
    try:
        return encode_json({"operations": decode_json(body, type=list[Raw])})
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        hint = f"send a list of operations, or an object as application/json: {error}"
        raise Invalid(f"a body of {JSON_PATCH} is no list of operations", hint) from None


def read(
    route: Route,
    in_path: Mapping[str, str],
    query: Mapping[str, str],
    json: bytes | None,
    by: str,
) -> Verb[Any]:
    """Read a verb as it arrived; `by` is the name of the caller, where the verb has none.

    Raises:
        Invalid: a value is not what it has to be, or there is one too many.
    """
    values: dict[str, Any] = {**_object(json), **_from_query(route.verb, query), **in_path}
    for name in values:
        if name not in route.verb.__struct_fields__:
            raise Invalid(f"there is no {name[:80]!r} here", takes(route.verb))
    _sign(route.verb, values, by)
    try:
        # Integers in a query are digits alone.
        return (from_json if json else convert)(values, route.verb)
    except ValidationError as error:
        raise wrong(route.verb, error) from None


def _sign(verb: type[Verb[Any]], values: dict[str, Any], by: str) -> None:
    """Fill in the name of the caller, also in each of many pushes."""
    for name in _WHO:
        if name in verb.__struct_fields__:
            values.setdefault(name, by)
    items = values.get("items") if verb is verbs.PushMany else None
    for each in cast("list[Any]", items) if isinstance(items, list) else ():
        if isinstance(each, dict):
            _sign(verbs.Push, cast("dict[str, Any]", each), by)


def _object(json: bytes | None) -> dict[str, Any]:
    if json is None or not json:
        return {}
    try:
        return decode_json(json, type=dict[str, Any])
    except ValidationError:
        raise Invalid("the JSON is no object", "send an object with the fields") from None
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(f"the body is no JSON: {error}", "send a JSON object in UTF-8") from None


def _from_query(verb: type[Verb[Any]], query: Mapping[str, str]) -> dict[str, Any]:
    """Read the fields of a query, as `spell_query` writes them."""
    kinds = _kinds(verb)
    return {name: _field(name, kinds.get(name, _TEXT), text) for name, text in query.items()}


def _field(name: str, kinds: frozenset[Any], text: str) -> Any:
    if kinds & _TEXT:
        return _texts(text) if _is_like_texts(kinds, text) else text
    try:
        return decode_json(text)
    except (DecodeError, RecursionError) as error:
        if kinds & {dict, list, tuple}:
            raise Invalid(f"{name} is no JSON: {error}", "write it as JSON") from None
        return text  # The type of the field says what is expected in its place.


@cache
def _kinds(verb: type[Verb[Any]]) -> dict[str, frozenset[Any]]:
    """Which kinds of values each field of a verb takes."""
    return {
        name: frozenset(
            get_origin(each) or each
            for each in (get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,))
        )
        for name, hint in get_type_hints(verb).items()
    }


def _is_like_texts(kinds: frozenset[Any], text: str) -> bool:
    """Whether a text begins like a list of texts, in a field that takes either."""
    return tuple in kinds and text.startswith('["')


def _texts(text: str) -> str | list[str]:
    """Read a list of texts that is written as JSON; what is no such list is a text."""
    try:
        return decode_json(text, type=list[str])
    except (DecodeError, RecursionError):
        return text


def framed_tag(sha256: str) -> str:
    """The tag of a framed reply: that of the bare bytes would name other bytes."""
    return f'"{sha256}-f"'


def reply_type(verb: type[Verb[Any]]) -> Any:
    """The type of a verb's reply; of its value where the reply has a body."""
    bases: tuple[Any, ...] = getattr(verb, "__orig_bases__", ())
    (reply,) = get_args(next(base for base in bases if get_origin(base) is Verb))
    return get_args(reply)[0] if get_origin(reply) is Stream else reply
