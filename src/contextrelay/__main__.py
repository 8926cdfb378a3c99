"""Command-line entry points: `relay`, `contextrelay`, `python -m contextrelay`, the bridge."""

from __future__ import annotations

import sys


def main() -> int:
    if sys.argv[1:2] == ["exec"]:
        from contextrelay.runs import exec_start

        status = exec_start.run(sys.argv[2:])
        if status is not None:
            return status
    from contextrelay.cli.main import run

    return run(sys.argv[1:])


def bridge() -> int:
    """Run `relay bridge start` for `contextrelay-bridge start`."""
    from contextrelay.cli.main import run

    return run(["bridge", *sys.argv[1:]])


def mcp() -> int:
    """Run `relay mcp` for `contextrelay-mcp`."""
    from contextrelay.cli.main import run

    return run(["mcp", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
