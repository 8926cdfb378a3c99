"""Answering: `answer` is the only way into core."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from contextrelay.core.registry import ANSWERS
from contextrelay.core.schema import UNREADABLE
from contextrelay.core.stores import Stores
from contextrelay.errors import Broken, RelayError
from contextrelay.model.artifact import Artifact
from contextrelay.verbs import Body, Push, Verb

Reply = TypeVar("Reply")


def answer(stores: Stores, verb: Verb[Reply], body: Body = b"", key: str = "") -> Reply:
    """Answer a verb that may come with a body.

    With an idempotency key it is done once in KEY_KEPT_S, however often it is asked. Whether the
    caller may ask it is decided in core/access/callers.py.
    """
    kind: type[Verb[Any]] = type(verb)
    try:
        if stores.ledger.may_lose and not kind.traits.slow:
            with stores.ledger.bounded():
                return _answer(stores, kind, verb, body, key)
        return _answer(stores, kind, verb, body, key)
    except UNREADABLE as error:
        # What is read here was stored: requests are decoded before.
        raise Broken(
            f"a stored record cannot be read: {error}", "see what is damaged with: relay verify"
        ) from error


def _answer(
    stores: Stores, kind: type[Verb[Any]], verb: Verb[Reply], body: Body, key: str
) -> Reply:
    if not kind.traits.while_locked:
        stores.lock_check.refuse_locked(stores.ledger)
    function = ANSWERS.get(kind)
    if function is None:
        # Imported when it is first asked: this keeps the start of a short command short.
        import_module(f"contextrelay.core.{kind.traits.answered_in}")
        function = ANSWERS[kind]
    if stores.caller is not None:
        function = stores.caller.admit(verb, function)
    if key:
        from contextrelay.core.idempotency import answer_once

        reply = answer_once(stores, verb, body, key, function)
    else:
        reply = function(stores, verb, body)
        if kind.traits.counted and stores.is_counted:
            _count(stores, verb, reply)
    return reply if stores.caller is None else stores.caller.shown(stores, reply)


_note: Callable[[Stores, Verb[Any], Any], None] | None = None


def _count(stores: Stores, verb: Verb[Any], reply: Any) -> None:
    global _note
    if _note is None:
        from contextrelay.core.accounting.usage import note

        _note = note
    _note(stores, verb, reply)


def answer_pushes(stores: Stores, asked: list[tuple[Push, bytes]]) -> list[Artifact | RelayError]:
    """Answer pushes that came side by side: together if that is possible, each for itself if not.

    None of them has a key or goes into a thread.
    """
    from contextrelay.core.push.push import push_each

    return push_each(stores, asked)
