"""Servers for tests: real ones, on loopback, on a port of their own, ended with the test.

    with serving(tmp_path / "store") as served:             # in this process, in a thread: fast
        httpx.get(f"{served.url}/health")
    with serving_apart(tmp_path / "store", workers=2) as served:    # processes, to be killed
        served.kill()

The store is a folder, `memory:` (gone with the server) or an engine's URL. `settings` are those of
a store in a folder. Any other word is an option of `ServeOptions` (server/serve.py), like
`public_url` or `allowed_hosts`. Two servers may have one store. Leaving the block ends the server
gracefully, and fails if it does not end in time.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import uvicorn.server
from msgspec import Struct
from msgspec.json import encode
from msgspec.structs import replace

from contextrelay.model.settings import Settings
from contextrelay.server.app import App, ServerContext
from contextrelay.server.serve import ServeOptions, Server, application, config, listen
from tests.store.engines import free_port, until

END_S_MAX = 20

MAIN = """
import sys
from msgspec.json import decode
from contextrelay.server.serve import ServeOptions, listen, quiet_logs, run
quiet_logs()
options = decode(sys.argv[1], type=ServeOptions)
listener = listen(options)
print("listening", flush=True)
run(options, listener)
"""


class _Prompt:
    """asyncio for uvicorn, which sleeps 100 ms and more on its way to an end; each test would."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.01))


setattr(uvicorn.server, "asyncio", _Prompt())  # noqa: B010 (its type is that of a module)


class Served(Struct, frozen=True):
    """A server in a thread."""

    port: int
    server: Server

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def ws_url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    @property
    def door(self) -> ServerContext:
        """What the server works with; for looking, from another thread."""
        app = cast(App, getattr(self.server.config, "loaded_app"))  # noqa: B009 (it has no type)
        assert app.door is not None
        return app.door


@contextmanager
def serving(
    store: str | Path, *, settings: Settings | None = None, **options: Any
) -> Generator[Served]:
    """A server in a thread of this process."""
    _write_settings(store, settings)
    chosen = ServeOptions(store=str(store), port=0, **options)
    listener = listen(chosen)
    chosen = replace(chosen, port=listener.getsockname()[1])
    server = Server(config(application(chosen)))
    thread = threading.Thread(target=server.run, args=([listener],), name="served", daemon=True)
    thread.start()
    try:
        until(lambda: server.started or not thread.is_alive(), "the server")
        assert server.started, "the server did not start"
        yield Served(chosen.port, server)
    finally:
        server.end_waits()
        server.should_exit = True
        thread.join(END_S_MAX)
        assert not thread.is_alive(), "the server did not end"


class Apart(Struct, frozen=True):
    """A server in processes of its own."""

    port: int
    running: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def ws_url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    def kill(self) -> None:
        """End it without a chance to do anything more."""
        os.killpg(self.running.pid, signal.SIGKILL)
        self.running.wait(END_S_MAX)


@contextmanager
def serving_apart(
    store: str | Path,
    *,
    workers: int = 1,
    port: int = 0,
    settings: Settings | None = None,
    **options: Any,
) -> Generator[Apart]:
    """A server of one or several processes; with `port`, where one was before."""
    _write_settings(store, settings)
    chosen = ServeOptions(store=str(store), port=port or free_port(), workers=workers, **options)
    running = subprocess.Popen(
        [sys.executable, "-c", MAIN, encode(chosen)],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert running.stdout is not None
    try:
        # From here on every connection is answered, at the latest when the store is open.
        assert running.stdout.readline() == b"listening\n", "the server did not start"
        yield Apart(chosen.port, running)
    finally:
        running.send_signal(signal.SIGTERM)
        try:
            running.wait(END_S_MAX)
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
                running.wait(END_S_MAX)
            running.stdout.close()


def _write_settings(store: str | Path, settings: Settings | None) -> None:
    if settings is not None:
        folder = Path(store)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_bytes(encode(settings))
