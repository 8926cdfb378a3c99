"""Spans: a run as OpenTelemetry sees it, with the names of its GenAI conventions.

One trace a run: the run, and in it the calls of a model and the tools. Ids are hashes of the run's
id, so that a run exported twice is one. What was asked and answered is in no span, nor are refs but
that of the answer.

Rule: times are those of the events. A call is recorded once, after its tools, so a call and its
tools are laid end to end before that moment, never before the run began.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from contextrelay.model.trace import Call, Run, Usage

Value = str | int | float | bool
INTERNAL, SERVER, CLIENT = 1, 2, 3
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS_NS = 1_000_000


class Span(Struct, frozen=True, kw_only=True):
    """Something that took time, as OTLP has it."""

    trace_id: bytes
    span_id: bytes
    parent_id: bytes = b""
    name: str
    kind: int
    start_ns: int
    end_ns: int
    attributes: dict[str, Value]
    is_error: bool = False
    message: str = ""


def spans_of(run: Run, thread: str) -> Iterator[Span]:
    """The run, its calls, and their tools."""
    begin_ns = _ns(run.started_at)
    trace_id = _hashed(run.run, thread)[:16]
    root_id = _hashed(run.run, thread, "run")[:8]
    end_ns = _ns(run.ended_at or max((call.at for call in run.calls), default=run.started_at))
    agent = ":".join(each for each in (run.provider, run.model) if each) or run.kind
    yield Span(
        trace_id=trace_id,
        span_id=root_id,
        name=f"invoke_agent {agent}",
        kind=INTERNAL,
        start_ns=begin_ns,
        end_ns=max(begin_ns, end_ns),
        attributes={
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.conversation.id": thread,
            "gen_ai.agent.name": agent,
            **_named("gen_ai.provider.name", run.provider),
            **_named("gen_ai.request.model", run.model),
            **_usage(run.usage),
            "contextrelay.run.id": run.run,
            "contextrelay.run.kind": run.kind,
            "contextrelay.run.status": run.status,
            **_named("contextrelay.run.answer", run.ref or ""),
            **_named("error.type", run.error),
        },
        is_error=run.status == "failed",
        message=run.reason if run.status == "failed" else "",
    )
    for index, call in enumerate(run.calls):
        yield from _call_spans(run, thread, call, (trace_id, root_id), index)


def _call_spans(
    run: Run, thread: str, call: Call, parents: tuple[bytes, bytes], index: int
) -> Iterator[Span]:
    trace_id, root_id = parents
    begin_ns = _ns(run.started_at)
    tools_ms = sum(tool.duration_ms for tool in call.tools)
    answered_ns = max(begin_ns, _ns(call.at) - tools_ms * _MS_NS)
    asked_ns = max(begin_ns, _ns(call.at) - max(call.duration_ms, tools_ms) * _MS_NS)
    call_id = _hashed(run.run, thread, f"call {index}")[:8]
    model = call.model or run.model
    yield Span(
        trace_id=trace_id,
        span_id=call_id,
        parent_id=root_id,
        name=f"chat {model}",
        kind=CLIENT,
        start_ns=asked_ns,
        end_ns=answered_ns,
        attributes={
            "gen_ai.operation.name": "chat",
            "gen_ai.conversation.id": thread,
            **_named("gen_ai.provider.name", run.provider),
            **_named("gen_ai.request.model", run.model),
            **_named("gen_ai.response.model", call.model),
            **_usage(call.usage),
            "contextrelay.run.round": call.round,
        },
    )
    at_ns = answered_ns
    for place, tool in enumerate(call.tools):
        begun_ns, at_ns = at_ns, at_ns + tool.duration_ms * _MS_NS
        yield Span(
            trace_id=trace_id,
            span_id=_hashed(run.run, thread, f"call {index} tool {place}")[:8],
            parent_id=root_id,
            name=f"execute_tool {tool.name}",
            kind=INTERNAL,
            start_ns=begun_ns,
            end_ns=at_ns,
            attributes={
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.conversation.id": thread,
                **_named("gen_ai.tool.name", tool.name),
                **_named("gen_ai.tool.call.id", tool.id),
                "gen_ai.tool.type": "function",
                **({"error.type": "tool_error"} if tool.is_error else {}),
            },
            is_error=tool.is_error,
        )


def _usage(usage: Usage) -> dict[str, Value]:
    """Tokens, and the price where it is known: nothing is said of what is not."""
    counts: dict[str, Value] = {
        "gen_ai.usage.input_tokens": usage.tokens_in,
        "gen_ai.usage.output_tokens": usage.tokens_out,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write,
    }
    if usage.price is not None:
        counts["contextrelay.usage.price_usd"] = float(usage.price)
    return counts


def _named(name: str, value: str) -> dict[str, Value]:
    return {name: value} if value else {}


def _hashed(*texts: str) -> bytes:
    return hashlib.sha256("\0".join(texts).encode(errors="replace")).digest()


def _ns(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1) * 1_000
