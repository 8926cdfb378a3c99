"""Histories: the events of a foreign thread, followed under the limits that hold for patches.

Rule: at every version the state is one that a patch could have led to here. The chain of hashes is
followed as well: so an archive that was damaged or edited is known from one that was exported so.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import ValidationError, convert
from msgspec.structs import replace

from contextrelay.core.threads.head import Live
from contextrelay.documents.bounds import check_json, check_label
from contextrelay.documents.patch import Operation, Step, apply
from contextrelay.documents.pointer import find, parse
from contextrelay.documents.values import encoded_bytes, is_object
from contextrelay.errors import Broken, Invalid, TooLarge
from contextrelay.limits import ARCHIVE_HISTORY_BYTES_MAX, STATE_BYTES_MAX
from contextrelay.model.thread import CREATED, PATCHED, Event
from contextrelay.state import event_chain
from contextrelay.state.schema import check_patch, check_state, check_touched, new_state


class History:
    """A foreign history on its way: how many events, and which version they have led to.

    `known`: the artifacts that a state in it may name.
    """

    def __init__(self, thread: str, known: set[str]) -> None:
        self.count = 0
        self._thread = thread
        self._known = known
        self._live = Live()
        self._last = b""
        self._copied_bytes = 0

    @property
    def version(self) -> int:
        return self._live.version

    def take(self, event: Event) -> None:
        """Follow one event, which is used up by it.

        Raises:
            Broken: it is not what once followed the one before.
            Invalid: no thread of ours can have such an event there.
        """
        self.count += 1
        check_label(event.id, f"the id of event {self.count}")
        check_label(event.type, f"the type of event {self.count}")
        check_label(event.by, f"the author of event {self.count}")
        self._last = event_chain.encode(replace(event, hash=""), self._last)
        if self._last[: event_chain.HASH_BYTES].hex() != event.hash:
            raise Broken(f"event {self.count} has changed in the archive", "export it again")
        if event.type == CREATED:
            self._begin(event)
        elif event.type == PATCHED:
            self._patch(event)

    def _begin(self, event: Event) -> None:
        state = event.detail.get("state")
        if self.version or not is_object(state):
            raise self._wrong("a thread has one first state")
        size_bytes = len(check_json(state, "the first state", STATE_BYTES_MAX))
        check_state(state, self._known.__contains__)
        if (state["version"], state["thread_id"]) != (1, self._thread):
            raise self._wrong("it is no first state of this thread")
        try:
            is_aware = datetime.fromisoformat(state["updated_at"]).tzinfo is not None
        except ValueError:
            is_aware = False
        if not is_aware:
            raise self._wrong("/updated_at is no time")
        self._live.state, self._live.version, self._live.size_bytes = [state], 1, size_bytes

    def _patch(self, event: Event) -> None:
        live, version = self._live, event.detail.get("version")
        if not live.version or type(version) is not int or version != live.version + 1:
            raise self._wrong(f"it does not lead on from version {live.version}")
        try:
            operations = convert(event.detail.get("operations"), list[Operation])
        except ValidationError as error:
            raise self._wrong(str(error)) from error
        check_patch(operations)
        steps: list[Step] = []
        for operation in operations:
            self._count_copied(operation)
            applied = apply(live.state, [operation], live.size_bytes, STATE_BYTES_MAX)
            live.size_bytes = applied.size_bytes
            steps += applied.steps
        check_touched(live.document, steps, self._known.__contains__)
        figures = {"metrics": event.detail.get("metrics")}
        check_state({**new_state(self._thread, ""), **figures}, self._known.__contains__)
        live.version = version
        live.stamp(event)

    def _count_copied(self, operation: Operation) -> None:
        """Bound what copies cost: each may be of a whole state, named in a few bytes."""
        if operation.op == "copy" and isinstance(operation.from_, str):
            copied: Any = find(self._live.document, parse(operation.from_))
            self._copied_bytes += encoded_bytes(copied)
            if self._copied_bytes > ARCHIVE_HISTORY_BYTES_MAX:
                raise TooLarge(
                    f"the history copies too much: event {self.count}",
                    f"at most {ARCHIVE_HISTORY_BYTES_MAX} bytes in all",
                )

    def _wrong(self, why: str) -> Invalid:
        return Invalid(
            f"event {self.count} in the archive has no place there: {why}",
            "take a file made by: relay export",
        )
