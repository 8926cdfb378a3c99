"""Reports over HTTP: a thread to read, as text, as JSON, or as a page that runs nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeVar

from msgspec import Struct

from contextrelay.client.thread import Thread
from contextrelay.client.transport.local import Local, in_thread
from contextrelay.doors.http.routes.seed002.parsing import (
    ask_of,
    caller,
    check_there,
    fields_of,
    thread_of,
)
from contextrelay.doors.http.routes.send_artifact import UNTRUSTED
from contextrelay.doors.http.server.request import JSON, Exchange, Headers
from contextrelay.doors.report.contents import gather
from contextrelay.doors.report.markdown import as_json, markdown
from contextrelay.doors.report.page import POLICY, page
from contextrelay.wire.verbs import AddEvent, Label

if TYPE_CHECKING:
    from contextrelay.doors.http.app import Door
    from contextrelay.doors.http.server.router import Paths

Reply = TypeVar("Reply")

MARKDOWN = b"text/markdown; charset=utf-8"
HTML = b"text/html; charset=utf-8"


def add_to(paths: Paths) -> None:
    paths.add("POST", "/reports/{thread}", report)


class _Report(Struct, forbid_unknown_fields=True):
    format: Literal["md", "json", "html"] = "md"
    by: Label | None = None


async def report(door: Door, exchange: Exchange, values: dict[str, str]) -> None:
    """Write a thread down to read: state, decisions, artifacts, timeline, savings."""
    thread = thread_of(values)
    await check_there(exchange, thread)
    sent = await fields_of(exchange, _Report, AddEvent)
    here = _Here(Local(exchange.relay.stores), thread)
    version, media_type, more, text = await in_thread(lambda: _written(here, sent.format))
    event = AddEvent(
        thread,
        "report.generated",
        {"format": sent.format, "version": version},
        caller(exchange, sent.by),
    )
    await ask_of(door, exchange, thread, event)
    await exchange.reply(200, text, media_type, more)


class _Here(Thread):
    """A thread of this server's store, for what reads it in a thread of execution of its own."""

    def __init__(self, local: Local, thread: str) -> None:
        self.transport = local
        self.id = thread


def _written(thread: Thread, kind: str) -> tuple[int, bytes, Headers, bytes]:
    """A report: of which version, what it is, how a browser is to treat it, and its text."""
    gathered = gather(thread)
    if kind == "html":
        policy = f"sandbox; {POLICY}; frame-ancestors 'none'".encode()
        more = [(name, policy if name == _POLICY else value) for name, value in UNTRUSTED]
        return gathered.version, HTML, more, page(gathered).encode()
    if kind == "json":
        return gathered.version, JSON, UNTRUSTED, as_json(gathered).encode()
    return gathered.version, MARKDOWN, UNTRUSTED, markdown(gathered).encode()


_POLICY = b"content-security-policy"
