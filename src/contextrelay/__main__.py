"""Command-line entry points: `relay`, `contextrelay`, `python -m contextrelay`, the bridge."""

from __future__ import annotations

import gc
import sys

# Imports create about 20,000 objects and no garbage: with the default of 700, Python searches them
# for cycles 40 times.
GARBAGE_THRESHOLD = 20_000


def main() -> int:
    """Run the command in `sys.argv` and return its exit status."""
    return _run(sys.argv[1:])


def bridge() -> int:
    """Run `relay bridge start` for `contextrelay-bridge start`."""
    return _run(["bridge", *sys.argv[1:]])


def mcp() -> int:
    """Run `relay mcp` for `contextrelay-mcp`."""
    return _run(["mcp", *sys.argv[1:]])


def _run(words: list[str]) -> int:
    gc.set_threshold(GARBAGE_THRESHOLD)
    try:
        if words[:1] == ["exec"]:
            from contextrelay.runs import exec_start

            status = exec_start.run(words[1:])
            if status is not None:
                return status
        from contextrelay.cli.main import run

        return run(words)
    finally:
        # Python searches all objects for cycles once more on exit. Exempt them: the process ends.
        gc.freeze()


if __name__ == "__main__":
    sys.exit(main())
