"""Projects on the command line: which one is meant, and how its values are shown.

Rule: no store is opened here, and nothing that would be slow to import: `start` is run often.
"""

from __future__ import annotations

import os

from contextrelay.cli.console import Console
from contextrelay.cli.parser import Argument, arg, by
from contextrelay.model.project import as_fields as as_fields
from contextrelay.project.files.folder import find_folder
from contextrelay.project.project import Project
from contextrelay.project.thread_link import Link, link_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from contextrelay.model.project import Todo


def project_options(writes: bool = True) -> tuple[Argument, ...]:
    """Take what every command about a project takes."""
    return (
        arg("--project", metavar="FOLDER", help="else RELAY_PROJECT, else from here upwards"),
        arg("--no-thread", action="store_true", help="leave the project's thread as it is"),
        *((by("who does it"), STRICT) if writes else ()),
    )


STRICT = arg("--strict", action="store_true", help="refuse what looks like a secret")


def open_project(args: Namespace, console: Console, folder: str | None = None) -> Project:
    """The project that the arguments, or the current folder, name.

    Raises:
        NotFound: there is none.
    """
    found = folder or find_folder(args.project)
    link = None if args.no_thread else link_of(console, str(found))
    is_strict = getattr(args, "strict", False)
    return Project(found, link=link, by=getattr(args, "by", "you"), is_strict=is_strict)


def link_of(console: Console, folder: str) -> Link:
    """The link to the project's thread; the store is opened when that has to learn something."""
    address = console.address or os.environ.get("RELAY_HOME") or "~/.relay"
    return link_at(folder, address, lambda: console.relay)


def note_warnings(project: Project, console: Console) -> None:
    """Note the warnings of the last call on stderr."""
    for warning in project.warnings:
        console.note(f"⚠ {clean(warning)}")


def todo_line(todo: Todo) -> str:
    """A todo in one line."""
    due = f"  due {clean(todo.due_date)}" if todo.due_date else ""
    waits = f"  waits for {clean(', '.join(todo.blocked_by))}" if todo.status == "blocked" else ""
    waits = waits if todo.blocked_by else ""
    head = f"{clean(todo.id):9} {clean(todo.priority):8} {clean(todo.status):11}"
    return f"{head} {clean(todo.title)}{due}{waits}"


def clean(text: str) -> str:
    """Somebody's text in one line, with nothing in it that would command a terminal."""
    from contextrelay.content.untrusted.hidden_chars import spell_hidden

    return spell_hidden(" ".join(text.split()))
