"""Spans: one a request, sent to the OpenTelemetry receiver that the environment names.

A span says which route, verb and status, how long and how many bytes: no path or query of a
request, no ref, no body, no key, no address. Where no receiver is named there is no `Spans`.

Rule: a request never waits for a receiver. Spans wait in a bounded queue for a thread of their own;
what finds no place there, or is not taken, is dropped, counted and said in the log.
"""

from __future__ import annotations

import logging
import os
import re
from collections import deque
from random import getrandbits
from threading import Event, Thread
from time import monotonic, perf_counter_ns, time_ns
from typing import NamedTuple

from contextrelay.errors import RelayError
from contextrelay.limits import (
    OTLP_EVERY_S,
    OTLP_LAST_S_MAX,
    OTLP_QUEUE_MAX,
    OTLP_SAID_EVERY_S,
    OTLP_SPANS_AT_ONCE,
)
from contextrelay.runs.otlp import SERVER, Sender, Span, Target, Value, target_in
from contextrelay.server.metrics import NO_PLACE
from contextrelay.verbs.routes import routes

log = logging.getLogger("contextrelay.http")

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OTHER = "_OTHER"
# Version, trace id, parent id, flags; neither id may be all zeros.
_TRACEPARENT = re.compile(
    rb"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?"
)
_SAMPLED = 1


class Answered(NamedTuple):
    """A request that was answered; its status is 0 where the client left before."""

    begun_ns: int
    ended_ns: int
    path: str
    method: str
    status: int
    bytes_in: int
    bytes_out: int
    traceparent: bytes


def open_spans() -> Spans | None:
    """What sends spans where the environment says; None where it says nowhere."""
    try:
        target = target_in(os.environ)
    except RelayError as error:
        log.warning("no spans are sent: %s; %s", error, error.hint)
        return None
    return Spans(target) if target is not None else None


class Spans:
    """The spans of one process, on their way."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._queue: deque[Answered] = deque()
        self._dropped = 0
        self._said_s = -OTLP_SAID_EVERY_S
        self._awake, self._ending = Event(), Event()
        self._verbs = {
            (route.path, route.method): route.verb.__name__ for route in routes() if not route.name
        }
        # What a request took is measured by another clock than that of the calendar.
        self._ahead_ns = time_ns() - perf_counter_ns()
        self._thread = Thread(target=self._work, name="relay-spans", daemon=True)
        self._thread.start()

    def add(
        self,
        begun_ns: int,
        path: str,
        method: str,
        status: int,
        bytes_in: int,
        bytes_out: int,
        traceparent: bytes = b"",
    ) -> None:
        """Take note of a request that was answered just now."""
        queue = self._queue
        if len(queue) >= OTLP_QUEUE_MAX:
            self._dropped += 1
            return
        queue.append(
            Answered(
                begun_ns, perf_counter_ns(), path, method, status, bytes_in, bytes_out, traceparent
            )
        )
        if len(queue) >= OTLP_SPANS_AT_ONCE:
            self._awake.set()

    def close(self) -> None:
        """Send what waits, if that can be done soon."""
        self._ending.set()
        self._awake.set()
        self._thread.join(OTLP_LAST_S_MAX)

    def _work(self) -> None:
        with Sender(self._target) as sender:
            is_last = False
            while not is_last:
                self._awake.wait(OTLP_EVERY_S)
                self._awake.clear()
                is_last = self._ending.is_set()
                self._send(sender)

    def _send(self, sender: Sender) -> None:
        while self._queue:
            some = [self._queue.popleft() for _ in range(min(len(self._queue), OTLP_SPANS_AT_ONCE))]
            spans = [span for each in some if (span := self._span(each)) is not None]
            try:
                if spans:
                    sender.send(spans, self._ending.wait)
            except RelayError as error:
                self._dropped += len(spans)
                self._say(str(error))
        if self._dropped:
            self._say("they came faster than they were taken")

    def _say(self, why: str) -> None:
        """Log what was dropped, now and then."""
        if monotonic() - self._said_s >= OTLP_SAID_EVERY_S:
            self._said_s = monotonic()
            log.warning("%d spans were dropped: %s", self._dropped, why)
            self._dropped = 0

    def _span(self, done: Answered) -> Span | None:
        """The span of a request; None where its caller traces, and this one not."""
        parent = _TRACEPARENT.fullmatch(done.traceparent)
        if parent is not None and not int(parent[3], 16) & _SAMPLED:
            return None
        method = done.method if done.method in _METHODS else _OTHER
        route = "" if done.path == NO_PLACE else done.path
        verb = self._verbs.get((done.path, "GET" if method == "HEAD" else method))
        attributes: dict[str, Value] = {
            "http.request.method": method,
            **({"http.route": route} if route else {}),
            **({"contextrelay.verb": verb} if verb else {}),
            **({"http.response.status_code": done.status} if done.status else {}),
            "http.request.body.size": done.bytes_in,
            "http.response.body.size": done.bytes_out,
        }
        return Span(
            trace_id=bytes.fromhex(parent[1].decode()) if parent else _id(16),
            span_id=_id(8),
            parent_id=bytes.fromhex(parent[2].decode()) if parent else b"",
            name=f"{method} {route}".strip(),
            kind=SERVER,
            start_ns=done.begun_ns + self._ahead_ns,
            end_ns=done.ended_ns + self._ahead_ns,
            attributes=attributes,
            is_error=done.status >= 500,
        )


def _id(size_bytes: int) -> bytes:
    """A random id; it names a span and keeps no secret. All zeros would be none."""
    return (getrandbits(8 * size_bytes) or 1).to_bytes(size_bytes)
