"""Replay: every version of a document from its patches, each sharing what did not change.

Rule: a version is made by copying only the containers on the way to a change, so a hundred versions
cost little more than one. They are to be read: what is changed in one would show in others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import MsgspecError, convert

from contextrelay.documents.patch import Operation, apply
from contextrelay.documents.pointer import Tokens, parse
from contextrelay.documents.values import is_list, is_object
from contextrelay.errors import Broken, RelayError
from contextrelay.model.artifact import spell
from contextrelay.model.thread import CREATED, PATCHED, Event

_UNBOUNDED = 1 << 62


def versions(first: Any, patches: Iterable[list[Operation]]) -> Iterator[Any]:
    """Yield a document, then what each patch makes of the one before."""
    document = first
    yield document
    for operations in patches:
        holder = [document]
        fresh: set[int] = {id(holder)}
        for operation in operations:
            for path in (operation.path, operation.from_):
                if isinstance(path, str):
                    _detach(holder, parse(path), fresh)
            apply(holder, [operation], 0, _UNBOUNDED)
        document = holder[0]
        yield document


def states(events: Iterable[Event]) -> Iterator[dict[str, Any]]:
    """Yield a thread's state at every version, out of its events.

    Raises:
        Broken: the events do not lead to a state.
    """
    try:
        yield from _states(events)
    except (MsgspecError, RelayError, LookupError, TypeError, ValueError, RuntimeError) as error:
        raise Broken(
            f"the events do not lead to a state: {error!r}", "see what with: relay verify"
        ) from error


def _states(events: Iterable[Event]) -> Iterator[dict[str, Any]]:
    changes = (event for event in events if event.type in (CREATED, PATCHED))
    first = next(changes)
    patches: list[Event] = []

    def operations() -> Iterator[list[Operation]]:
        for event in changes:
            patches.append(event)
            yield convert(event.detail["operations"], list[Operation])

    for document in versions(first.detail["state"], operations()):
        if not patches:
            yield document
            continue
        event = patches.pop()
        stamp = {name: event.detail[name] for name in ("version", "metrics")}
        yield {**document, **stamp, "updated_at": spell(event.at)}


def _detach(holder: list[Any], tokens: Tokens, fresh: set[int]) -> None:
    """Copy the containers on the way to a place, unless this version has made them itself."""
    container: Any = holder
    key: Any = 0
    for token in tokens:
        below = container[key]
        if id(below) not in fresh:
            below = below.copy() if is_object(below) or is_list(below) else below
            container[key] = below
            fresh.add(id(below))
        if is_list(below) and token.isdecimal() and int(token) < len(below):
            container, key = below, int(token)
        elif is_object(below) and token in below:
            container, key = below, token
        else:
            return
