"""The output of an agent, which is written to the log of its task while it is produced.

Words that arrive faster than they can be written are merged, so that a slow store does not slow
down the agent. When the agent ends, the words become one artifact of the thread.
"""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec import to_builtins

from contextrelay.a2a.parts import check_parts, store_part, stored_as, stored_part
from contextrelay.a2a.record import (
    ARTIFACT,
    STATUS,
    KeptArtifact,
    KeptMessage,
    KeptPart,
    TaskRecord,
)
from contextrelay.a2a.schema import COMPLETED, INTERRUPTED, TERMINAL, Part, TaskState
from contextrelay.a2a.work import WORDS, Direct, Made, Output, Say
from contextrelay.client.relay import AsyncRelay
from contextrelay.client.thread import AsyncThread
from contextrelay.client.transport.local import AsyncLocal
from contextrelay.errors import Failed, TooLarge
from contextrelay.limits import A2A_PIECE_CHARS_MAX, A2A_UPDATES_MAX, MIB
from contextrelay.verbs import NoteTask, Peek, PutOutput, ReadEvents

A2A_PIECES_WAITING_MAX = 64
A2A_ANSWER_BYTES_MAX = 8 * MIB


class Writer:
    """Writes the output of one agent for one message."""

    def __init__(self, local: AsyncLocal, record: TaskRecord, by: str) -> None:
        self._local = local
        self._record = record
        self._thread = AsyncThread(AsyncRelay.over_transport(local), record.id)
        self._by = by
        self._words: list[str] = []
        self._written = 0
        """The number of words that are in the log."""
        self._size = 0
        self._writing: asyncio.Task[None] | None = None
        self._is_whole = False
        self._state: TaskState | None = None
        self._has_ended = False
        """True if this writer has ended the task."""

    async def put(self, made: Made) -> None:
        """Write a piece of output.

        Raises:
            TooLarge: the output exceeds the limit of a task; Failed: somebody ended the task.
        """
        if isinstance(made, str):
            if made:
                await self._put_words(made)
            return
        await self._drain()
        match made:
            case Say():
                await self._say(made.state, made.text)
            case Direct():
                await self._say(COMPLETED, made.text, is_direct=True)
            case Output():
                await self._put_output(made)
            case bytes():
                await self._put_output(Output(parts=[Part(raw=made)]))
            case _:
                await self._put_output(Output(parts=[Part(data=made)]))

    async def end(self) -> None:
        """Store the words as an artifact, and complete the task."""
        await self._drain()
        if self._words and not self._is_whole:
            whole = Part(text="".join(self._words))
            await self._add_whole(await store_part(self._thread, whole, self._by, is_made=True))
        if self._state not in TERMINAL | INTERRUPTED:
            await self._say(COMPLETED, "")

    async def _say(self, state: TaskState, text: str, is_direct: bool = False) -> None:
        """Write a new state of the task, with a text."""
        self._state = state
        detail: dict[str, Any] = {"state": state}
        if text:
            said = agent_message(self._local.stores.new_ref(), text, is_direct)
            detail["message"] = to_builtins(said)
        is_over = state in TERMINAL
        self._has_ended |= is_over
        note = NoteTask(self._record.id, STATUS, detail, self._by, is_over=is_over)
        await self._local.ask(note)
        await self._catch_up()

    # Words

    async def _put_words(self, words: str) -> None:
        self._count(len(words.encode(errors="replace")))
        self._words.append(words)
        if self._writing is None or self._writing.done():
            if self._writing is not None:
                self._writing.result()
            self._writing = asyncio.create_task(self._write_words())
        if len(self._words) - self._written > A2A_PIECES_WAITING_MAX:
            await self._drain()

    async def _write_words(self) -> None:
        while self._written < len(self._words):
            pieces = self._words[self._written :]
            self._written = len(self._words)
            text = "".join(pieces)
            for start in range(0, len(text), A2A_PIECE_CHARS_MAX):
                part = KeptPart(text=text[start : start + A2A_PIECE_CHARS_MAX])
                is_first = WORDS not in self._record.artifacts
                await self._add(KeptArtifact(artifact_id=WORDS, parts=[part]), not is_first, False)

    async def _drain(self) -> None:
        """Wait until all words have been written to the log."""
        if self._writing is not None:
            await self._writing
            self._writing = None

    async def _add_whole(self, whole: KeptPart) -> None:
        """Write the artifact that contains all words, as the last, empty piece of the words."""
        self._is_whole = True
        last = KeptArtifact(artifact_id=WORDS, parts=[KeptPart(text="")])
        await self._add(last, True, True, whole)

    # Artifacts

    async def _put_output(self, made: Output) -> None:
        if made.refs and made.id == WORDS and self._words:
            artifact = await self._local.ask(Peek(made.refs[0]))
            kept = KeptPart(ref=artifact.ref, kind="text", size=artifact.size_bytes)
            await self._add_whole(kept)
            return
        check_parts(made.parts)
        if len(made.parts) == 1 and await self._put_at_once(made, made.parts[0]):
            return
        kept_parts: list[KeptPart] = []
        for part in made.parts:
            kept_parts.append(await store_part(self._thread, part, self._by, is_made=True))
            self._count(kept_parts[-1].size)
        artifact_id = made.id or self._local.stores.new_ref()
        artifact = KeptArtifact(artifact_id=artifact_id, parts=kept_parts, name=made.name)
        await self._add(artifact, made.append, made.is_last)

    async def _put_at_once(self, made: Output, part: Part) -> bool:
        """Store a part together with its event, and with the end of the task if it is all.

        Return False if there is nothing to store.
        """
        kept, body = stored_part(part)
        if not body:
            return False
        self._count(len(body))
        name, media_type = stored_as(part)
        artifact_id = made.id or self._local.stores.new_ref()
        artifact = KeptArtifact(artifact_id=artifact_id, parts=[kept], name=made.name)
        is_end = made.is_all and self._state is None and not self._words
        put = PutOutput(
            self._record.id,
            to_builtins({"artifact": artifact, "append": made.append, "last": made.is_last}),
            {"state": COMPLETED} if is_end else None,
            name,
            media_type,
            self._by,
        )
        self._has_ended |= is_end
        await self._local.ask(put, body)
        self._state = COMPLETED if is_end else self._state
        await self._catch_up()
        return True

    async def _add(
        self, artifact: KeptArtifact, append: bool, last: bool, whole: KeptPart | None = None
    ) -> None:
        detail = to_builtins({"artifact": artifact, "append": append, "last": last, "whole": whole})
        await self._local.ask(NoteTask(self._record.id, ARTIFACT, detail, self._by))
        await self._catch_up()

    def _count(self, size_bytes: int) -> None:
        self._size += size_bytes
        limit = f"{A2A_ANSWER_BYTES_MAX:,} bytes" if self._size > A2A_ANSWER_BYTES_MAX else ""
        if self._record.updates > A2A_UPDATES_MAX:
            limit = f"{A2A_UPDATES_MAX:,} updates"
        if limit:
            problem = f"the agent produced more than {limit}"
            raise TooLarge(problem, "ask for a shorter answer")

    async def _catch_up(self) -> None:
        """Update the record by new events. Raise Failed if one of others has ended the task."""
        page = await self._local.ask(ReadEvents(self._record.id, self._record.seq))
        for each in page.events:
            self._record.take(each)
        if self._record.is_over and not self._has_ended:
            raise Failed("the task was ended")


def agent_message(message_id: str, text: str, is_direct: bool = False) -> KeptMessage:
    """Return a message of an agent that consists of text only."""
    part = KeptPart(text=text[:A2A_PIECE_CHARS_MAX])
    return KeptMessage(message_id=message_id, role="ROLE_AGENT", parts=[part], is_direct=is_direct)
