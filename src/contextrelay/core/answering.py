"""Answering: which function answers which verb. `answer` is the only way into core."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from contextrelay.core.stores import Stores
from contextrelay.errors import RelayError
from contextrelay.model.artifact import Artifact
from contextrelay.wire.verbs import Body, Push, Verb

AnyVerb = TypeVar("AnyVerb", bound=Verb[Any])
Reply = TypeVar("Reply")

_answers: dict[type[Verb[Any]], Callable[[Stores, Any, Body], Any]] = {}


def answers(
    verb: type[AnyVerb],
) -> Callable[[Callable[[Stores, AnyVerb, Body], Reply]], Callable[[Stores, AnyVerb, Body], Reply]]:
    """Register a function as the answer to a verb."""

    def register(
        function: Callable[[Stores, AnyVerb, Body], Reply],
    ) -> Callable[[Stores, AnyVerb, Body], Reply]:
        assert verb not in _answers, f"{verb.__name__} is answered twice"
        _answers[verb] = function
        return function

    return register


# A verb's file is imported when it is first asked: this keeps the start of a short command short.
_FILES = {
    "Push": "pushes",
    "PushMany": "pushes",
    "Pull": "pulls",
    "Peek": "artifacts",
    "Find": "artifacts",
    "List": "artifacts",
    "Trace": "artifacts",
    "Outline": "outlines",
    "Digest": "outlines",
    "Slice": "slices",
    "Grep": "greps",
    "Search": "search",
    "RebuildSearch": "search",
    "DiffRefs": "slices",
    "Pin": "lives",
    "Extend": "lives",
    "Remove": "lives",
    "Sweep": "sweep",
    "Verify": "verify",
    "Backup": "backups",
    "Restore": "backups",
    "Survey": "survey",
    "Publish": "channels",
    "ReadSignals": "channels",
    "ListChannels": "channels",
    "ReadState": "states",
    "ReadHeader": "states",
    "PatchState": "states",
    "DiffState": "states",
    "RestoreState": "states",
    "CompactState": "states",
    "ReadStats": "savings",
    "ReadSavings": "savings",
    "NewThread": "threads",
    "OpenThread": "threads",
    "ShowThread": "threads",
    "FindThreads": "threads",
    "ListThreads": "threads",
    "ListThreadArtifacts": "threads",
    "ForkThread": "threads",
    "CloseThread": "threads",
    "RemoveThread": "threads",
    "UseThread": "threads",
    "LastUsedThread": "threads",
    "ReadEvents": "threads",
    "AddEvent": "threads",
    "MakeCheckpoint": "threads",
    "ExportThread": "portable",
    "ImportThread": "portable",
    "MirrorThread": "mirror",
    "AdoptState": "mirror",
    "Pack": "packages",
    "GiveHandoff": "handoffs",
    "AcceptHandoff": "handoffs",
    "ReturnHandoff": "handoffs",
    "ShowHandoff": "handoffs",
    "ListHandoffs": "handoffs",
    "ListCapabilities": "capabilities",
    "NewKey": "keys",
    "ListKeys": "keys",
    "RevokeKey": "keys",
    "ReadUsage": "keys",
    "Invoke": "capabilities",
    "PurgeCache": "capabilities",
}


def answer(stores: Stores, verb: Verb[Reply], body: Body = b"", key: str = "") -> Reply:
    """Answer a verb; its body comes beside it.

    With an idempotency key it is done once in KEY_KEPT_S, however often it is asked. Whether who
    asks may, their stores know (core/access.py).
    """
    kind: type[Verb[Any]] = type(verb)
    function = _answers.get(kind)
    if function is None:
        import_module(f"contextrelay.core.{_FILES[kind.__name__]}")
        function = _answers[kind]
    if stores.caller is not None:
        function = stores.caller.admit(verb, function)
    if key:
        from contextrelay.core.once import answer_once

        return answer_once(stores, verb, body, key, function)
    reply = function(stores, verb, body)
    if kind.__name__ in _COUNTED:
        _count(stores, verb, reply)
    return reply


# What shows a reader something of an artifact: what it cost is counted (core/spending.py).
_COUNTED = frozenset(
    ("Peek", "Pull", "Outline", "Digest", "Slice", "Grep", "Search", "DiffRefs", "Pack")
)
_note: Callable[[Stores, Verb[Any], Any], None] | None = None


def _count(stores: Stores, verb: Verb[Any], reply: Any) -> None:
    global _note
    if _note is None:
        from contextrelay.core.spending import note

        _note = note
    _note(stores, verb, reply)


def answer_pushes(stores: Stores, asked: list[tuple[Push, bytes]]) -> list[Artifact | RelayError]:
    """Answer pushes that came side by side: together if that is possible, each for itself if not.

    None of them has a key or goes into a thread.
    """
    from contextrelay.core.pushes import push_each

    return push_each(stores, asked)
