"""What tests of runs share: a provider that keeps what it is sent, and the events of a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from contextrelay.runs.provider import Prompt, Reply
from contextrelay.runs.providers.echo import Echo, ScriptLine

RUN = ["message.received", "run.started", "run.called", "run.finished"]


def kinds(thread: Any) -> list[str]:
    """The types of a thread's events that are about runs, in order."""
    types = [each.event.type for each in thread.events(limit=1000)]
    return [type for type in types if type.startswith(("run.", "message."))]


def details(thread: Any, type: str) -> list[dict[str, Any]]:
    return [each.event.detail for each in thread.events(limit=1000) if each.event.type == type]


class Recorder:
    """A provider as somebody else would write one: it keeps what it is sent."""

    name, model = "recorder", "tape-1"

    def __init__(self, *lines: ScriptLine) -> None:
        self.prompts: list[Prompt] = []
        self._echo = Echo("tape-1", lines)

    def answer(self, prompt: Prompt) -> Iterator[str | Reply]:
        self.prompts.append(prompt)
        return self._echo.answer(prompt)
