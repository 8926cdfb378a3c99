"""Pages: a report as one HTML file that needs nothing else and runs nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

from contextrelay.cli import display, state_display
from contextrelay.content.untrusted.fence import fence
from contextrelay.limits import REPORT_PREVIEWS_MAX
from contextrelay.report.contents import Report
from contextrelay.report.html import document, figures, section, text


def page(report: Report) -> str:
    """Write a report as a page."""
    return "\n".join(document(report.title, report_lines(report))) + "\n"


def report_lines(report: Report) -> Iterator[str]:
    """A report as lines of HTML, which the page in a browser has too."""
    thread = report.thread
    yield (
        f'<p class="about">Thread <code>{text(thread.thread_id)}</code> at v{report.version}, '
        f"{thread.status}, made by {text(thread.created_by)}. "
        f"Report of {report.generated_at:%Y-%m-%d %H:%M} UTC.</p>"
    )
    yield from section("Summary", [f"<p>{text(report.summary)}</p>"])
    yield from section("Facts", _list(map(_fact, report.facts)))
    yield from section("Constraints", _list(map(_constraint, report.constraints)))
    opened = [item for item in report.open_questions if item["status"] == "open"]
    yield from section("Open questions", _list(text(item["question"]) for item in opened))
    yield from section("Decisions", _list(map(_decision, report.decisions)))
    yield from section("Plan", _list(map(_step, report.plan)))
    yield from section("Artifacts", _artifacts(report))
    yield from section("Timeline", _timeline(report))
    yield from section("Savings", _savings(report))


def _list(items: Iterable[str]) -> Iterator[str]:
    listed = [f"<li>{item}</li>" for item in items]
    if listed:
        yield from ("<ul>", *listed, "</ul>")


def _fact(item: dict[str, Any]) -> str:
    key = state_display.key_of(item)
    return (f"<strong>{escape(key)}</strong>" if key else "") + text(item["value"])


def _constraint(item: dict[str, Any]) -> str:
    return f"<strong>{text(item['severity'])}</strong> {text(item['description'])}"


def _decision(item: dict[str, Any]) -> str:
    said = f"{text(item['description'])} <small>confidence {item['confidence']:g}"
    if item["reason_codes"]:
        said += f"; because {text(', '.join(item['reason_codes']))}"
    evidence = "".join(
        f"<li>evidence <code>{text(ref)}</code></li>" for ref in item["evidence_refs"]
    )
    return f"{said}</small>" + (f"<ul>{evidence}</ul>" if evidence else "")


def _step(item: dict[str, Any]) -> str:
    return f"{text(item['step'])} <small>{text(item['status'])}</small>"


def _artifacts(report: Report) -> Iterator[str]:
    for index, artifact in enumerate(report.artifacts):
        size = f"{artifact.type}, {display.size(artifact.size_bytes)}"
        name = text(artifact.name or artifact.ref)
        if index < REPORT_PREVIEWS_MAX:
            yield f"<details><summary>{name} <small>{size}</small></summary>"
            yield f"<pre>{escape(fence(artifact))}</pre></details>"
        else:
            yield f"<p>{name} <small>{size}, {text(artifact.ref)}</small></p>"
    if report.artifacts_left_out:
        yield f'<p class="none">and {report.artifacts_left_out} more, not listed</p>'


def _timeline(report: Report) -> Iterator[str]:
    if report.timeline_left_out:
        yield f'<p class="none">{report.timeline_left_out} earlier events are left out</p>'
    yield "<table><thead><tr><th>at (UTC)<th>event<th>by<th>what</tr></thead><tbody>"
    for numbered in report.timeline:
        event = numbered.event
        cells = (f"{event.at:%Y-%m-%d %H:%M:%S}", event.type, event.by, state_display.event(event))
        yield "<tr>" + "".join(f"<td>{text(cell)}" for cell in cells) + "</tr>"
    yield "</tbody></table>"


def _savings(report: Report) -> Iterator[str]:
    stats = report.savings
    rows = (
        ("artifacts", stats.artifacts),
        ("naive tokens (if pasted)", stats.naive_tokens),
        ("actual tokens (via refs)", stats.actual_tokens),
        ("tokens avoided", stats.tokens_avoided),
    )
    yield from figures((name, f"{number:,}") for name, number in rows)
    yield f'<p class="none">{text(stats.basis)}; not net of what was pulled back.</p>'
