"""State: the memory of a thread, read and changed by version."""

from __future__ import annotations

from functools import partial
from typing import Any

from contextrelay.model.ref import Ref
from contextrelay.model.thread import Changes, HeaderView, Patched, StateView
from contextrelay.verbs.verb import Label, Traits, Verb, Version

_reads = partial(Traits, needs="read", answered_in="threads.state")
_changes = partial(Traits, needs="write", answered_in="threads.state", keyed=True, fails=(409,))


class ReadState(Verb[StateView], frozen=True):
    """Read a whole state, at its current or an earlier version."""

    traits = _reads(http="GET /v1/threads/{thread}/state")

    thread: Ref
    version: Version | None = None


class ReadHeader(Verb[HeaderView], frozen=True):
    """Read the bounded view of a state that goes into a prompt."""

    traits = _reads(http="GET /v1/threads/{thread}/header")

    thread: Ref
    version: Version | None = None


class PatchState(Verb[Patched], frozen=True):
    """Change a state by JSON Patch operations: all of them, or none.

    `expected`: only if the state is at this version. `merge`: also if later changes do not touch
    what this patch touches.
    """

    traits = _changes(http="PATCH /v1/threads/{thread}/state")

    thread: Ref
    operations: list[Any]
    expected: Version | None = None
    merge: bool = False
    by: Label = "you"


class TryPatch(Verb[Patched], frozen=True):
    """Show the result of a patch, or why it would be refused; nothing is changed."""

    traits = Traits(
        needs="write",
        answered_in="threads.state",
        http="POST /v1/threads/{thread}/state/try",
        fails=(409, 422),
    )

    thread: Ref
    operations: list[Any]


class DiffState(Verb[Changes], frozen=True):
    """Return the operations that lead from one version to another."""

    traits = _reads(http="GET /v1/threads/{thread}/diff")

    thread: Ref
    old_version: Version
    new_version: Version | None = None


class RestoreState(Verb[Patched], frozen=True):
    """Restore an old version as the newest one."""

    traits = _changes(http="POST /v1/threads/{thread}/restore")

    thread: Ref
    version: Version
    by: Label = "you"


class CompactState(Verb[Patched], frozen=True):
    """Compact a state now; patches do this automatically when needed."""

    traits = _changes(http="POST /v1/threads/{thread}/compact")

    thread: Ref
    by: Label = "you"


class AdoptState(Verb[Patched], frozen=True):
    """Apply a manual edit of the mirrored state.json as a patch."""

    traits = Traits(needs="owner", answered_in="threads.mirror", keyed=True)

    thread: Ref
    by: Label = "you"
