"""Traces as a text tree for people: runs, their calls, and the refs that each tool read."""

from __future__ import annotations

from collections.abc import Iterator

from contextrelay.cli import display, state_display
from contextrelay.limits import TRACE_RUNS_MAX
from contextrelay.model.run import (
    Diverged,
    ModelCall,
    ModelUsage,
    Replay,
    ReplayedRun,
    Run,
    ToolSpan,
    Totals,
    Trace,
)

_ASKED_CHARS = 80
_REFS_SHOWN = 4


def tree(trace: Trace, label: str) -> Iterator[str]:
    """Yield the lines that show a trace."""
    if not trace.totals.runs:
        yield f"{label}: no runs yet"
        yield "  next: relay run --thread THREAD --user TEXT"
        return
    yield f"{label}  {totals(trace.totals)}"
    if trace.runs_left_out:
        earlier = display.count(trace.runs_left_out, "earlier run")
        yield f"  {earlier} counted, but not shown: use --limit N, at most {TRACE_RUNS_MAX:,}"
    for run in trace.runs:
        yield from ("", *_run(run))


def totals(every: Totals) -> str:
    """Format the totals of all runs as one line."""
    parts = [display.count(every.runs, "run")]
    parts += [
        f"{count:,} {status}"
        for status, count in (
            ("running", every.running),
            ("interrupted", every.interrupted),
            ("failed", every.failed),
        )
        if count
    ]
    parts += [display.count(every.calls, "call"), display.count(every.tools, "tool")]
    parts += [tokens(every.usage), price(every.usage, every.unpriced_calls, every.calls)]
    return " · ".join([*parts, took(every.duration_ms)])


def _run(run: Run) -> Iterator[str]:
    who = ":".join(display.clean(each) for each in (run.provider, run.model) if each)
    at = f"{run.started_at.astimezone():%Y-%m-%d %H:%M:%S}"
    began = f"  from v{run.version}" if run.version else ""
    name, kind = display.clean(run.run), display.clean(run.kind)
    yield f"{name}  {run.status}  {kind}  {who}  {at}{began}".rstrip()
    unpriced = sum(call.usage.price is None for call in run.calls)
    spent = price(run.usage, unpriced, len(run.calls) + run.calls_left_out)
    figures = [tokens(run.usage), spent] if run.calls or run.usage != ModelUsage() else []
    yield f"│  {' · '.join([*figures, took(run.duration_ms)])}"
    if run.asked or run.asked_ref:
        words = display.cut(display.clean(run.asked), _ASKED_CHARS) if run.asked else "a long text"
        yield f"│  asked  {words}{_refs(run.refs, run.asked_ref)}"
    branches = [*run.calls]
    for call in branches:
        yield f"├─ {_call(call)}"
        for index, tool in enumerate(call.tools):
            is_last = index == len(call.tools) - 1 and not call.tools_left_out
            yield f"│  {'└─' if is_last else '├─'} {_tool(tool)}"
        if call.tools_left_out:
            yield f"│  └─ and {display.count(call.tools_left_out, 'more tool')}"
    if run.calls_left_out:
        yield f"├─ and {display.count(run.calls_left_out, 'more call')}"
    yield f"└─ {_end(run)}"


def _call(call: ModelCall) -> str:
    exchange = f"  exchange {display.short(call.exchange)}" if call.exchange else ""
    spent = price(call.usage, call.usage.price is None, 1)
    about = "~" if call.basis == "estimated" else ""
    return (
        f"call {call.round}  {display.clean(call.model)}  {about}{tokens(call.usage)} · {spent} · "
        f"{took(call.duration_ms)}{exchange}"
    )


def _tool(tool: ToolSpan) -> str:
    failed = "  error" if tool.is_error else ""
    return f"{display.clean(tool.name)}  {took(tool.duration_ms)}{failed}{_refs(tool.refs)}"


def _end(run: Run) -> str:
    if run.ref is not None:
        return f"answer {display.short(run.ref)}"
    why = ": ".join(display.clean(each) for each in (run.error, run.reason) if each)
    return f"{run.status}  {why}".rstrip() if why or run.status != "running" else "not ended yet"


def _refs(refs: tuple[str, ...], first: str | None = None) -> str:
    every = [*([first] if first else []), *refs]
    if not every:
        return ""
    more = f" +{len(every) - _REFS_SHOWN}" if len(every) > _REFS_SHOWN else ""
    return "  ref " + " ".join(map(display.short, every[:_REFS_SHOWN])) + more


def tokens(usage: ModelUsage) -> str:
    """Format the number of tokens read and written, and of those read from a cache."""
    cached = f" ({usage.cache_read:,} cached)" if usage.cache_read else ""
    return f"{usage.tokens_in:,} in{cached} · {usage.tokens_out:,} out"


def price(usage: ModelUsage, unpriced: int, calls: int) -> str:
    """Format a price in dollars. An unknown price is called unknown, and never shown as 0."""
    if usage.price is None:
        return "price unknown" if calls else "no price"
    known = f"${usage.price}"
    return f"{known} + {display.count(unpriced, 'call')} of unknown price" if unpriced else known


def took(duration_ms: int) -> str:
    return f"{duration_ms:,} ms" if duration_ms < 1_000 else f"{duration_ms / 1_000:,.1f} s"


_RUNS_SHOWN = 50
_CHANGES_SHOWN = 50
_REPLAY_ASKED_CHARS = 60


def lines(replay: Replay) -> Iterator[str]:
    """Yield the lines that show a replay."""
    yield _head(replay)
    shown = replay.runs if replay.is_called else []
    for run in shown[:_RUNS_SHOWN]:
        yield from _replayed_run(run)
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
        how = "asked again" if replay.is_called else "replayed from the record, no model called"
        return f"{count} {how}, {span}, into {replay.fork}"
    would = "would be asked again" if replay.is_called else "checked, no model called"
    return f"{count} {would}, {span}; nothing was written"


def _replayed_run(run: ReplayedRun) -> Iterator[str]:
    asked = display.cut(display.clean(run.asked), _REPLAY_ASKED_CHARS)
    cost = f"  ${run.price}" if run.price is not None else ""
    yield f"  {display.clean(run.run)}  {display.clean(run.model)}{cost}  {asked}"
    if run.error:
        yield f"    failed: {display.clean(run.error)}"
    elif run.old_ref and run.new_ref:
        yield f"    relay diff {display.short(run.old_ref)} {display.short(run.new_ref)}"


def diverged(place: Diverged, version: int) -> Iterator[str]:
    """Yield the lines that show where a record diverges, and why."""
    where = f"round {place.round}" if place.round else "its answer"
    tool = f", {display.clean(place.tool)}" if place.tool else ""
    ref = f" of {display.short(place.ref)}" if place.ref else ""
    yield f"diverges after v{version}: run {display.clean(place.run)}, {where}{tool}{ref}"
    yield f"  {display.clean(place.reason)}"
