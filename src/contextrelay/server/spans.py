"""OpenTelemetry spans: one per request, exported as the OTEL_* variables configure.

A span has the route, verb, status, duration and sizes of a request. It has no path, query, ref,
body, key or address. If the environment names no exporter, no `Spans` object is created.

Rule: a request never waits for the exporter. Spans wait in the SDK's bounded queue. If the queue is
full, spans are dropped, and the log says so.
"""

from __future__ import annotations

import logging
import os
from time import perf_counter_ns, time_ns

from contextrelay.errors import RelayError
from contextrelay.server.metrics import NO_PLACE
from contextrelay.verbs.routes import routes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

log = logging.getLogger("contextrelay.http")

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def open_spans() -> Spans | None:
    """Return the tracer for the exporter that the environment names, or None if it names none."""
    is_off = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if is_off or not any(name in os.environ for name in _ENDPOINTS):
        return None
    try:
        from contextrelay.runs.otlp import open_exporter

        exporter = open_exporter()
    except RelayError as error:
        log.warning("spans are not exported: %s; %s", error, error.hint)
        return None
    return Spans(exporter) if exporter is not None else None


class Spans:
    """The tracer of one server process."""

    def __init__(self, exporter: SpanExporter) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.trace import SpanKind, Status, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        named = {} if "OTEL_SERVICE_NAME" in os.environ else {"service.name": "contextrelay"}
        self._provider = TracerProvider(resource=Resource.create(named))
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("contextrelay")
        self._extract = TraceContextTextMapPropagator().extract
        self._kind, self._error = SpanKind.SERVER, Status(StatusCode.ERROR)
        self._verbs = {
            (route.path, route.method): route.verb.__name__ for route in routes() if not route.name
        }
        # Durations come from a monotonic clock, and start times from the system clock.
        self._offset_ns = time_ns() - perf_counter_ns()

    def add(
        self,
        begun_ns: int,
        path: str,
        method: str,
        status: int,
        bytes_in: int,
        bytes_out: int,
        traceparent: bytes = b"",
    ) -> None:
        """Record a span for a request that was just answered. Status 0 means that the client
        disconnected.
        """
        method = method if method in _METHODS else "_OTHER"
        route = "" if path == NO_PLACE else path
        verb = self._verbs.get((path, "GET" if method == "HEAD" else method))
        attributes: dict[str, str | int] = {
            "http.request.method": method,
            **({"http.route": route} if route else {}),
            **({"contextrelay.verb": verb} if verb else {}),
            **({"http.response.status_code": status} if status else {}),
            "http.request.body.size": bytes_in,
            "http.response.body.size": bytes_out,
        }
        span = self._tracer.start_span(
            f"{method} {route}".strip(),
            self._extract({"traceparent": traceparent.decode("latin-1")}),
            self._kind,
            attributes,
            start_time=begun_ns + self._offset_ns,
        )
        if status >= 500:
            span.set_status(self._error)
        span.end(perf_counter_ns() + self._offset_ns)

    def close(self) -> None:
        """Export the queued spans, and stop the exporter."""
        self._provider.shutdown()
