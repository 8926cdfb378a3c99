"""A thread: its timeline, its state at any version, and the changes between two versions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from markupsafe import Markup
from msgspec.json import decode

from contextrelay.cli import display, state_display
from contextrelay.client.thread import Thread
from contextrelay.content.tokens import measure
from contextrelay.errors import Forbidden
from contextrelay.limits import PAGE_ROWS
from contextrelay.model.thread import CREATED, INVOKED, PATCHED, Changes, Numbered, ThreadView
from contextrelay.report.page import read_report, report_lines
from contextrelay.report.trace_page import trace_lines
from contextrelay.verbs import ReadHeader
from contextrelay.web.screen import Done, PageVisit, Screen

# The number of events of a timeline per screen.
PAGE_EVENTS = 100
# The number of newest model calls whose request and response a trace shows.
PAGE_EXCHANGES = 5
# The number of changes between two versions per screen. Further changes are only counted.
PAGE_CHANGES_MAX = 200


class Mark(NamedTuple):
    """An event on the timeline."""

    seq: int
    sign: str
    shape: str
    to: str
    """The address that the mark links to, or ""."""
    version: int
    by: str
    said: str


class DifferenceLine(NamedTuple):
    """One line of a difference."""

    kind: str
    text: str


def thread(visit: PageVisit) -> Screen:
    """Show a thread at a version: its header, and the changes since another version."""
    handle, view = visit.thread()
    version = min(visit.number("v", view.version, least=1), view.version)
    other = min(visit.number("with", max(1, version - 1), least=1), view.version)
    header = handle.ask(ReadHeader(handle.id, version)).header
    changes = handle.diff(other, version)
    answer: dict[str, Any] = {
        "thread": view,
        "version": version,
        "other": other,
        "header": decode(header),
        "header_tokens": measure(bytes(header).decode()),
        "changes": changes.operations[:PAGE_CHANGES_MAX],
        "changes_left_out": max(0, len(changes.operations) - PAGE_CHANGES_MAX),
    }
    drawn: dict[str, Any] = {
        "lines": list(_lines(handle, changes)),
        "sections": list(_sections(answer["header"])),
    }
    place = f"{display.short(view.thread_id)}@v{version}"
    command = f"relay state header {place}"
    if visit.part == "travelled":
        return _screen("thread_travelled", view, command, answer, drawn)
    after = visit.number("after", max(0, view.events - PAGE_EVENTS))
    answer |= {
        "events": handle.events(after, PAGE_EVENTS),
        "after": after,
        "artifacts": handle.artifacts(_ARTIFACTS),
        "stats": handle.stats(),
        "savings": _savings(visit, handle),
    }
    drawn["marks"] = [_mark(visit, each) for each in answer["events"]]
    return _screen("thread", view, command, answer, drawn)


_ARTIFACTS = 20


def _savings(visit: PageVisit, handle: Thread) -> Any:
    try:
        return visit.relay.savings(handle.id)
    except Forbidden:
        return None


def _screen(
    template: str,
    view: ThreadView,
    command: str,
    answer: dict[str, Any],
    drawn: dict[str, Any] | None = None,
) -> Screen:
    title = view.name or display.short(view.thread_id)
    return Screen(
        template=template,
        title=title,
        command=command,
        answer=answer,
        drawn=drawn or {},
        place="threads",
    )


def _lines(handle: Thread, changes: Changes) -> Iterator[DifferenceLine]:
    """Yield the lines of a difference between two versions, including old values."""
    if not changes.operations:
        return
    shown = changes.operations[:PAGE_CHANGES_MAX]
    is_only_more = all(each["op"] == "add" for each in shown)
    old = None if is_only_more else handle.state(changes.old_version)
    kinds = {"+": "added", "-": "removed", "@": "where"}
    for line in state_display.change(old, shown):
        yield DifferenceLine(kinds[line[0]], line)


_SECTIONS = {
    "facts": "top_facts",
    "constraints": "top_constraints",
    "open_questions": "open_questions",
    "plan": "next_steps",
    "last_actions": "last_actions",
    "decisions": "top_decisions",
}


def _sections(header: dict[str, Any]) -> Iterator[tuple[str, list[str], int]]:
    """Yield each list of a header: its name, its items, and the total number of items."""
    for name, field in _SECTIONS.items():
        items: list[Any] = header.get(field, [])
        total = len(items) + header["omitted"].get(name, 0)
        if total:
            yield name.replace("_", " "), [state_display.item(each) for each in items], total


def _mark(visit: PageVisit, numbered: Numbered) -> Mark:
    event = numbered.event
    detail = event.detail
    version, sign, shape, to = 0, "·", "", ""
    match event.type:
        case "artifact.created":
            sign, shape, to = "◆", "square", visit.link("a", str(detail.get("ref", "")))
        case _ if event.type == PATCHED:
            version = int(detail.get("version", 0))
            sign = f"v{version}"
        case _ if event.type == CREATED:
            version, sign = 1, "v1"
        case _ if event.type.startswith("handoff."):
            ref = detail.get("ref") or detail.get("handoff") or ""
            sign, to = "⇢", visit.link("h", str(ref)) if ref else ""
        case _ if event.type.startswith("run."):
            sign, to = "▶", "trace"
        case _ if event.type == INVOKED:
            sign, shape = "ƒ", "dotted" if detail.get("cache_hit") else ""
        case "checkpoint.created":
            sign = "⚑"
        case _:
            pass
    said = f"{event.type} {state_display.event(event)}"
    return Mark(numbered.seq, sign, shape, to, version, event.by, display.cut(said, 160))


# Other views of a thread


def state(visit: PageVisit) -> Screen:
    """Show the whole state at a version, as a tree."""
    handle, view = visit.thread()
    version = min(visit.number("v", view.version, least=1), view.version)
    command = f"relay state show {display.short(view.thread_id)}@v{version}"
    answer = {"thread": view, "version": version, "state": handle.state(version)}
    return _screen("state", view, command, answer)


def events(visit: PageVisit) -> Screen:
    """Show a page of the events of a thread. By default, show the newest."""
    handle, view = visit.thread()
    after = visit.number("after", max(0, view.events - PAGE_ROWS))
    page = handle.events(after, PAGE_ROWS)
    answer = {
        "thread": view,
        "events": page,
        "after": after,
        "earlier": max(0, after - PAGE_ROWS),
        "next": page[-1].seq if page and page[-1].seq < view.events else 0,
    }
    return _screen("events", view, f"relay events {display.short(view.thread_id)}", answer)


def trace(visit: PageVisit) -> Screen:
    """Show the model calls of a thread."""
    handle, view = visit.thread()
    traced = handle.trace()
    lines = trace_lines(visit.relay, traced, PAGE_EXCHANGES)
    drawn = {"written": _joined(lines) if traced.totals.runs else ""}
    command = f"relay trace {display.short(view.thread_id)}"
    return _screen("written", view, command, {"thread": view, "trace": traced}, drawn)


def report(visit: PageVisit) -> Screen:
    """Show the report of a thread."""
    handle, view = visit.thread()
    gathered = read_report(handle)
    drawn = {"written": _joined(report_lines(gathered))}
    command = f"relay report {display.short(view.thread_id)} --format html"
    return _screen("written", view, command, {"thread": view, "report": gathered}, drawn)


def _joined(lines: Iterator[str]) -> Markup:
    """Return the lines of a report, joined. All text in them is already escaped."""
    return Markup("\n".join(lines))


# Changes


def restore(visit: PageVisit) -> Done:
    """Restore an earlier version of a thread."""
    handle, view = visit.thread()
    version = visit.number("version", 0, least=1)
    handle.once(visit.once).restore(version, visit.by)
    return Done(to=visit.link("t", view.thread_id), note="restored")


def fork(visit: PageVisit) -> Done:
    """Create a thread from the state of the current thread at a version."""
    handle, view = visit.thread()
    version = visit.number("version", view.version, least=1)
    made = handle.once(visit.once).fork(version, visit.text("name") or None, visit.by)
    return Done(to=visit.link("t", made.id), note="forked")
