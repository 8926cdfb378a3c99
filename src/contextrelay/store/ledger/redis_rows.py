"""Rows and names of the Redis ledger, as its keys, fields and values spell them."""

from __future__ import annotations

from contextrelay.errors import Invalid
from contextrelay.store.ledger import LOCK_KIND, ONLY, UNLOCKED, Row


def without_braces(name: str) -> str:
    """A name that a hash tag can hold: `{}` and `}x` would send a log's keys to several slots."""
    if not name:
        raise Invalid("a log needs a name")
    return name.replace("%", "%25").replace("{", "%7B").replace("}", "%7D")


def with_braces(name: str) -> str:
    """The name that without_braces was given."""
    return name.replace("%7B", "{").replace("%7D", "}").replace("%25", "%")


def refuse_nul(*names: str) -> None:
    for name in names:
        if "\0" in name:
            raise Invalid(f"{name!r} holds a NUL", "use a name without")


def field_of(kind: str, key: str) -> bytes:
    return f"{kind}\0{key}".encode()


LOCK_FIELD = field_of(LOCK_KIND, ONLY)


def token_in(value: bytes | None) -> bytes:
    return UNLOCKED if value is None else unpacked(value)[1]


def packed(row: Row) -> bytes:
    if row.body is None:
        return b""
    return b":" + row.body if row.due_ms is None else b"%d:%b" % (row.due_ms, row.body)


def unpacked(value: bytes) -> tuple[int | None, bytes]:
    due, _, body = value.partition(b":")
    return (int(due) if due else None), body


def row_of(field: bytes, value: bytes) -> Row:
    kind, _, key = field.partition(b"\0")
    due_ms, body = unpacked(value)
    return Row(kind.decode(), key.decode(), body, due_ms)


DUE_DIGITS = 16


def due_digits(due_ms: int) -> bytes:
    """Digits that sort as the numbers do, those below zero too."""
    return b"%016x" % (due_ms + 2**63)


def due_name(log: str, row: Row) -> bytes:
    return due_digits(row.due_ms or 0) + log.encode() + b"\0" + field_of(row.kind, row.key)
