"""The entry point: open stores, and answer every verb sent to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from importlib import import_module
from typing import Any, TypeVar

from msgspec.structs import replace

from contextrelay.core.registry import ANSWERS
from contextrelay.core.schema import KEY_NAMES, RESTORE, UNREADABLE, RowKind, damaged
from contextrelay.core.stores import Stores, author_name
from contextrelay.errors import Invalid, RelayError
from contextrelay.model.artifact import Artifact
from contextrelay.model.settings import Settings
from contextrelay.store.engine import open_engine, settings_in
from contextrelay.store.ledger import ONLY
from contextrelay.verbs import Body, Push, PushMany, Verb
from contextrelay.verbs.verb import AnyVerb, check_verb

Reply = TypeVar("Reply")


def open_stores(
    address: str, blobs: str = "", settings: Settings | None = None, *, is_source: bool = False
) -> Stores:
    """Open the engine at an address with the given settings, or with those stored in its folder.

    `blobs`: the address for large bodies, if they are stored elsewhere. `is_source`: the store is
    only read, to be migrated.
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
        # If the store is locked or full now, the upgrade is done at the next open.
        with suppress(RelayError):
            finished = {row.key for row in stores.ledger.rows(RESTORE, RowKind.FINISHED, "", 2)}
            if finished != {ONLY, KEY_NAMES}:
                from contextrelay.core.access import rename_duplicates
                from contextrelay.core.upgrade import finish_pushes

                if KEY_NAMES not in finished:
                    rename_duplicates(stores)
                if ONLY not in finished:
                    finish_pushes(stores)
    return stores


def answer(stores: Stores, verb: Verb[Reply], body: Body = b"", key: str = "") -> Reply:
    """Check a verb, execute it, with its body if it has one, and return the reply.

    A request with an idempotency key is executed once within KEY_KEPT_S, however often it is sent.
    core/access.py decides whether the caller may send the request.
    """
    kind: type[Verb[Any]] = type(verb)
    if kind.traits.http:
        verb = check_verb(verb)
    verb = attributed(stores, verb)
    bounded = stores.ledger.may_lose and not kind.traits.slow
    try:
        with stores.ledger.failover_deadline() if bounded else _UNBOUNDED:
            return _answer(stores, verb, body, key)
    except UNREADABLE as error:
        # Requests are decoded earlier: a decoding error here is in stored data.
        raise damaged(error) from error


_UNBOUNDED = nullcontext()


def _answer(stores: Stores, verb: Verb[Reply], body: Body, key: str) -> Reply:
    function = _admitted(stores, verb)
    if key:
        from contextrelay.core.idempotency import answer_once

        reply = answer_once(stores, verb, body, key, function)
    else:
        reply = function(stores, verb, body)
    if verb.traits.counted and stores.is_counted:
        _count(stores, verb, reply)
    return reply if stores.caller is None else stores.caller.without_hidden_refs(stores, reply)


def _admitted(stores: Stores, verb: Verb[Any]) -> Callable[[Stores, Any, Body], Any]:
    """Return the function that answers a verb for the caller of the stores.

    Raises:
        Forbidden: the caller may not use the verb.
        Unavailable: the store is locked for a restore.
    """
    kind: type[Verb[Any]] = type(verb)
    if not kind.traits.while_locked:
        stores.lock_check.refuse_locked(stores.ledger)
    function = ANSWERS.get(kind)
    if function is None:
        # Import on first use, so that short commands start fast.
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


# Authors

_AUTHOR_FIELDS = ("by", "created_by")


def attributed(stores: Stores, verb: AnyVerb) -> AnyVerb:
    """Return a verb with the name of its author, as it is recorded."""
    if isinstance(verb, PushMany):
        return replace(verb, items=[attributed(stores, each) for each in verb.items])
    for name in _AUTHOR_FIELDS:
        if (given := getattr(verb, name, None)) is not None:
            author = author_name(stores, given)
            return verb if author == given else replace(verb, **{name: author})
    return verb


# Concurrent pushes

PushRequest = tuple[Stores, Push, Body, str]
"""A push: the stores as its caller sees them, the verb, its body, and its idempotency key or ""."""


def answer_pushes(asked: Sequence[PushRequest]) -> list[Artifact | RelayError]:
    """Answer concurrent pushes as `answer` does; pushes that can share a commit share one."""
    replies: list[Artifact | RelayError] = []
    groups: dict[str | None, list[tuple[int, Push, bytes]]] = {}
    for index, (stores, verb, body, key) in enumerate(asked):
        reply: Artifact | RelayError = _NOT_ANSWERED
        try:
            if isinstance(body, bytes) and can_share_commit(stores, verb, key):
                verb = attributed(stores, check_verb(verb))
                _admitted(stores, verb)
                groups.setdefault(stores.tenant, []).append((index, verb, body))
            else:
                reply = answer(stores, verb, body, key)
        except RelayError as error:
            reply = error
        replies.append(reply)
    for group in groups.values():
        space = asked[group[0][0]][0].space
        pushed = _push_together(space, [(verb, body) for _, verb, body in group])
        for (index, _, _), reply in zip(group, pushed, strict=True):
            replies[index] = reply
    return replies


_NOT_ANSWERED = Invalid("not answered")


def can_share_commit(stores: Stores, verb: Push, key: str) -> bool:
    """Return True if a push may share a commit with pushes of other callers of the same space.

    A push into a thread commits with its patch, and a push with a key or a quota commits with rows
    of its own. The sources or parts of a push may be gone when it commits.
    """
    caller = stores.caller
    return (
        not key
        and verb.thread is None
        and not verb.source_refs
        and not verb.parts
        and (caller is None or (caller.key.quota_bytes is None and not caller.key.is_limited))
    )


def _push_together(
    space: Stores, pushes: list[tuple[Push, bytes]]
) -> Sequence[Artifact | RelayError]:
    from contextrelay.core.push.push import push_each

    try:
        with space.ledger.failover_deadline() if space.ledger.may_lose else _UNBOUNDED:
            return push_each(space, pushes)
    except UNREADABLE as error:
        return [damaged(error)] * len(pushes)
    except RelayError as error:
        return [error] * len(pushes)
