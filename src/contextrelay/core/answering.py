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
    "ListCapabilities": "capabilities",
    "Invoke": "capabilities",
    "PurgeCache": "capabilities",
}


def answer(stores: Stores, verb: Verb[Reply], body: Body = b"", key: str = "") -> Reply:
    """Answer a verb; its body comes beside it.

    With an idempotency key it is done once in KEY_KEPT_S, however often it is asked.
    """
    kind: type[Verb[Any]] = type(verb)
    function = _answers.get(kind)
    if function is None:
        import_module(f"contextrelay.core.{_FILES[kind.__name__]}")
        function = _answers[kind]
    if key:
        from contextrelay.core.once import answer_once

        return answer_once(stores, verb, body, key, function)
    return function(stores, verb, body)


def answer_pushes(stores: Stores, asked: list[tuple[Push, bytes]]) -> list[Artifact | RelayError]:
    """Answer pushes that came side by side: together if that is possible, each for itself if not.

    None of them has a key or goes into a thread.
    """
    from contextrelay.core.pushes import push_each

    return push_each(stores, asked)
