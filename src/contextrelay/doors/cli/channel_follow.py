"""Read the signals of a channel as they come, also while the server is away for a time.

Rule: nothing is passed over in silence. A server that is lost, and a gap, are noted on stderr, and
reading goes on behind the last signal that was handled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from contextrelay.doors.cli.console import Console
from contextrelay.errors import Unavailable
from contextrelay.limits import RECONNECT_S_MAX, RECONNECT_S_MIN
from contextrelay.model.signal import Signal, SignalPage

Result = TypeVar("Result")


def follow(
    console: Console, channel: str, since: int | None, timeout_s: float | None
) -> Iterator[Signal]:
    """Signals after a seq (None: from now on), in order; ends after so long without one."""
    place = since
    if place is None:
        place = until_available(console, lambda: console.relay.signals(channel).head)
    console.note(f"listening to {channel}; Ctrl-C ends it")
    heard_s = time.monotonic()
    while True:
        deadline_s = None if timeout_s is None else heard_s + timeout_s
        page = _next_page(console, channel, place, deadline_s)
        if page is None:
            return
        if page.gap is not None:
            note_gap(console, channel, page.gap)
            place = page.gap[1]
        for signal in page.signals:
            yield signal
            place = signal.seq
        heard_s = time.monotonic()


def _next_page(
    console: Console, channel: str, place: int, deadline_s: float | None
) -> SignalPage | None:
    """The next signals; None when the time is up."""

    def wait() -> SignalPage:
        left_s = None if deadline_s is None else max(0.0, deadline_s - time.monotonic())
        return console.relay.wait(channel, place, left_s)

    while True:
        page = until_available(console, wait, deadline_s)
        if page.signals or page.gap is not None:
            return page
        if deadline_s is not None and time.monotonic() >= deadline_s:
            return None


def until_available(
    console: Console, act: Callable[[], Result], deadline_s: float | None = None
) -> Result:
    """Repeat a call that only reads until the relay answers.

    Raises:
        Unavailable: it did not until the deadline.
    """
    delay_s = float(RECONNECT_S_MIN)
    while True:
        try:
            return act()
        except Unavailable as error:
            if deadline_s is not None and time.monotonic() + delay_s >= deadline_s:
                raise
            console.note(f"{error.message}; trying again in {delay_s:g} s")
        time.sleep(delay_s)
        delay_s = min(2 * delay_s, RECONNECT_S_MAX)


def note_gap(console: Console, channel: str, gap: tuple[int, int]) -> None:
    """Note on stderr that some signals are no longer kept."""
    first, last = gap
    if first <= last:
        console.note(f"gap: signals {first} to {last} of {channel} are no longer kept")
    else:
        console.note(f"gap: {channel} was forgotten since {first - 1} and starts over")
