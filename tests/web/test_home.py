"""Home and threads."""

from __future__ import annotations

from contextrelay import Relay
from contextrelay.identity import user_name
from tests.web.reader import Reader


def test_an_empty_store_is_shown_the_commands_that_fill_it(page: Reader) -> None:
    """Promise U3: the first-run page, which looks again by itself."""
    shown = page.open("/ui/")

    assert "relay demo" in shown.text
    assert 'hx-trigger="every 2s"' in shown.html


def test_home_shows_the_savings_that_the_verb_gives(page: Reader, relay: Relay) -> None:
    """Promise U3: numbers come from the verbs."""
    ref = relay.push("word " * 4_000, name="words.txt").ref
    relay.slice(ref, lines="1:2")
    soon = relay.push("soon gone", ttl_s=600).ref
    savings = relay.savings()

    twin, shown = page.json("/ui/.json"), page.open("/ui/")

    assert twin["savings"]["net"] == savings.net > 0
    assert [each["name"] for each in twin["savings"]["by_agent"]] == [user_name()]
    assert "Net by agent" in shown.text
    assert [each["ref"] for each in twin["expiring"]] == [soon]
    assert f"{savings.net:,} tok" in shown.text
    assert "words.txt" in shown.text


def test_what_people_see_is_not_counted_as_sent_to_a_model(page: Reader, relay: Relay) -> None:
    """Promise U3: looking at the savings does not change them."""
    relay.push("word " * 4_000, name="words.txt")
    before = relay.savings()

    for path in ("/ui/", "/ui/threads", "/ui/artifacts"):
        page.open(path)

    assert relay.savings() == before


def test_a_key_for_some_threads_is_shown_nothing_of_the_others(
    relay: Relay, stranger: Reader
) -> None:
    """Promise Z2: what a key may not see is not counted either."""
    mine, other = relay.new_thread("mine one"), relay.new_thread("other")
    relay.push("x" * 5_000, ttl_s=600)
    shared = mine.put("held by both").ref
    other.add_decision("keep it", evidence=(shared,))
    stranger.enter(relay.new_key(scope="read", threads=("mine",)).token)

    home, listed = stranger.json("/ui/.json"), stranger.open("/ui/threads")

    held = stranger.json(f"/ui/a/{shared}.json")["lineage"]["holders"]
    searched = stranger.json("/ui/search.json?q=other")

    assert (home["savings"], home["store"], home["expiring"]) == (None, None, [])
    assert [each["ref"] for each in home["artifacts"]] == [shared]
    assert held == [mine.id]
    assert searched["threads"] == []
    assert stranger.json("/ui/threads.json?text=other")["threads"] == []
    assert stranger.json("/ui/project.json")["projects"] == []
    assert [each["name"] for each in home["threads"]] == ["mine one"]
    assert "other" not in listed.text
