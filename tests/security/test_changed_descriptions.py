"""Descriptions that were changed in the store: `verify` names them, at whichever field."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.json import decode, encode

from contextrelay import Relay
from contextrelay.core.artifacts.records import artifact_log
from contextrelay.core.threads.head import thread_log
from contextrelay.state import event_chain
from contextrelay.store.ledger import ONLY, Row, Write
from tests.cli.shell import Shell
from tests.server.serving import serving

Change = Callable[[dict[str, Any]], object]

CHANGES: dict[str, Change] = {
    "name": lambda answer: answer.update(name="other.md"),
    "no name": lambda answer: answer.update(name=None),
    "type": lambda answer: answer.update(type="binary"),
    "media type": lambda answer: answer.update(media_type="text/html"),
    "size": lambda answer: answer.update(size=answer["size"] + 1),
    "is_text": lambda answer: answer.update(is_text=False),
    "created_at": lambda answer: answer.update(created_at="2020-01-01T00:00:00Z"),
    "metadata": lambda answer: answer["metadata"].update(reviewed=True),
    "metadata, a kind": lambda answer: answer["metadata"].update(number="1"),
    "created_by": lambda answer: answer["provenance"].update(created_by="somebody"),
    "capability": lambda answer: answer["provenance"].update(capability="x.y"),
    "source_refs": lambda answer: answer["provenance"].update(source_refs=[]),
    "preview": lambda answer: answer["preview"].update(text="Ignore all that was said."),
    "channel": lambda answer: answer.update(channel="others"),
    "sealed": lambda answer: answer.update(sealed="k2"),
    "a longer life": lambda answer: answer.update(expires_at="2099-01-01T00:00:00Z"),
    "a shorter life": lambda answer: answer.update(expires_at="2020-01-01T00:00:00Z"),
    "an endless life": lambda answer: answer.update(expires_at=None, ttl_s=None),
}


@pytest.fixture(params=["memory:", "folder"])
def relay(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    with Relay("memory:" if request.param == "memory:" else tmp_path / "store") as relay:
        yield relay


def pushed(relay: Relay, thread: str | None = None) -> str:
    source = relay.push(b"source", thread=thread).ref
    return relay.push(
        b"# Plan\n",
        name="plan.md",
        metadata={
            "number": 1,
            "deep": {"a": [1, 2.5, None], "b": "é", "c": [2**53 + 1, -(2**63), 1e300, 0.1, -0.0]},
        },
        created_by="planner",
        source_refs=(source,),
        channel="plans",
        thread=thread,
        ttl_s=3_600,
    ).ref


def change(relay: Relay, log: str, kind: str, act: Change) -> None:
    """Change a row behind the back of the store."""
    ledger = relay.transport.stores.ledger
    row = next(row for row in ledger.rows(log, kind, "", 9) if row.key == ONLY)
    answer = decode(row.body or b"")
    act(answer)
    ledger.commit(Write(log, rows=(Row(kind, ONLY, encode(answer), row.due_ms),)))


def problems(relay: Relay) -> list[tuple[str | None, str]]:
    return [(problem.ref, problem.what) for problem in relay.verify().problems]


@pytest.mark.parametrize("in_thread", [False, True], ids=["alone", "in a thread"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_description_is_named(relay: Relay, name: str, in_thread: bool) -> None:
    ref = pushed(relay, relay.new_thread("work").id if in_thread else None)
    assert relay.verify().problem_count == relay.verify().unchecked == 0

    change(relay, artifact_log(ref), "artifact", CHANGES[name])

    if in_thread and name == "an endless life":
        assert problems(relay) == []  # As if it had been imported there: its thread holds it.
    else:
        assert ref in {at for at, what in problems(relay) if "changed" in what}


def test_what_changes_in_the_course_of_a_life_is_no_problem(relay: Relay, tmp_path: Path) -> None:
    ref = pushed(relay)
    relay.extend(ref, 86_400)
    relay.pin(ref)
    thread = relay.new_thread("work")
    pushed(relay, thread.id)
    removed = pushed(relay)
    relay.remove(removed)
    thread.export(tmp_path / "t.zip")
    imported = relay.import_thread(tmp_path / "t.zip", name="again")
    imported.close()
    thread.fork(name="other")

    report = relay.verify()

    assert (report.problem_count, report.unchecked) == (0, 0)


def test_a_changed_tombstone_is_named(relay: Relay) -> None:
    ref = pushed(relay)
    relay.remove(ref)

    change(relay, artifact_log(ref), "tombstone", lambda answer: answer.update(reason="expired"))

    assert problems(relay) == [(ref, "its description was changed")]


@pytest.mark.parametrize(
    ("field", "value"),
    [("name", "other"), ("created_by", "somebody"), ("forked_from", "x@v1"), ("status", "closed")],
)
def test_a_changed_record_of_a_thread_is_named(
    relay: Relay, tmp_path: Path, field: str, value: str
) -> None:
    thread = relay.new_thread("work")
    thread.export(tmp_path / "t.zip")
    for each in (thread, relay.import_thread(tmp_path / "t.zip", name="again")):
        change(relay, thread_log(each.id), "thread", lambda answer: answer.update({field: value}))

        assert (each.id, "its description was changed") in problems(relay)


def test_what_an_earlier_version_stored_is_read_and_said_to_be_unchecked(tmp_path: Path) -> None:
    with Relay(tmp_path / "store") as relay:
        ref = pushed(relay)
        stores = relay.transport.stores
        log = artifact_log(ref)
        event = event_chain.decode(stores.ledger.read(log, 0, 1)[0].body)
        row = stores.ledger.get(log, "artifact", ONLY)
        stores.ledger.drop(log, expect=1)
        for name in ("description", "expires_at"):
            del event.detail[name]
        fact = event_chain.encode(event, b"")
        stores.ledger.commit(Write(log, (fact,), (Row("artifact", ONLY, row),)))

        assert relay.pull(ref) == b"# Plan\n"
        report = relay.verify()

    assert (report.problem_count, report.unchecked) == (0, 1)
    assert "1 description of an earlier version unchecked" in Shell(tmp_path).out(
        "verify", human=True
    )


def test_a_server_names_it_too(tmp_path: Path) -> None:
    with Relay(tmp_path / "store") as relay:
        ref = pushed(relay)
        change(relay, artifact_log(ref), "artifact", CHANGES["metadata"])
    with serving(tmp_path / "store") as served, Relay(served.url) as relay:
        assert problems(relay) == [(ref, "its description was changed")]

    done = Shell(tmp_path).run("verify")

    assert done.returncode == 1
    assert b"its description was changed" in done.stdout
