"""Serving: one or several processes on one socket, over one store.

Rule: the server reports that it listens only when it does, and ends only after all accepted
requests are answered.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import sys
from contextlib import suppress
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import uvicorn
from msgspec import Struct, field
from msgspec.json import decode, encode
from msgspec.structs import replace
from uvicorn.supervisors import Multiprocess

from contextrelay.client.transport.local import AsyncLocal, open_stores
from contextrelay.content.untrusted.hidden_chars import spell_hidden
from contextrelay.core import answer
from contextrelay.errors import Invalid
from contextrelay.limits import KEEPALIVE_S, KIB
from contextrelay.model.key import StoredKey
from contextrelay.server.app import A2AOptions, App, ServerContext
from contextrelay.server.bounds import ServerBounds
from contextrelay.server.hosts import guard, is_loopback
from contextrelay.server.http_connection import Protocol
from contextrelay.server.security_headers import SAFE
from contextrelay.server.token_verifier import Identity
from contextrelay.server.ws_connection import Socket
from contextrelay.verbs import KeepKey
from contextrelay.web.entry import PageOptions

try:
    import resource
except ImportError:  # Windows has no such limits.
    resource = None

FRAME_BYTES_IN_MAX = 64 * KIB
# The number of open files of a process that are reserved for other uses than connections.
FILES_KEPT = 256
SOCKET_BACKLOG = 2_048
SHUTDOWN_S_MAX = 10


OPTIONS_VARIABLE = "CONTEXTRELAY_SERVE"
"""The variable that passes the options to the processes of a server."""
END_SIGNALS = (signal.SIGINT, signal.SIGTERM)

STORE = "the server's own"
"""The address of the store in reports, because its location on this machine is private."""

# The thread switch interval in seconds. Python's 5 ms would delay the slowest responses during
# pushes.
SWITCH_S = 0.0005
# The threshold of the cyclic garbage collector. The default of 700 objects is reached within a few
# requests, nearly all objects are freed without a collection, and the collections took 4 % of a
# push.
GARBAGE_OBJECTS = 20_000


class ServeOptions(Struct, frozen=True, kw_only=True):
    """The options of a server."""

    store: str | None = None
    host: str = "127.0.0.1"
    port: int = 8787
    public_url: str = ""
    allowed_hosts: tuple[str, ...] = ()
    workers: int = 1
    needs_token: bool = False
    """If True, a key is required on loopback too. Elsewhere a key is always required."""
    first_key: StoredKey | None = None
    """A key to create, for a store that exists only in this process."""
    a2a: tuple[str, ...] | None = None
    """Agents to serve over A2A, as NAME=KIND:WHAT; () for the default agent, None for no A2A."""
    identity: Identity = Identity()
    grpc_port: int | None = None
    """The port on which the agents are also served over gRPC."""
    bounds: ServerBounds = ServerBounds()
    page: PageOptions = field(default_factory=PageOptions)
    figures: str = ""
    """The folder of the shared metrics of several processes; created by `run`."""


def listen(options: ServeOptions) -> socket.socket:
    """Bind the port before anything else is done, and return the socket.

    Raises:
        Invalid: the port is not available.
    """
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((options.host, options.port))
    except OSError as error:
        listener.close()
        raise Invalid(
            f"cannot listen on {options.host}:{options.port}: {error.strerror or error}",
            "choose another port with --port, or --port 0 for any free port",
        ) from error
    listener.listen(SOCKET_BACKLOG)
    listener.set_inheritable(True)
    return listener


def application(options: ServeOptions) -> App:
    """Return the ASGI application of one process. The store is opened at startup."""
    options.identity.verify()  # Raises configuration errors before the server listens.
    watch = guard(options.host, options.port, options.public_url, options.allowed_hosts)

    def open_door() -> ServerContext:
        stores = open_stores(options.store, None, agent="")
        stores = replace(stores, engine=replace(stores.engine, address=STORE))
        if options.first_key is not None:
            answer(stores, KeepKey(options.first_key))
        needs_token = options.needs_token or not is_loopback(options.host)
        a2a = None if options.a2a is None else _a2a(options)
        return ServerContext(
            AsyncLocal(stores),
            watch,
            options.figures,
            needs_token,
            a2a,
            options.page,
            options.identity,
        )

    return App(open_door, _affordable(options.bounds))


def _a2a(options: ServeOptions) -> A2AOptions:
    host = f"[{options.host}]" if ":" in options.host else options.host
    grpc_address = "" if options.grpc_port is None else f"{host}:{options.grpc_port}"
    origin = options.public_url.rstrip("/") or f"http://{host}:{options.port}"
    return A2AOptions(options.a2a or (), origin, grpc_address)


def _affordable(bounds: ServerBounds) -> ServerBounds:
    """Return limits of connections and uploads that fit the number of files that the process may
    open.
    """
    if resource is None:
        return bounds
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return bounds
    uploads = max(1, min(bounds.uploads, files // 4))
    connections = max(1, min(bounds.connections, files - FILES_KEPT - uploads))
    return replace(bounds, connections=connections, uploads=uploads)


def _allow_files() -> None:
    """Raise the limit of open files of this process as far as the system allows."""
    if resource is None:
        return
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # macOS reports no limit, although there is one.
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def from_environment() -> App:
    """Return the ASGI application of one process of several. uvicorn calls this function."""
    quiet_logs()
    _tune()
    app = application(decode(os.environ[OPTIONS_VARIABLE], type=ServeOptions))
    for number in END_SIGNALS:
        _end_waits_first(app, number)
    return app


def _tune() -> None:
    """Set up the Python interpreter for many short requests."""
    sys.setswitchinterval(SWITCH_S)
    gc.set_threshold(GARBAGE_OBJECTS)


def _end_waits_first(app: App, number: int) -> None:
    """Install a signal handler that ends all waits, as `Server` does, and then calls the previous
    handler.
    """
    then = signal.getsignal(number)

    def end(sig: int, frame: FrameType | None) -> None:
        app.end_waits()
        if callable(then):
            then(sig, frame)

    signal.signal(number, end)


def run(options: ServeOptions, listener: socket.socket) -> None:
    """Serve requests until a signal arrives."""
    _allow_files()
    if options.workers == 1:
        _tune()
        Server(config(application(options))).run([listener])
        return
    with TemporaryDirectory(prefix="contextrelay-", ignore_cleanup_errors=True) as figures:
        os.environ[OPTIONS_VARIABLE] = encode(replace(options, figures=figures)).decode()
        shared = config("contextrelay.server.serve:from_environment", options.workers)
        processes = Multiprocess(shared, sockets=[listener])
        _hear_signals()
        processes.run()


def _hear_signals() -> None:
    """Unblock the signals, which the parent may have blocked. Call this after their handlers are
    installed.
    """
    signal.pthread_sigmask(signal.SIG_UNBLOCK, END_SIGNALS)


def config(app: App | str, workers: int = 1) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        factory=isinstance(app, str),
        workers=workers,
        loop="uvloop",
        http=Protocol,
        ws=Socket,
        ws_max_size=FRAME_BYTES_IN_MAX,
        ws_ping_interval=KEEPALIVE_S,
        ws_ping_timeout=KEEPALIVE_S,
        ws_per_message_deflate=False,
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        headers=SAFE,
        server_header=False,
        date_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=SHUTDOWN_S_MAX,
    )


class Server(uvicorn.Server):
    """A uvicorn server that ends all waits for new data before it waits for open requests to
    end.
    """

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        _hear_signals()
        await super().startup(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.end_waits()
        super().handle_exit(sig, frame)

    def end_waits(self) -> None:
        app: Any = getattr(self.config, "loaded_app", None)
        if isinstance(app, App):
            app.end_waits()


def quiet_logs() -> None:
    """Set up logging so that only warnings and errors are written, to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Lines("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    for name in ("uvicorn.error", "websockets"):
        logging.getLogger(name).setLevel(logging.ERROR)


class _Lines(logging.Formatter):
    """A formatter that writes one line per message, without sequences that control a terminal."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        return super().formatMessage(record).replace("\r", "\\r").replace("\n", "\\n")

    def format(self, record: logging.LogRecord) -> str:
        return spell_hidden(super().format(record))
