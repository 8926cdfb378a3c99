"""Runs on engines that are servers: the same as on files, and gone on with from elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contextrelay import Conflict, Relay
from contextrelay.pipelines import runs
from contextrelay.pipelines.dask import for_workers
from contextrelay.verbs import FinishStep
from tests.pipelines.running import result, run, statuses
from tests.store.engines import Servers, new_prefix, url_of

TEXT = """\
inputs: {topic: orders}
budget: {time: 1h}
steps:
  list: {exec: "printf 'a\\nb\\n'"}
  each: {foreach: "{{steps.list.ref}}", exec: 'echo "$I" >> ran; echo "$I"', env: {I: "{{item}}"}}
  ask: {prompt: "Plan {{inputs.topic}} {{steps.each.refs}}", model: echo}
  bad: {exec: "test -e ready", needs: list}
  after: {exec: [echo, "{{steps.ask.ref}}"], needs: bad}
"""


@pytest.mark.parametrize("kind", ["redis", "redis-cluster"])
def test_a_run_on_a_server_engine_fails_is_retried_and_cached(
    servers: Servers, tmp_path: Path, kind: str
) -> None:
    """Promise X4."""
    address = f"{url_of(kind, servers)}?prefix={new_prefix()}"
    with Relay(address) as relay:
        first = run(relay, tmp_path, TEXT)
    (tmp_path / "ready").touch()

    with Relay(address) as relay:
        again = runs.retry(relay, first.run, "bad")
        second = run(relay, tmp_path, TEXT)

        assert (first.status, again.status, second.status) == ("failed", "done", "done")
        assert statuses(first)["after"] == "skipped"
        assert sorted((tmp_path / "ran").read_text().split()) == ["a", "a", "b", "b"]
        assert len(json.loads(result(relay, again, "each"))) == 2
        assert [each.run for each in runs.list_runs(relay)] == [second.run, first.run]
        with pytest.raises(Conflict):
            relay.transport.ask(FinishStep(thread=first.run, step="bad"))


@pytest.mark.parametrize("kind", ["redis", "postgres"])
def test_steps_get_the_address_of_the_store_with_its_user(
    servers: Servers, tmp_path: Path, kind: str
) -> None:
    """Promise X4: so that a command of a step opens the same store."""
    address = f"{url_of(kind, servers)}?prefix={new_prefix()}"
    with Relay(address) as relay:
        ended = run(relay, tmp_path, "steps:\n  at: {exec: 'printf %s \"$CONTEXTRELAY_URL\"'}\n")

        assert result(relay, ended, "at") == address
        assert relay.transport.stores.engine.address != address or "@" not in address


def test_a_password_does_not_travel_to_workers() -> None:
    """Promise X4."""
    address = "postgresql://ana:secret@db:5432/x?prefix=a"
    assert for_workers(address) == "postgresql://ana@db:5432/x?prefix=a"
    assert for_workers("redis://:secret@host") == "redis://@host"
    assert for_workers("http://host:8787/a@b") == "http://host:8787/a@b"
