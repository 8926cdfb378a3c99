"""Servers to measure: real processes on free loopback ports, which end with the block.

Rule: who gets a server may ask it at once.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.request import urlopen

from msgspec import Struct
from msgspec.json import decode

from bench.measure import Skipped

ROOT = Path(__file__).parents[2]
START_S_MAX = 20
END_S_MAX = 20
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")

# What `relay serve` does, after something was changed in its process.
_SERVE = "import sys\n%s\nfrom contextrelay.__main__ import main\nsys.exit(main())"

_NGINX = """
%(user)s
daemon off;
worker_processes 1;
pid %(folder)s/pid;
error_log %(folder)s/error.log;
events { worker_connections 1024; }
http {
  access_log off;
  sendfile on;
  tcp_nopush on;
  keepalive_timeout 75;
  keepalive_requests 1000000000;
  default_type text/plain;
  client_body_temp_path %(folder)s/body;
  proxy_temp_path %(folder)s/proxy;
  fastcgi_temp_path %(folder)s/fastcgi;
  uwsgi_temp_path %(folder)s/uwsgi;
  scgi_temp_path %(folder)s/scgi;
  server {
    listen 127.0.0.1:%(port)d;
    root %(files)s;
    location = /constant { default_type application/json; return 200 '%(constant)s'; }
  }
}
"""


class Served(Struct, frozen=True):
    """A server that runs."""

    url: str
    pid: int

    @property
    def host(self) -> str:
        return self.url.removeprefix("http://")

    def cpu_us(self) -> float:
        """What it and its children have used of the processor."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        ticks = 0
        for pid in (self.pid, *map(int, children)):
            # The name, in brackets, may hold spaces.
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / _TICKS_A_SECOND * 1e6

    def memory_mb(self) -> float:
        """What it holds in memory, its children not counted."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def check_parts(*commands: str) -> None:
    """Raise Skipped unless all commands are there, and /proc, which has what servers use."""
    if not Path("/proc/self/stat").exists():
        raise Skipped("there is no /proc here: measure on Linux")
    for command in commands:
        if shutil.which(command) is None:
            raise Skipped(f"{command} is not installed: apt-get install {command}")


@contextmanager
def relay(store: Path | str, before: str = "pass") -> Generator[Served]:
    """`relay serve`, one process; `before` is run in it first, to see what that changes."""
    words = ["--store", str(store), "serve", "--port", "0", "--json"]
    with started(sys.executable, "-c", _SERVE % before, *words) as running:
        assert running.stdout is not None
        url: str = decode(running.stdout.readline())["url"]
        with urlopen(f"{url}/readyz", timeout=START_S_MAX):
            pass
        yield Served(url, running.pid)


@contextmanager
def program(name: str, *words: str) -> Generator[Served]:
    """A server of ours to compare with: bench/http/NAME.py, which prints its port."""
    with started(sys.executable, "-m", f"bench.http.{name}", *words) as running:
        assert running.stdout is not None
        yield Served(f"http://127.0.0.1:{int(running.stdout.readline())}", running.pid)


@contextmanager
def nginx(folder: Path, constant: str = "{}") -> Generator[Served]:
    """nginx with one worker: the files in `folder`/files, and a reply that is always the same."""
    port = _free_port()
    files = folder / "files"
    files.mkdir(parents=True, exist_ok=True)
    settings = folder / "nginx.conf"
    # Its worker is somebody else where it is started by root, and could not read the files.
    user = "user root;" if os.geteuid() == 0 else ""
    values = {"user": user, "folder": folder, "files": files, "port": port, "constant": constant}
    settings.write_text(_NGINX % values)
    with started("nginx", "-p", str(folder), "-c", str(settings)) as running:
        _until_open(port)
        yield Served(f"http://127.0.0.1:{port}", running.pid)


@contextmanager
def started(*words: str) -> Generator[subprocess.Popen[bytes]]:
    """A process that ends with the block."""
    running = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sys.stderr, cwd=ROOT
    )
    try:
        yield running
    finally:
        running.terminate()
        try:
            running.communicate(timeout=END_S_MAX)
        except subprocess.TimeoutExpired:
            running.kill()
            running.communicate()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def _until_open(port: int) -> None:
    end_s = time.monotonic() + START_S_MAX
    while time.monotonic() < end_s:
        with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.02)
    raise TimeoutError(f"nothing listens on port {port}")
