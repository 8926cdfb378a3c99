"""The class of seed 000: texts by URL, and channels, against a real server and without one."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from contextrelay import ContextRelay, Gone, Invalid, NotFound, Relay
from tests.client.wires import Proxy, Scripted, listening, reply
from tests.server.serving import serving, serving_apart
from tests.store.engines import free_port

REF = "00000000-0000-4000-8000-000000000000"
CANNOT_OPEN = "Failed to decrypt: Invalid or missing key"


@pytest.fixture(params=["server", "embedded"])
def hub(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ContextRelay]:
    monkeypatch.delenv("CONTEXTRELAY_URL", raising=False)
    monkeypatch.setenv("RELAY_HOME", str(tmp_path / "home"))
    if request.param == "embedded":
        with ContextRelay() as made:
            yield made
        return
    with serving(tmp_path / "store") as served:
        monkeypatch.setenv("CONTEXTRELAY_URL", served.url)
        with ContextRelay() as made:
            yield made


@contextmanager
def heard(
    hub: ContextRelay, channel: str, delay_s: float = 60.0
) -> Generator[queue.SimpleQueue[str]]:
    """What a callback on a channel is called with, from now on."""
    urls: queue.SimpleQueue[str] = queue.SimpleQueue()
    is_open = threading.Event()

    def hear(frame: dict[str, Any]) -> None:
        if "url" in frame:
            urls.put(frame["url"])

    def run() -> None:
        hub.hear(channel, hear, delay_s, is_open.set)

    thread = threading.Thread(target=run)
    thread.start()
    assert is_open.wait(20)
    try:
        yield urls
    finally:
        hub.close()
        thread.join(20)
        assert not thread.is_alive(), "closing did not end it"


def test_a_text_is_pushed_and_pulled_by_its_url(hub: ContextRelay) -> None:
    """Promise R10."""
    for text in ("x", "größer 更大 🙂\n\x00", '{"data": "y", "metadata": {}}', "long " * 100_000):
        url = hub.push(text)

        assert url.startswith(f"{hub.base_url}/pull/")
        assert hub.pull(url) == text
        assert hub.peek(url) == {}


def test_urls_of_the_embedded_store_are_relay_urls(hub: ContextRelay) -> None:
    """Promise R10."""
    is_embedded = hub.base_url == "relay://"

    assert hub.push("x").startswith("relay:///pull/") == is_embedded


def test_peek_shows_the_metadata_alone(hub: ContextRelay) -> None:
    """Promise R10."""
    metadata = {"summary": "schema", "size_kb": 80, "tags": ["a", {"b": None}]}

    url = hub.push("CREATE TABLE orders", metadata=metadata)

    assert hub.peek(url) == metadata
    assert hub.peek(f"{url}#key=whatever") == metadata


def test_what_cannot_be_is_refused_in_the_seeds_words(hub: ContextRelay) -> None:
    """Promise R11."""
    with pytest.raises(TypeError, match=r"^metadata must be a dict$"):
        hub.push("x", metadata=["no", "dict"])  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"^Not a ContextRelay pointer URL"):
        hub.peek(f"{hub.base_url}/peek/{REF}")


def test_a_text_that_is_not_there_is_not_found(hub: ContextRelay) -> None:
    """Promise R10."""
    for ask in (hub.pull, hub.peek):
        with pytest.raises((NotFound, Gone)):
            ask(f"{hub.base_url}/pull/{REF}")


def test_an_encrypted_text_is_opened_by_its_url_alone(hub: ContextRelay, tmp_path: Path) -> None:
    """Promises E1, E2: the key is in the fragment, and only ciphertext is stored."""
    url = hub.push("the secret", encrypted=True, metadata={"open": 1})
    bare, _, key = url.partition("#key=")
    other = hub.push("another", encrypted=True).partition("#key=")[2]
    plain = hub.push("plain")

    assert len(key) == 44
    assert hub.pull(url) == "the secret"
    assert hub.pull(bare).startswith("gAAAAA")
    assert hub.peek(url) == {"open": 1}
    for wrong in (f"{bare}#key=", f"{bare}#key=short", f"{bare}#key={other}", f"{plain}#key={key}"):
        with pytest.raises(ValueError, match=f"^{CANNOT_OPEN}$"):
            hub.pull(wrong)


def test_a_url_of_another_server_is_pulled_without_the_key(tmp_path: Path) -> None:
    """Promise R10: the key goes only to the base URL's origin."""
    body = b'{"data": "theirs", "metadata": {}}'
    other = Scripted(reply(200, body), reply(200, b'{"from": "there"}'))
    with (
        listening(other),
        serving(tmp_path / "store") as served,
        ContextRelay(served.url, api_key="secret") as hub,
    ):
        assert hub.pull(f"{other.url}/pull/{REF}") == "theirs"
        assert hub.peek(f"{other.url}/pull/{REF}") == {"from": "there"}

    assert len(other.heads) == 2
    assert "secret" not in "".join(other.heads)


def test_a_subscription_is_not_led_to_another_server() -> None:
    """Promise R10: never across a redirect."""
    other = Scripted(reply(404))
    with listening(other):
        sends_on = Scripted(reply(302, b"", f"location: ws://127.0.0.1:{other.port}/ws/a"))
        refused = pytest.raises(Invalid, match=str(other.port))
        with listening(sends_on), ContextRelay(sends_on.url, api_key="secret") as hub, refused:
            hub.subscribe("a", print)

        assert "bearer secret" in sends_on.heads[0]
        assert other.heads == []


def test_a_callback_hears_of_pushes_in_order_and_of_no_messages(hub: ContextRelay) -> None:
    """Promises S3, S5: urls only, whatever the channel is called; errors do not end it."""
    channel = "projects/größer x?#%"
    urls: queue.SimpleQueue[str] = queue.SimpleQueue()

    def fails(url: str) -> None:
        urls.put(url)
        raise RuntimeError("a fault in the callback")

    thread = threading.Thread(target=hub.subscribe, args=(channel, fails))
    thread.start()
    pushed = _pushed_until_heard(hub, channel, urls)
    hub.publish(channel, {"no": "url"})
    hub.push("elsewhere", channel="projects")
    pushed += [hub.push(str(number), channel=channel) for number in range(3)]

    assert [urls.get(timeout=20) for _ in pushed] == pushed
    hub.close()
    thread.join(20)
    assert not thread.is_alive()


def _pushed_until_heard(hub: ContextRelay, channel: str, urls: queue.SimpleQueue[str]) -> list[str]:
    """Push until somebody hears; the pushes that are still to be heard."""
    pushed: list[str] = []
    for _ in range(100):
        pushed.append(hub.push("begin", channel=channel))
        with suppress(queue.Empty):
            return pushed[pushed.index(urls.get(timeout=0.2)) + 1 :]
    raise AssertionError("nobody heard")


def test_an_interrupt_ends_a_subscription(hub: ContextRelay) -> None:
    """Promise R10: `subscribe` blocks until it is interrupted."""
    calls: queue.SimpleQueue[str] = queue.SimpleQueue()

    def interrupted(url: str) -> None:
        calls.put(url)
        raise KeyboardInterrupt

    thread = threading.Thread(target=hub.subscribe, args=("news", interrupted))
    thread.start()
    _pushed_until_heard(hub, "news", calls)

    thread.join(20)
    assert not thread.is_alive()


def test_a_lost_connection_is_made_again_after_longer_and_longer_times(tmp_path: Path) -> None:
    """Promise S3: after 1, 2 ... seconds, and from 1 again once it was open."""
    proxy = Proxy()
    proxy.fates.extend(["refuse", "refuse"])
    allowed = (f"127.0.0.1:{proxy.port}",)
    with listening(proxy), serving(tmp_path / "store", allowed_hosts=allowed) as served:
        proxy.upstream_port = served.port
        with heard(ContextRelay(proxy.url), "news") as urls:
            proxy.cut_all()
            with ContextRelay(served.url) as pushes:
                url = pushes.push("meanwhile", channel="news")
            assert urls.get(timeout=20)[-36:] == url[-36:]

    first, second, third, fourth = proxy.met_s
    assert 1 <= second - first < 2
    assert 2 <= third - second < 3
    assert 1 <= fourth - third < 2


def test_nothing_is_missed_when_the_server_is_killed_and_started_again(tmp_path: Path) -> None:
    """Promises S3, S4: resumes by itself, in order, each once; also before the first signal."""
    port, store = free_port(), tmp_path / "store"
    hub = ContextRelay(f"http://127.0.0.1:{port}")
    with (
        serving_apart(store, port=port) as first,
        Relay(store) as local,
        heard(hub, "news", delay_s=1.0) as urls,
    ):
        first.kill()
        pushed = [local.push("while it is down", channel="news").ref]
        with serving_apart(store, port=port) as second:
            pushed.append(local.push("while it is up", channel="news").ref)
            got = [urls.get(timeout=30) for _ in range(2)]
            second.kill()
        pushed += [local.push(str(number), channel="news").ref for number in range(50)]
        with serving_apart(store, port=port):
            pushed.append(local.push("at the end", channel="news").ref)
            got += [urls.get(timeout=30) for _ in range(51)]

            assert [url[-36:] for url in got] == pushed
            assert urls.empty()


def test_a_connection_that_is_lost_again_and_again_repeats_nothing(tmp_path: Path) -> None:
    """Promise S4."""
    proxy = Proxy()
    allowed = (f"127.0.0.1:{proxy.port}",)
    with listening(proxy), serving(tmp_path / "store", allowed_hosts=allowed) as served:
        proxy.upstream_port = served.port
        hub = ContextRelay(proxy.url)
        with ContextRelay(served.url) as pushes, heard(hub, "news", delay_s=0.01) as urls:
            pushed: list[str] = []
            got: list[str] = []
            for _ in range(5):
                pushed += [pushes.push("x", channel="news") for _ in range(4)]
                got += [urls.get(timeout=20) for _ in range(2)]
                proxy.cut_all()
            got += [urls.get(timeout=20) for _ in range(10)]

            assert [url[-36:] for url in got] == [url[-36:] for url in pushed]


def test_two_subscribers_both_hear(hub: ContextRelay) -> None:
    """Promise S2: fan-out."""
    with heard(hub, "news") as first:
        second = ContextRelay(None if hub.base_url == "relay://" else hub.base_url)
        with heard(second, "news") as also:
            url = hub.push("x", channel="news")

            assert first.get(timeout=20) == url
            assert also.get(timeout=20) == url
