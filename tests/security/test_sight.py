"""What a limited key can find out of what is not for it: nothing, by any answer it gets.

Two stores that differ only in what the key may not see answer it alike, word for word.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec import to_builtins

from contextrelay import Refused, Relay
from contextrelay.core.accounting.pull_rates import rates
from contextrelay.core.answer import answer
from contextrelay.errors import RelayError
from contextrelay.store.ledger import Write
from contextrelay.verbs import (
    Invoke,
    ListCapabilities,
    Outline,
    Peek,
    ReadLineage,
    ReadSavings,
    ReadStats,
    Search,
    Slice,
    Verb,
)
from tests.core.clock import Clock
from tests.core.keyed import (
    EVERY_VERB,
    Things,
    body_of,
    examples,
    fill,
    holder,
    owner,
    stores_of,
)
from tests.server.serving import serving

NOBODY = "00000000-0000-4000-8000-00000000000"
TEXTS = (
    "the quick brown fox jumps over the lazy dog",
    "a fox in the henhouse is no guest",
    "bread, butter and a brown egg for breakfast",
)


def pair() -> tuple[Relay, Relay, Relay, Relay]:
    """Two owners, the second of whom has much more; and the limited key of each."""
    clock = Clock()
    bare, rich = owner(clock), owner(clock)
    limited = [holder(each, channels=("public-",), threads=("pub",)) for each in (bare, rich)]
    for number, text in enumerate(TEXTS):
        for each in limited:
            each.push(text, name="notes.md", channel=f"public-{number}")
        clock.pass_ms(1)
    for number in range(30):
        rich.push(
            f"zanzibar breakfast fox {number} butter\n" * (number + 1),
            name="notes.md",
            channel="private",
        )
    return bare, rich, limited[0], limited[1]


def alike(answered: Any) -> Any:
    """What was answered, without what differs between any two stores: ids, and their tokens."""
    reply = str(to_builtins(answered))
    reply = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "<ref>", reply)
    reply = re.sub(r"'created_by': '[0-9a-f]{12}'", "'created_by': '<key>'", reply)
    return re.sub(r"'(duration_ms|spent': {'tokens)': \d+", "", reply)


# Search


@pytest.mark.parametrize(
    "query",
    ["zanzibar", "fox", "fox breakfast", "butter brown zanzibar", "the lazy fox", "nowhere"],
)
def test_a_search_of_a_limited_key_reveals_nothing_of_the_rest(query: str) -> None:
    """Promise Z1: prefixes. Hits, scores, counts, ignored words and notes."""
    _, _, in_bare, in_rich = pair()

    bare, rich = (answer(stores_of(each), Search(query)) for each in (in_bare, in_rich))

    assert alike(bare) == alike(rich)
    assert ("zanzibar" in query) == ("zanzibar" in rich.ignored)


def test_a_limited_key_finds_its_own_however_much_else_there_is() -> None:
    """Promise Z1: prefixes. What it may not see takes no place of what it may."""
    _, rich, _, limited = pair()
    thread = limited.new_thread("pub 2")
    rich.push("a heron by the fox river", name="heron.md")
    put = thread.put("a heron stands in the river", name="in a thread.md")

    hits = answer(stores_of(limited), Search("heron")).hits

    assert put.ref in {hit.ref for hit in hits}
    assert {hit.newer for hit in answer(stores_of(limited), Search("fox lazy")).hits} <= {
        each.ref for each in limited.list().artifacts
    } | {None}


def test_retrieval_shows_a_limited_key_nothing_of_the_rest() -> None:
    """Promise Z1: prefixes. The search that is a capability, asked in a thread."""
    reply: list[str] = []
    for limited in pair()[2:]:
        thread = limited.new_thread("pub 3")
        thread.put("a fox in a thread", name="fox.md")
        made = answer(
            stores_of(limited),
            Invoke("retrieval.search", {"query": "fox zanzibar"}, thread=thread.id),
        )
        reply.append(alike(limited.pull(made.artifact_ref).decode()))

    assert reply[0] == reply[1]


# Counts, caches, what others have looked into


def test_what_was_counted_of_others_is_not_reported() -> None:
    """Promise Z1: prefixes. Cache hits, and what is counted since the server started."""
    relay = owner()
    limited = holder(relay, threads=("pub",))
    mine = limited.new_thread("pub 1")
    own = relay.new_thread("own")
    own.put("a fox", name="fox.md")
    for _ in range(3):
        answer(stores_of(relay), Invoke("retrieval.search", {"query": "fox"}, thread=own.id))

    listed = answer(stores_of(limited), ListCapabilities())
    stats = answer(stores_of(limited), ReadStats(mine.id))

    assert {each.cache_hits for each in listed.capabilities} == {0}
    assert stats.session_cache_hits == stats.cache_hits == 0
    assert answer(stores_of(relay), ReadStats(own.id)).session_cache_hits == 2
    with pytest.raises(Refused):
        answer(stores_of(limited), ReadSavings())


def test_nothing_reveals_that_another_has_looked_into_the_same_bytes() -> None:
    """Promise Z1: prefixes. Else one could guess at content, and be told."""
    body = "[section]\nkey = value\n" * 5_000
    reply: list[str] = []
    clock = Clock()
    for is_there in (False, True):
        relay = owner(clock)
        if is_there:
            pushed = relay.push(body, name="a.txt", type="text", media_type="text/plain")
            answer(stores_of(relay), Outline(pushed.ref))
        limited = holder(relay, threads=("pub",))
        thread = limited.new_thread("pub 1")
        made = thread.put(body, name="b.txt", type="text", media_type="text/plain")
        limited.pull(made.ref)
        reply.append(
            alike(
                [
                    answer(stores_of(limited), ReadSavings(thread.id)),
                    answer(stores_of(limited), Slice(made.ref, lines="1:2")),
                    answer(stores_of(limited), Peek(made.ref)),
                ]
            )
        )

    assert reply[0] == reply[1]


def test_how_often_others_pull_decides_nothing_for_a_limited_key() -> None:
    """Promise Z1: prefixes. Whether a block is shown whole or as a ref."""
    relay = owner()
    limited = holder(relay, threads=("pub",))
    before = rates(stores_of(limited))("TOOL", 3_000)
    counted = {"shown": 100, "at_first_call": 90, "later": 80, "slice_tokens": 9_000}
    stores_of(relay).ledger.commit(Write("pulls/TOOL/under_6400", adds=tuple(counted.items())))

    assert rates(stores_of(relay))("TOOL", 3_000) != before
    assert rates(stores_of(limited))("TOOL", 3_000) == before


# Refs of what is not there


def test_where_something_came_from_is_reported_only_as_far_as_it_is_there() -> None:
    """Promise Z1: prefixes."""
    relay = owner()
    limited = holder(relay, channels=("public-",))
    secret = relay.push("secret")
    seen = relay.push("seen", channel="public-1")
    made = relay.push("made", channel="public-2", source_refs=(secret.ref, seen.ref))
    relay.push("derived", source_refs=(made.ref,))

    reply: list[Any] = [
        answer(stores_of(limited), ReadLineage(made.ref)),
        answer(stores_of(limited), Peek(made.ref)),
        limited.list(),
        limited.find(made.ref[:8]),
        limited.extend(made.ref, 9_999),
    ]

    assert secret.ref not in str(to_builtins(reply))
    assert seen.ref in str(to_builtins(reply[0]))
    assert answer(stores_of(limited), ReadLineage(made.ref)).derived == []
    # It is still known to who may know it.
    assert relay.peek(made.ref).provenance.source_refs == (secret.ref, seen.ref)


@pytest.mark.parametrize("kind", EVERY_VERB, ids=lambda kind: kind.__name__)
def test_what_is_not_for_a_key_is_as_if_it_were_nowhere(kind: type[Verb[Any]]) -> None:
    """Promise Z1: prefixes. The same class, status, words and details, whatever is asked."""
    relay = owner()
    hidden = fill(relay, relay.new_key())
    nowhere = Things(f"{NOBODY}1", f"{NOBODY}2", "peace room", "f" * 12, f"{NOBODY}3")
    limited = holder(relay, channels=("public-",), threads=("pub",))

    def reply(things: Things) -> list[Any]:
        answers: list[Any] = []
        for verb in examples(kind, things):
            try:
                answers.append(alike(answer(stores_of(limited), verb, body_of(kind))))
            except RelayError as error:
                words = f"{type(error).__name__} {error.status} {error} {error.details}"
                for name in ("ref", "thread", "channel", "id", "handoff"):
                    words = words.replace(getattr(things, name), f"<{name}>")
                answers.append(words)
        return answers

    assert reply(hidden) == reply(nowhere)


# State that one caller leaves for another


def test_the_current_thread_is_each_callers_own() -> None:
    """Promise Z1. Nobody's next change goes where another was last."""
    relay = owner()
    limited, writer = holder(relay, threads=("pub",)), holder(relay)
    mine, theirs, third = (
        relay.new_thread("mine"),
        limited.new_thread("pub 1"),
        relay.new_thread("t"),
    )
    relay.use_thread(mine.id, "/work", "me")

    limited.use_thread(theirs.id, "/work", "me")
    writer.use_thread(third.id, "/work", "me")

    assert (current(relay), current(limited), current(writer)) == (mine.id, theirs.id, third.id)


def current(relay: Relay) -> str | None:
    found = relay.current_thread("/work", "me")
    assert [found.thread] == found.candidates
    return found.thread.thread_id if found.thread else None


def test_over_http_a_limited_key_does_not_turn_the_owners_next_change(tmp_path: Path) -> None:
    """Promise Z1."""
    with Relay(tmp_path / "store") as relay, serving(tmp_path / "store") as served:
        mine = relay.new_thread("mine")
        relay.use_thread(mine.id, "/work", "me")
        theirs = relay.new_thread("pub 1")
        token = relay.new_key(threads=("pub",)).token

        used = httpx2.post(
            f"{served.url}/v1/threads/current",
            json={"thread": theirs.id, "place": "/work", "owner": "me"},
            headers={"Authorization": f"Bearer {token}"},
        )

        assert used.status_code == 200
        assert current(relay) == mine.id


def test_figures_and_surveys_are_not_for_limited_keys(tmp_path: Path) -> None:
    """Promise Z1: prefixes. They are of the whole store."""
    with Relay(tmp_path / "store") as relay, serving(tmp_path / "store") as served:
        relay.push("a secret", channel="private")
        token = relay.new_key(channels=("public-",)).token
        with httpx2.Client(
            base_url=served.url, headers={"Authorization": f"Bearer {token}"}
        ) as client:
            assert client.get("/metrics").status_code == 403
            assert client.get("/v1/survey").status_code == 403
            assert client.get("/v1/savings").status_code == 403
            assert client.get("/v1/channels").json()["channels"] == []
            assert client.get("/v1/search?query=secret").json()["ignored"] == ["secret"]
            assert client.get("/v1/search?query=elsewhere").json()["ignored"] == ["elsewhere"]
