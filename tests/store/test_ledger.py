"""The one suite that judges every ledger, sentence by sentence of its protocol.

What concerns several users at once is in test_ledger_sharing.py.
"""

from __future__ import annotations

import pytest

from contextrelay.errors import Unavailable
from contextrelay.store.ledger import UNLOCKED, Fact, Ledger, Row, Stale, Write, lock_token

ODD_NAMES = (
    "a b",
    "a/b/c",
    "{",
    "}",
    "{}",
    "}x{",
    "x{y}z",
    "%7D",
    "naïve/ünï\U0001f600",
    "*?[x]",
    "a'b\"c;--",
    ":",
    "\n",
)
# In the order of their UTF-8 bytes, which is not that of UTF-16.
ORDERED_KEYS = ("!", "A", "a", "a!", "aa", "z", "é", "中", "￿", "\U00010000", "\U0001f600")


def put(key: str, body: bytes = b"x", kind: str = "k", due_ms: int | None = None) -> Row:
    return Row(kind, key, body, due_ms)


def gone(key: str, kind: str = "k") -> Row:
    return Row(kind, key, None)


def keys_of(rows: list[Row]) -> list[str]:
    return [row.key for row in rows]


# Facts


def test_facts_are_numbered_from_one_and_heads_are_returned(ledger: Ledger) -> None:
    heads = ledger.commit(Write("a", (b"1", b"2")), Write("b", (b"x",)), Write("a", (b"3",)))

    assert heads == [2, 1, 3]
    assert ledger.read("a", 0, 10) == [Fact(1, b"1"), Fact(2, b"2"), Fact(3, b"3")]
    assert ledger.read("b", 0, 10) == [Fact(1, b"x")]
    assert (ledger.last("a"), ledger.last("b")) == (3, 1)


def test_a_log_that_was_never_written_is_empty(ledger: Ledger) -> None:
    assert ledger.last("a") == 0
    assert ledger.read("a", 0, 10) == []
    assert ledger.get("a", "k", "x") is None
    assert ledger.rows("a", "k", "", 10) == []
    assert ledger.kinds("a") == []
    assert ledger.logs("", "", 10) == []
    assert ledger.due(2**53, 10) == []


def test_read_begins_behind_after_and_ends_at_the_limit(ledger: Ledger) -> None:
    ledger.commit(Write("a", tuple(b"%d" % number for number in range(1, 13))))

    assert [fact.seq for fact in ledger.read("a", 9, 10)] == [10, 11, 12]
    assert [fact.seq for fact in ledger.read("a", 2, 3)] == [3, 4, 5]
    assert ledger.read("a", 12, 10) == []
    assert ledger.read("a", 99, 10) == []
    assert ledger.read("a", 0, 0) == []


def test_a_commit_of_nothing_does_nothing(ledger: Ledger) -> None:
    assert ledger.commit() == []
    assert ledger.commit(Write("a")) == [0]
    assert ledger.logs("", "", 10) == []


def test_empty_and_large_and_binary_bodies_come_back_as_they_were(ledger: Ledger) -> None:
    binary = bytes(range(256)) * 128
    ledger.commit(Write("a", (b"", binary), (put("empty", b""), put("binary", binary))))

    assert [fact.body for fact in ledger.read("a", 0, 10)] == [b"", binary]
    assert ledger.get("a", "k", "empty") == b""
    assert ledger.get("a", "k", "binary") == binary
    assert [row.body for row in ledger.rows("a", "k", "", 10)] == [binary, b""]


# Expecting a head


def test_a_write_is_done_where_its_head_is_the_expected_one(ledger: Ledger) -> None:
    assert ledger.commit(Write("a", (b"1",), expect=0)) == [1]
    assert ledger.commit(Write("a", (b"2",), expect=1), Write("a", (b"3",), expect=2)) == [2, 3]


def test_a_stale_write_changes_nothing_and_says_where_the_head_is(ledger: Ledger) -> None:
    ledger.commit(Write("a", (b"1", b"2"), (put("x", b"old", due_ms=5),)))

    with pytest.raises(Stale) as stale:
        ledger.commit(Write("a", (b"3",), (put("x", b"new"), put("y")), expect=1))

    assert (stale.value.log, stale.value.head) == ("a", 2)
    assert ledger.last("a") == 2
    assert ledger.rows("a", "k", "", 10) == [put("x", b"old", due_ms=5)]
    assert ledger.due(5, 10) == [("a", put("x", b"old", due_ms=5))]


def test_one_stale_write_stops_the_whole_commit(ledger: Ledger) -> None:
    ledger.commit(Write("e", (b"1",), (put("x", b"old", due_ms=3),)))

    with pytest.raises(Stale) as stale:
        ledger.commit(
            Write("a", (b"1",)),
            Write("b", rows=(put("x", due_ms=2),)),
            Write("e", (b"2",), (put("x", b"new"),)),
            Write("c", (b"1",), expect=1),
            Write("d", (b"1",)),
        )

    assert (stale.value.log, stale.value.head) == ("c", 0)
    assert ledger.logs("", "", 10) == ["e"]
    assert ledger.last("e") == 1
    assert ledger.due(9, 9) == [("e", put("x", b"old", due_ms=3))]


def test_a_commit_with_an_id_is_applied_once(ledger: Ledger) -> None:
    writes = (Write("a", (b"1",), (put("x", b"1"),), expect=0), Write("b", (b"2", b"3")))

    assert ledger.commit(*writes, id=b"first") == [1, 2]
    ledger.commit(Write("b", (b"4",)), id=b"second")

    assert ledger.commit(*writes, id=b"first") == [1, 2]
    assert (ledger.last("a"), ledger.last("b")) == (1, 3)
    assert ledger.applied(b"first") == [1, 2]
    assert ledger.applied(b"second") == [3]


def test_a_commit_that_was_refused_may_come_again_under_its_id(ledger: Ledger) -> None:
    with pytest.raises(Stale):
        ledger.commit(Write("a", (b"1",), expect=4), id=b"id")

    assert ledger.commit(Write("a", (b"1",), expect=0), id=b"id") == [1]
    assert ledger.applied(b"id") == [1]


def test_a_commit_that_was_given_up_changes_nothing_when_it_arrives(ledger: Ledger) -> None:
    assert ledger.applied(b"id") is None
    assert ledger.applied(b"id") is None

    with pytest.raises(Unavailable):
        ledger.commit(Write("a", (b"1",)), Write("b", rows=(put("x"),)), id=b"id")

    assert ledger.logs("", "", 10) == []
    assert ledger.applied(b"id") is None
    assert ledger.commit(Write("a", (b"1",)), id=b"another") == [1]


def test_expect_alone_checks_and_changes_nothing(ledger: Ledger) -> None:
    ledger.commit(Write("a", (b"1",)))

    assert ledger.commit(Write("a", expect=1)) == [1]
    with pytest.raises(Stale):
        ledger.commit(Write("a", expect=0), Write("b", (b"1",)))
    assert ledger.logs("", "", 10) == ["a"]


def test_expect_sees_the_write_before_it_in_the_same_commit(ledger: Ledger) -> None:
    with pytest.raises(Stale) as stale:
        ledger.commit(Write("a", (b"1",), expect=0), Write("a", (b"2",), expect=0))

    assert stale.value.head == 1


def test_a_commit_of_many_writes_is_done_whole(ledger: Ledger) -> None:
    names = [f"a{number:03}" for number in range(150)]
    ledger.commit(Write("a007", (b"0",)))

    heads = ledger.commit(
        *(Write(name, (b"1", b"2"), (put(name), put("x", name.encode()))) for name in names)
    )

    assert heads == [3 if name == "a007" else 2 for name in names]
    assert ledger.logs("", "", 1_000) == names
    assert all(ledger.get(name, "k", "x") == name.encode() for name in names)
    assert all(ledger.read(name, 0, 10)[-1].body == b"2" for name in names)


# Rows


def test_of_two_writes_to_a_row_in_one_commit_the_last_stands(ledger: Ledger) -> None:
    ledger.commit(Write("a", rows=(put("old"), put("due", due_ms=5))))

    ledger.commit(
        Write("a", rows=(put("x", b"1"), gone("y"), gone("old"), put("due", b"2"))),
        Write("a", rows=(gone("x"), put("y", b"2"), put("old", b"3"))),
    )

    assert [(row.key, row.body) for row in ledger.rows("a", "k", "", 10)] == [
        ("due", b"2"),
        ("old", b"3"),
        ("y", b"2"),
    ]
    assert ledger.due(10, 10) == []


def test_rows_are_ordered_by_the_bytes_of_their_keys(ledger: Ledger) -> None:
    shuffled = sorted(ORDERED_KEYS, key=lambda key: hash((key, 7)))
    ledger.commit(Write("a", rows=tuple(put(key, key.encode()) for key in shuffled)))

    assert keys_of(ledger.rows("a", "k", "", 100)) == list(ORDERED_KEYS)


def test_rows_are_read_in_pages(ledger: Ledger) -> None:
    ledger.commit(Write("a", rows=tuple(put(key) for key in ORDERED_KEYS)))

    pages: list[list[str]] = []
    after = ""
    while page := keys_of(ledger.rows("a", "k", after, 4)):
        pages.append(page)
        after = page[-1]

    assert [key for page in pages for key in page] == list(ORDERED_KEYS)
    assert [len(page) for page in pages] == [4, 4, 3]
    assert keys_of(ledger.rows("a", "k", "b", 1)) == ["z"]
    assert ledger.rows("a", "k", "", 0) == []


def test_kinds_are_apart_and_listed_in_order(ledger: Ledger) -> None:
    ledger.commit(
        Write("a", rows=(put("x", b"1", "m"), put("x", b"2", "k"), put("y", b"3", "k!"))),
        Write("b", rows=(put("x", b"4", "z"),)),
    )

    assert ledger.kinds("a") == ["k", "k!", "m"]
    assert ledger.rows("a", "k", "", 10) == [put("x", b"2", "k")]
    assert ledger.get("a", "m", "x") == b"1"
    assert ledger.get("a", "z", "x") is None


def test_one_row_of_each_of_many_logs_is_read_at_once(ledger: Ledger) -> None:
    names = [f'"{number:03}é' for number in range(150)]
    ledger.commit(*(Write(name, rows=(put("x", name.encode()), put("y"))) for name in names[::2]))

    asked = [*names, names[0], "never"]
    expected = [name.encode() if name in names[::2] else None for name in asked]

    assert ledger.get_each(asked, "k", "x") == expected
    assert ledger.get_each([], "k", "x") == []


def test_a_row_is_overwritten_and_deleted(ledger: Ledger) -> None:
    ledger.commit(Write("a", rows=(put("x", b"1"), put("y", b"2"))))
    ledger.commit(Write("a", rows=(put("x", b"3"), gone("y"), gone("never"))))

    assert ledger.rows("a", "k", "", 10) == [put("x", b"3")]
    assert ledger.get("a", "k", "y") is None


def test_within_a_write_the_last_word_on_a_row_counts(ledger: Ledger) -> None:
    ledger.commit(Write("a", rows=(put("x", b"1", due_ms=1), gone("x"), put("y"), put("y", b"2"))))
    ledger.commit(Write("a", rows=(gone("y"), put("y", b"3", due_ms=9))))

    assert ledger.rows("a", "k", "", 10) == [put("y", b"3", due_ms=9)]
    assert ledger.due(100, 10) == [("a", put("y", b"3", due_ms=9))]


def test_a_kind_goes_with_its_last_row_and_a_log_with_its_last_thing(ledger: Ledger) -> None:
    ledger.commit(Write("a", rows=(put("x"), put("x", kind="m"))), Write("b", (b"1",), (put("x"),)))
    ledger.commit(Write("a", rows=(gone("x"),)))
    assert ledger.kinds("a") == ["m"]

    ledger.commit(Write("a", rows=(gone("x", "m"),)), Write("b", rows=(gone("x"),)))

    assert ledger.kinds("a") == []
    assert ledger.logs("", "", 10) == ["b"]


def test_keys_may_hold_anything(ledger: Ledger) -> None:
    keys = sorted((*ODD_NAMES, "nul\0inside", "x" * 600))
    ledger.commit(Write("a", rows=tuple(put(key, key.encode()) for key in keys)))

    assert keys_of(ledger.rows("a", "k", "", 100)) == keys
    assert [ledger.get("a", "k", key) for key in keys] == [key.encode() for key in keys]


def test_ten_thousand_rows_in_one_write(ledger: Ledger) -> None:
    rows = tuple(put(f"{number:05}", b"%d" % number, due_ms=number) for number in range(10_000))

    ledger.commit(Write("a", (b"1",), rows))

    assert keys_of(ledger.rows("a", "k", "", 20_000)) == [row.key for row in rows]
    assert ledger.due(10_000, 3) == [("a", row) for row in rows[:3]]
    ledger.commit(Write("a", rows=tuple(gone(row.key) for row in rows)))
    assert ledger.kinds("a") == []
    assert ledger.due(10_000, 3) == []


def test_a_thousand_facts_in_one_write(ledger: Ledger) -> None:
    assert ledger.commit(Write("a", tuple(b"%d" % number for number in range(1_000)))) == [1_000]
    assert ledger.read("a", 998, 10) == [Fact(999, b"998"), Fact(1_000, b"999")]


# What is due


def test_due_rows_come_soonest_first_over_all_logs(ledger: Ledger) -> None:
    late, soon, middle = put("l", due_ms=300), put("s", due_ms=9), put("m", due_ms=100)
    ledger.commit(Write("a", rows=(late, put("never"))), Write("b", rows=(soon, middle)))

    assert ledger.due(300, 10) == [("b", soon), ("b", middle), ("a", late)]
    assert ledger.due(299, 10) == [("b", soon), ("b", middle)]
    assert ledger.due(300, 1) == [("b", soon)]
    assert ledger.due(8, 10) == []
    assert ledger.due(300, 0) == []


def test_a_due_time_moves_with_its_row(ledger: Ledger) -> None:
    ledger.commit(Write("a", rows=(put("x", due_ms=100), put("y", due_ms=100))))
    ledger.commit(Write("a", rows=(put("x", b"2", due_ms=200), put("y", b"2", due_ms=50))))

    assert ledger.due(150, 10) == [("a", put("y", b"2", due_ms=50))]
    assert ledger.due(200, 10)[1] == ("a", put("x", b"2", due_ms=200))


def test_a_row_is_due_no_more_once_overwritten_without_or_deleted_or_dropped(
    ledger: Ledger,
) -> None:
    rows = (put("x", due_ms=1), put("y", due_ms=2))
    ledger.commit(Write("a", rows=rows), Write("b", rows=rows))

    ledger.commit(Write("a", rows=(put("x"), gone("y"))))
    ledger.drop("b", 0)

    assert ledger.due(10, 10) == []


def test_a_due_row_written_again_is_due_again(ledger: Ledger) -> None:
    row = put("x", due_ms=1)
    ledger.commit(Write("a", rows=(row,)))
    ledger.commit(Write("a", rows=(gone("x"),)))
    assert ledger.due(10, 10) == []

    ledger.commit(Write("a", rows=(row,)))

    assert ledger.due(10, 10) == [("a", row)]


def test_due_finds_its_way_past_many_that_are_due_no_more(ledger: Ledger) -> None:
    rows = tuple(put(f"{number:03}", due_ms=number) for number in range(400))
    ledger.commit(Write("a", rows=rows))
    ledger.commit(Write("a", rows=tuple(gone(row.key) for row in rows[:390])))

    assert ledger.due(1_000, 3) == [("a", row) for row in rows[390:393]]


# Names of logs


def test_logs_are_listed_by_prefix_in_order_and_in_pages(ledger: Ledger) -> None:
    names = sorted(f"t/{number}" for number in range(100))
    ledger.commit(*(Write(name, (b"1",)) for name in ("a", *names, "t", "t0", "u/1")))

    assert ledger.logs("t/", "", 1_000) == names
    assert ledger.logs("", "", 3) == ["a", "t", "t/0"]
    assert ledger.logs("t/", names[40], 7) == names[41:48]
    assert ledger.logs("t/", "a", 1) == names[:1]
    assert ledger.logs("t/", "u", 10) == []
    assert ledger.logs("x", "", 10) == []
    assert ledger.logs("", "", 0) == []


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_log_may_have_any_name(ledger: Ledger, name: str) -> None:
    row = put("x", due_ms=1)
    ledger.commit(Write(name, (b"1",), (row,), expect=0), Write(name + "2", (b"2",)))

    assert ledger.last(name) == 1
    assert ledger.read(name, 0, 9) == [Fact(1, b"1")]
    assert ledger.rows(name, "k", "", 9) == [row]
    assert ledger.kinds(name) == ["k"]
    assert ledger.logs(name, "", 9) == [name, name + "2"]
    assert ledger.due(1, 9) == [(name, row)]
    ledger.trim(name, 2)
    ledger.drop(name, 1)
    assert ledger.logs("", "", 9) == [name + "2"]


def test_names_that_look_alike_are_apart(ledger: Ledger) -> None:
    ledger.commit(*(Write(name, (name.encode(),)) for name in ODD_NAMES))

    bodies = {name: [fact.body for fact in ledger.read(name, 0, 9)] for name in ODD_NAMES}

    assert bodies == {name: [name.encode()] for name in ODD_NAMES}
    assert ledger.logs("", "", 99) == sorted(ODD_NAMES)


# Trimming and dropping


def test_trim_forgets_facts_and_keeps_head_and_numbers(ledger: Ledger) -> None:
    ledger.commit(Write("a", (b"1", b"2", b"3", b"4"), (put("x"),)))

    ledger.trim("a", 3)

    assert ledger.read("a", 0, 10) == [Fact(3, b"3"), Fact(4, b"4")]
    assert ledger.read("a", 2, 1) == [Fact(3, b"3")]
    assert ledger.last("a") == 4
    assert ledger.commit(Write("a", (b"5",), expect=4)) == [5]
    assert ledger.get("a", "k", "x") == b"x"


def test_the_head_stays_when_all_facts_are_trimmed(ledger: Ledger) -> None:
    ledger.commit(Write("a", (b"1", b"2")))

    ledger.trim("a", 3)

    assert ledger.read("a", 0, 10) == []
    assert ledger.last("a") == 2
    assert ledger.logs("", "", 10) == ["a"]
    assert ledger.commit(Write("a", (b"3",), expect=2)) == [3]


def test_trim_moves_a_head_that_is_behind(ledger: Ledger) -> None:
    ledger.commit(Write("a", (b"1",)))

    ledger.trim("a", 10)
    ledger.trim("new", 5)

    assert (ledger.last("a"), ledger.last("new")) == (9, 4)
    assert ledger.logs("", "", 10) == ["a", "new"]
    assert ledger.commit(Write("a", (b"10",), expect=9), Write("new", (b"5",))) == [10, 5]
    assert ledger.read("a", 0, 10) == [Fact(10, b"10")]
    assert ledger.read("new", 0, 10) == [Fact(5, b"5")]


def test_trim_again_or_further_back_changes_nothing(ledger: Ledger) -> None:
    ledger.commit(Write("a", (b"1", b"2", b"3")))
    ledger.trim("a", 3)

    ledger.trim("a", 3)
    ledger.trim("a", 2)
    ledger.trim("a", 0)
    ledger.trim("nothing", 1)

    assert ledger.read("a", 0, 10) == [Fact(3, b"3")]
    assert ledger.logs("", "", 10) == ["a"]


def test_drop_forgets_everything_and_the_log_begins_again(ledger: Ledger) -> None:
    ledger.commit(Write("a", (b"1", b"2"), (put("x", due_ms=1),)), Write("b", (b"1",)))

    ledger.drop("a", 2)

    assert ledger.last("a") == 0
    assert ledger.read("a", 0, 10) == []
    assert ledger.kinds("a") == []
    assert ledger.logs("", "", 10) == ["b"]
    assert ledger.commit(Write("a", (b"new",), expect=0)) == [1]
    assert ledger.read("a", 0, 10) == [Fact(1, b"new")]
    assert ledger.logs("", "", 10) == ["a", "b"]


def test_drop_is_refused_where_the_head_is_another(ledger: Ledger) -> None:
    ledger.commit(Write("a", (b"1", b"2"), (put("x"),)))

    with pytest.raises(Stale) as stale:
        ledger.drop("a", 1)

    assert (stale.value.log, stale.value.head) == ("a", 2)
    assert ledger.get("a", "k", "x") == b"x"


def test_a_log_without_facts_is_dropped_at_head_zero(ledger: Ledger) -> None:
    ledger.commit(Write("a", rows=(put("x"),)))

    ledger.drop("a", 0)
    ledger.drop("never", 0)

    assert ledger.logs("", "", 10) == []


# The write lock


def test_a_locked_ledger_takes_writes_from_the_holder_of_the_token_only(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.commit(Write("a", (b"1",)))
    assert ledger.locked_by() == UNLOCKED

    assert ledger.swap_lock(UNLOCKED, b"mine")
    assert not ledger.swap_lock(UNLOCKED, b"theirs")

    assert ledger.locked_by() == b"mine"
    for refused in (
        lambda: ledger.commit(Write("a", (b"2",))),
        lambda: ledger.commit(Write("t", adds=(("n", 1),))),
        lambda: ledger.trim("a", 2),
        lambda: ledger.drop("a", 1),
    ):
        with pytest.raises(Unavailable):
            refused()
        with lock_token(b"theirs"), pytest.raises(Unavailable):
            refused()
    assert ledger.read("a", 0, 9) == [Fact(1, b"1")]
    with lock_token(b"mine"):
        assert ledger.commit(Write("a", (b"2",))) == [2]
        ledger.trim("a", 2)
        ledger.commit(Write("b", (b"1",)))
        ledger.drop("b", 1)
    assert ledger.swap_lock(b"mine", b"next")
    assert ledger.swap_lock(b"next", UNLOCKED)
    with lock_token(b"next"), pytest.raises(Unavailable):
        ledger.commit(Write("a", (b"late",)))
    assert ledger.commit(Write("a", (b"3",))) == [3]
