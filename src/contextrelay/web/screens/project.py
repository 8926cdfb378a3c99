"""The project board: brief, todos by status, decisions and state.

`relay ui` shows the project of its folder. A server shows a project read-only, as far as it was
copied into its thread.

Rule: every edit uses the same files, locks and checks as the project commands.
"""

from __future__ import annotations

from typing import Any

from contextrelay.cli import display
from contextrelay.errors import Forbidden, Invalid
from contextrelay.limits import PAGE_ROWS
from contextrelay.model.project import PRIORITIES, TODOS, ProjectTexts, as_fields
from contextrelay.model.ref import is_ref
from contextrelay.project.brief import summarize
from contextrelay.project.decisions import read_decisions
from contextrelay.project.documents import load_document
from contextrelay.project.project import Project
from contextrelay.project.thread_link import PREFIX, THREAD_NAME, link_at, restore_texts
from contextrelay.project.todos import TodoList
from contextrelay.web.screen import Done, PageVisit, Screen
from contextrelay.web.screens.lists import live_among

COLUMNS = ("pending", "in_progress", "blocked", "completed")
_MOVES = {
    "start": ("pending", "blocked"),
    "done": ("in_progress",),
    "block": ("pending", "in_progress"),
    "unblock": ("blocked",),
    "cancel": ("pending", "in_progress", "blocked"),
}
"""For each action on a todo, the statuses in which the action is possible."""


def board(visit: PageVisit) -> Screen:
    """Show the project of the folder in which the page was started, or on a server the project of a
    thread.
    """
    if not visit.is_own:
        return _shared(visit)
    project = _project(visit)
    more = {"brief": project.brief().text, "is_review_due": project.todos.is_review_due()}
    return _screen(project.texts(), project.folder.name, "relay project status", more)


def _screen(texts: ProjectTexts, name: str, command: str, more: dict[str, Any]) -> Screen:
    read = summarize(texts, name)
    todos = TodoList(load_document(texts.todos, TODOS)).read()
    answer: dict[str, Any] = {
        "name": read.about.name or name,
        "about": texts.about or "",
        "phase": read.phase,
        "current_task": read.current_task,
        "last_update": read.last_update,
        "next_steps": read.next_steps,
        "notes": read.notes,
        "missing": read.missing,
        "brief": "",
        "is_review_due": False,
        "thread": None,
        "columns": {
            status: [as_fields(each) for each in todos if each.status == status]
            for status in COLUMNS
        },
        "decisions": [
            {"id": each.id, "title": each.title, "status": each.status, "date": each.date}
            for each in reversed(read_decisions(texts.decisions or ""))
        ],
        **more,
    }
    return Screen(
        template="project",
        title=str(answer["name"]),
        command=command,
        answer=answer,
        drawn={"moves": _MOVES, "PRIORITIES": PRIORITIES},
        place="project",
    )


def _shared(visit: PageVisit) -> Screen:
    """Show a project read-only, from its thread. If no thread is given, list the projects."""
    named = visit.text("thread") if is_ref(visit.text("thread")) else ""
    projects = [] if named else visit.relay.threads(PAGE_ROWS, text=THREAD_NAME).threads
    if not named and len(projects) != 1:
        return Screen(
            template="projects",
            title="Projects",
            command=f"relay thread list --text {display.quoted(THREAD_NAME)}",
            answer={"projects": projects, "live": live_among(projects)},
            place="project",
        )
    thread = visit.relay.thread(named) if named else visit.relay.handle(projects[0])
    state = thread.state()
    facts = {
        each["key"]: each["value"] for each in state["facts"] if str(each["key"]).startswith(PREFIX)
    }
    view = thread.show()
    name = (view.name or "").removeprefix(THREAD_NAME)
    command = f"relay state show {display.short(view.thread_id)}"
    return _screen(
        restore_texts(facts, ProjectTexts()), name, command, {"thread": view, "missing": []}
    )


def _project(visit: PageVisit) -> Project:
    if not visit.folder:
        raise Forbidden(
            "projects are read-only on a server", "edit the project in its folder: relay ui"
        )
    found = Project.find(visit.folder)
    link = link_at(found.folder, visit.address, lambda: visit.relay) if visit.address else None
    return Project(found.folder, link=link, by=visit.by)


def add_todo(visit: PageVisit) -> Done:
    """Add a todo."""
    title = visit.text("title").strip()
    if not title:
        raise Invalid("missing title", "a todo needs a title")
    _project(visit).todos.add(title, priority=visit.text("priority") or "medium")
    return Done(to=visit.link("project"), note="changed")


def move_todo(visit: PageVisit) -> Done:
    """Start, complete, block, unblock or cancel a todo."""
    move, todo, note = visit.text("move"), visit.text("todo"), visit.text("note")
    if move not in _MOVES:
        raise Invalid(f"unknown action {move[:40]!r}", f"actions: {', '.join(_MOVES)}")
    getattr(_project(visit).todos, move)(todo, note)
    return Done(to=visit.link("project"), note="changed")


def decide(visit: PageVisit) -> Done:
    """Append a decision."""
    title = visit.text("title").strip()
    if not title:
        raise Invalid("missing title", "a decision needs a title")
    parts = {name: given for name in ("context", "decision") if (given := visit.text(name).strip())}
    _project(visit).decide(title, **parts)
    return Done(to=visit.link("project"), note="changed")
