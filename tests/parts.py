"""Parts: what some tests need that PyPI does not have, and how to get it.

Rule: a test that needs such a part says so with `needs`, and is skipped by name without it.
With RELAY_FORBID_SKIPS=1 (as .ci/run sets it) such a skip is a failure: see conftest.py.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NODE_PARTS = ROOT / ".node-parts"

# What a test asks for, and how to get it. .ci/run installs the packages named here, those of Debian
# and those of npm, and makes what `make` makes; test_parts.py holds the two together.
PARTS = {
    "aimock": "npm install --prefix .node-parts @copilotkit/aimock@1.43.0",
    "azurite": "npm install --prefix .node-parts azurite@3.33.0",
    "axe": "npm install --prefix .node-parts axe-core@4.14.0",
    "chromium": "apt-get install chromium",
    "claude": "npm install --prefix .node-parts @anthropic-ai/claude-code@2.1.325",
    "conformance": (
        "npm install --prefix .node-parts @modelcontextprotocol/conformance@0.2.0-alpha.12"
    ),
    "inspector": "npm install --prefix .node-parts @modelcontextprotocol/inspector@2.12.0",
    "openapi-ts": "npm install --prefix .node-parts @hey-api/openapi-ts@0.99.0",
    "typescript": "npm install --prefix .node-parts typescript@5.9.3",
    "redocly": "npm install --prefix .node-parts @redocly/cli@2.77.0",
    "spectral": "npm install --prefix .node-parts @stoplight/spectral-cli@6.16.3",
    "codex": "npm install --prefix .node-parts @openai/codex@0.166.0",
    "opencode": "npm install --prefix .node-parts opencode-ai@1.18.33",
    "fish": "apt-get install fish",
    "strace": "apt-get install strace",
    "git": "apt-get install git",
    "history": "git fetch --unshallow",
    "mount": "apt-get install mount",
    "ip": "apt-get install iproute2",
    "unshare": "apt-get install util-linux",
    "tmux": "apt-get install tmux",
    "zsh": "apt-get install zsh",
    "check-jsonschema": "pip install check-jsonschema",
    "kubernetes-validate": "pip install kubernetes-validate",
    "promql-parser": "pip install promql-parser",
    "nginx": "apt-get install nginx-light",
    "systemd-analyze": "apt-get install systemd",
    "moto": "pip install 'moto[s3,server]' obstore",
    "pgbouncer": "apt-get install pgbouncer",
    "postgres": "pip install pgserver (for Python up to 3.12), or apt-get install of postgresql",
    "smollm2": "make model-parts",
}


def needs(part: str, found: bool) -> None:
    """Skip the running test or fixture, by name, unless the part was found.

    Usage: needs("strace", has_command("strace"))
    """
    if part not in PARTS:
        raise LookupError(f"say in tests/parts.py how to get {part!r}; known: {sorted(PARTS)}")
    if not found:
        pytest.skip(f"needs {part}: {PARTS[part]}", allow_module_level=True)


def node_command(name: str) -> Path:
    """A command of a package from npm; whether it is there shows `exists`."""
    return NODE_PARTS / "node_modules" / ".bin" / name


def has_command(name: str) -> bool:
    """Whether a command is on the PATH."""
    return shutil.which(name) is not None
