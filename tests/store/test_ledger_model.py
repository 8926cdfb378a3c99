"""Every ledger against a naive model: what a few dictionaries and `sorted` would answer."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contextrelay.store.ledger import Fact, Ledger, Row, Stale, Write
from tests.store import engines
from tests.store.engines import Servers

ALL = 1_000
LOGS = ("a", "a/1", "a/{2}", "b", "ü")
KINDS = ("k", "k!", "m")
KEYS = ("1", "10", "2", "é", "\U00010000", "￿")
EXAMPLES = {
    "memory": 100,
    "sqlite": 30,
    "redis": 25,
    "redis-cluster": 12,
    "redis-sentinel": 6,
    "postgres": 12,
}


@dataclass
class Log:
    head: int = 0
    facts: dict[int, bytes] = field(default_factory=dict[int, bytes])
    rows: dict[tuple[str, str], Row] = field(default_factory=dict[tuple[str, str], Row])


@dataclass
class Model:
    """The protocol, said as simply as Python can."""

    by_name: dict[str, Log] = field(default_factory=dict[str, Log])

    def commit(self, *writes: Write) -> list[int]:
        before = deepcopy(self.by_name)
        heads: list[int] = []
        for write in writes:
            log = self.by_name.setdefault(write.log, Log())
            if write.expect not in (None, log.head):
                self.by_name = before
                raise Stale(write.log, log.head)
            for body in write.facts:
                log.head += 1
                log.facts[log.head] = body
            for row in write.rows:
                log.rows.pop((row.kind, row.key), None)
                if row.body is not None:
                    log.rows[row.kind, row.key] = row
            heads.append(log.head)
        return heads

    def trim(self, name: str, before: int) -> None:
        log = self.by_name.setdefault(name, Log())
        log.facts = {seq: body for seq, body in log.facts.items() if seq >= before}
        log.head = max(log.head, before - 1)

    def drop(self, name: str, expect: int) -> None:
        head = self.by_name.get(name, Log()).head
        if head != expect:
            raise Stale(name, head)
        self.by_name.pop(name, None)

    def names(self) -> list[str]:
        listed = [name for name, log in self.by_name.items() if log.head or log.rows]
        return sorted(listed, key=str.encode)

    def rows(self, name: str, kind: str) -> list[Row]:
        rows = [row for row in self.by_name.get(name, Log()).rows.values() if row.kind == kind]
        return sorted(rows, key=lambda row: row.key.encode())

    def due(self, now_ms: int) -> list[tuple[str, Row]]:
        return sorted(
            [
                (name, row)
                for name, log in self.by_name.items()
                for row in log.rows.values()
                if row.due_ms is not None and row.due_ms <= now_ms
            ],
            key=when,
        )


def when(entry: tuple[str, Row]) -> tuple[int | None, str, str, str]:
    name, row = entry
    return row.due_ms, name, row.kind, row.key


Step = tuple[str, tuple[object, ...]]
"""The name of a method, and its arguments."""

names = st.sampled_from(LOGS)
bodies = st.sampled_from([b"", b"x", b"\x00\xff", b":", b"1:y"])
dues = st.none() | st.integers(0, 6)
rows = st.builds(Row, st.sampled_from(KINDS), st.sampled_from(KEYS), st.none() | bodies, dues)
writes = st.builds(
    Write,
    names,
    st.lists(bodies, max_size=3).map(tuple),
    st.lists(rows, max_size=4).map(tuple),
    st.none() | st.none() | st.integers(0, 4),
)


commits = st.tuples(st.just("commit"), st.lists(writes, max_size=4).map(tuple))
trims = st.tuples(st.just("trim"), st.tuples(names, st.integers(0, 6)))
drops = st.tuples(st.just("drop"), st.tuples(names, st.integers(0, 4)))
steps = st.one_of(commits, commits, trims, drops)


def outcome(step: Step, ledger: Ledger | Model) -> object:
    verb, args = step
    try:
        return getattr(ledger, verb)(*args)
    except Stale as stale:
        return (stale.log, stale.head)


def assert_alike(ledger: Ledger, model: Model) -> None:
    assert ledger.logs("", "", ALL) == model.names()
    assert (
        ledger.logs("a", "a/1", 1)
        == [name for name in model.names() if name.startswith("a") and name > "a/1"][:1]
    )
    for name in LOGS:
        log = model.by_name.get(name, Log())
        facts = [Fact(seq, body) for seq, body in sorted(log.facts.items())]
        assert ledger.last(name) == log.head
        assert ledger.read(name, 0, ALL) == facts
        assert ledger.read(name, 2, 2) == [fact for fact in facts if fact.seq > 2][:2]
        assert ledger.kinds(name) == sorted({kind for kind, _ in log.rows})
        for kind in ledger.kinds(name):
            expected = model.rows(name, kind)
            assert ledger.rows(name, kind, "", ALL) == expected
            assert ledger.rows(name, kind, "10", 2) == [r for r in expected if r.key > "10"][:2]
    for now_ms in (3, 6):
        found = ledger.due(now_ms, ALL)
        assert sorted(found, key=when) == model.due(now_ms)
        assert [row.due_ms for _, row in found] == [row.due_ms for _, row in model.due(now_ms)]
        few = [row.due_ms for _, row in ledger.due(now_ms, 2)]
        assert few == [row.due_ms for _, row in model.due(now_ms)][:2]


def test_a_ledger_answers_as_the_model_does(
    ledger_kind: str, servers: Servers, tmp_path: Path
) -> None:
    @settings(
        max_examples=EXAMPLES[ledger_kind],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(st.lists(steps, max_size=8))
    def run(some: list[Step]) -> None:
        ledger = engines.make_ledger(ledger_kind, servers, tmp_path, engines.new_prefix())
        model = Model()
        try:
            for step in some:
                assert outcome(step, ledger) == outcome(step, model)
            assert_alike(ledger, model)
        finally:
            ledger.close()

    run()
