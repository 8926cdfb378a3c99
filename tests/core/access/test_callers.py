"""Every verb, asked by every kind of key: allowed, refused, or as if nothing were there."""

from __future__ import annotations

from typing import Any, cast

import pytest
from msgspec.json import encode
from msgspec.structs import replace

from contextrelay import Conflict, NotFound, Refused, Relay, RelayError
from contextrelay.core.answer import answer
from contextrelay.verbs import (
    BeginPipeline,
    CancelPipeline,
    DecideStep,
    FinishStep,
    NotePipeline,
    Publish,
    ResumePipeline,
    Stream,
    Verb,
)
from tests.core.keyed import (
    EVERY_VERB,
    Things,
    as_seen_by,
    body_of,
    examples,
    fill,
    holder,
    names_things,
    owner,
    stores_of,
)

RANKS = ["read", "write", "admin", "owner"]
KINDS: dict[str, dict[str, Any]] = {
    "read": {"scope": "read"},
    "write": {"scope": "write"},
    "tenant's admin": {"scope": "admin", "tenant": "acme"},
    "admin": {"scope": "admin"},
}


def outcome(relay: Relay, verb: Verb[Any]) -> bytes | RelayError:
    """What comes of a verb, all of it, as JSON."""
    try:
        reply = answer(stores_of(relay), verb, body_of(type(verb)))
        if isinstance(reply, Stream):
            stream = cast("Stream[Any]", reply)
            return encode(stream.value) + stream.whole()
        return encode(reply)
    except RelayError as error:
        return error


def on_a_run(relay: Relay, verb: Verb[Any]) -> Verb[Any]:
    """A verb of pipelines, on a run that its asker has begun; others as they are."""
    caller = stores_of(relay).caller
    if not isinstance(verb, OF_RUNS) or caller is None or caller.key.scope == "read":
        return verb
    run = relay.transport.ask(BeginPipeline(name="campaign run"), b"{}").thread_id
    if isinstance(verb, DecideStep):
        relay.transport.ask(FinishStep(thread=run, step=verb.step, status="waiting"))
        if verb.channel is not None:
            signal = relay.transport.ask(Publish(channel=verb.channel, message="approved"))
            verb = replace(verb, signal=signal.seq)
    return replace(verb, thread=run)


OF_RUNS = (ResumePipeline, NotePipeline, CancelPipeline, DecideStep, FinishStep)


def is_refused(came: bytes | RelayError) -> bool:
    return isinstance(came, Refused) and came.status == 403


@pytest.mark.parametrize("kind", EVERY_VERB, ids=lambda kind: kind.__name__)
def test_every_verb_is_answered_to_the_scopes_that_reach_it_and_to_no_other(
    kind: type[Verb[Any]],
) -> None:
    """Promise Z1: scopes."""
    needed = RANKS.index(kind.traits.needs)
    for rank, asked in enumerate(KINDS.values()):
        relay = owner()
        made = relay.new_key(**asked)
        filler = relay.new_key(tenant=asked.get("tenant"))
        things = fill(as_seen_by(relay, filler.key), made)

        asker = as_seen_by(relay, made.key)
        came = outcome(asker, on_a_run(asker, examples(kind, things)[-1]))

        assert is_refused(came) == (rank < needed), f"{asked}: {came}"
        assert not isinstance(came, NotFound), f"{asked}: {came}"


@pytest.mark.parametrize("scope", ["read", "write", "admin"])
@pytest.mark.parametrize("kind", EVERY_VERB, ids=lambda kind: kind.__name__)
def test_a_tenant_sees_and_changes_nothing_of_another(kind: type[Verb[Any]], scope: str) -> None:
    """Promise Z4: never listed to one who may not."""
    relay = owner()
    theirs = relay.new_key(tenant="acme", scope="admin")
    things = fill(as_seen_by(relay, theirs.key), theirs)
    before = everything(relay, "x/acme/")
    stranger = holder(relay, tenant="beta", scope=scope)

    for verb in examples(kind, things):
        came = outcome(stranger, verb)

        assert everything(relay, "x/acme/") == before
        assert_reveals_nothing(came, verb, things)


@pytest.mark.parametrize("kind", EVERY_VERB, ids=lambda kind: kind.__name__)
def test_the_owner_has_its_own_space_next_to_those_of_tenants(kind: type[Verb[Any]]) -> None:
    """Promise Z4."""
    relay = owner()
    theirs = relay.new_key(tenant="acme", scope="admin")
    things = fill(as_seen_by(relay, theirs.key), theirs)
    before = everything(relay, "x/acme/")

    for verb in examples(kind, things):
        came = outcome(relay, verb)

        assert everything(relay, "x/acme/") == before
        if kind.__name__ not in ("Backup", "AdoptState"):
            assert_reveals_nothing(came, verb, things)


LIMITS: dict[str, dict[str, Any]] = {
    "threads": {"threads": ("other",)},
    "channels": {"channels": ("other",)},
    "both": {"threads": ("other",), "channels": ("other",)},
}


@pytest.mark.parametrize("limits", list(LIMITS))
@pytest.mark.parametrize("kind", EVERY_VERB, ids=lambda kind: kind.__name__)
def test_a_limited_key_sees_and_changes_nothing_else(kind: type[Verb[Any]], limits: str) -> None:
    """Promise Z1: by thread or channel prefix."""
    relay = owner()
    things = fill(relay, relay.new_key())
    before = everything(relay, "")
    limited = holder(relay, **LIMITS[limits])

    for verb in examples(kind, things):
        came = outcome(limited, verb)

        now = everything(relay, "")
        assert {log: now[log] for log in before} == before
        assert_reveals_nothing(came, verb, things)


@pytest.mark.parametrize("scope", ["read", "write"])
@pytest.mark.parametrize("kind", EVERY_VERB, ids=lambda kind: kind.__name__)
def test_a_limited_key_may_do_all_it_could_otherwise_where_it_belongs(
    kind: type[Verb[Any]], scope: str
) -> None:
    """Promise Z1."""
    relay = owner()
    things = fill(relay, relay.new_key())
    limited = holder(relay, scope=scope, threads=("camp",), channels=("war", "handoff/"))
    may = RANKS.index(kind.traits.needs) <= RANKS.index(scope)

    verb = on_a_run(limited, examples(kind, things)[-1])
    came = outcome(limited, verb)

    if getattr(verb, "name", "") is None and kind.__name__ in (
        "NewThread",
        "ForkThread",
        "CopyThread",
    ):
        verb = replace(verb, name="camp 2")
        came = outcome(limited, verb)
    if kind.__name__ != "ImportThread":  # It names none here.
        assert is_refused(came) == (not may), came
        assert not isinstance(came, NotFound | Conflict), came


def assert_reveals_nothing(came: bytes | RelayError, verb: Verb[Any], things: Things) -> None:
    """Fail if an answer holds anything of another's that was not in the question."""
    shown = str(came).encode() if isinstance(came, RelayError) else came
    said = encode(verb) + body_of(type(verb))
    for secret in things.secrets():
        assert secret.encode() not in shown or secret.encode() in said, came
    if names_things(verb) and not is_refused(came):
        assert isinstance(came, NotFound), came


def everything(relay: Relay, prefix: str) -> dict[str, Any]:
    """Every fact and row of the logs that begin so, but not of keys and counters."""
    ledger = stores_of(relay).ledger
    logs = [log for log in ledger.logs(prefix, "", 10_000) if not log.startswith("key/")]
    return {
        log: (
            [fact.body for fact in ledger.read(log, 0, 10_000)],
            {kind: ledger.rows(log, kind, "", 10_000) for kind in ledger.kinds(log)},
        )
        for log in logs
    }
