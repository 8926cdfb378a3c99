"""The official SDK as a witness: its client asks our agents, and we ask an agent on it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec.json import decode

from contextrelay import Relay
from tests.server.serving import Apart, serving_apart
from tests.store.engines import free_port, until


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Generator[Apart]:
    agent = "counts=py:tests.a2a.agents:counts"
    store = tmp_path_factory.mktemp("sdk") / "store"
    with serving_apart(store, a2a=(agent,), grpc_port=free_port()) as served:
        yield served


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
def test_the_client_of_the_sdk_talks_to_us(ours: Apart, binding: str) -> None:
    """Promise M2."""
    words = [sys.executable, "-m", "tests.a2a.sdk_client", binding, ours.url, "go"]
    done = subprocess.run(words, capture_output=True, timeout=120, check=False)

    assert done.returncode == 0, done.stderr.decode()
    came, task, every = decode(done.stdout, type=tuple[list[dict[str, Any]], Any, Any])
    assert "task" in came[0]
    assert came[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["artifacts"][0]["parts"] == [{"text": "one two three"}]
    assert task["id"] in [each["id"] for each in every["tasks"]]


def is_there(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/.well-known/agent-card.json").status_code == 200
    except httpx2.HTTPError:
        return False


def test_we_talk_to_an_agent_on_the_sdk(tmp_path: Path) -> None:
    """Promise M2."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    words = [sys.executable, "-m", "tests.a2a.sdk_server", str(port)]
    with subprocess.Popen(words) as server, Relay("memory:") as relay:
        try:
            until(lambda: is_there(url), "the agent")
            thread = relay.new_thread("asking")
            whole = thread.send_to(url, "hello")
            heard: list[str] = []
            streamed = thread.send_to(url, "again", on_words=heard.append)
        finally:
            server.terminate()

    assert (whole.text, whole.state) == ("you said hello", "completed")
    assert (streamed.text, "".join(heard)) == ("you said again", "you said again")
    assert len(whole.refs) == 1
