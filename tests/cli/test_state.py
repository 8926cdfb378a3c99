"""State on the command line: headers, patches, versions, entries."""

from __future__ import annotations

import json
from typing import Any

import pytest

from contextrelay import Relay
from contextrelay.verbs import ReadHeader
from tests.cli.shell import Shell


def add(text: str, id: str = "f1") -> str:
    value = {"id": id, "key": "note", "value": text}
    return json.dumps([{"op": "add", "path": "/facts/-", "value": value}])


@pytest.fixture
def orders(shell: Shell) -> str:
    return shell.out("thread", "new", "--name", "orders").strip()


@pytest.mark.usefixtures("orders")
def test_piped_and_as_json_a_header_is_its_exact_bytes(shell: Shell, orders: str) -> None:
    """Promise T6."""
    shell.out("state", "patch", "--json", add("Zürich owns the schema"))
    with Relay(shell.env["RELAY_HOME"]) as relay:
        header = bytes(relay.transport.ask(ReadHeader(orders)).header) + b"\n"

    assert shell.run("state", "header", "--thread", orders).stdout == header
    assert shell.run("--json", "state", "header").stdout == header
    assert shell.run("state", "header", "orders@v2").stdout == header


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize("way", ["option", "file", "dash", "document"])
def test_a_patch_comes_from_an_option_a_file_or_stdin(shell: Shell, way: str) -> None:
    """Promise T3."""
    (shell.home / "patch.json").write_text(add("it"))
    document = f'{{"operations": {add("it")}, "expected": 1}}'
    words, stdin = {
        "option": (["--json", add("it")], ""),
        "file": (["--file", "patch.json"], ""),
        "stdin": ([], add("it")),
        "dash": (["-"], add("it")),
        "document": (["-"], document),
    }[way]

    assert shell.out("state", "patch", *words, stdin=stdin.encode()).strip() == "v2"
    assert shell.json("state", "show", ":/facts/0/value") == "it"


@pytest.mark.usefixtures("orders")
def test_a_conflict_exits_with_5_and_says_the_version_and_what_changed(shell: Shell) -> None:
    """Promise T4."""
    shell.out("state", "patch", "--json", add("first"), "--expected", "v1")

    code, message = shell.fails("state", "patch", "--json", add("second"), "--expected", "v1")
    json_code, json_error = shell.fails(
        "--json", "state", "patch", "--json", add("second"), "--expected", "1"
    )

    assert code == json_code == 5
    assert "is at version 2, not 1" in message
    assert 'changed since: + fact "first" (f1)' in message
    error = json.loads(json_error)
    assert (error["error"], error["version"]) == ("conflict", 2)
    assert error["changed"] == json.loads(add("first"))
    assert shell.out("state", "patch", "--json", add("b"), "--expected", "v1", "--merge") == "v3\n"


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["patch", "--json", "[{"], 2, "line 1, column"),
        (["patch", "--json", add("x"), "--expected", "v9"], 3, "newest is 1"),
        (["patch", "--json", '[{"op":"add","path":"/version","value":2}]'], 2, "cannot be"),
        (["show", "orders@v5"], 3, "version"),
        (["add", "wish", "x"], 2, "invalid choice"),
        (["add", "decision", "x", "--confidence", "2"], 2, "0 to 1"),
        (["resolve", "q9"], 3, "nothing is open"),
        (["adopt"], 3, "relay thread files"),
    ],
)
def test_what_cannot_be_done_changes_nothing_and_says_what_to_do(
    shell: Shell, words: list[str], code: int, says: str
) -> None:
    got, error = shell.fails("state", *words)

    assert (got, says in error) == (code, True), error
    assert len(error.splitlines()) >= 2
    assert shell.json("thread", "show")["version"] == 1


@pytest.mark.usefixtures("orders")
def test_every_version_can_be_shown_compared_and_restored(shell: Shell) -> None:
    """Promise T5."""
    shell.out("state", "add", "step", "write it")
    shell.out("state", "resolve", "s1")

    assert shell.json("state", "show", "v2")["plan"][0]["status"] == "pending"
    assert shell.json("state", "show", "orders@v2:/plan/0/status") == "pending"
    assert shell.json("state", "show", "--at", "v3")["plan"][0]["status"] == "done"
    assert shell.out("state", "show", ":/plan/0/step") == "write it\n"
    text = shell.out("state", "diff", "v2", "v3", human=True).splitlines()
    assert text == ["orders v2 → v3", "@ /plan/0/status", '- "pending"', '+ "done"']
    assert shell.out("state", "restore", "v2").strip() == "v4"
    assert shell.json("state", "diff", "v2")["operations"] == []


@pytest.mark.usefixtures("orders")
def test_the_log_shows_when_who_what_and_the_checkpoints(shell: Shell) -> None:
    """Promise T8."""
    shell.out("state", "add", "fact", "one", "--by", "planner")
    assert shell.out("checkpoint", "before lunch").strip() == "v2"
    shell.out("state", "add", "fact", "two")

    newest, marked, first = shell.out("state", "log", human=True).splitlines()

    assert newest.startswith("v3 ")
    assert '+ fact "two" (f2)' in newest
    assert "planner" in marked
    assert marked.endswith("⚑ before lunch")
    assert first.endswith("created")
    assert [each["detail"].get("version", 1) for each in shell.json("state", "log")] == [3, 2, 1]
    assert "more:" in shell.out("state", "log", "--limit", "1", human=True)


@pytest.mark.usefixtures("orders")
def test_entries_get_short_ids_and_say_how_to_take_them_back(shell: Shell) -> None:
    text = shell.out("state", "add", "fact", "Orders owns the schema", human=True)
    ref = shell.out("artifact", "put", "-", stdin=b"evidence").strip()
    words = ["--reason", "measured", "--evidence", ref[:8], "--confidence", "0.5"]
    shell.out("state", "add", "decision", "Use SQLite", *words)
    shell.out("state", "add", "fact", "x", "--key", "k")

    assert text.startswith('orders v2  + fact "Orders owns the schema" (f1)  by you')
    assert text.endswith("undo: relay state restore v1 -t orders\n")
    state = shell.json("state", "show")
    assert [(each["id"], each["key"]) for each in state["facts"]] == [("f1", "note"), ("f2", "k")]
    decision: dict[str, Any] = state["decisions"][0]
    assert decision["evidence_refs"] == [ref]
    assert (decision["reason_codes"], decision["confidence"]) == (["measured"], 0.5)


@pytest.mark.usefixtures("orders")
def test_compacting_a_state_that_is_short_changes_nothing(shell: Shell) -> None:
    """Promise T7."""
    assert shell.out("state", "compact").strip() == "v1"
