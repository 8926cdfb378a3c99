"""Capabilities and their cache as time passes, after crashes, and as packages bring them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from contextrelay import Invalid, Relay, capability
from contextrelay.client.transport.local import Local
from contextrelay.core.artifacts.catalog import ADDED
from contextrelay.core.stores import Stores
from contextrelay.core.threads.head import state_at
from contextrelay.model.settings import Settings
from contextrelay.store.engine import Engine, open_engine
from contextrelay.store.ledger import ONLY
from contextrelay.verbs import (
    Invoke,
    List,
    NewThread,
    Pull,
    ReadStats,
    Remove,
    RemoveThread,
    ShowThread,
    Sweep,
    Verify,
)
from tests.core.clock import DAY_MS, HOUR_MS, Clock, local
from tests.store.stutter import Stopped, StutterLedger


@capability("core.echo", cache_ttl_s=3_600)
def echo(args: dict[str, Any]) -> str:
    return f"echo of {args.get('text', '')}"


@capability("core.week", cache_ttl_s=7 * 86_400)
def week(args: dict[str, Any]) -> str:
    return "a week"


def cached_logs(core: Local) -> list[str]:
    return core.stores.ledger.logs("k/", "", 100)


def test_a_result_is_there_a_day_for_who_was_answered_last_from_the_cache() -> None:
    """Promise C2."""
    clock = Clock()
    core = local(clock)
    core.ask(Invoke("core.week"))
    clock.pass_ms(7 * DAY_MS - 1)

    invoked = core.ask(Invoke("core.week"))
    assert invoked.cache_hit
    clock.pass_ms(DAY_MS - 1)
    core.ask(Sweep())

    assert core.ask(Pull(invoked.artifact_ref)).whole() == b"a week"


def test_a_sweep_forgets_entries_whose_time_is_over_and_no_others() -> None:
    clock = Clock()
    core = local(clock)
    core.ask(Invoke("core.echo"))
    core.ask(Invoke("core.week"))
    assert len(cached_logs(core)) == 2

    clock.pass_ms(HOUR_MS)
    core.ask(Sweep())

    assert len(cached_logs(core)) == 1
    assert core.ask(Invoke("core.week")).cache_hit


def test_hops_are_counted_on_after_a_snapshot(tmp_path: Path) -> None:
    """Promise C3: a count that a restart forgets is no limit."""
    with Relay(tmp_path / "s") as relay:
        thread = relay.new_thread()
        for index in range(3):
            thread.invoke("core.echo", {"text": str(index)})
        thread.invoke("core.echo", {"text": "0"})
        for index in range(60):
            value = {"id": str(index), "key": "k", "value": "x" * 4_000}
            thread.patch([{"op": "add", "path": "/facts/0", "value": value}])
            thread.patch([{"op": "remove", "path": "/facts/0"}])
        thread.invoke("core.echo", {"text": "0"})

    with Relay(tmp_path / "s") as relay:
        ledger = relay.transport.stores.ledger
        rows = ledger.rows(f"t/{thread.id}", "snapshot", "", 10)
        stats = relay.thread(thread.id).stats()
        past = state_at(relay.transport.stores, thread.id, 100)

        assert rows, "there is no snapshot to start from"
        assert (stats.hop_count, stats.cache_hits, stats.cache_misses) == (5, 2, 3)
        assert past.uses.hops == 4
        assert relay.verify().problems == []


def test_whatever_part_of_an_invocation_a_crash_leaves_does_no_harm() -> None:
    for stops_after in range(100):
        engine, clock = open_engine("memory:"), Clock()
        whole = local(clock, engine)
        thread = whole.ask(NewThread()).thread_id
        stutter = StutterLedger(engine.ledger, stops_after)
        dying = Local(Stores(Engine("stutter", stutter, engine.blobs), Settings(), clock))
        is_over = True
        try:
            dying.ask(Invoke("core.echo", {}, thread))
            dying.ask(Invoke("core.echo", {}, thread))
            dying.ask(Invoke("core.echo"))
        except Stopped:
            is_over = False
        _check_repaired(whole, clock, thread, f"after {stops_after} writes")
        if is_over:
            return
    raise AssertionError("it never ended")


def _check_repaired(core: Local, clock: Clock, thread: str, when: str) -> None:
    hops = core.ask(ReadStats(thread)).hop_count
    invoked = core.ask(Invoke("core.echo", {}, thread))
    assert core.ask(Pull(invoked.artifact_ref)).whole() == b"echo of ", when
    assert core.ask(ReadStats(thread)).hop_count == hops + 1, when
    clock.pass_ms(2 * HOUR_MS)
    core.ask(Sweep())
    assert core.ask(Verify()).problems == [], when
    assert core.ask(ShowThread(thread)).events >= hops, when
    core.ask(RemoveThread(thread))
    for artifact in core.ask(List(100)).artifacts:
        core.ask(Remove(artifact.ref))
    for _ in range(2):
        clock.pass_ms(31 * DAY_MS)
        core.ask(Sweep())
    left = [log for log in core.stores.ledger.logs("", "", 100) if log not in ("sweep", ADDED)]
    assert left == [], when


def test_an_entry_that_cannot_be_read_is_a_miss() -> None:
    from contextrelay.store.ledger import Row, Write

    core = local(Clock())
    core.ask(Invoke("core.echo"))
    log = cached_logs(core)[0]
    core.stores.ledger.commit(Write(log, rows=(Row("result", ONLY, b"{"),)))

    assert not core.ask(Invoke("core.echo")).cache_hit
    assert core.ask(Invoke("core.echo")).cache_hit


# The registry


def test_what_is_built_in_cannot_be_replaced_and_what_is_ones_own_can() -> None:
    """Promise C1."""
    with Relay("memory:") as relay:
        relay.capabilities()
        with pytest.raises(Invalid, match="built-in"):
            capability("http.fetch")(echo)

        capability("core.own", cacheable=False)(echo)
        capability("core.own", cacheable=False)(week)

        assert relay.pull(relay.invoke("core.own").artifact_ref) == b"a week"


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("", {}),
        ("a/b", {}),
        ("core.x", {"cache_ttl_s": 10**9}),
        ("core.x", {"args_schema": {"type": "object", "patternProperties": {}}}),
    ],
)
def test_a_registration_that_is_not_right_is_refused(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        capability(name, **options)(echo)


def test_a_capability_cannot_change_what_its_result_is_cached_by() -> None:
    @capability("core.greedy")
    def greedy(args: dict[str, Any]) -> str:  # pyright: ignore[reportUnusedFunction]
        args["list"].clear()
        return "done"

    given = {"list": [1, 2]}
    core = local(Clock())
    first = core.ask(Invoke("core.greedy", given))

    assert given == {"list": [1, 2]}
    assert core.ask(Invoke("core.greedy", given)).cache_key == first.cache_key


PACKAGE = """
from contextrelay import capability

@capability("brought.hello", description="Greet.")
def hello(args):
    return "hello from a package"
"""
ASK = """
import sys
from contextrelay import Relay, NotFound
assert "brought" not in sys.modules
with Relay("memory:") as relay:
    relay.push("x")
    assert "brought" not in sys.modules, "loaded before it is needed"
    print(relay.pull(relay.invoke("brought.hello").artifact_ref).decode())
    listing = relay.capabilities()
    print([each.name for each in listing.capabilities])
    print(listing.problems)
"""


def test_packages_bring_capabilities_which_are_loaded_when_needed(tmp_path: Path) -> None:
    """Promise C1: an entry point; one that is broken is listed and stops no other."""
    (tmp_path / "brought.py").write_text(PACKAGE)
    (tmp_path / "broken.py").write_text("raise RuntimeError('not today')")
    about = tmp_path / "brought-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: brought\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[contextrelay.capabilities]\nbroken = broken\nhello = brought:hello\n"
    )
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{ASK}"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[0] == "hello from a package"
    assert said[1] == "['brought.hello', 'http.fetch', 'retrieval.search']"
    assert "broken (broken) cannot be loaded: RuntimeError('not today')" in said[2]
