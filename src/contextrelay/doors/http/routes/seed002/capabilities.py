"""Capabilities over HTTP, as seed 002's clients invoke them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from contextrelay.doors.http.routes.seed002.parsing import ask_of, caller, fields_of, thread_of
from contextrelay.doors.http.routes.v1 import ask
from contextrelay.doors.http.server.request import Exchange
from contextrelay.errors import Invalid
from contextrelay.wire.verbs import Invoke, Label, ListCapabilities

if TYPE_CHECKING:
    from contextrelay.doors.http.app import Door
    from contextrelay.doors.http.server.router import Paths


def add_to(paths: Paths) -> None:
    paths.add("POST", "/cap/invoke", invoke)
    paths.add("GET", "/cap/list", list_capabilities)


class _Invoke(Struct, forbid_unknown_fields=True):
    capability: Label | None = None
    name: Label | None = None
    args: dict[str, Any] = {}
    thread_id: str | None = None
    by: Label | None = None
    is_cached: bool = True


async def invoke(door: Door, exchange: Exchange, values: dict[str, str]) -> None:
    """Run a capability, or take its cached result."""
    sent = await fields_of(exchange, _Invoke, Invoke)
    name = sent.capability or sent.name
    if name is None or sent.name not in (None, name):
        raise Invalid("it is not said which capability", "send its name as capability")
    thread = None if sent.thread_id is None else thread_of({"thread": sent.thread_id})
    verb = Invoke(name, sent.args, thread, caller(exchange, sent.by), sent.is_cached)
    if thread is None:
        await exchange.reply_json(await ask(door, exchange, verb))
    else:
        await exchange.reply_json(await ask_of(door, exchange, thread, verb))


async def list_capabilities(door: Door, exchange: Exchange, values: dict[str, str]) -> None:
    """What can be invoked by name, with the arguments each takes."""
    await exchange.reply_json(await ask(door, exchange, ListCapabilities()))
