"""The way in: stores are opened, and `answer` answers every verb that is asked of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from importlib import import_module
from typing import Any, TypeVar

from contextrelay.core.registry import ANSWERS
from contextrelay.core.schema import RESTORE, UNREADABLE, RowKind
from contextrelay.core.stores import Stores
from contextrelay.errors import Broken, Invalid, RelayError
from contextrelay.model.artifact import Artifact
from contextrelay.model.settings import Settings
from contextrelay.store.engine import open_engine, settings_in
from contextrelay.store.ledger import ONLY
from contextrelay.verbs import Body, Push, Verb

Reply = TypeVar("Reply")


def open_stores(
    address: str, blobs: str = "", settings: Settings | None = None, *, is_source: bool = False
) -> Stores:
    """Open the engine at an address with the given settings, or those in its folder.

    `blobs`: where its large bodies are to be, else with the rest. `is_source`: it is only read, to
    be moved elsewhere.
    """
    engine = open_engine(address, blobs, is_source=is_source)
    if settings is None:
        try:
            settings = settings_in(engine.home)
        except Invalid:
            engine.close()
            raise
    stores = Stores(engine, settings)
    if not (engine.is_read_only or is_source):
        # A store that is locked or full now is looked at when it is opened the next time.
        with suppress(RelayError):
            if stores.ledger.get(RESTORE, RowKind.FINISHED, ONLY) is None:
                from contextrelay.core.upgrade import finish_pushes

                finish_pushes(stores)
    return stores


def answer(stores: Stores, verb: Verb[Reply], body: Body = b"", key: str = "") -> Reply:
    """Answer a verb that may come with a body.

    With an idempotency key it is done once in KEY_KEPT_S, however often it is asked. Whether the
    caller may ask it is decided in core/access.py.
    """
    kind: type[Verb[Any]] = type(verb)
    bounded = stores.ledger.may_lose and not kind.traits.slow
    try:
        with stores.ledger.bounded() if bounded else _UNBOUNDED:
            return _answer(stores, verb, body, key)
    except UNREADABLE as error:
        raise _damaged(error) from error


_UNBOUNDED = nullcontext()


def _damaged(error: Exception) -> Broken:
    # What is read here was stored: requests are decoded before.
    return Broken(
        f"a stored record cannot be read: {error}", "see what is damaged with: relay verify"
    )


def _answer(stores: Stores, verb: Verb[Reply], body: Body, key: str) -> Reply:
    function = _admitted(stores, verb)
    if key:
        from contextrelay.core.idempotency import answer_once

        reply = answer_once(stores, verb, body, key, function)
    else:
        reply = function(stores, verb, body)
    if verb.traits.counted and stores.is_counted:
        _count(stores, verb, reply)
    return reply if stores.caller is None else stores.caller.shown(stores, reply)


def _admitted(stores: Stores, verb: Verb[Any]) -> Callable[[Stores, Any, Body], Any]:
    """Return the function that answers a verb for the caller of the stores.

    Raises:
        Forbidden: the verb is not for this caller.
        Unavailable: the store is locked for a restore.
    """
    kind: type[Verb[Any]] = type(verb)
    if not kind.traits.while_locked:
        stores.lock_check.refuse_locked(stores.ledger)
    function = ANSWERS.get(kind)
    if function is None:
        # Imported when it is first asked: this keeps the start of a short command short.
        import_module(f"contextrelay.core.{kind.traits.answered_in}")
        function = ANSWERS[kind]
    return function if stores.caller is None else stores.caller.admit(verb, function)


_note: Callable[[Stores, Verb[Any], Any], None] | None = None


def _count(stores: Stores, verb: Verb[Any], reply: Any) -> None:
    global _note
    if _note is None:
        from contextrelay.core.accounting.usage import note

        _note = note
    _note(stores, verb, reply)


# Pushes that arrive side by side

Asked = tuple[Stores, Push, Body, str]
"""A push as its caller sees the stores, its body, and its idempotency key, "" for none."""


def answer_pushes(asked: Sequence[Asked]) -> list[Artifact | RelayError]:
    """Answer pushes as `answer` does, each by itself; those that may share a commit do so."""
    replies: list[Artifact | RelayError] = []
    groups: dict[str | None, list[tuple[int, Push, bytes]]] = {}
    for index, (stores, verb, body, key) in enumerate(asked):
        reply: Artifact | RelayError = _NOT_ANSWERED
        try:
            if isinstance(body, bytes) and can_share_commit(stores, verb, key):
                _admitted(stores, verb)
                groups.setdefault(stores.tenant, []).append((index, verb, body))
            else:
                reply = answer(stores, verb, body, key)
        except RelayError as error:
            reply = error
        replies.append(reply)
    for group in groups.values():
        space = asked[group[0][0]][0].space
        pushed = _pushed(space, [(verb, body) for _, verb, body in group])
        for (index, _, _), reply in zip(group, pushed, strict=True):
            replies[index] = reply
    return replies


_NOT_ANSWERED = Invalid("not answered")


def can_share_commit(stores: Stores, verb: Push, key: str) -> bool:
    """Return whether a push may share a commit with pushes of other callers of its space.

    One into a thread commits with its patch, one with a key or a quota with what is counted there;
    one with sources or parts may find them gone at its commit.
    """
    caller = stores.caller
    return (
        not key
        and verb.thread is None
        and not verb.source_refs
        and not verb.parts
        and (caller is None or (caller.key.quota_bytes is None and not caller.key.is_limited))
    )


def _pushed(space: Stores, pushes: list[tuple[Push, bytes]]) -> Sequence[Artifact | RelayError]:
    from contextrelay.core.push.push import push_each

    try:
        with space.ledger.bounded() if space.ledger.may_lose else _UNBOUNDED:
            return push_each(space, pushes)
    except UNREADABLE as error:
        return [_damaged(error)] * len(pushes)
    except RelayError as error:
        return [error] * len(pushes)
