"""The console of one command: the relay it asks, and where its answer goes.

Rule: stdout carries the answer and nothing else; stderr carries the rest. The answer is JSON with
--json, made for people on a terminal, and bare when piped. RELAY_OUTPUT=human|plain|json decides
where the terminal cannot.
"""

from __future__ import annotations

import os
import sys

from contextrelay.cli.terminal import BOLD, ERASE, PLAIN, REDRAW
from contextrelay.errors import Forbidden, Invalid, RelayError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable

    from contextrelay.client.relay import Relay
    from contextrelay.client.transport.local import Local
    from contextrelay.client.transport.remote import Remote
    from contextrelay.runs.exec_start import ExecOptions


def load_msgspec() -> None:
    """Load msgspec without typing_extensions, a sixth of what a short command takes to start.

    msgspec takes three names from there that `typing` has since Python 3.11, and does without where
    it is missing; it loads `inspect` and all that reads Python. Others find it as ever afterwards.
    """
    if sys.modules.keys().isdisjoint(("msgspec", "typing_extensions")):
        missing: dict[str, None] = {"typing_extensions": None}
        sys.modules.update(missing)  # pyright: ignore[reportCallIssue, reportArgumentType]
        try:
            import msgspec  # noqa: F401  # pyright: ignore[reportUnusedImport]
        finally:
            del sys.modules["typing_extensions"]


class Console:
    """Output, settings and the relay of one command."""

    def __init__(self) -> None:
        wanted = os.environ.get("RELAY_OUTPUT", "")
        self.is_json = wanted == "json"
        self.is_human = wanted == "human" or (not wanted and sys.stdout.isatty())
        self.has_color = (
            sys.stdout.isatty()
            and "NO_COLOR" not in os.environ
            and os.environ.get("TERM") != "dumb"
        )
        # As `Terminal` does: what people are to see is without what acts on a terminal.
        self._is_cleaned = wanted == "human" or sys.stdout.isatty()
        self.is_quiet = False
        self.store: str | None = None
        self.exit_code = 0
        self._relay: Relay | None = None
        self._store: Local | None = None
        self._others: dict[str, Relay] = {}

    def obey(self, args: Namespace | ExecOptions) -> None:
        """Take the options that every command has.

        Raises:
            Invalid: something is named, and the name is empty, as of an unset variable.
        """
        for name in ("store", "thread", "name"):
            if getattr(args, name, None) == "":
                raise Invalid(f"--{name} is empty", "give it a value, or leave it out")
        self.is_json = self.is_json or args.json
        self.is_quiet = args.quiet
        self.has_color = self.has_color and not args.no_color
        self.store = args.store

    @property
    def address(self) -> str | None:
        """Where the relay is: as the option says, else CONTEXTRELAY_URL; None for the own store."""
        return self.store or os.environ.get("CONTEXTRELAY_URL") or None

    @property
    def relay(self) -> Relay:
        """The relay, opened when first asked for."""
        if self._relay is None:
            from contextrelay.client.relay import Relay

            self._relay = Relay(self.address)
        return self._relay

    @property
    def transport(self) -> Local | Remote:
        """What the relay is asked by; for a store it is opened without the rest of a client."""
        from contextrelay.client.transport.address import is_server

        if self._relay is not None or is_server(self.address):
            return self.relay.transport
        if self._store is None:
            from contextrelay.client.transport.local import Local, open_stores

            self._store = Local(open_stores(self.address, None))
        return self._store

    def existing_relay(self, timeout_s: float) -> Relay | None:
        """The relay, if it is a server or its store is there already; none is made."""
        from contextrelay.client.relay import Relay
        from contextrelay.client.transport.address import is_server
        from contextrelay.client.transport.local import default_address

        address = self.address
        if is_server(address):
            self._relay = Relay(address, timeout_s=timeout_s)
        elif ":" not in (folder := address or default_address()) and not os.path.isdir(
            os.path.expanduser(folder)
        ):
            return None
        return self.relay

    def relay_of(self, text: str) -> Relay:
        """The relay that a ref is read from: for the URL of another server that one, without a key.

        Raises:
            Invalid: it is no URL of a server.
        """
        if "/pull/" not in text:
            return self.relay
        from contextrelay.client.names import other_server
        from contextrelay.client.relay import Relay

        place = other_server(text, self.address)
        if place is None:
            return self.relay
        if place not in self._others:
            self._others[place] = Relay(place, api_key="")
        return self._others[place]

    def own_address(self, what: str) -> str | None:
        """The address of a store that is in reach of this machine, for what needs its files.

        Raises:
            Invalid: it is that of a server.
        """
        from contextrelay.client.transport.address import is_server

        if is_server(self.address):
            raise Invalid(
                f"{what}, and {self.address} is a server",
                "do it on the machine of the store, or name a folder: --store FOLDER",
            )
        return self.address

    def close(self) -> None:
        for each in (self._relay, self._store, *self._others.values()):
            if each is not None:
                each.close()

    # Output

    def answer(self, value: object, human: Iterable[str] | str, plain: str | None = None) -> None:
        """Give the answer in the form that is wanted: the value, lines for people, or bare text."""
        if self.is_json:
            self.show(self._json(value))
        elif self.is_human or plain is None:
            self.show(human if isinstance(human, str) else "\n".join(human))
        else:
            self.show(plain)

    def show(self, text: str) -> None:
        if text:
            print(text, flush=True)

    def show_json(self, json: str) -> None:
        """Give an answer that is JSON already."""
        from msgspec import Raw

        self.show(self._json(Raw(json.encode())))

    def _json(self, value: object) -> str:
        """A value as JSON; for people without a character that acts on a terminal."""
        from msgspec.json import encode

        json = encode(value).decode()
        if not self._is_cleaned:
            return json
        from contextrelay.content.untrusted.hidden_chars import escape_hidden

        return escape_hidden(json)

    def bold(self, text: str) -> str:
        return f"{BOLD}{text}{PLAIN}" if self.has_color else text

    def line(self, value: object, human: str) -> None:
        """Give one line of an answer that comes in lines: as JSON, or for people."""
        print(self._json(value) if self.is_json else human, flush=True)

    def confirm(self, question: str, is_said: bool) -> None:
        """Go on only if a person says yes, or has said so beforehand with --yes.

        Raises:
            Invalid: there is nobody to ask; RelayError where the answer is no.
        """
        if is_said:
            return
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise Invalid(f"not asked: {question}", "there is nobody to ask; say --yes")
        print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise RelayError("nothing was done", "say y, or --yes")

    def note(self, text: str) -> None:
        """Write a line for people to stderr, unless --quiet."""
        if not self.is_quiet:
            print(text, file=sys.stderr, flush=True)

    def fail(self, error: RelayError) -> None:
        """Write an error and its hint to stderr, without the keys that may be in them."""
        from contextrelay.seal.keys import hide_keys

        hint = error.hint
        if isinstance(error, Forbidden) and self._asks_a_server:
            hint = f"{_about_key()}; {hint}"
        message, hint = hide_keys(error.local_message), hide_keys(hint)
        if self.is_json:
            from msgspec.json import encode

            from contextrelay.content.untrusted.hidden_chars import escape_hidden

            problem = {"error": error.code, "message": message, "hint": hint}
            print(escape_hidden(encode({**error.details, **problem}).decode()), file=sys.stderr)
            return
        # Another line of a message is set in, so that it passes for nothing that we say.
        message, hint = (text.replace("\n", "\n  ") for text in (message, hint))
        print(f"error: {message}", file=sys.stderr)
        if hint:
            print(f"  {hint}", file=sys.stderr)

    @property
    def _asks_a_server(self) -> bool:
        """Whether a key can be that of a relay, and not only that of a model's provider."""
        from contextrelay.client.transport.address import is_server

        return bool(self._others) or is_server(self.address)

    def busy(self, doing: str) -> Busy:
        """Show on a terminal that long work goes on."""
        return Busy(doing, self.is_quiet or not sys.stderr.isatty())


def _about_key() -> str:
    """What to do about the key that a server refused, or was not sent."""
    from contextrelay.client.transport.address import KEY_VARIABLE, URL_VARIABLE

    if not os.environ.get(KEY_VARIABLE):
        return f"set {KEY_VARIABLE} to a key of this server"
    only = f" (it goes to {URL_VARIABLE} alone)" if os.environ.get(URL_VARIABLE) else ""
    return f"the key in {KEY_VARIABLE} is not good for this{only}"


class Busy:
    """A line on stderr that counts the seconds, from the first second on."""

    def __init__(self, doing: str, is_silent: bool) -> None:
        from threading import Event, Thread

        self._doing = doing
        self._done = Event()
        self._thread = None if is_silent else Thread(target=self._count, daemon=True)

    def __enter__(self) -> None:
        if self._thread is not None:
            self._thread.start()

    def __exit__(self, *ended: object) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()

    def _count(self) -> None:
        seconds = 0
        while not self._done.wait(1):
            seconds += 1
            print(f"{REDRAW}{self._doing} … {seconds} s", end="", file=sys.stderr, flush=True)
        if seconds:
            print(ERASE, end="", file=sys.stderr, flush=True)
