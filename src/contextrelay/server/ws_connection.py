"""The WebSocket protocol of one connection: that of uvicorn, with a way to write encoded frames.

A frame for many listeners is encoded once and written without the library, which would encode it
again.
Rule: nothing is kept for a client that does not read. Its buffer is bounded and its writer waits;
after a cut-off the connection ends soon, whether the rest was read or not.
"""

from __future__ import annotations

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.http11 import Request

from contextrelay.server.security_headers import NO_MORE_LINES, SAFE_LINES

# Time for a client to read the reason of its cut-off.
CUT_S_MAX = 10


EXTENSION = "contextrelay.socket"
_NO_HANDSHAKE = b"HTTP/1.1 400 Bad Request\r\n" + SAFE_LINES + NO_MORE_LINES


class Socket(WebSocketsSansIOProtocol):
    """A connection, which handlers find in the extensions of its scope."""

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if not self.close_sent:
            extensions: dict[str, object] = self.scope["extensions"]  # type: ignore[assignment]
            extensions[EXTENSION] = self

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            # It was valid HTTP, but exceeds the limits of a handshake.
            self.close_sent = True
            self.transport.write(_NO_HANDSHAKE)
            self.transport.close()

    async def send(self, message: ASGISendEvent) -> None:
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            # It was refused with a response, so returning now is not an error.
            self.handshake_complete = True

    def handle_text(self, event: Frame) -> None:
        """Discard data from clients: nothing reads it."""

    handle_bytes = handle_cont = handle_text

    def handle_ping(self) -> None:
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()  # A client that does not read gets no answer, so drop it.

    @property
    def is_gone(self) -> bool:
        """Return True if the client has disconnected."""
        return self.close_sent or self.transport.is_closing()

    def write(self, frames: bytes) -> bool:
        """Write whole frames; return True if the client is connected and keeps up."""
        if self.is_gone:
            return False
        self.transport.write(frames)
        return self.writable.is_set()

    async def written(self) -> None:
        """Return when the client has caught up or disconnected."""
        await self.writable.wait()

    def cut(self, code: int, reason: str) -> None:
        """Close without waiting for the client; unread data is lost."""
        if self.is_gone:
            return
        self.conn.send_close(code, reason)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.close_timer = self.loop.call_later(CUT_S_MAX, self.transport.abort)
