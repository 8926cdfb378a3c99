"""The board of a project: its brief, todos by column, decisions and state; only in `relay ui`.

Rule: every edit goes through the project's own files, locks and checks.
"""

from __future__ import annotations

from typing import Any

from contextrelay.doors.page.screen import Done, Screen, Visit
from contextrelay.doors.project.project import Project
from contextrelay.doors.project.thread_link import link_at
from contextrelay.errors import Invalid, NotFound
from contextrelay.model.project import PRIORITIES, as_fields

COLUMNS = ("pending", "in_progress", "blocked", "completed")
_MOVES = {
    "start": ("pending", "blocked"),
    "done": ("in_progress",),
    "block": ("pending", "in_progress"),
    "unblock": ("blocked",),
    "cancel": ("pending", "in_progress", "blocked"),
}
"""What a todo may be made to do, by where it stands."""


def board(visit: Visit) -> Screen:
    """The project of the folder in which the page was started."""
    project = _project(visit)
    gathered = project.gathered()
    todos = project.todos.list()
    answer: dict[str, Any] = {
        "name": gathered.about.name or project.folder.name,
        "phase": gathered.phase,
        "current_task": gathered.current_task,
        "last_update": gathered.last_update,
        "next_steps": gathered.next_steps,
        "notes": gathered.notes,
        "missing": gathered.missing,
        "is_review_due": project.todos.is_review_due(),
        "columns": {
            status: [as_fields(each) for each in todos if each.status == status]
            for status in COLUMNS
        },
        "decisions": [
            {"id": each.id, "title": each.title, "status": each.status, "date": each.date}
            for each in reversed(project.decisions())
        ],
    }
    return Screen(
        template="project",
        title=str(answer["name"]),
        command="relay project status",
        answer=answer,
        drawn={"moves": _MOVES, "PRIORITIES": PRIORITIES},
        place="project",
    )


def _project(visit: Visit) -> Project:
    if not visit.folder:
        raise NotFound(
            "a server has no project of its own", "in its folder: relay ui; facts are in its thread"
        )
    found = Project.find(visit.folder)
    link = link_at(found.folder, visit.address, lambda: visit.relay) if visit.address else None
    return Project(found.folder, link=link, by=visit.by)


def add_todo(visit: Visit) -> Done:
    """Add a todo."""
    title = visit.text("title").strip()
    if not title:
        raise Invalid("a todo has a title", "write one")
    _project(visit).todos.add(title, priority=visit.text("priority") or "medium")
    return Done(to="/ui/project", note="changed")


def move_todo(visit: Visit) -> Done:
    """Start, complete, block, unblock or cancel a todo."""
    move, todo, note = visit.text("move"), visit.text("todo"), visit.text("note")
    if move not in _MOVES:
        raise Invalid(f"{move[:40]!r} cannot be done to a todo", f"one of {', '.join(_MOVES)}")
    getattr(_project(visit).todos, move)(todo, note)
    return Done(to="/ui/project", note="changed")


def decide(visit: Visit) -> Done:
    """Append a decision."""
    title = visit.text("title").strip()
    if not title:
        raise Invalid("a decision has a title", "write one")
    parts = {name: given for name in ("context", "decision") if (given := visit.text(name).strip())}
    _project(visit).decide(title, **parts)
    return Done(to="/ui/project", note="changed")
