"""Project files for models: offered over stdio, and never by a server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.mcp.connecting import Place, bad, connecting, good


@pytest.fixture
def folder(tmp_path: Path) -> str:
    made = tmp_path / "orders"
    made.mkdir()
    return str(made)


def test_a_session_begins_works_and_ends_by_tools_alone(stdio: Place, folder: str) -> None:
    """Promise J4. Promise M1."""

    async def act(client: Client) -> list[str]:
        answers: list[str] = []

        async def call(tool: str, **arguments: Any) -> str:
            answer = await client.call_tool(f"relay_project_{tool}", arguments | {"folder": folder})
            answers.append(good(answer))
            return answers[-1]

        await call("init", name="orders", description="JWT auth")
        await call("todo", action="add", title="Login endpoint", priority="high", id=None)
        await call("todo", action="add", title="Tests", blocked_by=["1"])
        brief = await call("start")
        stamp = brief.split("finish --since ")[1].split()[0]
        await call("todo", action="start", id="1")
        await call("decide", title="Use JWT", context="stateless")
        await call("note", text="mind the clock")
        await call("finish", since=stamp, current_task="Tests", todos={"done": ["TODO-001"]})
        await call("look", what="next")
        return answers

    made, added, waits, brief, begun, decided, _, finished, ready = stdio.run(act)

    assert json.loads(made)["made"] == ["PROJECT.md", "state.json", "todos.json", "decisions.md"]
    assert json.loads(added)["id"] == "TODO-001"
    assert json.loads(waits)["status"] == "blocked"
    assert "- TODO-001 high pending: Login endpoint" in brief
    assert json.loads(begun)["status"] == "in_progress"
    assert json.loads(decided) == {"id": "ADR-001"}
    assert json.loads(finished)["unblocked"] == ["TODO-002"]
    assert [todo["id"] for todo in json.loads(ready)] == ["TODO-002"]
    state = json.loads(Path(folder, "state.json").read_text())
    assert (state["current_task"], state["notes"]) == ("Tests", "mind the clock")


def test_a_task_goes_to_a_child_and_back(stdio: Place, folder: str) -> None:
    """Promise J5."""
    good(stdio.call("relay_project_init", folder=folder))
    task = {"folder": folder, "agent": "child"}
    good(stdio.call("relay_project_task", folder=folder, action="give", task="Parse it"))
    taken = json.loads(good(stdio.call("relay_project_task", action="take", **task)))
    again = bad(stdio.call("relay_project_task", action="take", id="TASK-001", **task))
    back = good(stdio.call("relay_project_task", action="return", result="done", **task))

    assert (taken["status"], taken["taken_by"]) == ("taken", "child")
    assert "TASK-001 is taken by child" in again
    assert json.loads(back)["result"] == "done"


def test_a_server_offers_no_files_of_its_own_machine(tmp_path: Path, folder: str) -> None:
    """Promise M1."""

    async def act(client: Client) -> tuple[set[str], str]:
        names = {tool.name for tool in (await client.list_tools()).tools}
        with pytest.raises(MCPError) as refused:
            await client.call_tool("relay_project_init", {"folder": folder})
        return names, str(refused.value)

    with connecting(tmp_path / "store", "http", "modern") as place:
        names, refused = place.run(act)

    assert "peek_context" in names
    assert not any(name.startswith("relay_project") for name in names)
    assert "unknown tool 'relay_project_init'" in refused
    assert list(Path(folder).iterdir()) == []
