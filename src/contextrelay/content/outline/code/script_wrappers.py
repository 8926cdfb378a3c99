"""Wrappers around the statements of a script: functions called in place, tables of modules.

Each function returns a position in masked code, or 0 if there is none.
"""

from __future__ import annotations

from contextrelay.content.outline.code import script_patterns as on
from contextrelay.content.outline.code.brackets import Code


def function_in(code: Code, start: int, stop: int) -> int:
    """Return where the body of the first function among the arguments begins."""
    at = start
    for _ in range(4):
        brace = code.text.find("{", at, stop)
        if brace < 0:
            return 0
        if code.text[max(start, brace - 40) : brace].rstrip().endswith((")", "=>")):
            return brace
        at = code.end(brace) or stop
    return 0


def whole_body(code: Code, at: int) -> int:
    """Return where a function body begins after its arguments, if it is nearly the whole file."""
    body = on.BODY.match(code.text, at)
    size = len(code.text)
    # A body that begins later is too short: its end need not be found.
    if body is None or 4 * body.end() > size:
        return 0
    return body.end() if 4 * ((code.end(body.end()) or size) - body.end()) > 3 * size else 0


def modules_in(code: Code, opens: int) -> int:
    """Return where a module table in these brackets begins, if it is half of the file."""
    table = on.TABLE.match(code.text, opens)
    if table is None or 2 * opens > len(code.text):
        return 0
    end = code.end(table.end() - 1) or len(code.text)
    return table.end() - 1 if 2 * (end - opens) > len(code.text) else 0


def module_body(code: Code, at: int) -> int:
    """Return where the body of a module begins, given the start of its arguments."""
    close = code.end(at)
    body = on.BODY.match(code.text, close) if close else None
    return body.end() if body else 0
