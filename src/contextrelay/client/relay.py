"""The clients: `Relay` blocks, `AsyncRelay` is awaited; both have the same verbs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from contextrelay.client.asks import as_body, asks, brings, build, sends, streams
from contextrelay.client.local import AsyncLocal, Local, in_thread, open_stores
from contextrelay.client.thread import AsyncThread, Thread
from contextrelay.errors import Invalid
from contextrelay.limits import CHUNK_BYTES
from contextrelay.model.artifact import Artifact
from contextrelay.model.ref import is_ref
from contextrelay.model.reports import BackupReport, RestoreReport
from contextrelay.model.settings import Settings
from contextrelay.store.folders import write_whole
from contextrelay.wire import verbs

Address = str | os.PathLike[str] | None
Item = str | bytes | tuple[str | bytes, Mapping[str, Any]]
"""A body, or a body with what `push` would take beside it."""


class _Verbs:
    """What both clients can do."""

    push = sends(verbs.Push)
    pull = brings(verbs.Pull)
    stream = streams(verbs.Pull)
    peek = asks(verbs.Peek, inline=True)
    pin = asks(verbs.Pin)
    extend = asks(verbs.Extend)
    remove = asks(verbs.Remove)
    find = asks(verbs.Find, inline=True)
    trace = asks(verbs.Trace, inline=True)
    sweep = asks(verbs.Sweep)
    verify = asks(verbs.Verify)
    survey = asks(verbs.Survey)
    find_threads = asks(verbs.FindThreads)
    threads = asks(verbs.ListThreads)
    use_thread = asks(verbs.UseThread)
    last_used_thread = asks(verbs.LastUsedThread)
    list = asks(verbs.List)


class Relay(_Verbs):
    """A relay, asked and answered.

    `address`: a folder, `sqlite:///folder`, `memory:`, `redis://host:port/0`; none for RELAY_HOME
    or ~/.relay. `settings` in place of those in the store's config.json.
    """

    is_async: Literal[False] = False

    def __init__(self, address: Address = None, *, settings: Settings | None = None) -> None:
        self.transport = Local(open_stores(address, settings))

    def push_many(self, items: Iterable[Item]) -> list[Artifact]:
        """Store many bodies in one call; each item is a body, or a (body, options of push) pair."""
        verb, body = _many(items)
        return self.transport.ask(verb, body)

    def new_thread(self, name: str | None = None, by: str = "you") -> Thread:
        """Make a thread."""
        made = self.transport.ask(build(verbs.NewThread, (name, by), {}))
        return Thread(self, made.thread_id)

    def thread(self, text: str, by: str = "you") -> Thread:
        """The thread of an id, or the newest of a name, which is made if there is none."""
        if is_ref(text):
            return Thread(self, self.transport.ask(verbs.ShowThread(text)).thread_id)
        made = self.transport.ask(build(verbs.OpenThread, (text, by), {}))
        return Thread(self, made.thread_id)

    def import_thread(
        self, path: str | os.PathLike[str], name: str | None = None, by: str = "you"
    ) -> Thread:
        """Make a thread from an exported zip file."""
        verb = build(verbs.ImportThread, (name, by), {})
        return Thread(self, self.transport.ask(verb, _file_chunks(path)).thread_id)

    def backup(self, path: str | os.PathLike[str]) -> BackupReport:
        """Write the whole store to one tar file, while others may go on writing."""
        stream = self.transport.ask(verbs.Backup())
        write_whole(Path(path), stream.chunks())
        return stream.value

    def restore(self, path: str | os.PathLike[str]) -> RestoreReport:
        """Fill this store, which must be empty, from a backup file."""
        return self.transport.ask(verbs.Restore(), _file_chunks(path))

    def close(self) -> None:
        """Let go of the store; a second call does nothing."""
        self.transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class AsyncRelay(_Verbs):
    """A relay, awaited. The arguments are those of `Relay`."""

    is_async: Literal[True] = True

    def __init__(self, address: Address = None, *, settings: Settings | None = None) -> None:
        self.transport = AsyncLocal(open_stores(address, settings))

    async def push_many(self, items: Iterable[Item]) -> list[Artifact]:
        """Store many bodies in one call; each item is a body, or a (body, options of push) pair."""
        verb, body = _many(items)
        return await self.transport.ask(verb, body)

    async def new_thread(self, name: str | None = None, by: str = "you") -> AsyncThread:
        """Make a thread."""
        made = await self.transport.ask(build(verbs.NewThread, (name, by), {}))
        return AsyncThread(self, made.thread_id)

    async def thread(self, text: str, by: str = "you") -> AsyncThread:
        """The thread of an id, or the newest of a name, which is made if there is none."""
        if is_ref(text):
            return AsyncThread(self, (await self.transport.ask(verbs.ShowThread(text))).thread_id)
        made = await self.transport.ask(build(verbs.OpenThread, (text, by), {}))
        return AsyncThread(self, made.thread_id)

    async def import_thread(
        self, path: str | os.PathLike[str], name: str | None = None, by: str = "you"
    ) -> AsyncThread:
        """Make a thread from an exported zip file."""
        verb = build(verbs.ImportThread, (name, by), {})
        made = await self.transport.ask(verb, _file_chunks(path))
        return AsyncThread(self, made.thread_id)

    async def backup(self, path: str | os.PathLike[str]) -> BackupReport:
        """Write the whole store to one tar file, while others may go on writing."""
        stream = await self.transport.ask(verbs.Backup())
        await in_thread(lambda: write_whole(Path(path), stream.chunks()))
        return stream.value

    async def restore(self, path: str | os.PathLike[str]) -> RestoreReport:
        """Fill this store, which must be empty, from a backup file."""
        return await self.transport.ask(verbs.Restore(), _file_chunks(path))

    async def close(self) -> None:
        """Let go of the store; a second call does nothing."""
        await self.transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


_NO_OPTIONS: Mapping[str, Any] = {}


def _many(items: Iterable[Item]) -> tuple[verbs.PushMany, Iterator[bytes]]:
    """The verb for many pushes, and their bodies one after the other."""
    pushes: list[verbs.Push] = []
    bodies: list[bytes] = []
    for item in items:
        body, options = item if isinstance(item, tuple) else (item, _NO_OPTIONS)
        sent = as_body(body)
        if not isinstance(sent, bytes):
            raise Invalid("push_many takes bytes or text", "push a stream with push")
        pushes.append(build(verbs.Push, (), dict(options)))
        bodies.append(sent)
    sizes = [len(body) for body in bodies]
    return build(verbs.PushMany, (pushes, sizes), {}), iter(bodies)


def _file_chunks(path: str | os.PathLike[str]) -> Iterator[bytes]:
    try:
        with Path(path).open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk
    except (OSError, ValueError) as error:
        raise Invalid(f"{os.fspath(path)!r} cannot be read: {error}", "check it") from error
