"""relay wrap run and cli:BIN: any command line works on a thread."""

from __future__ import annotations

import os
import pty
import signal
import stat
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from contextrelay import Relay
from contextrelay.errors import Failed, Invalid
from contextrelay.model.thread import Event
from contextrelay.runs.providers.registry import open_provider
from contextrelay.runs.wrap import AGENTS, called
from tests.store.engines import until

END_S_MAX = 60
WRAP = [sys.executable, "-m", "contextrelay", "wrap", "run", "--thread", "work"]


class Desk:
    """A store with a thread, and agents that are scripts on the PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.relay = Relay(folder / "home")
        self.thread = self.relay.thread("work")
        self.bin = folder / "bin"
        self.bin.mkdir()
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RELAY_")}
        self.environment = {
            **kept,
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "RELAY_HOME": str(folder / "home"),
            "TMPDIR": str(folder),
        }

    def script(self, name: str, text: str) -> None:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def wrap(self, *words: str, stdin: bytes = b"") -> tuple[int, str, str]:
        done = subprocess.run(
            [*WRAP, *words],
            env=self.environment,
            cwd=self.folder,
            input=stdin,
            capture_output=True,
            timeout=END_S_MAX,
        )
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def events(self) -> list[Event]:
        return [numbered.event for numbered in self.thread.events()]

    def ended(self) -> Event:
        return [event for event in self.events() if event.type.startswith("run.")][-1]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_an_agent_gets_the_bundle_and_its_answer_is_stored(desk: Desk) -> None:
    """Promise X3, T8: events, an artifact, an action; turn 2 has turn 1 in its bundle."""
    desk.thread.add_fact("the deadline is Friday")
    desk.script("anyone", "cat > seen.txt; echo 'It is Friday.'; echo noise >&2")

    status, out, err = desk.wrap("--cli", "anyone", "--", "when is the deadline?")

    assert (status, out, err) == (0, "It is Friday.\n", "noise\n")
    seen = (desk.folder / "seen.txt").read_text()
    assert "the deadline is Friday" in seen
    assert seen.endswith("when is the deadline?\n")
    asked, started, call, ended = (e for e in desk.events() if "run" in e.detail)
    assert (asked.type, asked.detail["text"]) == ("message.received", "when is the deadline?")
    assert (started.type, started.detail["kind"]) == ("run.started", "wrap")
    assert (started.detail["provider"], started.detail["model"]) == ("cli", "anyone")
    assert call.type == "run.called"
    assert b"the deadline is Friday" in desk.relay.pull(call.detail["exchange"])
    assert (ended.type, ended.by) == ("run.finished", "cli:anyone")
    assert desk.relay.pull(ended.detail["ref"]) == b"It is Friday.\n"
    assert "when is the deadline?" in str(desk.thread.state()["last_actions"])

    desk.wrap("--cli", "anyone", "--user", "are you sure?")
    assert "It is Friday." in (desk.folder / "seen.txt").read_text()


@pytest.mark.parametrize(
    ("words", "script"),
    [
        (("--user", "go on"), "test $# = 0 && cat > seen.txt"),
        (("--pass", "arg", "--user", "go on", "--", "-x"), 'echo "$2" > seen.txt; test $1 = -x'),
        (("--user", "go on", "--", "-f", "{bundle_file}"), 'cat "$2" > seen.txt'),
    ],
)
def test_the_bundle_goes_in_as_the_agent_takes_it(
    desk: Desk, words: tuple[str, ...], script: str
) -> None:
    """Promise X3: on stdin, as an argument, or in a private file that is gone afterwards."""
    desk.script("anyone", script)

    status, _, err = desk.wrap("--cli", "anyone", *words, stdin=b"go on")

    assert (status, err) == (0, "")
    assert "## Request\n\ngo on\n" in (desk.folder / "seen.txt").read_text()
    assert list(desk.folder.glob("relay-*")) == []
    if (desk.folder / "mode.txt").exists():
        assert (desk.folder / "mode.txt").read_text() == "600\n"


@pytest.mark.parametrize("name", list(AGENTS))
def test_known_agents_are_called_so_that_they_answer_once(name: str) -> None:
    """Promise X3: one table, checked here word by word."""
    with called(name, ["--flag"], "the prompt", model="m1") as call:
        words, has_stdin = call.words, call.stdin is not None
        if name == "aider":
            path = Path(words[-1])
            assert path.read_text() == "the prompt"
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            words = [*words[:-1], "FILE"]

    expected = {
        "claude": "claude --print --model m1 --flag",
        "codex": "codex exec --skip-git-repo-check - -m m1 --flag",
        "gemini": "gemini -m m1 --flag",
        "opencode": "opencode run --model m1 --flag",
        "aider": "aider --yes-always --model m1 --flag --message-file FILE",
        "llm": "llm -m m1 --flag",
        "sgpt": "sgpt --no-md --model m1 --flag",
        "ollama": "ollama run m1 --flag",
    }
    assert " ".join(words) == expected[name]
    assert has_stdin == (name != "aider")


def test_a_failed_agent_changes_no_state_and_what_it_said_is_kept(desk: Desk) -> None:
    """Promise X3: run.failed, the exit status, and the thread unharmed."""
    desk.script("anyone", "echo half; exit 3")
    version = desk.thread.show().version

    status, out, err = desk.wrap("--cli", "anyone", "--", "go on")

    assert (status, out) == (3, "half\n")
    assert "output stored" in err
    assert desk.ended().type == "run.failed"
    assert desk.relay.pull(desk.ended().detail["output"]) == b"half\n"
    assert desk.thread.show().version == version


def test_an_agent_that_is_missing_or_no_program_is_a_clear_error(desk: Desk) -> None:
    """Promise X3: nothing is started, so nothing is recorded, and no thread is made."""
    (desk.bin / "plain").write_text("no program")
    before = desk.events()

    for name, status, said in (("nobody", 127, "install it"), ("plain", 126, "chmod +x")):
        done = desk.wrap("--cli", str(desk.bin / name) if name == "plain" else name, "--", "x")
        assert done[0] == status
        assert said in done[2]
    assert desk.events() == before
    words = [*WRAP[:-2], "--cli", "nobody", "--", "x"]  # Without a thread.
    done = subprocess.run(words, env=desk.environment, cwd=desk.bin, capture_output=True)
    assert done.returncode == 127
    assert len(desk.relay.threads().threads) == 1
    assert desk.wrap("--cli", "cat")[0] == 2
    assert desk.wrap("--cli", "cat", "--", "--verbose")[0] == 2


def test_an_agent_that_is_stopped_keeps_what_came(desk: Desk) -> None:
    """Promise X3: marked interrupted, the signal passed on."""
    desk.script("anyone", "echo begun; exec sleep 60")
    running = subprocess.Popen(
        [*WRAP, "--cli", "anyone", "--", "go on"],
        env=desk.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert running.stdout is not None
    assert running.stdout.readline() == b"begun\n"

    running.send_signal(signal.SIGTERM)
    running.communicate(timeout=END_S_MAX)

    assert running.returncode == 128 + signal.SIGTERM
    assert desk.ended().type == "run.interrupted"
    assert desk.relay.pull(desk.ended().detail["ref"]) == b"begun\n"


def test_on_a_terminal_the_agent_has_one_too(desk: Desk) -> None:
    """Promise X3: colours stay, the window's size is passed on, bytes are stored as written."""
    desk.script("anyone", "test -t 1 && printf '\\033[31mred\\033[0m\\n'; stty size <&1")
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(ours, (33, 111))

    running = subprocess.Popen(
        [*WRAP, "--cli", "anyone", "--", "go on"],
        env=desk.environment,
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
    )
    _, err = running.communicate(timeout=END_S_MAX)
    os.close(theirs)
    shown = os.read(ours, 10_000)
    os.close(ours)

    assert running.returncode == 0, err
    assert shown == b"\x1b[31mred\x1b[0m\r\n33 111\r\n"
    assert desk.relay.pull(desk.ended().detail["ref"]) == b"\x1b[31mred\x1b[0m\n33 111\n"


def test_a_command_line_is_a_provider(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise X1, X2: `cli:BIN`, streamed, its failures told with what it said."""
    monkeypatch.setenv("PATH", desk.environment["PATH"])
    desk.script("anyone", "tail -n 1; echo 'is done'")
    desk.script("broken", "echo half; echo no key >&2; exit 4")

    result = desk.thread.run("the work", model="cli:anyone")

    assert result.text == "the work\nis done\n"
    assert (result.provider, result.model, result.price) == ("cli", "anyone", None)
    assert result.tokens.basis == "estimated"
    with pytest.raises(Failed, match="exited with status 4: no key"):
        desk.thread.run("the work", model="cli:broken")
    with pytest.raises(Invalid, match="command not found"):
        desk.thread.run("the work", model="cli:nobody")
    with pytest.raises(Invalid, match="missing command-line tool"):
        open_provider("cli", environ={})
    until(lambda: desk.ended().type == "run.failed", "the event")
