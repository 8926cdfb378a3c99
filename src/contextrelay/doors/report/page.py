"""Pages: a report as one HTML file that needs nothing else and runs nothing.

Rule: every text goes through `_text`, which escapes it. The page's own policy forbids scripts,
requests and any style but the one whose hash it names, so that a mistake here harms nobody.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

from contextrelay.doors.cli import display, state_display
from contextrelay.doors.report.contents import Report
from contextrelay.limits import REPORT_PREVIEWS_MAX
from contextrelay.logic.untrusted.fence import fence

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


def page(report: Report) -> str:
    """Write a report as a page."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    thread, title = report.thread, _text(report.title)
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="referrer" content="no-referrer">'
    yield f"<title>{title}</title><style>{_STYLE}</style></head><body><main>"
    yield f"<h1>{title}</h1>"
    yield (
        f'<p class="about">Thread <code>{_text(thread.thread_id)}</code> at v{report.version}, '
        f"{thread.status}, made by {_text(thread.created_by)}. "
        f"Report of {report.generated_at:%Y-%m-%d %H:%M} UTC.</p>"
    )
    yield from _section("Summary", [f"<p>{_text(report.summary)}</p>"])
    yield from _section("Facts", _list(map(_fact, report.facts)))
    yield from _section("Constraints", _list(map(_constraint, report.constraints)))
    opened = [item for item in report.open_questions if item["status"] == "open"]
    yield from _section("Open questions", _list(_text(item["question"]) for item in opened))
    yield from _section("Decisions", _list(map(_decision, report.decisions)))
    yield from _section("Plan", _list(map(_step, report.plan)))
    yield from _section("Artifacts", _artifacts(report))
    yield from _section("Timeline", _timeline(report))
    yield from _section("Savings", _savings(report))
    yield "</main></body></html>"


def _text(value: Any) -> str:
    return escape(state_display.text_of(value))


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    yield f"<section><h2>{title}</h2>"
    yield from list(lines) or ['<p class="none">None.</p>']
    yield "</section>"


def _list(items: Iterable[str]) -> Iterator[str]:
    listed = [f"<li>{item}</li>" for item in items]
    if listed:
        yield from ("<ul>", *listed, "</ul>")


def _fact(item: dict[str, Any]) -> str:
    key = state_display.key_of(item)
    return (f"<strong>{escape(key)}</strong>" if key else "") + _text(item["value"])


def _constraint(item: dict[str, Any]) -> str:
    return f"<strong>{_text(item['severity'])}</strong> {_text(item['description'])}"


def _decision(item: dict[str, Any]) -> str:
    text = f"{_text(item['description'])} <small>confidence {item['confidence']:g}"
    if item["reason_codes"]:
        text += f"; because {_text(', '.join(item['reason_codes']))}"
    evidence = "".join(
        f"<li>evidence <code>{_text(ref)}</code></li>" for ref in item["evidence_refs"]
    )
    return f"{text}</small>" + (f"<ul>{evidence}</ul>" if evidence else "")


def _step(item: dict[str, Any]) -> str:
    return f"{_text(item['step'])} <small>{_text(item['status'])}</small>"


def _artifacts(report: Report) -> Iterator[str]:
    for index, artifact in enumerate(report.artifacts):
        size = f"{artifact.type}, {display.size(artifact.size_bytes)}"
        name = _text(artifact.name or artifact.ref)
        if index < REPORT_PREVIEWS_MAX:
            yield f"<details><summary>{name} <small>{size}</small></summary>"
            yield f"<pre>{escape(fence(artifact))}</pre></details>"
        else:
            yield f"<p>{name} <small>{size}, {_text(artifact.ref)}</small></p>"
    if report.artifacts_left_out:
        yield f'<p class="none">and {report.artifacts_left_out} more, not listed</p>'


def _timeline(report: Report) -> Iterator[str]:
    if report.timeline_left_out:
        yield f'<p class="none">{report.timeline_left_out} earlier events are left out</p>'
    yield "<table><thead><tr><th>at (UTC)<th>event<th>by<th>what</tr></thead><tbody>"
    for numbered in report.timeline:
        event = numbered.event
        cells = (f"{event.at:%Y-%m-%d %H:%M:%S}", event.type, event.by, state_display.event(event))
        yield "<tr>" + "".join(f"<td>{_text(cell)}" for cell in cells) + "</tr>"
    yield "</tbody></table>"


def _savings(report: Report) -> Iterator[str]:
    stats = report.savings
    rows = (
        ("artifacts", stats.artifacts),
        ("naive tokens (if pasted)", stats.naive_tokens),
        ("actual tokens (via refs)", stats.actual_tokens),
        ("tokens avoided", stats.tokens_avoided),
    )
    yield "<table><tbody>"
    for name, number in rows:
        yield f'<tr><th scope="row">{name}<td class="number">{number:,}</tr>'
    yield "</tbody></table>"
    yield f'<p class="none">{_text(stats.basis)}; not net of what was pulled back.</p>'
