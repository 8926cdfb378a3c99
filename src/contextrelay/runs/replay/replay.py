"""Replays, as both clients ask for them: by the record, or with another model."""

from __future__ import annotations

from typing import Any

from contextrelay.client.flow import Flow, for_each
from contextrelay.errors import Invalid, NotFound
from contextrelay.limits import REPLAY_RUNS_MAX
from contextrelay.model.replay import Replay, ReplayedRun
from contextrelay.model.thread import ThreadView
from contextrelay.model.trace import Run
from contextrelay.runs.ask import Folder, chosen_provider, tracked_files
from contextrelay.runs.provider import Provider
from contextrelay.runs.replay.other_model import replay_again
from contextrelay.runs.replay.recorded import Asked, Past, past_events, replay_recorded
from contextrelay.runs.tracing.runs import RunReader
from contextrelay.verbs import ShowThread

_FIRST_VERSION = 1


def replay_thread(
    thread: Any,
    version: int | None,
    model: str | Provider | None,
    is_dry: bool,
    by: str,
    files: Folder | None,
) -> Flow[Replay]:
    """Do the runs of a thread again that came after a version.

    Raises:
        NotFound: there is no such version.
        Invalid: there are too many runs, or no such provider.
    """
    source: ThreadView = yield ShowThread(thread.id)
    begin = _FIRST_VERSION if version is None else version
    if not _FIRST_VERSION <= begin <= source.version:
        raise NotFound(
            f"thread {thread.id} has no version {begin}; the newest is {source.version}",
            "see the versions with: relay state log",
        )
    asked = Asked(is_dry, by, tracked_files(files))
    runs = yield from _runs(thread.id, begin)
    if model is None or all(model == _named(run) for run in runs.values()):
        return (yield from replay_recorded(source, begin, runs, asked))
    provider = chosen_provider(thread.transport, model)
    again = {id: run for id, run in runs.items() if run.kind == "ask" and run.status != "failed"}
    if asked.is_dry:
        return _planned(source, begin, again, provider)
    return (yield from replay_again(source, begin, again, provider, asked))


def _runs(thread: str, version: int) -> Flow[dict[str, Run]]:
    """The runs that began after a version, and have ended."""
    reader = RunReader()
    found: dict[str, Run] = {}

    def read(past: Past) -> Flow[bool]:
        found.update({run.run: run for run in reader.read(past.event)})
        if len(found) > REPLAY_RUNS_MAX:
            raise Invalid(
                f"there are over {REPLAY_RUNS_MAX:,} runs", "begin later: relay replay --from vN"
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
