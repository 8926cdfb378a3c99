"""state add and resolve: single entries of a state, without writing a patch.

Rule: an id is short and unique in its state, also where several add at once: a patch is for the
version that its id was chosen in, and is tried again on the next one.
"""

from __future__ import annotations

import re
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from msgspec import to_builtins

from contextrelay.client.thread import Thread
from contextrelay.doors.cli import display, state_display, thread_argument
from contextrelay.doors.cli.commands.state import show_patched
from contextrelay.doors.cli.console import Console
from contextrelay.doors.cli.parser import arg, by, takes, thread_option
from contextrelay.errors import Conflict, Invalid, NotFound, Unavailable
from contextrelay.limits import RETRIES_MAX
from contextrelay.logic.document.patch import Operation
from contextrelay.logic.state import schema as states
from contextrelay.model.thread import Patched


class Kind(NamedTuple):
    """What can be added: the list it goes to, the letter of its ids, the options it has."""

    list_name: str
    letter: str
    options: tuple[str, ...] = ()


KINDS = {
    "fact": Kind("facts", "f", ("key",)),
    "constraint": Kind("constraints", "c", ("severity",)),
    "question": Kind("open_questions", "q"),
    "step": Kind("plan", "s"),
    "decision": Kind("decisions", "d", ("reason", "evidence", "confidence")),
}
_ENDINGS = (("open_questions", "open", "resolved"), ("plan", "pending", "done"))


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise ArgumentTypeError(f"{text!r} is no confidence: write 0 to 1")
    return share


@takes(
    arg("kind", choices=tuple(KINDS)),
    arg("text", metavar="TEXT"),
    thread_option(),
    arg("--key", help="of a fact; note, if there is none"),
    arg("--severity", choices=("hard", "soft"), help="of a constraint (hard)"),
    arg("--reason", action="append", metavar="CODE", help="of a decision"),
    arg("--evidence", action="append", metavar="REF", help="of a decision"),
    arg("--confidence", type=_share, help="of a decision, 0 to 1 (1)"),
    by("who adds it"),
)
def state_add(args: Namespace, console: Console) -> None:
    """Add a fact, a constraint, a question, a step of the plan, or a decision."""
    kind = KINDS[args.kind]
    for other in KINDS.values():
        for option in other.options:
            if option not in kind.options and getattr(args, option) is not None:
                raise Invalid(f"a {args.kind} has no --{option}", "see: relay state add --help")
    chosen = thread_argument.choose_thread(console, args)
    evidence = [display.resolve(console.relay, text) for text in args.evidence or ()]

    def added(state: dict[str, Any]) -> list[Operation]:
        return [_entry(args, _next_id(state[kind.list_name], kind.letter), evidence)]

    show_patched(console, _patched(chosen.thread, added, args.by), args.by)


def _entry(args: Namespace, id: str, evidence: list[str]) -> Operation:
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    match args.kind:
        case "fact":
            return states.fact(args.key or state_display.DEFAULT_KEY, args.text, id, now)
        case "constraint":
            return states.constraint(args.text, id, args.severity or "hard")
        case "question":
            return states.question(args.text, id)
        case "step":
            return states.step(args.text, id)
        case _:
            share = 1.0 if args.confidence is None else args.confidence
            return states.decision(args.text, id, args.reason or (), evidence, share, now)


def _next_id(items: list[dict[str, Any]], letter: str) -> str:
    own = re.compile(rf"{letter}([0-9]{{1,9}})")
    found = (own.fullmatch(item["id"]) for item in items)
    return f"{letter}{1 + max((int(each[1]) for each in found if each), default=0)}"


def _patched(thread: Thread, made: Callable[[dict[str, Any]], list[Operation]], by: str) -> Patched:
    """Patch the newest version, again where others changed it meanwhile."""
    for _ in range(RETRIES_MAX):
        state = thread.state()
        operations = [to_builtins(each) for each in made(state)]
        try:
            return thread.patch(operations, expected=state["version"], by=by)
        except Conflict:
            continue
    raise Unavailable(f"others keep changing thread {thread.id}", "try again")


@takes(arg("id", metavar="ID", help="like q3 or s2"), thread_option(), by("who did it"))
def state_resolve(args: Namespace, console: Console) -> None:
    """Mark a question as resolved, or a step of the plan as done."""
    chosen = thread_argument.choose_thread(console, args)
    state = chosen.thread.state()
    if _is_ended(state, args.id):
        patched = Patched(thread_id=chosen.thread.id, version=state["version"], operations=[])
    else:
        patched = _patched(chosen.thread, lambda now: _ending(now, args.id), args.by)
    show_patched(console, patched, args.by)


def _is_ended(state: dict[str, Any], id: str) -> bool:
    return any(
        item["id"] == id and item["status"] == ended
        for name, _, ended in _ENDINGS
        for item in state[name]
    )


def _ending(state: dict[str, Any], id: str) -> list[Operation]:
    for name, _, ended in _ENDINGS:
        for index, item in enumerate(state[name]):
            if item["id"] == id:
                return [Operation("replace", f"/{name}/{index}/status", ended)]
    waiting = [
        item["id"] for name, begun, _ in _ENDINGS for item in state[name] if item["status"] == begun
    ]
    hint = (
        f"waiting are {', '.join(map(display.clean, waiting[:10]))}" if waiting else "nothing waits"
    )
    raise NotFound(f"no question and no step has the id {display.clean(id)}", hint)
