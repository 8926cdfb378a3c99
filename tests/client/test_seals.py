"""Seals through the clients: sealed on this side, opened on this side, nothing plain between."""

from __future__ import annotations

import asyncio
import os
import traceback
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from contextrelay import (
    AsyncRelay,
    ContextRelay,
    Invalid,
    Refused,
    Relay,
    RelayError,
    Sealed,
    Settings,
    TooLarge,
)
from contextrelay.client.flow import iterate
from contextrelay.client.seal.pull import open_sealed
from contextrelay.client.seal.push import Pushed
from contextrelay.model.artifact import SealFormat
from contextrelay.model.ref import parse_ref
from contextrelay.seal.keys import split_key
from contextrelay.seal.stream import sealed_size
from contextrelay.verbs import Peek, Pull
from tests.server.serving import serving

MIB = 1024 * 1024
CHUNK = 64 * 1024
LARGE = os.urandom(5 * CHUNK + 1_000)


@pytest.mark.parametrize("seal", [True, "k2", "k1"])
def test_what_was_sealed_comes_back_exactly_and_whole(relay: Relay, seal: Any) -> None:
    """Promise E4. Promise E1."""
    for body in (b"", b"a", "größer".encode(), bytes(CHUNK), LARGE):
        made = relay.push(body, seal=seal)

        assert made.sealed == ("k1" if seal == "k1" else "k2")
        assert made.url.partition("#")[0] == relay.transport.url_of(made.ref)
        assert relay.pull(made.url) == body
        assert b"".join(relay.stream(made.url)) == body


def test_a_slice_is_that_of_the_body(relay: Relay) -> None:
    """Promise E4."""
    size = len(LARGE)
    for seal in ("k2", "k1"):
        url = relay.push(LARGE, seal=seal).url

        for start, stop in ((0, 10), (CHUNK - 3, CHUNK + 3), (size - 5, None), (CHUNK, 2 * CHUNK)):
            assert relay.pull(url, start, stop) == LARGE[start:stop]
            assert b"".join(relay.stream(url, start=start, stop=stop)) == LARGE[start:stop]
        assert relay.pull(url, 10, 10**9) == LARGE[10:]
        assert relay.pull(url, 10**9, 10**9 + 1) == b""
        assert relay.pull(url, 7, 3) == b""


def test_a_stream_is_sealed_like_the_same_bytes_at_once(relay: Relay) -> None:
    """Promise E4."""
    for seal in ("k2", "k1"):
        chunks = (LARGE[at : at + 1_000] for at in range(0, len(LARGE), 1_000))

        made = relay.push(chunks, seal=seal)

        assert relay.pull(made.url) == LARGE
        if seal == "k2":
            assert made.size_bytes == sealed_size(len(LARGE))


def test_what_comes_asynchronously_is_sealed_too() -> None:
    """Promise E4."""

    async def chunks() -> AsyncIterator[bytes]:
        for at in range(0, len(LARGE), 10_000):
            yield LARGE[at : at + 10_000]

    async def push_and_pull(seal: SealFormat) -> bytes:
        async with AsyncRelay("memory:") as relay:
            made = await relay.push(chunks(), seal=seal)
            return await relay.pull(made.url)

    for seal in get_args(SealFormat):
        assert asyncio.run(push_and_pull(seal)) == LARGE


def test_the_relay_learns_nothing_but_what_it_is_given(relay: Relay) -> None:
    """Promise E4. Promise A3: there is no preview of what is sealed."""
    made = relay.push("# a secret plan\n", seal=True, name="plan.md", metadata={"summary": "plan"})
    unnamed = relay.push('{"a": 1}', seal=True)
    said = relay.push("x", seal=True, type="log")

    peeked = relay.peek(made.url, True)
    assert peeked.preview.text == f"[sealed, {peeked.size_bytes} bytes]"
    assert (peeked.preview.line_count, peeked.preview.patterns) == (0, ())
    assert (peeked.type, peeked.media_type, peeked.name) == ("markdown", "text/markdown", "plan.md")
    assert (peeked.tokens, peeked.outline) == (None, None)
    assert peeked.metadata == {"summary": "plan"}
    assert not peeked.is_text
    assert (unnamed.type, unnamed.media_type) == ("binary", "application/octet-stream")
    assert (said.type, said.media_type) == ("log", "text/x-log")


def test_without_the_key_nothing_comes(relay: Relay) -> None:
    """Promise E2."""
    for seal in ("k2", "k1"):
        made = relay.push("the plan", seal=seal)
        other = relay.push("the plan", seal=seal)
        bare, _, fragment = made.url.partition("#")
        mark = fragment.partition("=")[0]
        wrong = [
            f"{bare}#{mark}=",
            f"{bare}#{mark}=nothing",
            f"{bare}#{fragment}#{fragment}",
            f"{bare}#{fragment.replace('=', '%3D')}",
            f"{bare}#{fragment[:-1]}",
            f"{bare}#{other.url.partition('#')[2]}",
            f"{bare}#{'k2' if mark == 'key' else 'key'}{fragment.removeprefix(mark)}",
            bare,
            made.ref,
            f"{bare}#section",
        ]

        for url in wrong:
            with pytest.raises(Sealed) as refused:
                relay.pull(url)
            assert isinstance(refused.value, ValueError)
            assert fragment[6:20] not in f"{refused.value} {refused.value.hint}"
            with pytest.raises(Sealed):
                list(relay.stream(url))


def test_a_key_for_what_is_plain_opens_nothing(relay: Relay) -> None:
    """Promise E2."""
    plain = relay.push(LARGE)
    for seal in ("k2", "k1"):
        fragment = relay.push("x", seal=seal).url.partition("#")[2]

        with pytest.raises(Sealed, match="Failed to decrypt: Invalid or missing key"):
            relay.pull(f"{plain.ref}#{fragment}")
        with pytest.raises(Sealed):
            relay.pull(f"{plain.ref}#{fragment}", CHUNK * 2, CHUNK * 3)


def test_another_body_under_the_same_url_does_not_open(relay: Relay) -> None:
    """Promise E4: nor the same body, sealed by another push."""
    first = relay.push("pay 10", seal=True)
    second = relay.push("pay 99", seal=True)

    with pytest.raises(Sealed):
        relay.pull(f"{second.ref}#{first.url.partition('#')[2]}")


def test_what_is_said_to_be_sealed_has_to_look_like_it(relay: Relay) -> None:
    for form in ("k1", "k2"):
        for body in (b"", b"plain text", b"gAAAAA", os.urandom(1_000)):
            with pytest.raises(Refused):
                relay.push(body, sealed=form)
    with pytest.raises(Invalid):
        relay.push(b"x", seal="k3")  # pyright: ignore[reportArgumentType]


def test_sealed_bytes_may_be_passed_on_as_they_are(leg: Callable[..., Any]) -> None:
    """Promise E4: a seal is bound to the description, not to a server or a ref."""
    here, there = leg("one"), leg("two")
    made = here.push(LARGE, seal=True, name="a.bin", metadata={"n": 1.0, "s": "é"})
    described = here.peek(made.ref)
    sent = raw(here, made.ref)

    copied = there.push(
        sent,
        sealed="k2",
        name=described.name,
        type=described.type,
        media_type=described.media_type,
        metadata=described.metadata,
        ttl_s=None,
    )
    changed = there.push(sent, sealed="k2", name="b.bin", metadata=described.metadata)

    fragment = made.url.partition("#")[2]
    assert there.pull(f"{copied.ref}#{fragment}") == LARGE
    with pytest.raises(Sealed):
        there.pull(f"{changed.ref}#{fragment}")


def raw(relay: Any, ref: str) -> bytes:
    """The bytes as they are stored."""
    stream = relay.transport.ask(Pull(ref))
    if hasattr(stream, "__await__"):
        loop = relay._loop

        async def read() -> bytes:
            return await relay.transport.whole(await stream)

        return loop.run_until_complete(read())
    return stream.whole()


def test_the_largest_body_counts_before_it_is_sealed(leg: Callable[..., Any]) -> None:
    """Promise R8."""
    relay = leg("small", settings=Settings(body_bytes_max=200_000))

    for seal in ("k1", "k2"):
        assert relay.pull(relay.push(bytes(200_000), seal=seal).url) == bytes(200_000)
        with pytest.raises(TooLarge):
            relay.push(bytes(200_000 + 65), seal=seal)
    with pytest.raises(TooLarge):
        relay.push(bytes(200_001))


def test_the_largest_text_counts_before_it_is_sealed_by_clients_of_seed_000(
    tmp_path: Path,
) -> None:
    """Promise R8. Promise E1."""
    text = "x" * 200_000
    settings = Settings(body_bytes_max=200_000)
    with (
        serving(tmp_path / "store", settings=settings) as served,
        ContextRelay(served.url) as hub,
    ):
        assert hub.pull(hub.push(text, encrypted=True)) == text
        with pytest.raises(TooLarge):
            hub.push(text + "x" * 100, encrypted=True)


def test_a_sealed_body_opens_after_it_was_exported_and_imported(tmp_path: Path) -> None:
    """Promise E4: under its new ref, by the key it was sealed with."""
    with Relay("memory:") as here, Relay("memory:") as there:
        thread = here.thread("plans")
        made = {seal: thread.put(LARGE, seal=seal, name="a.bin") for seal in ("k1", "k2")}
        thread.export(tmp_path / "plans.zip")

        stored = there.import_thread(tmp_path / "plans.zip").artifacts()

        assert len(stored) == 2
        for artifact in stored:
            assert artifact.sealed is not None
            assert artifact.preview.text.startswith("[sealed,")
            fragment = made[artifact.sealed].url.partition("#")[2]
            assert there.pull(f"{artifact.ref}#{fragment}") == LARGE


def test_contextrelay_on_a_store_of_its_own_opens_what_it_sealed(tmp_path: Path) -> None:
    """Promise E1. Promise E2."""
    with ContextRelay(str(tmp_path / "store")) as hub, Relay(tmp_path / "store") as relay:
        url = hub.push("the plan", encrypted=True)
        bare = url.partition("#")[0]

        assert hub.pull(url) == "the plan"
        assert hub.pull(bare).startswith("gAAAAA")
        assert relay.pull(url) == b"the plan"
        assert relay.peek(url).sealed == "k1"
        for wrong in (f"{bare}#key=", f"{bare}#key=abc", f"{url}=", f"{url}#x", url[:-2] + "%3D"):
            with pytest.raises(ValueError, match=r"^Failed to decrypt: Invalid or missing key$"):
                hub.pull(wrong)
        plain = hub.push("no secret") + url[len(bare) :]
        with pytest.raises(ValueError, match=r"^Failed to decrypt: Invalid or missing key$"):
            hub.pull(plain)


def test_a_thread_keeps_what_is_sealed(relay: Relay) -> None:
    """Promise E4."""
    thread = relay.thread("secrets")

    made = thread.put("the plan", seal=True, name="plan.txt")

    assert relay.pull(made.url) == b"the plan"
    assert thread.artifacts()[0].preview.text.startswith("[sealed,")
    assert "#" not in str(thread.state())
    assert made.expires_at is None


def test_a_signal_never_carries_the_key(relay: Relay) -> None:
    """Promise E3."""
    place = relay.signals("plans").head
    made = relay.push("the plan", seal=True, channel="plans")

    (signal,) = relay.signals("plans", place).signals

    assert signal.ref == made.ref
    assert made.url.partition("#")[2][4:30] not in str(signal)


def test_what_is_returned_does_not_show_the_key_by_accident(relay: Relay) -> None:
    """Promise E3: a log line with the result of a push holds no key."""
    made = relay.push("the plan", seal=True)
    key = made.url.partition("=")[2]

    assert isinstance(made, Pushed)
    assert key not in f"{made} {made!r} {[made]}"
    assert f"{made.ref}#k2=..." in repr(made)


def test_a_repeated_push_with_one_key_is_refused_rather_than_lost(relay: Relay) -> None:
    """Promise E4: the first key opens the first push; a second is another request."""
    first = relay.once("night-1").push("the plan", seal=True)

    with pytest.raises(Refused):
        relay.once("night-1").push("the plan", seal=True)

    assert relay.pull(first.url) == b"the plan"


MISTAKES: dict[str, Callable[[Relay, str], object]] = {
    "no store": lambda relay, url: Relay(url),
    "no server": lambda relay, url: Relay(url.replace("relay://", "http://h")),
    "another path": lambda relay, url: relay.pull(url.replace("/pull/", "/pul/")),
    "a part": lambda relay, url: relay.peek(url[20:]),
    "a slip": lambda relay, url: relay.pull(url.replace("-", "0", 1)),
    "a source": lambda relay, url: relay.push("x", source_refs=(url,)),
    "a seal": lambda relay, url: relay.push("x", seal=url),  # pyright: ignore[reportArgumentType]
    "encoded": lambda relay, url: relay.pull(url.replace("#", "%23")),
    "looked into": lambda relay, url: relay.outline(url[14:].replace("#", "%2523")),
    "encoded, of the seed": lambda relay, url: ContextRelay("memory:").pull(
        "http://127.0.0.1:1" + url[8:].replace("#", "%23")
    ),
    "no URL": lambda relay, url: ContextRelay("memory:").pull(url[8:]),
    "no pointer": lambda relay, url: ContextRelay("memory:").peek(url.replace("/pull/", "/pul/")),
}


@pytest.mark.parametrize("which", MISTAKES)
def test_no_mistake_with_a_url_reveals_its_key(which: str) -> None:
    """Promise E3: keys are not in errors, nor in what led to them."""
    with Relay("memory:") as relay:
        url = relay.push("the plan", seal=True).url
        with pytest.raises((RelayError, ValueError)) as refused:
            MISTAKES[which](relay, url)

    shown = "".join(traceback.format_exception(refused.value))
    assert url.partition("=")[2][:20] not in shown


@pytest.mark.parametrize("sign", ["%23key=", "%2523key%253D", "%23k2="])
def test_a_key_that_was_percent_encoded_is_not_sent(sign: str) -> None:
    """Promises E1, E2: never sent to a server; it is refused before one is asked."""
    nobody = ContextRelay("http://127.0.0.1:1")
    url = f"http://127.0.0.1:1/pull/161042e0-551b-4068-94a7-a5ff1054ba15{sign}{'A' * 43}="

    for ask in (nobody.pull, nobody.peek):
        with pytest.raises(ValueError, match="Failed to decrypt: Invalid or missing key"):
            ask(url)


LOOKS: dict[str, Callable[[Any, str], Any]] = {
    "outline": lambda relay, url: relay.outline(url),
    "digest": lambda relay, url: relay.digest(url),
    "slice": lambda relay, url: relay.slice(url, lines="1:2"),
    "grep": lambda relay, url: relay.grep("plan", url),
    "diff": lambda relay, url: relay.diff(url, url),
}


@pytest.mark.parametrize("how", LOOKS)
def test_looking_inside_believes_no_other_description_than_what_was_sealed(how: str) -> None:
    """Promise E4: changed metadata fail, also where they come before the body is."""
    with Relay("memory:") as relay:
        url = relay.push("# the plan\n\ngo", seal=True, name="plan.md").url
        LOOKS[how](relay, url)
        transport: Any = relay.transport
        ask = transport.ask

        def lie(verb: Any, *args: Any, **named: Any) -> Any:
            reply = ask(verb, *args, **named)
            return replace(reply, name="plan.py", type="code") if type(verb) is Peek else reply

        transport.ask = lie
        with pytest.raises(Sealed):
            LOOKS[how](relay, url)


class Counting:
    """A transport that counts what it is asked for and gets."""

    def __init__(self, transport: Any) -> None:
        self.transport = transport
        self.asked: list[Pull | Peek] = []
        self.size_bytes = 0

    def ask(self, verb: Any) -> Any:
        self.asked.append(verb)
        stream = self.transport.ask(verb)
        counted = stream.open

        def counting(chunk_bytes: int) -> Iterator[bytes]:
            for chunk in counted(chunk_bytes):
                self.size_bytes += len(chunk)
                yield chunk

        return type(stream)(stream.value, counting)


@pytest.mark.parametrize("place", ["start", "middle", "end", "behind"])
def test_a_slice_of_a_large_body_reads_only_its_chunks(place: str) -> None:
    """Promise E4: 64 KiB of 50 MiB are read with less than 300 KiB."""
    size = 50 * MIB
    start = {"start": 0, "middle": size // 2 + 777, "end": size - CHUNK, "behind": size + 9}[place]
    with Relay("memory:") as relay:
        piece = os.urandom(MIB)
        url = relay.push((piece for _ in range(50)), seal=True).url
        counting = Counting(relay.transport)

        bare, key = split_key(url)
        assert key is not None

        verb = Pull(parse_ref(bare), start, start + CHUNK)
        got = b"".join(iterate(counting, open_sealed(verb, key)))

        whole = piece * 2
        assert got == (b"" if place == "behind" else whole[start % MIB :][:CHUNK])
        assert 0 < counting.size_bytes < 300 * 1024
        assert len(counting.asked) <= 2


@pytest.mark.parametrize("way", ["in", "out"])
def test_memory_stays_flat_while_fifty_mebibytes_are_sealed_and_opened(
    way: str, tmp_path: Any
) -> None:
    """Promise E4. Promise R15."""
    piece = os.urandom(MIB)
    with Relay(tmp_path / "store") as relay:
        url = relay.push((piece for _ in range(50)), seal=True, ttl_s=None).url
        tracemalloc.start()
        try:
            if way == "in":
                relay.push((piece for _ in range(50)), seal=True)
            else:
                size = sum(len(chunk) for chunk in relay.stream(url))
                assert size == 50 * MIB
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak < 8 * MIB
