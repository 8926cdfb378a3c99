"""The server without a store: the same protocol and settings, but bodies are read and forgotten.

`python -m bench.http.discarding` prints its port. Its reply is as long as that to a real push.
"""

from __future__ import annotations

from typing import NoReturn

from msgspec import Struct
from msgspec.json import encode

from contextrelay.server.app import App
from contextrelay.server.request import JSON, Receive, Scope, Send
from contextrelay.server.serve import ServeOptions, Server, config, listen, quiet_logs

REF = "0" * 8 + "-0000" * 3 + "-" + "0" * 12


class _Pushed(Struct):
    url: str
    id: str
    channel: str | None


class Discarding(App):
    """The ASGI application."""

    def __init__(self) -> None:
        super().__init__(_no_door)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        while (await receive()).get("more_body"):
            pass
        host = dict(scope["headers"])[b"host"].decode()
        body = encode(_Pushed(f"http://{host}/pull/{REF}", REF, None))
        headers = [(b"content-length", b"%d" % len(body)), (b"content-type", JSON)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _no_door() -> NoReturn:
    raise AssertionError("there is no store here")


def main() -> None:
    quiet_logs()
    listener = listen(ServeOptions(port=0))
    print(listener.getsockname()[1], flush=True)
    Server(config(Discarding())).run([listener])


if __name__ == "__main__":
    main()
