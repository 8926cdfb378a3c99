"""Streams of runs: words as they come, and runs that are stopped in the middle."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from threading import Event as Flag
from typing import Any

import pytest

from contextrelay import AsyncRelay, Relay
from contextrelay.client.transport.local import Local
from contextrelay.model.run import ToolUse
from contextrelay.runs.provider import Prompt, Reply
from contextrelay.runs.providers.echo import Echo, ScriptedCall, ScriptLine
from contextrelay.verbs import FinishRun
from tests.runs.recorder import RUN, details, kinds


def test_words_come_as_the_model_says_them_and_then_the_result() -> None:
    """Promise X2: streaming."""
    thread = Relay("memory:").new_thread("stream")

    stream = thread.run_stream("one\ntwo\nthree", "echo")
    pieces = list(stream)

    assert pieces == ["one\n", "two\n", "three"]
    assert stream.result is not None
    assert stream.result.text == "one\ntwo\nthree"


def test_a_stream_that_is_closed_keeps_what_came() -> None:
    """Promise X1: an interrupted run is marked so."""
    thread = Relay("memory:").new_thread("closed early")

    with thread.run_stream("one\ntwo\nthree", "echo") as stream:
        assert next(stream) == "one\n"
        time.sleep(0.01)

    assert stream.result is not None
    assert (stream.result.text, stream.result.status) == ("one\n", "interrupted")
    assert stream.result.ref is not None
    assert thread.relay.pull(stream.result.ref) == b"one\n"
    assert kinds(thread) == [*RUN[:3], "run.interrupted"]
    assert details(thread, "run.called")[0]["basis"] == "estimated"
    assert details(thread, "run.called")[0]["duration_ms"] > 0
    assert list(stream) == []


class Interrupting:
    """A provider in the middle of whose words somebody presses Ctrl-C."""

    name, model = "slow", "s1"

    def __init__(self, *words: str) -> None:
        self._words = words
        self.is_closed = False

    def answer(self, prompt: Prompt) -> Iterator[str | Reply]:
        try:
            yield from self._words
            raise KeyboardInterrupt
        finally:
            self.is_closed = True


def test_ctrl_c_ends_the_answer_and_keeps_what_came() -> None:
    """Promise X2: Ctrl-C ends the answer, not the store."""
    thread = Relay("memory:").new_thread("ctrl-c")
    provider = Interrupting("half of ", "it")

    with pytest.raises(KeyboardInterrupt):
        thread.run("go", provider)

    assert provider.is_closed
    answer = thread.state()["artifacts"][-1]["ref"]
    assert thread.relay.pull(answer) == b"half of it"
    assert kinds(thread)[-1] == "run.interrupted"
    with pytest.raises(KeyboardInterrupt):
        thread.run("go", Interrupting())
    assert details(thread, "run.interrupted")[-1]["ref"] is None
    assert len(thread.state()["artifacts"]) == 1


class Waiting:
    """A provider that says a word, and then waits."""

    name, model = "waiting", "w1"

    def __init__(self) -> None:
        self.go_on = Flag()
        self.is_closed = Flag()

    def answer(self, prompt: Prompt) -> Iterator[str | Reply]:
        try:
            yield "a word"
            self.go_on.wait(30)
            yield "another"
        finally:
            self.is_closed.set()


def test_a_cancelled_task_keeps_what_came() -> None:
    """Promise X1: awaited, a cancelled run is an interrupted one."""

    async def cancelled() -> tuple[list[str], str]:
        async with AsyncRelay("memory:") as relay:
            thread = await relay.new_thread("cancelled")
            provider = Waiting()
            heard = asyncio.Event()
            stream = thread.run_stream("go", provider)

            async def listen() -> None:
                async for _ in stream:
                    heard.set()

            task = asyncio.create_task(listen())
            await asyncio.wait_for(heard.wait(), 30)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            provider.go_on.set()
            await asyncio.to_thread(provider.is_closed.wait, 30)
            assert provider.is_closed.is_set()
            assert stream.result is not None
            return [each.event.type for each in await thread.events()], stream.result.text

    types, text = asyncio.run(cancelled())

    assert text == "a word"
    assert "run.interrupted" in types


def test_awaited_words_come_as_the_model_says_them() -> None:
    """Promise X2: the same, awaited."""

    async def asked() -> tuple[list[str], str | None]:
        async with AsyncRelay("memory:") as relay:
            thread = await relay.new_thread("awaited")
            stream = thread.run_stream("one\ntwo", "echo")
            pieces = [piece async for piece in stream]
            whole = await thread.run("three", "echo")
            return [*pieces, whole.text], stream.result and stream.result.ref

    pieces, ref = asyncio.run(asked())

    assert pieces == ["one\n", "two", "three"]
    assert ref is not None


def test_tools_are_reported_as_they_are_used() -> None:
    """Promise X2."""
    thread = Relay("memory:").new_thread("uses")
    ref = thread.put("content").ref
    uses: list[ToolUse] = []

    thread.run(
        "look",
        Echo(script=[ScriptLine("", (ScriptedCall("relay_get", {"ref": ref}),)), ScriptLine("ok")]),
        on_tool=uses.append,
    )

    assert [(use.name, use.refs, use.is_error) for use in uses] == [("relay_get", (ref,), False)]


class InterruptedOnce(Local):
    """A transport with which somebody presses Ctrl-C right after the answer was stored."""

    def ask(self, verb: Any, body: Any = b"", key: str = "") -> Any:
        reply = super().ask(verb, body, key)
        if isinstance(verb, FinishRun):
            raise KeyboardInterrupt
        return reply


def test_ctrl_c_right_after_the_answer_was_stored_does_not_store_it_twice() -> None:
    """Promise X1: an answer is one version."""
    relay = Relay("memory:")
    relay.transport = InterruptedOnce(relay.transport.stores)
    thread = relay.new_thread("late")
    stream = thread.run_stream("hello", "echo")

    with pytest.raises(KeyboardInterrupt):
        list(stream)

    assert stream.result is not None
    assert (stream.result.status, stream.result.stop) == ("finished", "end")
    assert kinds(thread) == RUN
    assert thread.show().version == 2
