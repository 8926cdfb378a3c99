"""subscribe, publish, channels, wait: send and receive signals.

Rule: each signal is printed as one line. A message never becomes part of a command line: CMD gets
the message on stdin and in environment variables. No signal is skipped silently: if the server is
lost or signals are missing, this is reported on stderr, and reading continues after the last
signal that was handled.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from shutil import copyfileobj
from tempfile import SpooledTemporaryFile
from typing import IO, Any, TypeVar

from msgspec import Raw
from msgspec.json import encode

from contextrelay.cli import display
from contextrelay.cli.console import Console
from contextrelay.cli.parser import (
    PAGE,
    arg,
    arguments,
    author_option,
    integer_between,
    one_of,
    seconds,
)
from contextrelay.content.untrusted.hidden_chars import spell_hidden
from contextrelay.errors import Gone, Invalid, NotFound, RelayError, Sealed, TooLarge, Unavailable
from contextrelay.limits import (
    HELD_BODY_BYTES_MAX,
    MESSAGE_BYTES_MAX,
    NUMBER_MAX,
    RECONNECT_S_MAX,
    RECONNECT_S_MIN,
    WAIT_S_DEFAULT,
)
from contextrelay.model.signal import Signal, SignalPage

Result = TypeVar("Result")

NOTHING_CAME = NotFound.exit_code
_VARIABLES = ("URL", "REF", "CHANNEL", "SEQ", "FROM", "MESSAGE")


_SEQ = integer_between(
    0, NUMBER_MAX, "is not a valid seq: use a number, or 0 for all stored signals"
)
_LISTEN = (
    arg("channel", metavar="CHANNEL"),
    arg(
        "--since",
        type=_SEQ,
        metavar="SEQ",
        help="start after the signal with this number (default: only new signals)",
    ),
)


# Publishing


@arguments(
    arg("channel", metavar="CHANNEL"),
    arg("message", metavar="MESSAGE", help="text of the message; - reads it from stdin"),
    author_option("name of the sender (default: RELAY_AGENT, or you)"),
)
def publish(args: Namespace, console: Console) -> None:
    """Send a message to a channel and print the sequence number of the signal."""
    message = _from_stdin() if args.message == "-" else args.message
    signal = console.relay.publish(args.channel, message, args.by)
    sent = f"{signal.seq}  {display.size(len(message.encode()))} to {display.clean(args.channel)}"
    heard = f"  read it: relay subscribe {display.clean(args.channel)} --since {signal.seq - 1}"
    console.answer(signal, [sent, heard], str(signal.seq))


def _from_stdin() -> str:
    sent = sys.stdin.buffer.read(MESSAGE_BYTES_MAX + 1)
    if len(sent) > MESSAGE_BYTES_MAX:
        raise TooLarge(
            f"message too large: the limit is {MESSAGE_BYTES_MAX} bytes",
            "push it instead: relay push --channel CHANNEL",
        )
    try:
        return sent.decode()
    except UnicodeDecodeError as error:
        raise Invalid(
            "message is not valid UTF-8", "push it instead: relay push --channel CHANNEL"
        ) from error


# Subscribing


@arguments(
    *_LISTEN,
    one_of(
        arg(
            "--pull", action="store_true", help="print the content of each push instead of the URL"
        ),
        arg(
            "--exec",
            metavar="CMD",
            help="run a command for each signal, with the pushed content on stdin",
        ),
    ),
    arg("--once", action="store_true", help="stop after the first signal"),
    arg(
        "--timeout",
        type=seconds,
        metavar="S",
        help="stop after this number of seconds without a signal",
    ),
)
def subscribe(args: Namespace, console: Console) -> None:
    """Print the signals of a channel, one per line, until Ctrl-C.

    In a pipe, a line is the URL of a push, or a message: a message of one line is printed as text,
    any other message as JSON. With --json, each line is an object {"seq", "ts", "from", "url" or
    "message"}; --pull adds the body as "data", or as "base64" if the body is not text.

    With --exec, a shell runs CMD for each signal, with the body of a push on stdin and RELAY_URL,
    RELAY_REF, RELAY_CHANNEL, RELAY_SEQ, RELAY_FROM and RELAY_MESSAGE in its environment. If CMD
    fails, the failure is reported and the next signal is awaited.

    If the server is lost, requests are retried after 1, 2, 4 ... 60 seconds, and no signal is
    missed. With --once, the exit code is 3 if no signal came within --timeout, and 1 if CMD failed.
    """
    for signal in _follow(console, args.channel, args.since, args.timeout):
        try:
            _handle(args, console, signal)
        except (NotFound, Gone, Sealed) as error:
            if args.once:
                raise
            console.note(f"{signal.seq}: {error.message}")
        if args.once:
            return
    if args.once:
        console.note(f"no signal within {args.timeout:g} s")
        console.exit_code = NOTHING_CAME


def _handle(args: Namespace, console: Console, signal: Signal) -> None:
    if args.exec is not None:
        _run(args, console, signal)
    elif args.pull and signal.ref is not None:
        with _body(console, signal.ref) as body:
            _print_body(console, signal, body)
    else:
        _print(console, signal)


def _fields(console: Console, signal: Signal) -> dict[str, Any]:
    """Return a signal as the object that --json prints."""
    fields: dict[str, Any] = {"seq": signal.seq, "ts": signal.ts, "from": signal.by}
    if signal.ref is None:
        return {**fields, "message": signal.message}
    return {**fields, "url": console.relay.transport.url_of(signal.ref)}


def _print(console: Console, signal: Signal) -> None:
    fields = _fields(console, signal)
    text = fields["url"] if "url" in fields else _text_of(signal.message)
    if console.is_human:
        at = datetime.fromtimestamp(signal.ts / 1000, UTC).astimezone()
        who = display.author(signal.by)
        text = f"{signal.seq:>5}  {at:%H:%M:%S}  {who:10}  {spell_hidden(text)}"
    console.line(fields, text)


def _text_of(message: object) -> str:
    """Return a message as one line of text: JSON, unless the message is a one-line string."""
    if isinstance(message, str) and message.isprintable():
        return message
    return encode(message).decode()


def _body(console: Console, ref: str) -> IO[bytes]:
    """Return the body of a push as an open file. The body is read completely before it is used."""

    def fetch() -> IO[bytes]:
        body = SpooledTemporaryFile(HELD_BODY_BYTES_MAX)  # noqa: SIM115
        try:
            for chunk in console.relay.stream(ref):
                body.write(chunk)
        except BaseException:
            body.close()
            raise
        body.seek(0)
        return body

    return _until_available(console, fetch)


def _print_body(console: Console, signal: Signal, body: IO[bytes]) -> None:
    if console.is_json:
        fields = {**_fields(console, signal), **_as_json(body.read())}
        console.line(fields, "")
        return
    sys.stdout.flush()
    copyfileobj(body, sys.stdout.buffer)
    if console.is_human:
        sys.stdout.buffer.write(b"\n")
    sys.stdout.buffer.flush()


def _as_json(body: bytes) -> dict[str, object]:
    try:
        return {"data": body.decode()}
    except UnicodeDecodeError:
        return {"base64": Raw(encode(body))}


# Following a channel, with retries while the server is away


def _follow(
    console: Console, channel: str, since: int | None, timeout_s: float | None
) -> Iterator[Signal]:
    """Yield the signals after a sequence number, or only new signals if it is None.

    The iterator ends when no signal came for `timeout_s` seconds.
    """
    place = since
    if place is None:
        place = _until_available(console, lambda: console.relay.signals(channel).head)
    console.note(f"listening to {channel}; press Ctrl-C to stop")
    heard_s = time.monotonic()
    while True:
        deadline_s = None if timeout_s is None else heard_s + timeout_s
        page = _next_page(console, channel, place, deadline_s)
        if page is None:
            return
        if page.gap is not None:
            _note_gap(console, channel, page.gap)
            place = page.gap[1]
        for signal in page.signals:
            yield signal
            place = signal.seq
        heard_s = time.monotonic()


def _next_page(
    console: Console, channel: str, place: int, deadline_s: float | None
) -> SignalPage | None:
    """Return the next page of signals, or None if the deadline passed."""

    def wait() -> SignalPage:
        left_s = None if deadline_s is None else max(0.0, deadline_s - time.monotonic())
        return console.relay.wait(channel, place, left_s)

    while True:
        page = _until_available(console, wait, deadline_s)
        if page.signals or page.gap is not None:
            return page
        if deadline_s is not None and time.monotonic() >= deadline_s:
            return None


def _until_available(
    console: Console, act: Callable[[], Result], deadline_s: float | None = None
) -> Result:
    """Retry a read-only call until the relay answers, and return the result.

    Raises:
        Unavailable: the deadline passed first.
    """
    delay_s = float(RECONNECT_S_MIN)
    while True:
        try:
            return act()
        except Unavailable as error:
            if deadline_s is not None and time.monotonic() + delay_s >= deadline_s:
                raise
            console.note(f"{error.message}; retrying in {delay_s:g} s")
        time.sleep(delay_s)
        delay_s = min(2 * delay_s, RECONNECT_S_MAX)


def _note_gap(console: Console, channel: str, gap: tuple[int, int]) -> None:
    """Report on stderr that some signals are no longer stored."""
    first, last = gap
    if first <= last:
        console.note(f"gap: signals {first} to {last} of {channel} are no longer stored")
    else:
        console.note(f"gap: {channel} was deleted after signal {first - 1} and starts over")


# Running a command


def _run(args: Namespace, console: Console, signal: Signal) -> None:
    env = _environment(console, args.channel, signal)
    sys.stdout.flush()
    if signal.ref is None:
        code = _ended(args.exec, env, subprocess.DEVNULL)
    else:
        with _body(console, signal.ref) as body:
            code = _ended(args.exec, env, body)
    if code:
        how = f"was killed by signal {-code}" if code < 0 else f"exited with {code}"
        console.note(f"{signal.seq}: the command {how}")
        if args.once:
            console.exit_code = RelayError.exit_code


def _ended(command: str, env: dict[str, str], stdin: IO[bytes] | int) -> int:
    """Run a shell command and return its exit code."""
    try:
        return subprocess.run(command, shell=True, env=env, stdin=stdin, check=False).returncode
    except OSError as error:
        raise Invalid(f"cannot run the command: {error.strerror}", "check --exec") from error


def _environment(console: Console, channel: str, signal: Signal) -> dict[str, str]:
    names = {f"RELAY_{name}" for name in _VARIABLES}
    env = {name: value for name, value in os.environ.items() if name not in names}
    env |= {"RELAY_CHANNEL": channel, "RELAY_SEQ": str(signal.seq), "RELAY_FROM": signal.by}
    if signal.ref is not None:
        env |= {"RELAY_REF": signal.ref, "RELAY_URL": console.relay.transport.url_of(signal.ref)}
    elif isinstance(signal.message, str):
        env["RELAY_MESSAGE"] = signal.message
    else:
        env["RELAY_MESSAGE"] = encode(signal.message).decode()
    # An environment variable cannot contain a zero byte.
    return {name: value.replace("\0", "\\0") for name, value in env.items()}


# Waiting and listing


@arguments(
    *_LISTEN,
    arg(
        "--timeout",
        type=seconds,
        default=float(WAIT_S_DEFAULT),
        metavar="S",
        help=f"time limit in seconds (default: {WAIT_S_DEFAULT})",
    ),
)
def wait(args: Namespace, console: Console) -> None:
    """Wait once for signals and print them as `relay subscribe` does; exit 3 if none came.

    With --json, print {"signals", "head", "gap"}. Pass HEAD to --since to wait for later signals.
    """
    page = console.relay.wait(args.channel, args.since, args.timeout)
    if console.is_json:
        fields = [_fields(console, signal) for signal in page.signals]
        console.answer({"signals": fields, "head": page.head, "gap": page.gap}, "")
    else:
        for signal in page.signals:
            _print(console, signal)
    if page.gap is not None:
        _note_gap(console, args.channel, page.gap)
    if not page.signals and page.gap is None:
        console.note(f"no signal within {args.timeout:g} s; next: --since {page.head}")
        console.exit_code = NOTHING_CAME


@arguments(*PAGE)
def channels(args: Namespace, console: Console) -> None:
    """List channels by name, each with the number of signals sent so far and the time of the last
    one.
    """
    listing = console.relay.channels(args.limit, args.after)
    names = [display.clean(each.name) for each in listing.channels]
    width = max(map(len, names), default=0)
    lines = [
        f"{name:{width}}  {each.head:>8,}  {display.age(each.last_at) if each.last_at else '–'}"
        for name, each in zip(names, listing.channels, strict=True)
    ]
    if not lines:
        lines = ["no channels yet", "  next: relay publish CHANNEL MESSAGE"]
    elif listing.next:
        lines.append(f"  more: relay channels --after {display.quoted(listing.next)}")
    console.answer(listing, lines, "\n".join(each.name for each in listing.channels))
