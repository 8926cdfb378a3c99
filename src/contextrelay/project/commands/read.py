"""project start, status, next, prime: what there is to know; decide, note: what is to be kept."""

from __future__ import annotations

from collections import Counter

from contextrelay.cli.console import Console
from contextrelay.cli.parser import arg, budget, takes
from contextrelay.errors import Invalid, NotFound, RelayError
from contextrelay.limits import (
    BRIEF_TOKENS_DEFAULT,
    BRIEF_TOKENS_MIN,
    NEXT_TODOS_MAX,
    PRIME_TOKENS_DEFAULT,
)
from contextrelay.project.commands.project_argument import (
    as_fields,
    clean,
    note_warnings,
    open_project,
    project_options,
    todo_line,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from contextrelay.model.project import Decision


@takes(
    budget(BRIEF_TOKENS_DEFAULT, "the most it may take"),
    arg("--agent", action="store_true", help="in the form for models"),
    *project_options(writes=False),
)
def project_start(args: Namespace, console: Console) -> None:
    """Print the cold-start brief: what the project is, where it stands, what to do next.

    Piped, or with --agent, in the form for models: same files, same bytes.
    """
    project = open_project(args, console)
    is_for_people = console.is_human and not args.agent and not console.is_json
    made = project.brief(args.budget, _age if is_for_people else None)
    note_warnings(project, console)
    lines = [made.text]
    if is_for_people:
        if project.todos.is_review_due():
            when = f"last reviewed {_age(made.last_review)}" if made.last_review else "not reviewed"
            lines.append(f"⚠ todos {when}: relay project todo review")
        lines.append(f"{f'{made.tokens} tok · for agents: --agent':>80}")
    console.answer(made.fields, lines, made.text)


def _age(moment: str) -> str:
    """How long ago a time was; as it is written where it is none."""
    from datetime import UTC, datetime

    from contextrelay.project.todo_list import parsed

    then = parsed(moment)
    if then is None:
        return clean(moment)
    seconds = (datetime.now(UTC) - then).total_seconds()
    for unit, unit_s in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= unit_s:
            return f"{seconds / unit_s:.0f} {unit} ago"
    return f"{max(0, seconds):.0f} s ago"


@takes(*project_options(writes=False))
def project_status(args: Namespace, console: Console) -> None:
    """Print where the project stands, with all its steps and counts."""
    project = open_project(args, console)
    found = project.gathered()
    todos = project.todos.list()
    counts = Counter(clean(todo.status) for todo in todos)
    thread = project.link.thread_id if project.link else ""
    value = {
        "folder": str(project.folder),
        "name": found.about.name,
        **{name: getattr(found, name) for name in _SHOWN},
        "todos": counts,
        "decisions": found.decisions_total,
        "thread_id": thread,
        "conflicts": found.clashes,
    }
    lines = [f"{clean(found.about.name)}  {project.folder}"]
    for name in _SHOWN:
        shown: Any = getattr(found, name)
        text = shown if isinstance(shown, str) else "; ".join(shown)
        lines.append(f"{name.replace('_', ' '):13} {clean(text) or '–'}")
    counted = ", ".join(f"{number} {status}" for status, number in counts.items()) or "none"
    lines += [f"{'todos':13} {counted}", f"{'decisions':13} {found.decisions_total}"]
    lines.append(f"{'thread':13} {thread or '–'}")
    lines += [f"⚠ conflict in {clean(str(each.get('field')))}" for each in found.clashes]
    console.answer(value, lines)


_SHOWN = (
    *("phase", "current_task", "in_progress", "completed", "blocked", "next_steps", "notes"),
    *("last_update", "session_id"),
)


@takes(
    arg("--limit", type=int, default=NEXT_TODOS_MAX, help=f"({NEXT_TODOS_MAX})"),
    *project_options(writes=False),
)
def project_next(args: Namespace, console: Console) -> None:
    """Print what to do now: todos that are ready, by priority, at most five."""
    project = open_project(args, console)
    found = project.todos.next(max(0, min(args.limit, NEXT_TODOS_MAX)))
    lines = [todo_line(todo) for todo in found]
    console.answer(as_fields(found), lines or "nothing is ready: relay project todo list")


@takes(
    arg("title", metavar="TITLE", help="what is decided, in one line"),
    arg("--context", default="", help="why it had to be decided"),
    arg("--decision", default="", help="what is decided, at length"),
    arg("--consequence", "--consequences", dest="consequences", default="", help="what follows"),
    arg("--status", default="Accepted", help="(Accepted)"),
    arg("--supersedes", action="append", default=[], metavar="ADR", help="one that ends with it"),
    *project_options(),
)
def project_decide(args: Namespace, console: Console) -> None:
    """Append a decision to decisions.md, and print its number."""
    project = open_project(args, console)
    id = project.decide(
        args.title,
        supersedes=args.supersedes,
        status=args.status,
        context=args.context,
        decision=args.decision,
        consequences=args.consequences,
    )
    note_warnings(project, console)
    console.answer({"id": id, "title": args.title}, f"{id}  {clean(args.title)}", id)


@takes(
    arg("id", nargs="?", metavar="ADR", help="one of them, whole"),
    arg("--search", metavar="WORDS", help="those that say most about it"),
    *project_options(writes=False),
)
def project_decisions(args: Namespace, console: Console) -> None:
    """List the decisions, oldest first; or print one as it is written."""
    from contextrelay.project.snapshot import mattering

    found = open_project(args, console).decisions()
    if args.search:
        found = mattering(found, args.search)
    if args.id:
        digits = args.id.upper().removeprefix("ADR-").lstrip("0") or "0"
        found = [each for each in found if str(each.number) == digits]
        if not found:
            raise NotFound(f"there is no decision {args.id}", "see: relay project decisions")
        console.answer(as_fields(found[0]), found[0].text, found[0].text)
        return
    lines = [_decision_line(each) for each in found]
    console.answer(as_fields(found), lines or "nothing is decided yet: relay project decide TITLE")


def _decision_line(decision: Decision) -> str:
    status = clean(decision.status) or "–"
    if decision.superseded_by and decision.superseded_by != decision.number:
        status = f"superseded by ADR-{decision.superseded_by:03d}"
    return f"{decision.id}  {clean(decision.date):10}  {clean(decision.title)}  ({status})"


@takes(arg("text", metavar="TEXT"), *project_options())
def project_note(args: Namespace, console: Console) -> None:
    """Add a line to the notes in state.json."""
    project = open_project(args, console)
    project.note(args.text)
    note_warnings(project, console)
    console.answer({"folder": str(project.folder)}, "noted in state.json", "")


@takes(
    budget(PRIME_TOKENS_DEFAULT, "the most it may take"),
    *project_options(writes=False),
)
def prime(args: Namespace, console: Console) -> None:
    """Print what an agent reads first: how to use relay, and the brief of the project it is in.

    A project that cannot be read takes one line: an agent must begin either way.
    """
    from contextrelay.project.brief_text import primed
    from contextrelay.project.user_cache import token_counter

    if args.budget < BRIEF_TOKENS_MIN:
        raise Invalid(f"{args.budget} tokens are too few", f"give it {BRIEF_TOKENS_MIN} or more")
    brief = ""
    try:
        project = open_project(args, console)
        brief = project.brief(max(BRIEF_TOKENS_MIN, args.budget * 2 // 3)).text
        note_warnings(project, console)
    except NotFound:
        pass
    except RelayError as error:
        brief = f"The project's files need a look: {error.message}; {error.hint}"
    made = primed(brief, args.budget, token_counter())
    fields = {"text": made.text, "tokens": made.tokens, "budget_tokens": args.budget}
    console.answer(fields, made.text, made.text)
