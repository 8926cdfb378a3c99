"""Rendering over HTTP: a thread as messages for a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.json import decode

from contextrelay.doors.http.routes.seed002.parsing import ask_of, check_there, fields_of, thread_of
from contextrelay.doors.http.routes.v1 import ask
from contextrelay.doors.http.server.request import Exchange
from contextrelay.errors import Gone, Invalid, NotFound
from contextrelay.limits import RENDERED_ARTIFACTS_MAX
from contextrelay.logic.untrusted.messages import as_openai
from contextrelay.model.artifact import Artifact
from contextrelay.model.thread import HeaderView, StateView
from contextrelay.wire.verbs import Peek, ReadHeader, ReadState

if TYPE_CHECKING:
    from contextrelay.doors.http.app import Door
    from contextrelay.doors.http.server.router import Paths


def add_to(paths: Paths) -> None:
    paths.add("POST", "/render/{thread}", render)


class _Render(Struct, forbid_unknown_fields=True):
    user: str | None = None


async def render(door: Door, exchange: Exchange, values: dict[str, str]) -> None:
    """A thread as messages: its header, then the previews of its last artifacts."""
    thread = thread_of(values)
    query = exchange.query()
    if query.keys() - {"format"} or query.get("format", "openai") != "openai":
        raise Invalid("it can be rendered only for openai", "send ?format=openai")
    if exchange.asks_first:
        await check_there(exchange, thread)
    sent = await fields_of(exchange, _Render, ReadState)
    state: StateView = await ask_of(door, exchange, thread, ReadState(thread))
    header: HeaderView = await ask_of(door, exchange, thread, ReadHeader(thread, state.version))
    refs = [each.ref for each in decode(state.state, type=_State).artifacts]
    shown = [await _described(door, exchange, ref) for ref in refs[-RENDERED_ARTIFACTS_MAX:]]
    await exchange.reply_json({"messages": as_openai(bytes(header.header), shown, sent.user)})


class _Named(Struct):
    ref: str


class _State(Struct):
    artifacts: list[_Named]


async def _described(door: Door, exchange: Exchange, ref: str) -> Artifact | tuple[str, str]:
    """An artifact, or what became of it."""
    try:
        return await ask(door, exchange, Peek(ref))
    except (Gone, NotFound) as error:
        return ref, error.message
