"""The public conformance suite of MCP, against our server with the suite's fixtures."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from tests.aimock import NODE
from tests.parts import NODE_PARTS, needs
from tests.rigs import rig

SUITE = NODE_PARTS / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
RUN_S_MAX = 300


@pytest.fixture
def url(tmp_path: Path) -> Generator[str]:
    """A server of ours, with the fixtures."""
    needs("conformance", SUITE.exists())
    words = ["-m", "tests.mcp.conformance.serve", "--store", str(tmp_path), "--port", "0"]
    with subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield f"{server.stdout.readline().split()[0]}/mcp"
        finally:
            server.terminate()


@rig
@pytest.mark.parametrize(("version", "least"), [("2026-07-28", 50), ("2025-11-25", 30)])
def test_every_scored_scenario_passes(
    url: str,
    version: str,
    least: int,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    """Promise M1."""
    command = [str(NODE), str(SUITE), "server", "--url", url, "--requirements", version]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=RUN_S_MAX, check=False
    )

    scenarios: list[tuple[str, str, str]] = re.findall(
        r"(?m)^([✓✗]) ([\w-]+): (\d+) passed", done.stdout
    )
    unscored = set(re.findall(r"(?m)^  [✓✗] ([\w-]+) \([a-z-]+\)", done.stdout))
    failed = [name for mark, name, _ in scenarios if mark == "✗" and name not in unscored]
    record_property("checks", sum(int(passed) for _, _, passed in scenarios))
    assert len(scenarios) >= least, done.stdout + done.stderr
    assert failed == []
