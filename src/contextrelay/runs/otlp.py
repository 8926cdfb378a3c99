"""Spans: a run as OpenTelemetry sees it, with the names of its GenAI conventions.

One trace a run: the run, and in it the calls of a model and the tools. Ids are hashes of the run's
id, so that a run exported twice is one. What was asked and answered is in no span, nor are refs but
that of the answer.

Rule: times are those of the events. A call is recorded once, after its tools, so a call and its
tools are laid end to end before that moment, never before the run began.
"""

from __future__ import annotations

import gzip
import hashlib
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from typing import Any, Self
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

import httpx2
from msgspec import Struct
from msgspec.json import encode

from contextrelay.build import build
from contextrelay.errors import Failed, Forbidden, Invalid, RelayError, Unavailable
from contextrelay.limits import (
    OTLP_ATTRIBUTES_KEPT,
    OTLP_HEADERS_MAX,
    OTLP_PAUSE_S,
    OTLP_SENDS_MAX,
    OTLP_TIMEOUT_S_DEFAULT,
    OTLP_TIMEOUT_S_MAX,
    URL_CHARS_MAX,
)
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


SCOPE = "contextrelay"
_ERROR = 2
# Wire types of protobuf.
_VARINT, _FIXED64, _BYTES = 0, 1, 2


def otlp_json(spans: Iterable[Span], resource: Mapping[str, Value], version: str) -> bytes:
    """One line of JSON, an ExportTraceServiceRequest: several of them are a file."""
    scope = {"name": SCOPE, "version": version}
    scoped = {"scope": scope, "spans": [_span_json(span) for span in spans]}
    about = {"attributes": _attributes_json(resource)}
    return encode({"resourceSpans": [{"resource": about, "scopeSpans": [scoped]}]}) + b"\n"


def _span_json(span: Span) -> dict[str, Any]:
    # Ids are in hex, and 64-bit numbers in strings: so the specification has it.
    return {
        "traceId": span.trace_id.hex(),
        "spanId": span.span_id.hex(),
        **({"parentSpanId": span.parent_id.hex()} if span.parent_id else {}),
        "name": span.name,
        "kind": span.kind,
        "startTimeUnixNano": str(span.start_ns),
        "endTimeUnixNano": str(span.end_ns),
        "attributes": _attributes_json(span.attributes),
        **({"status": {"code": _ERROR, "message": span.message}} if span.is_error else {}),
    }


def _attributes_json(attributes: Mapping[str, Value]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value_json(value)} for key, value in attributes.items()]


def _value_json(value: Value) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": value}


def otlp_protobuf(spans: Iterable[Span], resource: Mapping[str, Value], version: str) -> bytes:
    """An ExportTraceServiceRequest."""
    scope = _text(1, SCOPE) + _text(2, version)
    scoped = _bytes(1, scope) + b"".join(_bytes(2, _span(span)) for span in spans)
    return _bytes(1, _bytes(1, _attributes(1, resource)) + _bytes(2, scoped))


def _span(span: Span) -> bytes:
    status = (_text(2, span.message) if span.message else b"") + _number(3, _ERROR)
    return b"".join(
        (
            _bytes(1, span.trace_id),
            _bytes(2, span.span_id),
            _bytes(4, span.parent_id) if span.parent_id else b"",
            _text(5, span.name),
            _number(6, span.kind),
            _key(7, _FIXED64) + struct.pack("<Q", span.start_ns),
            _key(8, _FIXED64) + struct.pack("<Q", span.end_ns),
            _attributes(9, span.attributes),
            _bytes(15, status) if span.is_error else b"",
        )
    )


def _attributes(field: int, attributes: Mapping[str, Value]) -> bytes:
    """Attributes, as a field that may be repeated."""
    return b"".join(_attribute(field, key, value) for key, value in attributes.items())


# Most spans have the attributes of another one; `typed`, because True is 1.
@lru_cache(OTLP_ATTRIBUTES_KEPT, typed=True)
def _attribute(field: int, key: str, value: Value) -> bytes:
    return _bytes(field, _text(1, key) + _bytes(2, _value(value)))


def _value(value: Value) -> bytes:
    if isinstance(value, bool):
        return _number(2, int(value))
    if isinstance(value, int):
        return _number(3, value)
    if isinstance(value, float):
        return _key(4, _FIXED64) + struct.pack("<d", value)
    return _text(1, value)


def _text(field: int, text: str) -> bytes:
    return _bytes(field, text.encode(errors="replace"))


def _bytes(field: int, raw: bytes) -> bytes:
    return _key(field, _BYTES) + _varint(len(raw)) + raw


def _number(field: int, number: int) -> bytes:
    return _key(field, _VARINT) + _varint(number & 0xFFFF_FFFF_FFFF_FFFF)


@cache
def _key(field: int, wire_type: int) -> bytes:
    return _varint(field << 3 | wire_type)


def _varint(number: int) -> bytes:
    raw = bytearray()
    while number > 0x7F:
        raw.append(number & 0x7F | 0x80)
        number >>= 7
    raw.append(number)
    return bytes(raw)


PREFIX = "OTEL_EXPORTER_OTLP_"
ENDPOINT = f"{PREFIX}ENDPOINT"
_PATH = "/v1/traces"
_AGAIN = (429, 502, 503, 504)
_HINT = "write http://HOST:4318, the OTLP/HTTP port of a collector"


class Target(Struct, frozen=True, kw_only=True):
    """Where spans are sent, and how."""

    url: str
    headers: dict[str, str] = {}
    timeout_s: float = OTLP_TIMEOUT_S_DEFAULT
    is_packed: bool = False
    resource: dict[str, Value] = {}

    @property
    def shown(self) -> str:
        """The URL without what may be a secret."""
        parts = urlsplit(self.url)
        return urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))


def target_in(environ: Mapping[str, str]) -> Target | None:
    """Where the environment says that spans go, if it does.

    Raises:
        Invalid: it is no URL.
    """
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    if environ.get("OTEL_TRACES_EXPORTER", "otlp") != "otlp":
        return None
    protocol = f"{PREFIX}PROTOCOL"
    if environ.get(protocol) == "grpc":
        raise Invalid(f"{protocol} is grpc", "set it to http/protobuf, and the port to 4318")
    if url := environ.get(f"{PREFIX}TRACES_ENDPOINT"):
        return _target(_parts(url), environ)
    if url := environ.get(ENDPOINT):
        parts = _parts(url)
        return _target(parts._replace(path=parts.path.rstrip("/") + _PATH), environ)
    return None


def target_at(url: str, environ: Mapping[str, str]) -> Target:
    """The target of a URL that a person gave: `/v1/traces` is added where it has no path.

    Raises:
        Invalid: it is no URL.
    """
    parts = _parts(url)
    if parts.path in ("", "/"):
        parts = parts._replace(path=_PATH)
    known = environ.get(f"{PREFIX}TRACES_ENDPOINT") or environ.get(ENDPOINT)
    target = _target(parts, environ)
    if known and _parts(known)[:2] != parts[:2]:
        return Target(url=target.url, timeout_s=target.timeout_s, resource=target.resource)
    return target


class Sender:
    """Sends spans to a target, over one connection."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._headers = {**target.headers, "content-type": "application/x-protobuf"}
        if target.is_packed:
            self._headers["content-encoding"] = "gzip"
        host = urlsplit(target.url).hostname or ""
        is_here = host in ("localhost", "::1") or host.startswith("127.")
        # Proxies are for what is elsewhere.
        self._client = httpx2.Client(
            timeout=target.timeout_s, follow_redirects=False, trust_env=not is_here
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ended: object) -> None:
        self._client.close()

    def send(self, spans: Iterable[Span], pause: Callable[[float], object]) -> None:
        """Send spans, again where that may help; `pause` waits so many seconds.

        Raises:
            Unavailable: nobody answers, or asks for them later.
            Forbidden: the headers are not good there.
            Failed: they are refused.
        """
        raw = otlp_protobuf(spans, self.target.resource, build().version)
        if self.target.is_packed:
            raw = gzip.compress(raw, 1)
        for sends_left in reversed(range(OTLP_SENDS_MAX)):
            try:
                self._post(raw)
                return
            except Unavailable:
                if not sends_left:
                    raise
                pause(OTLP_PAUSE_S * (OTLP_SENDS_MAX - sends_left))

    def _post(self, raw: bytes) -> None:
        target = self.target
        try:
            # Of the reply only the status is read: its body has no bound.
            with self._client.stream(
                "POST", target.url, content=raw, headers=self._headers
            ) as reply:
                status = reply.status_code
        except httpx2.HTTPError as error:
            raise Unavailable(f"{target.shown} does not answer: {error}", _HINT) from error
        except (ValueError, httpx2.InvalidURL) as error:
            raise Invalid(f"{target.shown} cannot be sent to: {error}", _HINT) from error
        if not 200 <= status < 300:
            raise _problem(target, status)


def _problem(target: Target, status: int) -> RelayError:
    said = f"{target.shown} answers {status}"
    if status in (401, 403):
        return Forbidden(said, f"set {PREFIX}HEADERS to what it wants")
    if status in _AGAIN:
        return Unavailable(said, "send again later")
    return Failed(said, _HINT)


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url.strip())
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise Invalid("that is no URL of an OTLP receiver", _HINT) from error
    if not is_url or len(url) > URL_CHARS_MAX or "@" in parts.netloc or not url.isprintable():
        raise Invalid("that is no URL of an OTLP receiver", _HINT)
    return parts


def _target(parts: SplitResult, environ: Mapping[str, str]) -> Target:
    def value(name: str) -> str:
        return environ.get(f"{PREFIX}TRACES_{name}") or environ.get(f"{PREFIX}{name}", "")

    try:
        timeout_s = float(value("TIMEOUT") or OTLP_TIMEOUT_S_DEFAULT * 1_000) / 1_000
    except ValueError:
        timeout_s = OTLP_TIMEOUT_S_DEFAULT
    return Target(
        url=urlunsplit(parts._replace(fragment="")),
        headers={name.lower(): each for name, each in _pairs(value("HEADERS")).items()},
        timeout_s=min(max(timeout_s, 0.001), OTLP_TIMEOUT_S_MAX),
        is_packed=value("COMPRESSION") == "gzip",
        resource=resource(environ),
    )


def resource(environ: Mapping[str, str]) -> dict[str, Value]:
    """What sends the spans, as its environment describes it."""
    return {
        "service.name": "contextrelay",
        "service.version": build().version,
        **_pairs(environ.get("OTEL_RESOURCE_ATTRIBUTES", "")),
        **({"service.name": name} if (name := environ.get("OTEL_SERVICE_NAME")) else {}),
    }


def _pairs(text: str) -> dict[str, str]:
    """`key=value,key2=value%202`; what is no pair is passed over, as the specification says."""
    pairs = (each.partition("=") for each in text.split(",")[:OTLP_HEADERS_MAX])
    return {
        name.strip(): unquote(value.strip()) for name, equals, value in pairs if name and equals
    }
