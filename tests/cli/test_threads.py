"""Threads on the command line: made, found in every form, forked, closed, removed."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import subprocess
from contextlib import suppress

import pytest

from contextrelay.cli import display
from tests.cli.shell import RELAY, Shell


def fact(text: str) -> str:
    return f'[{{"op":"add","path":"/facts/-","value":{{"id":"f","key":"k","value":"{text}"}}}}]'


def test_creating_and_using_set_the_current_thread_and_reading_does_not(shell: Shell) -> None:
    """Promise T1."""
    first = shell.out("thread", "new", "--name", "first").strip()
    second = shell.out("thread", "new", "--name", "second").strip()

    shell.out("state", "header", "first")
    shell.out("state", "add", "fact", "elsewhere", "-t", "first")
    assert shell.json("thread", "show")["thread_id"] == second
    assert shell.out("use", "first").strip() == first
    assert shell.json("use")["thread_id"] == shell.json("thread", "show")["thread_id"] == first
    assert shell.out("use", "-").strip() == second
    assert shell.out("use", "-").strip() == first
    assert shell.fails("use", "third")[0] == 3
    code, error = shell.fails("use", "")
    assert (code, "thread not found: ''" in error) == (3, True)
    assert shell.json("use")["thread_id"] == first


def test_each_agent_has_a_current_thread_of_its_own(shell: Shell) -> None:
    """Promise T1: what alice writes does not land in the thread that bob created last."""
    alice, bob = Shell(shell.home), Shell(shell.home)
    alice.env["RELAY_AGENT"], bob.env["RELAY_AGENT"] = "alice", "bob"
    alice.out("thread", "new", "--name", "A")
    bob.out("thread", "new", "--name", "B")

    written = alice.run("state", "add", "fact", "plan")

    assert written.stdout == b"v2\n"
    assert b'A v2  + fact "plan" (f1)' in written.stderr
    assert b"undo: relay state restore v1 -t A" in written.stderr
    assert bob.json("use")["name"] == "B"
    assert bob.json("state", "show")["facts"] == []


def test_without_a_current_thread_the_only_open_one_is_used_and_named(shell: Shell) -> None:
    """Promise T1."""
    agent = Shell(shell.home)
    agent.env["RELAY_AGENT"] = "planner"
    for name in ("one", "two", "three"):
        agent.out("thread", "new", "--name", name)
    agent.out("thread", "rm", "three", "--yes")

    code, error = agent.fails("state", "add", "fact", "lost")

    assert code == 2
    assert "no current thread, and 2 open threads in this folder: two (" in error
    assert "choose one: relay use THREAD" in error
    agent.out("thread", "close", "two")
    written = agent.run("state", "add", "fact", "kept")
    assert b"using thread one, the only open one here" in written.stderr
    assert [each["value"] for each in agent.json("state", "show", "one")["facts"]] == ["kept"]


def test_without_any_thread_a_write_says_how_to_create_one_and_a_question_creates_one(
    shell: Shell,
) -> None:
    """Promise T1."""
    (shell.home / "other").mkdir()
    elsewhere = Shell(shell.home / "other")
    elsewhere.env["RELAY_HOME"] = shell.env["RELAY_HOME"]
    shell.out("thread", "new", "--name", "here")

    code, error = elsewhere.fails("state", "add", "fact", "lost")

    assert code == 2
    assert "no current thread in this folder" in error
    assert "relay thread new --name NAME" in error
    asked = elsewhere.run("ask", "hello", "-m", "echo")
    assert b"created thread other" in asked.stderr
    assert elsewhere.json("use")["name"] == "other"
    assert shell.json("use")["name"] == "here"


def test_the_variable_counts_more_than_the_current_thread_and_less_than_a_name(
    shell: Shell,
) -> None:
    """Promises R14, T1. It sets nothing."""
    named = shell.out("thread", "new", "--name", "named").strip()
    in_variable = shell.out("thread", "new", "--name", "in-variable").strip()
    current = shell.out("thread", "new").strip()
    shell.env["RELAY_THREAD"] = "in-variable"

    assert shell.json("thread", "show")["thread_id"] == in_variable
    assert shell.json("thread", "show", "named")["thread_id"] == named
    del shell.env["RELAY_THREAD"]
    assert shell.json("thread", "show")["thread_id"] == current


def test_a_terminal_has_a_current_thread_of_its_own(shell: Shell) -> None:
    """Promise T1: another terminal in the same folder chooses for itself."""
    shell.out("thread", "new", "--name", "scripts")
    in_terminal(shell, "relay thread new --name terminal; relay use --json > used")

    assert json.loads((shell.home / "used").read_bytes())["name"] == "terminal"
    assert shell.json("use")["name"] == "scripts"


def in_terminal(shell: Shell, line: str) -> None:
    """Run a shell line in a session with a terminal of its own."""
    (shell.home / "relay").write_text(f'#!/bin/sh\nexec {shlex.join(RELAY)} "$@"\n')
    (shell.home / "relay").chmod(0o755)
    env = {**shell.env, "PATH": f"{shell.home}:{os.environ['PATH']}"}
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(shell.home)
        os.execve("/bin/sh", ["sh", "-c", line], env)
    with suppress(OSError):  # The terminal is gone with its shell.
        while os.read(terminal, 4096):
            pass
    os.close(terminal)
    assert os.waitpid(child, 0)[1] == 0


def test_a_replaced_fact_shows_both_values_and_undo_names_the_thread(shell: Shell) -> None:
    """Promise T1: every confirmation of a write names its thread."""
    shell.out("thread", "new", "--name", "my orders")
    shell.out("state", "add", "fact", "16", "--key", "db")

    text = shell.out("state", "add", "fact", "17", "--key", "db", human=True)

    assert text.startswith('my orders v3  ~ db: "16" -> "17"  by you')
    undo = text.partition("undo: relay ")[2]
    shell.out(*shlex.split(undo))
    assert shell.json("state", "show")["facts"][0]["value"] == "16"
    shell.out("state", "add", "step", "write it")
    done = shell.out("state", "resolve", "s1", human=True)
    assert '~ /plan/0/status  "pending" -> "done"' in done
    checkpoint = shell.run("checkpoint", "before lunch")
    assert (checkpoint.stdout, b"my orders v6" in checkpoint.stderr) == (b"v6\n", True)


def test_a_removed_thread_is_no_longer_current(shell: Shell) -> None:
    """Promise T1."""
    thread = shell.out("thread", "new").strip()
    shell.out("thread", "rm", thread, "--yes")

    code, error = shell.fails("thread", "show")

    assert code == 2
    assert "no current thread in this folder" in error
    assert shell.fails("thread", "show", thread)[0] == 4


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["thread", "show", "one", "--thread", "two"], "conflicting threads"),
        (["thread", "close", "one@v1"], "a version is not allowed"),
        (["thread", "rm", "one"], "--yes"),
        (["thread", "new", "--name", "x" * 200], "name"),
    ],
)
def test_wrong_use_exits_with_2_and_says_what_to_do(
    shell: Shell, words: list[str], says: str
) -> None:
    shell.out("thread", "new", "--name", "one")
    shell.out("thread", "new", "--name", "two")

    code, error = shell.fails(*words)

    assert code == 2
    assert says in error
    assert len(shell.json("thread", "list")["threads"]) == 2


def test_threads_are_listed_newest_first_and_the_current_one_is_marked(shell: Shell) -> None:
    """Promise T1."""
    ids = [shell.out("thread", "new", "--name", name).strip() for name in ("one", "two")]
    shell.out("artifact", "put", "-", "-t", "two", stdin=b"x" * 40_000)
    shell.out("use", "one")

    assert shell.out("runs").split() == ids[::-1]
    assert shell.out("thread", "list").split() == ids[::-1]
    head, two, one = shell.out("runs", human=True).splitlines()
    assert head.split() == ["NAME", "ID", "STATE", "ARTIFACTS", "AVOIDED", "LAST"]
    assert two.startswith("  two")
    assert "~9,488 (94.9%)" in two
    assert one.startswith("▸ one")


def test_a_fork_begins_with_any_version_and_leaves_the_first_alone(shell: Shell) -> None:
    """Promises T1, T5."""
    thread = shell.out("thread", "new", "--name", "first").strip()
    shell.out("state", "patch", "--json", fact("kept"))
    shell.out("state", "patch", "--json", fact("not kept"))

    fork = shell.json("thread", "fork", "first@v2", "--name", "second")

    assert fork["forked_from"] == f"{thread}@v2"
    assert shell.json("state", "show", "second:/facts")[0]["value"] == "kept"
    assert len(shell.json("state", "show", "first:/facts")) == 2
    assert shell.fails("thread", "fork", "first@v9")[0] == 3


def test_a_closed_thread_can_be_read_and_not_changed(shell: Shell) -> None:
    """Promise T1."""
    shell.out("thread", "new", "--name", "orders")

    assert shell.json("thread", "close", "orders")["status"] == "closed"
    code, error = shell.fails("state", "patch", "--json", fact("late"), "-t", "orders")

    assert code == 2
    assert "is closed" in error
    assert shell.json("state", "show", "orders")["version"] == 1


def test_removing_asks_on_a_terminal_and_does_nothing_without_a_yes(shell: Shell) -> None:
    """Promise T1."""
    shell.out("thread", "new", "--name", "orders")

    assert answer_on_terminal(shell, b"n\n") == 1
    assert len(shell.json("thread", "list")["threads"]) == 1
    assert answer_on_terminal(shell, b"y\n") == 0
    assert shell.json("thread", "list")["threads"] == []


def answer_on_terminal(shell: Shell, answer: bytes) -> int:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*RELAY, "thread", "rm", "orders"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=shell.env,
        cwd=shell.home,
    )
    os.close(theirs)
    shown = b""
    while b"[y/N]" not in shown:
        shown += os.read(ours, 1000)
    os.write(ours, answer)
    code = process.wait(30)
    os.close(ours)
    return code


def test_an_artifact_goes_into_a_thread_by_option_or_variable_not_by_last_use(shell: Shell) -> None:
    """Promises T1, T3."""
    thread = shell.out("thread", "new", "--name", "orders").strip()
    (shell.home / "notes.md").write_text("# Notes\n")

    loose = shell.json("artifact", "put", "notes.md")
    put = shell.json("artifact", "put", "notes.md", "--thread", thread, "--type", "markdown")
    pushed = shell.json("push", "notes.md", "-t", "orders")
    shell.env["RELAY_THREAD"] = thread
    by_variable = shell.json("artifact", "put", "-", stdin=b"more")

    assert loose["thread"] is None
    assert {put["thread"], pushed["thread"], by_variable["thread"]} == {thread}
    assert pushed["expires_at"] is None
    listed = shell.json("artifact", "list", "-t", "orders")["artifacts"]
    assert {each["ref"] for each in listed} == {put["ref"], pushed["ref"], by_variable["ref"]}
    assert shell.json("state", "show", ":/artifacts/0/name") == "notes.md"


def test_artifact_get_takes_the_thread_and_only_what_is_in_it(shell: Shell) -> None:
    thread = shell.out("thread", "new").strip()
    inside = shell.out("artifact", "put", "-", "-t", thread, stdin=b"inside").strip()
    outside = shell.out("artifact", "put", "-", stdin=b"outside").strip()

    assert shell.run("artifact", "get", inside, "--thread", thread).stdout == b"inside"
    assert shell.fails("artifact", "get", outside, "--thread", thread)[0] == 3


@pytest.mark.parametrize("name", ["a\x1b[2Jb", "a\nb", "a\u202eb"])
def test_a_name_cannot_command_the_terminal(shell: Shell, name: str) -> None:
    """Promise Z3."""
    code, error = shell.fails("thread", "new", "--name", name)

    assert code == 2
    assert name not in error
    assert shell.json("thread", "list")["threads"] == []


def test_a_name_may_look_like_a_version(shell: Shell) -> None:
    thread = shell.out("thread", "new", "--name", "api@v2").strip()

    assert shell.json("thread", "show", "api@v2")["thread_id"] == thread


def test_the_files_of_a_thread_can_be_read_edited_and_adopted(shell: Shell) -> None:
    """Promise T9."""
    shell.out("thread", "new", "--name", "orders")
    ref = shell.out("artifact", "put", "-", "-t", "orders", "--type", "markdown", stdin=b"# A")
    folder = shell.home / shell.out("thread", "files").strip()
    state = folder / "state.json"
    state.write_text(
        state.read_text().replace('"facts": []', '"facts": [{"id":"f1","key":"k","value":1}]')
    )

    adopted = shell.json("state", "adopt")

    assert (folder / "artifacts" / f"{ref.strip()}.md").read_bytes() == b"# A"
    assert "artifact.created" in (folder / "events.log").read_text()
    assert adopted["operations"][0]["path"].startswith("/facts")
    assert shell.json("state", "show", ":/facts/0/value") == 1
    assert shell.json("state", "adopt")["operations"] == []
    shell.out("state", "add", "fact", "meanwhile")
    state.write_text(state.read_text().replace('"value": 1', '"value": 2'))
    assert shell.fails("state", "adopt")[0] == 5


def test_a_name_that_another_thread_has_is_noted(shell: Shell) -> None:
    """Promise T1."""
    shell.out("thread", "new", "--name", "work")
    shell.out("export", "work", "-o", "work.zip")

    again = shell.run("thread", "new", "--name", "work")
    imported = shell.run("import", "work.zip")

    assert b"note: 2 threads are called work" in again.stderr
    assert b"note: 3 threads are called work" in imported.stderr
    assert shell.run("thread", "new", "--name", "other").stderr == b""
    code, error = shell.fails("thread", "show", "work")
    assert (code, "3 threads are called 'work'" in error) == (2, True)


def test_wide_characters_keep_a_table_straight(shell: Shell) -> None:
    for name in ("注文書", "plain", "e\u0301te\u0301", "ｗｉｄｅ"):
        shell.out("thread", "new", "--name", name)

    head, *rows = shell.out("thread", "list", human=True).splitlines()

    assert len(rows) == 4
    at = {display.width(row[: re.search(r" [0-9a-f]{8} ", row).start()]) for row in rows}  # pyright: ignore[reportOptionalMemberAccess]
    assert at == {head.index("ID") - 1}
