"""The input of an agent for one message. The body behind a URL is fetched only when the agent reads
it.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from msgspec import UNSET, UnsetType, ValidationError, convert
from msgspec.json import encode

from contextrelay.a2a.parts import is_empty
from contextrelay.a2a.record import FETCHED, RUNS, KeptMessage, KeptPart, TaskRecord
from contextrelay.a2a.schema import REFS_EXTENSION, BodyDescription
from contextrelay.a2a.work import Asked
from contextrelay.access import reach_of
from contextrelay.bounded.fetch import fetch
from contextrelay.bounded.fetch_target import FetchPolicy
from contextrelay.client.relay import Relay
from contextrelay.client.thread import Thread
from contextrelay.client.transport.local import AsyncLocal
from contextrelay.errors import Failed
from contextrelay.limits import FETCH_BYTES_MAX, KIB
from contextrelay.pipelines.record import plain_runner
from contextrelay.verbs import NoteTask

# A text of at most this size is passed to the agent directly, and a longer one as a ref.
A2A_WORDS_BYTES_MAX = 16 * KIB


def asked_of(local: AsyncLocal, record: TaskRecord, kept: KeptMessage) -> Asked:
    """Return the input that the agent of a task gets for a message."""
    relay = Relay.__new__(Relay)
    relay.transport = local.blocking()
    thread = Thread(relay, record.id)

    def ref_of(part: KeptPart) -> str:
        """Return the ref of the artifact that holds a part. If there is none yet, create the
        artifact.
        """
        if part.ref:
            return part.ref
        if not isinstance(part.url, UnsetType):
            if part.url not in record.fetched:
                body = _fetched(local, part)
                ref = thread.put(body, created_by="a2a", metadata={"url": part.url}).ref
                relay.transport.ask(
                    NoteTask(record.id, FETCHED, {"url": part.url, "ref": ref}, "a2a")
                )
                record.fetched[part.url] = ref
            return record.fetched[part.url]
        return thread.put(_body(part), created_by="a2a").ref

    def read(part: KeptPart) -> bytes:
        if part.url is UNSET and not is_empty(part):
            return _body(part)
        return relay.pull(ref_of(part))

    def note(detail: dict[str, Any]) -> None:
        going_on = {"runner": plain_runner(), "note": detail}
        relay.transport.ask(NoteTask(record.id, RUNS, going_on, "a2a"))

    words = [read(part).decode() for part in kept.parts if _is_inline_text(part)]
    others = [part for part in kept.parts if not _is_inline_text(part)]
    return Asked(
        text="\n\n".join(words),
        parts=kept.parts,
        message=kept,
        task=record.id,
        context=record.context,
        turn=len(record.history),
        relay=relay,
        thread=thread,
        read=read,
        refs=lambda: [ref_of(part) for part in others],
        note=note,
        noted=record.note,
    )


def _is_inline_text(part: KeptPart) -> bool:
    """Return True if a part is a short text, which is passed directly. A longer text is passed as a
    ref.
    """
    is_text = part.text is not UNSET or part.kind == "text"
    return is_text and part.size <= A2A_WORDS_BYTES_MAX


def _body(part: KeptPart) -> bytes:
    if not isinstance(part.text, UnsetType):
        return part.text.encode(errors="replace")
    return encode(part.data) if isinstance(part.raw, UnsetType) else part.raw


def _fetched(local: AsyncLocal, part: KeptPart) -> bytes:
    """Fetch the body behind the URL of a part. Only the hosts allowed for `http.fetch` are
    contacted.

    Raises:
        Failed: the body does not match the description in the part.
    """
    settings = local.stores.settings
    wanted = ("public", "private") if settings.fetch_private else ("public",)
    ways = FetchPolicy(
        lambda address: reach_of(address) in wanted,
        bytes_max=min(FETCH_BYTES_MAX, settings.body_bytes_max),
    )
    body = fetch(str(part.url), ways).body
    try:
        described = convert(part.metadata.get(REFS_EXTENSION), BodyDescription)
    except ValidationError:
        return body
    if sha256(body).hexdigest() != described.sha256:
        raise Failed(
            f"the content of {str(part.url)[:200]!r} does not match its description",
            "send the part again",
        )
    return body
