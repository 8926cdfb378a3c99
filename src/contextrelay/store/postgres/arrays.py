"""PostgreSQL arrays in binary format, packed here, so that large arrays are cheap to send.

psycopg inspects every entry of a list to choose a type, so that a statement is sent with many
types, and prepared separately for each. Each of these classes has one fixed type.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from psycopg import adapters
from psycopg.adapt import Dumper
from psycopg.pq import Format

# The header of an array: dimensions, whether there are NULLs, type of entries, count, first index.
_HEAD = Struct(">iiIii")
_LENGTH = Struct(">i")
_INT = Struct(">ii")
_BIGINT = Struct(">iq")
_NULL = _LENGTH.pack(-1)
_TEXT_OID, _INT_OID, _BIGINT_OID, _BYTES_OID = 25, 23, 20, 17


class TextArray(bytes):
    """A PostgreSQL array of type text[]."""


class Ints(bytes):
    """A PostgreSQL array of type int[]."""


class Bigints(bytes):
    """A PostgreSQL array of type bigint[]."""


class Bodies(bytes):
    """A PostgreSQL array of type bytea[]."""


def texts(values: Iterable[str]) -> TextArray:
    return TextArray(_packed(_TEXT_OID, [_sized(value.encode()) for value in values]))


def bodies(values: Iterable[bytes | None]) -> Bodies:
    packed = [_NULL if value is None else _sized(value) for value in values]
    return Bodies(_packed(_BYTES_OID, packed))


def ints(values: Iterable[int]) -> Ints:
    return Ints(_packed(_INT_OID, [_INT.pack(4, value) for value in values]))


def bigints(values: Iterable[int | None]) -> Bigints:
    packed = [_NULL if value is None else _BIGINT.pack(8, value) for value in values]
    return Bigints(_packed(_BIGINT_OID, packed))


def _sized(value: bytes) -> bytes:
    return _LENGTH.pack(len(value)) + value


def _packed(oid: int, entries: list[bytes]) -> bytes:
    has_null = 1 if _NULL in entries else 0
    return _HEAD.pack(1, has_null, oid, len(entries), 1) + b"".join(entries)


class _AsItIs(Dumper):
    format = Format.BINARY

    def dump(self, obj: bytes) -> bytes:
        return obj


def _register() -> None:
    for kind, oid in ((TextArray, 1009), (Ints, 1007), (Bigints, 1016), (Bodies, 1001)):
        dumper = type(f"_{kind.__name__}Dumper", (_AsItIs,), {"oid": oid})
        adapters.register_dumper(kind, dumper)


_register()
