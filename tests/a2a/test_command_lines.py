"""Command lines as agents: what they say is the answer, what ends them ends the task, and back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.a2a.asking import HEADERS, Document, message, words
from tests.parts import needs, node_command
from tests.rigs import length, rig
from tests.runs.wrap.alone import alone
from tests.runs.wrap.test_real_agents import PATHS, RUN_S_MAX, configured
from tests.server.serving import serving
from tests.store.engines import free_port, until

SEND = "/a2a/it/message:send"
SERVED_AND_ASKED = """
"$1" -m contextrelay a2a serve --port 0 --agent "it=cli:$2" > ../address & server=$!
until [ -s ../address ]; do sleep 0.1; done
"$1" -m contextrelay -q a2a send "$(cut -d ' ' -f 1 ../address)/a2a/it" "$3"
status=$?
kill $server; wait $server
exit $status
"""


def command(folder: Path, text: str) -> str:
    """A command line of a few lines of shell."""
    path = folder / "agent"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def ask(binary: str, text: str) -> Document:
    with (
        serving("memory:", a2a=(f"it=cli:{binary}",)) as served,
        httpx2.Client(base_url=served.url, headers=HEADERS, timeout=60) as web,
    ):
        return web.post(SEND, json=message(text)).json()["task"]


def test_a_command_line_is_sent_the_message_and_says_the_answer() -> None:
    """Promise M2: what `cat` says is all that it was sent."""
    task = ask("cat", "which port is it?")

    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert "which port is it?" in words(task)


def test_a_command_line_that_fails_is_why_the_task_failed(tmp_path: Path) -> None:
    """Promise M2."""
    task = ask(command(tmp_path, "echo half; echo no credit left >&2; exit 3"), "go")

    said = task["status"]["message"]["parts"][0]["text"]
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert "exited with status 3" in said
    assert "no credit left" in said


def test_a_command_line_that_says_nothing_ends_when_its_task_is_canceled(tmp_path: Path) -> None:
    """Promise M2."""
    noted = tmp_path / "pid"
    binary = command(tmp_path, f"echo $$ > {noted}.new; mv {noted}.new {noted}; exec sleep 600")
    go = message("go", configuration={"returnImmediately": True})
    with (
        serving("memory:", a2a=(f"it=cli:{binary}",)) as served,
        httpx2.Client(base_url=served.url, headers=HEADERS, timeout=60) as web,
    ):
        task = web.post(SEND, json=go).json()["task"]["id"]
        until(noted.exists, "the command")
        canceled = web.post(f"/a2a/it/tasks/{task}:cancel").json()
        until(lambda: not _runs(int(noted.read_text())), "its end")

    assert canceled["status"]["state"] == "TASK_STATE_CANCELED"


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@rig
@pytest.mark.parametrize("name", length(["codex"], [*PATHS][:2], [*PATHS][:2]))
def test_a_real_agent_answers_by_a2a(name: str, tmp_path: Path) -> None:
    """Promise M2: Claude Code and Codex, served and asked by the command line, with no network."""
    needs("aimock", node_command("llmock").exists())
    needs(name, node_command(name).exists())
    port, script, journal = free_port(), tmp_path / "script.json", tmp_path / "journal.json"
    fixture = {"match": {"userMessage": "Which day"}, "response": {"content": "It is Friday."}}
    script.write_text(json.dumps({"fixtures": [fixture]}))
    shell = ("sh", "-c", SERVED_AND_ASKED, "sh", sys.executable, str(node_command(name)))

    done = subprocess.run(
        alone(port, script, journal, *shell, "Which day is the deadline?"),
        env=configured(tmp_path, f"http://127.0.0.1:{port}"),
        cwd=tmp_path / "work",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=RUN_S_MAX,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert b"It is Friday." in done.stdout
    sent: list[Any] = json.loads(journal.read_bytes())
    asked = [each for each in sent if each["path"].partition("?")[0] == PATHS[name]]
    assert any("Which day is the deadline?" in json.dumps(each["body"]) for each in asked)
