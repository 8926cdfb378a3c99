"""Outline and digest through the clients, blocking and awaited, on every engine and over HTTP."""

from __future__ import annotations

import pytest

from contextrelay import Relay, Sealed

LOG = "\n".join(
    f"2026-01-05 10:{number // 60 % 60:02}:{number % 60:02} "
    + ("ERROR disk full" if number == 777 else f"INFO request {number} done")
    for number in range(3_000)
)


def test_an_outline_shows_the_shape_its_cost_and_the_next_step(relay: Relay) -> None:
    """Promises L1, L4, L5."""
    ref = relay.push(LOG, name="worker.log").ref

    shown = relay.outline(ref)

    assert shown.kind == "log"
    assert "3000 lines" in shown.text
    assert "778: 2026-01-05 10:12:57 ERROR disk full" in shown.text
    assert shown.spent.tokens <= 500 < shown.spent.whole_tokens
    assert (shown.spent.basis, shown.spent.tokenizer) == ("measured", "o200k_base")
    assert shown.next == f"relay get {ref[:8]} --lines {shown.next_args['lines']}"
    assert "ERROR disk full" in relay.slice(ref, **shown.next_args).text


def test_a_digest_has_head_tail_and_errors(relay: Relay) -> None:
    """Promises L4, L6."""
    ref = relay.push(LOG, name="worker.log").ref

    shown = relay.digest(ref)

    assert "\n1: 2026-01-05 10:00:00 INFO request 0 done" in shown.text
    assert "\n778: 2026-01-05 10:12:57 ERROR disk full" in shown.text
    assert "\n3000: " in shown.text
    assert shown.omitted_lines > 2_900
    assert shown.left_out == f"{shown.omitted_lines} lines"


def test_a_full_peek_has_tokens_and_outline(relay: Relay) -> None:
    """Promise R7."""
    ref = relay.push(LOG, name="worker.log").ref

    shown = relay.peek(ref, is_full=True)

    assert shown.tokens == relay.outline(ref).spent.whole_tokens
    assert shown.token_basis == "measured"
    assert shown.outline == relay.outline(ref).text


def test_a_sealed_body_is_outlined_and_digested_here_by_its_url(relay: Relay) -> None:
    """Promise L4: on sealed refs it runs in the client."""
    plain = relay.push(LOG, name="worker.log")
    sealed = relay.push(LOG, name="worker.log", seal=True)

    assert relay.outline(sealed.url).text == relay.outline(plain.ref).text
    assert relay.digest(sealed.url, tokens_max=300).text == (
        relay.digest(plain.ref, tokens_max=300).text
    )
    for look in (relay.outline, relay.digest):
        with pytest.raises(Sealed):
            look(sealed.ref)
