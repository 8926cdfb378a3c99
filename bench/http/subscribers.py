"""Subscribers to one channel, which time how long it takes until the last of them has heard.

`python -m bench.http.subscribers HOST TRIGGER COUNT BYTES` reads how often to do that, a line each
time, and answers each line with what it saw. TRIGGER is `push`, for a push over HTTP, or `frame`,
for a frame of that many bytes to a server that passes it on.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

import uvloop
from msgspec.json import encode

from bench.http.fanout import Heard

# Not everybody who checks types has it installed: `make bench` does that.
picows: Any = import_module("picows")

CHANNEL = "news"
HEARD_S_MAX = 20
CONNECTING_MAX = 50
"""How many connect at the same time."""

Trigger = Callable[[int], Awaitable[None]]


class Counting:
    """How many have heard, and when that was all of them."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.frame_bytes = 0
        self.is_complete = asyncio.Event()
        self._left = count
        self._done_s = 0.0

    def hear(self, frame_bytes: int) -> None:
        self._left -= 1
        if not self._left:
            self._done_s = time.perf_counter()
            self.frame_bytes = frame_bytes
            self.is_complete.set()

    async def time(self, trigger: Trigger, number: int) -> float:
        """Seconds from the trigger to the last one."""
        self._left = self.count
        self.is_complete.clear()
        begun_s = time.perf_counter()
        await trigger(number)
        async with asyncio.timeout(HEARD_S_MAX):
            await self.is_complete.wait()
        return self._done_s - begun_s


class Subscriber(picows.WSListener):
    def __init__(self, counting: Counting) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self._counting = counting

    def on_ws_frame(self, transport: Any, frame: Any) -> None:
        if frame.msg_type == picows.WSMsgType.TEXT:
            self._counting.hear(frame.payload_size)


async def main(host: str, trigger: str, count: int, frame_bytes: int) -> None:
    counting = Counting(count)
    for start in range(0, count, CONNECTING_MAX):
        await asyncio.gather(
            *(
                picows.ws_connect(lambda: Subscriber(counting), f"ws://{host}/ws/{CHANNEL}")
                for _ in range(min(CONNECTING_MAX, count - start))
            )
        )
    tell = await (_pushing(host) if trigger == "push" else _passing_on(host, frame_bytes))
    loop = asyncio.get_running_loop()
    number = 0
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        ms: list[float] = []
        for _ in range(int(line)):
            number += 1
            ms.append(await counting.time(tell, number) * 1e3)
        print(encode(Heard(ms, counting.frame_bytes)).decode(), flush=True)


async def _pushing(host: str) -> Trigger:
    name, _, port = host.partition(":")
    reader, writer = await asyncio.open_connection(name, int(port))

    async def push(number: int) -> None:
        body = encode({"data": f"news {number}", "channel": CHANNEL})
        head = f"POST /push HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
        writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        lines = head.lower().split(b"\r\n")
        size = next(line.partition(b":")[2] for line in lines if line.startswith(b"content-length"))
        await reader.readexactly(int(size))

    return push


async def _passing_on(host: str, frame_bytes: int) -> Trigger:
    transport, _ = await picows.ws_connect(picows.WSListener, f"ws://{host}/trigger")

    async def send(number: int) -> None:
        transport.send(picows.WSMsgType.TEXT, b"%012d" % number + b"x" * (frame_bytes - 12))

    return send


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
