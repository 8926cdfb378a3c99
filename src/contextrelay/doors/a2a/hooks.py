"""Hooks: the updates of a task, sent to URLs that its client named.

A notification is signed (HMAC-SHA256 with the config's token, over the time and the body), tried
again a few times, and goes only to where `http.fetch` may go; a redirect is not followed.

Rule: what a hook holds is secret. It is a row of the task's thread that no other door shows.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from typing import Any

from msgspec import ValidationError, convert, to_builtins
from msgspec.json import encode
from msgspec.structs import replace

from contextrelay.client.relay import AsyncRelay
from contextrelay.client.transport.local import AsyncLocal
from contextrelay.core.answer import answer
from contextrelay.core.capabilities.fetch_target import Ways, checked_url
from contextrelay.core.capabilities.http_fetch import post
from contextrelay.doors.a2a.agents import pool
from contextrelay.doors.a2a.parts import Viewer, show_update
from contextrelay.doors.a2a.record import TaskRecord, Update
from contextrelay.errors import Invalid, RelayError
from contextrelay.limits import (
    A2A_HOOK_ANSWER_BYTES_MAX,
    A2A_HOOK_S_MAX,
    A2A_HOOK_TRIES_MAX,
    A2A_HOOKS_MAX,
    A2A_HOOKS_WAITING_MAX,
)
from contextrelay.logic.access.public_addresses import reach_of
from contextrelay.wire.a2a import ProtocolError, PushConfig
from contextrelay.wire.verbs import ListHooks, PutHook

log = logging.getLogger("contextrelay.a2a")

SIGNATURE = "X-Relay-Signature"
"""`t=SECONDS,v1=HEX`: HMAC-SHA256 of `SECONDS.BODY`, with the token of the config as its key."""
TOKEN = "X-A2A-Notification-Token"


class Hooks:
    """The hooks of one server process: kept in the store, called here."""

    def __init__(self) -> None:
        self._without: set[str] = set()
        """Tasks that had no hooks when they were last looked at."""
        self._last: dict[str, asyncio.Task[None]] = {}
        """The last notification of each task: the next one waits for it."""

    # Keeping

    def check(self, hook: PushConfig) -> None:
        """Refuse a URL that is none.

        Raises:
            ProtocolError: it is not http or https, or names an address that is never reached.
        """
        try:
            parts = checked_url(hook.url)
        except Invalid as error:
            raise ProtocolError("InvalidParams", error.message, error.hint) from error
        host = parts.hostname or ""
        is_literal = host.replace(".", "").isdigit() or ":" in host
        if is_literal and reach_of(host) == "never":
            raise ProtocolError("InvalidParams", f"{host[:80]} is no address of a webhook")

    async def add(self, local: AsyncLocal, task: str, hook: PushConfig) -> PushConfig:
        """Keep a hook of a task, in place of one with its id."""
        every = await self.of(local, task)
        named = replace(hook, id=hook.id or local.stores.new_ref(), task_id=task, tenant="")
        if len(every) >= A2A_HOOKS_MAX and named.id not in [each.id for each in every]:
            raise ProtocolError("InvalidParams", f"{A2A_HOOKS_MAX} hooks of a task are all")
        await _space(local).ask(PutHook(task, named.id, to_builtins(named)))
        self._without.discard(task)
        return named

    async def remove(self, local: AsyncLocal, task: str, id: str) -> None:
        """Forget a hook; one that is not there is forgotten already."""
        await _space(local).ask(PutHook(task, id, None))

    async def of(self, local: AsyncLocal, task: str) -> list[PushConfig]:
        """The hooks of a task."""
        found: list[PushConfig] = []
        space = _space(local)
        if space.stores.ledger.reads_wait:
            kept = await space.ask(ListHooks(task))
        else:
            kept = answer(space.stores, ListHooks(task))  # A thread would cost more than the read.
        for each in kept:
            try:
                found.append(convert(each, PushConfig))
            except ValidationError:
                continue
        return found

    @staticmethod
    def shown(hook: PushConfig) -> dict[str, Any]:
        """A hook as its client sees it: what it sent."""
        return to_builtins(hook)

    # Calling

    def heard(self, local: AsyncLocal, record: TaskRecord, update: Update) -> None:
        """Send an update to the hooks of its task, after those before it."""
        # Another process may have kept a hook since: at the end of a task they are always read.
        if record.id in self._without and not record.is_over:
            return
        self._without.discard(record.id)
        if len(self._last) >= A2A_HOOKS_WAITING_MAX:
            log.warning("too many notifications wait: one of task %s is left out", record.id)
            return
        before = self._last.get(record.id)
        task = asyncio.create_task(self._send(local, record, update, before))
        self._last[record.id] = task

        def gone(done: asyncio.Task[None]) -> None:
            if self._last.get(record.id) is done:
                del self._last[record.id]

        task.add_done_callback(gone)

    async def _send(
        self,
        local: AsyncLocal,
        record: TaskRecord,
        update: Update,
        before: asyncio.Task[None] | None,
    ) -> None:
        try:
            hooks = await self.of(local, record.id)
            if not hooks:
                if not record.is_over:
                    self._without.add(record.id)
                return
            viewer = Viewer(AsyncRelay.over(local), "", False)
            body = encode(await show_update(viewer, record, update))
        except RelayError as error:
            log.warning("cannot notify of task %s: %s", record.id, error)
            return
        if before is not None:
            await asyncio.wait([before])
        await asyncio.gather(*(_deliver(local, hook, body) for hook in hooks))

    async def stop(self) -> None:
        """Give up what waits; in the event loop, when no task is worked on."""
        waiting = list(self._last.values())
        for each in waiting:
            each.cancel()
        if waiting:
            await asyncio.wait(waiting)


def _space(local: AsyncLocal) -> AsyncLocal:
    """The store as its owner sees it: hooks are for nobody else."""
    return local.over(local.stores.space)


async def _deliver(local: AsyncLocal, hook: PushConfig, body: bytes) -> None:
    settings = local.stores.settings
    wanted = ("public", "private") if settings.fetch_private else ("public",)
    ways = Ways(
        lambda address: reach_of(address) in wanted,
        bytes_max=A2A_HOOK_ANSWER_BYTES_MAX,
        seconds_max=A2A_HOOK_S_MAX,
    )
    for attempt in range(A2A_HOOK_TRIES_MAX):
        if attempt:
            await asyncio.sleep(2 ** (attempt - 1))
        headers = _headers(hook, body, int(time.time()))
        try:
            await asyncio.wrap_future(pool.submit(post, hook.url, body, headers, ways))
            return
        except Invalid as error:  # It is refused, there or here: that will not change.
            log.warning("a webhook is not called: %s", error.message)
            return
        except RelayError as error:
            log.info("a webhook did not answer: %s", error.message)
    log.warning("a webhook did not answer %d times", A2A_HOOK_TRIES_MAX)


def _headers(hook: PushConfig, body: bytes, now_s: int) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "A2A-Version": "1.0"}
    if hook.authentication is not None:
        scheme, credentials = hook.authentication.scheme, hook.authentication.credentials
        headers["Authorization"] = f"{scheme} {credentials}".strip()
    if hook.token:
        signed = hmac.new(hook.token.encode(), b"%d." % now_s + body, "sha256").hexdigest()
        headers[TOKEN] = hook.token
        headers[SIGNATURE] = f"t={now_s},v1={signed}"
    return headers
