"""relay exec: real commands, their output, exit status and signals."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from contextrelay import Relay, Settings
from contextrelay.client.thread import Thread
from contextrelay.content.tokens import count_tokens
from contextrelay.model.artifact import Artifact
from contextrelay.model.thread import Event
from tests.server.serving import serving
from tests.store.engines import free_port, until

END_S_MAX = 60
EXEC = [sys.executable, "-m", "contextrelay", "exec"]


class Shell:
    """Runs `relay exec` as a process, in a store of its own."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.environment = {
            **{name: value for name, value in os.environ.items() if name != "RELAY_THREAD"},
            "RELAY_HOME": str(self.home),
            "XDG_CACHE_HOME": str(folder / "cache"),
        }

    def start(
        self, *words: str, cwd: Path | None = None, start_new_session: bool = False
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*EXEC, *words],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            start_new_session=start_new_session,
        )

    def run(self, *words: str) -> tuple[int, bytes, bytes]:
        running = self.start(*words)
        out, err = running.communicate(timeout=END_S_MAX)
        return running.returncode, out, err

    def artifacts(self) -> list[Artifact]:
        with Relay(self.home) as relay:
            return relay.list().artifacts

    def pull(self, ref: str) -> bytes:
        with Relay(self.home) as relay:
            return relay.pull(ref)


def events(thread: Thread) -> list[Event]:
    return [numbered.event for numbered in thread.events()]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_a_short_output_is_printed_as_it_is_and_stored(shell: Shell) -> None:
    """Promise X3: stdout and stderr as they came, bytes identical, exit status kept."""
    script = r"printf 'one\n\377\033[1m'; printf 'two\r\n' >&2; printf three; exit 7"

    status, out, err = shell.run("--", "sh", "-c", script)

    assert (status, out) == (7, b"one\n\xff\x1b[1mtwo\r\nthree")
    (stored,) = shell.artifacts()
    assert err == f"stored as {stored.ref}\n".encode()
    assert shell.pull(stored.ref) == out
    assert stored.type == "tool_output"
    assert stored.metadata["exit_status"] == 7


def test_what_was_stored_is_the_last_push_here(shell: Shell) -> None:
    """Promise X3: also a short output, and quietly."""
    status, out, err = shell.run("-q", "--", "echo", "kept")

    with Relay(shell.home) as relay:
        last = subprocess.run(
            [*EXEC[:-1], "--store", str(shell.home), "pull", "@last"],
            capture_output=True,
            env=shell.environment,
        )
        (stored,) = relay.list().artifacts
    assert (status, out, err) == (0, b"kept\n", b"")
    assert last.stdout == b"kept\n"
    assert stored.name == "echo output"


def test_a_long_output_becomes_a_digest_within_its_tokens(shell: Shell) -> None:
    """Promise X3: error lines and both ends, the ref, and the exit status."""
    lines = [f"step {index} is done" for index in range(5_000)]
    lines[2_345] = "ERROR: disk quota exceeded in worker 7"
    (shell.home.parent / "lines.txt").write_text("\n".join(lines) + "\n")
    command = f"cat {shell.home.parent}/lines.txt; exit 3"

    for tokens_max in (1_000, 120):
        options = () if tokens_max == 1_000 else ("--max-tokens", str(tokens_max))
        status, out, err = shell.run(*options, "--", "sh", "-c", command)

        text = out.decode()
        assert (status, err.startswith(b"stored as ")) == (3, True)
        assert count_tokens(text.rstrip("\n")) <= tokens_max
        assert "2346: ERROR: disk quota exceeded in worker 7" in text
        assert "1: step 0 is done" in text
        assert "5000: step 4999 is done" in text
        assert "exit 3, 5,000 lines, 1 with errors" in text
        ref = text.rpartition("[relay ")[2][:8]
        assert any(stored.ref.startswith(ref) for stored in shell.artifacts())


def test_a_digest_shows_nothing_that_acts_on_a_terminal_or_a_model(shell: Shell) -> None:
    script = r"seq 9999; printf '\033[31mred error\033[0m\n10 %%\r90 %%\rall \033]0;x\007\n'"

    _, out, _ = shell.run("--", "sh", "-c", script)

    assert b"10000: red error\n" in out
    assert b"\x1b" not in out
    assert b"\r" not in out


def test_a_missing_or_unusable_command_is_a_clear_error(shell: Shell, tmp_path: Path) -> None:
    """Promise X3: exit status 127 and 126, as in a shell, and the next step."""
    plain = tmp_path / "plain.txt"
    plain.write_text("not a program")

    for options in ((), ("--thread", "new")):
        with Relay(shell.home) as relay:
            relay.thread("new")
        status, out, err = shell.run(*options, "--", "no-such-command")
        assert (status, out) == (127, b"")
        assert b"command not found: 'no-such-command'" in err
        assert b"install it" in err
        status, out, err = shell.run(*options, "--", str(plain))
        assert (status, out) == (126, b"")
        assert b"chmod +x" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("ls",), b"relay exec -- CMD"),
        (("--max-tokens", "3", "--", "touch", "ran"), b"use 60 to"),
        (("--thread", "nowhere", "--", "touch", "ran"), b"nowhere"),
    ],
)
def test_wrong_words_are_refused_before_anything_runs(
    shell: Shell, tmp_path: Path, words: tuple[str, ...], said: bytes
) -> None:
    running = shell.start(*words, cwd=tmp_path)
    out, err = running.communicate(timeout=END_S_MAX)

    if words != ("ls",):
        assert running.returncode in (2, 3)
        assert said in err
    assert not (tmp_path / "ran").exists()
    assert out == b"" or words == ("ls",)


def test_in_a_thread_it_is_a_run_with_an_action(shell: Shell) -> None:
    """Promise X3, T8: run.started, run.finished, last_actions, and the output in the thread."""
    with Relay(shell.home) as relay:
        thread = relay.thread("work")

        status, out, _ = shell.run("--thread", "work", "--", "sh", "-c", "echo built; exit 4")

        assert (status, out) == (4, b"built\n")
        runs = [event for event in events(thread) if event.type.startswith("run.")]
        assert [event.type for event in runs] == ["run.started", "run.finished"]
        assert runs[0].detail["kind"] == "exec"
        assert runs[1].detail["exit_status"] == 4
        assert relay.pull(runs[1].detail["ref"]) == b"built\n"
        assert "exit status 4" in str(thread.state()["last_actions"][-1])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_goes_to_the_command_and_what_came_is_kept(
    shell: Shell, number: signal.Signals
) -> None:
    """Promise X3: killed in the middle."""
    with Relay(shell.home) as relay:
        thread = relay.thread("work")
        running = shell.start(
            *("--thread", "work", "--", "sh", "-c", "echo begun; exec sleep 60"),
            start_new_session=True,
        )
        until(lambda: _has_child(running.pid), "the command")
        until(lambda: any(each.type == "run.started" for each in events(thread)), "the run")
        running.send_signal(number)
        out, _ = running.communicate(timeout=END_S_MAX)

        assert running.returncode == 128 + number
        assert out == b"begun\n"
        ended = next(each for each in events(thread) if each.type == "run.interrupted")
        assert relay.pull(ended.detail["ref"]) == b"begun\n"


def _has_child(pid: int) -> bool:
    return bool(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


def test_a_command_may_handle_a_signal_itself(shell: Shell) -> None:
    script = "trap 'echo cleaned up; exit 9' TERM; echo ready; while :; do sleep 0.05; done"
    running = shell.start("--", "sh", "-c", script)
    until(lambda: _has_child(running.pid), "the command")
    until(lambda: _reads_trap(running.pid), "its trap")

    running.terminate()
    out, _ = running.communicate(timeout=END_S_MAX)

    assert (running.returncode, out) == (9, b"ready\ncleaned up\n")


def _reads_trap(pid: int) -> bool:
    """Whether the command has begun its loop: its shell then has a child."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return bool(children) and _has_child(int(children[0]))


def test_what_a_command_leaves_running_is_not_waited_for(shell: Shell) -> None:
    status, out, _ = shell.run("--", "sh", "-c", "sleep 300 & echo started; echo $!")

    started, pid = out.decode().split()
    os.kill(int(pid), signal.SIGKILL)
    assert (status, started) == (0, "started")


def test_a_store_that_cannot_be_written_loses_no_output(shell: Shell) -> None:
    shell.home.mkdir()
    (shell.home / "config.json").write_text("no json")

    status, out, err = shell.run("--", "sh", "-c", "echo kept; exit 5")

    assert (status, out) == (5, b"kept\n")
    assert b"config.json: JSON is malformed" in err


def test_what_was_stored_is_found_after_relay_itself_was_killed(shell: Shell) -> None:
    """Promise X3: whole parts, in order, under one id; what came after the last is lost."""
    with Relay(shell.home) as relay:
        relay.push("make the store")
    (shell.home / "config.json").write_text('{"body_bytes_max": 100000}')
    running = shell.start("--", "sh", "-c", "seq 1 50000; exec sleep 300")
    until(lambda: len(shell.artifacts()) == 3, "two parts")
    (child,) = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()

    running.kill()
    running.communicate(timeout=END_S_MAX)
    os.kill(int(child), signal.SIGKILL)

    with Relay(shell.home) as relay:
        parts = relay.list(name="part").artifacts
        parts.sort(key=lambda each: each.metadata["part"])
        assert [each.name for each in parts] == ["part 1 of sh output", "part 2 of sh output"]
        assert len({each.metadata["of"] for each in parts}) == 1
        whole = "".join(f"{number}\n" for number in range(1, 50_001)).encode()
        assert b"".join(relay.pull(each.ref) for each in parts) == whole[:200_000]


def test_output_past_the_limit_of_a_body_is_one_ref(shell: Shell) -> None:
    """Promise X3: stored in parts, read as one body; the parts are gone from the list."""
    with Relay(shell.home, settings=Settings(body_bytes_max=100_000)) as relay:
        relay.push("make the store")
    (shell.home / "config.json").write_text('{"body_bytes_max": 100000}')

    status, out, _ = shell.run("--", "seq", "1", "200000")

    whole = "".join(f"{number}\n" for number in range(1, 200_001)).encode()
    (stored,) = (each for each in shell.artifacts() if each.type == "tool_output")
    assert status == 0
    assert b"200000: 200000\n" in out
    assert stored.size_bytes == len(whole)
    assert shell.pull(stored.ref) == whole
    assert len(shell.artifacts()) == 2


def test_memory_does_not_grow_with_the_output(shell: Shell) -> None:
    """Promise X3: flat memory, by the high-water mark of the process."""
    peaks: list[int] = []
    for size_bytes in (8_000_000, 160_000_000):
        code = (
            "import resource, sys; from contextrelay.__main__ import main;"
            f"sys.argv = ['relay', 'exec', '--', 'head', '-c', '{size_bytes}', '/dev/zero'];"
            "main(); print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=shell.environment,
            capture_output=True,
            check=True,
            timeout=END_S_MAX,
        )
        peaks.append(int(done.stderr.split()[-1]))

        assert (b"in the first 64 MiB" in done.stdout) == (size_bytes > 64 * 1_024**2)

    assert sorted(each.size_bytes for each in shell.artifacts()) == [8_000_000, 160_000_000]
    assert peaks[1] - peaks[0] < 24 * 1_024


def test_a_command_without_output_loads_next_to_nothing() -> None:
    """Promise X3: `relay exec -- true` starts the command before anything else."""
    code = (
        "import sys; from contextrelay.__main__ import main; sys.argv = ['relay', 'exec', '--',"
        " 'true']; main(); print(sorted(m for m in sys.modules if m.startswith('contextrelay')));"
        "print(sorted(set(sys.modules) & {'msgspec', 'argparse', 'subprocess', 'typing', 're'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)

    ours, others = done.stdout.decode().splitlines()
    assert others == "[]"
    assert ours == str(
        [
            "contextrelay",
            "contextrelay.__main__",
            "contextrelay.errors",
            "contextrelay.limits",
            "contextrelay.runs",
            "contextrelay.runs.child_process",
            "contextrelay.runs.exec_start",
        ]
    )


LINES = 200_000
WHOLE = "".join(f"{number}\n" for number in range(1, LINES + 1)).encode()


@pytest.mark.parametrize("mode", ["plain", "json"])
def test_a_full_temporary_folder_loses_no_output(shell: Shell, mode: str) -> None:
    """Promise X3: it is printed as it comes, and the exit status stays that of the command."""
    command = f"seq {LINES}; exit 5"
    words = [*EXEC, *(["--json"] if mode == "json" else []), "--", "sh", "-c", command]
    # No file of a process may grow past 1,100 KiB: as on a full file system, a write fails there.
    limited = ["bash", "-c", 'ulimit -f 1100; exec "$@"', "bash", *words]

    done = subprocess.run(
        limited, env=shell.environment, capture_output=True, timeout=END_S_MAX, check=False
    )

    assert done.returncode == 5
    assert WHOLE in (done.stdout if mode == "plain" else done.stderr)
    assert b"cannot write the output to the temporary folder" in done.stderr
    if mode == "json":
        assert json.loads(done.stdout)["ref"] is None


def test_a_server_that_is_killed_meanwhile_loses_no_output(shell: Shell, tmp_path: Path) -> None:
    """Promise X3."""
    port = free_port()
    serve = [sys.executable, "-m", "contextrelay", "serve", "--port", str(port)]
    server = subprocess.Popen(serve, env=shell.environment, stderr=subprocess.DEVNULL)
    shell.environment["CONTEXTRELAY_URL"] = f"http://127.0.0.1:{port}"
    go = tmp_path / "go"
    try:
        until(lambda: _answers(port), "the server")
        script = f"seq {LINES}; while ! test -e {go}; do sleep 0.05; done; echo end; exit 5"
        running = shell.start("--", "sh", "-c", script)
    finally:
        server.kill()
        server.wait()
    go.touch()
    out, err = running.communicate(timeout=END_S_MAX)

    assert running.returncode == 5
    assert out == WHOLE + b"end\n"
    assert b"error: " in err


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_store_without_room_loses_no_output_and_has_no_empty_artifact(tmp_path: Path) -> None:
    """Promise X3: also where its first parts were stored."""
    shell = Shell(tmp_path)
    with serving(tmp_path / "served", settings=Settings(body_bytes_max=400_000)) as served:
        with Relay(tmp_path / "served") as relay:
            key = relay.new_key(quota_bytes=500_000)
        shell.environment["CONTEXTRELAY_URL"] = served.url
        shell.environment["CONTEXTRELAY_API_KEY"] = key.token

        status, out, err = shell.run("--", "sh", "-c", f"seq {LINES}; exit 5")

        with Relay(tmp_path / "served") as relay:
            stored = relay.list().artifacts
    assert (status, out) == (5, WHOLE)
    assert b"quota" in err
    assert all(each.size_bytes for each in stored)
