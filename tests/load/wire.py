"""HTTP for load: one connection kept alive, as little work for the client as can be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from msgspec.json import decode
from websockets.asyncio.client import connect

ANSWER_S_MAX = 30.0


class Wire:
    """One connection."""

    def __init__(
        self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._host = f"127.0.0.1:{port}"
        self._reader = reader
        self._writer = writer

    async def ask(
        self, method: str, path: str, body: bytes = b"", kind: str = "text/plain"
    ) -> tuple[int, bytes]:
        """Send a request, and read its answer to the end."""
        head = f"{method} {path} HTTP/1.1\r\nhost: {self._host}\r\n"
        if body:
            head += f"content-type: {kind}\r\ncontent-length: {len(body)}\r\n"
        async with asyncio.timeout(ANSWER_S_MAX):
            self._writer.write(head.encode() + b"\r\n" + body)
            await self._writer.drain()
            status, headers = await self._head()
            if b"content-length" in headers:
                return status, await self._reader.readexactly(int(headers[b"content-length"]))
            return status, b"".join([chunk async for chunk in self._chunks()])

    async def events(self, path: str) -> AsyncIterator[bytes]:
        """The lines of a stream of events, as they come; it ends with the connection."""
        self._writer.write(f"GET {path} HTTP/1.1\r\nhost: {self._host}\r\n\r\n".encode())
        status, _ = await self._head()
        assert status == 200, status
        rest = b""
        async for chunk in self._chunks():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield line

    async def _head(self) -> tuple[int, dict[bytes, bytes]]:
        lines = (await self._reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        pairs = [line.partition(b": ") for line in lines[1:-2]]
        return int(lines[0].split(b" ")[1]), {name: value for name, _, value in pairs}

    async def _chunks(self) -> AsyncIterator[bytes]:
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            yield (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readexactly(2)


@asynccontextmanager
async def wired(port: int) -> AsyncGenerator[Wire]:
    """A connection, closed in the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    try:
        yield Wire(port, reader, writer)
    finally:
        writer.close()


async def by_websocket(port: int, channel: str) -> AsyncIterator[tuple[int, str]]:
    """The seq and ref of every signal of a channel from its first one on."""
    url = f"ws://127.0.0.1:{port}/ws/{channel}?after=0"
    async with connect(url, compression=None, proxy=None, ping_interval=None) as socket:
        async for text in socket:
            yield _signal(text)


async def by_events(port: int, channel: str) -> AsyncIterator[tuple[int, str]]:
    """The same, from a stream of events."""
    async with wired(port) as wire:
        async for line in wire.events(f"/v1/channels/{channel}/events?after=0"):
            if line.startswith(b"data: "):
                yield _signal(line.removeprefix(b"data: "))


def _signal(text: str | bytes) -> tuple[int, str]:
    frame = decode(text)
    return frame["seq"], frame["url"].rpartition("/")[2]
