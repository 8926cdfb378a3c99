"""Claude Code itself, with a scripted model on loopback: it connects, calls a tool, and what the
model is then shown is what we want it to see."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from contextrelay import Relay
from tests.aimock import aimock
from tests.parts import needs, node_command
from tests.server.serving import serving

RUN_S_MAX = 120
STDIO: list[str] = [sys.executable, "-m", "contextrelay", "mcp", "--store"]


@pytest.fixture
def claude(tmp_path: Path) -> Claude:
    needs("claude", node_command("claude").exists())
    return Claude(tmp_path)


class Claude:
    """The command line, with a home and a folder of its own, and nobody but loopback to talk to."""

    def __init__(self, folder: Path) -> None:
        self.work = folder / "work"
        self.work.mkdir()
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "home"),
            "ANTHROPIC_API_KEY": "none",
            "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
        }

    def run(self, *words: str) -> str:
        done = subprocess.run(
            [node_command("claude"), *words],
            env=self.environment,
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=RUN_S_MAX,
        )
        assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
        return done.stdout.decode()

    def ask(self, model: str, server: dict[str, Any], prompt: str) -> list[Any]:
        """What happens when it is asked something, event by event."""
        self.environment["ANTHROPIC_BASE_URL"] = model
        config = self.work / "mcp.json"
        config.write_text(json.dumps({"mcpServers": {"relay": server}}))
        answer = self.run(
            *("--print", prompt, "--output-format", "stream-json", "--verbose"),
            *("--strict-mcp-config", "--mcp-config", str(config)),
            *("--allowedTools", "mcp__relay", "--max-turns", "10"),
        )
        return [json.loads(line) for line in answer.splitlines()]


@contextmanager
def scripted(folder: Path, *turns: tuple[str, dict[str, Any]]) -> Generator[str]:
    """A model that calls a tool in each turn, and then says that it is done; its URL."""
    fixtures: list[dict[str, Any]] = [
        {
            "match": {"userMessage": "go on", "turnIndex": index},
            "response": {
                "toolCalls": [{"name": f"mcp__relay__{tool}", "arguments": json.dumps(arguments)}]
            },
        }
        for index, (tool, arguments) in enumerate(turns)
    ]
    last = {"userMessage": "go on", "turnIndex": len(turns)}
    fixtures.append({"match": last, "response": {"content": "It is done."}})
    with aimock(folder, fixtures) as model:
        yield model.url


def shown(events: list[Any]) -> list[str]:
    """What the model was shown of each tool's answer."""
    found: list[str] = []
    for event in events:
        for part in event["message"]["content"] if event["type"] == "user" else ():
            content = part["content"]
            if not isinstance(content, str):
                content = "\n".join(each.get("text", "") for each in content)
            found.append(content)
    return found


def test_claude_code_lists_us_as_connected(claude: Claude, tmp_path: Path) -> None:
    """Promise M1."""
    claude.run("mcp", "add", "relay", "--", *STDIO, str(tmp_path / "store"))

    answer = claude.run("mcp", "list")

    line = next(line for line in answer.splitlines() if line.startswith("relay:"))
    assert line.endswith("Connected"), answer


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_claude_code_calls_tools_and_sees_small_answers(
    claude: Claude, tmp_path: Path, transport: str
) -> None:
    """Promise M1."""
    store = tmp_path / "store"
    long = "".join(f"line {index}\n" for index in range(20_000))
    with Relay(store) as relay:
        ref = relay.push(long, name="long.txt").ref
    turns = (
        ("push_context", {"data": "the plan is to ship on Friday", "summary": "the plan"}),
        ("pull_context", {"url": ref}),
    )

    with scripted(tmp_path, *turns) as model, serving(store) as served:
        server: dict[str, Any] = {"type": "http", "url": f"{served.url}/mcp"}
        if transport == "stdio":
            server = {"command": STDIO[0], "args": [*STDIO[1:], str(store)]}
        events = claude.ask(model, server, "go on")

    begun = next(event for event in events if event.get("subtype") == "init")
    assert begun["mcp_servers"][0]["status"] == "connected"
    assert "mcp__relay__peek_context" in begun["tools"]
    assert events[-1]["result"] == "It is done."
    pushed, pulled = shown(events)
    url = json.loads(pushed)["url"]
    assert "line 0\n" in pulled
    assert f"ctx://{ref}" in pulled
    assert len(pulled) < 4_000
    with Relay(store) as relay:
        assert relay.pull(url) == b"the plan is to ship on Friday"
        assert relay.peek(url).provenance.created_by == "claude-code"
