"""HTML: the frame of self-contained pages without scripts.

Rule: every text goes through `text` or `escape`. The page's own policy forbids scripts, requests
and any style but the one whose hash it names, as a second defence against mistakes here.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from html import escape
from typing import Any

from msgspec import Struct

from contextrelay.cli import display, state_display
from contextrelay.client.thread import Thread
from contextrelay.content.untrusted.fence import fence
from contextrelay.limits import LIST_ITEMS_MAX, REPORT_PREVIEWS_MAX
from contextrelay.model.artifact import Artifact
from contextrelay.model.thread import Numbered, Stats, ThreadView

REPORT_EVENTS_MAX = 200
_STYLE = """
:root { color-scheme: light dark; --ink: #1c2024; --paper: #fff; --faint: #5b6470; --line: #d9dde3;
  --mark: #0b63b0; --soft: #f4f6f8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaed; --paper: #15181c; --faint: #a3adb8;
  --line: #343a42; --mark: #7cb8f2; --soft: #1d2127; } }
body { margin: 2rem auto; max-width: 56rem; padding: 0 1rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin-bottom: 0; }
h2 { font-size: 1.1rem; margin-top: 2rem; border-bottom: 1px solid var(--line); }
p.about, small, .none { color: var(--faint); }
code, pre { font: .85rem/1.45 ui-monospace, monospace; }
pre { background: var(--soft); border: 1px solid var(--line); padding: .75rem; overflow: auto;
  max-height: 24rem; white-space: pre-wrap; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .2rem .8rem .2rem 0; vertical-align: top;
  border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
summary { cursor: pointer; color: var(--mark); }
"""
_STYLE_HASH = b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
POLICY = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'"
)


def document(title: str, lines: Iterable[str]) -> Iterator[str]:
    """Return a page with an untrusted title around lines of HTML."""
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="referrer" content="no-referrer">'
    yield f"<title>{text(title)}</title><style>{_STYLE}</style></head><body><main>"
    yield f"<h1>{text(title)}</h1>"
    yield from lines
    yield "</main></body></html>"


def text(value: Any) -> str:
    """Return any value as escaped text."""
    return escape(state_display.text_of(value))


def section(title: str, lines: Iterable[str]) -> Iterator[str]:
    yield f"<section><h2>{title}</h2>"
    yield from list(lines) or ['<p class="none">None.</p>']
    yield "</section>"


def figures(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Return a table of names and numbers."""
    yield "<table><tbody>"
    for name, number in rows:
        yield f'<tr><th scope="row">{name}<td class="number">{number}</tr>'
    yield "</tbody></table>"


class Report(Struct, frozen=True, kw_only=True):
    """The contents of a report on a thread."""

    thread: ThreadView
    version: int
    generated_at: datetime
    summary: str
    facts: list[dict[str, Any]]
    constraints: list[dict[str, Any]]
    open_questions: list[dict[str, Any]]
    decisions: list[dict[str, Any]]
    plan: list[dict[str, Any]]
    artifacts: list[Artifact]
    artifacts_left_out: int
    timeline: list[Numbered]
    timeline_left_out: int  # The number of earlier events that are left out.
    savings: Stats

    @property
    def title(self) -> str:
        return self.thread.name or self.thread.thread_id


def read_report(thread: Thread) -> Report:
    """Read everything that a report needs."""
    view = thread.show()
    state = thread.state(view.version)
    artifacts = thread.artifacts(LIST_ITEMS_MAX)
    after = max(0, view.events - REPORT_EVENTS_MAX)
    return Report(
        thread=view,
        version=view.version,
        generated_at=datetime.now(UTC),
        summary=state.get("session_summary") or _summary(state),
        facts=state["facts"],
        constraints=state["constraints"],
        open_questions=state["open_questions"],
        decisions=state["decisions"],
        plan=state["plan"],
        artifacts=artifacts,
        artifacts_left_out=max(0, view.artifacts - len(artifacts)),
        timeline=thread.events(after, REPORT_EVENTS_MAX),
        timeline_left_out=after,
        savings=thread.stats(),
    )


def _summary(state: dict[str, Any]) -> str:
    opened = sum(item["status"] == "open" for item in state["open_questions"])
    done = sum(item["status"] == "done" for item in state["plan"])
    return (
        f"{display.count(len(state['facts']), 'fact')}, "
        f"{display.count(len(state['decisions']), 'decision')}, "
        f"{opened} of {len(state['open_questions'])} questions open, "
        f"{done} of {len(state['plan'])} steps done."
    )


def page(report: Report) -> str:
    """Write a report as a page."""
    return "\n".join(document(report.title, report_lines(report))) + "\n"


def report_lines(report: Report) -> Iterator[str]:
    """Return a report as lines of HTML, also used by the web page."""
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
    yield f'<p class="none">{text(stats.basis)}; pulled back tokens are not deducted.</p>'
