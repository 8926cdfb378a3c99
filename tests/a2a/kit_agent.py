"""The agent that the compatibility kit asks for: what it does goes by the id of the message."""

from __future__ import annotations

import time
from collections.abc import Iterator

from contextrelay.a2a.schema import COMPLETED, INPUT_REQUIRED, WORKING, Part
from contextrelay.a2a.work import Asked, Direct, Made, Output, Say

TEXT = "Hello from TCK"
# Twice as long as the kit listens to a stream.
LONG_S = 20.0


def act(asked: Asked) -> Iterator[Made]:
    """Does what the compatibility kit asks for."""
    id = asked.message.message_id
    for prefix, steps in _SCENES.items():
        if id.startswith(prefix):
            yield from steps
            return
    if id.startswith("tck-reject-task"):
        yield Say(state="TASK_STATE_REJECTED", text="rejected")
    elif id.startswith("test-resubscribe-message-id"):
        yield Say(state=WORKING)
        time.sleep(LONG_S)
    else:
        yield Say(state=COMPLETED, text=TEXT)


_FILE = Part(raw=b"file content", filename="output.txt", media_type="text/plain")
_URL = Part(url="https://example.com/output.txt", filename="output.txt", media_type="text/plain")
_WORKING = Say(state=WORKING)


def _streamed(text: str) -> list[Made]:
    return [_WORKING, Output(parts=[Part(text=text)]), Say(state=COMPLETED)]


# The longer prefix first.
_SCENES: dict[str, list[Made]] = {
    "tck-artifact-text": [Output(parts=[Part(text="Generated text content")])],
    "tck-artifact-file-url": [Output(parts=[_URL])],
    "tck-artifact-file": [Output(parts=[_FILE])],
    "tck-artifact-data": [Output(parts=[Part(data={"key": "value", "count": 42})])],
    "tck-message-response": [Direct(text="Direct message response")],
    "tck-input-required": [Say(state=INPUT_REQUIRED, text="more, please")],
    "tck-stream-001": _streamed("Stream hello from TCK"),
    "tck-stream-002": [Say(state=COMPLETED)],
    "tck-stream-003": _streamed("Stream task lifecycle"),
    "tck-stream-ordering-001": _streamed("Ordered output"),
    "tck-stream-artifact-text": _streamed("Streamed text content"),
    "tck-stream-artifact-file": [_WORKING, Output(parts=[_FILE]), Say(state=COMPLETED)],
    "tck-stream-artifact-chunked": [
        _WORKING,
        Output(id="c", parts=[Part(text="chunk-1 ")], is_last=False),
        Output(id="c", parts=[Part(text="chunk-2")], append=True),
        Say(state=COMPLETED),
    ],
}
