"""Registry: maps each verb to its function. Each file of core registers its own here.

`answer.py` imports those files and calls their functions, so files below it do not import it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from contextrelay.core.stores import Stores
from contextrelay.verbs import Body, Verb

AnyVerb = TypeVar("AnyVerb", bound=Verb[Any])
Reply = TypeVar("Reply")

ANSWERS: dict[type[Verb[Any]], Callable[[Stores, Any, Body], Any]] = {}


def answers(
    verb: type[AnyVerb],
) -> Callable[[Callable[[Stores, AnyVerb, Body], Reply]], Callable[[Stores, AnyVerb, Body], Reply]]:
    """Register a function as the answer to a verb."""

    def register(
        function: Callable[[Stores, AnyVerb, Body], Reply],
    ) -> Callable[[Stores, AnyVerb, Body], Reply]:
        assert verb not in ANSWERS, f"{verb.__name__} is registered twice"
        ANSWERS[verb] = function
        return function

    return register
