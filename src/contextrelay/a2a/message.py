"""Messages from a thread to remote agents. Their answers are stored as artifacts of the thread."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, cast

from msgspec import UNSET, UnsetType, ValidationError, convert, to_builtins
from msgspec.json import encode
from msgspec.structs import replace

from contextrelay import verbs
from contextrelay.a2a.peer import Peer, described
from contextrelay.a2a.schema import (
    REFS_EXTENSION,
    AgentAnswer,
    AgentCard,
    AgentReply,
    Part,
    ReceivedMessage,
    SaidStatus,
    SaidTask,
    Streamed,
    body_path,
    describe,
    filled,
    stored_as,
)
from contextrelay.client.flow import Flow, InThread, SendBody
from contextrelay.client.methods import build
from contextrelay.client.transport.address import ServerAddress
from contextrelay.errors import Failed, Forbidden, NotFound, Refused, RelayError, TooLarge
from contextrelay.limits import A2A_PART_BYTES_KEPT, LIST_ITEMS_MAX, MIB
from contextrelay.model.artifact import Artifact
from contextrelay.model.handoff import HANDOFF_MEDIA_TYPE
from contextrelay.model.ref import parse_ref

A2A_SENT_BYTES_MAX = 4 * MIB
Document = dict[str, Any]
OnWords = Callable[[str], object]
ANSWERED = "a2a.answered"
"""The event for an answer of a remote agent. Its fields are `url`, `task`, `context`, `state` and
`refs`.
"""
_STATE = "TASK_STATE_"


def send_message(
    thread: Any,
    url: str,
    text: str,
    refs: Sequence[str],
    on_words: OnWords | None,
    by: str,
    handoff: str | None = None,
) -> Flow[AgentAnswer]:
    """Send text and refs to a remote agent, and wait for the answer.

    `handoff`: the ref of a handoff to the agent. The answer becomes the result of the handoff.
    """
    peer = Peer(url)
    try:
        card: AgentCard = yield InThread(peer.card)
        before = yield from _before(thread.id, peer.server.url)
        parts: list[Document] = [{"text": text}] if text else []
        left_bytes = A2A_SENT_BYTES_MAX - len(text.encode())
        reachable = _reachable(thread.transport, peer.server, card)
        for ref in [*([] if handoff is None else [handoff]), *refs]:
            artifact: Artifact = yield verbs.Peek(parse_ref(ref), True)
            if reachable:
                url = f"{reachable}{body_path(artifact.ref)}"
                ref_part = {"url": url, "metadata": describe(artifact)}
                parts.append(ref_part | _named(artifact, card))
            else:
                parts.append((yield from _inline_part(artifact, left_bytes, card)))
                left_bytes -= artifact.size_bytes
        message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": parts, **before}
        if reachable:
            message["extensions"] = [REFS_EXTENSION]
        heard: list[str] = []
        on_update = None if on_words is None else _hearing(on_words, heard)
        answer = yield from _sent(peer, card, message, on_update)
        kept = yield from _kept(thread, peer, card, answer, by, handoff)
        if on_words is not None and not heard and kept.text:
            # The answer is a message, or a status with text, or the agent does not stream.
            on_words(kept.text)
        return kept
    finally:
        peer.close()


def _sent(
    peer: Peer, card: AgentCard, message: Document, on_update: Callable[[Document], None] | None
) -> Flow[Document]:
    """Send a message, or send it without its task if that accepts no more. Return the answer."""
    # The history of the task is already known here, so do not request it.
    params = {"message": message, "configuration": {"historyLength": 0}}
    try:
        return (yield InThread(lambda: peer.send(card, params, on_update)))
    except (NotFound, Refused) as error:
        if isinstance(error, Forbidden) or "taskId" not in message:
            raise
    anew = {name: value for name, value in message.items() if name != "taskId"}
    return (yield InThread(lambda: peer.send(card, {**params, "message": anew}, on_update)))


def _before(thread: str, url: str) -> Flow[Document]:
    """Return the context of the agent's last answer in this thread, and its task if it waits."""
    found: Document = {}
    after = 0
    while page := (yield verbs.ReadEvents(thread, after, LIST_ITEMS_MAX)).events:
        for each in page:
            detail = each.event.detail
            if each.event.type == ANSWERED and detail.get("url") == url:
                waits = detail.get("state") in ("input-required", "auth-required")
                found = {"contextId": str(detail.get("context", ""))[:128]}
                if waits:
                    found["taskId"] = str(detail.get("task", ""))[:128]
        after = page[-1].seq
        if len(page) < LIST_ITEMS_MAX:
            break
    return filled(found)


# Parts


def _reachable(transport: Any, peer: ServerAddress, card: AgentCard) -> str:
    """Return the address at which the agent can read our refs, or "".

    Our key is not shared with others. A server on this machine can only be reached from here.
    """
    own = cast("ServerAddress | None", getattr(transport, "server", None))
    if own is None or own.key or not card.knows_refs:
        return ""
    return "" if own.is_loopback and not peer.is_loopback else own.url


def _named(artifact: Artifact, card: AgentCard) -> Document:
    """Return the name of an artifact, and its media type, or a generic one that agents accept."""
    kind = artifact.media_type.partition(";")[0]
    if not kind.startswith("text/") and kind not in card.document.get("defaultInputModes", ()):
        kind = "text/plain" if artifact.is_text else "application/octet-stream"
    return {"mediaType": kind, **filled({"filename": artifact.name})}


def _inline_part(artifact: Artifact, left_bytes: int, card: AgentCard) -> Flow[Document]:
    if artifact.size_bytes > left_bytes:
        problem = f"{artifact.ref} has {artifact.size_bytes:,} bytes, too large for one message"
        hint = "serve the store so that the agent can read its refs: relay serve, then --store URL"
        raise TooLarge(problem, hint)
    if artifact.media_type == HANDOFF_MEDIA_TYPE:
        return {"text": (yield verbs.ShowHandoff(artifact.ref)).text}
    body: bytes = yield (yield verbs.Pull(artifact.ref))
    content = {"text": body.decode()} if artifact.is_text else {"raw": to_builtins(body)}
    return content | _named(artifact, card)


def _hearing(on_words: OnWords, heard: list[str]) -> Callable[[Document], None]:
    """Return a callback that passes streamed words to `on_words` and appends them to `heard`."""

    def hear(update: Document) -> None:
        try:
            piece = convert(update, Streamed).artifact_update
        except ValidationError:
            return
        for part in [] if piece is None else piece.artifact.parts:
            if not isinstance(part.text, UnsetType) and part.text:
                heard[:] = ["words"]
                on_words(part.text)

    return hear


# The answer


def _kept(
    thread: Any, peer: Peer, card: AgentCard, document: Document, by: str, handoff: str | None
) -> Flow[AgentAnswer]:
    """Store the answer of an agent, and record it in the log of the thread.

    Raises:
        Failed: the answer is neither a task nor a message.
    """
    try:
        answer = convert(document, AgentReply)
    except ValidationError as error:
        hint = "check that the agent supports A2A 1.0"
        raise Failed(f"invalid answer of the agent: {error}", hint) from None
    task = answer.task or SaidTask(id="-", status=SaidStatus(message=answer.message))
    said = task.status.message or ReceivedMessage()
    made = [part for each in task.artifacts for part in _joined(each.parts)] or said.parts
    words: list[str] = []
    refs: list[str] = []
    agent = f"a2a/{card.name}"[:128] if card.name and card.name.isprintable() else "a2a"
    for part in made:
        body = yield from _body(peer, part)
        if body is None:
            words.append(f"[{str(part.url)[:500]}]")
            continue
        if body:
            stored = yield from _stored(thread.id, part, body, agent, handoff)
            refs.append(stored.ref)
            words.append(_words(part, body, stored))
    answered = AgentAnswer(
        agent=card.name,
        task="" if answer.task is None else task.id,
        context=(task.context_id or said.context_id)[:128],
        state=(task.status.state.removeprefix(_STATE) or "COMPLETED").lower().replace("_", "-"),
        text="\n".join(words),
        refs=tuple(refs),
        sent_bytes=peer.sent_bytes,
        received_bytes=peer.received_bytes,
    )
    yield verbs.NoteAnswer(
        thread=thread.id,
        url=peer.server.url,
        task=answered.task[:128],
        context=answered.context,
        state=answered.state[:40],
        refs=tuple(refs[:100]),
        by=by,
    )
    return answered


def _joined(parts: Sequence[Part]) -> list[Part]:
    """Return the parts of one artifact, in which consecutive chunks of one content are joined.

    Each piece that an agent appends to an artifact arrives as a part with the same name and type.
    """
    joined: list[Part] = []
    for kind, chunks in groupby(parts, _kind):
        each = list(chunks)
        if kind[0] == "text":
            joined.append(replace(each[0], text="".join(str(part.text) for part in each)))
        elif kind[0] == "raw":
            raw = [part.raw for part in each if not isinstance(part.raw, UnsetType)]
            joined.append(replace(each[0], raw=b"".join(raw)))
        else:
            joined += each
    return joined


def _kind(part: Part) -> tuple[str, str, str, Document]:
    """Return the key that is the same for all parts that are chunks of one text or body."""
    has_text, has_raw = (not isinstance(each, UnsetType) for each in (part.text, part.raw))
    content = "text" if has_text else "raw" if has_raw else ""
    return content, part.filename, part.media_type, part.metadata


def _words(part: Part, body: bytes, stored: Artifact) -> str:
    """Return the readable text of a part: a text, a short body, or a preview."""
    if not isinstance(part.text, UnsetType):
        return part.text
    if stored.is_text and len(body) <= A2A_PART_BYTES_KEPT:
        return body.decode(errors="replace")
    return f"[{stored.ref}]\n{stored.preview.text}"


def _body(peer: Peer, part: Part) -> Flow[bytes | None]:
    """Return the bytes of a part, or None for a URL that does not belong to the agent's server."""
    if not isinstance(part.text, UnsetType):
        return part.text.encode(errors="replace")
    if not isinstance(part.raw, UnsetType):
        return part.raw
    if isinstance(part.url, UnsetType):
        return b"" if part.data is UNSET else encode(part.data)
    about, url = described(part), part.url
    if about is None:
        return None
    try:
        return (yield InThread(lambda: peer.fetch(url, about)))
    except RelayError:
        return None


def _stored(
    thread: str, part: Part, body: bytes, agent: str, handoff: str | None
) -> Flow[Artifact]:
    name, media_type = stored_as(part)
    if handoff is not None:
        named = name or f"answer-of-{agent.replace('/', '-')}"
        return (yield SendBody(build(verbs.ReturnHandoff, (handoff, named), {"by": agent}), body))
    fields = {"name": name, "media_type": media_type, "created_by": agent, "thread": thread}
    return (yield SendBody(build(verbs.Push, (), fields), body))
