"""Resources: artifacts as `ctx://<ref>`, headers of threads as `ctx://thread/<id>/header`.

Rule: one read brings a bounded number of bytes; who asks for more is told how to read in parts.
Nothing here knows the SDK.
"""

from __future__ import annotations

import re

from msgspec import Struct
from msgspec.json import encode

from contextrelay.client.names import SCHEME
from contextrelay.doors.mcp import ref_argument
from contextrelay.doors.mcp.tool import Visit, untrusted
from contextrelay.errors import NotFound, TooLarge
from contextrelay.limits import MCP_RESOURCE_BYTES_MAX, SUMMARY_CHARS_MAX
from contextrelay.logic.untrusted.fence import defused_json, plain_line
from contextrelay.model.artifact import Artifact
from contextrelay.model.ref import REF_PATTERN
from contextrelay.model.thread import HeaderView, ThreadView
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
    told: str
    media_type: str
    size_bytes: int | None = None


class Content(Struct, frozen=True):
    """What a read brings: a text, or bytes."""

    body: str | bytes
    media_type: str


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
    told = f"{artifact.type}, {artifact.size_bytes:,} bytes"
    told = plain_line(summary[:SUMMARY_CHARS_MAX]) if isinstance(summary, str) else told
    name = plain_line(artifact.name) if artifact.name else artifact.ref
    return Entry(SCHEME + artifact.ref, name, told, artifact.media_type, artifact.size_bytes)


def _of_thread(view: ThreadView) -> Entry:
    uri = f"{SCHEME}thread/{view.thread_id}/header"
    name = plain_line(view.name) if view.name else view.thread_id
    return Entry(uri, name, f"state at version {view.version}", JSON)


async def listed(visit: Visit, after: str) -> tuple[list[Entry], str]:
    """A page of resources, the newest first, and where the next begins."""
    found = await visit.relay.list(_LISTED, after)
    entries = [of_artifact(each) for each in found.artifacts]
    if not after:
        threads = (await visit.relay.threads(_LISTED_THREADS)).threads
        entries = [*map(_of_thread, threads), *entries]
    return entries, found.next


def labelled_header(view: HeaderView) -> str:
    """The header of a thread as a model reads it: defused, and with a member that labels it."""
    header = defused_json(bytes(view.header)).decode()
    label = encode(untrusted("texts in it")).decode()
    return f"{header[:-1]},{label[1:]}"


def header_of(uri: str) -> str | None:
    """The id of the thread whose header a URI stands for."""
    match = _HEADER.fullmatch(uri)
    return match["thread"] if match else None


async def read(visit: Visit, uri: str) -> Content:
    """What a URI stands for.

    Raises:
        NotFound: nothing; TooLarge: it is more than one read brings.
    """
    thread = header_of(uri)
    if thread is not None:
        return Content(labelled_header(await visit.relay.transport.ask(ReadHeader(thread))), JSON)
    match = _ARTIFACT.fullmatch(uri)
    if match is None:
        raise NotFound(
            f"there is no resource {uri[:120]!r}",
            f"read {SCHEME}<ref>, {SCHEME}<ref>/bytes/<start>-<stop> or {SCHEME}thread/<id>/header",
        )
    named = await ref_argument.artifact_of(visit, match["ref"])
    artifact = await visit.relay.peek(named.ref)
    start, stop = (int(match["start"]), int(match["stop"])) if match["stop"] else (0, None)
    _check_size(artifact, start, stop)
    stream = await visit.relay.transport.ask(Pull(named.ref, start, stop))
    body = await visit.relay.transport.whole(stream)
    return Content(_text(body) if artifact.is_text else body, artifact.media_type)


def _check_size(artifact: Artifact, start: int, stop: int | None) -> None:
    end = artifact.size_bytes if stop is None else min(stop, artifact.size_bytes)
    if end - start > MCP_RESOURCE_BYTES_MAX:
        raise TooLarge(
            f"{end - start:,} bytes are more than one read brings",
            f"read parts: {SCHEME}{artifact.ref}/bytes/0-{MCP_RESOURCE_BYTES_MAX} and so on,"
            " or what you need of it with the tool relay_get",
        )


def _text(body: bytes) -> str | bytes:
    """A part may begin or end in the middle of a character: then it is bytes."""
    try:
        return body.decode()
    except UnicodeDecodeError:
        return body
