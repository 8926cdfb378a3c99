"""The commands, as a person or an agent types them; `finish` with questions on a terminal."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from contextrelay.project import Project
from tests.cli.shell import Shell
from tests.parts import has_command, needs

GIT = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.com",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.com",
    "GIT_CONFIG_GLOBAL": os.devnull,
}


@pytest.fixture
def orders(shell: Shell) -> Shell:
    shell.out("project", "init", "--name", "orders", "--description", "JWT auth for the orders API")
    return shell


def test_a_day_of_work_from_init_to_finish(orders: Shell) -> None:
    """Promise J1, promise J2, promise J3, promise J4."""
    words = ("project", "todo", "add")
    assert orders.out(*words, "Login endpoint", "--priority", "high") == "TODO-001\n"
    assert orders.out(*words, "Tests", "--blocked-by", "1") == "TODO-002\n"
    code, answer = orders.fails("project", "todo", "done", "1")
    assert code == 2
    assert "start it first: relay project todo start TODO-001" in answer
    orders.out("project", "todo", "start", "1")
    assert orders.out("project", "decide", "Use JWT", "--context", "stateless") == "ADR-001\n"
    brief = orders.json("project", "start")
    assert [todo["id"] for todo in brief["next_todos"]] == ["TODO-001"]
    assert brief["tokens"] <= brief["budget_tokens"] == 600

    changes = ["--task", "Write tests", "--completed", "Login", "--next", "Ship", "--done", "1"]
    done = orders.json("project", "finish", "--since", brief["since"], *changes)

    assert done["files"] == ["state.json", "todos.json"]
    assert done["unblocked"] == ["TODO-002"]
    assert orders.json("project", "next")[0]["id"] == "TODO-002"
    status = orders.json("project", "status")
    assert (status["current_task"], status["completed"]) == ("Write tests", ["Login"])
    assert status["todos"] == {"completed": 1, "pending": 1}
    assert orders.json("project", "decisions")[0]["title"] == "Use JWT"
    assert "stateless" in orders.out("project", "decisions", "1")


def test_the_brief_for_people_and_for_models(orders: Shell) -> None:
    """Promise J4."""
    orders.out("project", "todo", "add", "Login endpoint")
    orders.out("project", "finish", "--task", "Login", "--session", "abc123")

    human = orders.out("project", "start", human=True)
    agent = orders.out("project", "start", "--agent", human=True)

    assert human.splitlines()[0] == "# orders — JWT auth for the orders API"
    assert " s ago (session abc123)" in human
    assert "tok · for agents: --agent" in human
    assert " ago" not in agent.replace("24 h ago", "")
    assert agent == orders.out("project", "start") == orders.out("project", "start", "--agent")
    assert len(orders.out("project", "start", "--budget", "60")) < len(agent)
    assert orders.fails("project", "start", "--budget", "5")[0] == 2


def test_finish_reads_a_document_from_stdin(orders: Shell) -> None:
    """Promise J4."""
    document = {
        "phase": "testing",
        "todos": {"add": [{"title": "A", "tags": ["x"]}, "B"]},
        "decisions": [{"title": "Use A", "consequences": "none"}],
    }
    done = orders.json("project", "finish", "-", stdin=json.dumps(document).encode())

    assert (done["todos"], done["decisions"]) == (["TODO-001", "TODO-002"], ["ADR-001"])
    for wrong in (b"[]", b"{", b'{"nothing": 1}'):
        assert orders.fails("project", "finish", "-", stdin=wrong)[0] == 2


def test_a_conflict_is_written_shown_and_settled(orders: Shell) -> None:
    """Promise J5."""
    since = orders.json("project", "start")["since"]
    orders.out("project", "finish", "--task", "Theirs")

    done = orders.run("project", "finish", "--since", since, "--task", "Mine", "--phase", "testing")

    assert done.returncode == 5
    assert b"another writer had changed current_task" in done.stderr
    status = orders.json("project", "status")
    assert (status["current_task"], status["phase"]) == ("Theirs", "testing")
    assert status["conflicts"][0]["other"] == "Mine"
    orders.out("project", "finish", "--set", "current_task=Mine")
    assert orders.json("project", "status")["conflicts"] == []


def test_todos_are_blocked_unblocked_cancelled_and_archived(orders: Shell) -> None:
    """Promise J2."""
    for title in ("A", "B", "C"):
        orders.out("project", "todo", "add", title)
    assert orders.fails("project", "todo", "block", "1")[0] == 2
    orders.out("project", "todo", "block", "1", "no server yet")
    orders.out("project", "todo", "block", "2", "--on", "3")
    assert orders.fails("project", "todo", "block", "3", "--on", "2")[0] == 2
    orders.out("project", "todo", "unblock", "1", "--start")
    orders.out("project", "todo", "cancel", "3", "not needed")

    listed = {todo["id"]: todo for todo in orders.json("project", "todo", "list", "--all")}
    assert listed["TODO-001"]["status"] == "in_progress"
    assert listed["TODO-001"]["notes"] == "no server yet"
    assert listed["TODO-003"]["status"] == "cancelled"
    review = orders.json("project", "todo", "review")
    assert review["stuck"] == ["TODO-002"]
    assert orders.json("project", "todo", "archive") == {"archived": []}
    assert orders.json("project", "todo", "list", "--status", "blocked")[0]["id"] == "TODO-002"


def test_the_doctor_names_the_problem_and_the_next_step(orders: Shell) -> None:
    """Promise J6."""
    assert orders.run("project", "doctor").returncode == 0
    (orders.home / "todos.json").write_text('{\n  "todos": [,]\n}')
    (orders.home / "decisions.md").write_text("## ADR-001: a\n## ADR-001: b\n")

    done = orders.run("project", "doctor", human=True)

    assert done.returncode == 2
    answer = done.stdout.decode()
    assert "✗ todos.json   line 2, column 13: expecting value" in answer
    assert "✗ decisions.md 2 decisions have the id ADR-001" in answer
    assert (orders.home / "todos.json").read_text() == '{\n  "todos": [,]\n}'


def test_restore_writes_an_earlier_version_of_the_thread(orders: Shell) -> None:
    """Promise J6."""
    orders.out("project", "finish", "--task", "First")
    thread = orders.json("project", "status")["thread_id"]
    version = orders.json("thread", "show", thread)["version"]
    orders.out("project", "finish", "--task", "Second")

    orders.out("project", "restore", f"v{version}")

    assert orders.json("project", "status")["current_task"] == "First"
    assert orders.json("thread", "show", thread)["version"] == version + 2
    assert orders.out("--store", "memory:", "project", "note", "x", "--no-thread") == ""


def test_files_are_written_without_a_store(orders: Shell) -> None:
    """Promise J6."""
    (orders.home / "no-store").write_text("not a folder")
    done = orders.run("--store", str(orders.home / "no-store"), "project", "note", "x")

    assert done.returncode == 0
    assert b"the files are written, but the thread is not updated" in done.stderr
    code, answer = orders.fails("project", "note", "ghp_" + "a1B2" * 9, "--strict")
    assert (code, "looks like a secret (GitHub token" in answer) == (2, True)
    assert orders.json("project", "status")["notes"] == "x"


def git(folder: Path, *words: str) -> str:
    env = {**os.environ, **GIT}
    done = subprocess.run(
        ["git", *words], cwd=folder, env=env, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_commit_is_an_option_and_takes_only_these_files(orders: Shell) -> None:
    """Promise J4."""
    needs("git", has_command("git"))
    code, answer = orders.fails("project", "finish", "--task", "A", "--commit")
    assert code == 2
    assert "not in a git repository; the files are written" in answer
    orders.env |= GIT
    git(orders.home, "init", "-q")
    (orders.home / "mine.txt").write_text("mine")
    git(orders.home, "add", "mine.txt")

    orders.out("project", "finish", "--task", "B")
    assert git(orders.home, "log", "--oneline", "--all") == ""
    done = orders.json("project", "finish", "--task", "C", "--commit", "-m", "state")

    assert done["commit"]
    names = git(orders.home, "show", "--name-only", "--format=%s").split()
    assert names == ["state", "PROJECT.md", "decisions.md", "state.json", "todos.json"]
    assert git(orders.home, "diff", "--cached", "--name-only") == "mine.txt\n"
    orders.out("project", "todo", "add", "One line")
    changed = [line for line in git(orders.home, "diff", "-U0").splitlines() if line[:1] in "+-"]
    assert [line for line in changed if line.startswith("-") and line[:3] != "---"] == [
        '-  "todos": [],'
    ]


def test_without_a_project_the_error_names_the_next_step(shell: Shell) -> None:
    code, answer = shell.fails("project", "start")
    assert code == 3
    assert "relay project init" in answer
    code, answer = shell.fails("project", "todo", "ad", "x")
    assert "did you mean: relay project todo add" in answer
    assert "project todo add TITLE" in shell.out("help", "project")


def test_a_task_is_taken_and_returned_by_the_agent_that_the_shell_names(orders: Shell) -> None:
    """Promise J5."""
    words = ("project", "task", "give")
    assert orders.out(*words, "Write the schema", "--expect", "a list") == "TASK-001\n"
    orders.out(*words, "Write the tests")
    orders.env["RELAY_AGENT"] = "ann"
    assert "expected: a list" in orders.out("project", "task", "take")
    orders.env["RELAY_AGENT"] = "bob"
    orders.out("project", "task", "take")

    assert orders.out("project", "task", "return", "tested").strip() == "TASK-002"
    code, error = orders.fails("project", "task", "return", "mine?", "--id", "TASK-001")
    assert (code, "TASK-001 is taken by ann, not by bob" in error) == (5, True)
    assert orders.fails("project", "task", "take")[0] == 3
    taken = [
        (task["taken_by"], task.get("result")) for task in orders.json("project", "task", "list")
    ]
    assert taken == [("ann", None), ("bob", "tested")]


def test_the_heartbeat_exits_with_1_if_a_todo_failed(orders: Shell) -> None:
    """Promise J5."""
    orders.out("project", "todo", "add", "A")
    orders.out("project", "todo", "add", "B")

    done = orders.run("--json", "project", "heartbeat", "--exec", "test $RELAY_TODO = TODO-001")

    assert done.returncode == 1
    assert [each["status"] for each in json.loads(done.stdout)] == ["completed", "blocked"]
    assert orders.out("project", "heartbeat") == "no todo is ready\n"


PROMPT_ENDS = (b"? ", b") ")
INTERRUPT = b"\x03"


def answered(folder: Path, answers: list[bytes]) -> tuple[int, str]:
    """Run `relay project finish` on a terminal; return its exit code and what it printed."""
    import pty

    child, terminal = pty.fork()
    if not child:
        os.chdir(folder)
        os.environ["RELAY_HOME"] = str(folder.parent / "store")
        # A shell that starts the tests in the background makes them ignore it.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        words = [sys.executable, "-m", "contextrelay", "project", "finish"]
        os.execv(sys.executable, words)
    seen, left, last = b"", list(answers), b""
    try:
        while True:
            # An interrupt between the prompt and the read is seen only after it: type another.
            while last == INTERRUPT and not select.select([terminal], [], [], 2)[0]:
                os.write(terminal, INTERRUPT)
            try:
                piece = os.read(terminal, 4096)
            except OSError:  # Linux: the other side is closed.
                break
            if not piece:
                break
            seen += piece
            if seen.endswith(PROMPT_ENDS):
                assert left, f"one question too many: {seen!r}"
                last = left.pop(0)
                os.write(terminal, last)
    finally:
        os.close(terminal)
        _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), seen.decode()


def test_finish_asks_on_a_terminal(project: Project) -> None:
    """Promise J4."""
    project.todos.add("Login endpoint")
    project.todos.start("1")

    answers = [b"y\n", b"Login; Logout\n", b"\n", b"Ship\n", b"Review\n", b"Use JWT\n", b"\n"]
    code, seen = answered(project.folder, answers)

    assert code == 0
    assert "Is TODO-001 done: Login endpoint? (y)" in seen
    assert "wrote state.json, todos.json, decisions.md" in seen
    found = project.summary()
    assert (found.current_task, found.in_progress) == ("Review", "")
    assert (found.completed, found.next_steps) == (["Login", "Logout"], ["Ship"])
    assert project.todos.list()[0].status == "completed"
    assert [each.title for each in project.decisions()] == ["Use JWT"]
