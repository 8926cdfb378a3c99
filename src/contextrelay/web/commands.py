"""ui: show the web page of a store or of a server, until Ctrl-C."""

from __future__ import annotations

import os
import socket
import sys
import threading
from argparse import Namespace
from functools import partial
from secrets import token_urlsafe

from msgspec.structs import replace

from contextrelay.cli.console import Console
from contextrelay.cli.parser import arg, arguments
from contextrelay.client.relay import Relay
from contextrelay.client.transport.address import is_server
from contextrelay.client.transport.local import default_address
from contextrelay.server.commands import import_door, port_number, serve_until_ended
from contextrelay.web.entry import PageOptions

_CODE_BYTES = 24


@arguments(
    arg("--port", type=port_number, default=0, help="port to listen on (default: any free port)"),
    arg("--no-open", action="store_true", help="print the address without opening a browser"),
)
def ui(args: Namespace, console: Console) -> None:
    """Show threads, artifacts, channels, runs and savings in a browser, until Ctrl-C.

    The page listens on this machine only. The printed address (with --json: {"url", "store",
    "pid"}) works once, for the first person who opens it, so keep it secret. The store is set by
    --store, or else by CONTEXTRELAY_URL (a server, with CONTEXTRELAY_API_KEY), or RELAY_HOME; the
    default is ~/.relay. In the folder of a project, the page has the board of that project.
    """
    import_door("uvloop", "the page", "server")
    import_door("jinja2", "the page", "server")
    serving = import_door("contextrelay.server.serve", "the page", "server")
    address = console.address or default_address()
    with Relay(address) as relay:
        relay.threads(1)  # This call fails now if the store cannot be read.
    remote = address if is_server(address) else ""
    code = token_urlsafe(_CODE_BYTES)
    page = PageOptions(code=code, remote=remote, folder=os.getcwd(), address=address)
    serving.quiet_logs()
    options = serving.ServeOptions(
        store="memory:" if remote else address, port=args.port, needs_token=True, page=page
    )
    listener: socket.socket = serving.listen(options)
    with listener:
        port: int = listener.getsockname()[1]
        options = replace(options, port=port)
        url = f"http://127.0.0.1:{port}/ui/#code={code}"
        show = partial(_show_start, console, url, address, not args.no_open)
        serve_until_ended(serving, options, listener, show)


def _show_start(console: Console, url: str, address: str, may_open: bool) -> None:
    answer = {"url": url, "store": address, "pid": os.getpid()}
    lines = [
        f"{url}  shows {address}; press Ctrl-C to stop",
        "  the address works once: open it yourself",
    ]
    console.answer(answer, lines, url)
    if may_open and console.is_human and not console.is_json and _has_browser():
        # Some browser commands do not return until the browser is closed.
        threading.Thread(target=_open, args=(url,), daemon=True).start()


def _has_browser() -> bool:
    """Return True if there is a graphical display. Without one, a text browser would take over the
    terminal.
    """
    return sys.platform == "darwin" or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    )


def _open(url: str) -> None:
    import webbrowser

    webbrowser.open(url)
