"""A way to an S3 server that now and then answers badly: with 503, late, or by half.

503     instead of an answer          slow    no answer within SLOW_S
cut     half of what is read          drop    the connection ends in the middle of a body
"""

from __future__ import annotations

import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

SLOW_S = 30.0


class FlakyServer:
    """Passes requests on. After `fail`, so many get no proper reply."""

    def __init__(self, target_port: int) -> None:
        self.failed = 0
        self.ended = threading.Event()
        self._left = 0
        self._how = ""
        self._lock = threading.Lock()
        flaky = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                size_bytes = int(self.headers.get("content-length") or 0)
                if size_bytes and flaky.fails("drop"):
                    self.rfile.read(size_bytes // 2)
                    self.close_connection = True
                    self.connection.close()
                    return
                body = self.rfile.read(size_bytes)
                if flaky.fails("slow"):
                    flaky.ended.wait(SLOW_S)
                    self.close_connection = True
                    return
                if flaky.fails("503"):
                    self.send_response(503)
                    self.send_header("content-length", "0")
                    self.end_headers()
                    return
                far = http.client.HTTPConnection("127.0.0.1", target_port)
                far.request(self.command, self.path, body, dict(self.headers))
                reply = far.getresponse()
                content = reply.read()
                far.close()
                self.send_response(reply.status)
                for name, value in reply.getheaders():
                    if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                        self.send_header(name, value)
                size = reply.getheader("content-length") if self.command == "HEAD" else len(content)
                self.send_header("content-length", str(size or 0))
                self.end_headers()
                if content and self.command == "GET" and flaky.fails("cut"):
                    self.wfile.write(content[: len(content) // 2])
                    self.close_connection = True
                    self.connection.close()
                    return
                self.wfile.write(content)

            def __getattr__(self, name: str) -> Any:
                if name.startswith("do_"):
                    return self.handle_any
                raise AttributeError(name)

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]

    def fail(self, times: int, how: str) -> None:
        with self._lock:
            self._left, self._how = times, how

    def fails(self, how: str) -> bool:
        with self._lock:
            if self._left == 0 or self._how != how:
                return False
            self._left -= 1
            self.failed += 1
            return True

    def __enter__(self) -> FlakyServer:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.ended.set()
        self._server.shutdown()
        self._server.server_close()
