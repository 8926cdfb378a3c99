"""Trace pages: the runs of a thread as one HTML file, with what each model was sent and answered.

It is written run by run, as its exchanges are read: a page of any trace takes little memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from html import escape
from itertools import chain

from contextrelay.client.relay import Relay
from contextrelay.content.untrusted.fence import fenced
from contextrelay.limits import TRACE_EXCHANGES_MAX
from contextrelay.model.trace import Call, Run, ToolUse, Trace
from contextrelay.report.exchanges import Said, read_exchange
from contextrelay.report.html import document, figures, section, text
from contextrelay.runs import trace_display


def trace_page(relay: Relay, trace: Trace, name: str, now: datetime) -> Iterator[bytes]:
    """Write a trace as a page, piece by piece."""
    about = (
        f'<p class="about">Thread <code>{text(trace.thread_id)}</code>, '
        f"{now:%Y-%m-%d %H:%M} UTC.</p>"
    )
    lines = trace_lines(relay, trace, TRACE_EXCHANGES_MAX)
    for line in document(f"Trace of {name}", chain([about], lines)):
        yield line.encode(errors="replace") + b"\n"


def trace_lines(relay: Relay, trace: Trace, exchanges_max: int) -> Iterator[str]:
    """A trace as lines of HTML, which the page in a browser has too."""
    yield from section("All runs", _totals(trace))
    calls = sum(len(run.calls) for run in trace.runs)
    # The newest have their exchanges; of older ones the ref is shown.
    bare = max(0, calls - exchanges_max)
    if bare:
        yield f'<p class="none">The exchanges of {bare} older calls are named, not shown.</p>'
    for run in trace.runs:
        yield from _run(relay, run, bare)
        bare = max(0, bare - len(run.calls))


def _totals(trace: Trace) -> Iterator[str]:
    every = trace.totals
    price = trace_display.price(every.usage, every.unpriced_calls, every.calls)
    yield from figures(
        (
            ("runs", f"{every.runs:,}"),
            ("interrupted, failed", f"{every.interrupted:,}, {every.failed:,}"),
            ("calls, tools", f"{every.calls:,}, {every.tools:,}"),
            ("tokens", escape(trace_display.tokens(every.usage))),
            ("price", escape(price)),
            ("time", trace_display.took(every.duration_ms)),
        )
    )
    if trace.runs_left_out:
        yield f'<p class="none">{trace.runs_left_out} earlier runs are counted, not shown.</p>'


def _run(relay: Relay, run: Run, bare: int) -> Iterator[str]:
    who = ":".join(each for each in (run.provider, run.model) if each)
    unpriced = sum(call.usage.price is None for call in run.calls)
    yield f"<section><h2>{text(run.run)} <small>{run.status}</small></h2>"
    yield from figures(
        (
            ("kind, model", f"{text(run.kind)}, {text(who)}"),
            ("by", text(run.by)),
            ("began (UTC)", f"{run.started_at:%Y-%m-%d %H:%M:%S}"),
            ("tokens", escape(trace_display.tokens(run.usage))),
            ("price", escape(trace_display.price(run.usage, unpriced, len(run.calls)))),
            ("time", trace_display.took(run.duration_ms)),
            ("answer", f"<code>{text(run.ref or 'none')}</code>"),
        )
    )
    if run.asked:
        yield f"<p>Asked:</p><pre>{escape(fenced(run.asked, 'the user'))}</pre>"
    if run.reason or run.error:
        why = f"{run.error}: {run.reason}"
        yield f"<p>It {run.status}:</p><pre>{escape(fenced(why, 'the run'))}</pre>"
    for index, call in enumerate(run.calls):
        yield from _call(relay, call, is_bare=index < bare)
    if run.calls_left_out:
        yield f'<p class="none">and {run.calls_left_out} more calls</p>'
    yield "</section>"


def _call(relay: Relay, call: Call, is_bare: bool) -> Iterator[str]:
    price = trace_display.price(call.usage, call.usage.price is None, 1)
    yield (
        f"<details><summary>call {call.round} <small>{text(call.model)} · "
        f"{escape(trace_display.tokens(call.usage))} · {escape(price)} · "
        f"{trace_display.took(call.duration_ms)}</small></summary>"
    )
    tools = "".join(map(_tool, call.tools))
    if tools:
        yield f"<ul>{tools}</ul>"
    if call.exchange is not None:
        yield f"<p>Exchange <code>{text(call.exchange)}</code></p>"
        if not is_bare:
            yield from map(_said, read_exchange(relay, call.exchange))
    yield "</details>"


def _tool(tool: ToolUse) -> str:
    failed = " error" if tool.is_error else ""
    refs = "".join(f" <code>{text(ref)}</code>" for ref in tool.refs)
    took = trace_display.took(tool.duration_ms)
    return f"<li>{text(tool.name)} <small>{took}{failed}</small>{refs}</li>"


def _said(said: Said) -> str:
    cut = f"<small>{said.left_out_bytes:,} more bytes</small>" if said.left_out_bytes else ""
    return f"<pre>{escape(fenced(said.text, said.by))}</pre>{cut}"
