"""Checks of recorded tool results: whether each tool would answer the same now.

Rule: nothing is written. A search is not done again: what it finds depends on all that came since;
that the refs which it showed are still there is checked with those of every tool.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.json import decode

from contextrelay.client.flow import Flow, Work
from contextrelay.errors import RelayError
from contextrelay.limits import REPLAY_OPEN_RUNS_MAX, REPLAY_VERSIONS_TRIED
from contextrelay.model.trace import ToolUse
from contextrelay.runs.draft import Draft, RelayState
from contextrelay.runs.files import TrackedFiles
from contextrelay.runs.provider import ToolCall, ToolResult
from contextrelay.runs.tools import RelayPut, RelayRead, Toolbox, arguments_of, noted_text
from contextrelay.verbs import Pull, ReadState

_AT = "2000-01-01T00:00:00Z"
"""When a note is made does not decide its id."""


class Recorded(Struct, frozen=True):
    """A tool call as it was recorded, and the versions that the state may have had then."""

    run: str
    use: ToolUse
    asked: ToolCall
    result: ToolResult
    versions: range


class ToolChecks:
    """Checks of one thread. `files`: a folder that the tools for files are compared with."""

    def __init__(self, thread: str, files: TrackedFiles | None) -> None:
        self._thread = thread
        self._files = files
        self._drafts: dict[str, Draft] = {}
        """What models have noted in runs that have not ended."""

    def trouble(self, done: Recorded) -> Flow[str]:
        """Why a recorded result does not hold any more; "" where it does."""
        check = _CHECKS.get(done.use.name)
        if check is None:
            return ""
        if done.asked.name != done.use.name:
            return f"by the record it is {done.use.name}, and another was asked for"
        try:
            return (yield from check(self, done))
        except RelayError as error:
            return "" if done.result.is_error else error.message

    def end(self, run: str) -> None:
        """Forget the draft of a run."""
        self._drafts.pop(run, None)

    def look(self, done: Recorded) -> Flow[str]:
        toolbox = Toolbox(self._thread, done.run, "replay", self._files)
        toolbox.refs.update(dict.fromkeys(done.use.refs))
        now = (yield from toolbox.use(done.asked)).result
        is_same = now.is_error and done.result.is_error
        if now.is_error == done.result.is_error:
            is_same = is_same or now.text == done.result.text
        return "" if is_same else "it shows something else now"

    def note(self, done: Recorded) -> Flow[str]:
        """The same entries, noted in the state of then, have to get the same ids."""
        if done.result.is_error:
            return ""
        asked: RelayState = arguments_of(done.asked)
        draft = self._drafts.get(done.run, Draft()).with_state(asked)
        if done.run in self._drafts or len(self._drafts) < REPLAY_OPEN_RUNS_MAX:
            self._drafts[done.run] = draft
        if len(done.versions) > REPLAY_VERSIONS_TRIED:
            return ""  # Others changed it meanwhile, so that it cannot be said what it met.
        for version in reversed(done.versions):
            state: Any = decode((yield ReadState(self._thread, version)).state)
            try:
                ids, _ = draft.operations(state, _AT)
            except RelayError:
                continue
            if noted_text(asked, ids) == done.result.text:
                return ""
        return "it would be noted otherwise now"

    def put(self, done: Recorded) -> Flow[str]:
        asked: RelayPut = arguments_of(done.asked)
        if done.result.is_error or not done.use.refs:
            return ""
        body: bytes = yield (yield Pull(done.use.refs[0]))
        return "" if body == asked.content.encode() else "what is stored is not what it put"

    def list_files(self, done: Recorded) -> Flow[str]:
        return "" if self._files is None else (yield from self.look(done))

    def read_file(self, done: Recorded) -> Flow[str]:
        files = self._files
        if files is None or done.result.is_error or not done.use.refs:
            return ""
        asked: RelayRead = arguments_of(done.asked)
        content: bytes = yield Work(lambda: files.read(asked.path))
        body: bytes = yield (yield Pull(done.use.refs[0]))
        return "" if body == content else f"{asked.path!r} is another now"


_CHECKS: dict[str, Callable[[ToolChecks, Recorded], Flow[str]]] = {
    "relay_get": ToolChecks.look,
    "relay_state": ToolChecks.note,
    "relay_put": ToolChecks.put,
    "relay_files": ToolChecks.list_files,
    "relay_read": ToolChecks.read_file,
}
