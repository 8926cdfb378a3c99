"""A real PostgreSQL on a free loopback port, from the binaries of pgserver (PyPI) or of Debian.

PostgreSQL refuses to run as root: there it is `nobody`, who also owns its folder.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.parts import has_command, needs
from tests.store.waiting import free_port, until

USER = "relay"
STRANGER = "stranger"
"""Who needs a password."""
RULES = f"""host all {STRANGER} 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust
"""
START_S_MAX = 60
FAST = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""What a crash does to a disk is the server's own promise: here it has none to wait for."""
SETTINGS = (
    "max_wal_size=64MB",
    "shared_buffers=32MB",
    "max_connections=200",
    "unix_socket_directories=",
    "listen_addresses=127.0.0.1",
)


class PostgresServer:
    """One server with one database, in a folder that goes with it: in `within`, or in memory."""

    def __init__(self, within: str | None = FAST, **settings: str) -> None:
        self._bin = folder_of_binaries()
        needs("postgres", self._bin is not None and find_spec("psycopg") is not None)
        self.port = free_port()
        self._settings = [*SETTINGS, *(f"{name}={value}" for name, value in settings.items())]
        self._folder = Path(tempfile.mkdtemp(prefix="relay-postgres-", dir=within))
        self._copy: Path | None = None
        self._as_user: dict[str, Any] = {}
        if os.geteuid() == 0:
            self._as_user = {"user": "nobody", "group": "nogroup", "extra_groups": []}
            shutil.chown(self._folder, "nobody", "nogroup")
            if self._bin is not None and not _is_open_to_all(self._bin):
                # Not within: that may be a disk which is to be full.
                self._copy = Path(tempfile.mkdtemp(prefix="relay-postgres-bin-"))
                self._copy.chmod(0o755)
                self._bin = _copied(self._bin, self._copy)
        self._server: subprocess.Popen[Any] | None = None
        self._run("initdb", "-D", self._home, "-U", USER, "-A", "trust", "--no-sync", "-E", "UTF8")
        (self._folder / "home" / "pg_hba.conf").write_text(RULES)

    @property
    def url(self) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/postgres"

    @property
    def _home(self) -> str:
        return str(self._folder / "home")

    def start(self) -> None:
        """Start, and wait until it answers."""
        options = [word for setting in self._settings for word in ("-c", setting)]
        with (self._folder / "log").open("ab") as log:
            self._server = subprocess.Popen(
                [f"{self._bin}/postgres", "-D", self._home, "-p", str(self.port), *options],
                stdout=log,
                stderr=log,
                cwd="/",
                **self._as_user,
            )
        until(self._is_ready, "PostgreSQL")

    def _is_ready(self) -> bool:
        assert self._server is not None
        assert self._server.poll() is None, (self._folder / "log").read_text()
        state = self._folder / "home" / "postmaster.pid"
        return state.exists() and state.read_text().rstrip().endswith("ready")

    def kill(self) -> None:
        """End all its processes at once, as the end of the machine would."""
        assert self._server is not None
        pid = self._server.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        self._server.kill()
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
        self._server.wait()
        # Those of a user's are not ours to wait for; a new server refuses to start before they end.
        until(lambda: not any(Path(f"/proc/{child}").exists() for child in children), "its end")
        (self._folder / "home" / "postmaster.pid").unlink()

    def end(self) -> None:
        if self._server is not None and self._server.poll() is None:
            self._server.send_signal(signal.SIGQUIT)  # Waits for no client and no checkpoint.
            self._server.wait()
        for folder in filter(None, (self._folder, self._copy)):
            shutil.rmtree(folder, ignore_errors=True)

    def _run(self, command: str, *words: str) -> None:
        subprocess.run(
            [f"{self._bin}/{command}", *words],
            check=True,
            capture_output=True,
            timeout=START_S_MAX,
            cwd="/",
            **self._as_user,
        )


def _is_open_to_all(folder: Path) -> bool:
    """Whether another user gets there: a clone may be in a folder of root's alone."""
    return all(each.stat().st_mode & 0o001 for each in (folder, *folder.parents))


def _copied(binaries: Path, folder: Path) -> Path:
    """The binaries of pgserver, with the libraries that they look for next to it."""
    packages = binaries.parents[2]
    for part in ("pgserver/pginstall", "pgserver.libs"):
        shutil.copytree(packages / part, folder / "install" / part, symlinks=True)
    return folder / "install" / binaries.relative_to(packages)


def folder_of_binaries() -> Path | None:
    """Where `postgres` and `initdb` are, if anywhere."""
    spec = find_spec("pgserver")
    if spec is not None and spec.origin is not None:
        return Path(spec.origin).parent / "pginstall" / "bin"
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if debian:
        return debian[-1].parent
    return Path(shutil.which("initdb") or "").parent if has_command("initdb") else None
