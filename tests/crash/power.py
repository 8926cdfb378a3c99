"""Power: a recording is stopped at many points, and each disk that may be left is opened.

Rule: what was acknowledged before the point is there to the byte, and the store can go on.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

from contextrelay import Relay
from contextrelay.client.transport.local import Local
from contextrelay.core.stores import Stores, clock_ms
from tests.crash.disk import EVERYTHING, NOTHING, Call, Disk, Fate, Image, Synced
from tests.crash.killing import fast_folder
from tests.crash.recording import calls_in, record
from tests.crash.report import Entry, Lost
from tests.crash.witness import Witness, check_verified

# Around a sync or an answer most is at stake: points there are that much likelier.
STAKE = 6
STAKE_REACH = 3


class Film:
    """A recording, read once."""

    def __init__(self, root: Path, calls: list[Call | Entry], began_ms: int, ended_ms: int) -> None:
        self.root = root
        self.calls = calls
        self.began_ms = began_ms
        self.ended_ms = ended_ms


def shoot(seed: int, kind: str = "safe") -> Film:
    """Record a writer; only what touched its disk is kept."""
    home = Path(tempfile.mkdtemp(prefix="relay-power-", dir=fast_folder()))
    try:
        root = home / "disk"
        root.mkdir()
        began_ms = clock_ms()
        recording = home / "calls"
        record(["tests.crash.recorded", str(root / "store"), str(seed), kind], recording)
        disk = Disk(str(root))
        calls = [
            call for call in calls_in(recording) if isinstance(call, Entry) or disk.apply(call)
        ]
    finally:
        shutil.rmtree(home)
    return Film(root, calls, began_ms, clock_ms())


def points_in(film: Film, count: int, chance: Random) -> list[int]:
    """Where to stop: after so many calls, in order; some more than once."""
    weights = [1] * len(film.calls)
    for index, call in enumerate(film.calls):
        if isinstance(call, Synced | Entry):
            start = max(0, index - STAKE_REACH)
            stop = min(len(weights), index + STAKE_REACH)
            weights[start:stop] = [STAKE] * (stop - start)
    return sorted(chance.choices(range(1, len(film.calls) + 1), weights, k=count))


def losses_in(film: Film, points: list[int], chance: Random) -> Iterator[str]:
    """Stop a recording at each point and look; what was lost, by point."""
    disk, witness = Disk(str(film.root)), Witness()
    done = 0
    home = Path(tempfile.mkdtemp(prefix="relay-power-", dir=fast_folder()))
    try:
        for number, point in enumerate(points):
            for call in film.calls[done:point]:
                if isinstance(call, Entry):
                    witness.hear(call)
                else:
                    disk.apply(call)
            done = point
            fate = _fate(number, chance)
            folder = home / str(number)
            _build(disk.after_power_loss(fate), folder)
            try:
                _look(film, folder / "store", witness.copy())
            except Exception as error:  # Anything but an answer is a loss.
                kind = f"{fate.survives:.1f} of what is pending survives"
                yield f"after call {point} of {len(film.calls)}, {kind}: {error!r}"
            shutil.rmtree(folder)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _fate(number: int, chance: Random) -> Fate:
    match number % 6:
        case 0:
            return NOTHING
        case 1:
            return EVERYTHING
        case _:
            survives = chance.choice((0.1, 0.5, 0.9))
            return Fate(chance, survives, torn=(1 - survives) / 2)


def _build(image: Image, folder: Path) -> None:
    folder.mkdir()
    for path in image.folders:
        (folder / path).mkdir()
    for path, content in image.files.items():
        # The reserve is but room; the wal-index is rebuilt by SQLite, whatever is in it.
        if not path.endswith(("/reserve", "-shm")):
            (folder / path).write_bytes(content)


def _look(film: Film, store: Path, witness: Witness) -> None:
    """Open what is left, as of the moment of the recording, so that nothing expires meanwhile."""
    with Relay(store) as relay:
        stores = relay.transport.stores
        relay.transport = Local(Stores(stores.engine, now_ms=lambda: film.began_ms))
        witness.check(relay, lambda: film.ended_ms)
        check_verified(relay)
        body = Random(film.began_ms).randbytes(40_000)
        again = relay.push(body, ttl_s=None)
        if relay.pull(again.ref) != body:
            raise Lost("a new push does not come back")
