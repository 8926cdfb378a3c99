"""A real PgBouncer in transaction mode in front of a server, on a free loopback port."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.parts import has_command, needs
from tests.store.postgres.server import USER
from tests.store.waiting import free_port, until

CONFIG = """[databases]
postgres = host=127.0.0.1 port={server_port} user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
max_client_conn = 200
"""


@contextmanager
def bouncer_before(url: str) -> Generator[str]:
    """The address of the same database behind PgBouncer: with four connections for all."""
    needs("pgbouncer", has_command("pgbouncer"))
    port = free_port()
    folder = Path(tempfile.mkdtemp(prefix="relay-pgbouncer-"))
    config = folder / "pgbouncer.ini"
    server_port = url.rpartition(":")[2].partition("/")[0]
    config.write_text(CONFIG.format(port=port, server_port=server_port, user=USER))
    as_user: dict[str, Any] = {}
    if os.geteuid() == 0:
        as_user = {"user": "nobody", "group": "nogroup", "extra_groups": []}
        shutil.chown(folder, "nobody", "nogroup")
        config.chmod(0o644)
    with (folder / "log").open("wb") as log:
        running = subprocess.Popen(["pgbouncer", str(config)], stdout=log, stderr=log, **as_user)
    behind = f"postgresql://{USER}@127.0.0.1:{port}/postgres"

    def answers() -> bool:
        assert running.poll() is None, (folder / "log").read_text()
        try:
            psycopg.connect(behind, connect_timeout=1).close()
        except psycopg.OperationalError:
            return False
        return True

    try:
        until(answers, "PgBouncer")
        yield behind
    finally:
        running.terminate()
        running.wait()
        shutil.rmtree(folder, ignore_errors=True)
