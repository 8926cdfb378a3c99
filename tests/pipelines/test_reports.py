"""What `relay pipeline` says: of failures, of what is missing here, and on small terminals."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import termios
from contextlib import suppress
from pathlib import Path

import pytest

from contextrelay import Pipeline, Relay
from tests.cli.shell import RELAY, Shell
from tests.pipelines.running import reason, result, run


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_every_failure_is_shown_with_what_to_do(shell: Shell) -> None:
    """Promise X4."""
    (shell.home / "work.py").write_text("def act():\n    return 1 / 0\n")
    (shell.home / "bad.yaml").write_text(
        "name: bad\nsteps:\n  a: {exec: [no-such-program]}\n  b: {python: 'work:act'}\n"
        "  c: {exec: 'echo one >&2; echo two >&2; exit 3'}\n"
    )

    ran = shell.run("pipeline", "run", "bad.yaml", "--parallel", "1").stdout.decode()

    summary = ran.splitlines()[3:]
    assert "3 failed" in summary[0]
    assert summary[1].startswith("  a: command not found: 'no-such-program'")
    assert summary[1].endswith("(check the name, or install it)")
    assert summary[2].startswith("  b: work.py:2: work:act raised ZeroDivisionError")
    assert summary[3].startswith("  c: sh exited with status 3: one (read its whole output")
    assert summary[4].startswith("  next: ")


def test_what_is_not_here_is_noted_by_a_check(shell: Shell) -> None:
    """Promise X4."""
    (shell.home / "work.py").write_text("def act(): pass\n")
    (shell.home / "p.yaml").write_text(
        "name: p\nsteps:\n  a: {cap: nocap}\n  b: {python: 'nomod:act'}\n"
        "  c: {python: 'work:atc'}\n  d: {python: 'work:act'}\n  e: {exec: [no-such-program]}\n"
        "  f: {exec: [echo]}\n"
    )

    for words in (("validate", "p.yaml"), ("run", "p.yaml", "--dry-run")):
        ran = shell.run("pipeline", *words, "--json")
        notes = json.loads(ran.stdout)["notes"]
        assert ran.returncode == 0
        assert [note.partition(": ")[0] for note in notes] == [
            *("p.yaml:3:12", "p.yaml:4:15", "p.yaml:5:15", "p.yaml:7:13")
        ]
        assert "capability nocap not found" in notes[0]
        assert "module nomod not found" in notes[1]
        assert "did you mean act?" in notes[2]
        assert "program no-such-program not found" in notes[3]
    assert "note: p.yaml:3:12" in shell.run("pipeline", "validate", "p.yaml").stdout.decode()


def test_a_model_that_is_given_answers_every_prompt_also_when_resumed(
    relay: Relay, tmp_path: Path
) -> None:
    """Promise X4."""
    (tmp_path / "p.yaml").write_text(
        "name: p\nsteps:\n  a: {prompt: hi, model: openai}\n  b: {prompt: ho, needs: a}\n"
    )
    shell = Shell(tmp_path)
    shell.env = {name: each for name, each in shell.env.items() if not name.endswith("_API_KEY")}

    ended = Pipeline.load(tmp_path / "p.yaml").run(relay, model="echo")
    printed = shell.run("pipeline", "run", "p.yaml", "-m", "echo", "--json").stdout
    again = shell.run("pipeline", "retry", json.loads(printed.splitlines()[-1])["run"], "a")

    assert {view.by for view in ended.steps.values()} == {"a", "b"}
    details = [each.event.detail for each in relay.thread(ended.run).events()]
    assert {"echo:echo-1"} <= {each.get("model") for each in details}
    assert again.returncode == 0, again.stdout


def test_a_file_is_read_from_stdin(shell: Shell) -> None:
    """Promise X4."""
    right = shell.run("pipeline", "validate", "-", stdin=b"name: p\nsteps: {a: {exec: [echo]}}\n")
    wrong = shell.run("pipeline", "validate", "-", stdin=b"name: p\nstep: {a: {exec: [echo]}}\n")

    assert right.stdout == b"- is valid (1 step)\n"
    assert wrong.stderr.startswith(b"error: -:2:1: unknown field 'step'")


def test_a_step_that_ignores_being_asked_to_end_is_killed_once(
    relay: Relay, tmp_path: Path
) -> None:
    """Promise X4."""
    ended = run(
        relay, tmp_path, "steps:\n  deaf: {exec: \"trap '' TERM; sleep 1000\", timeout: 100ms}\n"
    )

    assert reason(ended, "deaf") == "sh exceeded its time limit of 0.1 s"


def drawn(shell: Shell, term: str, rows: int) -> str:
    """What a run of six steps writes to a terminal with so many lines."""
    steps = "".join(f"  s{number}: {{exec: [sleep, 0.3]}}\n" for number in range(6))
    (shell.home / "six.yaml").write_text(f"name: six\nsteps:\n{steps}")
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 80, 0, 0))
    env = {name: each for name, each in shell.env.items() if name not in ("LINES", "COLUMNS")}
    running = subprocess.Popen(
        [*RELAY, "pipeline", "run", "six.yaml"],
        env={**env, "TERM": term},
        cwd=shell.home,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs)
    text = b""
    with suppress(OSError):  # The end of a terminal.
        while piece := os.read(ours, 4096):
            text += piece
    os.close(ours)
    assert running.wait(30) == 0
    return text.decode()


def test_a_terminal_with_few_lines_has_every_step_in_the_end(shell: Shell) -> None:
    """Promise X4."""
    text = drawn(shell, "xterm", 6)

    last = text.rpartition("\x1b[J")[2]
    assert all(f"✔ s{number}  exec done" in last for number in range(6))
    for frame in text.split("\x1b[J")[1:-1]:
        assert frame.count("\n") <= 3
    assert "more steps" in text


def test_what_one_step_has_in_its_environment_is_not_in_that_of_the_next(
    relay: Relay, tmp_path: Path
) -> None:
    """Promise X4."""
    (tmp_path / "work.py").write_text(
        "import os\ndef act(): return os.environ.get('SECRET', '-')\n"
    )
    steps = (
        "steps:\n  a: {python: 'work:act', env: {SECRET: yes}}\n  b: {python: 'work:act', needs: a}"
    )

    ended = run(relay, tmp_path, steps)

    assert [result(relay, ended, step) for step in "ab"] == ["yes", "-"]
