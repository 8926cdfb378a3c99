"""Parts: what some tests need that PyPI does not have, and how to get it.

Rule: a test that needs such a part says so with `needs`, and is skipped by name without it.
With RELAY_FORBID_SKIPS=1 (as .ci/run sets it) such a skip is a failure: see conftest.py.
"""

from __future__ import annotations

import shutil

import pytest

# What a test asks for, and how to get it. .ci/run installs the Debian packages named here;
# test_parts.py holds the two together.
PARTS = {
    "fish": "apt-get install fish",
    "strace": "apt-get install strace",
    "mount": "apt-get install mount",
    "unshare": "apt-get install util-linux",
    "tmux": "apt-get install tmux",
    "zsh": "apt-get install zsh",
}


def needs(part: str, found: bool) -> None:
    """Skip the running test or fixture, by name, unless the part was found.

    Usage: needs("strace", has_command("strace"))
    """
    if part not in PARTS:
        raise LookupError(f"say in tests/parts.py how to get {part!r}; known: {sorted(PARTS)}")
    if not found:
        pytest.skip(f"needs {part}: {PARTS[part]}", allow_module_level=True)


def has_command(name: str) -> bool:
    """Whether a command is on the PATH."""
    return shutil.which(name) is not None
