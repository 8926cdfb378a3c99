"""OTLP: spans as the bytes that OpenTelemetry's receivers read: JSON for a file, protobuf for HTTP.

Written by hand: a few messages with a dozen fields, whose numbers will not change, against an SDK
of 15 packages (docs/decisions/0025). The tests read it with opentelemetry-proto.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import Any

from msgspec.json import encode

from contextrelay.limits import OTLP_ATTRIBUTES_KEPT
from contextrelay.runs.tracing.spans import Span, Value

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
