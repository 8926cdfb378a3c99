"""Signals: numbered entries of a channel. Each one announces a push or carries a message.

Rule: a signal carries a ref, never a URL and never a key.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from msgspec import Struct, field


class Signal(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One signal: the `ref` of a push, or a published `message`."""

    seq: int
    ts: int
    """When it was sent, in milliseconds since 1970."""
    by: str = field(name="from")
    ref: str | None = None
    message: Any = None
    """Any JSON value except null."""
    key: str = ""
    """For a message, the name of the sender's key, set by the store; `by` is only a label that the
    sender chose.
    """


class SignalPage(Struct, frozen=True, kw_only=True):
    """Signals of a channel after a given seq, in order, and the position of the channel; iterable.

    `gap`: the seqs, first to last inclusive, that came after that seq but are no longer kept;
    reading continues after the last. If first > last, the channel was deleted and starts over.
    """

    signals: list[Signal]
    head: int
    gap: tuple[int, int] | None = None

    def __iter__(self) -> Iterator[Signal]:
        return iter(self.signals)


class ChannelView(Struct, frozen=True, kw_only=True):
    """A channel: its name, and the seq of its newest signal."""

    name: str
    head: int
    last_at: datetime | None
    """When the newest signal was sent; None if no signal is kept."""


class ChannelListing(Struct, frozen=True, kw_only=True):
    """One page of channels, by name; `next` is "" on the last page."""

    channels: list[ChannelView]
    next: str = ""


class SentSignal(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A signal as the channel's log stores it; its seq is its position in the log.

    The writer chooses `id` so that, if the reply is lost, it can find out whether the write
    succeeded.
    """

    id: str
    ts: int
    by: str = field(name="from")
    ref: str | None = None
    message: Any = None
    key: str = ""
