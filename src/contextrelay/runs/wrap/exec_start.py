"""The start of `relay exec`: the command runs before anything else is loaded.

Rule: what is imported here is what a command without output needs (tests/runs/wrap asserts it).
Words that are not understood at once are left to the parser, which says what is wrong with them;
so are those with a thread, which has to be there before the command runs.
"""

from __future__ import annotations

import os

from contextrelay.errors import RelayError
from contextrelay.runs.wrap.child_process import Child
from contextrelay.runs.wrap.exec_options import read_options


def run(words: list[str]) -> int | None:
    """Run the command that is in the words after `exec`; its exit status, None if it is unclear."""
    options = read_options(words)
    if options is None or os.environ.get("RELAY_THREAD"):
        return None
    try:
        child = Child(options.command)
    except RelayError:
        return None  # The parser's way leads to the same error, and shows it.
    pieces = child.output()
    first = next(pieces, b"")
    if not first and child.exit_status is not None and not options.json:
        return child.exit_status

    # The store is loaded while the command runs.
    from contextrelay.runs.wrap.exec_finish import finish_started

    return finish_started(options, child, first, pieces)
