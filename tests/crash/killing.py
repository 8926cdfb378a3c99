"""Killing: writers of one store are killed at random moments, and the store is asked what is left.

Rule: a round ends with a look by a process that was never killed: everything acknowledged is
there, verify finds nothing, and after a sweep two hours later no blob is left without an owner.
"""

from __future__ import annotations

import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from msgspec import Struct, field
from msgspec.json import encode

from contextrelay import Relay
from contextrelay.core.answer import answer
from contextrelay.core.artifacts.bodies import location_of
from contextrelay.core.schema import SWEEP, walk_logs
from contextrelay.core.stores import Stores, clock_ms
from contextrelay.verbs import Sweep
from tests.crash.report import Lost, Mine, decode
from tests.crash.witness import Witness, check_verified

ROOT = Path(__file__).parents[2]

# A store is used over this many rounds: state gathers, and a look at it stays quick.
ROUNDS_A_STORE = 50
WRITERS = (1, 1, 1, 2, 3)
ACTS_MAX = 40
WAIT_S_MAX = 60
HOUR_MS = 3_600_000


class Tally(Struct):
    """What the rounds came to."""

    rounds: int = 0
    kills: int = 0
    acknowledged: int = 0
    mended: int = 0
    bodies: Counter[str] = field(default_factory=Counter[str])
    """Acknowledged bodies, by class."""


def fast_folder() -> Path | None:
    """A file system in memory, where there is one: a kill does not care, and more rounds fit in."""
    shm = Path("/dev/shm")
    return shm if shm.is_dir() else None


def kill_rounds(count: int, seed: int, report: Callable[[str], None] = lambda line: None) -> Tally:
    """Do so many rounds.

    Raises:
        Lost: in some round; the message has the seed and the round.
    """
    tally = Tally()
    chance = Random(seed)
    for first in range(0, count, ROUNDS_A_STORE):
        home = Path(tempfile.mkdtemp(prefix="relay-kill-", dir=fast_folder()))
        rounds = min(ROUNDS_A_STORE, count - first)
        try:
            _one_store(home / "store", rounds, chance, tally)
        except Lost as lost:
            raise Lost(f"seed {seed}, round {tally.rounds}, {home}: {lost}") from lost
        shutil.rmtree(home)
        report(
            f"{tally.rounds} rounds, {tally.kills} kills, {tally.acknowledged} acknowledged,"
            f" {tally.mended} leftovers mended"
        )
    return tally


def _one_store(folder: Path, rounds: int, chance: Random, tally: Tally) -> None:
    witness = Witness()
    following = _start(folder, chance)
    for number in range(rounds):
        writers, following = following, []
        try:
            tally.acknowledged += _let_write(writers, witness, chance)
            tally.kills += len(writers)
            if number + 1 < rounds:
                following = _start(folder, chance)  # Its interpreters start while we look.
            tally.mended += _look(folder, witness, is_repairing=chance.random() < 0.5)
        except BaseException:
            for writer in (*writers, *following):
                writer.kill()
            raise
        tally.rounds += 1
    tally.bodies += witness.bodies


class _Writer:
    """One writer process."""

    def __init__(self, folder: Path, seed: int, number: int) -> None:
        self.number = number
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.writer", str(folder), str(seed)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin = self._process.stdin
        self.stdout = self._process.stdout
        self._rest = b""

    def go(self, mine: Mine) -> None:
        self._stdin.write(encode(mine) + b"\n")

    def hear(self, witness: Witness) -> int:
        """Take down what has come; how many verbs were acknowledged, or -1 at the end."""
        read = self.stdout.read(65_536)
        if not read:
            return -1
        lines = (self._rest + read).split(b"\n")
        self._rest = lines.pop()
        entries = [decode(line) for line in lines]
        for each in entries:
            witness.hear(each, self.number)
        return sum(each.is_done for each in entries)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(WAIT_S_MAX)
        self._stdin.close()

    def bury(self, witness: Witness) -> int:
        """Kill it, and take down its last entries."""
        self.kill()
        heard = 0
        while (more := self.hear(witness)) >= 0:
            heard += more
        self.stdout.close()
        if self._process.returncode != -signal.SIGKILL:
            raise Lost(f"a writer ended by itself with status {self._process.returncode}")
        return heard


def _start(folder: Path, chance: Random) -> list[_Writer]:
    count = chance.choice(WRITERS)
    return [_Writer(folder, chance.getrandbits(32), number) for number in range(count)]


def _let_write(writers: list[_Writer], witness: Witness, chance: Random) -> int:
    """Let the writers go, kill one after the other; how many verbs were acknowledged.

    Those that are left have to get on: the dead must not keep a lock.
    """
    lasting = sorted(
        ref
        for ref, kept in witness.kept.items()
        if _is_lasting(kept.expires_ms) and ref not in witness.threads.put_into
    )
    threads = sorted(thread for thread, kept in witness.threads.kept.items() if not kept.is_closed)
    acknowledged = 0
    with selectors.DefaultSelector() as selector:
        for writer in writers:
            selector.register(writer.stdout, selectors.EVENT_READ, writer)
            mine = slice(writer.number, None, len(writers))
            writer.go(Mine(lasting[mine], threads[mine]))
        for writer in writers:
            acknowledged += _hear_some(selector, witness, chance.randrange(ACTS_MAX))
            # A little longer, so that death comes anywhere in a verb and not behind one.
            _hear_for(selector, witness, chance.random() * 0.004)
            selector.unregister(writer.stdout)
            acknowledged += writer.bury(witness)
    return acknowledged


def _is_lasting(expires_ms: int | None) -> bool:
    return expires_ms is None or expires_ms > clock_ms() + HOUR_MS


def _hear_some(selector: selectors.BaseSelector, witness: Witness, count: int) -> int:
    heard = 0
    while heard < count:
        ready = selector.select(WAIT_S_MAX)
        if not ready:
            raise Lost(f"no writer got anything done in {WAIT_S_MAX} s")
        for key, _ in ready:
            more = key.data.hear(witness)
            if more < 0:
                raise Lost("a writer ended by itself")
            heard += more
    return heard


def _hear_for(selector: selectors.BaseSelector, witness: Witness, seconds: float) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        for key, _ in selector.select(left):
            if key.data.hear(witness) < 0:
                raise Lost("a writer ended by itself")


def _look(folder: Path, witness: Witness, is_repairing: bool) -> int:
    """Compare the store with what was acknowledged; mend it, and compare again."""
    with Relay(folder) as relay:
        witness.check(relay, clock_ms)
        check_verified(relay)
        if not is_repairing:
            return 0
        stores = relay.transport.stores
        # The last mending was ahead of its time; what was left over since lies behind its cursor.
        stores.ledger.drop(SWEEP, expect=stores.ledger.last(SWEEP))
        later = Stores(stores.engine, stores.settings, now_ms=lambda: clock_ms() + 2 * HOUR_MS)
        report = answer(later, Sweep())
    with Relay(folder) as relay:  # Opened again: nothing is answered from what was read before.
        witness.check(relay, later.now_ms, is_repaired=True)
        check_verified(relay)
        check_blobs(relay.transport.stores)
        return report.mended


def check_blobs(stores: Stores) -> None:
    """There are the blobs that a body points to, and no others, and no drafts."""
    ledger = stores.ledger
    found_at = [location_of(ledger, log.removeprefix("b/")) for log in walk_logs(ledger, "b/")]
    wanted = {at.blob: at.size_bytes for at in found_at if at is not None and at.blob is not None}
    found = {blob.name: blob.size_bytes for blob in stores.blobs.walk()}
    if found != wanted:
        raise Lost(f"blobs without an owner: {found.keys() - wanted}; missing: {wanted}, {found}")
    assert stores.engine.home is not None
    if drafts := list((stores.engine.home / "blobs").glob("**/*.draft")):
        raise Lost(f"drafts were left: {drafts}")
