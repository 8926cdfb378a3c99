"""Signals for models: send a message to a channel, and wait for the next ones."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct, to_builtins

from contextrelay import verbs
from contextrelay.limits import CHANNEL_CHARS_MAX, NUMBER_MAX, WAIT_S_DEFAULT, WAIT_S_MAX
from contextrelay.mcp.tools.tool import Answer, Tool, Visit, of_verb, untrusted, with_fields


class WaitForSignals(Struct, frozen=True, kw_only=True):
    channel: Annotated[str, Meta(min_length=1, max_length=CHANNEL_CHARS_MAX)]
    after: (
        Annotated[
            int,
            Meta(ge=0, le=NUMBER_MAX, description="The seq you have read up to; none: from now."),
        ]
        | None
    ) = None
    timeout_s: Annotated[
        float, Meta(ge=0, le=WAIT_S_MAX, description="How long to wait where there is none yet.")
    ] = WAIT_S_DEFAULT


async def _wait(visit: Visit, asked: WaitForSignals) -> Answer:
    async with visit.waiting(asked.timeout_s, "waiting for a signal"):
        page = await visit.relay.wait(asked.channel, asked.after, asked.timeout_s)
    signals: list[dict[str, Any]] = to_builtins(page.signals)
    for signal in signals:
        if signal.get("ref") is not None:
            signal["url"] = visit.relay.transport.url_of(signal["ref"])
    fields: dict[str, Any] = {"signals": signals}
    fields["head"] = page.signals[-1].seq if page.signals else page.head
    if page.gap is not None:
        fields["gap"] = f"signals {page.gap[0]} to {page.gap[1]} are no longer kept"
    return with_fields(fields | (untrusted("from", "message") if signals else {}))


TOOLS = (
    of_verb(
        "relay_publish",
        verbs.Publish,
        "Send a small message (any JSON value) to those who listen to a channel. For anything"
        " long, push_context with that channel instead: they then get its URL.",
        lambda signal: with_fields({"seq": signal.seq}),
    ),
    Tool(
        name="relay_wait",
        description=(
            "Wait for what is sent to a channel: messages, and URLs of what was pushed to it."
            " Returns at once if there is something after the seq you name, else when something"
            " comes or the time is up; wait again after head to miss nothing."
        ),
        takes=WaitForSignals,
        act=_wait,
        is_read_only=True,
    ),
)
