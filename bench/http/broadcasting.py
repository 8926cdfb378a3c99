"""A bare picows server: what one connection sends to /trigger goes to all others, and nowhere else.

`python -m bench.http.broadcasting` prints its port.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any

import uvloop

# Not everybody who checks types has it installed: `make bench` does that.
picows: Any = import_module("picows")

subscribed: set[Any] = set()


class Subscribed(picows.WSListener):
    def on_ws_connected(self, transport: Any) -> None:
        subscribed.add(transport)

    def on_ws_disconnected(self, transport: Any) -> None:
        subscribed.discard(transport)


class Triggered(picows.WSListener):
    def on_ws_frame(self, transport: Any, frame: Any) -> None:
        if frame.msg_type == picows.WSMsgType.TEXT:
            text = frame.get_payload_as_bytes()
            for each in subscribed:
                each.send(picows.WSMsgType.TEXT, text)


def listener(request: Any) -> Any:
    return Triggered() if request.path == b"/trigger" else Subscribed()


async def main() -> None:
    server = await picows.ws_create_server(listener, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
