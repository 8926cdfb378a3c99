"""Seals against those between: they see neither a word nor a key, and cannot change a thing."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import traceback
from base64 import urlsafe_b64decode
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec.json import decode, encode
from msgspec.structs import replace

from contextrelay import AsyncRelay, ContextRelay, Relay, RelayError, Sealed
from contextrelay.client.seal.push import Pushed
from contextrelay.model.artifact import Artifact, Provenance
from contextrelay.verbs import Pull
from contextrelay.verbs.routes import FRAMED
from tests.cli.shell import Shell, Started
from tests.client.wires import Listener, Scripted, listening, reply

SECRET = "nobody may read this sentence"
OPEN = "anybody may read this sentence"
CHUNK = 64 * 1024


class Recorder(Listener):
    """Passes connections on, and keeps every byte of both ways."""

    def __init__(self) -> None:
        super().__init__()
        self.upstream_port = 0
        self.heard: list[bytes] = []

    def handle(self, client: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", self.upstream_port)) as upstream:
            self._open.add(upstream)
            self._spawn(self._pass_on, client, upstream)
            self._pass_on(upstream, client)

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while part := source.recv(65_536):
                self.heard.append(part)
                target.sendall(part)


@contextmanager
def served(shell: Shell) -> Generator[tuple[Started, Recorder]]:
    """`relay serve`, as people start it, and somebody who listens before it."""
    recorder = Recorder()
    own = f"127.0.0.1:{recorder.port}"
    with shell.started("serve", "--port", "0", "--allow-host", own) as running:
        recorder.upstream_port = int(running.line().rstrip("/").rpartition(":")[2])
        with listening(recorder):
            yield running, recorder


def spellings(url: str) -> list[bytes]:
    """A key as it might leak: its characters, its bytes, in hexadecimal."""
    spelled = url.partition("#")[2].partition("=")[2]
    key = spelled.partition(".")[0].rstrip("=")
    raw = urlsafe_b64decode(key + "=")
    return [key.encode(), raw, raw.hex().encode(), key[:20].encode()]


def test_neither_a_word_nor_a_key_is_found_anywhere(tmp_path: Path) -> None:
    """Promise E1. Promise E3. Promise E4."""
    shell = Shell(tmp_path)
    text = f"{SECRET}\n" * 5_000
    with served(shell) as (running, recorder):
        with Relay(recorder.url) as relay:
            urls = use(shell, relay, recorder.url, text)
            relay.push(OPEN)
            figures = httpx2.get(f"{recorder.url}/metrics").content
        _, out, err = running.ended(signal.SIGTERM)
    traffic = b"".join(recorder.heard)
    files = {path: path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file()}
    places = {**files, "traffic": traffic, "logs": (out + err).encode(), "figures": figures}

    assert OPEN.encode() in traffic  # What is not sealed would have been found.
    assert any(OPEN.encode() in held for held in files.values())
    assert b"contextrelay" in figures
    for place, held in places.items():
        assert SECRET.encode() not in held, place
        for url in urls:
            for spelling in spellings(url):
                assert spelling not in held, place
    for url in urls:
        assert b"#" + url.partition("#")[2][:8].encode() not in traffic


def use(shell: Shell, relay: Relay, address: str, text: str) -> list[str]:
    """Do with sealed bodies all that is done with them; the URLs with their keys."""
    with ContextRelay(address) as hub:
        urls = [hub.push(text, channel="plans", encrypted=True, metadata={"summary": "plan"})]
        assert hub.pull(urls[0]) == text
        assert hub.peek(urls[0]) == {"summary": "plan"}
    thread = relay.thread("plans")
    for seal in ("k1", "k2"):
        made = relay.push(text, seal=seal, channel="plans", name="plan.md")
        urls += [made.url, thread.put(text, seal=seal).url]
        assert relay.pull(made.url) == text.encode()
        assert relay.pull(made.url, 70_000, 70_010) == text.encode()[70_000:70_010]
        relay.peek(made.url, True)
        relay.pin(made.url)
        relay.lineage(made.url)
        for wrong in (made.url[:-2], f"{made.ref}#{urls[0].partition('#')[2]}", made.ref):
            with pytest.raises(Sealed):
                relay.pull(wrong)
    sealed = shell.out("--url", address, "push", "--encrypt", stdin=text.encode()).strip()
    assert shell.out("--url", address, "pull", "-", stdin=sealed.encode()) == text
    shell.run("--url", address, "peek", sealed)
    assert len(relay.signals("plans", 0).signals) == 3
    relay.remove(urls[-1])
    return [*urls, sealed]


# A server that lies


BODY = os.urandom(2 * CHUNK + 100)


@pytest.fixture(scope="module")
def stored() -> tuple[Pushed, Artifact, bytes]:
    """What was pushed, what an honest server tells of it, and the sealed bytes."""
    with Relay("memory:") as relay:
        made = relay.push(BODY, seal=True, name="plan.md", metadata={"summary": "plan", "n": 1.5})
        return made, relay.peek(made.ref), relay.transport.ask(Pull(made.ref)).whole()


def reported(artifact: Artifact, body: bytes) -> bytes:
    """The reply of a server that tells this of a body."""
    line = encode(replace(artifact, size_bytes=len(body)))
    return reply(200, line + b"\n" + body, f"content-type: {FRAMED}")


def pulled(answer: bytes, url: str, *span: int) -> bytes:
    with listening(scripted := Scripted(answer)), Relay(scripted.url) as relay:
        return relay.pull(url, *span)


async def awaited(answer: bytes, url: str) -> bytes:
    with listening(scripted := Scripted(answer)):
        async with AsyncRelay(scripted.url) as relay:
            return await relay.pull(url)


CHANGES: dict[str, dict[str, Any]] = {
    "name": {"name": "other.md"},
    "no name": {"name": None},
    "type": {"type": "text"},
    "media type": {"media_type": "text/html"},
    "metadata": {"metadata": {"summary": "plan", "n": 1.6}},
    "more metadata": {"metadata": {"summary": "plan", "n": 1.5, "trusted": True}},
    "no metadata": {"metadata": {}},
}


@pytest.mark.parametrize("which", CHANGES)
def test_a_changed_description_fails(stored: tuple[Pushed, Artifact, bytes], which: str) -> None:
    """Promise E4."""
    made, artifact, sent = stored
    lied = replace(artifact, **CHANGES[which])
    answer = reported(lied, sent)
    first = reply(200, encode(lied) + b"\n" + sent[: 16 + CHUNK + 16], f"content-type: {FRAMED}")

    with pytest.raises(Sealed):
        pulled(answer, made.url)
    with pytest.raises(Sealed):
        pulled(first, made.url, 0, 10)
    with pytest.raises(Sealed):
        asyncio.run(awaited(answer, made.url))


def test_a_changed_capability_fails(stored: tuple[Pushed, Artifact, bytes]) -> None:
    """Promise E4."""
    made, artifact, sent = stored
    by: Provenance = replace(artifact.provenance, capability="somebody else")

    with pytest.raises(Sealed):
        pulled(reported(replace(artifact, provenance=by), sent), made.url)


def test_an_honest_server_is_believed_also_where_it_does_not_say_that_it_is_sealed(
    stored: tuple[Pushed, Artifact, bytes],
) -> None:
    made, artifact, sent = stored

    for sealed in ("k2", None, "k1"):
        assert pulled(reported(replace(artifact, sealed=sealed), sent), made.url) == BODY
    assert asyncio.run(awaited(reported(artifact, sent), made.url)) == BODY


def test_a_changed_body_brings_nothing_at_all(
    stored: tuple[Pushed, Artifact, bytes],
) -> None:
    """Promise E2. Promise E4: never a partial body."""
    made, artifact, sent = stored
    chunk = CHUNK + 16
    changed = {
        "cut": sent[:-1],
        "cut at a chunk": sent[: 16 + chunk],
        "cut to nothing": b"",
        "longer": sent + b"x",
        "flipped at the end": sent[:-1] + bytes([sent[-1] ^ 1]),
        "flipped at the start": bytes([sent[0] ^ 1]) + sent[1:],
        "reordered": sent[:16]
        + sent[16 + chunk : 16 + 2 * chunk]
        + sent[16:][:chunk]
        + sent[-116:],
        "plain": BODY,
    }

    for body in changed.values():
        with pytest.raises(Sealed):
            pulled(reported(artifact, body), made.url)
        with pytest.raises(Sealed):
            asyncio.run(awaited(reported(artifact, body), made.url))


def test_a_stream_that_is_cut_never_says_that_it_is_whole(
    stored: tuple[Pushed, Artifact, bytes],
) -> None:
    """Promise E4: what comes before the error is a true beginning."""
    made, artifact, sent = stored
    line = encode(artifact)  # The size it ought to have.
    answer = reply(200, line + b"\n" + sent[: 16 + CHUNK + 16 + 50], f"content-type: {FRAMED}")

    with listening(scripted := Scripted(answer)), Relay(scripted.url) as relay:
        came, is_whole = read_on(relay, made.url)

    assert not is_whole
    assert BODY.startswith(came)


def read_on(relay: Relay, url: str) -> tuple[bytes, bool]:
    """What a stream gives out, and whether it says that this was all."""
    came = b""
    try:
        for part in relay.stream(url):
            came += part
    except RelayError:
        return came, False
    return came, True


def test_metadata_that_never_end_are_refused(
    stored: tuple[Pushed, Artifact, bytes],
) -> None:
    made, artifact, sent = stored
    deep = encode(artifact).replace(b'"plan"', b"[" * 500 + b"]" * 500)
    answer = reply(200, deep + b"\n" + sent, f"content-type: {FRAMED}")

    with pytest.raises(Sealed):
        pulled(answer, made.url)


def test_a_traceback_holds_no_key(stored: tuple[Pushed, Artifact, bytes]) -> None:
    """Promise E3."""
    made, artifact, sent = stored
    key = made.url.partition("#k2=")[2]
    for url in (made.url, made.url[:-1], f"{made.url}#{key}"):
        try:
            pulled(reported(artifact, sent[:-1]), url)
        except Sealed:
            shown = traceback.format_exc()
        else:
            pytest.fail("it opened")
        assert key[:20] not in shown


def test_a_row_from_before_there_were_seals_is_read() -> None:
    with Relay("memory:") as relay:
        made = relay.peek(relay.push("x").ref)
        old = decode(encode(made))
        del old["sealed"]

        assert decode(encode(old), type=Artifact) == made
