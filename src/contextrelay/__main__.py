"""The way in from a shell: `relay`, `contextrelay` and `python -m contextrelay`."""

from __future__ import annotations

import sys


def main() -> int:
    from contextrelay.doors.cli.main import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
