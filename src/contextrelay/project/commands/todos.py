"""project todo: what is to be done, one command a step."""

from __future__ import annotations

from argparse import Namespace

from contextrelay.cli.console import Console
from contextrelay.cli.parser import arg, takes
from contextrelay.model.project import PRIORITIES, STATUSES, Todo
from contextrelay.project.commands.project_argument import (
    as_fields,
    clean,
    note_warnings,
    open_project,
    project_options,
    todo_line,
)
from contextrelay.project.project import Project


@takes(
    arg("title", metavar="TITLE"),
    arg("--priority", choices=PRIORITIES, default="medium", help="(medium)"),
    arg("--description", default=""),
    arg("--category", default=""),
    arg("--tag", action="append", default=[], metavar="TAG", help="repeat"),
    arg("--due", default="", metavar="DATE", help="such as 2026-05-01"),
    arg("--assignee", default="", help="who is to do it"),
    arg("--notes", default=""),
    arg("--blocked-by", action="append", default=[], metavar="TODO", help="it waits for; repeat"),
    *project_options(),
)
def project_todo_add(args: Namespace, console: Console) -> None:
    """Add a todo, and print its id."""
    project = open_project(args, console)
    todo = project.todos.add(
        args.title,
        blocked_by=args.blocked_by,
        priority=args.priority,
        description=args.description,
        category=args.category,
        tags=args.tag,
        due_date=args.due,
        assignee=args.assignee,
        notes=args.notes,
    )
    _answer(project, console, todo)


def _answer(
    project: Project, console: Console, todo: Todo, unblocked: list[str] | None = None
) -> None:
    note_warnings(project, console)
    lines = [todo_line(todo)]
    value = as_fields(todo)
    if unblocked is not None:
        value["unblocked"] = unblocked
        lines += [f"{id} can go on" for id in unblocked]
    console.answer(value, lines, todo.id)


_ONE_TODO = (
    arg("id", metavar="TODO", help="TODO-003, or 3"),
    arg("note", nargs="?", default="", metavar="NOTE", help="added to its notes"),
    *project_options(),
)


@takes(*_ONE_TODO)
def project_todo_start(args: Namespace, console: Console) -> None:
    """Begin with a todo: it is in_progress."""
    project = open_project(args, console)
    _answer(project, console, project.todos.start(args.id, args.note))


@takes(*_ONE_TODO)
def project_todo_done(args: Namespace, console: Console) -> None:
    """End a todo that was begun: it is completed, and what waited for it alone can go on."""
    project = open_project(args, console)
    todo, unblocked = project.todos.done(args.id, args.note)
    _answer(project, console, todo, unblocked)


@takes(
    *_ONE_TODO,
    arg("--on", action="append", default=[], metavar="TODO", help="it waits for; repeat"),
)
def project_todo_block(args: Namespace, console: Console) -> None:
    """Hold a todo up, by a reason, or by other todos that it waits for."""
    project = open_project(args, console)
    _answer(project, console, project.todos.block(args.id, args.note, args.on))


@takes(*_ONE_TODO, arg("--start", action="store_true", help="and begin with it"))
def project_todo_unblock(args: Namespace, console: Console) -> None:
    """Let a todo go on; it waits for nobody then."""
    project = open_project(args, console)
    _answer(project, console, project.todos.unblock(args.id, args.note, args.start))


@takes(*_ONE_TODO)
def project_todo_cancel(args: Namespace, console: Console) -> None:
    """Give a todo up: it is cancelled, and stays in the list."""
    project = open_project(args, console)
    _answer(project, console, project.todos.cancel(args.id, args.note))


@takes(
    arg("--status", choices=STATUSES, help="only these"),
    arg("--all", action="store_true", help="those that have ended too"),
    arg("--archived", action="store_true", help="those under completed instead"),
    *project_options(writes=False),
)
def project_todo_list(args: Namespace, console: Console) -> None:
    """List the todos that are open, in the order of the file."""
    found = open_project(args, console).todos.list(args.archived)
    if args.status:
        found = [todo for todo in found if todo.status == args.status]
    elif not (args.all or args.archived):
        found = [todo for todo in found if todo.is_open]
    lines = [todo_line(todo) for todo in found]
    console.answer(as_fields(found), lines or "no todos: relay project todo add TITLE")


@takes(*project_options())
def project_todo_review(args: Namespace, console: Console) -> None:
    """Look at all todos: what is late, stale or stuck; what was done a week ago is archived."""
    project = open_project(args, console)
    found = project.todos.review()
    note_warnings(project, console)
    lines = [f"{found.open} open; last reviewed {clean(found.last_review) or 'never'}"]
    for label, ids, hint in (
        ("overdue", found.overdue, "do them, or cancel them"),
        ("stale", found.stale, "begun, and not touched for a week"),
        ("stuck", found.stuck, "relay project todo unblock TODO, or cancel"),
        ("archived", found.archived, "completed over a week ago"),
    ):
        if ids:
            lines.append(f"{label:9} {', '.join(map(clean, ids))}  ({hint})")
    console.answer(as_fields(found), lines)


@takes(*project_options())
def project_todo_archive(args: Namespace, console: Console) -> None:
    """Move what was completed over a week ago to the list `completed` of todos.json."""
    project = open_project(args, console)
    moved = project.todos.archive()
    note_warnings(project, console)
    text = f"archived {', '.join(map(clean, moved))}" if moved else "nothing is old enough"
    console.answer({"archived": moved}, text, "\n".join(moved))
