"""Resources: artifacts as `ctx://<ref>`, headers of threads as `ctx://thread/<id>/header`.

Rule: one read brings a bounded number of bytes; a larger one is refused, with how to read in parts.
Nothing here knows the SDK.
"""

from __future__ import annotations

import re
from contextlib import suppress

from msgspec import Struct
from msgspec.json import encode

from contextrelay.client.names import SCHEME
from contextrelay.doors.mcp import ref_argument
from contextrelay.doors.mcp.tools.tool import Visit, untrusted
from contextrelay.errors import NotFound, TooLarge
from contextrelay.limits import MCP_RESOURCE_BYTES_MAX, SUMMARY_CHARS_MAX
from contextrelay.logic.untrusted.fence import defused_json, plain_line
from contextrelay.model.artifact import Artifact
from contextrelay.model.ref import REF_PATTERN
from contextrelay.model.thread import HeaderView
from contextrelay.wire.verbs import Pull, ReadHeader

JSON = "application/json"
_REF = REF_PATTERN[1:-1]
_ARTIFACT = re.compile(
    rf"{SCHEME}(?P<ref>{_REF})(?:/bytes/(?P<start>\d{{1,15}})-(?P<stop>\d{{1,15}}))?"
)
_HEADER = re.compile(rf"{SCHEME}thread/(?P<thread>{_REF})/header")
_LISTED = 50
_LISTED_THREADS = 20


class Entry(Struct, frozen=True):
    """A resource as it is listed."""

    uri: str
    name: str
    description: str
    media_type: str
    size_bytes: int | None = None


TEMPLATES = (
    Entry(f"{SCHEME}{{ref}}", "artifact", "The bytes of an artifact, by its ref.", ""),
    Entry(
        f"{SCHEME}{{ref}}/bytes/{{start}}-{{stop}}",
        "part of an artifact",
        f"Bytes start to stop, stop not included, at most {MCP_RESOURCE_BYTES_MAX:,}.",
        "",
    ),
    Entry(
        f"{SCHEME}thread/{{thread}}/header",
        "header of a thread",
        "The bounded view of a thread's state; can be subscribed to.",
        JSON,
    ),
)


def of_artifact(artifact: Artifact) -> Entry:
    """An artifact as a resource."""
    summary = artifact.metadata.get("summary")
    text = f"{artifact.type}, {artifact.size_bytes:,} bytes"
    text = plain_line(summary[:SUMMARY_CHARS_MAX]) if isinstance(summary, str) else text
    name = plain_line(artifact.name) if artifact.name else artifact.ref
    return Entry(SCHEME + artifact.ref, name, text, artifact.media_type, artifact.size_bytes)


async def listed(visit: Visit, after: str) -> tuple[list[Entry], str]:
    """A page of resources, newest first, and where the next begins; threads are on the first."""
    entries: list[Entry] = []
    if not after:
        for view in (await visit.relay.threads(_LISTED_THREADS)).threads:
            uri = f"{SCHEME}thread/{view.thread_id}/header"
            name = plain_line(view.name) if view.name else view.thread_id
            entries.append(Entry(uri, name, f"state at version {view.version}", JSON))
    found = await visit.relay.list(_LISTED, after)
    return entries + [of_artifact(each) for each in found.artifacts], found.next


def labelled_header(view: HeaderView) -> str:
    """The header of a thread as a model reads it: defused, and with a member that labels it."""
    header = defused_json(bytes(view.header)).decode()
    label = encode(untrusted("texts in it")).decode()
    return f"{header[:-1]},{label[1:]}"


def header_of(uri: str) -> str | None:
    """The id of the thread, if the URI is of a header."""
    match = _HEADER.fullmatch(uri)
    return match["thread"] if match else None


async def read(visit: Visit, uri: str) -> tuple[str | bytes, str]:
    """The text or bytes of a resource, and its media type.

    Raises:
        NotFound: no resource has this URI; TooLarge: it is more than one read brings.
    """
    thread = header_of(uri)
    if thread is not None:
        return labelled_header(await visit.relay.transport.ask(ReadHeader(thread))), JSON
    match = _ARTIFACT.fullmatch(uri)
    if match is None:
        raise NotFound(
            f"there is no resource {uri[:120]!r}",
            f"read {SCHEME}<ref>, {SCHEME}<ref>/bytes/<start>-<stop> or {SCHEME}thread/<id>/header",
        )
    named = await ref_argument.artifact_of(visit, match["ref"])
    artifact = await visit.relay.peek(named.ref, shown_chars=0)
    start, stop = (int(match["start"]), int(match["stop"])) if match["stop"] else (0, None)
    end = artifact.size_bytes if stop is None else min(stop, artifact.size_bytes)
    if end - start > MCP_RESOURCE_BYTES_MAX:
        raise TooLarge(
            f"{end - start:,} bytes are more than one read brings",
            f"read parts: {SCHEME}{artifact.ref}/bytes/0-{MCP_RESOURCE_BYTES_MAX} and so on,"
            " or what you need of it with the tool relay_get",
        )
    stream = await visit.relay.transport.ask(Pull(named.ref, start, stop))
    body = await visit.relay.transport.whole(stream)
    if artifact.is_text:
        # A part may begin or end in the middle of a character: then it stays bytes.
        with suppress(UnicodeDecodeError):
            return body.decode(), artifact.media_type
    return body, artifact.media_type
