"""serve and mcp: run a relay server over HTTP, or an MCP server on stdin and stdout.

Rule: all options are checked before the server reports that it is listening.
"""

from __future__ import annotations

import os
import signal
import socket
from argparse import Namespace
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from ipaddress import ip_address
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from msgspec.structs import replace

from contextrelay.access import is_valid
from contextrelay.cli import display
from contextrelay.cli.console import Console
from contextrelay.cli.parser import arg, arguments, integer_between
from contextrelay.client.transport.local import Local, default_address, open_stores
from contextrelay.errors import Invalid, Unavailable
from contextrelay.limits import LIST_ITEMS_MAX, SERVER_WORKERS_MAX
from contextrelay.model.key import IssuedKey, Key, StoredKey, token_hash
from contextrelay.verbs import ListKeys, NewKey

PORT = 8787
_PORT_MAX = 65_535
_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}


port_number = integer_between(
    0, _PORT_MAX, f"is not a valid port: use 1 to {_PORT_MAX}, or 0 for a free one"
)
_WORKERS = integer_between(
    1, SERVER_WORKERS_MAX, f"is not a valid number of processes: use 1 to {SERVER_WORKERS_MAX}"
)


_SERVES = (
    arg("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)"),
    arg(
        "--port",
        type=port_number,
        default=PORT,
        help=f"port to listen on (default: {PORT}); 0 for any free port",
    ),
    arg(
        "--public-url",
        default="",
        metavar="URL",
        help="public URL of the server, if it differs from its address",
    ),
    arg(
        "--allow-host",
        action="append",
        default=[],
        metavar="HOST",
        help="another host name to accept in requests; may be repeated",
    ),
    arg(
        "--blobs",
        metavar="ADDRESS",
        help=(
            "where to store large bodies: a folder, s3://bucket/prefix, gs:// or az://; set once "
            "per store"
        ),
    ),
    arg(
        "--workers", type=_WORKERS, default=1, metavar="N", help="number of processes (default: 1)"
    ),
    arg("--require-token", action="store_true", help="require a key on this machine too"),
    arg(
        "--token",
        choices=("auto",),
        help="auto: create an admin key if there is none, and print its token once",
    ),
    arg(
        "--auth-server",
        action="append",
        default=[],
        metavar="URL",
        help="URL of an identity provider whose tokens are accepted (RFC 9728)",
    ),
    arg(
        "--token-verifier",
        default="",
        metavar="MODULE:FUNCTION",
        help="function MODULE:FUNCTION that verifies tokens other than relay keys",
    ),
    arg(
        "--agent",
        action="append",
        default=[],
        metavar="NAME=KIND:WHAT",
        help="an agent to serve over A2A: cli:BIN, model:PROVIDER, py:MODULE:FUNCTION,"
        " bridge:CHANNEL; may be repeated",
    ),
    arg(
        "--grpc-port",
        type=port_number,
        metavar="PORT",
        help="also serve the agents over gRPC on this port",
    ),
)


@arguments(*_SERVES, arg("--a2a", action="store_true", help="also serve agents over A2A"))
def serve(args: Namespace, console: Console) -> None:
    """Serve a store over HTTP until Ctrl-C or SIGTERM. Open requests are answered before the server
    ends.

    When the server listens, it prints its URL, or with --json {"url", "store", "workers", "pid"}.
    The
    store is set by --store, or else by RELAY_HOME; the default is ~/.relay. CONTEXTRELAY_URL is
    used
    by clients only. Callers from other machines need a key, also through a proxy (--public-url,
    --allow-host): see relay keys new, or --token auto.
    """
    _serve(args, console, tuple(args.agent) if args.a2a or args.agent else None)


@arguments(*_SERVES)
def a2a_serve(args: Namespace, console: Console) -> None:
    """Serve agents over A2A 1.0, and also serve the store of their tasks, as relay serve does.

    Each agent has its card and its root under /a2a/NAME. The card of the first agent is also at the
    well-known path. Without --agent, tasks go to the agent behind relay bridge start.
    """
    _serve(args, console, tuple(args.agent))


def _serve(args: Namespace, console: Console, agents: tuple[str, ...] | None) -> None:
    address = _store_address(args, console)
    needs_token = args.require_token or args.token is not None or _reaches_others(args)
    import_door("uvloop", "the server", "server")
    serving = import_door("contextrelay.server.serve", "the server", "server")
    serving.quiet_logs()
    options = serving.ServeOptions(
        store=address,
        host=args.host,
        port=args.port,
        public_url=args.public_url,
        allowed_hosts=tuple(args.allow_host),
        workers=args.workers,
        needs_token=needs_token,
        a2a=agents,
        identity=serving.Identity(servers=tuple(args.auth_server), verifier=args.token_verifier),
        grpc_port=args.grpc_port,
    )
    if args.grpc_port is not None:
        _check_grpc(args, agents)
    if agents is not None:
        import_door("contextrelay.a2a.agents", "A2A", "server").open_agents(agents)
    listener: socket.socket = serving.listen(options)
    with listener:
        port: int = listener.getsockname()[1]
        # Check the names of agents before the server reports that it is listening.
        serving.application(options)
        store, made = _store_of(address, args, needs_token)
        first = None if made is None else _kept(made)
        options = replace(options, port=port, first_key=first)
        show = partial(_show_start, console, args, _url(args, port), store, made)
        serve_until_ended(serving, options, listener, show)


def serve_until_ended(
    serving: ModuleType, options: Any, listener: socket.socket, show: Callable[[], None]
) -> None:
    """Serve until a signal ends the process. `show` is called when the server is listening."""
    # A signal that arrives before the server handles signals stays pending until then. When the
    # server has ended, it raises the signal again, which is the normal end here.
    signal.pthread_sigmask(signal.SIG_BLOCK, serving.END_SIGNALS)
    for each in serving.END_SIGNALS:
        signal.signal(each, lambda number, frame: None)
    try:
        show()
        serving.run(options, listener)
    except SystemExit as ended:
        raise Unavailable("the server did not start", "see the messages above") from ended


def _check_grpc(args: Namespace, agents: tuple[str, ...] | None) -> None:
    """Check that a gRPC port comes with an agent to serve, and has a fixed number.

    Raises:
        Invalid: there is no agent, or the port is 0.
    """
    if agents is None:
        raise Invalid("gRPC needs an agent to serve", "add --a2a, or --agent NAME=...")
    if not args.grpc_port:
        raise Invalid(
            "gRPC needs a fixed port number", "use a port number, for example --grpc-port 8788"
        )
    import_door("contextrelay.a2a.grpc_binding", "gRPC", "grpc")


def _store_address(args: Namespace, console: Console) -> str:
    address = console.store or default_address()
    if address.lower().startswith(("http://", "https://")):
        raise Invalid(
            f"{address} is a server, not a store", "name a store to serve: --store FOLDER"
        )
    if address.startswith("memory:") and args.workers > 1:
        raise Invalid(
            f"{args.workers} processes cannot share a store in memory",
            "use --workers 1, or a store that processes can share: --store FOLDER",
        )
    return address


def import_door(module: str, name: str, extra: str) -> ModuleType:
    """Import a module of the server whose dependencies are an optional extra of this package.

    Raises:
        Unavailable: the dependencies are not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        if (error.name or "").startswith("contextrelay"):
            raise
        raise Unavailable(
            f"{name} needs {error.name}, which is not installed",
            f"pip install 'contextrelay[{extra}]'",
        ) from error


def _reaches_others(args: Namespace) -> bool:
    """Return True if other machines can reach the server, directly or by a public name.

    With a public name, the server gets requests of other machines through a proxy.
    """
    if any(_is_known_elsewhere(each) for each in (args.public_url, *args.allow_host) if each):
        return True
    try:
        found = socket.getaddrinfo(args.host, args.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Invalid(
            f"{args.host[:80]!r} is not an address of this machine", "use --host 127.0.0.1"
        ) from error
    # Ignore the interface name that an IPv6 address may end with.
    addresses = [ip_address(str(each[4][0]).partition("%")[0]) for each in found]
    return not all(address.is_loopback for address in addresses)


def _is_known_elsewhere(name: str) -> bool:
    """Return True if a URL or a host name is valid beyond this machine."""
    try:
        host = urlsplit(name if "://" in name else f"//{name}").hostname
        return host != "localhost" and not ip_address(host or "").is_loopback
    except ValueError:
        return True


def _store_of(address: str, args: Namespace, needs_token: bool) -> tuple[str, IssuedKey | None]:
    """Open the store once, so that errors are found before the server starts.

    Returns the address of the store, and the first key if one was requested and the store had none.

    Raises:
        Invalid: callers need a key, and the store has none.
    """
    store = Local(open_stores(address, None, args.blobs, agent=""))
    engine = store.stores.engine
    try:
        made = None
        valid = [key for key in _every_key(store) if is_valid(key, store.stores.now_ms())]
        if args.token == "auto" and not any(k.scope == "admin" and k.is_owners for k in valid):
            made = store.ask(NewKey(name="relay serve", scope="admin"))
        elif needs_token and not valid:
            raise Invalid(
                "a key is required, but the store has none",
                "start with --token auto, or create a key: relay keys new --scope admin",
            )
    finally:
        store.close()
    return str(engine.home or engine.address), made


def _every_key(store: Local) -> Iterator[Key]:
    listing = store.ask(ListKeys(LIST_ITEMS_MAX))
    yield from listing.keys
    while listing.next:
        listing = store.ask(ListKeys(LIST_ITEMS_MAX, listing.next))
        yield from listing.keys


def _kept(made: IssuedKey) -> StoredKey:
    return StoredKey(key=made.key, sha256=token_hash(made.token))


def _url(args: Namespace, port: int) -> str:
    if args.public_url:
        return args.public_url.rstrip("/")
    literal = f"[{args.host}]" if ":" in args.host else args.host
    return f"http://{_ANYWHERE.get(args.host, literal)}:{port}"


def _show_start(
    console: Console, args: Namespace, url: str, store: str, made: IssuedKey | None
) -> None:
    processes = display.count(args.workers, "process", "processes")
    answer = {"url": url, "store": store, "workers": args.workers, "pid": os.getpid()}
    lines = [f"{url}  serves {store}  {processes}; press Ctrl-C to stop"]
    plain = url
    if made is not None:
        answer["token"] = made.token
        lines.append(f"  admin key (not shown again): export CONTEXTRELAY_API_KEY={made.token}")
        plain = f"{url}\n{made.token}"
    elif args.token is not None:
        console.note("an admin key already exists; for another: relay keys new --scope admin")
    lines.append(
        f"  next: export CONTEXTRELAY_URL={url} · relay push FILE · relay subscribe CHANNEL"
    )
    console.answer(answer, lines, plain)


@arguments(
    arg(
        "--tools",
        default="",
        metavar="NAMES",
        help="list more tools: all, or threads, handoff, signals, project, artifacts",
    )
)
def mcp(args: Namespace, console: Console) -> None:
    """Run an MCP server on stdin and stdout until stdin is closed. Agents start this command.

    The store is set by --store, or else by CONTEXTRELAY_URL (a server, with CONTEXTRELAY_API_KEY),
    or RELAY_HOME; the default is ~/.relay. A running server also offers MCP over HTTP, at /mcp.
    """
    import_door("contextrelay.mcp.stdio", "MCP", "mcp").run(console.address, args.tools)
