"""project task, heartbeat: work for others, handed over through the files."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from contextrelay.cli.console import Console
from contextrelay.cli.parser import arg, seconds, takes
from contextrelay.limits import HEARTBEAT_EXEC_S_DEFAULT, HEARTBEAT_TODOS_MAX
from contextrelay.project.commands.project_argument import (
    as_fields,
    clean,
    note_warnings,
    open_project,
    project_options,
)
from contextrelay.project.project import Project


@takes(
    arg("task", metavar="TASK"),
    arg("--expect", default="", metavar="OUTPUT", help="what is to come of it"),
    *project_options(),
)
def project_task_give(args: Namespace, console: Console) -> None:
    """Leave a task for a child, which reads nothing but the files; print its id."""
    project = open_project(args, console)
    _answer(project, console, project.tasks.give(args.task, args.expect))


@takes(
    arg("id", nargs="?", default="", metavar="TASK", help="else the oldest given"),
    *project_options(),
)
def project_task_take(args: Namespace, console: Console) -> None:
    """Take a task: nobody else can then."""
    project = open_project(args, console)
    _answer(project, console, project.tasks.take(args.id), is_whole=True)


@takes(
    arg("result", metavar="RESULT", help="what came of it, or why nothing did"),
    arg("--id", default="", metavar="TASK", help="else the one that was taken"),
    arg("--failed", action="store_true", help="nothing came of it"),
    *project_options(),
)
def project_task_return(args: Namespace, console: Console) -> None:
    """Return what came of a task."""
    project = open_project(args, console)
    task = project.tasks.give_back(args.result, args.id, is_failed=args.failed)
    _answer(project, console, task)


@takes(*project_options(writes=False))
def project_task_list(args: Namespace, console: Console) -> None:
    """List the tasks: given, taken, done or failed, with what came of them."""
    found = open_project(args, console).tasks.list()
    console.answer(found, [_line(task) for task in found] or "no tasks")


def _answer(
    project: Project, console: Console, task: dict[str, Any], is_whole: bool = False
) -> None:
    note_warnings(project, console)
    lines = [_line(task)]
    if is_whole and task.get("expected_output"):
        lines.append(f"expected: {clean(str(task['expected_output']))}")
    console.answer(task, lines, "\n".join(lines) if is_whole else str(task["id"]))


def _line(task: dict[str, Any]) -> str:
    names = [str(task.get(name, "")) for name in ("id", "status", "task")]
    result = f"  → {clean(str(task['result']))}" if task.get("result") else ""
    id, status, text = map(clean, names)
    return f"{id:9} {status:7} {text}{result}"


@takes(
    arg("--exec", default="", metavar="CMD", help="run for each, JSON on its stdin"),
    arg(
        "--limit", type=int, default=HEARTBEAT_TODOS_MAX, help=f"({HEARTBEAT_TODOS_MAX}, the most)"
    ),
    arg("--timeout", type=seconds, default=HEARTBEAT_EXEC_S_DEFAULT, metavar="S", help="for each"),
    *project_options(writes=False),
    arg("--by", default="heartbeat", help="who does it"),
    arg("--strict", action="store_true", help="refuse what looks like a secret"),
)
def project_heartbeat(args: Namespace, console: Console) -> None:
    """Take at most five todos that are ready; with --exec do them, and write what came of each.

    A command that ends with 0 completes its todo, with what it printed as a note; otherwise the
    todo is blocked, with the reason. Files that a todo names under `files` are read first. Without
    --exec the todos are begun and printed, for an agent to do. Exits with 1 where one failed.
    """
    from contextrelay.project.heartbeat import beat

    project = open_project(args, console)
    done = beat(project, args.exec, args.limit, args.timeout, args.by)
    note_warnings(project, console)
    lines: list[str] = []
    for each in done:
        result = f"  → {clean(each.text)[:200]}" if each.text else ""
        lines.append(f"{each.id:9} {each.status:11} {clean(each.title)}{result}")
    console.answer(as_fields(done), lines or "nothing is ready")
    console.exit_code = 1 if any(each.status == "blocked" for each in done) else 0
