"""The bridge: tasks to another agent and their answers, each to the one who asked."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from contextrelay import AgentBridge, ContextRelay, Relay, RelayError, Unavailable
from contextrelay.client.bridge.tmux import is_idle
from tests.cli.shell import Shell
from tests.parts import has_command, needs
from tests.server.serving import serving


@pytest.fixture(params=["server", "embedded"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "embedded":
        yield str(tmp_path / "store")
        return
    with serving(tmp_path / "store") as served:
        yield served.url


@contextmanager
def working(bridge: AgentBridge) -> Generator[None]:
    """A bridge that works in a thread."""
    is_open = threading.Event()
    thread = threading.Thread(target=lambda: bridge.start(on_open=is_open.set))
    thread.start()
    assert is_open.wait(20)
    try:
        yield
    finally:
        bridge.hub.close()
        thread.join(20)
        assert not thread.is_alive()


def test_a_task_comes_back_as_its_answer(address: str) -> None:
    """Promise S6."""
    done = AgentBridge(ContextRelay(address), dispatcher=str.upper)
    with working(done), ContextRelay(address) as hub:
        assert AgentBridge(hub).push_and_wait("add größer", 30) == "ADD GRÖSSER"


def test_a_command_reads_the_task_and_prints_the_answer(address: str) -> None:
    """Promise S6."""
    words = [sys.executable, "-c", "print(len(input()))"]
    done = AgentBridge(ContextRelay(address), dispatcher=words)
    with working(done), ContextRelay(address) as hub:
        assert AgentBridge(hub).push_and_wait("x" * 40, 30) == "40\n"


def test_many_who_wait_get_each_its_own_answer(address: str) -> None:
    """Promise S6: matched by correlation id, in whatever order the answers come."""
    both = threading.Barrier(4)

    def meet(task: str) -> str:
        both.wait(20)
        return f"done: {task}"

    answers: dict[str, str] = {}

    def ask(task: str) -> None:
        with ContextRelay(address) as hub:
            answers[task] = AgentBridge(hub).push_and_wait(task, 30)

    with working(AgentBridge(ContextRelay(address), dispatcher=meet)):
        threads = [threading.Thread(target=ask, args=(f"task {n}",)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(40)

    assert answers == {f"task {n}": f"done: task {n}" for n in range(4)}


def test_the_answer_of_an_older_bridge_is_known_by_its_summary(address: str) -> None:
    """Promise S6: the published bridge sends no correlation id."""
    with ContextRelay(address) as old, ContextRelay(address) as hub:

        def answer(frame: dict[str, str]) -> None:
            summary = f"Result for task from {frame['url'][:60]}"
            old.push("of nobody", channel="agent-done", metadata={"summary": "Result for task"})
            old.push("another's", channel="agent-done", metadata={"correlation_id": "another"})
            old.push("ours", channel="agent-done", metadata={"summary": summary})

        is_open = threading.Event()
        heard = threading.Thread(
            target=lambda: old.hear("agent-tasks", answer, on_open=is_open.set)
        )
        heard.start()
        assert is_open.wait(20)

        assert AgentBridge(hub).push_and_wait("task", 30) == "ours"
        old.close()
        heard.join(20)


def test_a_task_that_fails_is_an_error_that_says_how(address: str) -> None:
    """Promise S6."""

    def fail(task: str) -> str:
        raise ValueError(f"cannot do {task}")

    failing = working(AgentBridge(ContextRelay(address), dispatcher=fail))
    asked = pytest.raises(RelayError, match="cannot do this")
    with failing, ContextRelay(address) as hub, asked:
        AgentBridge(hub).push_and_wait("this", 30)


class Late(ContextRelay):
    """A hub that comes too late once: what it looks at first is removed before it looks."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.address = address
        self.is_late = True

    def peek(self, url: str) -> dict[str, Any]:
        if self.is_late:
            self.is_late = False
            with Relay(self.address) as relay:
                relay.remove(url)
        return super().peek(url)


def test_what_others_pushed_and_removed_does_not_end_the_wait(address: str) -> None:
    """Promise S6."""
    hub = ContextRelay(address)

    def answer(task: str) -> str:
        hub.push("of somebody else", channel="agent-done", metadata={"correlation_id": "another"})
        return task.upper()

    with working(AgentBridge(hub, dispatcher=answer)), Late(address) as late:
        assert AgentBridge(late).push_and_wait("task", 30) == "TASK"
        assert not late.is_late


def test_a_task_that_cannot_be_looked_at_is_answered_too(address: str) -> None:
    """Promise S6."""
    late = working(AgentBridge(Late(address), dispatcher=str.upper))
    failing = pytest.raises(RelayError, match=r"the other agent failed: (Gone|NotFound)")
    with late, ContextRelay(address) as hub, failing:
        AgentBridge(hub).push_and_wait("task", 15)


def test_a_command_that_fails_or_does_not_end_is_reported(address: str) -> None:
    """Promise S6."""
    with ContextRelay(address) as hub:
        for command, reason in (("echo no >&2; exit 3", "3: no"), ("sleep 60", "0.2 s")):
            bridge = AgentBridge(ContextRelay(address), dispatcher=command, timeout=0.2)
            with working(bridge), pytest.raises(RelayError, match=reason):
                AgentBridge(hub).push_and_wait("task", 30)


def test_where_nobody_works_the_wait_ends(address: str) -> None:
    """Promise S6."""
    with ContextRelay(address) as hub, pytest.raises(Unavailable, match=r"in 0\.1 s"):
        AgentBridge(hub).push_and_wait("task", timeout=0.1)


def test_the_commands_do_the_same(address: str, tmp_path: Path) -> None:
    """Promise S6: `contextrelay-bridge start|send`."""
    shell = Shell(tmp_path)
    words = ["bridge", "start", "--url", address, "--exec", "tr a-z A-Z"]
    start = [sys.executable, "-m", "contextrelay", *words]
    with subprocess.Popen(start, env=shell.env, stderr=subprocess.PIPE) as running:
        assert running.stderr is not None
        assert b"agent-tasks" in running.stderr.readline()
        send = ("bridge", "send", "--url", address)

        assert shell.out(*send, "--wait", "say", "it") == "SAY IT\n"
        assert "/pull/" in shell.out(*send, "and go")
        running.terminate()
        running.stderr.close()


AGENT = """
while True:
    task = input("vibe> ")
    print("did " + task.upper())
"""


def test_an_agent_in_tmux_is_given_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise S6: tasks are typed into its pane, and the screen is the answer."""
    needs("tmux", has_command("tmux"))
    monkeypatch.setenv("TMUX_TMPDIR", str(tmp_path))
    monkeypatch.delenv("TMUX", raising=False)
    words = ["tmux", "-f", "/dev/null", "new-session", "-d", "-s", "agent", "-x", "80", "-y", "24"]
    subprocess.run([*words, sys.executable, "-u", "-c", AGENT], check=True)
    try:
        bridge = AgentBridge.for_tmux(ContextRelay("memory:"), "agent", timeout=60)
        with working(bridge):
            answer = AgentBridge(bridge.hub).push_and_wait("Enter; $HOME -l", 90)
    finally:
        subprocess.run(["tmux", "kill-server"], check=False)

    assert "did ENTER; $HOME -L" in answer


def test_a_pane_is_done_when_it_shows_a_prompt_and_no_work() -> None:
    """Promise S6: tasks for an agent in tmux."""
    before = "vibe> "
    assert not is_idle("vibe> do it\nGenerating… esc to interrupt\nvibe> ", before)
    assert not is_idle(before, before)
    assert is_idle("vibe> do it\ndone\nvibe> ", before)
