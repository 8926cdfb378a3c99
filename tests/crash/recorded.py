"""A writer to be recorded: a seeded mix of verbs on one store, closed and opened again in between.

    python -m tests.crash.recorded FOLDER SEED KIND

KIND is `safe`, or one of the unsafe ones that prove that the rig would notice.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from pathlib import Path

from contextrelay import Relay
from contextrelay.client.transport.local import Local
from contextrelay.core.stores import Stores
from contextrelay.store.blobs.files import FileBlobs
from contextrelay.store.durable_files import Reserve
from contextrelay.store.engine import DATABASE_NAME, Engine
from contextrelay.store.ledger.sqlite import SqliteLedger, connect
from tests.crash.acts import Acts
from tests.crash.report import Mine
from tests.crash.writer import report

SESSIONS = 3
ACTS_A_SESSION = 35
# SQLite copies the log into the database every 1,000 pages; oftener here, so that it is recorded.
CHECKPOINT_PAGES = 100

UNSAFE_KINDS = ("ledger-off", "ledger-normal", "files-unsynced", "folders-unsynced")


def main(folder: Path, seed: int, kind: str) -> None:
    _break_syncs(kind)
    mine = Mine([], [])
    for session in range(SESSIONS):
        with _opened(folder, kind) as relay:
            acts = Acts(relay, seed * SESSIONS + session, report, mine)
            for _ in range(ACTS_A_SESSION):
                acts.one()


def _opened(folder: Path, kind: str) -> Relay:
    def connect_so(path: Path) -> sqlite3.Connection:
        connection = connect(path)
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        if kind in ("ledger-off", "ledger-normal"):
            connection.execute(f"PRAGMA synchronous = {kind.removeprefix('ledger-')}")
        return connection

    relay = Relay("memory:")
    ledger = SqliteLedger(folder / DATABASE_NAME, connect=connect_so)
    engine = Engine(
        str(folder), ledger, FileBlobs(folder / "blobs"), Reserve(folder / "reserve"), folder
    )
    relay.transport = Local(Stores(engine))
    return relay


def _break_syncs(kind: str) -> None:
    """Take the syncs out of Python's side; SQLite's own are not touched by this."""
    really = os.fsync

    def only_files(handle: int) -> None:
        if not os.path.isdir(f"/proc/self/fd/{handle}"):
            really(handle)

    def only_folders(handle: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{handle}"):
            really(handle)

    if kind == "files-unsynced":
        os.fsync = only_folders
    elif kind == "folders-unsynced":
        os.fsync = only_files


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
