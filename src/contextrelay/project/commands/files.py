"""project init, finish, doctor, restore: what makes, writes, checks and brings back whole files."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from contextrelay.cli.console import Console
from contextrelay.cli.parser import arg, takes, version
from contextrelay.errors import Conflict, Invalid, Refused
from contextrelay.limits import NEXT_TODOS_MAX
from contextrelay.project.commands.project_argument import (
    as_fields,
    clean,
    note_warnings,
    open_project,
    project_options,
)
from contextrelay.project.project import Finished, Project

MARKS = {"ok": "✔", "hint": "–", "failure": "✗"}


@takes(
    arg("folder", nargs="?", metavar="FOLDER", help="else this one"),
    arg("--name", help="else the folder's"),
    arg("--description", default="", help="what it is, in one line"),
    arg("--force", action="store_true", help="overwrite, after a copy"),
    *project_options(),
)
def project_init(args: Namespace, console: Console) -> None:
    """Make PROJECT.md, state.json, decisions.md and todos.json; files that are there are kept."""
    from contextrelay.project.init import make_project

    if args.folder and args.project:
        raise Invalid("two folders are named", "name one")
    folder = Path(args.folder or args.project or ".").expanduser().resolve()
    project = open_project(args, console, str(folder))
    made = make_project(project, args.name or "", args.description, args.force)
    note_warnings(project, console)
    if made.kept:
        console.note(
            f"⚠ kept as they are: {', '.join(made.kept)} (--force overwrites, after a copy)"
        )
    if made.backup:
        console.note(f"what was there is in {made.backup}")
    lines = [f"made {', '.join(made.made)} in {made.folder}" if made.made else "nothing was made"]
    lines.append("next: write what it is into PROJECT.md; relay project todo add TITLE")
    console.answer(as_fields(made), lines, "\n".join(made.made))


def _field(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ArgumentTypeError(f"{text!r} is no FIELD=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _reason(text: str) -> dict[str, str]:
    id, _, note = text.partition("=")
    return {"id": id, "note": note}


_TEXTS = ("phase", "current_task", "in_progress", "notes", "session_id")
_LISTS = ("completed", "blocked", "next_steps")
_ACTS = ("add", "start", "done", "block", "cancel")


@takes(
    arg("document", nargs="?", metavar="-", help="what changed, as JSON on stdin"),
    arg("--phase"),
    arg("--task", dest="current_task", help="what is worked on now"),
    arg("--completed", action="append", metavar="STEP", help="add it; repeat"),
    arg("--doing", dest="in_progress", metavar="STEP", help="what is half done"),
    arg("--blocked", action="append", metavar="WHAT", help="instead of those there"),
    arg(
        "--next", dest="next_steps", action="append", metavar="STEP", help="instead of those there"
    ),
    arg("--notes", help="instead of those there"),
    arg("--session", dest="session_id", metavar="ID", help="who worked"),
    arg("--set", action="append", type=_field, metavar="FIELD=VALUE", default=[]),
    arg("--add", action="append", metavar="TITLE", help="a new todo; repeat"),
    arg("--start", action="append", metavar="TODO", help="begun; repeat"),
    arg("--done", action="append", metavar="TODO", help="completed; repeat"),
    arg("--block", action="append", type=_reason, metavar="TODO=WHY", help="held up; repeat"),
    arg("--cancel", action="append", metavar="TODO", help="given up; repeat"),
    arg("--decide", action="append", metavar="TITLE", help="decided; repeat"),
    arg("--since", default="", metavar="STAMP", help="merge by what a brief said"),
    arg("--commit", action="store_true", help="commit these files, and no others"),
    arg("-m", "--message", default="", help="of the commit"),
    *project_options(),
)
def project_finish(args: Namespace, console: Console) -> None:
    """Write what changed into state.json, todos.json and decisions.md: all of it, or nothing.

    From options, from JSON on stdin, or, on a terminal and without either, by asking.
    """
    project = open_project(args, console)
    if args.commit or args.strict:
        _scan(project, console, args.strict)
    done = project.finish(since=args.since, **_asked(args, project))
    if args.commit:
        done = done._replace(commit=_committed(project, args.message, done))
    note_warnings(project, console)
    console.answer(as_fields(done), _finished(done), "\n".join(done.files))
    if done.clashes:
        fields = ", ".join(clash.field for clash in done.clashes)
        raise Conflict(
            f"written, but another had changed {fields}: what stood there stands, and yours "
            "is kept in `conflicts`",
            f"choose: relay project finish --set {done.clashes[0].field}=VALUE",
            {"clashes": as_fields(done.clashes)},
        )


def _asked(args: Namespace, project: Project) -> dict[str, Any]:
    fields: dict[str, Any] = {
        name: getattr(args, name) for name in (*_TEXTS, *_LISTS) if getattr(args, name) is not None
    }
    fields |= _set(dict(args.set))
    acts = {name: getattr(args, name) for name in _ACTS if getattr(args, name)}
    if acts:
        fields["todos"] = acts
    if args.decide:
        fields["decisions"] = args.decide
    if args.document not in (None, "-"):
        raise Invalid(
            f"{args.document[:80]!r} has no place here", "give options, or - for JSON on stdin"
        )
    if args.document:
        if fields:
            raise Invalid("both options and a document are given", "give one of them")
        from contextrelay.documents.values import read_json

        document = read_json(sys.stdin.buffer.read(), "the document")
        if not isinstance(document, dict):
            raise Invalid("the document is no object", 'write {"current_task": "..."}')
        return document  # pyright: ignore[reportUnknownVariableType]
    if not fields and sys.stdin.isatty() and sys.stderr.isatty():
        return _ask_a_person(project)
    return fields


_LIST_ANSWERS = {"completed", "next_steps", "decisions"}
_QUESTIONS = {
    "completed": "What was completed? (a; b)",
    "in_progress": "What is half done?",
    "next_steps": "What comes next? (a; b)",
    "current_task": "The task now?",
    "decisions": "What was decided? (a; b)",
    "notes": "Anything to note?",
}


def _ask_a_person(project: Project) -> dict[str, Any]:
    """What `finish` takes, asked at the terminal.

    An empty answer leaves a field as it is, and the end of the input (Ctrl-D) all that follow.
    """
    begun = [todo for todo in project.todos.list() if todo.status == "in_progress"]
    questions = {todo.id: f"Is {todo.id} done: {clean(todo.title)}? (y)" for todo in begun}
    questions = dict(list(questions.items())[:NEXT_TODOS_MAX])
    given = dict(_answered(questions | _QUESTIONS))
    done = [id for id in questions if given.pop(id, "").lower() in ("y", "yes")]
    fields: dict[str, Any] = {**given}
    for name in given.keys() & _LIST_ANSWERS:
        fields[name] = [part.strip() for part in given[name].split(";") if part.strip()]
    return fields | ({"todos": {"done": done}} if done else {})


def _answered(questions: dict[str, str]) -> Iterator[tuple[str, str]]:
    for name, question in questions.items():
        print(f"{question} ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            print(file=sys.stderr)
            return
        if line.strip():
            yield name, line.strip()


def _set(given: dict[str, Any]) -> dict[str, Any]:
    """Fields by the names that a conflict uses; known ones as their own options."""
    known = {name: given.pop(name) for name in (*_TEXTS, *_LISTS) if name in given}
    for name in ("in_progress", *_LISTS):
        if f"progress.{name}" in given:
            known[name] = given.pop(f"progress.{name}")
    return known | ({"fields": given} if given else {})


def _scan(project: Project, console: Console, is_strict: bool) -> None:
    """Look at what is there before it is committed, or where it is asked."""
    from contextrelay.project.files.secrets import secrets_in

    for name, text in project.texts().named().items():
        for secret in secrets_in(name, text or ""):
            found = (
                f"{name}, line {secret.line}: looks like a secret ({secret.kind} {secret.shown})"
            )
            if is_strict:
                raise Refused(found, "nothing was written; take it out")
            console.note(f"⚠ {found}")


def _committed(project: Project, message: str, done: Finished) -> str:
    from contextrelay.project.git_commit import commit

    ids = ", ".join([*done.todos, *done.decisions])
    return commit(project.folder, message or f"project: state{f', {ids}' if ids else ''}")


def _finished(done: Finished) -> list[str]:
    lines = [f"wrote {', '.join(done.files)}" if done.files else "nothing changed"]
    for label, ids in (
        ("new", done.todos),
        ("decided", done.decisions),
        ("unblocked", done.unblocked),
    ):
        if ids:
            lines.append(f"{label:9} {', '.join(ids)}")
    if done.commit:
        lines.append(f"{'commit':9} {done.commit}")
    clashes = (
        f"{each.field}: {each.kept!r} stands, you said {each.other!r}" for each in done.clashes
    )
    return [*lines, *(f"⚠ {clean(each)}" for each in clashes)]


@takes(*project_options(writes=False))
def project_doctor(args: Namespace, console: Console) -> None:
    """Look at each file: is it right, and how to repair it if not; nothing is changed."""
    from contextrelay.project.check import check

    findings = check(open_project(args, console))
    lines: list[str] = []
    for finding in findings:
        text = finding.text.removeprefix(f"{finding.file}, ")
        lines.append(f"{MARKS[finding.state]} {finding.file:12} {clean(text)}")
        if finding.next_step:
            lines.append(f"  {'':12} next: {clean(finding.next_step)}")
    console.answer(as_fields(findings), lines)
    console.exit_code = 2 if any(each.state == "failure" for each in findings) else 0


@takes(
    arg("version", type=version, metavar="vN", help="of the project's thread"), *project_options()
)
def project_restore(args: Namespace, console: Console) -> None:
    """Write the files as a version of the project's thread has them; copies are kept.

    Decisions that were made since then stay: they are never deleted.
    """
    if args.no_thread:
        raise Invalid("a version is one of the thread", "leave out --no-thread")
    project = open_project(args, console)
    files = project.restore(args.version)
    note_warnings(project, console)
    text = f"wrote {', '.join(files)} as of v{args.version}" if files else "nothing was different"
    console.answer({"files": files, "version": args.version}, text, "\n".join(files))
