"""An OTLP receiver for tests: an HTTP server on loopback that reads what it is sent as protobuf."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.store.engines import until


class Receiver:
    """What came: requests as they were sent, and the spans in them."""

    def __init__(self, statuses: list[int]) -> None:
        self.statuses = statuses
        """What to answer first; then 200."""
        self.port = 0
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.requests: list[Any] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def spans(self) -> list[Any]:
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def wait_for(self, count: int) -> list[Any]:
        """The spans, once there are so many."""
        until(lambda: len(self.spans) >= count, f"{count} spans")
        return self.spans


def attributes(described: Any) -> dict[str, Any]:
    """The attributes of a span or a resource, as plain values."""
    return {
        each.key: getattr(each.value, each.value.WhichOneof("value"))
        for each in described.attributes
    }


@contextmanager
def receiving(*statuses: int) -> Generator[Receiver]:
    """A receiver, until the block ends; it answers with these statuses first."""
    receiver = Receiver(list(statuses))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                raw = gzip.decompress(raw)
            status = receiver.statuses.pop(0) if receiver.statuses else 200
            receiver.paths.append(self.path)
            receiver.headers.append({name.lower(): each for name, each in self.headers.items()})
            if status == 200:
                assert self.headers["content-type"] == "application/x-protobuf"
                receiver.requests.append(ExportTraceServiceRequest.FromString(raw))
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()
