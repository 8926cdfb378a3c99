"""Project tools: read project files at the start of a session, and write them at its end.

Rule: the files are on the client's machine. These tools are offered over stdio only, because over
HTTP they would read and write files of the server.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from typing import Annotated, Any, Literal, TypeVar

from msgspec import Meta, Struct

from contextrelay.client.flow import in_thread
from contextrelay.client.relay import Relay
from contextrelay.client.transport.local import default_address
from contextrelay.content.untrusted.defuse import defuse
from contextrelay.errors import Invalid
from contextrelay.limits import BRIEF_TOKENS_DEFAULT, BRIEF_TOKENS_MIN, MCP_TOKENS_MAX
from contextrelay.mcp.tools.tool import McpTool, ToolAnswer, ToolVisit, about, as_json
from contextrelay.model.project import Priority, as_fields
from contextrelay.project.brief import relevant_decisions
from contextrelay.project.check import check
from contextrelay.project.files import find_folder
from contextrelay.project.project import Project, init_project
from contextrelay.project.thread_link import link_at

Asked = TypeVar("Asked", bound="_About")
Words = list[str] | None
_FOLDER = "The project folder or a folder in it; default: the current folder."
_BUDGET = Meta(ge=BRIEF_TOKENS_MIN, le=MCP_TOKENS_MAX)
_REPLACES = about("Replaces the current value.")
_TODOS = about(
    '{"add": ["title"], "start": ["TODO-001"], "done": [...], "block": [{"id": "TODO-002", "note":'
    ' "why"}], "unblock": [...], "cancel": [...]}'
)
_DECISIONS = about('[{"title": "Use SQLite", "context": "why", "consequences": "..."}]')


class _About(Struct, frozen=True, kw_only=True):
    folder: Annotated[str | None, about(_FOLDER)] = None


class Start(_About, frozen=True, kw_only=True):
    budget_tokens: Annotated[int, _BUDGET, about("Token budget.")] = BRIEF_TOKENS_DEFAULT


class Look(_About, frozen=True, kw_only=True):
    what: Literal["next", "todos", "decisions", "tasks", "doctor"]
    search: Annotated[str | None, about("Only the decisions that are relevant to this.")] = None


class Finish(_About, frozen=True, kw_only=True):
    since: Annotated[str | None, about("The stamp at the end of the brief.")] = None
    phase: str | None = None
    current_task: str | None = None
    completed: Annotated[Words, about("Completed steps to add.")] = None
    in_progress: Annotated[str | None, about("The step in progress.")] = None
    blocked: Annotated[Words, _REPLACES] = None
    next_steps: Annotated[Words, _REPLACES] = None
    notes: Annotated[str | None, _REPLACES] = None
    session_id: str | None = None
    fields: Annotated[dict[str, Any] | None, about("Other fields of state.json, by name.")] = None
    todos: Annotated[dict[str, list[Any]] | None, _TODOS] = None
    decisions: Annotated[list[Any] | None, _DECISIONS] = None


class ChangeTodo(_About, frozen=True, kw_only=True):
    action: Literal["add", "start", "done", "block", "unblock", "cancel", "review", "archive"]
    id: Annotated[str | None, about("TODO-003 or 3; not for add.")] = None
    title: Annotated[str | None, about("Title of a new todo.")] = None
    note: Annotated[str, about("Added to its notes; the reason for block.")] = ""
    priority: Priority = "medium"
    description: str = ""
    due_date: Annotated[str, about("For example 2026-05-01.")] = ""
    assignee: str = ""
    tags: Words = None
    blocked_by: Annotated[Words, about("Ids of todos it depends on; add, block.")] = None


class Decide(_About, frozen=True, kw_only=True):
    title: Annotated[str, about("The decision in one line.")]
    context: Annotated[str, about("Why a decision was needed.")] = ""
    decision: Annotated[str, about("The full text.")] = ""
    consequences: str = ""
    status: str = "Accepted"
    supersedes: Annotated[Words, about("Decisions it replaces, for example ADR-001.")] = None


class Note(_About, frozen=True, kw_only=True):
    text: Annotated[str, Meta(min_length=1), about("A line to add to the notes.")]


class HandTask(_About, frozen=True, kw_only=True):
    action: Literal["give", "take", "return"]
    task: Annotated[str, about("The task; give.")] = ""
    expected_output: Annotated[str, about("The expected output; give.")] = ""
    id: Annotated[str, about("For example TASK-001; default: the oldest.")] = ""
    result: Annotated[str, about("The result, or the reason of a failure; return.")] = ""
    is_failed: bool = False
    agent: Annotated[str, about("Your name, if there are several agents.")] = ""


class Init(_About, frozen=True, kw_only=True):
    name: str = ""
    description: Annotated[str, about("The project in one line.")] = ""


def _look(project: Project, asked: Look) -> Any:
    match asked.what:
        case "next":
            return project.todos.next()
        case "todos":
            return [todo for todo in project.todos.list() if todo.is_open]
        case "decisions":
            found = project.decisions()
            return relevant_decisions(found, asked.search) if asked.search else found
        case "tasks":
            return project.tasks.list()
        case "doctor":
            return check(project.folder, project.now())


def _finish(project: Project, asked: Finish) -> Any:
    names = [name for name in Finish.__struct_fields__ if name not in ("folder", "since")]
    given = {name: getattr(asked, name) for name in names if getattr(asked, name) is not None}
    return project.finish(since=asked.since or "", **given)


def _todo(project: Project, asked: ChangeTodo) -> Any:
    todos, id, note = project.todos, asked.id or "", asked.note
    match asked.action:
        case "review":
            return todos.review()
        case "archive":
            return {"archived": todos.archive()}
        case "add":
            names = ("priority", "description", "due_date", "assignee", "tags", "blocked_by")
            fields = {name: getattr(asked, name) for name in names}
            return todos.add(asked.title or "", notes=note, **fields)
        case _ if not id:
            raise Invalid("missing id", 'pass the id of a todo: "TODO-003"')
        case "done":
            todo, unblocked = todos.done(id, note)
            return {**todo._asdict(), "unblocked": unblocked}
        case "block":
            return todos.block(id, note, asked.blocked_by)
        case action:
            return getattr(todos, action)(id, note)


def _decide(project: Project, asked: Decide) -> Any:
    names = ("status", "context", "decision", "consequences")
    parts = {name: getattr(asked, name) for name in names}
    return {"id": project.decide(asked.title, supersedes=asked.supersedes or (), **parts)}


def _task(project: Project, asked: HandTask) -> Any:
    match asked.action:
        case "give":
            return project.tasks.give(asked.task, asked.expected_output, asked.agent)
        case "take":
            return project.tasks.take(asked.id, asked.agent)
        case "return":
            return project.tasks.give_back(asked.result, asked.id, asked.agent, asked.is_failed)


def _tool(
    name: str,
    takes: type[Asked],
    description: str,
    do: Callable[[Project, Asked], Any],
    **more: bool,
) -> McpTool:
    async def act(visit: ToolVisit, asked: Asked) -> ToolAnswer:
        return await in_thread(lambda: _done(visit, asked, do))

    named: dict[str, Any] = {"name": name, "description": description, **more}
    return McpTool(**named, takes=takes, act=act, is_local=True)


def _done(visit: ToolVisit, asked: Asked, do: Callable[[Project, Asked], Any]) -> ToolAnswer:
    if visit.others is None:
        hint = "run relay mcp on the machine of the project"
        raise Invalid("project tools are not available over HTTP", hint)
    folder = (asked.folder or ".") if isinstance(asked, Init) else find_folder(asked.folder)
    address = visit.address or default_address()
    with ExitStack() as stack:
        # The store is opened only if the project's thread must be updated.
        open_relay = cache(lambda: stack.enter_context(Relay(address)))
        project = Project(folder, link=link_at(folder, address, open_relay), by=visit.by)
        answer = do(project, asked)
        text = answer if isinstance(answer, str) else as_json(as_fields(answer)).text
        warnings = (f"Warning: {defuse(each).text}" for each in project.warnings)
        return ToolAnswer("\n".join([text, *warnings]))


TOOLS = (
    _tool(
        "relay_project_start",
        Start,
        "The cold-start brief of a project: its purpose, status, next steps and decisions. Call it"
        " first in a session, as a sub-agent or in a scheduled run: assume no"
        " memory. Its last lines list what was left out, and the stamp for relay_project_finish.",
        lambda project, asked: project.brief(asked.budget_tokens).text,
    ),
    _tool(
        "relay_project_finish",
        Finish,
        "Write state.json, todos.json and decisions.md: all changes, or none. Pass only what"
        " changed. Pass since, the stamp of the brief, to merge concurrent changes of others;"
        " on a conflict their value stays, and yours is kept next to it.",
        _finish,
    ),
    _tool(
        "relay_project_todo",
        ChangeTodo,
        "Todos go from pending to in_progress (start) to completed (done); block needs a note or"
        " blocked_by. review lists overdue, stale and stuck todos, and archives old ones.",
        _todo,
    ),
    _tool(
        "relay_project_decide",
        Decide,
        "Append a decision to decisions.md. Decisions are never edited: a new one supersedes an "
        "old one.",
        _decide,
    ),
    _tool(
        "relay_project_note",
        Note,
        "Add a line to the notes of state.json.",
        lambda project, asked: project.note(asked.text) or "note added to state.json",
    ),
    _tool(
        "relay_project_task",
        HandTask,
        "Tasks for sub-agents, who see only the files: a parent gives a task with its expected"
        " output; a child takes it, which locks it for others, and returns the result.",
        _task,
    ),
    _tool(
        "relay_project_look",
        Look,
        "What the brief leaves out: next steps, open todos, decisions (optionally matching a"
        " search), tasks of sub-agents; doctor reports problems in the files and where they are.",
        _look,
        is_read_only=True,
    ),
    _tool(
        "relay_project_init",
        Init,
        "Create PROJECT.md, state.json, todos.json and decisions.md; existing files are kept.",
        lambda project, asked: init_project(project, asked.name, asked.description),
    ),
)
