"""relay replay: by the record or with another model, in a copy, with an exit status to act on."""

from __future__ import annotations

import json
import subprocess

import pytest

from contextrelay import Relay
from contextrelay.runs.providers.echo import Echo, ScriptedCall, ScriptLine
from tests.cli.shell import Shell


@pytest.fixture
def log(shell: Shell) -> str:
    """The ref of a log that a model has looked into in the thread `work`."""
    shell.out("thread", "new", "--name", "work")
    with Relay(shell.home / "store") as relay:
        thread = relay.thread("work")
        ref = thread.put("line\n" * 100).ref
        look = ScriptedCall("relay_get", {"ref": ref, "lines": "1:2"})
        thread.run(
            "why?",
            Echo(script=[ScriptLine("Let me see.", (look,)), ScriptLine("It is\x1b[2J so.")]),
        )
    return ref


def test_a_replay_by_the_record_is_shown(shell: Shell, log: str) -> None:
    """Promise X5."""
    shown = shell.out("replay", "work", human=True)
    fork = shell.out("replay", "work").strip()

    assert shown.startswith("1 run replayed from the record, no model called, v1 to v3, into ")
    assert "the states are equal" in shown
    assert shell.json("thread", "show", fork)["name"] == "work replay"


def test_a_replay_that_diverges_exits_with_1_and_says_where(shell: Shell, log: str) -> None:
    """Promise X5."""
    shell.out("artifact", "rm", log)

    done = shell.run("--json", "replay", "work")
    human = shell.run("replay", "work", human=True)

    assert (done.returncode, human.returncode) == (1, 1)
    step = json.loads(done.stdout)["diverged"]
    assert (step["round"], step["tool"], step["ref"]) == (1, "relay_get", log)
    assert f"diverges after v2: run {step['run']}, round 1, relay_get of {log[:8]}".encode() in (
        human.stdout
    )


def test_a_replay_with_another_model_shows_how_answers_differ(shell: Shell, log: str) -> None:
    """Promise X5: and nothing in an answer acts on the terminal."""
    shown = shell.out("replay", "work", "--from", "v2", "-m", "echo:other", human=True)

    assert shown.startswith("1 run asked again, v2 to v3, into ")
    assert "the states differ in" in shown
    assert "-It is<U+001B>[2J so.\n" in shown
    assert "+why?" in shown
    assert "\x1b" not in shown


def test_a_dry_run_makes_no_thread(shell: Shell, log: str) -> None:
    """Promise X5."""
    by_record = shell.out("replay", "work", "--dry-run")
    again = shell.out("replay", "work", "--dry-run", "-m", "echo:other")

    assert by_record == "1 run checked, no model called, v1 to v3; nothing was written\n"
    assert again.startswith("1 run would be asked again, v1 to v3; nothing was written\n")
    assert len(shell.json("thread", "list")["threads"]) == 1


def test_files_are_compared_if_that_is_asked_for(shell: Shell) -> None:
    """Promise X5."""
    folder = shell.home
    (folder / "a.txt").write_text("one\n")
    for words in (("init", "-q"), ("add", "a.txt")):
        subprocess.run(["git", *words], cwd=folder, check=True)
    shell.out("thread", "new", "--name", "work")
    with Relay(folder / "store") as relay:
        read = ScriptedCall("relay_read", {"path": "a.txt"})
        script = [ScriptLine("Let me see.", (read,)), ScriptLine("One.")]
        relay.thread("work").run("what?", Echo(script=script), files=folder)
    (folder / "a.txt").write_text("two\n")

    assert shell.out("replay", "work", "--dry-run").startswith("1 run checked")
    done = shell.run("replay", "work", "--files")

    assert done.returncode == 1
    assert b"relay_read" in done.stderr
    assert b"'a.txt' has changed" in done.stderr
