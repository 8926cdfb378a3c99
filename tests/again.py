"""Run what failed last once more, alone: `make again`.

On a busy machine a test may fail only because of what ran next to it. Few such tests are run
again and named; more than FAILED_MAX are no accident, and nothing is run.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

FAILED_MAX = 5
LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")
CRASHED = Path(".pytest_cache/crashed")
"""The tests in which a worker of the last run died, a line each."""


def last_failed(cache: Path = LAST_FAILED, crashed: Path = CRASHED) -> list[str]:
    """The tests that the last run left as failed, by the ids that pytest takes."""
    failed: list[str] = [*json.loads(cache.read_text())] if cache.exists() else []
    if crashed.exists():
        failed += crashed.read_text().splitlines()
    return [_without_group(test) for test in dict.fromkeys(failed)]


def _without_group(test: str) -> str:
    """`path::name[case]@group`, as a run on several processes writes it, without its group."""
    name, bracket, rest = test.rpartition("]")
    return name + bracket + rest.partition("@")[0]


def main(words: list[str]) -> int:
    failed = last_failed()
    if not 0 < len(failed) <= FAILED_MAX:
        print(f"{len(failed)} tests failed; 1 to {FAILED_MAX} are run again")
        return 1
    print("\n".join(failed), flush=True)
    return subprocess.run([sys.executable, "-m", "pytest", "-q", *words, *failed]).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
