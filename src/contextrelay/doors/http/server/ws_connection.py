"""The WebSocket protocol of one connection: uvicorn's, with a way to write frames as they are.

A frame that goes to many is made once, so it is written past the library that would make it again.
Rule: nothing is kept for who does not read. Its buffer is bounded, its writer waits, and when it is
cut off, the connection ends soon, whether the rest was read or not.
"""

from __future__ import annotations

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.http11 import Request

from contextrelay.doors.http.server.security_headers import SAFE_LINES
from contextrelay.limits import CUT_S_MAX

EXTENSION = "contextrelay.socket"
_NO_HANDSHAKE = (
    b"HTTP/1.1 400 Bad Request\r\n" + SAFE_LINES + b"connection: close\r\ncontent-length: 0\r\n\r\n"
)


class Socket(WebSocketsSansIOProtocol):
    """One connection; in its scope's extensions it shows itself."""

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if not self.close_sent:
            extensions: dict[str, object] = self.scope["extensions"]  # type: ignore[assignment]
            extensions[EXTENSION] = self

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            # What passed as HTTP passes the bounds of a handshake.
            self.close_sent = True
            self.transport.write(_NO_HANDSHAKE)
            self.transport.close()

    async def send(self, message: ASGISendEvent) -> None:
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            # It was refused in full, which is an answer: to return now is no fault.
            self.handshake_complete = True

    def handle_text(self, event: Frame) -> None:
        """Drop what clients send: there is nobody who would read it."""

    handle_bytes = handle_cont = handle_text

    def handle_ping(self) -> None:
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()  # Who does not read gets no answer, and none is kept for it.

    @property
    def is_gone(self) -> bool:
        """Whether there is nobody to read any more."""
        return self.close_sent or self.transport.is_closing()

    def write(self, frames: bytes) -> bool:
        """Write whole frames, if somebody is there; whether the reader keeps up."""
        if self.close_sent or self.transport.is_closing():
            return False
        self.transport.write(frames)
        return self.writable.is_set()

    async def written(self) -> None:
        """Return when the reader has caught up, or left."""
        await self.writable.wait()

    def cut(self, code: int, reason: str) -> None:
        """Close without waiting for the reader: what it does not read soon is thrown away."""
        if self.is_gone:
            return
        self.conn.send_close(code, reason)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.close_timer = self.loop.call_later(CUT_S_MAX, self.transport.abort)
