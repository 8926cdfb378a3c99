"""The WebSocket protocol of one connection: that of uvicorn, with a way to write encoded frames.

A frame for many listeners is encoded once and written directly, because the library would encode
the frame again for each listener.

Rule: no data is stored for a client that does not read. The buffer of a client is bounded, and a
writer waits until there is room. A connection that was cut off is closed soon, even if data is
unread.
"""

from __future__ import annotations

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.http11 import Request

from contextrelay.server.security_headers import NO_MORE_LINES, SAFE_LINES

# Seconds that a client has to read the reason why it was cut off.
CUT_S_MAX = 10


EXTENSION = "contextrelay.socket"
_NO_HANDSHAKE = b"HTTP/1.1 400 Bad Request\r\n" + SAFE_LINES + NO_MORE_LINES


class Socket(WebSocketsSansIOProtocol):
    """A WebSocket connection. Handlers find it in the extensions of the ASGI scope."""

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if not self.close_sent:
            extensions: dict[str, object] = self.scope["extensions"]  # type: ignore[assignment]
            extensions[EXTENSION] = self

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            # The request was valid HTTP, but exceeds the limits of a handshake.
            self.close_sent = True
            self.transport.write(_NO_HANDSHAKE)
            self.transport.close()

    async def send(self, message: ASGISendEvent) -> None:
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            # The handshake was refused with a response, so returning now is not an error.
            self.handshake_complete = True

    def handle_text(self, event: Frame) -> None:
        """Discard data from the client, because nothing reads it."""

    handle_bytes = handle_cont = handle_text

    def handle_ping(self) -> None:
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()  # The client does not read, so its answer is dropped.

    @property
    def is_gone(self) -> bool:
        """Return True if the client has disconnected."""
        return self.close_sent or self.transport.is_closing()

    def write(self, frames: bytes) -> bool:
        """Write whole frames. Return True if the client is connected and keeps up with reading."""
        if self.is_gone:
            return False
        self.transport.write(frames)
        return self.writable.is_set()

    async def written(self) -> None:
        """Wait until the client has read enough or has disconnected."""
        await self.writable.wait()

    def cut(self, code: int, reason: str) -> None:
        """Close the connection without waiting for the client. Unread data is lost."""
        if self.is_gone:
            return
        self.conn.send_close(code, reason)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.close_timer = self.loop.call_later(CUT_S_MAX, self.transport.abort)
