"""Replay: recorded runs checked step by step, and done again in a copy of their thread.

Nothing is asked of a model. Each answer is the recorded one, and what tools showed the model is
looked at again: a ref that is gone, or a result that is another now, is where the replay diverges.
The copy then ends before that run; ids, refs and times in it are those of the record.
"""

from __future__ import annotations

from typing import Any

from msgspec import DecodeError, Struct
from msgspec.json import decode
from msgspec.structs import replace

from contextrelay.client.flow import Flow, Give, Items, for_each
from contextrelay.errors import Gone, NotFound
from contextrelay.limits import LABEL_CHARS_MAX, LIST_ITEMS_MAX, REPLAY_OPEN_RUNS_MAX
from contextrelay.model.replay import Diverged, Replay, ReplayedRun
from contextrelay.model.thread import CREATED, PATCHED, Event, Numbered, ThreadView
from contextrelay.model.trace import Call, Run
from contextrelay.runs.files import TrackedFiles
from contextrelay.runs.provider import Reply, ToolResult
from contextrelay.runs.replay.tool_checks import Recorded, ToolChecks
from contextrelay.runs.tracing.runs import CALLED, ENDS, call_of
from contextrelay.verbs import CopyThread, Peek, Pull, ReadEvents, ReadState


class Asked(Struct, frozen=True):
    """How a replay is done."""

    is_dry: bool
    by: str
    files: TrackedFiles | None


class Past(Struct, frozen=True):
    """An event of a thread, and the version that its state had then."""

    event: Event
    version: int


class _Exchange(Struct, frozen=True):
    """What was answered in one call."""

    reply: Reply
    results: tuple[ToolResult, ...] = ()


def replay_recorded(
    source: ThreadView, version: int, runs: dict[str, Run], asked: Asked
) -> Flow[Replay]:
    """Check what was recorded after a version, and copy the thread as far as that holds."""
    thread = source.thread_id
    checking = _Checking(version, ToolChecks(thread, asked.files))
    yield from for_each(past_events(thread, version), checking.check)
    fork: str | None = None
    is_equal: bool | None = None
    if not asked.is_dry:
        fork = yield from copy_into(source, checking.version, asked.by)
        is_equal = (yield from _state(thread, checking.version)) == (yield from _state(fork))
    return Replay(
        thread_id=thread,
        fork=fork,
        from_version=version,
        version=checking.version,
        is_called=False,
        runs=[_kept(runs[run]) for run in checking.held if run in runs],
        diverged=checking.diverged,
        is_equal=is_equal,
    )


def past_events(thread: str, version: int) -> Items[Past]:
    """The events of a thread after a version, each with the version that it led to."""
    reached, after = 0, 0
    while True:
        page: list[Numbered] = (yield ReadEvents(thread, after, LIST_ITEMS_MAX)).events
        some: list[Past] = []
        for each in page:
            is_after = reached >= version
            reached = _version(each.event, reached)
            if is_after:
                some.append(Past(each.event, reached))
        yield Give(some)
        if len(page) < LIST_ITEMS_MAX:
            return
        after = page[-1].seq


def _version(event: Event, before: int) -> int:
    if event.type == PATCHED:
        return event.detail["version"]
    return event.detail["state"]["version"] if event.type == CREATED else before


def copy_into(source: ThreadView, version: int, by: str) -> Flow[str]:
    """Make the thread that a replay goes into."""
    name = f"{source.name} replay"[:LABEL_CHARS_MAX] if source.name else None
    made: ThreadView = yield CopyThread(source.thread_id, version, name, by)
    return made.thread_id


def _state(thread: str, version: int | None = None) -> Flow[dict[str, Any]]:
    state: dict[str, Any] = decode((yield ReadState(thread, version)).state)
    return {name: value for name, value in state.items() if name != "thread_id"}


def _kept(run: Run) -> ReplayedRun:
    return ReplayedRun(
        run=run.run,
        asked=run.asked,
        old_ref=run.ref,
        new_ref=run.ref,
        model=f"{run.provider}:{run.model}",
    )


class _Checking:
    """The check of a thread's record, event by event."""

    def __init__(self, version: int, tools: ToolChecks) -> None:
        self._tools = tools
        self._since: dict[str, int] = {}
        """The version at the last step of runs that have not ended."""
        self._said: dict[str, list[str]] = {}
        """What models said in runs that have not ended."""
        self.version = version
        """The last one before which everything holds."""
        self.held: list[str] = []
        self.diverged: Diverged | None = None

    def check(self, past: Past) -> Flow[bool]:
        """Check an event; whether it is where the record no longer holds."""
        event = past.event
        run = event.detail.get("run")
        if isinstance(run, str) and event.type == CALLED:
            self.diverged = yield from self._check_call(run, past)
        elif isinstance(run, str) and event.type in ENDS:
            self.diverged = yield from self._check_answer(run, event)
            self.held += [] if self.diverged else [run]
            self._tools.end(run)
            self._since.pop(run, None)
        elif isinstance(run, str) and len(self._since) < REPLAY_OPEN_RUNS_MAX:
            self._since.setdefault(run, past.version)
        if self.diverged is None:
            self.version = past.version
        return self.diverged is not None

    def _check_call(self, run: str, past: Past) -> Flow[Diverged | None]:
        call = call_of(past.event)
        at = Diverged(run=run, round=call.round)
        if call.exchange is None:
            return replace(at, reason="what was said is not recorded")
        try:
            exchange = decode((yield (yield Pull(call.exchange))), type=_Exchange)
        except (Gone, NotFound) as error:
            return replace(at, ref=call.exchange, reason=error.message)
        except (DecodeError, UnicodeError, RecursionError) as error:
            return replace(at, ref=call.exchange, reason=f"the record cannot be read: {error}")
        if run in self._said or len(self._said) < REPLAY_OPEN_RUNS_MAX:
            self._said.setdefault(run, []).append(exchange.reply.text)
        versions = range(self._since.get(run, past.version), past.version + 1)
        self._since[run] = past.version
        return (yield from self._check_tools(run, call, exchange, versions))

    def _check_tools(
        self, run: str, call: Call, exchange: _Exchange, versions: range
    ) -> Flow[Diverged | None]:
        recorded = zip(call.tools, exchange.reply.calls, exchange.results, strict=False)
        for use, asked, result in recorded:
            at = Diverged(run=run, round=call.round, tool=use.name)
            for ref in use.refs:
                try:
                    yield Peek(ref, shown_chars=0)
                except (Gone, NotFound) as error:
                    return replace(at, ref=ref, reason=error.message)
            done = Recorded(run, use, asked, result, versions)
            if reason := (yield from self._tools.trouble(done)):
                return replace(at, ref=use.refs[0] if use.refs else None, reason=reason)
        return None

    def _check_answer(self, run: str, event: Event) -> Flow[Diverged | None]:
        """Check that an answer is there, and is what the model said."""
        said, ref = self._said.pop(run, []), event.detail.get("ref")
        if not isinstance(ref, str):
            return None
        at = Diverged(run=run, ref=ref)
        try:
            answer: bytes = yield (yield Pull(ref))
        except (Gone, NotFound) as error:
            return replace(at, reason=error.message)
        text, place = answer.decode(errors="replace"), 0
        for each in said:
            place = text.find(each, place)
            if place < 0:
                return replace(at, reason="the answer is not what the model said")
            place += len(each)
        return None
