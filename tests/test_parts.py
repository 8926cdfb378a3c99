"""Parts and skips: a test without its part is skipped by name, or fails where that is forbidden."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.parts import PARTS, needs

ROOT = Path(__file__).parents[1]

SAMPLE = """
from tests.parts import needs

def test_without_its_part():
    needs("strace", found=False)

def test_with_its_part():
    needs("strace", found=True)
"""


def test_ci_installs_every_debian_part_that_a_test_may_need() -> None:
    listed = re.search(r"^DEBIAN_PARTS=\((.*)\)$", (ROOT / ".ci/run").read_text(), re.MULTILINE)
    wanted = {how.split()[-1] for how in PARTS.values() if how.startswith("apt-get install ")}

    assert listed, ".ci/run has no line DEBIAN_PARTS=(...)"
    assert set(listed[1].split()) == wanted, ".ci/run and tests/parts.py name different packages"


def test_ci_installs_every_npm_part_that_a_test_may_need() -> None:
    listed = re.search(r"^NPM_PARTS=\((.*)\)$", (ROOT / ".ci/run").read_text(), re.MULTILINE)
    wanted = {how.split()[-1] for how in PARTS.values() if how.startswith("npm install ")}

    assert listed, ".ci/run has no line NPM_PARTS=(...)"
    assert set(listed[1].split()) == wanted, ".ci/run and tests/parts.py name different packages"


def test_ci_makes_every_part_that_a_test_may_need() -> None:
    wanted = {how for how in PARTS.values() if how.startswith("make ")}

    assert {how for how in wanted if how in (ROOT / ".ci/run").read_text()} == wanted


def test_a_part_nobody_can_get_is_refused() -> None:
    with pytest.raises(LookupError, match="say in tests/parts"):
        needs("unobtainium", found=True)


def test_a_missing_part_skips_by_name_and_fails_where_skips_are_forbidden(tmp_path: Path) -> None:
    forbidden = "1"
    counts = "1 failed, 1 passed"
    sample = tmp_path / "test_sample.py"
    sample.write_text(SAMPLE)
    command = [sys.executable, "-m", "pytest", "-rs", "-p", "tests.conftest", "-p", "no:xdist"]
    options = ["-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(tmp_path)]
    environment = {**os.environ, "RELAY_FORBID_SKIPS": forbidden}
    environment.pop("PYTEST_XDIST_WORKER", None)

    done = subprocess.run(
        [*command, *options, str(sample)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert counts in done.stdout, done.stdout + done.stderr
    assert "needs strace: apt-get install strace" in done.stdout
