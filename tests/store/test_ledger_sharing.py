"""What every ledger promises to several users at once: counters, hints, views, many writers."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from contextrelay.store.ledger import Fact, Ledger, Row, Stale, Write
from tests.store import engines

OPEN = Callable[[], Ledger]


def put(key: str, body: bytes = b"x", due_ms: int | None = None) -> Row:
    return Row("k", key, body, due_ms)


# Counters


def add(name: str, **amounts: int) -> Write:
    return Write(name, adds=tuple(amounts.items()))


def test_a_commit_adds_to_the_counters_of_its_logs(ledger: Ledger) -> None:
    assert ledger.tally("n") == {}
    ledger.commit(add("n", x=2, ü=1))
    assert ledger.tally("n") == {"x": 2, "ü": 1}
    ledger.commit(add("n", x=1), add("{other}", x=2**53 + 1), add("n", x=2, y=-1))
    assert ledger.tally("n") == {"x": 5, "ü": 1, "y": -1}
    assert ledger.tally("{other}") == {"x": 2**53 + 1}
    assert set(ledger.tallies()) == {"n", "{other}"}


def test_a_stale_commit_adds_nothing(ledger: Ledger) -> None:
    """Promise C3."""
    ledger.commit(Write("a", (b"1",), (put("x"),), adds=(("x", 1),)))

    with pytest.raises(Stale):
        ledger.commit(add("a", x=5), Write("b", (b"1",), expect=9))

    assert ledger.tally("a") == {"x": 1}
    assert ledger.last("a") == 1


def test_amounts_that_are_sent_again_with_their_id_are_added_once(ledger: Ledger) -> None:
    """After a lost reply a caller repeats a commit: nothing is lost, and nothing counted twice."""
    for _ in range(2):
        assert ledger.commit(add("n", x=1), Write("a", (b"1",)), id=b"id-1") == [0, 1]
        ledger.commit(add("n", x=2), add("m", x=1), id=b"id-2")

    assert ledger.tally("n") == {"x": 3}
    assert ledger.tally("m") == {"x": 1}
    assert ledger.last("a") == 1


def test_a_commit_whose_counter_would_exceed_its_maximum_is_refused(ledger: Ledger) -> None:
    """Promise C3: neither the counter nor the rest of the commit changes."""
    limited = Write("key", adds=(("used", 6),), total_max=10)
    ledger.commit(limited, Write("a", (b"1",), (put("x"),)))

    with pytest.raises(Stale) as refused:
        ledger.commit(Write("a", (b"2",), (put("y"),)), limited)
    with pytest.raises(Stale):
        ledger.commit(*[Write("other", adds=(("used", 6),), total_max=10)] * 2)

    assert refused.value.log == "key"
    assert ledger.tally("key") == {"used": 6}
    assert ledger.last("a") == 1
    assert ledger.get("a", "k", "y") is None
    assert ledger.tally("other") == {}
    ledger.commit(Write("key", adds=(("used", -20),), total_max=1))  # One that shrinks may.
    ledger.commit(Write("key", adds=(("used", 24),), total_max=10))
    assert ledger.tally("key") == {"used": 10}


def test_callers_at_the_same_time_never_exceed_a_maximum(ledger: Ledger) -> None:
    def take(number: int) -> bool:
        try:
            ledger.commit(
                Write("key", adds=(("used", 1),), total_max=25), Write("a", (b"%d" % number,))
            )
        except Stale:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(take, range(40)))

    assert sum(taken) == 25
    assert ledger.tally("key") == {"used": 25}
    assert ledger.last("a") == 25


def test_counters_are_not_logs(ledger: Ledger) -> None:
    ledger.commit(add("n", x=1))

    assert ledger.logs("", "", 10) == []


def test_no_amount_is_lost_between_threads(ledger: Ledger) -> None:
    def add_one(number: int) -> None:
        ledger.commit(add("n", x=1))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add_one, range(40)))

    assert ledger.tally("n") == {"x": 40}


# Hearing of news


class Ears:
    """A listener that can be waited for. None and other logs are hints too, so it waits on."""

    def __init__(self) -> None:
        self.heard: queue.Queue[str | None] = queue.Queue()

    def __call__(self, log: str | None) -> None:
        self.heard.put(log)

    def hear(self, log: str) -> bool:
        try:
            while self.heard.get(timeout=engines.WAIT_S_MAX) not in (log, None):
                pass
        except queue.Empty:
            return False
        return True


def test_a_listener_hears_of_facts_written_by_another_thread(ledger: Ledger) -> None:
    ears = Ears()
    stop = ledger.listen(ears)

    writer = threading.Thread(target=ledger.commit, args=(Write("a/ü", (b"1",)),))
    writer.start()

    assert ears.hear("a/ü")
    writer.join()
    stop()


def test_a_listener_hears_of_facts_written_over_another_connection(
    ledger_kind: str, open_ledger: OPEN
) -> None:
    if ledger_kind not in engines.SHARED:
        pytest.skip("this ledger is not shared")
    ears = Ears()
    stop = open_ledger().listen(ears)

    open_ledger().commit(Write("a", (b"1",)), Write("b", (b"2",)))

    assert ears.hear("b")
    stop()


def test_a_listener_hears_which_log_another_connection_wrote_to(
    ledger_kind: str, open_ledger: OPEN
) -> None:
    if ledger_kind not in engines.SHARED:
        pytest.skip("this ledger is not shared")
    ears = Ears()
    hearing, other = open_ledger(), open_ledger()
    stop = hearing.listen(ears)

    other.commit(Write("a", rows=(put("x"),)))
    for number in range(20):
        other.commit(Write(f"c/ü {number}", (b"1",)), Write("a", rows=(put("x"),)))
        hearing.commit(Write("own", (b"1",)))

    # By its name, and for facts only: who listens for one of many logs need not look at each.
    awaited: set[str | None] = {"own", *(f"c/ü {number}" for number in range(20))}
    heard: list[str | None] = []
    while not awaited.issubset(heard):
        heard.append(ears.heard.get(timeout=engines.WAIT_S_MAX))
    assert awaited.issuperset(heard)
    assert len(heard) <= 20 + 20
    stop()


def test_what_a_listener_hears_of_can_be_read(ledger: Ledger) -> None:
    bodies: queue.Queue[list[Fact]] = queue.Queue()
    stop = ledger.listen(lambda _: bodies.put(ledger.read("a", 0, 9)))

    ledger.commit(Write("a", (b"1",)))

    seen: list[Fact] = []
    while not seen:
        seen = bodies.get(timeout=engines.WAIT_S_MAX)
    assert seen == [Fact(1, b"1")]
    stop()


def test_a_listener_that_was_stopped_hears_nothing(ledger: Ledger) -> None:
    deaf, ears = Ears(), Ears()
    ledger.listen(deaf)()
    stop = ledger.listen(ears)
    while not deaf.heard.empty():
        deaf.heard.get_nowait()

    ledger.commit(Write("a", (b"1",)))

    assert ears.hear("a")
    assert deaf.heard.empty()
    stop()
    stop()


# Standing still


def test_a_still_view_reads_and_stands_still_where_it_can(ledger_kind: str, ledger: Ledger) -> None:
    ledger.commit(Write("a", (b"1",), (put("x", b"old", due_ms=1),)), Write("b", (b"1",)))

    with ledger.snapshot() as view:
        assert view.last("a") == 1
        ledger.commit(Write("a", (b"2",), (put("x", b"new"), put("y"))), Write("c", (b"1",)))
        ledger.drop("b", 1)
        seen = (
            view.last("a"),
            len(view.read("a", 0, 9)),
            view.get("a", "k", "x"),
            len(view.rows("a", "k", "", 9)),
            view.kinds("a"),
            view.logs("", "", 9),
            len(view.due(1, 9)),
        )

    now = (2, 2, b"new", 2, ["k"], ["a", "c"], 0)
    then = (1, 1, b"old", 1, ["k"], ["a", "b"], 1)
    assert seen == (then if ledger_kind in engines.STANDS_STILL else now)
    assert ledger.last("a") == 2


def test_a_still_view_does_not_hold_up_writers(ledger: Ledger) -> None:
    with ledger.snapshot() as view, ThreadPoolExecutor(1) as pool:
        head = pool.submit(ledger.commit, Write("a", (b"1",))).result(engines.WAIT_S_MAX)
        view.last("a")

    assert head == [1]


# Several writers, several connections, the end


def test_eight_writers_with_expect_write_each_number_exactly_once(open_ledger: OPEN) -> None:
    ledger = open_ledger()
    writers, each = 8, 10

    def write(writer: int) -> None:
        for turn in range(each):
            body = b"%d.%d" % (writer, turn)
            while True:
                try:
                    ledger.commit(Write("a", (body,), expect=ledger.last("a")))
                    break
                except Stale:
                    continue

    with ThreadPoolExecutor(writers) as pool:
        list(pool.map(write, range(writers)))

    facts = ledger.read("a", 0, 1_000)
    assert [fact.seq for fact in facts] == list(range(1, writers * each + 1))
    bodies = [fact.body for fact in facts]
    assert len(set(bodies)) == writers * each
    assert [body for body in bodies if body.startswith(b"3.")] == [
        b"3.%d" % turn for turn in range(each)
    ]


def test_writers_without_expect_lose_nothing(ledger: Ledger) -> None:
    def write(number: int) -> None:
        ledger.commit(Write("a", (b"%d" % number,), (put(f"{number}"),)))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(80)))

    assert ledger.last("a") == 80
    assert {fact.body for fact in ledger.read("a", 0, 99)} == {b"%d" % n for n in range(80)}
    assert len(ledger.rows("a", "k", "", 99)) == 80


def test_another_connection_sees_what_was_committed(ledger_kind: str, open_ledger: OPEN) -> None:
    if ledger_kind not in engines.SHARED:
        pytest.skip("this ledger is not shared")
    one, other = open_ledger(), open_ledger()
    one.commit(Write("a", (b"1",), (put("x", due_ms=1),)))
    one.commit(add("n", x=1))

    assert other.last("a") == 1
    assert other.logs("", "", 9) == ["a"]
    assert other.due(1, 9) == [("a", put("x", due_ms=1))]
    other.commit(add("n", x=1))
    assert one.tally("n") == {"x": 2}
    with pytest.raises(Stale):
        other.commit(Write("a", (b"2",), expect=0))


def test_a_sound_ledger_has_no_problems_and_closes_twice(ledger: Ledger) -> None:
    ledger.commit(Write("a", (b"1",)))
    ledger.listen(lambda _: None)

    assert ledger.check() == []

    ledger.close()
    ledger.close()


def test_a_ledger_says_whether_its_reads_wait(ledger_kind: str, ledger: Ledger) -> None:
    assert ledger.reads_wait == ledger_kind.startswith(("redis", "postgres"))
