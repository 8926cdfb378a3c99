"""Approvals: steps that wait for a decision, which arrives by a command or as a signal on a
channel.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any, NamedTuple

from msgspec import DecodeError
from msgspec.json import decode

from contextrelay.client.relay import Relay
from contextrelay.documents.values import is_object
from contextrelay.errors import Conflict
from contextrelay.limits import LABEL_CHARS_MAX, STEP_REASON_CHARS_MAX
from contextrelay.model.signal import SignalPage
from contextrelay.pipelines.graph import Unit
from contextrelay.pipelines.record import RunRecord, StepRecord
from contextrelay.verbs import DecideStep, FinishStep, ReadSignals


class ApprovalDecision(NamedTuple):
    """An approval or rejection of a step, and who decided."""

    is_approved: bool
    by: str = ""
    reason: str = ""
    channel: str | None = None
    """The channel and the sequence number of the signal that decided, or None if it was not a
    signal.
    """
    signal: int = 0


def decide(relay: Relay, run: str, step: str, decision: ApprovalDecision) -> None:
    """Record a decision on a waiting step, which is then done or failed.

    Raises:
        Conflict: the step was already decided.
    """
    verb = DecideStep(
        thread=run,
        step=step,
        is_approved=decision.is_approved,
        reason=decision.reason[:STEP_REASON_CHARS_MAX],
        channel=decision.channel,
        signal=decision.signal,
        by=decision.by[:LABEL_CHARS_MAX],
    )
    relay.transport.ask(verb)


class _Wait:
    """A step that waits for a decision."""

    def __init__(self, unit: Unit, ends_s: float | None, after: int) -> None:
        self.unit, self.ends_s = unit, ends_s
        self.after = after
        """The sequence number of the newest signal that is older than the step or was already read.
        """


class Waits:
    """The steps of a run that wait for a decision."""

    def __init__(self, relay: Relay, run: str) -> None:
        self._relay, self._run = relay, run
        self._waits: dict[str, _Wait] = {}

    def __bool__(self) -> bool:
        return bool(self._waits)

    def begin(self, unit: Unit, question: str, before: StepRecord | None) -> str:
        """Record that a step waits for a decision, and return the command that approves the step.

        If the run was killed, the timeout of the step continues from its first record.
        """
        step, hint = unit.node.step, f"relay pipeline approve {self._run[:8]} {unit.key}"
        since_s = time.time() if before is None else before.at.timestamp()
        ends_s = None if step.timeout_s is None else since_s + step.timeout_s
        if before is not None:
            self._waits[unit.key] = _Wait(unit, ends_s, before.detail.after)
            return hint
        after = 0
        if step.channel is not None:
            after = self._relay.transport.ask(ReadSignals(step.channel)).head
        detail: dict[str, Any] = {
            "kind": "approve",
            "question": question[:STEP_REASON_CHARS_MAX],
            "channel": step.channel,
            "after": after,
            "hint": hint,
        }
        verb = FinishStep(thread=self._run, step=unit.key, status="waiting", detail=detail)
        self._relay.transport.ask(verb)
        self._waits[unit.key] = _Wait(unit, ends_s, after)
        return hint

    def listen(self) -> None:
        """Read decisions from the channels of waiting steps, and record the decisions and
        timeouts.
        """
        for key, wait in self._waits.items():
            decision = self._signalled(wait)
            if decision is None and wait.ends_s is not None and time.time() >= wait.ends_s:
                timeout_s = wait.unit.node.step.timeout_s
                decision = ApprovalDecision(
                    False, "pipeline", f"no decision within {timeout_s:g} s"
                )
            if decision is not None:
                # A concurrent decision was recorded first, and is the one that counts.
                with suppress(Conflict):
                    decide(self._relay, self._run, key, decision)

    def _signalled(self, wait: _Wait) -> ApprovalDecision | None:
        """Return the decision of a signal with the message `{"step": STEP, "approve": true or
        false}`, or None if no such signal arrived.

        The message may also have the fields `run`, if several runs share the channel, and `reason`.
        """
        channel = wait.unit.node.step.channel
        if channel is None:
            return None
        page: SignalPage = self._relay.transport.ask(ReadSignals(channel, wait.after))
        for signal in page:
            wait.after = signal.seq
            message: Any = signal.message
            if isinstance(message, str):  # `relay publish` sends the message as text.
                with suppress(DecodeError):
                    message = decode(message)
            if not is_object(message) or message.get("step") != wait.unit.key:
                continue
            if message.get("run", self._run) == self._run and type(message.get("approve")) is bool:
                return ApprovalDecision(
                    message["approve"],
                    reason=str(message.get("reason", "")),
                    channel=channel,
                    signal=signal.seq,
                )
        return None

    def decided(self, record: RunRecord) -> list[tuple[Unit, StepRecord]]:
        """Return the steps that have been decided, with their final records. They are removed from
        this object.
        """
        over = [
            (wait.unit, record.steps[key])
            for key, wait in self._waits.items()
            if key in record.steps and record.steps[key].is_final
        ]
        for unit, _ in over:
            self._waits.pop(unit.key)
        return over
