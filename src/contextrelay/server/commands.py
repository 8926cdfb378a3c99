"""serve and mcp: a relay server over HTTP, until a signal ends it, or MCP on stdin and stdout.

Rule: whatever can be wrong is found before it says that it listens.
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

from contextrelay.access import is_good
from contextrelay.cli import display
from contextrelay.cli.console import Console
from contextrelay.cli.parser import arg, takes, whole
from contextrelay.client.transport.local import Local, default_address, open_stores
from contextrelay.errors import Invalid, Unavailable
from contextrelay.limits import LIST_ITEMS_MAX, SERVER_WORKERS_MAX
from contextrelay.model.key import IssuedKey, KeptKey, Key, token_hash
from contextrelay.verbs import ListKeys, NewKey

PORT = 8787
_PORT_MAX = 65_535
_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}


port_number = whole(0, _PORT_MAX, f"is no port: take 1 to {_PORT_MAX}, or 0 for a free one")
_WORKERS = whole(
    1, SERVER_WORKERS_MAX, f"is no number of processes: take 1 to {SERVER_WORKERS_MAX}"
)


_SERVES = (
    arg("--host", default="127.0.0.1", help="where to listen (127.0.0.1)"),
    arg(
        "--port", type=port_number, default=PORT, help=f"the port ({PORT}); 0 for any that is free"
    ),
    arg("--public-url", default="", metavar="URL", help="how it is called, if not by its address"),
    arg(
        "--allow-host",
        action="append",
        default=[],
        metavar="HOST",
        help="another name that requests may call it by",
    ),
    arg(
        "--blobs",
        metavar="ADDRESS",
        help="where large bodies go: a folder, s3://bucket/prefix, gs:// or az://; said once",
    ),
    arg("--workers", type=_WORKERS, default=1, metavar="N", help="how many processes (1)"),
    arg("--require-token", action="store_true", help="ask for a key on this machine too"),
    arg(
        "--token",
        choices=("auto",),
        help="auto: make an admin key if there is none, and print its token once",
    ),
    arg(
        "--auth-server",
        action="append",
        default=[],
        metavar="URL",
        help="an identity provider whose tokens are taken, named to clients (RFC 9728)",
    ),
    arg(
        "--token-verifier",
        default="",
        metavar="MODULE:FUNCTION",
        help="what knows the tokens that are no keys of the store",
    ),
    arg(
        "--agent",
        action="append",
        default=[],
        metavar="NAME=KIND:WHAT",
        help="an agent to serve by A2A: cli:BIN, model:PROVIDER, py:MODULE:FUNCTION,"
        " bridge:CHANNEL; may be repeated",
    ),
    arg(
        "--grpc-port",
        type=port_number,
        metavar="PORT",
        help="serve the agents over gRPC there, too",
    ),
)


@takes(*_SERVES, arg("--a2a", action="store_true", help="serve agents by A2A, too"))
def serve(args: Namespace, console: Console) -> None:
    """Serve a store over HTTP until Ctrl-C or SIGTERM; what was begun is answered first.

    Prints its URL when it listens, with --json {"url", "store", "workers", "pid"}. The store is
    that of --store, else of RELAY_HOME, else ~/.relay: CONTEXTRELAY_URL is for those who ask.
    A caller beyond this machine needs a key, also one that comes by a proxy (--public-url,
    --allow-host): see relay keys new, or --token auto.
    """
    _serve(args, console, tuple(args.agent) if args.a2a or args.agent else None)


@takes(*_SERVES)
def a2a_serve(args: Namespace, console: Console) -> None:
    """Serve agents by A2A 1.0, and the store that their tasks are kept in, as relay serve does.

    Each has its card and its root under /a2a/NAME; the card of the first is also at the well-known
    place. Without --agent, tasks go to the agent behind relay bridge start.
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
        serving.application(options)  # Its names are checked before it is said to listen.
        store, made = _store_of(address, args, needs_token)
        first = None if made is None else _kept(made)
        options = replace(options, port=port, first_key=first)
        show = partial(_show_start, console, args, _url(args, port), store, made)
        serve_until_ended(serving, options, listener, show)


def serve_until_ended(
    serving: ModuleType, options: Any, listener: socket.socket, show: Callable[[], None]
) -> None:
    """Say by `show` that it listens, and serve until a signal ends it."""
    # A signal that comes before the server listens to them is kept until it does. The server
    # raises it once more when it has ended: that is ours, and the ordinary end.
    signal.pthread_sigmask(signal.SIG_BLOCK, serving.END_SIGNALS)
    for each in serving.END_SIGNALS:
        signal.signal(each, lambda number, frame: None)
    try:
        show()
        serving.run(options, listener)
    except SystemExit as ended:
        raise Unavailable("the server did not start", "see what it said") from ended


def _check_grpc(args: Namespace, agents: tuple[str, ...] | None) -> None:
    """Refuse a port for gRPC that nothing would be served on, or that nobody could know."""
    if agents is None:
        raise Invalid("only agents are served over gRPC", "name one: --a2a, or --agent NAME=...")
    if not args.grpc_port:
        raise Invalid("gRPC needs a port of its own", "name one: --grpc-port 8788")
    import_door("contextrelay.a2a.grpc_binding", "gRPC", "grpc")


def _store_address(args: Namespace, console: Console) -> str:
    address = console.store or default_address()
    if address.lower().startswith(("http://", "https://")):
        raise Invalid(f"{address} is a server already", "name a store to serve: --store FOLDER")
    if address.startswith("memory:") and args.workers > 1:
        raise Invalid(
            f"{args.workers} processes cannot share a store in memory",
            "use --workers 1, or a store that they share: --store FOLDER",
        )
    return address


def import_door(module: str, name: str, extra: str) -> ModuleType:
    """Import a door whose packages are an extra.

    Raises:
        Unavailable: they are not installed.
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
    """Whether it is to listen beyond this machine, or has a name there.

    Then somebody passes on to it what others ask, as a proxy does that speaks TLS.
    """
    if any(_is_known_elsewhere(each) for each in (args.public_url, *args.allow_host) if each):
        return True
    try:
        found = socket.getaddrinfo(args.host, args.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Invalid(
            f"{args.host[:80]!r} is no address of this machine", "take --host 127.0.0.1"
        ) from error
    # Without the name of an interface, which an IPv6 address may end with.
    addresses = [ip_address(str(each[4][0]).partition("%")[0]) for each in found]
    return not all(address.is_loopback for address in addresses)


def _is_known_elsewhere(name: str) -> bool:
    """Whether a URL or a host names more than this machine."""
    try:
        host = urlsplit(name if "://" in name else f"//{name}").hostname
        return host != "localhost" and not ip_address(host or "").is_loopback
    except ValueError:
        return True


def _store_of(address: str, args: Namespace, needs_token: bool) -> tuple[str, IssuedKey | None]:
    """Open the store once, so that what is wrong with it is found here.

    Where it is, and its first key, if one was wanted and there was none.

    Raises:
        Invalid: nobody has a key, and all who ask need one.
    """
    store = Local(open_stores(address, None, args.blobs))
    engine = store.stores.engine
    try:
        made = None
        valid = [key for key in _every_key(store) if is_good(key, store.stores.now_ms())]
        if args.token == "auto" and not any(k.scope == "admin" and k.is_owners for k in valid):
            made = store.ask(NewKey(name="relay serve", scope="admin"))
        elif needs_token and not valid:
            raise Invalid(
                "callers have to have a key, and nobody has one",
                "start it with --token auto, or make one: relay keys new --scope admin",
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


def _kept(made: IssuedKey) -> KeptKey:
    return KeptKey(key=made.key, sha256=token_hash(made.token))


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
    lines = [f"{url}  serves {store}  {processes}  Ctrl-C ends it"]
    plain = url
    if made is not None:
        answer["token"] = made.token
        lines.append(f"  its admin key, shown once: export CONTEXTRELAY_API_KEY={made.token}")
        plain = f"{url}\n{made.token}"
    elif args.token is not None:
        console.note("an admin key is there already; for another: relay keys new --scope admin")
    lines.append(
        f"  next: export CONTEXTRELAY_URL={url} · relay push FILE · relay subscribe CHANNEL"
    )
    console.answer(answer, lines, plain)


@takes(
    arg(
        "--tools",
        default="",
        metavar="NAMES",
        help="offer more tools: all, or threads, handoff, signals, project, artifacts",
    )
)
def mcp(args: Namespace, console: Console) -> None:
    """Serve MCP on stdin and stdout until stdin is closed; agents start this, not people.

    The store is that of --store, else of CONTEXTRELAY_URL (a server, with CONTEXTRELAY_API_KEY),
    else of RELAY_HOME, else ~/.relay. A running server has MCP over HTTP too, at /mcp.
    """
    import_door("contextrelay.mcp.stdio", "MCP", "mcp").run(console.address, args.tools)
