"""A writer: acts on one store until it is killed, and reports on its standard output.

    python -m tests.crash.writer FOLDER SEED [ACTS_MAX]

It waits for one line on its standard input, what is its own, so that the interpreter is
up and the clock of the one who kills starts with the first verb.
"""

from __future__ import annotations

import os
import sys
import traceback

from msgspec.json import decode

from contextrelay import Relay
from tests.crash.acts import Acts
from tests.crash.report import Entry, Mine, encode

STDOUT = 1


def report(entry: Entry) -> None:
    """One write a line: a pipe takes up to 4,096 bytes whole, or not at all."""
    os.write(STDOUT, encode(entry) + b"\n")


def main(folder: str, seed: int, acts_max: int) -> None:
    mine = decode(sys.stdin.readline(), type=Mine)
    try:
        with Relay(folder) as relay:
            acts = Acts(relay, seed, report, mine)
            for _ in range(acts_max):
                acts.one()
    except Exception:
        report(Entry("failed", is_done=True, error=traceback.format_exc()[-3_000:]))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1_000_000)
