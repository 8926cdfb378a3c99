"""Replays, for people: what held, where one diverged, and how two branches differ."""

from __future__ import annotations

from collections.abc import Iterator

from contextrelay.cli import display, state_display
from contextrelay.model.replay import Diverged, Replay, ReplayedRun

_RUNS_SHOWN = 50
_CHANGES_SHOWN = 50
_ASKED_CHARS = 60


def lines(replay: Replay) -> Iterator[str]:
    """A replay, line by line."""
    yield _head(replay)
    shown = replay.runs if replay.is_called else []
    for run in shown[:_RUNS_SHOWN]:
        yield from _run(run)
    if len(shown) > _RUNS_SHOWN:
        yield f"  and {display.count(len(shown) - _RUNS_SHOWN, 'more run')}"
    if replay.diverged is not None:
        yield from diverged(replay.diverged, replay.version)
    for skipped in replay.skipped[:_CHANGES_SHOWN]:
        yield f"  left out {display.clean(skipped)}"
    if replay.changes:
        yield f"the states differ in {display.count(len(replay.changes), 'place')}"
        for operation in replay.changes[:_CHANGES_SHOWN]:
            yield f"  {state_display.operation(operation)}"
    elif replay.is_equal and replay.diverged is None:
        yield "the states are equal"
    if replay.fork is not None:
        yield f"  next: relay trace {display.short(replay.fork)}"


def _head(replay: Replay) -> str:
    span = f"v{replay.from_version} to v{replay.version}"
    count = display.count(len(replay.runs), "run")
    if replay.fork is not None:
        how = "asked again" if replay.is_called else "replayed by the record, no model called"
        return f"{count} {how}, {span}, into {replay.fork}"
    would = "would be asked again" if replay.is_called else "checked, no model called"
    return f"{count} {would}, {span}; nothing was written"


def _run(run: ReplayedRun) -> Iterator[str]:
    asked = display.cut(display.clean(run.asked), _ASKED_CHARS)
    cost = f"  ${run.price}" if run.price is not None else ""
    yield f"  {display.clean(run.run)}  {display.clean(run.model)}{cost}  {asked}"
    if run.error:
        yield f"    failed: {display.clean(run.error)}"
    elif run.old_ref and run.new_ref:
        yield f"    relay diff {display.short(run.old_ref)} {display.short(run.new_ref)}"


def diverged(place: Diverged, version: int) -> Iterator[str]:
    """Where a record no longer holds, and why."""
    where = f"round {place.round}" if place.round else "its answer"
    tool = f", {display.clean(place.tool)}" if place.tool else ""
    ref = f" of {display.short(place.ref)}" if place.ref else ""
    yield f"diverges after v{version}: run {display.clean(place.run)}, {where}{tool}{ref}"
    yield f"  {display.clean(place.reason)}"
