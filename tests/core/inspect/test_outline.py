"""Outlines in core: made once for a content, kept beside it, and gone with it."""

from __future__ import annotations

from contextrelay import Relay
from contextrelay.client.transport.local import Local
from contextrelay.core.accounting.usage import usage_of
from contextrelay.core.artifacts.bodies import body_log
from contextrelay.core.stores import Stores
from contextrelay.model.inspect import OUTLINE_VERSION
from contextrelay.store.ledger import Row, Write
from contextrelay.verbs import Verify

BODY = "# Plan\n\nFirst.\n\n## Costs\n\nLow.\n" * 50


def stores_of(relay: Relay) -> Stores:
    assert isinstance(relay.transport, Local)
    return relay.transport.stores


def looked(relay: Relay, sha256: str) -> list[Row]:
    usage_of(stores_of(relay)).write()
    return stores_of(relay).ledger.rows(body_log(sha256), "looked", "", 10)


def test_an_outline_is_made_once_for_a_content_and_kept_with_it() -> None:
    """Promise L1: computed once per content."""
    with Relay("memory:") as relay:
        first = relay.push(BODY, name="a.md")
        second = relay.push(BODY, name="b.md")
        assert looked(relay, first.sha256) == []

        answer = relay.outline(first.ref)
        kept = looked(relay, first.sha256)

        assert len(kept) == 1
        assert relay.outline(second.ref).text == answer.text
        assert relay.outline(first.ref) == answer
        assert looked(relay, first.sha256) == kept


def test_a_kept_outline_that_cannot_be_read_is_made_again() -> None:
    """Promise L1."""
    with Relay("memory:") as relay:
        artifact = relay.push(BODY, name="a.md")
        answer = relay.outline(artifact.ref)
        row = looked(relay, artifact.sha256)[0]
        damaged = Row("looked", row.key, b"{")
        stores_of(relay).ledger.commit(Write(body_log(artifact.sha256), rows=(damaged,)))

        assert relay.outline(artifact.ref) == answer
        assert looked(relay, artifact.sha256) == [row]


def test_what_an_earlier_version_outlined_is_outlined_again() -> None:
    """Promise L1: an outline that is drawn otherwise now is not kept for ever."""
    with Relay("memory:") as relay:
        artifact = relay.push(BODY, name="a.md")
        answer = relay.outline(artifact.ref)
        row = looked(relay, artifact.sha256)[0]
        assert row.body is not None
        now = b'"drawn_by":%d' % OUTLINE_VERSION
        assert now in row.body
        earlier = row.body.replace(now, b'"drawn_by":0').replace(b"Plan", b"Plam")
        stores_of(relay).ledger.commit(
            Write(body_log(artifact.sha256), rows=(Row("looked", row.key, earlier),))
        )

        assert relay.outline(artifact.ref) == answer
        assert looked(relay, artifact.sha256) == [row]


def test_what_an_outline_quotes_goes_with_the_content() -> None:
    """Promise R9: nothing of a removed content stays readable."""
    with Relay("memory:") as relay:
        one, other = relay.push(BODY, name="a.md"), relay.push(BODY, type="text", name="b")
        relay.outline(one.ref)
        relay.outline(other.ref)
        assert len(looked(relay, one.sha256)) == 2

        relay.remove(one.ref)
        relay.remove(other.ref)
        relay.sweep()

        assert looked(relay, one.sha256) == []
        assert relay.transport.ask(Verify()).problems == []
