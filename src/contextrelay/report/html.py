"""HTML: the frame of pages to keep, which need nothing else and run nothing.

Rule: every text goes through `text` or `escape`. The page's own policy forbids scripts, requests
and any style but the one whose hash it names, so that a mistake here harms nobody.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

from contextrelay.cli import state_display

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
    """A page of that title, which is somebody's text, around lines of HTML."""
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
    """Somebody's text, or any value, as text."""
    return escape(state_display.text_of(value))


def section(title: str, lines: Iterable[str]) -> Iterator[str]:
    yield f"<section><h2>{title}</h2>"
    yield from list(lines) or ['<p class="none">None.</p>']
    yield "</section>"


def figures(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    """A table of names and numbers."""
    yield "<table><tbody>"
    for name, number in rows:
        yield f'<tr><th scope="row">{name}<td class="number">{number}</tr>'
    yield "</tbody></table>"
