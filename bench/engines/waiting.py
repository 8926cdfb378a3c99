"""Subscribers that wait: `python -m bench.engines.waiting COUNT...`, by how many there are.

Memory of one server process for each WebSocket, and from a push to the last of them, all in one
client process (bench/http/subscribers.py). Every socket takes a file of either: see `ulimit -n`.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec.json import decode

from bench.http.fanout import Heard
from bench.http.servers import relay, started

PUSHES = 5


def main(counts: list[int]) -> None:
    for count in counts:
        with TemporaryDirectory() as folder, relay(Path(folder)) as served:
            before = served.memory_mb()
            words = ("-m", "bench.http.subscribers", served.host, "push", str(count), "0")
            with started(sys.executable, *words) as clients:
                assert clients.stdin is not None
                assert clients.stdout is not None
                clients.stdin.write(b"%d\n" % PUSHES)
                clients.stdin.flush()
                heard = decode(clients.stdout.readline(), type=Heard)
                kb = (served.memory_mb() - before) / count * 1e3
            last_ms = statistics.median(heard.ms)
            print(f"{count:,}: {kb:.1f} KB each, the last heard after {last_ms:.0f} ms", flush=True)


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]])
