"""The child of the parser pool: a process that parses bodies, one at a time, within limits.

bounded/parser_pool.py starts the child and communicates over its stdin and stdout. The child opens
nothing, and gets nothing from its parent except the bytes that it is sent.

Rule: its limits are enforced by the kernel, so that they hold for any code: RLIMIT_AS for memory,
ITIMER_PROF and RLIMIT_CPU for CPU time, ITIMER_REAL for wall time. All of these end the process,
even if its parent is gone. Between two requests the process ends when its stdin is closed.
"""

from __future__ import annotations

import gc
import os
import resource
import select
import signal
import time
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

from msgspec import Struct
from msgspec.msgpack import Decoder, Encoder, decode

from contextrelay.errors import RelayError
from contextrelay.limits import MIB, PARSER_REAL_S_MAX, PARSER_ROOM_BYTES_MAX

PARSER_GROWTH_BYTES_MAX = 64 * MIB
PARSER_IDLE_S = 60

DONE, ERROR, NO_ROOM = 0, 1, 2
LENGTH_BYTES = 8

_encoder = Encoder()


class ParserRequest(Struct, array_like=True):
    """The start of a request; the bodies follow."""

    task: str
    arguments: bytes
    sizes_bytes: list[int]
    cpu_s: float


class Hello(Struct, array_like=True):
    """The message that the child sends once, when it is ready."""

    resident_bytes: int


class ParserReply(Struct, array_like=True):
    """The reply to a request."""

    status: int
    value: bytes
    is_last: bool  # Whether the child ends after this reply, because its memory has grown.


# The module, the type of the arguments and the function of each task, and whether it has several
# bodies; imported on first use.
_TASKS = {
    "look": ("overview", "OutlineRequest", "make_overview", False),
    "take": ("slicing.slice", "SliceRequest", "slice_body", False),
    "index": ("search.passages", "IndexRequest", "index_body", False),
    "diff": ("diff", "DiffRequest", "diff_texts", True),
    "records": ("grep.records", "RecordQuery", "records", False),
}


def main() -> NoReturn:
    """Answer requests until stdin ends."""
    out = os.dup(1)
    os.dup2(2, 1)  # Redirect stdout, so that printed text does not get between the replies.
    _load()
    # Disable garbage collection, which takes a fifth of the time. A child whose memory has grown by
    # reference cycles is replaced.
    gc.disable()
    room_bytes, resident_bytes = _room_bytes()
    _write(out, Hello(resident_bytes))
    requests = Decoder(ParserRequest)
    # Until a long idle time, or the end of stdin.
    while select.select([0], [], [], PARSER_IDLE_S)[0]:
        raw = _read(int.from_bytes(_read(LENGTH_BYTES), "big"))
        request = requests.decode(raw)
        _limit(request.cpu_s, room_bytes + sum(request.sizes_bytes))
        try:
            bodies = [_read(size_bytes) for size_bytes in request.sizes_bytes]
            status, value = _answer(request, bodies)
            del bodies
        except MemoryError:
            status, value = NO_ROOM, b""
        _limit(0, 0)
        has_grown = _room_bytes()[1] > resident_bytes + PARSER_GROWTH_BYTES_MAX
        is_last = has_grown or status == NO_ROOM
        _write(out, ParserReply(status, value, is_last))
        if is_last:
            break
    os._exit(0)


def _load() -> None:
    """Load the modules that requests need, so that loading does not count in their limits."""
    from contextrelay.content.outline.code.grammars import allow
    from contextrelay.content.tokens import count_tokens

    allow()
    import_module("contextrelay.content.overview")
    import_module("contextrelay.content.search.passages")
    import_module("contextrelay.content.slicing.slice")
    count_tokens("loads the tokenizer")


def _answer(request: ParserRequest, bodies: list[bytes]) -> tuple[int, bytes]:
    from contextrelay.verbs.problems import problem

    name, arguments, function, has_bodies = _TASKS[request.task]
    module = import_module(f"contextrelay.content.{name}")
    asked = decode(request.arguments, type=getattr(module, arguments))
    try:
        found = getattr(module, function)(asked, bodies if has_bodies else bodies[0])
        return DONE, _encoder.encode(found)
    except RelayError as error:
        return ERROR, _encoder.encode(problem(error))


def _read(size_bytes: int) -> bytes:
    """Read exactly `size_bytes` bytes; exit the process at the end of stdin."""
    parts: list[bytes] = []
    while size_bytes > 0:
        part = os.read(0, min(size_bytes, MIB))
        if not part:
            os._exit(0)
        parts.append(part)
        size_bytes -= len(part)
    return b"".join(parts)


def _write(out: int, message: Hello | ParserReply) -> None:
    raw = _encoder.encode(message)
    left = memoryview(len(raw).to_bytes(LENGTH_BYTES, "big") + raw)
    try:
        while left:
            left = left[os.write(out, left) :]
    except BrokenPipeError:
        os._exit(0)


def _limit(cpu_s: float, room_bytes: int) -> None:
    signal.setitimer(signal.ITIMER_PROF, cpu_s)
    signal.setitimer(signal.ITIMER_REAL, PARSER_REAL_S_MAX if cpu_s else 0)
    used_s = time.process_time()
    _set_soft(resource.RLIMIT_CPU, int(used_s + cpu_s) + 2 if cpu_s else 0)
    # If the system does not enforce this limit (macOS), the parent watches the memory
    # (parser_pool.py).
    _set_soft(resource.RLIMIT_AS, room_bytes + PARSER_ROOM_BYTES_MAX if room_bytes else 0)


def _set_soft(which: int, value: int) -> None:
    _, hard = resource.getrlimit(which)
    if not value or (hard != resource.RLIM_INFINITY and value > hard):
        value = hard
    with suppress(ValueError, OSError):
        resource.setrlimit(which, (value, hard))


def _room_bytes() -> tuple[int, int]:
    """Return the used address space and memory in bytes; 0 if the system does not report them."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            pages = statm.read().split()
    except OSError:
        return 0, 0
    page_bytes = resource.getpagesize()
    return int(pages[0]) * page_bytes, int(pages[1]) * page_bytes
