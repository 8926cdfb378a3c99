"""A subscriber: `python -m bench.http.listening ADDRESS` prints when it heard, and what."""

from __future__ import annotations

import sys
import time

from contextrelay import ContextRelay

CHANNEL = "news"


def main(address: str) -> None:
    with ContextRelay(address) as relay:
        relay.subscribe(CHANNEL, lambda url: print(time.monotonic_ns(), url, flush=True))


if __name__ == "__main__":
    main(sys.argv[1])
