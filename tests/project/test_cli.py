"""The project on the command line: each command, as a person or an agent types it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

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
    assert (
        orders.out("project", "todo", "add", "Login endpoint", "--priority", "high") == "TODO-001\n"
    )
    assert orders.out("project", "todo", "add", "Tests", "--blocked-by", "1") == "TODO-002\n"
    code, answer = orders.fails("project", "todo", "done", "1")
    assert code == 2
    assert "start it first: relay project todo start TODO-001" in answer
    orders.out("project", "todo", "start", "1")
    assert orders.out("project", "decide", "Use JWT", "--context", "stateless") == "ADR-001\n"
    brief = orders.json("project", "start")
    assert [todo["id"] for todo in brief["next_todos"]] == ["TODO-001"]
    assert brief["tokens"] <= brief["budget_tokens"] == 600

    words = ["--task", "Write tests", "--completed", "Login", "--next", "Ship", "--done", "1"]
    done = orders.json("project", "finish", "--since", brief["since"], *words)

    assert done["files"] == ["state.json", "todos.json"]
    assert done["unblocked"] == ["TODO-002"]
    assert orders.json("project", "next")[0]["id"] == "TODO-002"
    status = orders.json("project", "status")
    assert (status["current_task"], status["completed"]) == ("Write tests", ["Login"])
    assert status["todos"] == {"completed": 1, "pending": 1}
    assert orders.json("project", "decisions")[0]["title"] == "Use JWT"
    assert "stateless" in orders.out("project", "decisions", "1")


def test_for_people_and_for_models(orders: Shell) -> None:
    """Promise J4."""
    orders.out("project", "todo", "add", "Login endpoint")
    orders.out("project", "finish", "--task", "Login", "--session", "abc123")

    human = orders.out("project", "start", human=True)
    agent = orders.out("project", "start", "--agent", human=True)

    assert human.splitlines()[0] == "# orders — JWT auth for the orders API"
    assert "last update 0 s ago (session abc123)" in human or " s ago (session" in human
    assert "tok · for agents: --agent" in human
    assert " ago" not in agent.replace("24 h ago", "")
    assert agent == orders.out("project", "start") == orders.out("project", "start", "--agent")
    assert len(orders.out("project", "start", "--budget", "60")) < len(agent)


def test_finish_takes_a_document_from_stdin(orders: Shell) -> None:
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
    assert b"another had changed current_task" in done.stderr
    status = orders.json("project", "status")
    assert (status["current_task"], status["phase"]) == ("Theirs", "testing")
    assert status["conflicts"][0]["other"] == "Mine"
    orders.out("project", "finish", "--set", "current_task=Mine")
    assert orders.json("project", "status")["conflicts"] == []


def test_todos_are_held_up_let_go_given_up_and_put_away(orders: Shell) -> None:
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


def test_the_doctor_names_what_is_wrong_and_how_to_repair_it(orders: Shell) -> None:
    """Promise J6."""
    assert orders.run("project", "doctor").returncode == 0
    (orders.home / "todos.json").write_text('{\n  "todos": [,]\n}')
    (orders.home / "decisions.md").write_text("## ADR-001: a\n## ADR-001: b\n")

    done = orders.run("project", "doctor", human=True)

    assert done.returncode == 2
    answer = done.stdout.decode()
    assert "✗ todos.json   line 2, column 13: a value is expected here" in answer
    assert "✗ decisions.md ADR-001 is there 2 times" in answer
    assert (orders.home / "todos.json").read_text() == '{\n  "todos": [,]\n}'


def test_the_thread_keeps_every_version_and_restore_brings_one_back(orders: Shell) -> None:
    """Promise J6."""
    orders.out("project", "finish", "--task", "First")
    thread = orders.json("project", "status")["thread_id"]
    version = orders.json("thread", "show", thread)["version"]
    orders.out("project", "finish", "--task", "Second")

    orders.out("project", "restore", f"v{version}")

    assert orders.json("project", "status")["current_task"] == "First"
    assert orders.json("thread", "show", thread)["version"] == version + 2
    alone = orders.out("--store", "memory:", "project", "note", "x", "--no-thread")
    assert alone == ""


def test_a_store_that_cannot_be_opened_stops_nothing(orders: Shell) -> None:
    """Promise J6."""
    (orders.home / "no-store").write_text("not a folder")
    done = orders.run("--store", str(orders.home / "no-store"), "project", "note", "x")

    assert done.returncode == 0
    assert b"the files are written, but the thread was not updated" in done.stderr
    assert orders.json("project", "status")["notes"] == "x"


def git(folder: Path, *words: str) -> str:
    env = {**os.environ, **GIT}
    done = subprocess.run(
        ["git", *words], cwd=folder, env=env, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_a_commit_is_made_only_when_asked_and_of_these_files_alone(orders: Shell) -> None:
    """Promise J4."""
    needs("git", has_command("git"))
    code, answer = orders.fails("project", "finish", "--task", "A", "--commit")
    assert code == 2
    assert "in no git repository; the files are written" in answer
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


def test_a_secret_is_warned_of_and_refused_when_strict(orders: Shell) -> None:
    token = "ghp_" + "a1B2" * 9
    code, answer = orders.fails("project", "note", f"use {token}", "--strict")
    assert code == 2
    assert "looks like a secret (GitHub token" in answer
    assert token not in answer

    done = orders.run("project", "note", f"use {token}")
    assert done.returncode == 0
    assert b"looks like a secret" in done.stderr
    assert orders.fails("project", "finish", "--strict", "--commit")[0] == 2


def test_where_there_is_no_project_the_error_names_the_next_step(shell: Shell) -> None:
    code, answer = shell.fails("project", "start")
    assert code == 3
    assert "relay project init" in answer
    code, answer = shell.fails("project", "todo", "ad", "x")
    assert "did you mean: relay project todo add" in answer
    code, answer = shell.fails("project", "tod")
    assert "did you mean: relay project todo" in answer
    assert "project todo add TITLE" in shell.out("help", "project")


def test_a_sub_agent_takes_a_task_and_returns_its_result(orders: Shell) -> None:
    """Promise J5."""
    assert orders.out("project", "task", "give", "Parse it", "--expect", "a list") == "TASK-001\n"
    taken = orders.out("project", "task", "take", "--by", "child")
    assert "expected: a list" in taken
    orders.out("project", "task", "return", "[1, 2]", "--by", "child")

    (task,) = orders.json("project", "task", "list")
    assert (task["status"], task["result"], task["taken_by"]) == ("done", "[1, 2]", "child")
    assert orders.fails("project", "task", "take")[0] == 3


def test_a_task_is_taken_and_returned_by_the_agent_that_the_shell_names(orders: Shell) -> None:
    """Promise J3: one agent's result does not land on the task of another."""
    for task in ("Write the schema", "Write the tests"):
        orders.out("project", "task", "give", task)
    for agent in ("ann", "bob"):
        orders.env["RELAY_AGENT"] = agent
        orders.out("project", "task", "take")

    assert orders.out("project", "task", "return", "tested").strip() == "TASK-002"
    code, error = orders.fails("project", "task", "return", "mine?", "--id", "TASK-001")
    assert (code, "TASK-001 was taken by ann, not by bob" in error) == (5, True)
    assert [task["taken_by"] for task in orders.json("project", "task", "list")] == ["ann", "bob"]
