"""Over HTTP: what is lost on the way is sent again and done once; keys stay with their server."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.json import decode, encode

from contextrelay import (
    AsyncRelay,
    Failed,
    Gone,
    Invalid,
    NotFound,
    Relay,
    Settings,
    Unavailable,
    capability,
)
from contextrelay.client.thread import Thread
from contextrelay.verbs.routes import FRAMED
from tests.client.test_threads import fact
from tests.client.wires import Proxy, Scripted, listening, reply
from tests.core.served import serving as serving_pages
from tests.server.serving import serving

REF = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    """A proxy before a server."""
    made = Proxy()
    allowed = (f"127.0.0.1:{made.port}",)
    with listening(made), serving(tmp_path / "store", allowed_hosts=allowed) as served:
        made.upstream_port = served.port
        yield made


def test_a_push_whose_reply_is_lost_happens_once(proxy: Proxy) -> None:
    proxy.fates.extend(["refuse", "lose", "lose"])
    with Relay(proxy.url) as relay:
        pushed = relay.push("sent three times, stored once")

        assert proxy.met == ["refuse", "lose", "lose", "pass"]
        assert [each.ref for each in relay.list().artifacts] == [pushed.ref]


def test_an_awaited_push_whose_reply_is_lost_happens_once(proxy: Proxy) -> None:
    async def main() -> list[str]:
        async with AsyncRelay(proxy.url) as relay:
            small, large = await relay.push("small"), await relay.push(bytes(600_000))
            assert (await relay.list()).artifacts[0].ref == large.ref
            return [small.ref, *(each.ref for each in (await relay.list()).artifacts)]

    proxy.fates.extend(["lose", "refuse"])

    small, *listed = asyncio.run(main())

    assert len(listed) == 2
    assert small in listed


def test_many_pushes_whose_reply_is_lost_happen_once(proxy: Proxy) -> None:
    proxy.fates.extend(["lose"])
    with Relay(proxy.url) as relay:
        made = relay.push_many(f"number {index}" for index in range(1_000))

        assert relay.survey().artifacts == len(made) == 1_000


def test_a_patch_whose_reply_is_lost_happens_once(proxy: Proxy) -> None:
    with Relay(proxy.url) as relay:
        thread = relay.new_thread()
    proxy.fates.extend(["lose", "lose"])
    with Relay(proxy.url) as relay:
        patched = Thread(relay, thread.id).patch([fact("a", 1)])

        assert proxy.met[-3:] == ["lose", "lose", "pass"]
        assert patched.version == 2
        assert relay.thread(thread.id).show().version == 2


def test_a_stream_that_was_used_up_is_not_sent_again(proxy: Proxy) -> None:
    proxy.fates.extend(["lose"])
    with Relay(proxy.url) as relay:
        with pytest.raises(Unavailable):
            relay.push(iter([b"a", b"b"]))

        assert len(proxy.met) == 1
        assert relay.survey().artifacts == 1


def test_who_does_not_answer_is_reported_with_the_next_step() -> None:
    closed = Scripted()
    closed.end()
    with Relay(closed.url) as relay, pytest.raises(Unavailable) as failed:
        relay.peek(REF)

    assert closed.url in failed.value.message
    assert failed.value.hint


def test_a_server_that_is_busy_is_asked_again_when_it_says() -> None:
    page = encode({"artifacts": [], "next": ""})
    busy = Scripted(reply(503, b"", "retry-after: 1"), reply(200, page))
    with listening(busy), Relay(busy.url) as relay:
        begun_s = time.monotonic()
        assert relay.list().artifacts == []

        assert time.monotonic() - begun_s >= 1
        assert len(busy.heads) == 2


def test_a_write_is_sent_again_with_the_same_key_and_the_next_with_another() -> None:
    refusal = reply(422, encode({"code": "refused", "error": "no"}))
    busy = Scripted(reply(503), refusal)
    with listening(busy), Relay(busy.url) as relay:
        for _ in range(2):
            with pytest.raises(Invalid):
                relay.push("x")

    keys = [_header(head, "idempotency-key") for head in busy.heads]
    assert keys[0] == keys[1] != keys[2]


def test_a_page_that_cannot_be_fetched_is_asked_for_once(tmp_path: Path) -> None:
    """Promise C1."""
    settings = Settings(fetch_private=True)
    with serving_pages() as pages, serving(tmp_path / "store", settings=settings) as served:
        pages.says("/", status="503 Service Unavailable")
        with Relay(served.url) as relay, pytest.raises(Failed, match="answered 503"):
            relay.invoke("http.fetch", {"url": pages.url("/")})

        assert len(pages.requests) == 1


times_run: list[dict[str, Any]] = []


@capability("test.down")
def down(args: dict[str, Any]) -> str:
    times_run.append(args)
    raise Unavailable("what this asks is down", "wait for it")


def test_a_capability_that_fails_is_run_once(tmp_path: Path) -> None:
    times_run.clear()
    failing = pytest.raises(Failed, match="is down")
    with serving(tmp_path / "store") as served, Relay(served.url) as relay, failing as failed:
        relay.invoke("test.down")

    assert failed.value.hint == "wait for it"
    assert len(times_run) == 1


def test_a_gateway_that_does_not_reach_the_server_is_asked_again() -> None:
    gateway = Scripted(reply(502, b"<p>Bad Gateway", "content-type: text/html"))
    with listening(gateway), Relay(gateway.url) as relay, pytest.raises(Unavailable) as failed:
        relay.peek(REF)

    assert len(gateway.heads) > 1
    assert "check that the relay is running" in failed.value.hint


def test_a_server_that_takes_too_long_is_not_waited_for() -> None:
    silent = Scripted()
    with listening(silent), Relay(silent.url, timeout_s=0.2) as relay:
        begun_s = time.monotonic()
        with pytest.raises(Unavailable):
            relay.peek(REF)

        assert time.monotonic() - begun_s < 20
        assert len(silent.heads) == 1


def test_a_redirect_is_not_followed_and_leads_no_key_away() -> None:
    """Promise R10: the key goes only to its origin, never across a redirect."""
    other = Scripted(reply(200, b"{}"))
    with listening(other):
        sends_on = Scripted(reply(307, b"", f"location: {other.url}/v1/artifacts/{REF}"))
        refused = pytest.raises(Invalid, match=str(other.port))
        with listening(sends_on), Relay(sends_on.url, api_key="secret") as relay, refused:
            relay.peek(REF)

        assert _header(sends_on.heads[0], "authorization") == "bearer secret"
        assert other.heads == []


def test_a_key_in_the_environment_is_for_the_server_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise R14."""
    monkeypatch.setenv("CONTEXTRELAY_API_KEY", "secret")
    for url, sent in (("", "bearer secret"), ("https://relay.example.com", "")):
        monkeypatch.setenv("CONTEXTRELAY_URL", url)
        asked = Scripted(reply(404))
        with listening(asked), Relay(asked.url) as relay, pytest.raises(NotFound):
            relay.peek(REF)

        assert _header(asked.heads[0], "authorization") == sent


def test_a_body_is_sent_once_and_its_ref_is_asked_for_each_time(proxy: Proxy) -> None:
    with Relay(proxy.url) as relay:
        ref = relay.push("long " * 100_000).ref
        first = relay.pull(ref)
        sent_bytes = proxy.bytes_back

        assert relay.pull(ref) == first
        assert proxy.bytes_back - sent_bytes < 2_000
        relay.remove(ref)
        with pytest.raises(Gone):
            relay.pull(ref)


def test_no_proxy_stands_before_a_server_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with serving(tmp_path / "store") as served, Relay(served.url) as relay:
        assert relay.pull(relay.push("x").ref) == b"x"


def test_a_body_that_is_cut_short_is_an_error_and_never_a_part(tmp_path: Path) -> None:
    with Relay("memory:") as local:
        artifact = decode(encode(local.push(bytes(2 << 20))))
    for size_bytes in (2 << 20, 1_000):
        line = encode({**artifact, "size_bytes": size_bytes}) + b"\n"
        short = Scripted(reply(200, line + bytes(100), f"content-type: {FRAMED}"))
        with listening(short), Relay(short.url) as relay, pytest.raises(Unavailable):
            relay.pull(REF)


def test_what_is_no_relay_is_recognised() -> None:
    page = Scripted(reply(200, b"<html>hello</html>", "content-type: text/html"))
    with (
        listening(page),
        Relay(page.url) as relay,
        pytest.raises(Unavailable, match="Relay server"),
    ):
        relay.peek(REF)


@pytest.mark.parametrize(
    "address",
    ["http://you:secret@127.0.0.1:1", "http://127.0.0.1:port"],
)
def test_an_address_that_leads_nowhere_is_refused_without_its_secrets(address: str) -> None:
    with pytest.raises(Invalid) as refused:
        Relay(address)

    assert "secret" not in str(refused.value)
    assert refused.value.hint


def test_a_server_on_the_same_store_is_asked_locally(proxy: Proxy) -> None:
    with Relay(proxy.url) as relay:
        thread = relay.new_thread()

        with pytest.raises(Invalid, match="files of the store"):
            thread.mirror()


def test_a_relay_that_was_closed_says_so(proxy: Proxy) -> None:
    relay = Relay(proxy.url)
    relay.close()
    relay.close()

    with pytest.raises(Invalid, match="closed"):
        relay.survey()


def test_a_signal_is_waited_for_at_the_server(proxy: Proxy) -> None:
    """Promise S5: `wait` long-polls."""
    with Relay(proxy.url) as relay, Relay(proxy.url) as other:
        heard = relay.subscribe("news", timeout_s=30)
        other.publish("news", "first")
        other.publish("news", "second")

        assert [next(heard).message, next(heard).message] == ["first", "second"]


def test_a_store_of_ones_own_loads_no_client() -> None:
    code = (
        "import sys; from contextrelay import Relay; r = Relay('memory:'); r.pull(r.push('x').ref);"
        "print(sorted(set(sys.modules) & {'httpx2', 'websockets', 'cryptography'}))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def _header(head: str, name: str) -> str:
    found: dict[str, Any] = dict(
        line.split(": ", 1) for line in head.splitlines()[1:] if ": " in line
    )
    return found.get(name, "")
