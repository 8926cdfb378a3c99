"""@last: what was pushed last from here, never another; and what a terminal is spared."""

from __future__ import annotations

import os
import pty
import shlex
import subprocess

from tests.cli.shell import RELAY, Shell


def pushed(shell: Shell, text: bytes, *more: str) -> str:
    return shell.out("push", *more, stdin=text).strip().rpartition("/")[2]


def test_last_is_what_was_pushed_from_this_folder(shell: Shell) -> None:
    """Promise T1: what others push to the same store does not change it."""
    pushed(shell, b"mine")
    elsewhere = Shell(shell.home / "elsewhere")
    elsewhere.home.mkdir()
    elsewhere.env["RELAY_HOME"] = shell.env["RELAY_HOME"]
    code, error = elsewhere.fails("pull", "@last")
    pushed(elsewhere, b"theirs")

    assert (code, "nothing was pushed from this folder" in error) == (3, True)
    assert shell.out("pull", "@last") == "mine"
    assert elsewhere.out("pull", "@last") == "theirs"


def test_an_agent_with_a_name_has_its_own_last(shell: Shell) -> None:
    """Promise T1."""
    pushed(shell, b"of nobody")
    shell.env["RELAY_AGENT"] = "coder"
    code, error = shell.fails("pull", "@last")
    pushed(shell, b"of the coder")
    own = shell.out("pull", "@last")
    shell.env["RELAY_AGENT"] = "planner"

    assert (code, "nothing was pushed" in error) == (3, True)
    assert own == "of the coder"
    assert shell.fails("pull", "@last")[0] == 3


def test_last_does_not_slide_to_another_when_it_is_gone(shell: Shell) -> None:
    """Promise R4: a ref never dies silently."""
    pushed(shell, b"the one before")
    ref = pushed(shell, b"the last", "--name", "plan.md")
    shell.out("artifact", "rm", ref)

    code, error = shell.fails("pull", "@last")

    assert code == 4
    assert error.startswith("error: plan.md was pushed last from here; ")
    assert ref in error


def test_what_removes_does_not_take_last(shell: Shell) -> None:
    ref = pushed(shell, b"kept")

    code, error = shell.fails("artifact", "rm", "@last")

    assert code == 2
    assert f"@last is now {ref[:8]}" in error
    assert shell.out("pull", ref) == "kept"


def test_a_terminal_that_got_the_name_of_another_has_a_last_of_its_own(shell: Shell) -> None:
    """Promise T1: names of terminals are used again as soon as a window is closed."""
    ours, theirs = pty.openpty()

    def in_a_window(command: str) -> subprocess.CompletedProcess[bytes]:
        """What a shell runs that leads this terminal, or one of the same name."""
        return subprocess.run(
            ["sh", "-c", f"{command.replace('relay', shlex.join(RELAY))}; exit $?"],
            stdin=theirs,
            capture_output=True,
            env=shell.env,
            cwd=shell.home,
            start_new_session=True,
            timeout=60,
        )

    (shell.home / "old.md").write_text("of the old window")
    first = in_a_window("relay push old.md && relay pull @last")
    second = in_a_window("relay pull @last")
    os.close(ours)
    os.close(theirs)

    assert first.stdout.endswith(b"of the old window")
    assert (second.returncode, second.stdout) == (3, b"")
    assert b"yet, in this terminal or by this agent" in second.stderr


def test_a_terminal_that_is_made_for_one_command_counts_as_none(shell: Shell) -> None:
    """Promise T1: like `docker exec -t`, where each command has a terminal that ends with it."""
    (shell.home / "note.md").write_text("a note")

    assert on_terminal(shell, "push", "note.md", leads=True)[0] == 0

    assert on_terminal(shell, "pull", "@last", leads=True) == (0, "a note")
    assert shell.out("pull", "@last") == "a note"


def on_terminal(shell: Shell, *words: str, leads: bool = False) -> tuple[int, str]:
    """The exit code of a command on a terminal, and all that it showed."""
    ours, theirs = pty.openpty()
    running = subprocess.Popen(
        [*RELAY, *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=shell.env,
        cwd=shell.home,
        start_new_session=leads,
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            shown += os.read(ours, 65536)
        except OSError:  # The other side is closed: how Linux says that it ended.
            break
    os.close(ours)
    return running.wait(30), shown.decode()


def test_binary_is_not_written_to_a_terminal(shell: Shell) -> None:
    command = ("pull",)
    body = b"\x89PNG\r\n\x1a\n\0\0"
    ref = pushed(shell, body)

    code, shown = on_terminal(shell, *command, ref)

    assert code == 2
    assert "PNG" not in shown
    assert f"relay pull {ref[:8]} -o FILE" in shown
    assert shell.run(*command, ref).stdout == body
