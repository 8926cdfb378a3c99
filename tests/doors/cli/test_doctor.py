"""The doctor: what is in the way, and the next step."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.json import decode

from tests.doors.cli.shell import Shell
from tests.store.waiting import free_port


def findings(shell: Shell, what: str) -> list[dict[str, Any]]:
    return [each for each in shell.json("doctor", real=True) if each["what"] == what]


def test_another_contextrelay_on_the_path_of_python_is_named(shell: Shell) -> None:
    """Promise U2."""
    other = shell.home / "old"
    (other / "contextrelay").mkdir(parents=True)
    (other / "contextrelay" / "__init__.py").write_text("")
    record = other / "contextrelay-0.2.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: contextrelay\nVersion: 0.2.0\n")
    # Behind our own, or it would run in our place.
    ours = Path(__file__).parents[3] / "src"
    shell.env["PYTHONPATH"] = os.pathsep.join([str(ours), str(other)])

    hints = [each for each in findings(shell, "package") if each["state"] == "hint"]

    assert "(0.2.0)" in hints[-1]["told"]
    assert str(other) in hints[-1]["next_step"]


def test_another_command_of_our_name_is_named(shell: Shell) -> None:
    """Promise U2."""
    folder = shell.home / "bin"
    folder.mkdir()
    (folder / "contextrelay").write_text("#!/bin/sh\n")
    (folder / "contextrelay").chmod(0o755)
    shell.env["PATH"] = os.pathsep.join([str(folder), shell.env["PATH"]])

    hints = [each for each in findings(shell, "command") if str(folder) in each["told"]]

    assert hints[0]["state"] == "hint"
    assert "first in PATH" in hints[0]["next_step"]


def test_a_search_index_that_is_behind_is_reported(shell: Shell) -> None:
    """Promises L3, U2."""
    shell.out("push", "-", stdin=b"the first of some notes")
    before = findings(shell, "search")
    shell.out("search", "notes")
    up = findings(shell, "search")
    for index in range(3):
        shell.out("push", "-", stdin=b"more notes, number %d" % index)

    behind = findings(shell, "search")

    assert before == []
    assert up[0]["state"] == "ok"
    assert behind[0]["state"] == "hint"
    assert "relay gc" in behind[0]["next_step"]


@pytest.mark.parametrize(
    ("store", "step"),
    [
        ("redis://127.0.0.1:{port}", "listens at its address"),
        ("postgresql://127.0.0.1:{port}/relay", "listens at its address"),
    ],
)
def test_an_engine_that_cannot_be_reached_is_one_failure_with_the_next_step(
    shell: Shell, store: str, step: str
) -> None:
    """Promise U2."""
    address = store.format(port=free_port())

    done = shell.run("--json", "--store", address, "doctor")

    failed = [each for each in decode(done.stdout) if each["state"] == "failure"]
    assert done.returncode == 2
    assert [each["what"] for each in failed] == ["store"]
    assert step in failed[0]["next_step"]
