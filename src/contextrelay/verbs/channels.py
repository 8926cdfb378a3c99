"""Channels: publish and read signals."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from contextrelay.limits import CHANNEL_CHARS_MAX, LIST_ITEMS_MAX
from contextrelay.model.signal import ChannelListing, Signal, SignalPage
from contextrelay.verbs.verb import (
    Author,
    Channel,
    Index,
    Traits,
    Verb,
)


class Publish(Verb[Signal], frozen=True):
    """Publish a message on a channel. A message is any JSON value except null; no artifact is
    stored.
    """

    traits = Traits(
        needs="write",
        answered_in="channels",
        http="POST /v1/channels/{channel}",
        status=201,
        keyed=True,
        sweeps=True,
        fails=(409,),
    )

    channel: Channel
    message: Any
    by: Author = ""


class ReadSignals(Verb[SignalPage], frozen=True):
    """Read the signals of a channel that come after a seq, in order. If `after` is None, only the
    newest seq is returned, without signals.
    """

    traits = Traits(
        needs="read",
        answered_in="channels",
        http="GET /v1/channels/{channel}",
        inline=True,
        waits=True,
    )

    channel: Channel
    after: Index | None = None
    limit: Annotated[int, Meta(ge=1, le=LIST_ITEMS_MAX)] = 100


class ListChannels(Verb[ChannelListing], frozen=True):
    """List channels by name. To get the next page, pass `next` of the previous page as `after`."""

    traits = Traits(needs="read", answered_in="channels", http="GET /v1/channels")

    limit: Annotated[int, Meta(ge=1, le=LIST_ITEMS_MAX)] = 20
    after: Annotated[str, Meta(max_length=CHANNEL_CHARS_MAX)] = ""
