"""Agents: messages to an agent of ours by A2A, against the same agent on the official SDK.

Ours keeps every task in a store that survives a power cut; the SDK's keeps them in memory.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from bench.measure import Curve, Result, Skipped, each, faster, interleaved, within
from tests.store.engines import free_port, until

TIMES = 100
AT_ONCE = 200
HEADERS = {"A2A-Version": "1.0"}


def scenarios(folder: Path) -> Iterator[Result | Curve]:
    try:
        import a2a
    except ImportError as error:
        raise Skipped("pip install 'contextrelay[dev]'") from error
    assert a2a
    with _ours(folder) as ours, _anchor() as anchor:
        yield faster(
            "message:send, one after the other / SDK",
            *interleaved(lambda: _sends(ours), lambda: _sends(anchor)),
            "us",
            0.8,
        )
        yield within(
            "message:stream to its first event / SDK",
            *interleaved(lambda: _first(ours), lambda: _first(anchor)),
            "us",
            1.3,
        )
        yield faster(
            f"{AT_ONCE} messages at once, to the last answer / SDK",
            *interleaved(lambda: _at_once(ours), lambda: _at_once(anchor)),
            "ms",
            0.8,
        )


@contextmanager
def _ours(folder: Path) -> Generator[str]:
    port = free_port()
    relay = str(Path(sys.executable).with_name("relay"))
    agent = "echo=py:tests.a2a.agents:echo"
    words = ["a2a", "serve", "--port", str(port), "--agent", agent, "--store", str(folder)]
    with _running([relay, *words], f"http://127.0.0.1:{port}"):
        yield f"http://127.0.0.1:{port}/a2a/echo"


@contextmanager
def _anchor() -> Generator[str]:
    port = free_port()
    words = [sys.executable, "-m", "tests.a2a.sdk_server", str(port)]
    with _running(words, f"http://127.0.0.1:{port}"):
        yield f"http://127.0.0.1:{port}/rest"


@contextmanager
def _running(words: list[str], url: str) -> Generator[None]:
    root = str(Path(__file__).parents[2])
    with subprocess.Popen(words, cwd=root, env={"PYTHONPATH": root}, stdout=subprocess.PIPE) as it:
        try:
            until(lambda: _is_there(url), "the agent")
            yield
        finally:
            it.terminate()


def _is_there(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/.well-known/agent-card.json").status_code == 200
    except httpx2.HTTPError:
        return False


def _message(number: int) -> dict[str, Any]:
    return {
        "message": {"messageId": f"m{number}", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    }


def _sends(url: str) -> float:
    with httpx2.Client(headers=HEADERS) as web:

        def send(number: int) -> None:
            answer = web.post(f"{url}/message:send", json=_message(number))
            assert answer.json()["task"]["status"]["state"] == "TASK_STATE_COMPLETED"

        return each(send, TIMES)


def _first(url: str) -> float:
    with httpx2.Client(headers=HEADERS) as web:
        taken: list[float] = []
        for number in range(TIMES):
            start = time.perf_counter_ns()
            with web.stream("POST", f"{url}/message:stream", json=_message(number)) as response:
                lines = response.iter_lines()
                next(line for line in lines if line.startswith("data:"))
                taken.append((time.perf_counter_ns() - start) / 1000)
                for _ in lines:
                    pass
        return statistics.median(taken)


def _at_once(url: str) -> float:
    async def send_all() -> float:
        limits = httpx2.Limits(max_connections=AT_ONCE)
        async with httpx2.AsyncClient(headers=HEADERS, limits=limits, timeout=120) as web:
            sent = [web.post(f"{url}/message:send", json=_message(n)) for n in range(AT_ONCE)]
            start = time.perf_counter()
            answers = await asyncio.gather(*sent)
            taken_s = time.perf_counter() - start
        assert all("COMPLETED" in answer.text for answer in answers)
        return taken_s * 1000

    return asyncio.run(send_all())
