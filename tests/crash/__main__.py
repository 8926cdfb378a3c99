"""Kill writers of a store, round after round, and see that nothing acknowledged is lost.

python -m tests.crash [--rounds N] [--seed S]
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.crash.killing import kill_rounds
from tests.crash.report import Lost


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3_000)
    parser.add_argument("--seed", type=int, default=None, help="by default another one every time")
    args = parser.parse_args()
    seed = time.time_ns() % 10**9 if args.seed is None else args.seed
    print(f"seed {seed}", flush=True)
    try:
        kill_rounds(args.rounds, seed, lambda line: print(line, flush=True))
    except Lost as lost:
        print(f"LOST: {lost}", file=sys.stderr)
        return 1
    print("nothing acknowledged was lost")
    return 0


if __name__ == "__main__":
    sys.exit(main())
