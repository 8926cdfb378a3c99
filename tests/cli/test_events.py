"""Events on the command line: read, followed while others write, bounded."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import IO

from tests.cli.shell import RELAY, Shell


def test_events_are_reported_for_people_as_json_and_line_by_line(shell: Shell) -> None:
    """Promise T8."""
    shell.out("thread", "new", "--name", "orders")
    shell.out("state", "add", "fact", "one", "--by", "planner")

    everything = shell.json("events", "orders")
    lines = shell.out("events", "--jsonl", "--after", "1").splitlines()
    text = shell.out("events", human=True).splitlines()

    assert [each["seq"] for each in everything] == [1, 2, 3]
    assert everything[2]["event"]["type"] == "state.patch.applied"
    assert [json.loads(line) for line in lines] == everything[1:]
    assert text[2].split()[2:4] == ["state.patch.applied", "planner"]
    assert len(shell.out("events", "--limit", "2").splitlines()) == 2
    assert shell.fails("events", "--after", "-1")[0] == 2


def following(shell: Shell, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*RELAY, "--json", "tail", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=shell.env,
        cwd=shell.home,
        text=True,
    )


def next_event(stream: IO[str] | None) -> str:
    assert stream is not None
    return json.loads(stream.readline())["event"]["type"]


def test_tail_follows_what_other_processes_write_until_ctrl_c(shell: Shell) -> None:
    """Promise T8."""
    shell.out("thread", "new")
    process = following(shell)
    assert next_event(process.stdout) == "thread.created"
    assert next_event(process.stdout) == "state.created"

    shell.out("checkpoint", "now")
    assert next_event(process.stdout) == "checkpoint.created"
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=30)

    assert process.returncode == 0
    assert error == ""


def test_tail_ends_when_nothing_comes_and_once_says_so(shell: Shell) -> None:
    shell.out("thread", "new")

    quiet = shell.run("tail", "--timeout", "0.1")
    once = shell.run("tail", "--once", "--timeout", "0.1")

    assert (quiet.returncode, len(quiet.stdout.splitlines())) == (0, 2)
    assert (once.returncode, once.stdout) == (1, b"")
    assert b"no event within 0.1 s" in once.stderr
    assert shell.fails("tail", "--timeout", "soon")[0] == 2


def test_a_log_longer_than_a_page_is_reported_whole(shell: Shell) -> None:
    from contextrelay import Relay

    with Relay(shell.env["RELAY_HOME"]) as relay:
        thread = relay.new_thread("long")
        for number in range(1_050):
            thread.add_event("test.counted", {"number": number})

    assert len(shell.out("events", "long", "--jsonl").splitlines()) == 1_052
    (first,) = shell.json("state", "log", "long")
    assert first["detail"]["state"]["version"] == 1
