"""Keep a server of two processes busy from many connections, and see that all goes well.

python -m tests.load [--seconds N] [--connections N]
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from tests.doors.http.serving import serving_apart
from tests.load.soak import Soak, Wrong

WORKERS = 2


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.load", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--connections", type=int, default=200)
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="relay-soak-") as folder,
        serving_apart(Path(folder) / "store", workers=WORKERS) as served,
    ):
        soak = Soak(served.port, served.running.pid, args.seconds, args.connections)
        try:
            soaked = asyncio.run(soak.run(lambda line: print(line, file=sys.stderr, flush=True)))
            print("\n".join(soaked.lines()))
            soaked.check()
        except Wrong as wrong:
            print(f"WRONG: {wrong}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
