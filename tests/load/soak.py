"""Soaking: agents that push, pull, peek and patch, others that listen, on one or two servers.

Rule: every answer is looked at. A status other than the right one, a byte that differs, a signal
that is missing, comes twice or out of turn ends it.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from hashlib import sha256

from msgspec import Struct, field
from msgspec.json import decode, encode

from tests.load.gauge import Sample, growth, sample
from tests.load.wire import ANSWER_S_MAX, Wire, by_events, by_websocket, wired
from tests.server.serving import Apart

LISTENERS_SHARE = 4  # One connection of so many listens.
CHANNELS = 10
KNOWN_MAX = 200
LATENCIES_MAX = 20_000
SAMPLE_S = 1.0
HEARD_LOOK_S = 0.05
# Each agent rests so long between two things it does: together they keep two cores busy enough.
REST_S = 0.15
SIZES = (100, 2_000, 10_000, 60_000)
# In the first third nobody rests, and bodies are large, so that caches fill to their bounds.
SETTLING = 3
SETTLING_SIZES = (30_000, 60_000)
# What memory may still grow by then until the end, in parts of what it is; and how many more files
# may be open at one moment than at another.
GROWTH_MAX = 0.15
# A shorter run says nothing of growth: caches may still be filling on a busy machine.
GROWTH_S_MIN = 20
FILES_MORE_MAX = 40


class Wrong(Exception):
    """Something was not as it should be."""


class Soaked(Struct):
    """What came of it."""

    counts: dict[str, int] = field(default_factory=lambda: defaultdict[str, int](int))
    latencies_s: dict[str, deque[float]] = field(
        default_factory=lambda: defaultdict[str, deque[float]](lambda: deque(maxlen=LATENCIES_MAX))
    )
    heard: int = 0
    samples: list[Sample] = []

    def settled(self) -> list[Sample]:
        """The samples after the first third."""
        return self.samples[len(self.samples) // SETTLING :]

    def check(self) -> None:
        """See that memory and files are flat.

        Raises:
            Wrong: they are not.
        """
        settled = self.settled()
        took_s = settled[-1].at_s - settled[0].at_s
        grown = growth(settled) * took_s / settled[0].memory_bytes
        if took_s >= GROWTH_S_MIN and grown > GROWTH_MAX:
            raise Wrong(f"memory grew by {grown:.0%} in {took_s:.0f} s")
        files = [each.files for each in settled]
        if max(files) - min(files) > FILES_MORE_MAX:
            raise Wrong(f"{min(files)} to {max(files)} files are open")

    def lines(self) -> list[str]:
        """A summary for people."""
        first, last = self.settled()[0], self.samples[-1]
        lines = [f"{'what':<8}{'times':>9}{'p50 ms':>9}{'p99 ms':>9}"]
        for kind, count in sorted(self.counts.items()):
            slow = sorted(self.latencies_s[kind])
            p50, p99 = (1000 * slow[len(slow) * each // 100] for each in (50, 99))
            lines.append(f"{kind:<8}{count:>9,}{p50:>9.1f}{p99:>9.1f}")
        lines.append(f"{'heard':<8}{self.heard:>9,}")
        lines.append(
            f"memory {_mib(self.samples[0])} MiB at first, {_mib(first)} MiB once settled,"
            f" {_mib(last)} MiB at last: {growth(self.settled()) / 1024:+.1f} KiB/s"
        )
        files = [each.files for each in self.settled()]
        lines.append(f"files {min(files)} to {max(files)}")
        return lines


def _mib(sample: Sample) -> int:
    return sample.memory_bytes >> 20


class Soak:
    """One run: what everybody knows."""

    def __init__(self, servers: Sequence[Apart], seconds: float, connections: int) -> None:
        self.servers = servers
        self.seconds = seconds
        self.connections = connections
        self.soaked = Soaked()
        self.begun_s = time.monotonic()
        # The newest of what there is: the ref, its text's hash, its metadata.
        self.known: deque[tuple[str, bytes, dict[str, int]]] = deque(maxlen=KNOWN_MAX)
        self.pushed: dict[str, set[str]] = {_channel(each): set() for each in range(CHANNELS)}
        self.heard: list[tuple[str, list[str]]] = []

    @property
    def is_over(self) -> bool:
        return time.monotonic() - self.begun_s >= self.seconds

    @property
    def is_settling(self) -> bool:
        return time.monotonic() - self.begun_s < self.seconds / SETTLING

    async def run(self, report: Callable[[str], None]) -> Soaked:
        """Let them all work until the time is up, and see that everybody heard everything.

        Raises:
            Wrong: something was not as it should be.
        """
        listeners = self.connections // LISTENERS_SHARE
        listening = [asyncio.create_task(self._listen(number)) for number in range(listeners)]
        working = [
            asyncio.create_task(self._work(number)) for number in range(listeners, self.connections)
        ]
        gauging = asyncio.create_task(self._gauge(report))
        try:
            await self._until_done(working, [*listening, gauging])
            await self._until_all_heard(listening)
        finally:
            for task in (*listening, *working, gauging):
                task.cancel()
            await asyncio.wait([*listening, *working, gauging])
        self._check_heard()
        return self.soaked

    async def _until_done(
        self, working: list[asyncio.Task[None]], others: list[asyncio.Task[None]]
    ) -> None:
        """Wait for the workers; any other task that ends before them ended by mistake."""
        left = {*working, *others}
        while not all(each.done() for each in working):
            done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
                if each in others:
                    raise Wrong("a listener's connection ended")

    def _port_of(self, number: int) -> int:
        return self.servers[number % len(self.servers)].port

    # Working

    async def _work(self, number: int) -> None:
        chance = random.Random(number)
        async with wired(self._port_of(number)) as wire:
            thread = await self._new_thread(wire)
            await asyncio.sleep(chance.random() * REST_S)
            version = 1
            while not self.is_over:
                act = chance.choices(("push", "pull", "peek", "patch"), (4, 4, 3, 1))[0]
                if act == "push" or (act != "patch" and not self.known):
                    await self._push(wire, chance)
                elif act == "patch":
                    version = await self._patch(wire, thread, version)
                else:
                    await self._look(wire, chance.choice(self.known), is_pull=act == "pull")
                await asyncio.sleep(0 if self.is_settling else chance.random() * 2 * REST_S)

    async def _push(self, wire: Wire, chance: random.Random) -> None:
        size = chance.choice(SETTLING_SIZES if self.is_settling else SIZES)
        text = chance.randbytes(size // 2).hex()
        channel = _channel(chance.randrange(CHANNELS))
        metadata = {"size": len(text)}
        fields = {"data": text, "channel": channel, "metadata": metadata, "ttl": 3600}
        raw = await self._asked("push", wire, "POST", "/push", encode(fields))
        ref = decode(raw)["id"]
        self.pushed[channel].add(ref)
        self.known.append((ref, sha256(text.encode()).digest(), metadata))

    async def _look(
        self, wire: Wire, known: tuple[str, bytes, dict[str, int]], is_pull: bool
    ) -> None:
        ref, digest, metadata = known
        if not is_pull:
            if decode(await self._asked("peek", wire, "GET", f"/peek/{ref}")) != metadata:
                raise Wrong(f"{ref} has other metadata")
            return
        answer = decode(await self._asked("pull", wire, "GET", f"/pull/{ref}"))
        if sha256(answer["data"].encode()).digest() != digest or answer["metadata"] != metadata:
            raise Wrong(f"{ref} is not what was pushed")

    async def _new_thread(self, wire: Wire) -> str:
        status, raw = await wire.ask("POST", "/v1/threads", b"{}", "application/json")
        if status != 201:
            raise Wrong(f"a new thread is answered with {status}")
        return decode(raw)["thread_id"]

    async def _patch(self, wire: Wire, thread: str, version: int) -> int:
        """Count in a fact; the next version."""
        fact = {"id": "count", "key": "count", "value": version}
        path = "/facts/-" if version == 1 else "/facts/0"
        change = {"op": "add" if version == 1 else "replace", "path": path, "value": fact}
        fields = encode({"operations": [change], "expected": version})
        raw = await self._asked("patch", wire, "PATCH", f"/v1/threads/{thread}/state", fields)
        if decode(raw)["version"] != version + 1:
            raise Wrong(f"{thread} has version {decode(raw)['version']}, not {version + 1}")
        return version + 1

    async def _asked(
        self, kind: str, wire: Wire, method: str, path: str, body: bytes = b""
    ) -> bytes:
        begun_s = time.monotonic()
        status, raw = await wire.ask(method, path, body, "application/json")
        if status != 200:
            raise Wrong(f"{method} {path} is answered with {status}: {raw[:200]!r}")
        self.soaked.counts[kind] += 1
        self.soaked.latencies_s[kind].append(time.monotonic() - begun_s)
        return raw

    # Listening

    async def _listen(self, number: int) -> None:
        channel = _channel(number % CHANNELS)
        refs: list[str] = []
        self.heard.append((channel, refs))
        listen = by_websocket if (number // CHANNELS) % 2 else by_events
        async for seq, ref in listen(self._port_of(number + number // CHANNELS), channel):
            if seq != len(refs) + 1:
                raise Wrong(f"{channel}: signal {seq} came after {len(refs)}")
            refs.append(ref)
            self.soaked.heard += 1

    async def _until_all_heard(self, listening: list[asyncio.Task[None]]) -> None:
        """Wait for the last signals; the check that follows reports what is missing."""
        for _ in range(int(ANSWER_S_MAX / HEARD_LOOK_S)):
            if all(len(refs) >= len(self.pushed[channel]) for channel, refs in self.heard):
                return
            for each in listening:
                if each.done():
                    each.result()
            await asyncio.sleep(HEARD_LOOK_S)

    def _check_heard(self) -> None:
        """Everybody heard what was pushed, once, and all in the same order."""
        first: dict[str, list[str]] = {}
        for channel, refs in self.heard:
            if len(refs) != len(self.pushed[channel]) or set(refs) != self.pushed[channel]:
                raise Wrong(f"{channel}: {len(refs)} heard of {len(self.pushed[channel])} pushed")
            if first.setdefault(channel, refs) != refs:
                raise Wrong(f"{channel} was heard in two orders")

    # Gauging

    async def _gauge(self, report: Callable[[str], None]) -> None:
        while True:
            await asyncio.sleep(SAMPLE_S)
            if self.is_over:
                continue
            at_s = time.monotonic() - self.begun_s
            now = sample([each.running.pid for each in self.servers], at_s)
            done = sum(self.soaked.counts.values())
            # On a busy machine the first connections may take seconds: nothing has settled yet.
            if done:
                self.soaked.samples.append(now)
            report(
                f"{at_s:4.0f} s: {done:,} done, {self.soaked.heard:,} heard,"
                f" {_mib(now)} MiB, {now.files} files"
            )


def _channel(number: int) -> str:
    return f"soak-{number}"
