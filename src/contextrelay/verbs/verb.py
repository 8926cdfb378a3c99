"""The verb class: a typed request that knows the type of its reply and how it is treated.

Rule: what is true of a verb is in the `traits` of its class. Server, client, MCP, access,
accounting and idempotency read it there; nowhere is a table of verbs kept.
"""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar, get_args, get_origin

from msgspec import Meta, Struct, ValidationError, convert
from msgspec.json import Decoder, encode
from msgspec.structs import fields

from contextrelay.errors import Invalid
from contextrelay.limits import (
    BODY_BYTES_MAX,
    BUDGET_TOKENS_MAX,
    CHANNEL_CHARS_MAX,
    CHUNK_BYTES,
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
    PATTERN_ERRORS,
)

Reply = TypeVar("Reply", covariant=True)
Streamed = TypeVar("Streamed", covariant=True)

Body = bytes | Iterable[bytes]
"""What a verb may bring along: the bytes at once, or chunk by chunk."""


class Traits(Struct, frozen=True, kw_only=True):
    """What is true of every request of one verb."""

    needs: Level
    """The access that a key must have to ask it."""
    answered_in: str = ""
    """The module of core that answers it, imported when it is first asked."""
    http: str = ""
    """Method and path, like "GET /v1/artifacts/{ref}"; "": only in the process of the store."""
    also: str = ""
    """A second method and path, for one artifact, which our own clients do not use."""
    status: int = 200
    """The HTTP status of a reply that is no error."""
    fails: tuple[int, ...] = ()
    """HTTP statuses of its errors, besides those that follow from its path and other traits."""
    takes_body: bool = False
    """Whether bytes come with it."""
    media_type: str = ""
    """Of the bytes that come with its reply; "" where the reply is JSON alone."""
    inline: bool = False
    """Quick enough to be answered on an event loop, between two other requests."""
    slow: bool = False
    """May take minutes: a server answers it in a thread of its own, clients wait longer."""
    long: bool = False
    """Clients wait longer for the reply, as for a slow one."""
    looks: bool = False
    """Looks into bodies: a server answers it in a thread of its own, a few of them at once."""
    while_locked: bool = False
    """Answered while a restore is unfinished: it finishes the restore, or reports it."""
    waits: bool = False
    """May wait for news: a server answers it in server/streams."""
    keyed: bool = False
    """Done once under an idempotency key. The others only read, or may be done again."""
    counted: bool = False
    """Shows something of an artifact: the tokens in `spent` of its reply are counted."""
    fills: Literal["sent", "made"] | None = None
    """Stores bodies, which count towards a key's quota: those sent with it, so that their size is
    known before; or those made in answering it."""
    sweeps: bool = False
    """A local client sweeps a little after it, now and then."""
    makes_thread: bool = False
    """Makes a thread, of the name in its field `name`."""


VERBS: list[type[Verb[Any]]] = []
"""Every verb, in the order of definition."""


class Verb(Struct, Generic[Reply], frozen=True):
    """One request. `Reply` is what answers it.

    Raises:
        TypeError: a subclass is defined that has no traits, so that no access is declared.
    """

    traits: ClassVar[Traits]

    def __init_subclass__(cls) -> None:
        if "traits" in vars(cls):
            VERBS.append(cls)
        elif not hasattr(cls, "traits"):
            raise TypeError(f"{cls.__name__} has no traits, which say what access it needs")

    @property
    def looks_inside(self) -> bool:
        """Whether bodies are looked into to answer it."""
        return self.traits.looks


class Stream(Struct, Generic[Streamed], frozen=True):
    """A reply with a body: the value at once, the bytes when they are read."""

    value: Streamed
    open: Callable[[int], Iterator[bytes]]
    """From a chunk size to the chunks."""

    def chunks(self) -> Iterator[bytes]:
        return self.open(CHUNK_BYTES)

    def whole(self) -> bytes:
        return b"".join(self.open(BODY_BYTES_MAX))


# The values of a verb, and errors in them


def from_json(value: Any, kind: Any) -> Any:
    """Convert a JSON value to a type; 1.0 is an integer, as JSON Schema has it.

    Raises:
        ValidationError: it is something else.
    """
    try:
        return convert(value, kind)
    except ValidationError as error:
        if "got `float`" not in str(error):
            raise
    return convert(_with_integers.decode(encode(value)), kind)


def _number(digits: str) -> int | float:
    number = float(digits)
    is_whole = number.is_integer() and abs(number) <= NUMBER_MAX
    return int(number) if is_whole else number


_with_integers = Decoder(float_hook=_number)


def wrong(verb: type[Verb[Any]], error: ValidationError) -> Invalid:
    """Say which field is wrong, how, and which there are: `ttl_s: expected int >= 1`."""
    return Invalid(complaint(verb, error), takes(verb))


def takes(verb: type[Verb[Any]]) -> str:
    return f"it takes {', '.join(verb.__struct_fields__) or 'nothing'}"


def complaint(kind: type[Struct], error: ValidationError, what: str = "") -> str:
    """What is wrong with which field; of a choice, all that it may be."""
    reason, _, place = str(error).replace("`", "").partition(" - at $.")
    field = re.split(r"[.\[]", place)[0]
    if reason.startswith(_NO_CHOICE):
        named = (each for each in fields(kind) if field in (each.name, each.encode_name))
        choices = [str(choice) for each in named for choice in _choices(each.type)]
        reason = f"{reason.removeprefix(_NO_CHOICE)} is none of {', '.join(choices)}"
    elif reason.startswith(_NO_MATCH):
        pattern = literal_eval(reason.removeprefix(_NO_MATCH))
        reason = PATTERN_ERRORS.get(pattern, reason)
    elif reason.startswith(_LACKS):
        reason = f"{reason.removeprefix(_LACKS)} is missing"
    elif length := _LENGTH.fullmatch(reason):
        reason = "it is empty" if length[1] == ">= 1" else f"it has to have {length[1]} characters"
    where = place.partition("[")[0] or what
    return f"{where}: {reason[:1].lower()}{reason[1:]}" if where else reason


_NO_CHOICE = "Invalid enum value "
_NO_MATCH = "Expected str matching regex "
_LACKS = "Object missing required field "
_LENGTH = re.compile(r"Expected str of length (.*)")


def _choices(type: Any) -> Iterator[Any]:
    """What a type that names its values allows."""
    if get_origin(type) is Literal:
        yield from get_args(type)
    else:
        for each in get_args(type):
            yield from _choices(each)


# Types that the fields of several verbs have

Name = Annotated[str, Meta(min_length=1, max_length=NAME_CHARS_MAX)]
FileName = Annotated[Name, Meta(pattern=FILE_NAME_PATTERN)]
ShortText = Annotated[str, Meta(min_length=1, max_length=LABEL_CHARS_MAX)]
Label = Annotated[ShortText, Meta(pattern=LABEL_PATTERN)]
TtlS = Annotated[int, Meta(ge=1, le=TTL_S_MAX)]
Index = Annotated[int, Meta(ge=0, le=NUMBER_MAX)]
Cursor = Annotated[str, Meta(max_length=100, pattern=r"^[ -~]*$")]
Version = Annotated[int, Meta(ge=1, le=NUMBER_MAX)]
BudgetTokens = Annotated[int, Meta(ge=1, le=BUDGET_TOKENS_MAX)]
Channel = Annotated[str, Meta(min_length=1, max_length=CHANNEL_CHARS_MAX, pattern=CHANNEL_PATTERN)]
PieceTokens = Annotated[int, Meta(ge=PIECE_TOKENS_MIN, le=PIECE_TOKENS_MAX)]
