"""The A2A compatibility kit 1.0, whole, against our server, on every binding.

kit.zip is the kit as published (a2aproject/a2a-tck, branch 1.0-dev, Apache-2.0, licence within),
without its unit tests and code generators: it is on no package index, and a clone has no network.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from msgspec.json import decode

from contextrelay.model.settings import Settings
from tests.rigs import length, rig
from tests.server.serving import serving_apart
from tests.store.engines import free_port

KIT = Path(__file__).with_name("kit.zip")
RUN_S_MAX = 600
# The kit's own requirement says which error it MUST be; its table forgets to say so, so that its
# runner would expect success.
PLUGIN = """
from tck.requirements.base import CONTENT_TYPE_NOT_SUPPORTED_ERROR
from tck.requirements.registry import get_requirement_by_id

get_requirement_by_id("CORE-SEND-003").expected_error = CONTENT_TYPE_NOT_SUPPORTED_ERROR
"""
NOT_APPLICABLE = {
    "CORE-CAP-001": "push notifications are served",
    "CORE-CAP-002": "streams are served",
    "CORE-CAP-003": "the extended card is served",
    "CORE-CAP-004": "no extension is required",
}
"""What the kit asks only of agents that lack something, and why ours is not one."""
FIGURES = {"PASS": 100, "SKIPPED": 4, "NOT TESTED": 25}
NOT_TESTED = {"AUTH": 13, "BIND": 4, "CARD": 4, "GRPC": 1, "VER": 3}
"""How many requirements of a kind the kit lists and does not test. docs/a2a.md has the figures."""


@rig
def test_every_requirement_of_the_compatibility_kit_is_met(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Promise M2: MUST, SHOULD and MAY, all that apply."""
    with ZipFile(KIT) as kit:
        kit.extractall(tmp_path)
    folder = tmp_path / "a2a-tck"
    (folder / "our_plugin.py").write_text(PLUGIN)
    agent = "kit=py:tests.a2a.kit_agent:act"
    allowed = Settings(fetch_private=True)
    with serving_apart(
        tmp_path / "store", settings=allowed, a2a=(agent,), grpc_port=free_port()
    ) as served:
        words = ["-m", "pytest", "tests/compatibility", f"--sut-host={served.url}", "-q"]
        words += ["-p", "our_plugin", "-p", "no:xdist", "-p", "no:cacheprovider"]
        words += ["-c", "pyproject.toml", "-W", "ignore", "--compatibility-report=report"]
        # Thin: one binding, and not the streams that nothing ends and that take a minute.
        unended = "tests/compatibility/core_operations/test_multi_stream.py"
        words += length(["--transport=http_json", f"--ignore={unended}"], [], [])
        done = subprocess.run(
            [sys.executable, *words],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=RUN_S_MAX,
            check=False,
        )

    assert (folder / "report.json").exists(), done.stdout + done.stderr
    report: dict[str, Any] = decode((folder / "report.json").read_bytes())
    every: dict[str, Any] = report["per_requirement"]
    not_met = {name for name, each in every.items() if each["status"] == "FAIL"}
    skipped = {name for name, each in every.items() if each["status"] == "SKIPPED"}
    for level in ("must", "should", "may"):
        record_property(level, report["summary"][f"{level}_compatibility"])
    assert not_met == set(), done.stdout
    assert length(skipped & NOT_APPLICABLE.keys(), skipped, skipped) == NOT_APPLICABLE.keys()
    figures = Counter(str(each["status"]) for each in every.values())
    untested = [name for name, each in every.items() if each["status"] == "NOT TESTED"]
    kinds = Counter(name.partition("-")[0] for name in untested)
    assert length(FIGURES, figures, figures) == FIGURES
    assert length(NOT_TESTED, kinds, kinds) == NOT_TESTED
    assert report["summary"]["must_compatibility"] == "100.0%", done.stdout
