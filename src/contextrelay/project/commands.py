"""The commands `relay project ...` and `relay prime`.

Rule: a command calls one method and prints the result. Agents call `start` and `prime` often, so
no store is opened here, and each command imports the slow modules that it needs.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentTypeError
from collections import Counter
from pathlib import Path

from contextrelay.cli.console import Console
from contextrelay.cli.parser import (
    Argument,
    arg,
    arguments,
    author_option,
    budget,
    seconds,
    version,
)
from contextrelay.errors import Conflict, Invalid, NotFound, Refused, RelayError
from contextrelay.limits import (
    BRIEF_TOKENS_DEFAULT,
    BRIEF_TOKENS_MIN,
    HEARTBEAT_EXEC_S_DEFAULT,
    HEARTBEAT_TODOS_MAX,
    NEXT_TODOS_MAX,
)
from contextrelay.model.project import PRIORITIES, STATUSES, as_fields
from contextrelay.project.files import find_folder
from contextrelay.project.project import Project
from contextrelay.project.thread_link import link_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Iterator
    from typing import Any

    from contextrelay.model.project import Decision, Finished, Todo

PRIME_TOKENS_DEFAULT = 600


_TEXTS = ("phase", "current_task", "in_progress", "notes", "session_id")
_LISTS = ("completed", "blocked", "next_steps")
_ACTIONS = ("add", "start", "done", "block", "cancel")
_STATUS_FIELDS = (
    *("phase", "current_task", "in_progress", "completed", "blocked", "next_steps", "notes"),
    *("last_update", "session_id"),
)
_MARKS = {"ok": "✔", "hint": "–", "failure": "✗"}
_QUESTIONS = {
    "completed": "What was completed? (a; b)",
    "in_progress": "What is half done?",
    "next_steps": "What comes next? (a; b)",
    "current_task": "The task now?",
    "decisions": "What was decided? (a; b)",
    "notes": "Anything to note?",
}

_PROJECT = (
    arg(
        "--project",
        metavar="FOLDER",
        help="folder of the project (default: RELAY_PROJECT, or the current one)",
    ),
    arg("--no-thread", action="store_true", help="do not update the project's thread"),
)
_STRICT = arg("--strict", action="store_true", help="fail if a text looks like a secret")
_WRITES = (*_PROJECT, author_option("name of the writer of the changes"), _STRICT)
_ONE_TODO = (
    arg("id", metavar="TODO", help="id of the todo, for example TODO-003 or 3"),
    arg("note", nargs="?", default="", metavar="NOTE", help="text to add to the notes of the todo"),
    *_WRITES,
)


def _repeated(option: str, metavar: str, help: str, **more: Any) -> Argument:
    return arg(option, action="append", metavar=metavar, help=f"{help}; may be repeated", **more)


def _open(args: Namespace, console: Console, folder: str = "") -> Project:
    found = folder or str(find_folder(args.project))
    address = console.address or os.environ.get("RELAY_HOME") or "~/.relay"
    link = None if args.no_thread else link_at(found, address, lambda: console.relay)
    is_strict = getattr(args, "strict", False)
    return Project(found, link=link, by=getattr(args, "by", "you"), is_strict=is_strict)


def _answer(
    project: Project,
    console: Console,
    value: object,
    human: Iterable[str] | str,
    plain: str | None = None,
) -> None:
    """Print the warnings of the project to stderr, and the answer to stdout."""
    for warning in project.warnings:
        console.note(f"⚠ {_clean(warning)}")
    console.answer(value, human, plain)


def _clean(text: str) -> str:
    """Return a text as one line, without terminal escapes."""
    from contextrelay.content.untrusted.hidden_chars import spell_hidden

    return spell_hidden(" ".join(text.split()))


def _todo_line(todo: Todo) -> str:
    due = f"  due {_clean(todo.due_date)}" if todo.due_date else ""
    is_waiting = todo.status == "blocked" and todo.blocked_by
    waits = f"  waits for {_clean(', '.join(todo.blocked_by))}" if is_waiting else ""
    head = f"{_clean(todo.id):9} {_clean(todo.priority):8} {_clean(todo.status):11}"
    return f"{head} {_clean(todo.title)}{due}{waits}"


@arguments(
    arg(
        "folder",
        nargs="?",
        metavar="FOLDER",
        help="folder of the project (default: the current one)",
    ),
    arg("--name", help="name of the project (default: the name of the folder)"),
    arg("--description", default="", help="description of the project, in one line"),
    arg("--force", action="store_true", help="back up existing files, then overwrite them"),
    *_WRITES,
)
def project_init(args: Namespace, console: Console) -> None:
    """Create PROJECT.md, state.json, decisions.md and todos.json. Existing files are kept."""
    from contextrelay.project.project import init_project

    if args.folder and args.project:
        raise Invalid("two folders given", "pass FOLDER or --project")
    folder = Path(args.folder or args.project or ".").expanduser().resolve()
    project = _open(args, console, str(folder))
    made = init_project(project, args.name or "", args.description, args.force)
    if made.kept:
        console.note(f"⚠ kept: {', '.join(made.kept)} (--force overwrites them after a backup)")
    if made.backup:
        console.note(f"backup of the old files: {made.backup}")
    lines = [f"made {', '.join(made.made)} in {made.folder}" if made.made else "nothing to create"]
    lines.append("next: describe the project in PROJECT.md; relay project todo add TITLE")
    _answer(project, console, as_fields(made), lines, "\n".join(made.made))


@arguments(
    budget(BRIEF_TOKENS_DEFAULT, "token budget"),
    arg("--agent", action="store_true", help="print the brief in the format for models"),
    *_PROJECT,
)
def project_start(args: Namespace, console: Console) -> None:
    """Print the brief for starting without context: what the project is, its state, and what to do
    next.

    In a pipe, or with --agent, the brief has the format for models: the same files give the same
    bytes.
    """
    project = _open(args, console)
    is_for_people = console.is_human and not args.agent and not console.is_json
    made = project.brief(args.budget, _age if is_for_people else None)
    lines = [made.text]
    if is_for_people:
        if project.todos.is_review_due():
            when = f"last reviewed {_age(made.last_review)}" if made.last_review else "not reviewed"
            lines.append(f"⚠ todos {when}: relay project todo review")
        lines.append(f"{f'{made.tokens} tok · for agents: --agent':>80}")
    _answer(project, console, made.fields, lines, made.text)


def _age(moment: str) -> str:
    """Return the age of a time as text, or the text itself if it is not a time."""
    from datetime import UTC, datetime

    from contextrelay.project.todos import parse_time

    then = parse_time(moment)
    if then is None:
        return _clean(moment)
    age_s = (datetime.now(UTC) - then).total_seconds()
    for unit, unit_s in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if age_s >= unit_s:
            return f"{age_s / unit_s:.0f} {unit} ago"
    return f"{max(0, age_s):.0f} s ago"


@arguments(budget(PRIME_TOKENS_DEFAULT, "token budget"), *_PROJECT)
def prime(args: Namespace, console: Console) -> None:
    """Print instructions for an agent, and the brief of the current project.

    An invalid project is reported in one line instead of its brief, so that an agent can still
    start.
    """
    from contextrelay.project.brief import write_primer

    if args.budget < BRIEF_TOKENS_MIN:
        raise Invalid(f"budget too small: {args.budget}", f"pass {BRIEF_TOKENS_MIN} or more")
    brief = ""
    try:
        project = _open(args, console)
        brief = project.brief(max(BRIEF_TOKENS_MIN, args.budget * 2 // 3)).text
        for warning in project.warnings:
            console.note(f"⚠ {_clean(warning)}")
    except NotFound:
        pass
    except RelayError as error:
        brief = f"The project's files need a look: {error.message}; {error.hint}"
    made = write_primer(brief, args.budget)
    fields = {"text": made.text, "tokens": made.tokens, "budget_tokens": args.budget}
    console.answer(fields, made.text, made.text)


@arguments(*_PROJECT)
def project_status(args: Namespace, console: Console) -> None:
    """Print the state of the project, with all steps and counts."""
    project = _open(args, console)
    found = project.summary()
    counts = Counter(_clean(todo.status) for todo in project.todos.list())
    thread = project.link.thread_id if project.link else ""
    value = {
        "folder": str(project.folder),
        "name": found.about.name,
        **{name: getattr(found, name) for name in _STATUS_FIELDS},
        "todos": counts,
        "decisions": found.decisions_total,
        "thread_id": thread,
        "conflicts": found.clashes,
    }
    lines = [f"{_clean(found.about.name)}  {project.folder}"]
    for name in _STATUS_FIELDS:
        shown: Any = getattr(found, name)
        text = shown if isinstance(shown, str) else "; ".join(shown)
        lines.append(f"{name.replace('_', ' '):13} {_clean(text) or '–'}")
    counted = ", ".join(f"{number} {status}" for status, number in counts.items()) or "none"
    lines += [f"{'todos':13} {counted}", f"{'decisions':13} {found.decisions_total}"]
    lines.append(f"{'thread':13} {thread or '–'}")
    lines += [f"⚠ conflict in {_clean(str(each.get('field')))}" for each in found.clashes]
    console.answer(value, lines)


@arguments(
    arg(
        "--limit",
        type=int,
        default=NEXT_TODOS_MAX,
        help=f"number of todos (default and maximum: {NEXT_TODOS_MAX})",
    ),
    *_PROJECT,
)
def project_next(args: Namespace, console: Console) -> None:
    """List the next todos: those that are ready, by priority, at most five."""
    found = _open(args, console).todos.next(max(0, min(args.limit, NEXT_TODOS_MAX)))
    lines = [_todo_line(todo) for todo in found]
    console.answer(as_fields(found), lines or "no todo is ready: relay project todo list")


def _field(text: str) -> tuple[str, Any]:
    from contextrelay.documents.values import read_json

    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ArgumentTypeError(f"{text!r}: expected FIELD=VALUE")
    try:
        return name, read_json(value, name)
    except RelayError:
        return name, value


def _todo_and_reason(text: str) -> dict[str, str]:
    id, _, note = text.partition("=")
    return {"id": id, "note": note}


@arguments(
    arg("document", nargs="?", metavar="-", help="read the changes as JSON from stdin"),
    arg("--phase"),
    arg("--task", dest="current_task", help="what is being worked on now"),
    _repeated("--completed", "STEP", "add a completed step"),
    arg("--doing", dest="in_progress", metavar="STEP", help="the step in progress"),
    _repeated("--blocked", "STEP", "a blocked step; the given ones replace all blocked steps"),
    _repeated(
        "--next", "STEP", "a next step; the given ones replace all next steps", dest="next_steps"
    ),
    arg("--notes", help="replace the notes by this text"),
    arg("--session", dest="session_id", metavar="ID", help="id of this session"),
    _repeated("--set", "FIELD=VALUE", "set any other field of state.json", type=_field, default=[]),
    _repeated("--add", "TITLE", "add a todo with this title"),
    _repeated("--start", "TODO", "start a todo"),
    _repeated("--done", "TODO", "complete a todo"),
    _repeated("--block", "TODO=WHY", "block a todo", type=_todo_and_reason),
    _repeated("--cancel", "TODO", "cancel a todo"),
    _repeated("--decide", "TITLE", "append a decision with this title"),
    arg(
        "--since",
        default="",
        metavar="STAMP",
        help="merge with the changes made since this brief was printed",
    ),
    arg(
        "--commit", action="store_true", help="commit the project files in git, and no other files"
    ),
    arg("-m", "--message", default="", help="commit message"),
    *_WRITES,
)
def project_finish(args: Namespace, console: Console) -> None:
    """Write changes to state.json, todos.json and decisions.md: all changes, or none.

    The changes come from options or from JSON on stdin. On a terminal without either, the command
    asks for them.
    """
    project = _open(args, console)
    if args.commit or args.strict:
        _check_secrets(project, console, args.strict)
    done = project.finish(since=args.since, **_changes(args, project))
    if args.commit:
        from contextrelay.project.project import commit_files

        ids = ", ".join([*done.todos, *done.decisions])
        message = args.message or f"project: state{f', {ids}' if ids else ''}"
        done = done._replace(commit=commit_files(project.folder, message))
    _answer(project, console, as_fields(done), _finished_lines(done), "\n".join(done.files))
    if done.clashes:
        names = ", ".join(clash.field for clash in done.clashes)
        raise Conflict(
            f"written, but another writer had changed {names}: the present values stay, yours "
            "are under `conflicts`",
            f"choose: relay project finish --set {done.clashes[0].field}=VALUE",
            {"clashes": as_fields(done.clashes)},
        )


def _changes(args: Namespace, project: Project) -> dict[str, Any]:
    """Return the fields for `Project.finish`, from options, from stdin or from answers on the
    terminal.
    """
    given = {name: getattr(args, name) for name in (*_TEXTS, *_LISTS)}
    fields: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    for name, value in args.set:
        # A conflict names a field of `progress` by its path in state.json.
        known = name.removeprefix("progress.")
        if known in (*_TEXTS, *_LISTS):
            fields[known] = value
        else:
            fields.setdefault("fields", {})[name] = value
    actions = {name: getattr(args, name) for name in _ACTIONS if getattr(args, name)}
    fields |= {"todos": actions} if actions else {}
    fields |= {"decisions": args.decide} if args.decide else {}
    if args.document not in (None, "-"):
        hint = "pass options, or - to read JSON from stdin"
        raise Invalid(f"unexpected argument {args.document[:80]!r}", hint)
    if args.document:
        from contextrelay.documents.values import read_json

        if fields:
            raise Invalid("both options and a document given", "pass only one of them")
        document = read_json(sys.stdin.buffer.read(), "the document")
        if not isinstance(document, dict):
            raise Invalid("the document is not an object", 'write {"current_task": "..."}')
        return document  # pyright: ignore[reportUnknownVariableType]
    if not fields and sys.stdin.isatty() and sys.stderr.isatty():
        return _asked_changes(project)
    return fields


def _asked_changes(project: Project) -> dict[str, Any]:
    """Ask for the changes on the terminal. An empty answer skips one question, and Ctrl-D skips all
    that follow.
    """
    begun = [todo for todo in project.todos.list() if todo.status == "in_progress"]
    questions = {
        todo.id: f"Is {todo.id} done: {_clean(todo.title)}? (y)" for todo in begun[:NEXT_TODOS_MAX]
    }
    fields: dict[str, Any] = {}
    done: list[str] = []
    for name, answer in _answers(questions | _QUESTIONS):
        if name in questions:
            done += [name] if answer.lower() in ("y", "yes") else []
        elif "(a; b)" in _QUESTIONS[name]:
            fields[name] = [part.strip() for part in answer.split(";") if part.strip()]
        else:
            fields[name] = answer
    return fields | ({"todos": {"done": done}} if done else {})


def _answers(questions: dict[str, str]) -> Iterator[tuple[str, str]]:
    for name, question in questions.items():
        print(f"{question} ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            print(file=sys.stderr)
            return
        if line.strip():
            yield name, line.strip()


def _check_secrets(project: Project, console: Console, is_strict: bool) -> None:
    from contextrelay.project.check import describe_secret, find_secrets

    for name, text in project.texts().named().items():
        for secret in find_secrets(name, text or ""):
            if is_strict:
                raise Refused(describe_secret(secret), "nothing was written; remove the secret")
            console.note(f"⚠ {describe_secret(secret)}")


def _finished_lines(done: Finished) -> list[str]:
    lines = [f"wrote {', '.join(done.files)}" if done.files else "nothing changed"]
    lists = {"new": done.todos, "decided": done.decisions, "unblocked": done.unblocked}
    lines += [f"{label:9} {', '.join(ids)}" for label, ids in lists.items() if ids]
    if done.commit:
        lines.append(f"{'commit':9} {done.commit}")
    for each in done.clashes:
        text = f"{each.field}: {each.kept!r} stays, you set {each.other!r}"
        lines.append(f"⚠ {_clean(text)}")
    return lines


@arguments(
    arg("title", metavar="TITLE", help="the decision in one line"),
    arg("--context", default="", help="why a decision was needed"),
    arg("--decision", default="", help="the full text"),
    arg(
        "--consequence",
        "--consequences",
        dest="consequences",
        default="",
        help="what follows from the decision",
    ),
    arg("--status", default="Accepted", help="status of the decision (default: Accepted)"),
    _repeated("--supersedes", "ADR", "id of a decision that the new one supersedes", default=[]),
    *_WRITES,
)
def project_decide(args: Namespace, console: Console) -> None:
    """Append a decision to decisions.md and print its number."""
    project = _open(args, console)
    names = ("status", "context", "decision", "consequences", "supersedes")
    id = project.decide(args.title, **{name: getattr(args, name) for name in names})
    value = {"id": id, "title": args.title}
    _answer(project, console, value, f"{id}  {_clean(args.title)}", id)


@arguments(
    arg("id", nargs="?", metavar="ADR", help="id of the decision to print in full"),
    arg("--search", metavar="WORDS", help="list the decisions most relevant to these words"),
    *_PROJECT,
)
def project_decisions(args: Namespace, console: Console) -> None:
    """List the decisions, oldest first, or print one of them."""
    found = _open(args, console).decisions()
    if args.search:
        from contextrelay.project.brief import relevant_decisions

        found = relevant_decisions(found, args.search)
    if args.id:
        digits = args.id.upper().removeprefix("ADR-").lstrip("0") or "0"
        found = [each for each in found if str(each.number) == digits]
        if not found:
            raise NotFound(f"decision {args.id} not found", "see: relay project decisions")
        console.answer(as_fields(found[0]), found[0].text, found[0].text)
        return
    lines = [_decision_line(each) for each in found]
    console.answer(as_fields(found), lines or "no decisions yet: relay project decide TITLE")


def _decision_line(decision: Decision) -> str:
    status = _clean(decision.status) or "–"
    if decision.superseded_by and decision.superseded_by != decision.number:
        status = f"superseded by ADR-{decision.superseded_by:03d}"
    return f"{decision.id}  {_clean(decision.date):10}  {_clean(decision.title)}  ({status})"


@arguments(arg("text", metavar="TEXT"), *_WRITES)
def project_note(args: Namespace, console: Console) -> None:
    """Add a line to the notes in state.json."""
    project = _open(args, console)
    project.note(args.text)
    _answer(project, console, {"folder": str(project.folder)}, "noted in state.json", "")


@arguments(*_PROJECT)
def project_doctor(args: Namespace, console: Console) -> None:
    """Check each file and print how to fix problems. No file is changed."""
    from contextrelay.project.check import check

    project = _open(args, console)
    findings = check(project.folder, project.now())
    lines: list[str] = []
    for finding in findings:
        text = finding.text.removeprefix(f"{finding.file}, ")
        lines.append(f"{_MARKS[finding.state]} {finding.file:12} {_clean(text)}")
        if finding.next_step:
            lines.append(f"  {'':12} next: {_clean(finding.next_step)}")
    console.answer(as_fields(findings), lines)
    console.exit_code = 2 if any(each.state == "failure" for each in findings) else 0


@arguments(
    arg("version", type=version, metavar="vN", help="version of the project's thread to restore"),
    *_WRITES,
)
def project_restore(args: Namespace, console: Console) -> None:
    """Write the project files as they are in a version of the project's thread, after a backup.

    Newer decisions are kept, because decisions are never deleted.
    """
    if args.no_thread:
        raise Invalid("--no-thread cannot be used with restore", "omit --no-thread")
    project = _open(args, console)
    names = project.restore(args.version)
    text = f"wrote {', '.join(names)} as of v{args.version}" if names else "nothing to restore"
    _answer(project, console, {"files": names, "version": args.version}, text, "\n".join(names))


@arguments(
    arg("title", metavar="TITLE"),
    arg(
        "--priority",
        choices=PRIORITIES,
        default="medium",
        help="priority of the todo (default: medium)",
    ),
    arg("--description", default=""),
    arg("--category", default=""),
    _repeated("--tag", "TAG", "a tag of the todo", dest="tags", default=[]),
    arg(
        "--due",
        dest="due_date",
        default="",
        metavar="DATE",
        help="due date, for example 2026-05-01",
    ),
    arg("--assignee", default="", help="person or agent to do it"),
    arg("--notes", default=""),
    _repeated("--blocked-by", "TODO", "id of a todo that this todo waits for", default=[]),
    *_WRITES,
)
def project_todo_add(args: Namespace, console: Console) -> None:
    """Add a todo and print its id."""
    project = _open(args, console)
    names = ("priority", "description", "category", "tags", "due_date", "assignee", "notes")
    fields = {name: getattr(args, name) for name in names}
    _show_todo(
        project, console, project.todos.add(args.title, blocked_by=args.blocked_by, **fields)
    )


def _show_todo(
    project: Project, console: Console, todo: Todo, unblocked: list[str] | None = None
) -> None:
    value = as_fields(todo) | ({} if unblocked is None else {"unblocked": unblocked})
    lines = [_todo_line(todo), *(f"{id} is unblocked" for id in unblocked or ())]
    _answer(project, console, value, lines, todo.id)


@arguments(*_ONE_TODO)
def project_todo_start(args: Namespace, console: Console) -> None:
    """Start a todo."""
    project = _open(args, console)
    _show_todo(project, console, project.todos.start(args.id, args.note))


@arguments(*_ONE_TODO)
def project_todo_done(args: Namespace, console: Console) -> None:
    """Complete a todo, and unblock the todos that waited only for this todo."""
    project = _open(args, console)
    _show_todo(project, console, *project.todos.done(args.id, args.note))


@arguments(
    *_ONE_TODO, _repeated("--on", "TODO", "id of a todo that this todo waits for", default=[])
)
def project_todo_block(args: Namespace, console: Console) -> None:
    """Block a todo for a reason, or until other todos are completed."""
    project = _open(args, console)
    _show_todo(project, console, project.todos.block(args.id, args.note, args.on))


@arguments(*_ONE_TODO, arg("--start", action="store_true", help="also start the todo"))
def project_todo_unblock(args: Namespace, console: Console) -> None:
    """Unblock a todo, so that it waits for no other todo."""
    project = _open(args, console)
    _show_todo(project, console, project.todos.unblock(args.id, args.note, args.start))


@arguments(*_ONE_TODO)
def project_todo_cancel(args: Namespace, console: Console) -> None:
    """Cancel a todo. The todo stays in the list."""
    project = _open(args, console)
    _show_todo(project, console, project.todos.cancel(args.id, args.note))


@arguments(
    arg("--status", choices=STATUSES, help="list only todos with this status"),
    arg("--all", action="store_true", help="also list completed and cancelled todos"),
    arg("--archived", action="store_true", help="list only archived todos"),
    *_PROJECT,
)
def project_todo_list(args: Namespace, console: Console) -> None:
    """List the open todos, in the order of todos.json."""
    found = _open(args, console).todos.list(args.archived)
    if args.status:
        found = [todo for todo in found if todo.status == args.status]
    elif not (args.all or args.archived):
        found = [todo for todo in found if todo.is_open]
    lines = [_todo_line(todo) for todo in found]
    console.answer(as_fields(found), lines or "no todos: relay project todo add TITLE")


@arguments(*_WRITES)
def project_todo_review(args: Namespace, console: Console) -> None:
    """List overdue, stale and stuck todos, and archive todos that were completed over a week
    ago.
    """
    project = _open(args, console)
    found = project.todos.review()
    lines = [f"{found.open} open; last reviewed {_clean(found.last_review) or 'never'}"]
    for label, ids, hint in (
        ("overdue", found.overdue, "complete or cancel them"),
        ("stale", found.stale, "in progress, but not changed for a week"),
        ("stuck", found.stuck, "relay project todo unblock TODO, or cancel"),
        ("archived", found.archived, "completed over a week ago"),
    ):
        if ids:
            lines.append(f"{label:9} {', '.join(map(_clean, ids))}  ({hint})")
    _answer(project, console, as_fields(found), lines)


@arguments(*_WRITES)
def project_todo_archive(args: Namespace, console: Console) -> None:
    """Move todos that were completed over a week ago to the list `completed` in todos.json."""
    project = _open(args, console)
    moved = project.todos.archive()
    text = f"archived {', '.join(map(_clean, moved))}" if moved else "no todo is old enough"
    _answer(project, console, {"archived": moved}, text, "\n".join(moved))


@arguments(
    arg("task", metavar="TASK"),
    arg("--expect", default="", metavar="OUTPUT", help="the expected output"),
    *_WRITES,
)
def project_task_give(args: Namespace, console: Console) -> None:
    """Add a task for a sub-agent and print its id."""
    project = _open(args, console)
    _show_task(project, console, project.tasks.give(args.task, args.expect))


@arguments(
    arg(
        "id",
        nargs="?",
        default="",
        metavar="TASK",
        help="id of the task (default: the oldest open task)",
    ),
    *_WRITES,
)
def project_task_take(args: Namespace, console: Console) -> None:
    """Take a task, so that no other agent can take it."""
    project = _open(args, console)
    _show_task(project, console, project.tasks.take(args.id), is_full=True)


@arguments(
    arg("result", metavar="RESULT", help="the result, or the reason of a failure"),
    arg(
        "--id",
        default="",
        metavar="TASK",
        help="id of the task (default: the task that you have taken)",
    ),
    arg("--failed", action="store_true", help="report that the task failed"),
    *_WRITES,
)
def project_task_return(args: Namespace, console: Console) -> None:
    """Return the result of a task."""
    project = _open(args, console)
    task = project.tasks.give_back(args.result, args.id, is_failed=args.failed)
    _show_task(project, console, task)


@arguments(*_PROJECT)
def project_task_list(args: Namespace, console: Console) -> None:
    """List the tasks with their status and results."""
    found = _open(args, console).tasks.list()
    console.answer(found, [_task_line(task) for task in found] or "no tasks")


def _show_task(
    project: Project, console: Console, task: dict[str, Any], is_full: bool = False
) -> None:
    lines = [_task_line(task)]
    if is_full and task.get("expected_output"):
        lines.append(f"expected: {_clean(str(task['expected_output']))}")
    _answer(project, console, task, lines, "\n".join(lines) if is_full else str(task["id"]))


def _task_line(task: dict[str, Any]) -> str:
    id, status, text = (_clean(str(task.get(name, ""))) for name in ("id", "status", "task"))
    result = f"  → {_clean(str(task['result']))}" if task.get("result") else ""
    return f"{id:9} {status:7} {text}{result}"


@arguments(
    arg(
        "--exec",
        default="",
        metavar="CMD",
        help="run CMD for each todo, with the todo as JSON on stdin",
    ),
    arg(
        *("--limit",),
        type=int,
        default=HEARTBEAT_TODOS_MAX,
        help=f"number of todos (default and maximum: {HEARTBEAT_TODOS_MAX})",
    ),
    arg(
        *("--timeout",),
        type=seconds,
        default=HEARTBEAT_EXEC_S_DEFAULT,
        metavar="S",
        help="time limit in seconds for each todo",
    ),
    *_PROJECT,
    arg("--by", default="heartbeat", help="name of the worker"),
    _STRICT,
)
def project_heartbeat(args: Namespace, console: Console) -> None:
    """Start the next todos, at most five. With --exec, run a command for each of them.

    The stdin of the command has the todo, the files that the todo names (as `files`), and the
    brief. If the command exits with 0, the todo is completed with the output as a note. Otherwise
    the todo is blocked with the reason. Exit 1 if a todo failed.
    """
    from contextrelay.project.heartbeat import run_heartbeat

    project = _open(args, console)
    done = run_heartbeat(project, args.exec, args.limit, args.timeout, args.by)
    lines: list[str] = []
    for each in done:
        result = f"  → {_clean(each.text)[:200]}" if each.text else ""
        lines.append(f"{each.id:9} {each.status:11} {_clean(each.title)}{result}")
    _answer(project, console, as_fields(done), lines or "no todo is ready")
    console.exit_code = 1 if any(each.status == "blocked" for each in done) else 0
