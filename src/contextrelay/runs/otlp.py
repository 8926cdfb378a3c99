"""Runs as OpenTelemetry spans, with the attribute names of the GenAI conventions.

A run is one trace: a span for the run, which contains spans for the model calls and the tools. Span
ids are hashes of the run's id, so exporting a run twice gives the same trace. Prompts, answers and
refs are not exported, except the ref of the run's answer.

Rule: times come from the events. A call is recorded once, after its tools, so the spans of a call
and its tools are placed one after the other before that time, but never before the start of the
run.
"""

from __future__ import annotations

import hashlib
import logging
import os
from base64 import b64decode
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any
from urllib.parse import SplitResult, urlsplit

from msgspec.json import encode

from contextrelay.build import build
from contextrelay.errors import Failed, Forbidden, Invalid, RelayError, Unavailable
from contextrelay.limits import URL_CHARS_MAX
from contextrelay.model.run import ModelCall, ModelUsage, Run

try:
    import requests
    from google.protobuf.json_format import MessageToDict
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags
except ImportError as error:
    raise Unavailable(
        "OpenTelemetry is not installed", "pip install 'contextrelay[otel]'"
    ) from error

Value = str | int | float | bool
ENDPOINT, HEADERS = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS"
TRACES_ENDPOINT = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
TRACES_HEADERS = "OTEL_EXPORTER_OTLP_TRACES_HEADERS"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS_NS = 1_000_000
_URL_HINT = "use http://HOST:4318, the OTLP/HTTP port of a collector"
_RETRIED = (429, 502, 503, 504)


class SpanFactory:
    """Creates spans that share a resource and a scope."""

    def __init__(self) -> None:
        self._resource = Resource.create(
            {} if "OTEL_SERVICE_NAME" in os.environ else {"service.name": "contextrelay"}
        )
        self._scope = InstrumentationScope("contextrelay", build().version)

    def spans_of(self, run: Run, thread: str) -> Iterator[ReadableSpan]:
        """Yield the span of a run, then the spans of its calls and their tools."""
        begin_ns = _ns(run.started_at)
        trace_id, root_id = _id(16, run.run, thread), _id(8, run.run, thread, "run")
        end_ns = _ns(run.ended_at or max((call.at for call in run.calls), default=run.started_at))
        agent = ":".join(each for each in (run.provider, run.model) if each) or run.kind
        yield self._span(
            (trace_id, root_id, 0),
            f"invoke_agent {agent}",
            SpanKind.INTERNAL,
            (begin_ns, max(begin_ns, end_ns)),
            {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.conversation.id": thread,
                "gen_ai.agent.name": agent,
                "gen_ai.provider.name": run.provider,
                "gen_ai.request.model": run.model,
                **_usage(run.usage),
                "contextrelay.run.id": run.run,
                "contextrelay.run.kind": run.kind,
                "contextrelay.run.status": run.status,
                "contextrelay.run.answer": run.ref or "",
                "error.type": run.error,
            },
            (run.reason or run.status) if run.status == "failed" else None,
        )
        for index, call in enumerate(run.calls):
            yield from self._call_spans(run, thread, call, (trace_id, root_id), index)

    def _call_spans(
        self, run: Run, thread: str, call: ModelCall, parents: tuple[int, int], index: int
    ) -> Iterator[ReadableSpan]:
        trace_id, root_id = parents
        begin_ns = _ns(run.started_at)
        tools_ms = sum(tool.duration_ms for tool in call.tools)
        answered_ns = max(begin_ns, _ns(call.at) - tools_ms * _MS_NS)
        asked_ns = max(begin_ns, _ns(call.at) - max(call.duration_ms, tools_ms) * _MS_NS)
        yield self._span(
            (trace_id, _id(8, run.run, thread, f"call {index}"), root_id),
            f"chat {call.model or run.model}",
            SpanKind.CLIENT,
            (asked_ns, answered_ns),
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.conversation.id": thread,
                "gen_ai.provider.name": run.provider,
                "gen_ai.request.model": run.model,
                "gen_ai.response.model": call.model,
                **_usage(call.usage),
                "contextrelay.run.round": call.round,
            },
        )
        at_ns = answered_ns
        for place, tool in enumerate(call.tools):
            begun_ns, at_ns = at_ns, at_ns + tool.duration_ms * _MS_NS
            yield self._span(
                (trace_id, _id(8, run.run, thread, f"call {index} tool {place}"), root_id),
                f"execute_tool {tool.name}",
                SpanKind.INTERNAL,
                (begun_ns, at_ns),
                {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.conversation.id": thread,
                    "gen_ai.tool.name": tool.name,
                    "gen_ai.tool.call.id": tool.id,
                    "gen_ai.tool.type": "function",
                    "error.type": "tool_error" if tool.is_error else "",
                },
                "" if tool.is_error else None,
            )

    def _span(
        self,
        ids: tuple[int, int, int],
        name: str,
        kind: SpanKind,
        times_ns: tuple[int, int],
        attributes: dict[str, Value],
        error: str | None = None,
    ) -> ReadableSpan:
        trace_id, span_id, parent_id = ids
        sampled = TraceFlags(TraceFlags.SAMPLED)
        return ReadableSpan(
            _text(name),
            SpanContext(trace_id, span_id, is_remote=False, trace_flags=sampled),
            SpanContext(trace_id, parent_id, is_remote=False) if parent_id else None,
            self._resource,
            {
                key: _text(value) if isinstance(value, str) else value
                for key, value in attributes.items()
                if value != ""
            },
            kind=kind,
            status=Status(StatusCode.ERROR, _text(error)) if error is not None else Status(),
            start_time=times_ns[0],
            end_time=times_ns[1],
            instrumentation_scope=self._scope,
        )


def otlp_json(spans: list[ReadableSpan]) -> bytes:
    """Return spans as one line of OTLP JSON, an ExportTraceServiceRequest."""
    document = MessageToDict(encode_spans(spans), use_integers_for_enums=True)
    for resource in document.get("resourceSpans", ()):
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                # Ids are hexadecimal in the JSON of OTLP, but base64 in the JSON of protobuf.
                for name in {"traceId", "spanId", "parentSpanId"} & span.keys():
                    span[name] = b64decode(span[name]).hex()
    return encode(document) + b"\n"


class Sender:
    """Sends spans by OTLP over HTTP, as configured by the OTEL_* variables.

    OTEL_EXPORTER_OTLP_HEADERS may contain a key. The headers are sent only to the origin for which
    they were set.
    """

    def __init__(self, url: str) -> None:
        parts = _parsed(url)
        if parts.path in ("", "/"):
            parts = parts._replace(path="/v1/traces")
        self.url = parts._replace(query="", fragment="").geturl()
        self._session = BoundedSession(parts.hostname or "")
        known = os.environ.get(TRACES_ENDPOINT) or os.environ.get(ENDPOINT)
        is_foreign = known is not None and _parsed(known)[:2] != parts[:2]
        with _environment_without((HEADERS, TRACES_HEADERS) if is_foreign else ()):
            self._exporter = OTLPSpanExporter(endpoint=parts.geturl(), session=self._session)

    def send(self, spans: Iterable[ReadableSpan]) -> None:
        """Send spans. The exporter retries after transient errors.

        Raises:
            Unavailable, Forbidden, Failed: the receiver did not accept the spans.
        """
        # The exporter logs any error that this raises.
        log = logging.getLogger("opentelemetry.exporter.otlp.proto.http.trace_exporter")
        log.disabled = True
        try:
            result = self._exporter.export(list(spans))
        finally:
            log.disabled = False
        if result is not SpanExportResult.SUCCESS:
            raise self._problem()

    def close(self) -> None:
        self._exporter.shutdown()

    def _problem(self) -> RelayError:
        status = self._session.last_status
        if status is None:
            return Unavailable(f"{self.url} does not respond", _URL_HINT)
        message = f"{self.url} responded with status {status}"
        if status in (401, 403):
            return Forbidden(message, f"set {HEADERS} to its credentials")
        if status in _RETRIED:
            return Unavailable(message, "retry later")
        return Failed(message, _URL_HINT)


class BoundedSession(requests.Session):
    """An HTTP session that follows no redirects and reads no response bodies."""

    def __init__(self, host: str) -> None:
        super().__init__()
        # Proxies of the environment are ignored for this machine, because they are for other hosts.
        self.trust_env = not (host in ("localhost", "::1") or host.startswith("127."))
        self.last_status: int | None = None

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        self.last_status = None
        options.update(stream=True, allow_redirects=False)
        reply = super().send(request, **options)
        self.last_status = reply.status_code
        reply.close()
        reply._content = b""  # pyright: ignore[reportPrivateUsage]
        if reply.is_redirect:
            raise requests.TooManyRedirects("redirects are not followed")
        return reply


def open_exporter() -> SpanExporter | None:
    """Open the OTLP exporter that the environment names, or return None if it names none.

    Raises:
        Invalid: the endpoint is not a URL, or the protocol is not supported.
    """
    environ = os.environ
    url = environ.get(TRACES_ENDPOINT) or environ.get(ENDPOINT)
    if url is None or environ.get("OTEL_TRACES_EXPORTER", "otlp") != "otlp":
        return None
    host = _parsed(url).hostname or ""
    protocol = environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or environ.get(
        "OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"
    )
    if protocol != "grpc":
        return OTLPSpanExporter(session=BoundedSession(host))
    try:
        module = import_module("opentelemetry.exporter.otlp.proto.grpc.trace_exporter")
    except ImportError as error:
        raise Invalid(
            "the OTLP protocol grpc requires another package",
            "pip install opentelemetry-exporter-otlp-proto-grpc, or set"
            " OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf and the port to 4318",
        ) from error
    return module.OTLPSpanExporter()


@contextmanager
def _environment_without(names: tuple[str, ...]) -> Generator[None]:
    """Remove environment variables while the SDK reads its settings, and restore them."""
    hidden = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(hidden)


def _parsed(url: str) -> SplitResult:
    try:
        parts = urlsplit(url.strip())
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise Invalid("invalid URL of an OTLP receiver", _URL_HINT) from error
    if not is_url or len(url) > URL_CHARS_MAX or "@" in parts.netloc or not url.isprintable():
        raise Invalid("invalid URL of an OTLP receiver", _URL_HINT)
    return parts


def _usage(usage: ModelUsage) -> dict[str, Value]:
    """Return the token counts, and the price if it is known, as span attributes."""
    counts: dict[str, Value] = {
        "gen_ai.usage.input_tokens": usage.tokens_in,
        "gen_ai.usage.output_tokens": usage.tokens_out,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write,
    }
    if usage.price is not None:
        counts["contextrelay.usage.price_usd"] = float(usage.price)
    return counts


def _id(size_bytes: int, *texts: str) -> int:
    digest = hashlib.sha256("\0".join(texts).encode(errors="replace")).digest()
    return int.from_bytes(digest[:size_bytes])


def _text(value: str) -> str:
    """Return a text without lone surrogates, which protobuf cannot encode."""
    return value.encode(errors="replace").decode()


def _ns(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1) * 1_000
