"""Resources: artifacts as `ctx://<ref>`, parts of artifacts, states of threads, and channels.

Rule: a read returns a limited number of bytes. A larger read is refused with a hint on how to read
parts. This module does not depend on the SDK.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime
from urllib.parse import unquote

from msgspec import Struct
from msgspec.json import encode

from contextrelay.client.names import SCHEME
from contextrelay.content.untrusted.fence import defused_json, fenced_piece, plain_line
from contextrelay.errors import NotFound, TooLarge
from contextrelay.limits import MCP_RESOURCE_BYTES_MAX, MCP_TOKENS_MAX, SUMMARY_CHARS_MAX
from contextrelay.mcp.tools import tool
from contextrelay.mcp.tools.tool import ToolVisit, untrusted
from contextrelay.model.artifact import Artifact
from contextrelay.model.ref import REF_PATTERN
from contextrelay.model.thread import HeaderView
from contextrelay.verbs import Outline, Pull, ReadHeader, ReadSignals, ReadState, Slice

JSON = "application/json"
TEXT = "text/plain"
_REF = REF_PATTERN[1:-1]
_ARTIFACT = re.compile(
    rf"{SCHEME}(?P<ref>{_REF})"
    r"(?:/(?P<way>outline|(?:bytes|lines)/(?P<start>\d{1,15})-(?P<stop>\d{1,15})))?"
)
_HEADER = re.compile(rf"{SCHEME}thread/(?P<thread>{_REF})/header")
_STATE = re.compile(rf"{SCHEME}thread/(?P<thread>{_REF})/state/(?P<version>\d{{1,15}})")
_CHANNEL = re.compile(rf"{SCHEME}channel/(?P<channel>[^/?#\s]{{1,768}})")
_SIGNALS = 20
_LISTED = 50
_LISTED_THREADS = 20


class ListedResource(Struct, frozen=True):
    """A resource as an entry of a list."""

    uri: str
    name: str
    description: str
    media_type: str
    size_bytes: int | None = None


_BYTES = f"Bytes start to stop (exclusive), at most {MCP_RESOURCE_BYTES_MAX:,}."
_LINES = "Lines start to stop (exclusive), from 1; at most 8,000 tokens."
_LAST = f"The last {_SIGNALS} signals of a channel; can be subscribed to."
_SUMMARY = "A bounded summary of a thread's state; can be subscribed to."
_OUTLINE = "Its structure: headings, symbols, keys or columns, with their places."
TEMPLATES = tuple(
    ListedResource(f"{SCHEME}{path}", name, description, media_type)
    for path, name, description, media_type in (
        ("{ref}", "artifact", "The bytes of an artifact, by its ref.", ""),
        ("{ref}/bytes/{start}-{stop}", "part of an artifact", _BYTES, ""),
        ("{ref}/outline", "outline of an artifact", _OUTLINE, TEXT),
        ("{ref}/lines/{start}-{stop}", "lines of an artifact", _LINES, TEXT),
        ("thread/{thread}/header", "header of a thread", _SUMMARY, JSON),
        ("channel/{channel}", "signals of a channel", _LAST, JSON),
        (
            *("thread/{thread}/state/{version}", "state of a thread"),
            *("The whole state of a thread at a version.", JSON),
        ),
    )
)


class Contents(Struct, frozen=True):
    """The content that a read of a resource returns."""

    body: str | bytes
    media_type: str
    fresh_ms: int = 0
    """Milliseconds for which the content may be cached; 0 if it may change."""


def of_artifact(artifact: Artifact) -> ListedResource:
    """Return the list entry of an artifact."""
    summary = artifact.metadata.get("summary")
    text = f"{artifact.type}, {artifact.size_bytes:,} bytes"
    text = plain_line(summary[:SUMMARY_CHARS_MAX]) if isinstance(summary, str) else text
    name = plain_line(artifact.name) if artifact.name else artifact.ref
    return ListedResource(
        SCHEME + artifact.ref, name, text, artifact.media_type, artifact.size_bytes
    )


async def listed(visit: ToolVisit, after: str) -> tuple[list[ListedResource], str]:
    """Return a page of resources, newest first, and the next cursor. Threads are on page one."""
    entries: list[ListedResource] = []
    if not after:
        for view in (await visit.relay.threads(_LISTED_THREADS)).threads:
            uri = f"{SCHEME}thread/{view.thread_id}/header"
            name = plain_line(view.name) if view.name else view.thread_id
            entries.append(ListedResource(uri, name, f"state at version {view.version}", JSON))
    found = await visit.relay.list(_LISTED, after)
    return entries + [of_artifact(each) for each in found.artifacts], found.next


def labelled_header(view: HeaderView) -> str:
    """Return the header of a thread for a model: defused, with a label for untrusted text."""
    return _labelled(bytes(view.header))


def _labelled(document: bytes) -> str:
    text = defused_json(document).decode()
    label = encode(untrusted("texts in it")).decode()
    return f"{text[:-1]},{label[1:]}"


def header_of(uri: str) -> str | None:
    """Return the thread id of a header URI, or None."""
    match = _HEADER.fullmatch(uri)
    return match["thread"] if match else None


def channel_of(uri: str) -> str | None:
    """Return the channel name of a channel URI, or None."""
    match = _CHANNEL.fullmatch(uri)
    return unquote(match["channel"]) if match else None


async def read(visit: ToolVisit, uri: str) -> Contents:
    """Return the content of a resource, as text or as bytes.

    Raises:
        NotFound: no resource has this URI.
        TooLarge: the resource is larger than one read may return.
    """
    ask = visit.relay.transport.ask
    if (thread := header_of(uri)) is not None:
        return Contents(labelled_header(await ask(ReadHeader(thread))), JSON)
    if (channel := channel_of(uri)) is not None:
        head = (await ask(ReadSignals(channel, limit=1))).head
        page = await ask(ReadSignals(channel, max(0, head - _SIGNALS), _SIGNALS))
        return Contents(_labelled(encode(page)), JSON)
    if match := _STATE.fullmatch(uri):
        view = await ask(ReadState(match["thread"], int(match["version"])))
        state = _labelled(bytes(view.state))
        if len(state) > MCP_RESOURCE_BYTES_MAX:
            problem = f"the state has {len(state):,} characters, more than one read returns"
            hint = f"read the header: {SCHEME}thread/{view.thread_id}/header"
            raise TooLarge(problem, hint)
        return Contents(state, JSON, _FRESH_MS)
    match = _ARTIFACT.fullmatch(uri)
    if match is None:
        known = ", ".join(each.uri.replace("{", "<").replace("}", ">") for each in TEMPLATES)
        raise NotFound(f"resource not found: {uri[:120]!r}", f"valid URIs: {known}")
    named = await tool.artifact_of(visit, match["ref"])
    artifact = await visit.relay.peek(named.ref, shown_chars=0)
    source, way = named.ref[:8], match["way"] or ""
    if way == "outline":
        return Contents(fenced_piece(await ask(Outline(named.ref)), source), TEXT)
    if way.startswith("lines"):
        lines = f"{match['start']}:{match['stop']}"
        piece = await ask(Slice(named.ref, lines=lines, tokens_max=MCP_TOKENS_MAX))
        return Contents(fenced_piece(piece, f"{source} lines {lines}"), TEXT)
    start, stop = (int(match["start"]), int(match["stop"])) if way else (0, None)
    end = artifact.size_bytes if stop is None else min(stop, artifact.size_bytes)
    if end - start > MCP_RESOURCE_BYTES_MAX:
        parts = f"{SCHEME}{artifact.ref}/bytes/0-{MCP_RESOURCE_BYTES_MAX}"
        hint = f"read parts: {parts} and so on, or a part of it with the tool relay_get"
        raise TooLarge(f"{end - start:,} bytes are more than one read returns", hint)
    body = await visit.relay.transport.whole(await ask(Pull(named.ref, start, stop)))
    if artifact.is_text:
        # A part may start or end inside a character. Then it is returned as bytes.
        with suppress(UnicodeDecodeError):
            return Contents(body.decode(), artifact.media_type, _fresh_ms(artifact))
    return Contents(body, artifact.media_type, _fresh_ms(artifact))


_FRESH_MS = 3_600_000


def _fresh_ms(artifact: Artifact) -> int:
    """Return the milliseconds for which an artifact may be cached: it may expire."""
    if artifact.expires_at is None:
        return _FRESH_MS
    left = artifact.expires_at - datetime.now(UTC)
    return max(0, min(_FRESH_MS, int(left.total_seconds() * 1000)))
