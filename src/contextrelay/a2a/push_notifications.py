"""Webhooks: the updates of a task are sent to URLs that its client has configured.

A notification is signed (HMAC-SHA256 with the token of the configuration, over the time and the
body) and retried a few times. It is only sent to hosts allowed for `http.fetch`, and redirects are
not followed. The updates come from the log of the task. The position up to which they were sent is
stored, so that the next server continues after a kill. Only one process sends the updates of a
task, and the log says which one.

Rule: the content of a webhook configuration is secret. It is a row of the task's thread that no
other interface shows.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from secrets import token_hex

from msgspec import ValidationError, convert, to_builtins
from msgspec.json import encode
from msgspec.structs import replace

from contextrelay.a2a.parts import Viewer, show_update
from contextrelay.a2a.record import SENDS, TaskRecord
from contextrelay.a2a.schema import INTERRUPTED, ProtocolError, PushConfig
from contextrelay.a2a.tasks import BY, Tasks, catch_up, claim, is_dead, runner
from contextrelay.access import reach_of
from contextrelay.bounded.fetch import FetchPolicy, checked_url, post
from contextrelay.client.flow import in_thread
from contextrelay.client.relay import AsyncRelay
from contextrelay.client.transport.local import AsyncLocal
from contextrelay.errors import Gone, Invalid, NotFound, RelayError
from contextrelay.limits import DAY_S, KIB
from contextrelay.model.artifact import to_ms
from contextrelay.model.thread import Sent
from contextrelay.verbs import ListHooks, ListSent, NoteTask, PutHook, PutSent, ReadSent

# Limits of webhooks: their number per task, and the number of attempts, which follow after 1, 2, 4
# ... seconds.
A2A_HOOKS_MAX = 16
A2A_HOOK_TRIES_MAX = 5
A2A_HOOK_S_MAX = 10
A2A_HOOK_ANSWER_BYTES_MAX = 64 * KIB
# Limits per process: the number of tasks whose webhooks it serves, and of its concurrent calls.
# Unsent updates are in the ledger. At this interval in seconds, a process looks for unsent updates
# of other processes that are at most this old.
A2A_HOOKS_SERVED_MAX = 1_000
A2A_HOOKS_AT_ONCE_MAX = 32
A2A_HOOKS_LOOK_S = 60
A2A_HOOK_NEWS_S_MAX = DAY_S
log = logging.getLogger("contextrelay.a2a")
SIGNATURE = "X-Relay-Signature"
"""The header `t=SECONDS,v1=HEX`: HMAC-SHA256 of `SECONDS.BODY` with the configured token as key."""
TOKEN = "X-A2A-Notification-Token"
# Webhooks have a separate pool, so that agents do not wait for slow webhooks.
_pool = ThreadPoolExecutor(A2A_HOOKS_AT_ONCE_MAX, "relay-hook")


class Hooks:
    """The webhooks of one server process. Their configurations are in the store."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._id = token_hex(8)
        self._serving: dict[str, asyncio.Task[None]] = {}
        """The tasks whose updates this process sends."""

    # Storing

    def check(self, hook: PushConfig) -> None:
        """Check the URL of a webhook.

        Raises:
            ProtocolError: the URL is not http or https, or its host is a forbidden address.
        """
        try:
            parts = checked_url(hook.url)
        except Invalid as error:
            raise ProtocolError("InvalidParams", error.message, error.hint) from error
        host = parts.hostname or ""
        is_literal = host.replace(".", "").isdigit() or ":" in host
        if is_literal and reach_of(host) == "never":
            raise ProtocolError("InvalidParams", f"{host[:80]} is not allowed for a webhook")

    async def add(self, local: AsyncLocal, record: TaskRecord, hook: PushConfig) -> PushConfig:
        """Store a webhook for the later updates of a task, or replace it by its id. Return it."""
        every = await self.of(local, record.id)
        named = replace(hook, id=hook.id or local.stores.new_ref(), task_id=record.id, tenant="")
        if len(every) >= A2A_HOOKS_MAX and named.id not in [each.id for each in every]:
            problem = f"too many hooks: the limit is {A2A_HOOKS_MAX} per task"
            raise ProtocolError("InvalidParams", problem)
        await _space(local).ask(PutHook(record.id, named.id, to_builtins(named)))
        await self.send_updates(local, record)
        return named

    async def remove(self, local: AsyncLocal, task: str, id: str) -> None:
        """Delete a webhook. A missing webhook is not an error."""
        await _space(local).ask(PutHook(task, id, None))

    async def of(self, local: AsyncLocal, task: str) -> list[PushConfig]:
        """Return the hooks of a task."""
        found: list[PushConfig] = []
        space = _space(local)
        if space.stores.ledger.reads_wait:
            kept = await space.ask(ListHooks(task))
        else:
            kept = space.blocking().ask(ListHooks(task))  # A thread would cost more than this read.
        for each in kept:
            with suppress(ValidationError):
                found.append(convert(each, PushConfig))
        return found

    # Sending

    async def send_updates(self, local: AsyncLocal, record: TaskRecord) -> None:
        """Send the updates of a task to its webhooks, unless another process sends them."""
        if record.id in self._serving or not await self.of(local, record.id):
            return
        space, caller = _space(local), local.stores.caller
        sent = await space.ask(ReadSent(record.id))
        if sent is None and not record.is_over:
            key = None if caller is None else caller.key
            sent = Sent(thread=record.id, after=record.seq, key=key)
            await space.ask(PutSent(record.id, sent))
        if sent is not None:
            self._serve(local, record, sent)

    def _serve(self, local: AsyncLocal, record: TaskRecord, sent: Sent) -> None:
        # The updates of further tasks are in the ledger, and are sent later.
        if record.id in self._serving or len(self._serving) >= A2A_HOOKS_SERVED_MAX:
            return
        serving = asyncio.create_task(self._served(local, record, sent))
        self._serving[record.id] = serving
        serving.add_done_callback(lambda done: self._serving.pop(record.id, None))

    async def _served(self, local: AsyncLocal, record: TaskRecord, sent: Sent) -> None:
        """Send updates until a task ends or waits for its user. Then any process may continue."""
        seen = TaskRecord(record.id, record.context, record.agent)
        try:
            await catch_up(local, seen)
            while claimed := await self._claim(local, seen):
                own = TaskRecord(record.id, record.context, record.agent)
                await catch_up(local, own, sent.after)
                if not await self._send(local, own, sent, claimed):
                    return
                await _space(local).ask(NoteTask(own.id, SENDS, {"runner": None}, BY + own.agent))
                await catch_up(local, seen)
                if seen.state in INTERRUPTED:
                    return
                sent = await _space(local).ask(ReadSent(record.id)) or sent
        except (NotFound, Gone):
            await _space(local).ask(PutSent(record.id, None))
        except RelayError as error:
            log.warning("cannot send notifications of task %s: %s", record.id, error)

    async def _claim(self, local: AsyncLocal, seen: TaskRecord) -> int:
        """Claim the sending of a task's updates. The first claim in the log counts.

        Return the sequence number of the claim, or 0 if another process was first.
        """
        if seen.sender is not None and not is_dead(local, seen.sender):
            return seen.sender.seq if seen.sender.server == self._id else 0
        once = f"a2a hooks {seen.id} {0 if seen.sender is None else seen.sender.seq}"
        detail = {"runner": runner(), "server": self._id}
        return await claim(_space(local), NoteTask(seen.id, SENDS, detail, BY + seen.agent), once)

    async def _send(self, local: AsyncLocal, own: TaskRecord, sent: Sent, claimed: int) -> bool:
        """Send the updates after the position of a record. Return True if the task now waits."""
        space = _space(local)
        async with aclosing(self._tasks.follow(local, own, INTERRUPTED)) as updates:
            async for update in updates:
                hooks = await self.of(local, own.id)
                if not hooks:
                    await space.ask(PutSent(own.id, None))
                    return False
                if own.sender is not None and own.sender.seq > claimed:
                    # Another process assumed that this process is dead, and now sends the updates.
                    return False
                # Old updates are not sent after a long pause.
                now_ms, at_ms = local.stores.now_ms(), to_ms(own.at) if own.at else 0
                if now_ms - at_ms < A2A_HOOK_NEWS_S_MAX * 1000:
                    viewer = Viewer(AsyncRelay.over_transport(local), "", False)
                    body = encode(await show_update(viewer, own, update))
                    await asyncio.gather(*(_deliver(local, hook, body) for hook in hooks))
                await space.ask(PutSent(own.id, replace(sent, after=own.seq)))
        if own.is_over:
            await space.ask(PutSent(own.id, None))
        return own.state in INTERRUPTED

    # Resuming

    async def resume_unsent(self, local: AsyncLocal) -> None:
        """Send the updates that ended processes did not send, now and periodically."""
        while True:
            try:
                await self._look(local)
            except RelayError as error:
                log.warning("cannot check for unsent notifications: %s", error)
            await asyncio.sleep(A2A_HOOKS_LOOK_S)

    async def _look(self, local: AsyncLocal) -> None:
        for space in await in_thread(local.spaces):
            after = ""
            while page := await space.ask(ListSent(after)):
                for sent in page:
                    if sent.thread not in self._serving:
                        await self._take_up(local, space, sent)
                after = page[-1].thread

    async def _take_up(self, local: AsyncLocal, space: AsyncLocal, sent: Sent) -> None:
        """Send what another process left unsent, if the key of the request is still valid."""
        asked_by = sent.key
        own = local if asked_by is None else await in_thread(lambda: local.with_secret_of(asked_by))
        record = None if own is None else await self._tasks.read(own, sent.thread)
        if own is None or record is None:
            await space.ask(PutSent(sent.thread, None))
        elif record.agent not in self._tasks.agents:
            return  # The task belongs to another server.
        elif record.state not in INTERRUPTED or await _has_unsent(own, record, sent):
            self._serve(own, record, sent)

    async def stop(self) -> None:
        """Leave unsent updates to the next process. Call this after all tasks have stopped."""
        serving = list(self._serving.values())
        for each in serving:
            each.cancel()
        if serving:
            await asyncio.wait(serving)


async def _has_unsent(local: AsyncLocal, record: TaskRecord, sent: Sent) -> bool:
    before = TaskRecord(record.id, record.context, record.agent)
    await catch_up(local, before, sent.after)
    return before.updates < record.updates


def _space(local: AsyncLocal) -> AsyncLocal:
    """Return the store with the permissions of the owner, because nobody else can read webhooks."""
    return local.as_owner()


async def _deliver(local: AsyncLocal, hook: PushConfig, body: bytes) -> None:
    settings = local.stores.settings
    wanted = ("public", "private") if settings.fetch_private else ("public",)
    ways = FetchPolicy(
        lambda address: reach_of(address) in wanted,
        bytes_max=A2A_HOOK_ANSWER_BYTES_MAX,
        seconds_max=A2A_HOOK_S_MAX,
    )
    for attempt in range(A2A_HOOK_TRIES_MAX):
        if attempt:
            await asyncio.sleep(2 ** (attempt - 1))
        headers = _headers(hook, body, int(time.time()))
        try:
            await asyncio.wrap_future(_pool.submit(post, hook.url, body, headers, ways))
            return
        # The configuration or the receiver refused the request, and a retry would not help.
        except Invalid as error:
            log.warning("webhook not called: %s", error.message)
            return
        except RelayError as error:
            log.info("webhook did not respond: %s", error.message)
    log.warning("webhook failed after %d attempts", A2A_HOOK_TRIES_MAX)


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
