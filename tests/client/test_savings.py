"""Savings through the clients: what readers received, what it stands for, what was pulled back."""

from __future__ import annotations

import pytest

from contextrelay import Relay
from contextrelay.content.tokens import count_tokens
from contextrelay.core.accounting.savings_breakdown import SAVINGS_NAMES_MAX

BODY = "\n".join(f"line {index}: the orders service owns the schema" for index in range(2_000))


def test_every_look_is_counted_and_what_is_pulled_is_taken_off(relay: Relay) -> None:
    """Promises L5, U1."""
    thread = relay.new_thread()
    ref = thread.put(BODY, name="orders.log").ref
    other = relay.push("never read by anybody " * 100)
    answers = [
        relay.slice(ref, lines="10:20"),
        relay.grep("line 17:", ref),
        relay.search("orders schema", ref=ref),
        relay.outline(ref),
        relay.digest(ref),
    ]

    looked = relay.savings()
    relay.pull(ref)
    pulled = relay.savings(thread.id)

    whole = count_tokens(BODY)
    assert (looked.answers, looked.pulls) == (5, 0)
    assert looked.sent.tokens == sum(each.spent.tokens for each in answers)
    assert looked.sent.basis == "measured"
    # Once, however often it was looked into; and not what nobody read.
    assert (looked.whole.tokens, looked.whole.basis) == (whole, "measured")
    assert looked.net == looked.avoided == whole - looked.sent.tokens > 0
    assert (pulled.pulls, pulled.pulled_back.tokens) == (1, whole)
    assert pulled.net == -pulled.sent.tokens
    assert pulled.scope == f"thread {thread.id}"
    assert looked.tokenizer == "o200k_base"
    assert looked.naive_tokens == len(BODY) // 4 + other.size_bytes // 4


def test_savings_are_shared_out_by_day_agent_and_source(relay: Relay) -> None:
    """Promises U1, U3: the shares of each kind sum up to the whole."""
    log = relay.push(BODY, name="orders.log", created_by="tester").ref
    page = relay.push(f"# Orders\n\n{BODY}", name="orders.md", created_by="writer").ref
    relay.slice(log, lines="10:20")
    relay.diff(log, page)
    relay.pull(page, 0, 400)

    savings = relay.savings()

    for shares in (savings.by_day, savings.by_agent, savings.by_source):
        assert sum(each.net for each in shares) == savings.net
        assert sum(each.whole for each in shares) == savings.whole.tokens
        assert sum(each.pulled_back for each in shares) == savings.pulled_back.tokens == 100
    # What shows several agents' artifacts at once belongs to none of them.
    assert {each.name for each in savings.by_agent} == {"tester", "writer", "others"}
    assert {each.name for each in savings.by_source} == {"log", "markdown", "others"}
    assert len(savings.by_day) == 1


def test_agents_past_a_number_are_one_share(relay: Relay) -> None:
    """Promise U1: names are somebody's text, and cannot fill the ledger."""
    for number in range(SAVINGS_NAMES_MAX + 5):
        relay.peek(relay.push("x" * 90, created_by=f"agent {number}").ref)

    shares = relay.savings().by_agent

    assert len(shares) == SAVINGS_NAMES_MAX + 1
    assert sum(each.whole for each in shares) == relay.savings().whole.tokens


def test_a_peek_counts_as_its_preview_each_time_and_the_whole_once(relay: Relay) -> None:
    """Promise L5."""
    artifact = relay.push(BODY)
    for _ in range(3):
        relay.peek(artifact.ref)

    savings = relay.savings()

    preview = count_tokens(artifact.preview.text)
    assert savings.answers == 3
    assert savings.sent.tokens == pytest.approx(3 * preview, rel=0.2)
    assert savings.whole.tokens == pytest.approx(count_tokens(BODY), rel=0.4)


def test_an_estimate_is_corrected_once_somebody_has_counted(relay: Relay) -> None:
    """Promises L5, U1: whatever comes first, a look at a piece or one at the whole."""
    ref = relay.push(BODY).ref
    relay.slice(ref, lines="10:20")
    early = relay.savings()
    relay.outline(ref)

    late = relay.savings()

    assert early.whole.basis == "estimated"
    assert (late.whole.tokens, late.whole.basis) == (count_tokens(BODY), "measured")


def test_prices_are_those_of_the_formula(relay: Relay) -> None:
    """Promise U1: prompt-cache prices applied."""
    ref = relay.push(BODY).ref
    relay.slice(ref, lines="1:5")

    savings = relay.savings()

    asking = 60 * 5
    assert savings.priced.uncached == pytest.approx(10 * savings.net - asking, abs=0.1)
    assert savings.priced.cached == pytest.approx((1.25 + 9 * 0.1) * savings.net - asking, abs=0.1)
    assert savings.priced.asking_tokens == 60
