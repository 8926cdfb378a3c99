"""The verb class: a typed request with a typed reply, and traits that say how to handle the
request.

Rule: the properties of a verb are in the `traits` of its class. Server, client, MCP, access,
accounting and idempotency read them there; there is no table of verbs anywhere else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar, cast, get_args, get_origin

from msgspec import Meta, Struct, UnsetType, ValidationError, convert, inspect
from msgspec.structs import fields

from contextrelay.documents.bounds import check_values
from contextrelay.errors import Invalid
from contextrelay.limits import (
    BODY_BYTES_MAX,
    BUDGET_TOKENS_MAX,
    CHANNEL_CHARS_MAX,
    CHUNK_BYTES,
    JSON_DEPTH_MAX,
    LABEL_CHARS_MAX,
    NAME_CHARS_MAX,
    NUMBER_MAX,
    PIECE_TOKENS_MAX,
    PIECE_TOKENS_MIN,
    TTL_S_MAX,
)
from contextrelay.model.key import Level
from contextrelay.model.names import (
    CHANNEL_PATTERN,
    FILE_NAME_PATTERN,
    LABEL_PATTERN,
    OPTIONAL_LABEL_PATTERN,
    PATTERN_ERRORS,
)

Reply = TypeVar("Reply", covariant=True)
AnyVerb = TypeVar("AnyVerb", bound="Verb[Any]")
Streamed = TypeVar("Streamed", covariant=True)

Body = bytes | Iterable[bytes]
"""The body sent with a verb: all bytes at once, or in chunks."""


class Traits(Struct, frozen=True, kw_only=True):
    """The properties shared by all requests of one verb."""

    needs: Level
    """The access level that a key needs to send the verb."""
    answered_in: str = ""
    """The module of core that answers the verb, imported on first use."""
    http: str = ""
    """Method and path, like "GET /v1/artifacts/{ref}"; "" if the verb is not available over HTTP.
    """
    also: str = ""
    """A second method and path, for one artifact, which the included clients do not use."""
    status: int = 200
    """The HTTP status of a successful reply."""
    fails: tuple[int, ...] = ()
    """HTTP statuses of the verb's errors, besides those implied by its path and other traits."""
    takes_body: bool = False
    """Whether the request has a body."""
    media_type: str = ""
    """Media type of the reply's body; "" if the reply is JSON only."""
    inline: bool = False
    """Whether the verb is fast enough to be answered on the event loop."""
    slow: bool = False
    """Whether the verb may take minutes: the server uses a separate thread, clients use a longer
    timeout.
    """
    long: bool = False
    """Whether clients use a longer timeout, as for a slow verb."""
    looks: bool = False
    """Whether the verb reads bodies: the server uses separate threads for a limited number of such
    requests.
    """
    while_locked: bool = False
    """Whether the verb is answered during an unfinished restore, because it finishes or reports the
    restore.
    """
    waits: bool = False
    """Whether the verb may wait for new data: the server answers it in server/streams."""
    keyed: bool = False
    """Whether the verb needs an idempotency key to be run only once. Other verbs only read or can
    safely be repeated.
    """
    counted: bool = False
    """Whether the reply shows parts of an artifact. The tokens in `spent` of the reply are counted.
    """
    fills: Literal["sent", "made"] | None = None
    """Whether the verb stores bodies, which count towards a key's quota: bodies that are sent with
    the request, whose size is known in advance, or bodies that are made while answering.
    """
    sweeps: bool = False
    """Whether a local client occasionally runs a sweep shortly after the verb."""
    makes_thread: bool = False
    """Whether the verb creates a thread, whose name is in the field `name`."""


VALUE_BYTES_MAX = 32 * 1024 * 1024
"""Size limit of the JSON of a verb, and of the value of a framed reply."""

VERBS: list[type[Verb[Any]]] = []
"""Every verb, in the order of definition."""


class Verb(Struct, Generic[Reply], frozen=True):
    """A request whose reply is of type `Reply`.

    Raises:
        TypeError: a subclass has no traits, so it declares no access level.
    """

    traits: ClassVar[Traits]

    def __init_subclass__(cls) -> None:
        if "traits" in vars(cls):
            VERBS.append(cls)
        elif not hasattr(cls, "traits"):
            raise TypeError(
                f"{cls.__name__} has no traits: they declare the access level that it needs"
            )

    @property
    def looks_inside(self) -> bool:
        """Whether the server reads bodies to answer the request."""
        return self.traits.looks


class Stream(Struct, Generic[Streamed], frozen=True):
    """A reply with a body: the value is available at once, the bytes are read later."""

    value: Streamed
    open: Callable[[int], Iterator[bytes]]
    """A function that takes the chunk size and returns the chunks of the body."""

    def chunks(self) -> Iterator[bytes]:
        return self.open(CHUNK_BYTES)

    def whole(self) -> bytes:
        return b"".join(self.open(BODY_BYTES_MAX))


# Conversion of a verb's values, and errors in them


def from_json(value: Any, kind: Any) -> Any:
    """Convert a JSON value to a type. The number 1.0 counts as an integer, as in JSON Schema.

    Raises:
        ValidationError: the value is of another type.
    """
    try:
        return convert(value, kind)
    except ValidationError as error:
        if "got `float`" not in str(error):
            raise
    return convert(_with_integers(value, inspect.type_info(kind)), kind)


def check_verb(verb: AnyVerb) -> AnyVerb:
    """Check the values of a verb; return the verb as a server decodes it from JSON.

    Raises:
        Invalid: a value is not JSON, or not of the type of its field.
        TooLarge: the JSON of a value is longer than VALUE_BYTES_MAX.
    """
    kind = type(verb)
    values = _json_fields(verb)
    try:
        return from_json(values, kind)
    except ValidationError as error:
        raise invalid_field(kind, error) from None


def _json_fields(value: Struct) -> dict[str, Any]:
    """Return the fields of a struct that are set, after checking that JSON can carry them."""
    values: dict[str, Any] = {}
    for name, field in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
        each = getattr(value, name)
        kind = each.__class__
        if kind is UnsetType:
            continue
        # Most values need no further check.
        is_checked = each is None or (kind is str and each.isascii())
        if not is_checked and (each or kind not in _EMPTY):
            each = _json_value(each, name)
        values[field] = each
    return values


_EMPTY: tuple[type, ...] = (bool, int, list, tuple, dict)


def _json_value(value: Any, what: str) -> Any:
    if isinstance(value, Struct):
        return _json_fields(value)
    if type(value) in (list, tuple) and any(isinstance(each, Struct) for each in value):
        return [_json_value(each, what) for each in value]
    check_values(value, what, VALUE_BYTES_MAX, JSON_DEPTH_MAX + 1)
    return value


def _with_integers(value: Any, kind: inspect.Type) -> Any:
    """Return a JSON value with integers instead of 1.0 where its type expects them."""
    match kind:
        case inspect.IntType() if isinstance(value, float):
            is_whole = value.is_integer() and abs(value) <= NUMBER_MAX
            return int(value) if is_whole else value
        case inspect.StructType() if isinstance(value, dict):
            kinds = {each.encode_name: each.type for each in kind.fields}
            named = cast("dict[str, Any]", value).items()
            return {
                name: _with_integers(each, kinds.get(name, inspect.AnyType()))
                for name, each in named
            }
        case inspect.DictType() if isinstance(value, dict):
            named = cast("dict[str, Any]", value).items()
            return {name: _with_integers(each, kind.value_type) for name, each in named}
        case inspect.ListType() | inspect.VarTupleType() if isinstance(value, list):
            return [_with_integers(each, kind.item_type) for each in cast("list[Any]", value)]
        case inspect.UnionType():
            for each in kind.types:
                value = _with_integers(value, each)
        case _:
            pass
    return value


def invalid_field(verb: type[Verb[Any]], error: ValidationError) -> Invalid:
    """Return the error for an invalid field, which lists the valid fields: `ttl_s: expected int >=
    1`.
    """
    return Invalid(field_error(verb, error), fields_hint(verb))


def fields_hint(verb: type[Verb[Any]]) -> str:
    return f"fields: {', '.join(verb.__struct_fields__) or 'none'}"


def field_error(kind: type[Struct], error: ValidationError, what: str = "") -> str:
    """Return a text that says which field is invalid and why; for an enum, it lists the valid
    values.
    """
    reason, _, place = str(error).replace("`", "").partition(" - at $.")
    field = re.split(r"[.\[]", place)[0]
    if reason.startswith(_NO_CHOICE):
        named = (each for each in fields(kind) if field in (each.name, each.encode_name))
        choices = [str(choice) for each in named for choice in _choices(each.type)]
        reason = (
            f"invalid value {reason.removeprefix(_NO_CHOICE)}: expected one of {', '.join(choices)}"
        )
    elif reason.startswith(_NO_MATCH):
        from ast import literal_eval  # Slow to import.

        pattern = literal_eval(reason.removeprefix(_NO_MATCH))
        reason = PATTERN_ERRORS.get(pattern, reason)
    elif reason.startswith(_LACKS):
        reason = f"missing field {reason.removeprefix(_LACKS)}"
    elif length := _LENGTH.fullmatch(reason):
        reason = "must not be empty" if length[1] == ">= 1" else f"must have {length[1]} characters"
    where = place.partition("[")[0] or what
    return f"{where}: {reason[:1].lower()}{reason[1:]}" if where else reason


_NO_CHOICE = "Invalid enum value "
_NO_MATCH = "Expected str matching regex "
_LACKS = "Object missing required field "
_LENGTH = re.compile(r"Expected str of length (.*)")


def _choices(type: Any) -> Iterator[Any]:
    """Yield the values of all literals in a type."""
    if get_origin(type) is Literal:
        yield from get_args(type)
    else:
        for each in get_args(type):
            yield from _choices(each)


# Field types that several verbs share

Name = Annotated[str, Meta(min_length=1, max_length=NAME_CHARS_MAX)]
FileName = Annotated[Name, Meta(pattern=FILE_NAME_PATTERN)]
ShortText = Annotated[str, Meta(min_length=1, max_length=LABEL_CHARS_MAX)]
Label = Annotated[ShortText, Meta(pattern=LABEL_PATTERN)]
Author = Annotated[str, Meta(max_length=LABEL_CHARS_MAX, pattern=OPTIONAL_LABEL_PATTERN)]
"""The agent that acts. Empty means the agent of the client (core/answer.py)."""
TtlS = Annotated[int, Meta(ge=1, le=TTL_S_MAX)]
Index = Annotated[int, Meta(ge=0, le=NUMBER_MAX)]
Place = Annotated[str, Meta(min_length=1, max_length=4096)]
"""Where a command runs: a folder, with an agent or a terminal."""
Cursor = Annotated[str, Meta(max_length=100, pattern=r"^[ -~]*$")]
Version = Annotated[int, Meta(ge=1, le=NUMBER_MAX)]
BudgetTokens = Annotated[int, Meta(ge=1, le=BUDGET_TOKENS_MAX)]
Channel = Annotated[str, Meta(min_length=1, max_length=CHANNEL_CHARS_MAX, pattern=CHANNEL_PATTERN)]
PieceTokens = Annotated[int, Meta(ge=PIECE_TOKENS_MIN, le=PIECE_TOKENS_MAX)]
