"""Flows: a rule of several requests, written once, for clients that block or are awaited.

A flow is a generator: it yields verbs, is sent their replies, and returns a value. An error of a
verb is raised where the flow yielded it.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

from contextrelay.errors import RelayError
from contextrelay.wire.verbs import Verb

Result = TypeVar("Result")
Flow = Generator[Verb[Any], Any, Result]


def run(transport: Any, flow: Flow[Result]) -> Result:
    """Drive a flow through a transport that blocks."""
    try:
        step = next(flow)
        while True:
            try:
                reply = transport.ask(step)
            except RelayError as error:
                step = flow.throw(error)
            else:
                step = flow.send(reply)
    except StopIteration as done:
        return done.value


async def run_awaited(transport: Any, flow: Flow[Result]) -> Result:
    """Drive a flow through a transport that is awaited."""
    try:
        step = next(flow)
        while True:
            try:
                reply = await transport.ask(step)
            except RelayError as error:
                step = flow.throw(error)
            else:
                step = flow.send(reply)
    except StopIteration as done:
        return done.value
