"""Replay: recorded runs are checked step by step, and applied to a copy of their thread.

No model is called. Each answer is the recorded one, and the results of tools are computed again. If
a ref is gone or a result has changed, the replay diverges at this point. The copy then ends before
that run. Its ids, refs and times are those of the record.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from msgspec import DecodeError, Struct, convert, to_builtins
from msgspec.json import decode
from msgspec.structs import replace

from contextrelay.client.flow import Emit, Flow, InThread, Items, for_each
from contextrelay.documents.diff import diff_values
from contextrelay.documents.patch import Operation
from contextrelay.documents.pointer import find, parse
from contextrelay.errors import Gone, Invalid, NotFound, RelayError
from contextrelay.limits import (
    BUDGET_TOKENS_MAX,
    LABEL_CHARS_MAX,
    LIST_ITEMS_MAX,
    NUMBER_MAX,
    RUN_ROUNDS_MAX,
)
from contextrelay.model.run import (
    Diverged,
    ModelCall,
    Replay,
    ReplayedRun,
    Run,
    RunResult,
    ToolSpan,
)
from contextrelay.model.thread import CREATED, PATCHED, Event, Numbered, ThreadView
from contextrelay.runs.draft import Draft, RelayState
from contextrelay.runs.prices import prices_here
from contextrelay.runs.provider import Provider, Reply, ToolCall, ToolResult
from contextrelay.runs.run import Folder, RunOptions, chosen_provider, run_thread, tracked_files
from contextrelay.runs.tools import (
    RelayPut,
    RelayRead,
    Toolbox,
    TrackedFiles,
    arguments_of,
    noted_text,
)
from contextrelay.runs.trace import CALLED, ENDS, RECEIVED, STARTED, RunReader, call_of
from contextrelay.verbs import CopyThread, PatchState, Peek, Pull, ReadEvents, ReadState, ShowThread

# The maximum number of runs that are replayed, and of runs that are compared word by word at the
# same time.
REPLAY_RUNS_MAX = 10_000
REPLAY_OPEN_RUNS_MAX = 64
REPLAY_VERSIONS_TRIED = 20


class ReplayOptions(Struct, frozen=True):
    """Options of a replay."""

    is_dry: bool
    by: str
    files: TrackedFiles | None


class Past(Struct, frozen=True):
    """An event of a thread, and the version of the state after the event."""

    event: Event
    version: int


class _Exchange(Struct, frozen=True):
    """The recorded answer of one model call."""

    reply: Reply
    results: tuple[ToolResult, ...] = ()


def replay_recorded(
    source: ThreadView, version: int, runs: dict[str, Run], asked: ReplayOptions
) -> Flow[Replay]:
    """Check the record after a version, copy the thread up to the first divergence, and return the
    result.
    """
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
    """Return the events of a thread after a version, each with the version of the state after the
    event.
    """
    reached, after = 0, 0
    while True:
        page: list[Numbered] = (yield ReadEvents(thread, after, LIST_ITEMS_MAX)).events
        some: list[Past] = []
        for each in page:
            is_after = reached >= version
            reached = _version(each.event, reached)
            if is_after:
                some.append(Past(each.event, reached))
        yield Emit(some)
        if len(page) < LIST_ITEMS_MAX:
            return
        after = page[-1].seq


def _version(event: Event, before: int) -> int:
    if event.type == PATCHED:
        return event.detail["version"]
    return event.detail["state"]["version"] if event.type == CREATED else before


def copy_into(source: ThreadView, version: int, by: str) -> Flow[str]:
    """Create the thread that receives the replay, and return its id."""
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
    """Checks the record of a thread, event by event."""

    def __init__(self, version: int, tools: ToolChecks) -> None:
        self._tools = tools
        self._since: dict[str, int] = {}
        """For each unfinished run, the version of the state at its last step."""
        self._said: dict[str, list[str]] = {}
        """For each unfinished run, the answers of the model so far."""
        self.version = version
        """The version up to which the record is valid."""
        self.held: list[str] = []
        self.diverged: Diverged | None = None

    def check(self, past: Past) -> Flow[bool]:
        """Check an event, and return True if the record diverges there."""
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
            return replace(at, reason="the answer was not recorded")
        try:
            exchange = decode((yield (yield Pull(call.exchange))), type=_Exchange)
        except (Gone, NotFound) as error:
            return replace(at, ref=call.exchange, reason=error.message)
        except (DecodeError, UnicodeError, RecursionError) as error:
            return replace(at, ref=call.exchange, reason=f"cannot read the record: {error}")
        if run in self._said or len(self._said) < REPLAY_OPEN_RUNS_MAX:
            self._said.setdefault(run, []).append(exchange.reply.text)
        versions = range(self._since.get(run, past.version), past.version + 1)
        self._since[run] = past.version
        return (yield from self._check_tools(run, call, exchange, versions))

    def _check_tools(
        self, run: str, call: ModelCall, exchange: _Exchange, versions: range
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
        """Check that an answer exists and matches the recorded words of the model. Return the
        divergence, or None.
        """
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
                return replace(at, reason="the answer differs from the recorded words of the model")
            place += len(each)
        return None


_AT = "2000-01-01T00:00:00Z"
"""A placeholder for the time of a note, which does not affect the id of the note."""


class Recorded(Struct, frozen=True):
    """A recorded tool call, and the versions that the state may have had at the time."""

    run: str
    use: ToolSpan
    asked: ToolCall
    result: ToolResult
    versions: range


class ToolChecks:
    """Checks the tool calls of one thread. `files` is the folder with which file tools are
    compared.
    """

    def __init__(self, thread: str, files: TrackedFiles | None) -> None:
        self._thread = thread
        self._files = files
        self._drafts: dict[str, Draft] = {}
        """For each unfinished run, the draft of the model."""

    def trouble(self, done: Recorded) -> Flow[str]:
        """Return the reason why a recorded tool result is no longer valid, or ""."""
        check = _CHECKS.get(done.use.name)
        if check is None:
            return ""
        if done.asked.name != done.use.name:
            return f"the record has {done.use.name}, but another tool was requested"
        try:
            return (yield from check(self, done))
        except RelayError as error:
            return "" if done.result.is_error else error.message

    def end(self, run: str) -> None:
        """Forget the draft of a run that has ended."""
        self._drafts.pop(run, None)

    def look(self, done: Recorded) -> Flow[str]:
        toolbox = Toolbox(self._thread, done.run, "replay", self._files)
        toolbox.refs.update(dict.fromkeys(done.use.refs))
        now = (yield from toolbox.use(done.asked)).result
        is_same = now.is_error and done.result.is_error
        if now.is_error == done.result.is_error:
            is_same = is_same or now.text == done.result.text
        return "" if is_same else "the result has changed"

    def note(self, done: Recorded) -> Flow[str]:
        """Check that the entries of a note get the same ids in the state of that time. Return the
        problem, or "".
        """
        if done.result.is_error:
            return ""
        asked: RelayState = arguments_of(done.asked)
        draft = self._drafts.get(done.run, Draft()).with_state(asked)
        if done.run in self._drafts or len(self._drafts) < REPLAY_OPEN_RUNS_MAX:
            self._drafts[done.run] = draft
        if len(done.versions) > REPLAY_VERSIONS_TRIED:
            # There were too many concurrent versions to find the one that the note was applied to.
            return ""
        for version in reversed(done.versions):
            state: Any = decode((yield ReadState(self._thread, version)).state)
            try:
                ids, _ = draft.operations(state, _AT)
            except RelayError:
                continue
            if noted_text(asked, ids) == done.result.text:
                return ""
        return "the note would differ now"

    def put(self, done: Recorded) -> Flow[str]:
        asked: RelayPut = arguments_of(done.asked)
        if done.result.is_error or not done.use.refs:
            return ""
        body: bytes = yield (yield Pull(done.use.refs[0]))
        return (
            ""
            if body == asked.content.encode()
            else "the stored content differs from the recorded content"
        )

    def list_files(self, done: Recorded) -> Flow[str]:
        return "" if self._files is None else (yield from self.look(done))

    def read_file(self, done: Recorded) -> Flow[str]:
        files = self._files
        if files is None or done.result.is_error or not done.use.refs:
            return ""
        asked: RelayRead = arguments_of(done.asked)
        content: bytes = yield InThread(lambda: files.read(asked.path))
        body: bytes = yield (yield Pull(done.use.refs[0]))
        return "" if body == content else f"{asked.path!r} has changed"


_CHECKS: dict[str, Callable[[ToolChecks, Recorded], Flow[str]]] = {
    "relay_get": ToolChecks.look,
    "relay_state": ToolChecks.note,
    "relay_put": ToolChecks.put,
    "relay_files": ToolChecks.list_files,
    "relay_read": ToolChecks.read_file,
}


# Fields that describe a version, which a comparison ignores.
_OWN = ("$schema", "thread_id", "version", "updated_at", "metrics")
_MOVES = ("replace", "remove", "move", "copy")


def replay_again(
    source: ThreadView, version: int, runs: dict[str, Run], provider: Provider, how: ReplayOptions
) -> Flow[Replay]:
    """Ask another model the questions that were recorded after a version, and return the result."""
    thread = source.thread_id
    fork = yield from copy_into(source, version, how.by)
    asking = _Asking(thread, fork, runs, provider, how)
    yield from for_each(past_events(thread, version), asking.follow)
    old = yield from _comparable(thread, source.version)
    new = yield from _comparable(fork)
    changes = [to_builtins(each) for each in diff_values(old, new)]
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
    """The recorded system text of a request."""

    system: str


class _RecordedPrompt(Struct, frozen=True):
    prompt: _Sent


def _system(run: Run) -> Flow[str | None]:
    """Return the recorded system text of a run, or None (the default) if it is no longer stored."""
    ref = run.calls[0].exchange if run.calls else None
    if ref is None:
        return None
    try:
        return decode((yield (yield Pull(ref))), type=_RecordedPrompt).prompt.system or None
    except (Gone, NotFound, DecodeError, UnicodeError, RecursionError):
        return None


_BOUNDS = {
    "budget_tokens": BUDGET_TOKENS_MAX,
    "rounds_max": RUN_ROUNDS_MAX,
    "output_tokens_max": NUMBER_MAX,
}


def _bounds(detail: dict[str, Any]) -> dict[str, Any]:
    """Return those recorded limits of a run that are valid."""
    return {
        name: value
        for name, at_most in _BOUNDS.items()
        if type(value := detail.get(name)) is int and 1 <= value <= at_most
    }


class _Asking:
    """Replays a thread event by event, and asks another model the questions of the runs."""

    def __init__(
        self, thread: str, fork: str, runs: dict[str, Run], provider: Provider, how: ReplayOptions
    ) -> None:
        self._thread, self._fork = thread, fork
        self._runs, self._provider, self._how = runs, provider, how
        self._words: dict[str, Event] = {}
        self._ended = ""
        """The run whose patch is expected as the next event."""
        self.asked: list[ReplayedRun] = []
        self.skipped: list[str] = []

    def follow(self, past: Past) -> Flow[bool]:
        """Repeat an event. The result is always False."""
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
            options = RunOptions(
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
        """Return the recorded prompt of a run. A long prompt is read from an artifact."""
        said = self._words.pop(run.run, None)
        detail: dict[str, Any] = {} if said is None else said.detail
        if isinstance(text := detail.get("text"), str):
            return text
        if not isinstance(ref := detail.get("ref"), str):
            raise NotFound(
                f"the prompt of run {run.run} was not recorded",
                "ask the question again by hand: relay ask",
            )
        raw: bytes = yield (yield Pull(ref))
        return raw.decode(errors="replace")

    def _patch(self, event: Event, version: int) -> Flow[None]:
        """Apply a patch by others again, if the values that it replaces or removes are
        unchanged.
        """
        operations: list[Any] = event.detail["operations"]
        try:
            tests = yield from self._tests(convert(operations, list[Operation]), version)
            yield PatchState(self._fork, [*tests, *operations], by=event.by)
        except RelayError as error:
            self.skipped.append(f"v{version}: {error.message}")

    def _tests(self, operations: list[Operation], version: int) -> Flow[list[Any]]:
        """Return test operations that make the patch fail if the values that it changes are
        different now.
        """
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
                continue  # An earlier operation of this patch has written the value.
            tests.append({"op": "test", "path": path, "value": value})
        return tests


_FIRST_VERSION = 1


def replay_thread(
    thread: Any,
    version: int | None,
    model: str | Provider | None,
    is_dry: bool,
    by: str,
    files: Folder | None,
) -> Flow[Replay]:
    """Replay the runs of a thread after a version, and return the result.

    Raises:
        NotFound: there is no such version.
        Invalid: there are too many runs, or the provider is unknown.
    """
    source: ThreadView = yield ShowThread(thread.id)
    begin = _FIRST_VERSION if version is None else version
    if not _FIRST_VERSION <= begin <= source.version:
        raise NotFound(
            f"thread {thread.id} has no version {begin}; the newest is {source.version}",
            "list the versions: relay state log",
        )
    asked = ReplayOptions(is_dry, by, tracked_files(files))
    runs = yield from _runs(thread.id, begin)
    if model is None or all(model == _named(run) for run in runs.values()):
        return (yield from replay_recorded(source, begin, runs, asked))
    provider = chosen_provider(thread.transport, model)
    again = {id: run for id, run in runs.items() if run.kind == "ask" and run.status != "failed"}
    if asked.is_dry:
        return _planned(source, begin, again, provider)
    return (yield from replay_again(source, begin, again, provider, asked))


def _runs(thread: str, version: int) -> Flow[dict[str, Run]]:
    """Return the finished runs that started after a version, by their ids."""
    reader = RunReader()
    found: dict[str, Run] = {}

    def read(past: Past) -> Flow[bool]:
        found.update({run.run: run for run in reader.read(past.event)})
        if len(found) > REPLAY_RUNS_MAX:
            raise Invalid(
                f"more than {REPLAY_RUNS_MAX:,} runs", "start later: relay replay --from vN"
            )
        return False
        yield

    yield from for_each(past_events(thread, version), read)
    return found


def _named(run: Run) -> str:
    return f"{run.provider}:{run.model}"


def _planned(source: ThreadView, version: int, runs: dict[str, Run], provider: Provider) -> Replay:
    model = f"{provider.name}:{provider.model}"
    return Replay(
        thread_id=source.thread_id,
        fork=None,
        from_version=version,
        version=source.version,
        is_called=True,
        runs=[
            ReplayedRun(run=run.run, asked=run.asked, old_ref=run.ref, new_ref=None, model=model)
            for run in runs.values()
        ],
    )
