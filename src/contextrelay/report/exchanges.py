"""Exchanges: what a model was sent and answered in one call, read for a page.

Rule: an exchange is words of others. Each text is cut, and defused and fenced when it is shown; an
exchange that cannot be read says so and stops nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from msgspec import DecodeError
from msgspec.json import decode, encode

from contextrelay.cli import display
from contextrelay.client.relay import Relay
from contextrelay.documents.values import is_list, is_object
from contextrelay.errors import RelayError
from contextrelay.limits import (
    TRACE_EXCHANGE_BYTES_MAX,
    TRACE_EXCHANGE_TEXT_BYTES_MAX,
    TRACE_EXCHANGE_TEXTS_MAX,
)

_NOT_READ = (RelayError, DecodeError, UnicodeError, RecursionError)


class Said(NamedTuple):
    """One text of an exchange."""

    by: str
    text: str
    left_out_bytes: int


def read_exchange(relay: Relay, ref: str) -> list[Said]:
    """The texts of an exchange in the order in which they were said."""
    try:
        artifact = relay.peek(ref)
        if artifact.size_bytes > TRACE_EXCHANGE_BYTES_MAX:
            size = display.size(artifact.size_bytes)
            return [Said("relay", f"{size}, too large to show here: relay pull {ref}", 0)]
        every = list(_said(decode(relay.pull(ref))))
    except _NOT_READ as error:
        return [Said("relay", f"it cannot be read: {error}", 0)]
    if len(every) <= TRACE_EXCHANGE_TEXTS_MAX:
        return every
    left_out = len(every) - TRACE_EXCHANGE_TEXTS_MAX
    rest = Said("relay", f"{left_out:,} earlier texts are not shown: relay pull {ref}", 0)
    return [rest, *every[left_out:]]


def _said(recorded: Any) -> Iterator[Said]:
    prompt, reply = _object(_object(recorded).get("prompt")), _object(recorded).get("reply")
    if prompt.get("system"):
        yield _cut("system", prompt["system"])
    for message in _items(prompt.get("messages")):
        yield from _message(str(_object(message).get("role")), message)
    yield from _message("answer", reply)
    for result in _items(_object(recorded).get("results")):
        yield _result(result)


def _message(by: str, message: Any) -> Iterator[Said]:
    fields = _object(message)
    if fields.get("text"):
        yield _cut(by, fields["text"])
    for call in _items(fields.get("calls")):
        yield _cut(f"{by} calls {_object(call).get('name')}", _object(call).get("arguments"))
    for result in _items(fields.get("results")):
        yield _result(result)


def _result(result: Any) -> Said:
    fields = _object(result)
    failed = " (error)" if fields.get("is_error") else ""
    return _cut(f"result of {fields.get('call_id')}{failed}", fields.get("text"))


def _cut(by: str, value: Any) -> Said:
    raw = (value if isinstance(value, str) else encode(value).decode()).encode(errors="replace")
    text = raw[:TRACE_EXCHANGE_TEXT_BYTES_MAX].decode(errors="ignore")
    return Said(by, text, max(0, len(raw) - TRACE_EXCHANGE_TEXT_BYTES_MAX))


def _object(value: Any) -> dict[str, Any]:
    return value if is_object(value) else {}


def _items(value: Any) -> list[Any]:
    return value if is_list(value) else []
