"""Agents for tests: Python functions, named as `py:tests.a2a.agents:NAME`."""

from __future__ import annotations

import itertools
import threading
from collections.abc import AsyncIterator, Iterator
from hashlib import sha256

from contextrelay.a2a.schema import INPUT_REQUIRED, Part
from contextrelay.a2a.work import Asked, Made, Output, Say

GOES_ON = threading.Event()
"""What `waits` waits for."""
LONG_BODY = "a long line of an answer\n" * 2_000


def echo(asked: Asked) -> str:
    """Says what was said."""
    return asked.text


def counts(asked: Asked) -> Iterator[str]:
    """Counts to three, word by word."""
    yield from ("one ", "two ", "three")


async def awaited(asked: Asked) -> AsyncIterator[Made]:
    """Is awaited."""
    yield "awaited "
    yield asked.text


def fails(asked: Asked) -> str:
    """Fails."""
    raise ValueError("there is no such order")


def long(asked: Asked) -> str:
    """Answers at length."""
    return LONG_BODY


def waits(asked: Asked) -> Iterator[Made]:
    """Says a word, then waits."""
    yield "first "
    while not GOES_ON.wait(0.02):
        yield ""
    yield "second"


def asks_back(asked: Asked) -> Made:
    """Wants a second message."""
    if len(asked.thread.events(limit=100)) and asked.text == "which?":
        return Say(state=INPUT_REQUIRED, text="that one or this one?")
    return Output(parts=[Part(text=f"so: {asked.text}")], name="choice")


def hashes(asked: Asked) -> dict[str, list[str]]:
    """The hash of the body of every part."""
    return {"sha256": [sha256(asked.read(part)).hexdigest() for part in asked.parts]}


def endless(asked: Asked) -> Iterator[str]:
    """Counts until somebody stops it."""
    for number in itertools.count():
        yield f"{number} "
        threading.Event().wait(0.01)


def stuck(asked: Asked) -> Iterator[str]:
    """Says a word, then blocks its thread for ever."""
    yield "started"
    threading.Event().wait()


def holds(asked: Asked) -> Iterator[str]:
    """Says nothing until it is stopped, and notes that it was."""
    try:
        while True:
            yield ""
            threading.Event().wait(0.02)
    finally:
        asked.thread.add_event("test.stopped", {})


def plain(text: str) -> str:
    """Is given words and nothing else."""
    return text.upper()


# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false
async def unmarked(words, times=2):
    """Has no types."""
    return words * times


def all_of_it(message: Asked) -> str:
    """Is given everything, by the type of its parameter."""
    return f"{message.turn} {message.text}"


def nothing() -> str:
    """Takes nothing, so it is no agent."""
    return ""
