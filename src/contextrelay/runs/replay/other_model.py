"""Replay with another model: the same words asked again, in a copy of the thread.

What people and other agents changed in between is done again too, where it still has a place: a
patch that would now hit something else is left out, and said.
"""

from __future__ import annotations

import os
from typing import Any

from msgspec import DecodeError, Struct, convert, to_builtins
from msgspec.json import decode

from contextrelay.client.flow import Flow, for_each
from contextrelay.documents.diff import difference
from contextrelay.documents.patch import Operation
from contextrelay.documents.pointer import find, parse
from contextrelay.errors import Gone, NotFound, RelayError
from contextrelay.limits import BUDGET_TOKENS_MAX, NUMBER_MAX, RUN_ROUNDS_MAX
from contextrelay.model.replay import Replay, ReplayedRun
from contextrelay.model.run import RunResult
from contextrelay.model.thread import PATCHED, Event, ThreadView
from contextrelay.model.trace import Run
from contextrelay.runs.price_file import prices_here
from contextrelay.runs.provider import Provider
from contextrelay.runs.replay.recorded import Asked, Past, copy_into, past_events
from contextrelay.runs.run import Options, run_thread
from contextrelay.runs.tracing.runs import ENDS, RECEIVED, STARTED
from contextrelay.verbs import PatchState, Pull, ReadState

# What a version says of itself; no part of a difference.
_OWN = ("$schema", "thread_id", "version", "updated_at", "metrics")
_MOVES = ("replace", "remove", "move", "copy")


def replay_again(
    source: ThreadView, version: int, runs: dict[str, Run], provider: Provider, how: Asked
) -> Flow[Replay]:
    """Ask another model what was asked after a version."""
    thread = source.thread_id
    fork = yield from copy_into(source, version, how.by)
    asking = _Asking(thread, fork, runs, provider, how)
    yield from for_each(past_events(thread, version), asking.follow)
    old = yield from _comparable(thread, source.version)
    new = yield from _comparable(fork)
    changes = [to_builtins(each) for each in difference(old, new)]
    return Replay(
        thread_id=thread,
        fork=fork,
        from_version=version,
        version=source.version,
        is_called=True,
        runs=asking.asked,
        is_equal=not changes,
        changes=changes,
        skipped=asking.skipped,
    )


def _comparable(thread: str, version: int | None = None) -> Flow[dict[str, Any]]:
    state: dict[str, Any] = decode((yield ReadState(thread, version)).state)
    return {name: value for name, value in state.items() if name not in _OWN}


class _Sent(Struct, frozen=True):
    """Of what a model was sent: the system text."""

    system: str


class _Exchange(Struct, frozen=True):
    prompt: _Sent


def _system(run: Run) -> Flow[str | None]:
    """The system text that a run was recorded with; ours, where it is not there any more."""
    ref = run.calls[0].exchange if run.calls else None
    if ref is None:
        return None
    try:
        return decode((yield (yield Pull(ref))), type=_Exchange).prompt.system or None
    except (Gone, NotFound, DecodeError, UnicodeError, RecursionError):
        return None


_BOUNDS = {
    "budget_tokens": BUDGET_TOKENS_MAX,
    "rounds_max": RUN_ROUNDS_MAX,
    "output_tokens_max": NUMBER_MAX,
}


def _bounds(detail: dict[str, Any]) -> dict[str, Any]:
    """The bounds that a run was recorded with, as far as they make sense."""
    return {
        name: value
        for name, at_most in _BOUNDS.items()
        if type(value := detail.get(name)) is int and 1 <= value <= at_most
    }


class _Asking:
    """A thread followed event by event, its runs asked of another model."""

    def __init__(
        self, thread: str, fork: str, runs: dict[str, Run], provider: Provider, how: Asked
    ) -> None:
        self._thread, self._fork = thread, fork
        self._runs, self._provider, self._how = runs, provider, how
        self._words: dict[str, Event] = {}
        self._ended = ""
        """The run whose patch comes next."""
        self.asked: list[ReplayedRun] = []
        self.skipped: list[str] = []

    def follow(self, past: Past) -> Flow[bool]:
        """Do again what an event says; never the end of it."""
        event = past.event
        run = event.detail.get("run")
        known = self._runs.get(run) if isinstance(run, str) else None
        if event.type == PATCHED and self._ended not in self._runs:
            yield from self._patch(event, past.version)
        elif known is not None and event.type == RECEIVED:
            self._words[known.run] = event
        elif known is not None and event.type == STARTED:
            self.asked.append((yield from self._ask(known, event)))
        self._ended = run if isinstance(run, str) and event.type in ENDS else ""
        return False

    def _ask(self, run: Run, started: Event) -> Flow[ReplayedRun]:
        provider = self._provider
        model = f"{provider.name}:{provider.model}"
        result: RunResult | None = None

        def hear(item: str | RunResult) -> Flow[bool]:
            nonlocal result
            result = item if isinstance(item, RunResult) else None
            return False
            yield

        error = ""
        try:
            user = yield from self._user(run)
            options = Options(
                refs=run.refs,
                system=(yield from _system(run)),
                files=self._how.files,
                by=self._how.by,
                prices=prices_here(os.environ),
                **_bounds(started.detail),
            )
            yield from for_each(run_thread(self._fork, user, provider, options), hear)
        except RelayError as failed:
            error = str(failed)
        return ReplayedRun(
            run=run.run,
            asked=run.asked,
            old_ref=run.ref,
            new_ref=result.ref if result else None,
            model=model,
            price=result.price if result else None,
            error=error,
        )

    def _user(self, run: Run) -> Flow[str]:
        """The words as they were said; long ones are in an artifact."""
        said = self._words.pop(run.run, None)
        detail: dict[str, Any] = {} if said is None else said.detail
        if isinstance(text := detail.get("text"), str):
            return text
        if not isinstance(ref := detail.get("ref"), str):
            raise NotFound(f"what run {run.run} was asked is not recorded", "ask it by hand")
        raw: bytes = yield (yield Pull(ref))
        return raw.decode(errors="replace")

    def _patch(self, event: Event, version: int) -> Flow[None]:
        """Do a patch of others again, if what it touches is still what it was."""
        operations: list[Any] = event.detail["operations"]
        try:
            tests = yield from self._tests(convert(operations, list[Operation]), version)
            yield PatchState(self._fork, [*tests, *operations], by=event.by)
        except RelayError as error:
            self.skipped.append(f"v{version}: {error.message}")

    def _tests(self, operations: list[Operation], version: int) -> Flow[list[Any]]:
        """Operations that let a patch pass only where it meets what it met before."""
        moved = [each for each in operations if each.op in _MOVES]
        if not moved:
            return []
        before: Any = decode((yield ReadState(self._thread, version - 1)).state)
        tests: list[Any] = []
        for each in moved:
            path = each.from_ if isinstance(each.from_, str) else each.path
            try:
                value = find(before, parse(path))
            except RelayError:
                continue  # It is what this patch itself has put there.
            tests.append({"op": "test", "path": path, "value": value})
        return tests
