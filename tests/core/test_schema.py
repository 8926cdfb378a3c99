"""The storage schema: it names all that a store holds, and docs/engines.md shows it.

`python -m tests.core.test_schema` prints the tables for docs/engines.md.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import contextrelay.core
from contextrelay import Relay
from contextrelay.core import schema
from contextrelay.core.schema import BEFORE, COUNTERS, ENGINE, LOGS, RowKind, split_log, walk_logs
from contextrelay.errors import RelayError
from contextrelay.model.key import IssuedKey
from contextrelay.model.thread import Sent
from contextrelay.state.schema import fact
from contextrelay.store.ledger import ONLY, Ledger
from contextrelay.verbs import BeginPipeline, BeginTask, FinishStep, PutHook, PutSent, PutSession
from tests.core.clock import DAY_MS, Clock
from tests.core.keyed import as_seen_by, fill, owner, stores_of

CORE = Path(contextrelay.core.__file__).parent
ENGINES = Path(__file__).parents[2] / "docs" / "engines.md"
BEGIN, END = "<!-- core/schema.py -->\n", "<!-- end -->\n"
ROWS = [row for log in LOGS for row in log.rows]
KINDS = {value: name for name, value in vars(RowKind).items() if name.isupper()}


def tables() -> str:
    """The schema as two Markdown tables."""
    lines = [
        "| log | row | its key | holds | written by core/ | goes |",
        "|---|---|---|---|---|---|",
    ]
    for log in LOGS:
        lines.append(f"| **`{log.name}`** | | | {log.facts} | | {log.goes} |")
        for row in log.rows:
            key = "" if row.key == ONLY else row.key
            lines.append(f"| | `{row.kind}` | {key} | {row.holds} | {row.writer} | {row.goes} |")
    lines += ["", "| counters | of |", "|---|---|"]
    lines += [f"| `{name}` | {of} |" for name, of in COUNTERS.items()]
    return "\n".join(lines) + "\n"


def test_the_page_on_engines_shows_the_schema() -> None:
    _, _, rest = ENGINES.read_text().partition(BEGIN)

    shown, _, _ = rest.partition(END)

    assert shown.strip() == tables().strip(), f"put this into docs/engines.md:\n{tables()}"


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.writer not in (BEFORE, ENGINE)], ids=str
)
def test_a_row_is_written_by_the_file_that_is_named(row: schema.Rows) -> None:
    text = (CORE / f"{row.writer}.py").read_text()

    assert f"Kind.{KINDS[row.kind]}" in text


def test_every_kind_of_row_is_in_some_log() -> None:
    assert {row.kind for row in ROWS} == set(KINDS)


def test_a_store_in_use_holds_nothing_but_what_the_schema_names() -> None:
    clock = Clock()
    relay = owner(clock)
    key = relay.new_key(tenant="acme")
    for each in (relay, as_seen_by(relay, key.key)):
        use(each, key)
    task = relay.transport.ask(BeginTask("task")).thread_id
    relay.transport.ask(PutHook(task, "h1", {"url": "x"}))
    relay.transport.ask(PutSent(task, Sent(thread=task, after=1, key=None)))
    stores = stores_of(relay)
    relay.transport.ask(PutSession("one", {}, {"b1": b"{}"}, ttl_s=60))
    relay.savings()  # Cached outlines are written before this is answered.
    found = kinds_in(stores.ledger)
    for _ in range(3):
        clock.pass_ms(2 * DAY_MS)
        relay.sweep()
        found |= kinds_in(stores.ledger)

    named = {(log.name, row.kind) for log in LOGS for row in log.rows}
    assert found <= named
    # Left out: what is there only for a moment, after a crash, for large contents or elsewhere.
    assert {kind for _, kind in named - found} <= {
        *(
            RowKind.CLOSED,
            RowKind.IDLE,
            RowKind.LINES,
            RowKind.LOCK,
            RowKind.ONCE,
            RowKind.PENDING,
            RowKind.READ,
        ),
        *(RowKind.CURSOR, RowKind.FINISHED),
        *(
            RowKind.BLOBS,
            RowKind.BUCKET,
            RowKind.SHOWN,
            RowKind.SNAPSHOT,
            RowKind.UNFINISHED,
            RowKind.USED,
        ),
    }


def use(relay: Relay, key: IssuedKey) -> None:
    """Do something of everything."""
    things = fill(relay, key)
    thread = relay.new_thread("work")
    thread.checkpoint("here")
    thread.patch([fact("fact", "one", id="f1")])
    relay.once("push").push("once", channel="news", source_refs=(things.ref,))
    relay.once("publish").publish("news", "hello")
    relay.invoke("retrieval.search", {"query": "dawn"})
    relay.accept(things.handoff, by="scout")
    relay.outline(things.ref)
    relay.slice(things.ref, lines="1:2")
    relay.remove(relay.push("soon gone").ref)
    relay.new_thread("gone").remove()
    run = relay.transport.ask(BeginPipeline(name="run"), b"{}").thread_id
    relay.transport.ask(FinishStep(thread=run, step="plan"))
    with pytest.raises(RelayError):
        relay.peek("00000000-0000-4000-8000-000000000000")


def kinds_in(ledger: Ledger) -> set[tuple[str, str]]:
    """Which kinds of rows are in which kinds of logs."""
    return {
        (name_of(split_log(log)[1]), kind)
        for log in walk_logs(ledger, "")
        for kind in ledger.kinds(log)
    }


def name_of(log: str) -> str:
    """The schema's name for a log: that of the longest prefix."""
    names = {each.name.partition("<")[0]: each.name for each in LOGS}
    return names[max((prefix for prefix in names if log.startswith(prefix)), key=len)]


if __name__ == "__main__":
    print(tables())
