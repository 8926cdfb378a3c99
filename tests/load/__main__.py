"""Keep a server of two processes busy from many connections, and see that all goes well.

python -m tests.load [--seconds N] [--connections N] [--postgres]

With --postgres, these are two servers of one process, over a PostgreSQL that ends with them.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.load.soak import Soak, Wrong
from tests.server.serving import Apart, serving_apart
from tests.store.postgres.server import PostgresServer

WORKERS = 2


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.load", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--connections", type=int, default=200)
    parser.add_argument("--postgres", action="store_true")
    args = parser.parse_args()
    with ExitStack() as stack:
        serve = _over_postgres if args.postgres else _over_a_folder
        soak = Soak(serve(stack), args.seconds, args.connections)
        try:
            soaked = asyncio.run(soak.run(lambda line: print(line, file=sys.stderr, flush=True)))
            print("\n".join(soaked.lines()))
            soaked.check()
        except Wrong as wrong:
            print(f"WRONG: {wrong}", file=sys.stderr)
            return 1
    return 0


def _over_a_folder(stack: ExitStack) -> list[Apart]:
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="relay-soak-"))
    return [stack.enter_context(serving_apart(Path(folder) / "store", workers=WORKERS))]


def _over_postgres(stack: ExitStack) -> list[Apart]:
    database = PostgresServer()
    stack.callback(database.end)
    database.start()
    return [stack.enter_context(serving_apart(database.url)) for _ in range(WORKERS)]


if __name__ == "__main__":
    sys.exit(main())
