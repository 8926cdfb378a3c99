"""State: the memory of a thread, which has numbered versions."""

from __future__ import annotations

from functools import partial
from typing import Any

from contextrelay.model.ref import Ref
from contextrelay.model.thread import Changes, HeaderView, Patched, StateView
from contextrelay.verbs.verb import (
    Author,
    Traits,
    Verb,
    Version,
)

_reads = partial(Traits, needs="read", answered_in="threads.state")
_changes = partial(Traits, needs="write", answered_in="threads.state", keyed=True, fails=(409,))


class ReadState(Verb[StateView], frozen=True):
    """Return the whole state of a thread, at its current or an earlier version."""

    traits = _reads(http="GET /v1/threads/{thread}/state")

    thread: Ref
    version: Version | None = None


class ReadHeader(Verb[HeaderView], frozen=True):
    """Return the size-limited view of a state that is included in a prompt."""

    traits = _reads(http="GET /v1/threads/{thread}/header")

    thread: Ref
    version: Version | None = None


class PatchState(Verb[Patched], frozen=True):
    """Change a state by JSON Patch operations: all of them, or none.

    `expected`: fail unless the state is at this version. `merge`: with `expected`, also apply the
    patch to a later version, if the later changes touch nothing that this patch touches.
    """

    traits = _changes(http="PATCH /v1/threads/{thread}/state")

    thread: Ref
    operations: list[Any]
    expected: Version | None = None
    merge: bool = False
    by: Author = ""


class TryPatch(Verb[Patched], frozen=True):
    """Return the result of a patch, or the reason why it would be refused, without changing the
    state.
    """

    traits = Traits(
        needs="write",
        answered_in="threads.state",
        http="POST /v1/threads/{thread}/state/try",
        fails=(409, 422),
    )

    thread: Ref
    operations: list[Any]


class DiffState(Verb[Changes], frozen=True):
    """Return the operations that lead from one version of a state to another."""

    traits = _reads(http="GET /v1/threads/{thread}/diff")

    thread: Ref
    old_version: Version
    new_version: Version | None = None


class RestoreState(Verb[Patched], frozen=True):
    """Restore an old version of a state as the newest one."""

    traits = _changes(http="POST /v1/threads/{thread}/restore")

    thread: Ref
    version: Version
    by: Author = ""


class CompactState(Verb[Patched], frozen=True):
    """Compact a state now; patches compact it automatically when needed."""

    traits = _changes(http="POST /v1/threads/{thread}/compact")

    thread: Ref
    by: Author = ""


class AdoptState(Verb[Patched], frozen=True):
    """Apply a manual edit of the mirrored file state.json as a patch."""

    traits = Traits(needs="owner", answered_in="threads.mirror", keyed=True)

    thread: Ref
    by: Author = ""
