"""The console of one command: its relay, settings and output.

Rule: stdout carries only the answer, and stderr carries everything else. The answer is JSON with
--json, lines for people on a terminal, and bare text in a pipe. RELAY_OUTPUT=human|plain|json
overrides the detection of the terminal.
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
    """Import msgspec without importing typing_extensions, which takes a sixth of a short command's
    start-up time.

    msgspec uses three names of typing_extensions that `typing` has had since Python 3.11. It also
    works without the module, which imports `inspect` and its dependencies. Later imports find
    typing_extensions as usual.
    """
    if sys.modules.keys().isdisjoint(("msgspec", "typing_extensions")):
        missing: dict[str, None] = {"typing_extensions": None}
        sys.modules.update(missing)  # pyright: ignore[reportCallIssue, reportArgumentType]
        try:
            import msgspec  # noqa: F401  # pyright: ignore[reportUnusedImport]
        finally:
            del sys.modules["typing_extensions"]


class Console:
    """The output, settings and relay of one command."""

    def __init__(self) -> None:
        wanted = os.environ.get("RELAY_OUTPUT", "")
        self.is_json = wanted == "json"
        self.is_human = wanted == "human" or (not wanted and sys.stdout.isatty())
        self.has_color = (
            sys.stdout.isatty()
            and "NO_COLOR" not in os.environ
            and os.environ.get("TERM") != "dumb"
        )
        # Remove control sequences from text for people, as `Terminal` does.
        self._is_cleaned = wanted == "human" or sys.stdout.isatty()
        self.is_quiet = False
        self.store: str | None = None
        self.exit_code = 0
        self._relay: Relay | None = None
        self._store: Local | None = None
        self._others: dict[str, Relay] = {}

    def obey(self, args: Namespace | ExecOptions) -> None:
        """Apply the options that every command has, such as --json and --store.

        Raises:
            Invalid: an option has an empty value, for example from an unset shell variable.
        """
        for name in ("store", "thread", "name"):
            if getattr(args, name, None) == "":
                raise Invalid(f"--{name} is empty", "give it a value, or omit it")
        self.is_json = self.is_json or args.json
        self.is_quiet = args.quiet
        self.has_color = self.has_color and not args.no_color
        self.store = args.store

    @property
    def address(self) -> str | None:
        """Return the address of the relay from the options or CONTEXTRELAY_URL, or None for the
        default store.
        """
        return self.store or os.environ.get("CONTEXTRELAY_URL") or None

    @property
    def relay(self) -> Relay:
        """Return the relay, which is opened at the first use."""
        if self._relay is None:
            from contextrelay.client.relay import Relay

            self._relay = Relay(self.address)
        return self._relay

    @property
    def transport(self) -> Local | Remote:
        """Return the transport of the relay. For a local store, this does not import the rest of
        the client.
        """
        from contextrelay.client.transport.address import is_server

        if self._relay is not None or is_server(self.address):
            return self.relay.transport
        if self._store is None:
            from contextrelay.client.transport.local import Local, open_stores

            self._store = Local(open_stores(self.address, None))
        return self._store

    def existing_relay(self, timeout_s: float) -> Relay | None:
        """Return the relay if it is a server or if its store exists, otherwise None. No store is
        created.
        """
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
        """Return the relay that has a ref. For a URL of another server, this is that server, used
        without a key.

        Raises:
            Invalid: the text is not the URL of a server.
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
        """Return the address of a local store, or None for the default store, for commands that
        need its files.

        Raises:
            Invalid: the relay is a server.
        """
        from contextrelay.client.transport.address import is_server

        if is_server(self.address):
            raise Invalid(
                f"{what}, but {self.address} is a server",
                "run the command on the machine of the store, or name a folder: --store FOLDER",
            )
        return self.address

    def close(self) -> None:
        for each in (self._relay, self._store, *self._others.values()):
            if each is not None:
                each.close()

    # Output

    def answer(self, value: object, human: Iterable[str] | str, plain: str | None = None) -> None:
        """Print the answer in the selected format: the value as JSON, lines for people, or bare
        text.
        """
        if self.is_json:
            self.show(self._json(value))
        elif self.is_human or plain is None:
            self.show(human if isinstance(human, str) else "\n".join(human))
        else:
            self.show(plain)

    def confirm_write(self, value: object, text: str, plain: str) -> None:
        """Print the confirmation of a write, which names the thread. In a pipe, stdout has only the
        bare text, and stderr the confirmation.
        """
        if not self.is_human and not self.is_json:
            self.note(text)
        self.answer(value, text, plain)

    def show(self, text: str) -> None:
        if text:
            print(text, flush=True)

    def show_json(self, json: str) -> None:
        """Print an answer that is already JSON."""
        from msgspec import Raw

        self.show(self._json(Raw(json.encode())))

    def _json(self, value: object) -> str:
        """Return a value encoded as JSON. For people, characters that control a terminal are
        escaped.
        """
        from msgspec.json import encode

        json = encode(value).decode()
        if not self._is_cleaned:
            return json
        from contextrelay.content.untrusted.hidden_chars import escape_hidden

        return escape_hidden(json)

    def bold(self, text: str) -> str:
        return f"{BOLD}{text}{PLAIN}" if self.has_color else text

    def line(self, value: object, human: str) -> None:
        """Print one part of an answer that is printed line by line, as a JSON value or as a line
        for people.
        """
        print(self._json(value) if self.is_json else human, flush=True)

    def confirm(self, question: str, is_confirmed: bool) -> None:
        """Ask the user for confirmation, unless --yes was passed.

        Raises:
            Invalid: there is no terminal to ask on.
            RelayError: the user answered no.
        """
        if is_confirmed:
            return
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise Invalid(
                f"not confirmed: {question}",
                "cannot ask for confirmation without a terminal; pass --yes",
            )
        print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise RelayError("cancelled: nothing was changed", "answer y, or pass --yes")

    def note(self, text: str) -> None:
        """Write a line for people to stderr, unless --quiet was passed."""
        if not self.is_quiet:
            print(text, file=sys.stderr, flush=True)

    def fail(self, error: RelayError) -> None:
        """Write an error and its hint to stderr. Keys in the text are removed."""
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
        # Indent the further lines of a message, so that they cannot be mistaken for output of
        # Context Relay.
        message, hint = (text.replace("\n", "\n  ") for text in (message, hint))
        print(f"error: {message}", file=sys.stderr)
        if hint:
            print(f"  {hint}", file=sys.stderr)

    @property
    def _asks_a_server(self) -> bool:
        """Return True if the relay is a server that uses a relay key, not only a key of a model
        provider.
        """
        from contextrelay.client.transport.address import is_server

        return bool(self._others) or is_server(self.address)

    def busy(self, doing: str) -> Busy:
        """Return a context manager that shows on a terminal that long work is in progress."""
        return Busy(doing, self.is_quiet or not sys.stderr.isatty())


def _about_key() -> str:
    """Return the hint for a request that was refused because its key is missing or not
    sufficient.
    """
    from contextrelay.client.transport.address import KEY_VARIABLE, URL_VARIABLE

    if not os.environ.get(KEY_VARIABLE):
        return f"set {KEY_VARIABLE} to a key of this server"
    only = f" (it is sent to {URL_VARIABLE} only)" if os.environ.get(URL_VARIABLE) else ""
    return f"the key in {KEY_VARIABLE} does not allow this{only}"


class Busy:
    """A line on stderr that shows the elapsed seconds of long work, starting after one second."""

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
