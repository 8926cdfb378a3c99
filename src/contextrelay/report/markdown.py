"""Markdown: a report as text for people, and for models as fenced untrusted data.

Rule: nothing in a thread can affect the document structure. Texts are one line with all markup
escaped; previews are in fences that they cannot close.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from msgspec.json import encode

from contextrelay.cli import display, state_display
from contextrelay.content.untrusted.fence import fence
from contextrelay.limits import REPORT_PREVIEWS_MAX
from contextrelay.report.page import Report

_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~&!])")
_BACKTICKS = re.compile("`+")
_LIST_SIGN = re.compile(r"^([-+=]|\d+[.)])")


def markdown(report: Report) -> str:
    """Write a report as Markdown."""
    return "\n".join(_lines(report)).rstrip("\n") + "\n"


def _lines(report: Report) -> Iterator[str]:
    thread = report.thread
    yield f"# {text(report.title)}"
    yield ""
    yield (
        f"Thread `{thread.thread_id}` at v{report.version}, {thread.status}, "
        f"made by {text(thread.created_by)}. Report of {report.generated_at:%Y-%m-%d %H:%M} UTC."
    )
    yield from _section("Summary", [text(report.summary)])
    yield from _section("Facts", map(_fact, report.facts))
    constraints = ((each["severity"], text(each["description"])) for each in report.constraints)
    yield from _section("Constraints", (f"- **{kind}** {said}" for kind, said in constraints))
    opened = [item for item in report.open_questions if item["status"] == "open"]
    yield from _section("Open questions", (f"- {text(item['question'])}" for item in opened))
    yield from _section("Decisions", chain.from_iterable(map(_decision, report.decisions)))
    yield from _section("Plan", map(_step, report.plan))
    yield from _section("Artifacts", _artifacts(report))
    yield from _section("Timeline", _timeline(report))
    yield from _section("Savings", _savings(report))


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    yield from ("", f"## {title}", "")
    yield from list(lines) or ["None."]


def text(value: Any) -> str:
    """Escape the markup in an untrusted text."""
    return _LIST_SIGN.sub(r"\\\1", _MARKUP.sub(r"\\\1", state_display.text_of(value)))


def _fact(item: dict[str, Any]) -> str:
    return f"- {text(state_display.key_of(item))} {text(item['value'])}".replace("-  ", "- ", 1)


def _decision(item: dict[str, Any]) -> Iterator[str]:
    reasons = f" Because: {text(', '.join(item['reason_codes']))}." if item["reason_codes"] else ""
    yield f"- {text(item['description'])} (confidence {item['confidence']:g}).{reasons}"
    for ref in item["evidence_refs"]:
        code = display.clean(ref).replace("`", "'")
        yield f"  - evidence `{code}`"


def _step(item: dict[str, Any]) -> str:
    mark = {"done": "x", "skipped": "-", "in_progress": "~"}.get(item["status"], " ")
    return f"- [{mark}] {text(item['step'])}"


def _artifacts(report: Report) -> Iterator[str]:
    for artifact in report.artifacts:
        name = f" {text(artifact.name)}" if artifact.name else ""
        size = display.size(artifact.size_bytes)
        about = ", ".join(filter(None, (artifact.type, size, display.tokens_of(artifact))))
        yield f"- `{artifact.ref}`{name}: {about}"
    if report.artifacts_left_out:
        yield f"- and {report.artifacts_left_out} more, not listed"
    for artifact in report.artifacts[:REPORT_PREVIEWS_MAX]:
        # The fence and its label are unescaped, readable in source and page alike.
        shown = fence(artifact)
        ticks = "`" * (1 + max(map(len, _BACKTICKS.findall(shown)), default=3))
        title = text(artifact.name or artifact.ref)
        yield from ("", f"### {title}", "", f"{ticks}text", shown, ticks)
    left_out = len(report.artifacts) - REPORT_PREVIEWS_MAX
    if left_out > 0:
        yield from ("", f"Previews of {left_out} older artifacts are left out.")


def _timeline(report: Report) -> Iterator[str]:
    if report.timeline_left_out:
        yield f"- {report.timeline_left_out} earlier events are left out"
    for numbered in report.timeline:
        event = numbered.event
        said = text(state_display.event(event))
        yield f"- {event.at:%Y-%m-%d %H:%M:%S} {event.type} by {text(event.by)} {said}".rstrip()


def _savings(report: Report) -> Iterator[str]:
    yield from ("| | tokens |", "|---|---:|")
    stats = report.savings
    yield f"| naive (if pasted) | {stats.naive_tokens} |"
    yield f"| actual (via refs) | {stats.actual_tokens} |"
    yield f"| avoided | {stats.tokens_avoided} |"
    basis = stats.basis.removeprefix("estimated: ")
    yield from ("", f"Estimated ({basis}) from the stored artifacts;")
    yield "pulled back tokens are not deducted."


def as_json(report: Report) -> str:
    """Write a report as JSON."""
    return encode(report).decode() + "\n"
