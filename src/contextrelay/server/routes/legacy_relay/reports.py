"""Report and message routes of seed 002: a thread as a stored report, or as messages."""

from __future__ import annotations

from typing import TypeVar

from msgspec import Struct
from msgspec.json import decode

from contextrelay.client.flow import in_thread
from contextrelay.client.thread import Thread
from contextrelay.client.transport.local import Local
from contextrelay.content.untrusted.fence import as_openai
from contextrelay.errors import Gone, NotFound
from contextrelay.limits import RENDERED_ARTIFACTS_MAX
from contextrelay.model.artifact import Artifact
from contextrelay.model.thread import HeaderView, StateView, Stats
from contextrelay.report.markdown import as_json, markdown
from contextrelay.report.page import page, read_report
from contextrelay.server.request import Exchange
from contextrelay.server.router import WRITES, Endpoint
from contextrelay.server.routes.legacy_relay.bodies import (
    RenderBody,
    Rendered,
    RenderQuery,
    ReportBody,
    ThreadReport,
    TokenSavings,
)
from contextrelay.server.routes.legacy_relay.parsing import (
    ask_of,
    caller,
    check_there,
    fields_of,
    query_of,
    thread_of,
)
from contextrelay.server.routes.v1 import ask
from contextrelay.verbs import Peek, PutReport, ReadHeader, ReadState

Reply = TypeVar("Reply")

# Reports


async def report(exchange: Exchange) -> None:
    """Store a report of a thread as an artifact: state, decisions, artifacts, timeline, savings."""
    thread = thread_of(exchange)
    await check_there(exchange, thread)
    sent = await fields_of(exchange, ReportBody, PutReport)
    here = _ServerThread(exchange.relay.blocking(), thread)
    text, stats = await in_thread(lambda: _written(here, sent.format))
    verb = PutReport(thread, sent.format, caller(exchange, sent.by))
    artifact: Artifact = await ask_of(exchange, thread, verb, text)
    savings = TokenSavings(stats.naive_tokens, stats.actual_tokens, stats.tokens_avoided)
    await exchange.reply_json(
        ThreadReport(artifact.ref, sent.format, artifact.size_bytes, thread, savings)
    )


class _ServerThread(Thread):
    """A thread of this server's store, for code that runs in a separate operating system thread."""

    def __init__(self, local: Local, thread: str) -> None:
        self.transport = local
        self.id = thread


def _written(thread: Thread, form: str) -> tuple[bytes, Stats]:
    gathered = read_report(thread)
    write = {"md": markdown, "json": as_json, "html": page}[form]
    return write(gathered).encode(), gathered.savings


# Messages


async def render(exchange: Exchange) -> None:
    """Return a thread as messages for a model: its header, then the previews of its last artifacts.

    With `fenced=1` each preview is fenced and labelled as untrusted data.
    """
    thread = thread_of(exchange)
    query = query_of(exchange, RenderQuery)
    if exchange.asks_first:
        await check_there(exchange, thread)
    sent = await fields_of(exchange, RenderBody, ReadState)
    state: StateView = await ask_of(exchange, thread, ReadState(thread))
    header: HeaderView = await ask_of(exchange, thread, ReadHeader(thread, state.version))
    refs = [each.ref for each in decode(state.state, type=_State).artifacts]
    shown = [await _described(exchange, ref) for ref in refs[-RENDERED_ARTIFACTS_MAX:]]
    messages = as_openai(bytes(header.header), shown, sent.user, query.fenced == "1")
    await exchange.reply_json(Rendered(thread, query.format, header.truncated, messages))


class _Named(Struct):
    ref: str


class _State(Struct):
    artifacts: list[_Named]


async def _described(exchange: Exchange, ref: str) -> Artifact | tuple[str, str]:
    """Return an artifact, or its ref and the error text if it is missing."""
    try:
        return await ask(exchange, Peek(ref))
    except (Gone, NotFound) as error:
        return ref, error.message


ENDPOINTS = [
    Endpoint(
        http="POST /reports/{thread}",
        handler=report,
        takes=ReportBody,
        gives=ThreadReport,
        headers=WRITES,
        fails=(402, 409),
    ),
    Endpoint(
        http="POST /render/{thread}",
        handler=render,
        query=RenderQuery,
        takes=RenderBody,
        gives=Rendered,
    ),
]
