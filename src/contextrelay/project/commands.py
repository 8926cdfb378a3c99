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
from contextrelay.documents.values import read_json
from contextrelay.errors import Conflict, Invalid, NotFound, Refused, RelayError
from contextrelay.limits import (
    BRIEF_TOKENS_DEFAULT,
    BRIEF_TOKENS_MIN,
    HEARTBEAT_EXEC_S_DEFAULT,
    HEARTBEAT_TODOS_MAX,
    NEXT_TODOS_MAX,
)
from contextrelay.model.project import PRIORITIES, STATUSES, Todo, as_fields
from contextrelay.project.brief import relevant_decisions, write_primer
from contextrelay.project.files import find_folder
from contextrelay.project.project import Project, commit_files, init_project
from contextrelay.project.thread_link import link_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable
    from typing import Any

    from contextrelay.model.project import Decision, Finished
    from contextrelay.project.state_file import ProjectTasks
    from contextrelay.project.todos import Todos

    Act = Callable[[Namespace, Console], None]

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
_NEXT = "a next step; the given ones replace all next steps"
_COMMIT = "commit the project files in git, and no other files"
_FOLLOWS = "what follows from the decision"
_FOLDER = "folder of the project (default: RELAY_PROJECT, or the current one)"
_PROJECT = (
    arg("--project", metavar="FOLDER", help=_FOLDER),
    arg("--no-thread", action="store_true", help="do not update the project's thread"),
)
_STRICT = arg("--strict", action="store_true", help="fail if a text looks like a secret")
_WRITES = (*_PROJECT, author_option("name of the writer of the changes"), _STRICT)


def _text(option: str, help: str, **more: Any) -> Argument:
    return arg(option, default="", help=help, **more)


def _repeated(option: str, metavar: str, help: str, **more: Any) -> Argument:
    return arg(option, action="append", metavar=metavar, help=f"{help}; may be repeated", **more)


def _open(args: Namespace, console: Console, folder: str = "") -> Project:
    found = folder or str(find_folder(args.project))
    address = console.address or os.environ.get("RELAY_HOME") or "~/.relay"
    link = None if args.no_thread else link_at(found, address, lambda: console.relay)
    is_strict = getattr(args, "strict", False)
    return Project(found, link=link, by=getattr(args, "by", ""), is_strict=is_strict)


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
    arg("folder", nargs="?", metavar="FOLDER", help=_FOLDER.replace("RELAY_PROJECT, or ", "")),
    arg("--name", help="name of the project (default: the name of the folder)"),
    _text("--description", "description of the project, in one line"),
    arg("--force", action="store_true", help="back up existing files, then overwrite them"),
    *_WRITES,
)
def project_init(args: Namespace, console: Console) -> None:
    """Create PROJECT.md, state.json, decisions.md and todos.json. Existing files are kept."""
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
    fields: dict[str, Any] = {name: getattr(found, name) for name in _STATUS_FIELDS}
    value = {
        "folder": str(project.folder),
        "name": found.about.name,
        **fields,
        "todos": counts,
        "decisions": found.decisions_total,
        "thread_id": thread,
        "conflicts": found.clashes,
    }
    fields["todos"] = ", ".join(f"{n} {status}" for status, n in counts.items()) or "none"
    fields |= {"decisions": str(found.decisions_total), "thread": thread}
    lines = [f"{_clean(found.about.name)}  {project.folder}"]
    for name, shown in fields.items():
        text = shown if isinstance(shown, str) else "; ".join(shown)
        lines.append(f"{name.replace('_', ' '):13} {_clean(text) or '–'}")
    lines += [f"⚠ conflict in {_clean(str(each.get('field')))}" for each in found.clashes]
    console.answer(value, lines)


_MOST_TODOS = f"number of todos (default and maximum: {NEXT_TODOS_MAX})"


@arguments(arg("--limit", type=int, default=NEXT_TODOS_MAX, help=_MOST_TODOS), *_PROJECT)
def project_next(args: Namespace, console: Console) -> None:
    """List the next todos: those that are ready, by priority, at most five."""
    found = _open(args, console).todos.next(max(0, min(args.limit, NEXT_TODOS_MAX)))
    lines = [_todo_line(todo) for todo in found]
    console.answer(as_fields(found), lines or "no todo is ready: relay project todo list")


def _field(text: str) -> tuple[str, Any]:
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
    _repeated("--next", "STEP", _NEXT, dest="next_steps"),
    arg("--notes", help="replace the notes by this text"),
    arg("--session", dest="session_id", metavar="ID", help="id of this session"),
    _repeated("--set", "FIELD=VALUE", "set any other field of state.json", type=_field, default=[]),
    _repeated("--add", "TITLE", "add a todo with this title"),
    _repeated("--start", "TODO", "start a todo"),
    _repeated("--done", "TODO", "complete a todo"),
    _repeated("--block", "TODO=WHY", "block a todo", type=_todo_and_reason),
    _repeated("--cancel", "TODO", "cancel a todo"),
    _repeated("--decide", "TITLE", "append a decision with this title"),
    _text("--since", "merge with the changes made since this brief was printed", metavar="STAMP"),
    arg("--commit", action="store_true", help=_COMMIT),
    arg("-m", "--message", default="", help="commit message"),
    *_WRITES,
)
def project_finish(args: Namespace, console: Console) -> None:
    """Write changes to state.json, todos.json and decisions.md: all changes, or none.

    The changes come from options or from JSON on stdin. On a terminal without either, the command
    asks for them.
    """
    from contextrelay.project.check import describe_secret, find_secrets

    project = _open(args, console)
    texts = project.texts().named() if args.commit or args.strict else {}
    for name, text in texts.items():
        for secret in find_secrets(name, text or ""):
            if args.strict:
                raise Refused(describe_secret(secret), "nothing was written; remove the secret")
            console.note(f"⚠ {describe_secret(secret)}")
    done = project.finish(since=args.since, **_changes(args, project))
    if args.commit:
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
    """Return the fields for `Project.finish`, from options, stdin or answers on the terminal."""
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
    """Ask for the changes. An empty answer skips one question, and Ctrl-D all that follow."""
    begun = [todo for todo in project.todos.list() if todo.status == "in_progress"]
    questions = {
        todo.id: f"Is {todo.id} done: {_clean(todo.title)}? (y)" for todo in begun[:NEXT_TODOS_MAX]
    }
    fields: dict[str, Any] = {}
    done: list[str] = []
    for name, question in (questions | _QUESTIONS).items():
        print(f"{question} ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            print(file=sys.stderr)
            break
        answer = line.strip()
        if not answer:
            continue
        if name in questions:
            done += [name] if answer.lower() in ("y", "yes") else []
        elif "(a; b)" in _QUESTIONS[name]:
            fields[name] = [part.strip() for part in answer.split(";") if part.strip()]
        else:
            fields[name] = answer
    return fields | ({"todos": {"done": done}} if done else {})


def _finished_lines(done: Finished) -> list[str]:
    lines = [f"wrote {', '.join(done.files)}" if done.files else "nothing changed"]
    lists = {"new": done.todos, "decided": done.decisions, "unblocked": done.unblocked}
    lists["commit"] = [done.commit] if done.commit else []
    lines += [f"{label:9} {', '.join(ids)}" for label, ids in lists.items() if ids]
    for each in done.clashes:
        text = f"{each.field}: {each.kept!r} stays, you set {each.other!r}"
        lines.append(f"⚠ {_clean(text)}")
    return lines


@arguments(
    arg("title", metavar="TITLE", help="the decision in one line"),
    _text("--context", "why a decision was needed"),
    _text("--decision", "the full text"),
    arg("--consequence", "--consequences", dest="consequences", default="", help=_FOLLOWS),
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


def _todo_command(
    doc: str, change: Callable[[Todos, Namespace], Todo | tuple[Todo, list[str]]], *more: Argument
) -> Act:
    """Return a command that changes a todo and prints it."""

    @arguments(*more)
    def command(args: Namespace, console: Console) -> None:
        project = _open(args, console)
        changed = change(project.todos, args)
        todo, unblocked = (changed, None) if isinstance(changed, Todo) else changed
        value = as_fields(todo) | ({} if unblocked is None else {"unblocked": unblocked})
        lines = [_todo_line(todo), *(f"{id} is unblocked" for id in unblocked or ())]
        _answer(project, console, value, lines, todo.id)

    command.__doc__ = doc
    return command


_ONE_TODO = (
    arg("id", metavar="TODO", help="id of the todo, for example TODO-003 or 3"),
    arg("note", nargs="?", default="", metavar="NOTE", help="text to add to the notes of the todo"),
    *_WRITES,
)
_NEW_TODO = (
    *("priority", "description", "category", "tags", "due_date", "assignee", "notes"),
    "blocked_by",
)
_PRIORITY = "priority of the todo (default: medium)"
_DUE = "due date, for example 2026-05-01"
_WAITS = "id of a todo that this todo waits for"

project_todo_add = _todo_command(
    "Add a todo and print its id.",
    lambda todos, args: todos.add(args.title, **{name: getattr(args, name) for name in _NEW_TODO}),
    arg("title", metavar="TITLE"),
    arg("--priority", choices=PRIORITIES, default="medium", help=_PRIORITY),
    arg("--description", default=""),
    arg("--category", default=""),
    _repeated("--tag", "TAG", "a tag of the todo", dest="tags", default=[]),
    _text("--due", _DUE, dest="due_date", metavar="DATE"),
    _text("--assignee", "person or agent to do it"),
    arg("--notes", default=""),
    _repeated("--blocked-by", "TODO", _WAITS, default=[]),
    *_WRITES,
)
project_todo_start = _todo_command(
    "Start a todo.", lambda todos, args: todos.start(args.id, args.note), *_ONE_TODO
)
project_todo_done = _todo_command(
    "Complete a todo, and unblock the todos that waited only for this todo.",
    lambda todos, args: todos.done(args.id, args.note),
    *_ONE_TODO,
)
project_todo_block = _todo_command(
    "Block a todo for a reason, or until other todos are completed.",
    lambda todos, args: todos.block(args.id, args.note, args.on),
    *_ONE_TODO,
    _repeated("--on", "TODO", _WAITS, default=[]),
)
project_todo_unblock = _todo_command(
    "Unblock a todo, so that it waits for no other todo.",
    lambda todos, args: todos.unblock(args.id, args.note, args.start),
    *_ONE_TODO,
    arg("--start", action="store_true", help="also start the todo"),
)
project_todo_cancel = _todo_command(
    "Cancel a todo. The todo stays in the list.",
    lambda todos, args: todos.cancel(args.id, args.note),
    *_ONE_TODO,
)


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


def _task_command(
    doc: str, change: Callable[[ProjectTasks, Namespace], dict[str, Any]], *more: Argument
) -> Act:
    """Return a command that changes a task. It prints the id, or all that the taker must know."""

    @arguments(*more, *_WRITES)
    def command(args: Namespace, console: Console) -> None:
        project = _open(args, console)
        task = change(project.tasks, args)
        lines = [_task_line(task)]
        is_taken = task["status"] == "taken"
        if is_taken and task.get("expected_output"):
            lines.append(f"expected: {_clean(str(task['expected_output']))}")
        _answer(project, console, task, lines, "\n".join(lines) if is_taken else str(task["id"]))

    command.__doc__ = doc
    return command


def _task_line(task: dict[str, Any]) -> str:
    id, status, text = (_clean(str(task.get(name, ""))) for name in ("id", "status", "task"))
    result = f"  → {_clean(str(task['result']))}" if task.get("result") else ""
    return f"{id:9} {status:7} {text}{result}"


_TASK = "id of the task (default: the oldest open task)"
_OWN_TASK = "id of the task (default: the task that you have taken)"

project_task_give = _task_command(
    "Add a task for a sub-agent and print its id.",
    lambda tasks, args: tasks.give(args.task, args.expect),
    arg("task", metavar="TASK"),
    _text("--expect", "the expected output", metavar="OUTPUT"),
)
project_task_take = _task_command(
    "Take a task, so that no other agent can take it.",
    lambda tasks, args: tasks.take(args.id),
    _text("id", _TASK, nargs="?", metavar="TASK"),
)
project_task_return = _task_command(
    "Return the result of a task.",
    lambda tasks, args: tasks.give_back(args.result, args.id, is_failed=args.failed),
    arg("result", metavar="RESULT", help="the result, or the reason of a failure"),
    _text("--id", _OWN_TASK, metavar="TASK"),
    arg("--failed", action="store_true", help="report that the task failed"),
)


@arguments(*_PROJECT)
def project_task_list(args: Namespace, console: Console) -> None:
    """List the tasks with their status and results."""
    found = _open(args, console).tasks.list()
    console.answer(found, [_task_line(task) for task in found] or "no tasks")


_EXEC = "run CMD for each todo, with the todo as JSON on stdin"
_EXEC_S = "time limit in seconds for each todo"
_MOST_BEATS = f"number of todos (default and maximum: {HEARTBEAT_TODOS_MAX})"


@arguments(
    _text("--exec", _EXEC, metavar="CMD"),
    arg("--limit", type=int, default=HEARTBEAT_TODOS_MAX, help=_MOST_BEATS),
    arg("--timeout", type=seconds, default=HEARTBEAT_EXEC_S_DEFAULT, metavar="S", help=_EXEC_S),
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
