"""What a build adds to a package: the commit and the time, in a file that is in no checkout.

Rule: a package can be built without git and without a network; what is not known is `unknown`.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PLACE = "contextrelay/_build.py"


class BuildHook(BuildHookInterface[Any]):
    """Writes `_build.py`, unless this is built from a source package, which has it already."""

    _folder: tempfile.TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        # An editable install stays in its checkout, which asks git.
        if version == "editable" or (Path(self.root) / "src" / PLACE).exists():
            return
        self._folder = tempfile.TemporaryDirectory()
        written = Path(self._folder.name) / "_build.py"
        written.write_text(
            '"""Written when this package was built."""\n\n'
            f'COMMIT = "{_commit(self.root)}"\nBUILT = "{_built()}"\n'
        )
        inside = PLACE if self.target_name == "wheel" else f"src/{PLACE}"
        build_data["force_include"][str(written)] = inside

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self._folder is not None:
            self._folder.cleanup()


def _commit(root: str) -> str:
    if not (Path(root) / ".git").exists():
        return "unknown"
    command = ["git", "-C", root, "rev-parse", "--verify", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    commit = done.stdout.strip()
    return commit if commit.isalnum() else "unknown"


def _built() -> str:
    """When; what builds packages reproducibly says so itself."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    at = datetime.fromtimestamp(int(epoch), UTC) if epoch.isdigit() else datetime.now(UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
