"""The protocol's own inspector, as a client from outside: over stdio and HTTP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from contextrelay import Relay
from tests.aimock import NODE
from tests.parts import needs, node_command
from tests.rigs import rig, some
from tests.server.serving import serving

RUN_S_MAX = 120
TRANSPORTS = ("stdio", "http")
ERAS = ("legacy", "modern")


@rig
@pytest.mark.parametrize(("transport", "era"), some(product(TRANSPORTS, ERAS), 2))
def test_the_inspector_lists_calls_and_reads(tmp_path: Path, transport: str, era: str) -> None:
    """Promise M1."""
    needs("inspector", node_command("mcp-inspector").exists())
    store = tmp_path / "store"
    with Relay(store) as relay:
        ref = relay.push("the plan is to ship on Friday", name="plan.md").ref

    def ask(target: list[str], *words: str) -> Any:
        done = subprocess.run(
            [NODE, node_command("mcp-inspector"), "--cli", *target, *words, "--protocol-era", era],
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=RUN_S_MAX,
        )
        assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
        return json.loads(done.stdout)

    with serving(store) as served:
        stdio = [sys.executable, "-m", "contextrelay", "mcp", "--store", str(store)]
        target = stdio if transport == "stdio" else [f"{served.url}/mcp"]
        listed = ask(target, "--method", "tools/list")
        called = ask(
            target,
            *("--method", "tools/call", "--tool-name", "pull_context", "--tool-arg", f"url={ref}"),
        )
        read = ask(target, "--method", "resources/read", "--uri", f"ctx://{ref}")

    assert "peek_context" in [each["name"] for each in listed["tools"]]
    assert "Friday" in json.dumps(called["content"])
    assert read["contents"][0]["text"] == "the plan is to ship on Friday"
