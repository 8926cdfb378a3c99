"""The bridge to tmux: a task is text for the agent in a pane, and nothing that its terminal obeys.

Every attack ends in `touch FILE`: the file must never be there.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from contextrelay import AgentBridge, ContextRelay, RelayError, Unavailable
from contextrelay.client.bridge import tmux
from contextrelay.client.bridge.bridge import run_command
from contextrelay.client.bridge.tmux import TmuxPane, typed
from tests.client.test_bridge import working
from tests.parts import has_command, needs

# What ends an agent, or a paste, and would leave what follows to the shell behind it.
ATTACKS = {
    "interrupt": "look\x03\ntouch {file}\n",
    "end of input": "look\n\x04\ntouch {file}\n",
    "suspend": "look\x1a\ntouch {file}\n",
    "quit": "look\x1c\ntouch {file}\n",
    "end of paste": "look\x1b[201~\x03\rtouch {file}\r",
    "end of paste in C1": "look\x9b201~\x03\rtouch {file}\r",
    "carriage return": "look\rtouch {file}\r",
    "other line ends": "look\x85touch {file}\u2028touch {file}\x0btouch {file}\x0c",
    "lines": "look\ntouch {file}\n",
}

# An agent that reads lines, as one that knows nothing of bracketed paste; it ends at "exit".
AGENT = """
while True:
    task = input("vibe> ")
    if task == "exit":
        break
    print("did " + task.upper(), flush=True)
"""


@pytest.fixture
def panes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A tmux server of this test alone."""
    needs("tmux", has_command("tmux"))
    monkeypatch.setenv("TMUX_TMPDIR", str(tmp_path))
    monkeypatch.delenv("TMUX", raising=False)
    monkeypatch.setattr(tmux, "STILL_S", 1.0)
    try:
        yield
    finally:
        subprocess.run(["tmux", "kill-server"], check=False, capture_output=True)


def _open(*words: str) -> None:
    size = ["-x", "200", "-y", "50"]
    start = ["tmux", "-f", "/dev/null", "new-session", "-d", "-s", "agent", *size]
    subprocess.run([*start, *words], check=True)


def _screen() -> str:
    shown = ["tmux", "capture-pane", "-p", "-t", "agent:0"]
    return subprocess.run(shown, check=True, capture_output=True, text=True).stdout


def _wait_for(text: str) -> None:
    deadline_s = time.monotonic() + 30
    while text not in _screen():
        assert time.monotonic() < deadline_s, _screen()
        time.sleep(0.05)


def _wait_for_program(name: str) -> None:
    """A shell that starts runs other programs first."""
    reply = ["tmux", "display-message", "-p", "-t", "agent:0", "#{pane_current_command}"]
    deadline_s = time.monotonic() + 30
    since_s = time.monotonic()
    while time.monotonic() - since_s < 1:
        assert time.monotonic() < deadline_s
        done = subprocess.run(reply, check=True, capture_output=True, text=True)
        if done.stdout.strip() != name:
            since_s = time.monotonic()
        time.sleep(0.05)


def _agent_in_a_shell(tmp_path: Path) -> None:
    """An agent that was started from a shell, which is there again when the agent ends."""
    script = tmp_path / "agent.py"
    script.write_text(AGENT)
    _open("env", "PS1=shell-ready$ ", "sh", "-i")
    _wait_for("shell-ready$")
    start = ["tmux", "send-keys", "-t", "agent:0", f"{sys.executable} {script}", "Enter"]
    subprocess.run(start, check=True)
    _wait_for("vibe>")


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_no_task_reaches_the_shell_behind_an_agent(
    attack: str, panes: None, tmp_path: Path
) -> None:
    _agent_in_a_shell(tmp_path)
    made = tmp_path / "made"

    answer = TmuxPane("agent", timeout_s=60)(attack.format(file=made))

    assert not made.exists()
    assert "did LOOK" in answer
    assert answer.count("did ") == 1, "one task is one line"
    assert answer.count("shell-ready$") == 1, "the agent still runs"


def test_a_task_over_the_bridge_is_cleaned_too(panes: None, tmp_path: Path) -> None:
    _agent_in_a_shell(tmp_path)
    made = tmp_path / "made"
    bridge = AgentBridge.for_tmux(ContextRelay("memory:"), "agent", timeout=60)

    with working(bridge):
        answer = AgentBridge(bridge.hub).push_and_wait(ATTACKS["interrupt"].format(file=made), 90)

    assert not made.exists()
    assert "<U+0003>" in answer


@pytest.mark.parametrize("shell", ["sh", "bash", "zsh", "fish"])
def test_where_a_shell_waits_in_place_of_an_agent_nothing_is_typed(
    shell: str, panes: None, tmp_path: Path
) -> None:
    if shell not in ("sh", "bash"):
        needs(shell, has_command(shell))
    made = tmp_path / "made"
    _open(shell, "-i")
    _wait_for_program(shell)

    with pytest.raises(Unavailable, match="shell"):
        TmuxPane("agent", timeout_s=5)(f"touch {made}")

    assert not made.exists()
    assert "touch" not in _screen()


@pytest.mark.parametrize("name", ["rbash", "zsh-5.9", "busybox"])
def test_a_shell_is_known_by_all_its_names(name: str, panes: None, tmp_path: Path) -> None:
    made = tmp_path / "made"
    _open("bash", "-c", f"exec -a {name} bash --norc -i")
    _wait_for_program(name)

    with pytest.raises(Unavailable, match="shell"):
        TmuxPane("agent", timeout_s=5)(f"touch {made}")

    assert not made.exists()


def test_an_agent_that_ended_leaves_no_shell_to_the_next_task(panes: None, tmp_path: Path) -> None:
    _agent_in_a_shell(tmp_path)
    made = tmp_path / "made"
    pane = TmuxPane("agent", timeout_s=60)
    pane("exit")

    with pytest.raises(RelayError, match="shell"):
        pane(f"touch {made}")

    assert not made.exists()


# An agent that asks for bracketed paste and shows each byte that comes.
RAW_AGENT = r"""
import os, sys, termios, tty
tty.setraw(0)
os.write(1, b"\x1b[?2004hvibe> ")
came = b""
while not came.endswith(b"\x1b[201~\r"):
    came += os.read(0, 65536)
os.write(1, b"\r\ncame " + repr(came).encode() + b"\r\nvibe> ")
os.read(0, 1)
"""


def test_a_task_is_one_paste_and_then_enter(panes: None, tmp_path: Path) -> None:
    """An agent that asks for it is told where the task begins and ends."""
    _open(sys.executable, "-u", "-c", RAW_AGENT)
    _wait_for("vibe>")

    answer = TmuxPane("agent", timeout_s=60)("größer\x1b[201~\tthan $HOME; -l Enter")

    reply = repr("\x1b[200~größer<U+001B>[201~ than $HOME; -l Enter\x1b[201~\r".encode())
    assert f"came {reply}" in answer


def test_a_long_task_arrives_whole(panes: None, tmp_path: Path) -> None:
    """It does not go through the words of a command, which have a limit."""
    _open(sys.executable, "-u", "-c", RAW_AGENT.replace("repr(came)", "str(len(came))"))
    _wait_for("vibe>")

    answer = TmuxPane("agent", timeout_s=60)("x" * 200_000)

    assert f"came b'{200_000 + 13}'" in answer or f"came {200_000 + 13}" in answer


def test_what_is_typed_has_no_control_characters() -> None:
    """Whatever is in a task; lines stay only where tmux says that the program takes a paste."""
    every = "".join(map(chr, range(0x20))) + "".join(map(chr, range(0x7F, 0xA0))) + "\u202e\u2029"

    for takes_paste in (True, False):
        shown = typed(f"a{every}b\r\nc", takes_paste)
        assert [char for char in shown if char < " " or "\x7f" <= char < "\xa0"] == (
            ["\n", "\n"] if takes_paste else []
        )
        assert "\u2029" not in shown
        assert "\u202e" not in shown
    assert typed("a\nb\r\n\n", takes_paste=True) == "a\nb"
    assert typed("a\nb\r\n\n", takes_paste=False) == "a ⏎ b"


def test_no_buffer_of_tmux_keeps_a_task(panes: None) -> None:
    _open(sys.executable, "-u", "-c", AGENT)
    _wait_for("vibe>")

    TmuxPane("agent", timeout_s=60)("secret task")

    kept = subprocess.run(["tmux", "list-buffers"], capture_output=True, text=True, check=False)
    assert "secret" not in kept.stdout


def test_what_a_command_prints_is_bounded() -> None:
    with pytest.raises(RelayError, match="printed more than"):
        run_command("head -c 9000000 /dev/zero", "look", 20)

    with pytest.raises(RelayError, match=r"exit code 3: x+$") as raised:
        run_command("head -c 9000000 /dev/zero | tr '\\0' x >&2; exit 3", "look", 20)

    assert len(raised.value.message) < 3_000
