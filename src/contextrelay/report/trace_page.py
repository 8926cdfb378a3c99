"""Exchanges: requests and responses of model calls, for pages.

Rule: an exchange is untrusted. Each text is truncated, and defused and fenced when shown; an
exchange that cannot be read is reported without stopping.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from html import escape
from itertools import chain
from typing import Any, NamedTuple

from msgspec import DecodeError
from msgspec.json import decode, encode

from contextrelay.cli import display
from contextrelay.client.relay import Relay
from contextrelay.content.untrusted.fence import fenced
from contextrelay.documents.values import is_list, is_object
from contextrelay.errors import RelayError
from contextrelay.limits import KIB
from contextrelay.model.run import ModelCall, Run, Trace
from contextrelay.report.page import document, figures, section, text
from contextrelay.runs import trace_display

# Limits for a page: exchanges shown in full, the size of each, texts of each, and the length of a
# text. Even many empty ones would make a page of hundreds of megabytes.
TRACE_EXCHANGES_MAX = 100
TRACE_EXCHANGE_BYTES_MAX = 512 * KIB
TRACE_EXCHANGE_TEXTS_MAX = 1_000
TRACE_EXCHANGE_TEXT_BYTES_MAX = 4 * KIB

_NOT_READ = (RelayError, DecodeError, UnicodeError, RecursionError)


class ExchangeText(NamedTuple):
    """One text of an exchange."""

    by: str
    text: str
    left_out_bytes: int


def read_exchange(relay: Relay, ref: str) -> list[ExchangeText]:
    """Return the texts of an exchange in chronological order."""
    try:
        artifact = relay.peek(ref)
        if artifact.size_bytes > TRACE_EXCHANGE_BYTES_MAX:
            size = display.size(artifact.size_bytes)
            return [ExchangeText("relay", f"{size}, too large to show here: relay pull {ref}", 0)]
        every = list(_messages_in(decode(relay.pull(ref))))
    except _NOT_READ as error:
        return [ExchangeText("relay", f"cannot be read: {error}", 0)]
    if len(every) <= TRACE_EXCHANGE_TEXTS_MAX:
        return every
    left_out = len(every) - TRACE_EXCHANGE_TEXTS_MAX
    rest = ExchangeText("relay", f"{left_out:,} earlier texts are not shown: relay pull {ref}", 0)
    return [rest, *every[left_out:]]


def _messages_in(recorded: Any) -> Iterator[ExchangeText]:
    prompt, reply = _object(_object(recorded).get("prompt")), _object(recorded).get("reply")
    if prompt.get("system"):
        yield _cut("system", prompt["system"])
    for message in _items(prompt.get("messages")):
        yield from _message(str(_object(message).get("role")), message)
    yield from _message("answer", reply)
    for result in _items(_object(recorded).get("results")):
        yield _result(result)


def _message(by: str, message: Any) -> Iterator[ExchangeText]:
    fields = _object(message)
    if fields.get("text"):
        yield _cut(by, fields["text"])
    for call in _items(fields.get("calls")):
        yield _cut(f"{by} calls {_object(call).get('name')}", _object(call).get("arguments"))
    for result in _items(fields.get("results")):
        yield _result(result)


def _result(result: Any) -> ExchangeText:
    fields = _object(result)
    failed = " (error)" if fields.get("is_error") else ""
    return _cut(f"result of {fields.get('call_id')}{failed}", fields.get("text"))


def _cut(by: str, value: Any) -> ExchangeText:
    raw = (value if isinstance(value, str) else encode(value).decode()).encode(errors="replace")
    text = raw[:TRACE_EXCHANGE_TEXT_BYTES_MAX].decode(errors="ignore")
    return ExchangeText(by, text, max(0, len(raw) - TRACE_EXCHANGE_TEXT_BYTES_MAX))


def _object(value: Any) -> dict[str, Any]:
    return value if is_object(value) else {}


def _items(value: Any) -> list[Any]:
    return value if is_list(value) else []


def trace_page(relay: Relay, trace: Trace, name: str, now: datetime) -> Iterator[bytes]:
    """Yield a trace as a page, in parts."""
    about = (
        f'<p class="about">Thread <code>{text(trace.thread_id)}</code>, '
        f"{now:%Y-%m-%d %H:%M} UTC.</p>"
    )
    lines = trace_lines(relay, trace, TRACE_EXCHANGES_MAX)
    for line in document(f"Trace of {name}", chain([about], lines)):
        yield line.encode(errors="replace") + b"\n"


def trace_lines(relay: Relay, trace: Trace, exchanges_max: int) -> Iterator[str]:
    """Yield a trace as lines of HTML, also used by the web page."""
    yield from section("All runs", _totals(trace))
    calls = sum(len(run.calls) for run in trace.runs)
    # The newest runs show their exchanges; older ones only the ref.
    bare = max(0, calls - exchanges_max)
    if bare:
        yield f'<p class="none">The exchanges of {bare} older calls are listed by ref only.</p>'
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
        yield f'<p class="none">{trace.runs_left_out} earlier runs are only in the totals.</p>'


def _run(relay: Relay, run: Run, bare: int) -> Iterator[str]:
    who = ":".join(each for each in (run.provider, run.model) if each)
    unpriced = sum(call.usage.price is None for call in run.calls)
    yield f"<section><h2>{text(run.run)} <small>{run.status}</small></h2>"
    yield from figures(
        (
            ("kind, model", f"{text(run.kind)}, {text(who)}"),
            ("by", text(run.by)),
            ("started (UTC)", f"{run.started_at:%Y-%m-%d %H:%M:%S}"),
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


def _call(relay: Relay, call: ModelCall, is_bare: bool) -> Iterator[str]:
    price = trace_display.price(call.usage, call.usage.price is None, 1)
    yield (
        f"<details><summary>call {call.round} <small>{text(call.model)} · "
        f"{escape(trace_display.tokens(call.usage))} · {escape(price)} · "
        f"{trace_display.took(call.duration_ms)}</small></summary>"
    )
    if call.tools:
        yield "<ul>"
    for tool in call.tools:
        took = trace_display.took(tool.duration_ms) + (" error" if tool.is_error else "")
        refs = "".join(f" <code>{text(ref)}</code>" for ref in tool.refs)
        yield f"<li>{text(tool.name)} <small>{took}</small>{refs}</li>"
    if call.tools:
        yield "</ul>"
    if call.exchange is not None:
        yield f"<p>Exchange <code>{text(call.exchange)}</code></p>"
        for said in [] if is_bare else read_exchange(relay, call.exchange):
            more = f"{said.left_out_bytes:,} more bytes"
            cut = f"<small>{more}</small>" if said.left_out_bytes else ""
            yield f"<pre>{escape(fenced(said.text, said.by))}</pre>{cut}"
    yield "</details>"
