"""A real nginx with the configuration of deploy/, in front of servers on loopback."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.parts import ROOT, needs
from tests.store.waiting import free_port, until

CONFIG = ROOT / "deploy" / "compose" / "nginx.conf"
KEPT = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


class Nginx:
    """nginx in a folder of its own."""

    def __init__(self, folder: Path, *ports: int) -> None:
        self._command = shutil.which("nginx") or "/usr/sbin/nginx"
        needs("nginx", Path(self._command).exists())
        self.port = free_port()
        self._folder = folder
        text = CONFIG.read_text().replace("listen 8080", f"listen 127.0.0.1:{self.port}")
        text = text.replace("worker_processes auto", "worker_processes 1")
        for number, port in enumerate(ports or (1, 2), 1):
            text = text.replace(f"relay{number}:8787", f"127.0.0.1:{port}")
        places = "".join(f"{name}_temp_path {folder / name};\n" for name in KEPT)
        (folder / "nginx.conf").write_text(text.replace("http {\n", f"http {{\n{places}"))
        self._words = [
            *(self._command, "-p", str(folder), "-c", str(folder / "nginx.conf")),
            *("-e", "stderr", "-g", f"daemon off; pid {folder / 'pid'};"),
        ]
        self._running: subprocess.Popen[Any] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def check(self) -> str:
        """What nginx itself says of the configuration."""
        done = subprocess.run([*self._words, "-t"], capture_output=True, text=True, timeout=60)
        return done.stderr

    def __enter__(self) -> Nginx:
        self._running = subprocess.Popen(self._words, stderr=subprocess.DEVNULL)
        until((self._folder / "pid").exists, "nginx")
        return self

    def __exit__(self, *ended: object) -> None:
        assert self._running is not None
        self._running.terminate()
        self._running.wait(20)
