"""The child process that runs the functions of `python` steps, one after the other, until stdin is
closed.

Rule: the output of functions goes to stderr, because stdout carries only replies. Imports are kept
to a minimum.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from json import dumps
from typing import IO, Any

from msgspec import to_builtins
from msgspec.json import decode, encode

_SIZE_BYTES = 8
_BEGINS = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "os.exec")


def main() -> None:
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdout = sys.stderr
    sys.path.insert(0, sys.argv[1])
    before = dict(os.environ)
    begun: list[str] = []
    sys.addaudithook(lambda event, _: begun.append(event) if event in _BEGINS else None)
    while (request := read_message(requests)) is not None:
        asked: dict[str, Any] = decode(request)
        _set_environment({**before, **asked["env"]})
        try:
            header, body = _result(_call(asked["function"], asked["args"]))
        except Exception as error:
            said = f"{type(error).__name__}: {error}"[:2_000]
            header, body = {"error": said, "at": _place(error, sys.argv[1])}, b""
        write_message(replies, encode({**header, "has_children": bool(begun)}), body)
        begun.clear()


def _set_environment(wanted: dict[str, str]) -> None:
    """Set the environment variables of this process. Unchanged variables are skipped, because
    setting one is slow.
    """
    now = dict(os.environ)
    for name in now.keys() - wanted.keys():
        del os.environ[name]
    for name, value in wanted.items():
        if now.get(name) != value:
            os.environ[name] = value


def _call(function: str, args: dict[str, Any]) -> Any:
    module, _, name = function.partition(":")
    return getattr(import_module(module), name)(**args)


def _place(error: BaseException, folder: str) -> str:
    """Return the position of an error in a file of the folder as "FILE:LINE: ", or ""."""
    place, trace = "", error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file.startswith(os.path.join(folder, "")):
            place = f"{os.path.relpath(file, folder)}:{trace.tb_lineno}: "
        trace = trace.tb_next
    return place


def _result(value: Any) -> tuple[dict[str, Any], bytes]:
    """Return how to store the return value of a function, and its bytes."""
    if value is None:
        return {"has_result": False}, b""
    if isinstance(value, bytes | bytearray):
        return {"has_result": True}, bytes(value)
    if isinstance(value, str):
        return {"has_result": True}, value.encode()
    plain = to_builtins(value)
    dumps(plain, allow_nan=False)  # JSON cannot represent NaN, which would become null.
    return {"has_result": True, "media_type": "application/json"}, encode(plain)


def read_message(stream: IO[bytes]) -> bytes | None:
    """Return the next length-prefixed message of a stream, or None at its end."""
    size = stream.read(_SIZE_BYTES)
    if len(size) < _SIZE_BYTES:
        return None
    body = stream.read(int.from_bytes(size))
    return body if len(body) == int.from_bytes(size) else None


def write_message(stream: IO[bytes], *bodies: bytes) -> None:
    """Write length-prefixed messages to a stream in one call."""
    for body in bodies:
        stream.write(len(body).to_bytes(_SIZE_BYTES) + body)
    stream.flush()


if __name__ == "__main__":
    main()
