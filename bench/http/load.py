"""Load: wrk with a script of ours, and what it and the server's processor say of it.

Rule: a run in which anything failed is no figure: it raises.
"""

from __future__ import annotations

import statistics
import string
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct
from msgspec.json import decode, encode
from msgspec.structs import replace

from bench.http.servers import Served
from bench.measure import ROUNDS, Result

CONNECTIONS = 16
SECONDS = 3
WARM_SECONDS = 1

_GET = """
local paths, asked, at = {%s}, {}, 0
function init(args)
  for index, path in ipairs(paths) do asked[index] = wrk.format("GET", path) end
end
function request()
  at = at %% #asked + 1
  return asked[at]
end
"""
_PUSH = """
local before, after, number = %s, %s, %d
function request()
  number = number + 1
  return before .. string.format("%%012d", number) .. after
end
"""
_DONE = """
function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    '\\n{"requests":%d,"duration_us":%d,"failed":%d,"latency_us":{"p50":%d,"p90":%d,"p99":%d'
      .. ',"p99.9":%d,"max":%d}}\\n',
    summary.requests, summary.duration,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout,
    latency:percentile(50), latency:percentile(90), latency:percentile(99),
    latency:percentile(99.9), latency.max))
end
"""


class Load(Struct, frozen=True):
    """One run."""

    requests: int
    duration_us: float
    failed: int = 0
    latency_us: dict[str, float] = {}
    cpu_us: float = 0.0
    """What a request cost the server."""

    @property
    def rate(self) -> float:
        return self.requests / self.duration_us * 1e6


Run = Callable[[float], Load]
"""Runs for some seconds."""


def gets(
    server: Served, paths: Sequence[str], connections: int = CONNECTIONS, token: str = ""
) -> Run:
    """Paths of a server, one after the other, over and over; with a token, if there is one."""
    script = _GET % ", ".join(f'"{path}"' for path in paths)
    if token:
        script = f'wrk.headers["Authorization"] = "Bearer {token}"\n{script}'
    return lambda seconds: _wrk(server, script, seconds, connections)


class Pushes:
    """Pushes of content that was never pushed before: a number of 12 digits and `rest`."""

    def __init__(
        self,
        server: Served,
        rest: str,
        *,
        as_json: bool,
        connections: int = CONNECTIONS,
        token: str = "",
    ) -> None:
        self._server = server
        self._connections = connections
        media_type = "application/json" if as_json else "text/plain"
        start, end = ('{"data":"', '"}') if as_json else ("", "")
        rest = encode(rest).decode()[1:-1] if as_json else rest
        size = len(start) + 12 + len(rest) + len(end)
        lines = ["POST /push HTTP/1.1", f"Host: {server.host}", f"Content-Type: {media_type}"]
        lines += [f"Authorization: Bearer {token}"] if token else []
        lines += [f"Content-Length: {size}", "", start]
        self._before, self._after = "\r\n".join(lines), rest + end
        self._runs = 0

    def __call__(self, seconds: float) -> Load:
        # No run makes more than these many.
        self._runs += 1
        values = _quoted(self._before), _quoted(self._after), self._runs * 10**8
        return _wrk(self._server, _PUSH % values, seconds, self._connections)


def _quoted(text: str) -> str:
    """A text as Lua has it; a number of a character is for any that is not plain."""
    plain = string.ascii_letters + string.digits + " "
    return '"' + "".join(c if c in plain else f"\\{ord(c):03}" for c in text) + '"'


def _wrk(server: Served, script: str, seconds: float, connections: int) -> Load:
    # One thread: it drives each of these servers, and leaves them a core where there are two.
    words = ["wrk", "-t1", f"-c{connections}", f"-d{seconds:.0f}s", "--timeout", "20s"]
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(script + _DONE)
        file.flush()
        before_us = server.cpu_us()
        done = subprocess.run(
            [*words, "-s", file.name, server.url], check=True, capture_output=True, text=True
        )
        used_us = server.cpu_us() - before_us
    found = decode(done.stdout.strip().splitlines()[-1], type=Load)
    if found.failed or not found.requests:
        raise RuntimeError(f"{found.failed} requests failed: {done.stdout}")
    return replace(found, cpu_us=used_us / found.requests)


def compared(name: str, ours: Run, anchor: Run, at_least: float) -> Iterator[Result]:
    """Ours and the anchor in turn: rates, then processor time a request.

    The ratio is the median of those of the runs, each of which had its anchor.
    """
    ours(WARM_SECONDS)
    anchor(WARM_SECONDS)
    pairs = [(ours(SECONDS), anchor(SECONDS)) for _ in range(ROUNDS)]
    rates = [(one.rate, other.rate) for one, other in pairs]
    ratio = statistics.median(one / other for one, other in rates)
    yield Result(name, *_medians(rates), "a second", ratio, f">= {at_least}", ratio >= at_least)
    costs = [(one.cpu_us, other.cpu_us) for one, other in pairs]
    ratio = statistics.median(other / one if one else 0.0 for one, other in costs)
    yield Result(f"{name}: processor", *_medians(costs), "us a request", ratio, "nothing", True)


def _medians(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return statistics.median(pair[0] for pair in pairs), statistics.median(
        pair[1] for pair in pairs
    )
