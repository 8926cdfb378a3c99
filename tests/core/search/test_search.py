"""The search index: what never appears, what is caught up, and what damage does to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.json import encode
from msgspec.structs import replace

from contextrelay import Relay
from contextrelay.client.seal import fernet
from contextrelay.client.transport.local import Local
from contextrelay.core import search_index
from contextrelay.core.artifacts.catalog import ADDED
from contextrelay.core.search_index import (
    catch_up,
    index_of,
    index_of_tenant,
    maintain_all,
    state_of,
)
from contextrelay.limits import DAY_S
from contextrelay.store.engine import open_engine
from contextrelay.store.ledger import Write
from contextrelay.store.search import reads
from contextrelay.verbs import Extend, Push, PushMany, Remove, Search, Sweep
from tests.core.clock import DAY_MS, Clock, local
from tests.core.keyed import holder, owner, stores_of


def refs(core: Local, query: str = "needle") -> list[str]:
    return [hit.ref for hit in core.ask(Search(query, limit=50)).hits]


def pushed(core: Local, body: str, **options: object) -> str:
    return core.ask(Push(**options), body.encode()).ref  # pyright: ignore[reportArgumentType]


def many(core: Local, count: int, words: str = "needle") -> list[str]:
    bodies = [f"{words} {index}".encode() for index in range(count)]
    verb = PushMany([Push() for _ in bodies], [len(body) for body in bodies])
    return [artifact.ref for artifact in core.ask(verb, b"".join(bodies))]


# What never appears


def test_what_expired_or_was_removed_never_appears() -> None:
    """Promise L3."""
    clock = Clock()
    core = local(clock)
    pinned = pushed(core, "a needle, pinned", ttl_s=None)
    short = pushed(core, "a needle for an hour", ttl_s=3_600)
    longer = pushed(core, "a needle for an hour, then longer", ttl_s=3_600)
    removed = pushed(core, "a needle, removed", ttl_s=None)
    assert set(refs(core)) == {pinned, short, longer, removed}

    core.ask(Extend(longer, 10 * DAY_S))
    core.ask(Remove(removed))
    clock.pass_ms(DAY_MS)

    assert set(refs(core)) == {pinned, longer}
    state = state_of(index_of(core.stores))
    assert state.artifacts == 2


def test_what_is_gone_takes_no_place_of_what_is_there() -> None:
    """Promise L3: the best are looked for again while those found are gone."""
    core = local(Clock())
    here = pushed(core, "a needle among " + "other words " * 40)
    gone = many(core, 700)
    assert len(refs(core)) > 30
    for ref in gone:
        core.ask(Remove(ref))

    assert refs(core) == [here]


def test_sealed_artifacts_are_not_in_the_index() -> None:
    """Promise L3."""
    core = local(Clock())
    sealed, _ = fernet.seal("a needle")
    pushed(core, sealed, name="needle", sealed="k1")

    assert refs(core) == []
    assert state_of(index_of(core.stores)).artifacts == 0


def test_a_key_finds_only_what_it_may_see() -> None:
    """Promise L3: tenants and limited keys."""
    relay = owner()
    mine = relay.thread("mine").put("a needle of mine").ref
    relay.thread("theirs").put("a needle of theirs")
    relay.push("a loose needle")
    limited = holder(relay, threads=("mine",))
    tenant = holder(relay, tenant="acme", scope="write")
    other = tenant.push("the tenant's needle").ref

    found = limited.search("needle")

    assert [hit.ref for hit in found.hits] == [mine]
    assert (found.found, found.index.artifacts) == (1, 0)
    assert [hit.ref for hit in tenant.search("needle").hits] == [other]
    assert len(relay.search("needle").hits) == 3


# Catching up


def test_a_push_does_not_touch_the_index_and_the_next_query_brings_it_up(tmp_path: Path) -> None:
    """Promise L3: incremental; never rebuilt by a query."""
    core = local(Clock(), open_engine(str(tmp_path)))
    pushed(core, "a needle")
    assert not (tmp_path / search_index.FILE_NAME).exists()
    assert len(refs(core)) == 1
    made = _made(core)

    pushed(core, "another needle")

    assert len(refs(core)) == 2
    assert _made(core) == made
    core.close()


def _made(core: Local) -> str | None:
    with index_of(core.stores).reading() as view:
        return reads.mark(view, "made")


def test_a_query_that_has_no_time_says_how_far_the_index_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Promise L3: catching up is said."""
    core = local(Clock())
    many(core, 1_500)
    monkeypatch.setattr("contextrelay.core.search.SEARCH_CATCH_UP_S", 0)

    first = core.ask(Search("needle"))
    monkeypatch.setattr("contextrelay.core.search.SEARCH_CATCH_UP_S", 60)
    last = core.ask(Search("needle"))

    assert first.index.waiting > 0
    assert "is being updated" in first.notes[0]
    assert (last.index.artifacts, last.index.waiting, last.notes) == (1_500, 0, ())
    assert last.found == 1_500


def test_what_an_earlier_version_pushed_meanwhile_is_found_by_a_sweep() -> None:
    """Promise L3. It is not in the log of what was added."""
    clock = Clock()
    core = local(clock)
    pushed(core, "a needle")
    clock.pass_ms(-2 * 60_000)
    late = pushed(core, "a late needle")
    ledger = core.stores.ledger
    first = ledger.read(ADDED, 0, 1)[0]
    ledger.drop(ADDED, expect=2)
    ledger.commit(Write(ADDED, (first.body,)))
    with index_of(core.stores).changing() as change:
        change.set_mark("followed", encode((1, first.body.decode())).decode())
    assert late not in refs(core)

    core.ask(Sweep())

    assert late in refs(core)


def test_room_of_what_is_gone_is_given_back() -> None:
    """Promise L3: memory bounded."""
    clock = Clock()
    core = local(clock)
    kept = pushed(core, "a needle that stays", ttl_s=None)
    many(core, 5_000, "hay")
    catch_up(core.stores, index_of(core.stores), 60)
    assert _postings(core) > 5_000

    clock.pass_ms(2 * DAY_MS)
    for _ in range(2):
        core.ask(Sweep())
    pushed(core, "another needle")
    maintain_all(core.stores)

    assert kept in refs(core)
    assert _postings(core) < 4_500


def _postings(core: Local) -> int:
    with index_of(core.stores).reading() as view:
        return view.execute("SELECT count(*) FROM posting").fetchone()[0]


# Damage and company


@pytest.mark.parametrize("damage", [b"", b"no database at all" * 1_000, None])
def test_a_damaged_index_is_rebuilt(tmp_path: Path, damage: bytes | None) -> None:
    """Promise L3: it stands apart and can be rebuilt."""
    with Relay(tmp_path) as relay:
        ref = relay.push("a needle").ref
        relay.search("needle")
    file = tmp_path / search_index.FILE_NAME
    if damage is None:
        file.unlink()
    else:
        file.write_bytes(damage)

    with Relay(tmp_path) as relay:
        assert [hit.ref for hit in relay.search("needle").hits] == [ref]


def test_an_index_with_a_broken_page_is_rebuilt(tmp_path: Path) -> None:
    with Relay(tmp_path) as relay:
        relay.push_many([f"needle {index}" for index in range(300)])
        assert relay.search("needle").found == 300
    file = tmp_path / search_index.FILE_NAME
    body = bytearray(file.read_bytes())
    body[4_096:] = os.urandom(len(body) - 4_096)
    file.write_bytes(body)

    with Relay(tmp_path) as relay:
        assert relay.search("needle").found == 300


KILLED = """
import os, signal, sys
from contextrelay import Relay
from contextrelay.core import search_index as indexing
from contextrelay.store.search.index import IndexChange

left = [int(sys.argv[2])]
written = IndexChange.write

def write(self):
    written(self)
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)

IndexChange.write = write
Relay(sys.argv[1]).search("needle")
"""


@pytest.mark.parametrize("moment", [1, 2, 3])
def test_a_kill_in_the_middle_of_an_update_loses_nothing(tmp_path: Path, moment: int) -> None:
    """Promise L3: crash-safe; the next query catches up."""
    with Relay(tmp_path) as relay:
        relay.push_many([f"needle {index}" for index in range(500)])

        killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), str(moment)])
        assert killed.returncode == -signal.SIGKILL

        found = relay.search("needle")
        assert (found.found, found.index.artifacts, found.index.waiting) == (500, 500, 0)


ASKING = """
import sys
from contextrelay import Relay
from contextrelay.core.search import search
search.SEARCH_CATCH_UP_S = 60  # However busy the machine is.
relay = Relay(sys.argv[1])
for index in range(20):
    ref = relay.push(f"needle {sys.argv[2]} of {index}").ref
    assert ref in [hit.ref for hit in relay.search(f"{sys.argv[2]} {index}", limit=50).hits], index
relay.close()
"""


def test_processes_side_by_side_each_find_what_they_pushed(tmp_path: Path) -> None:
    """Promise L3: several processes at once."""
    running = [
        subprocess.Popen([sys.executable, "-c", ASKING, str(tmp_path), f"worker{number}"])
        for number in range(3)
    ]

    assert [each.wait(120) for each in running] == [0, 0, 0]
    with Relay(tmp_path) as relay:
        found = relay.search("needle")
        assert (found.found, found.index.artifacts) == (60, 60)


def test_an_index_belongs_to_its_tenant(tmp_path: Path) -> None:
    """Promise L3: the files of tenants are apart."""
    relay = owner()
    stores = replace(stores_of(relay), engine=open_engine(str(tmp_path)))
    paths = {index_of_tenant(stores, tenant).path for tenant in (None, "a/../b", "acme")}

    assert len(paths) == 3
    assert all(path is not None and path.parent == tmp_path for path in paths)
    stores.engine.close()


def test_a_word_far_behind_is_found_in_its_ref(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise L3: also within a long string, and behind what the index knows."""
    monkeypatch.setattr("contextrelay.core.search_hits.SEARCH_EXACT_S_MAX", 60)
    core = local(Clock())
    long = pushed(core, '{"a": "' + "z" * 1_500_000 + ' tailword"}', name="a.json")
    longer = pushed(core, "zq " * 1_500_000 + "farword\n", name="a.txt")

    assert "tailword" in core.ask(Search("tailword", ref=long)).hits[0].snippet
    assert "farword" in core.ask(Search("farword", ref=longer)).hits[0].snippet
    notes = core.ask(Search("nowhere", ref=longer)).notes
    assert any("only its first part is searched" in note for note in notes)
