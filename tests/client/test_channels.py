"""Channels through the clients: signals in order, each once, heard by all who listen."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest
from msgspec.json import encode

from contextrelay import Gone, Relay, Settings

Leg = Callable[..., Relay]
WAIT_S_MAX = 20.0
ROUNDS = 20


def heard(relay: Relay, channel: str, after: int = 0) -> list[object]:
    """All that is on a channel now."""
    found = relay.subscribe(channel, after, timeout_s=0)
    return [signal.ref or signal.message for signal in found]


def test_a_push_signals_the_ref_and_nothing_more(relay: Relay) -> None:
    """Promises R1, E3: the channel is in the reply; a signal has no URL, so no key in it."""
    artifact = relay.push("secret", channel="news", created_by="coder")

    page = relay.signals("news", 0)

    assert artifact.channel == relay.peek(artifact.ref).channel == "news"
    assert page.head == 1
    (signal,) = page.signals
    assert signal.ts >= int(artifact.created_at.timestamp() * 1000)
    expected = f'{{"seq":1,"ts":{signal.ts},"from":"coder","ref":"{artifact.ref}"}}'
    assert encode(signal).decode() == expected


def test_signals_come_in_order_and_each_once(relay: Relay) -> None:
    """Promise S4: more than a page of them, of every kind."""
    refs = [artifact.ref for artifact in relay.push_many([("x", {"channel": "c"})] * 250)]
    refs.append(relay.push("y", channel="c").ref)
    relay.publish("c", "end")

    assert heard(relay, "c") == [*refs, "end"]
    assert heard(relay, "c", 250) == [refs[250], "end"]
    assert heard(relay, "c", 252) == []


def test_channels_are_isolated(relay: Relay) -> None:
    """Promise S2: also those whose names contain each other."""
    names = ["a", "a/", "a/b", "A", "a b", "ä", "a\u0308", "a%2Fb", "{a}", "更大", "🙂", "c/a"]

    for name in names:
        relay.push("x", name="x", channel=name)
        relay.publish(name, name)

    for name in names:
        assert [signal.message for signal in relay.signals(name, 0).signals] == [None, name]
    listed = [each.name for each in relay.channels(100).channels]
    assert listed == sorted(names, key=str.encode)


def test_ten_thousand_channels_are_listed_page_by_page(
    relay: Relay, request: pytest.FixtureRequest
) -> None:
    # All of them on one leg: what is the same on the others does not need to be as long.
    is_whole = request.node.callspec.params["leg"] == "blocking sqlite"
    names = [f"agent/{number:05d}" for number in range(10_000 if is_whole else 1_500)]
    relay.push_many([("x", {"channel": name}) for name in names])
    seen: list[str] = []
    after = ""
    while True:
        page = relay.channels(limit=1_000, after=after)
        seen += [each.name for each in page.channels]
        assert all(each.head == 1 and each.last_at for each in page.channels)
        after = page.next
        if not after:
            break

    assert seen == names


def test_a_wait_without_news_ends_with_an_empty_page(relay: Relay) -> None:
    """Promise S5: waiting is bounded."""
    relay.publish("c", "before")

    page = relay.wait("c", timeout_s=0)

    assert (page.signals, page.head, page.gap) == ([], 1, None)


def test_who_waits_is_woken_by_another_relay(leg: Leg) -> None:
    """Promises S4, S5: back and forth, faster than by looking now and then."""
    one, other = leg(), leg()
    if one.survey().engine == "memory":
        pytest.skip("a store in memory has one relay")

    def answer() -> None:
        for number in range(ROUNDS):
            page = other.wait("ping", after=number, timeout_s=WAIT_S_MAX)
            other.publish("pong", page.signals[0].message)

    answering = Thread(target=answer)
    answering.start()
    began = time.monotonic()
    answers: list[object] = []
    for number in range(ROUNDS):
        one.publish("ping", number)
        page = one.wait("pong", after=number, timeout_s=WAIT_S_MAX)
        answers += [signal.message for signal in page.signals]
    answering.join()

    assert answers == list(range(ROUNDS))
    # Each round has two waits; one that no hint ends looks again after a second.
    assert time.monotonic() - began < 1.5 * ROUNDS


def test_a_subscription_hears_what_another_relay_sends_meanwhile(leg: Leg) -> None:
    """Promise S4: in order, each once, while it is being sent."""
    one, other = leg(), leg()
    if one.survey().engine == "memory":
        pytest.skip("a store in memory has one relay")
    sent: list[str] = []

    def send() -> None:
        sent.extend(other.push("x", channel="c").ref for _ in range(150))
        other.publish("c", "end")

    sending = Thread(target=send)
    sending.start()
    found: list[object] = []
    while "end" not in found:
        page = one.wait("c", after=len(found), timeout_s=WAIT_S_MAX)
        assert page.signals[0].seq == len(found) + 1
        found += [signal.ref or signal.message for signal in page.signals]
    sending.join()

    assert found == [*sent, "end"]


def test_a_subscriber_learns_of_what_is_no_longer_kept(leg: Leg) -> None:
    """Promise S4."""
    relay = leg(settings=Settings(signals_kept_max=5))
    for number in range(1, 13):
        relay.publish("c", number)
    gaps: list[tuple[int, int]] = []

    found = relay.subscribe(
        "c", 2, timeout_s=0, on_gap=lambda first, last: gaps.append((first, last))
    )

    assert [signal.seq for signal in found] == [8, 9, 10, 11, 12]
    assert gaps == [(3, 7)]
    with pytest.raises(Gone) as gone:
        list(relay.subscribe("c", 2, timeout_s=0))
    assert gone.value.details["gap"] == [3, 7]
    assert "after=7" in gone.value.hint


def test_a_subscriber_to_a_channel_that_starts_over_begins_with_its_first(relay: Relay) -> None:
    relay.publish("c", "first")
    gaps: list[tuple[int, int]] = []

    found = relay.subscribe(
        "c", 50, timeout_s=0, on_gap=lambda first, last: gaps.append((first, last))
    )

    assert [signal.message for signal in found] == ["first"]
    assert gaps == [(51, 0)]


def test_a_backup_brings_channels_back(leg: Leg, tmp_path: Path) -> None:
    """Promise G3: signals keep their numbers, also where the first ones are no longer kept."""
    relay = leg(settings=Settings(signals_kept_max=3))
    for number in range(5):
        relay.publish("a/ü", number)
    relay.push("x", channel="b")

    relay.backup(tmp_path / "b.tar")
    other = leg("two")
    other.restore(tmp_path / "b.tar")

    assert other.signals("a/ü", 0) == relay.signals("a/ü", 0)
    assert other.channels() == relay.channels()
    assert other.verify().problem_count == 0
    assert other.publish("a/ü", "next").seq == 6
