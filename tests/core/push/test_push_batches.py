"""Pushes that arrive side by side share a commit, and nothing else."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from contextrelay import Settings
from contextrelay.client.transport.local import Local, open_stores
from contextrelay.core.push.push import push_each
from contextrelay.core.schema import RowKind, body_log
from contextrelay.errors import Broken, Full, Invalid, RelayError, TooLarge
from contextrelay.limits import MIB
from contextrelay.model.artifact import Artifact
from contextrelay.store.ledger import ONLY, Row, Write
from contextrelay.verbs import Pull, Push, Survey, Verify

LARGE = 50_000
PUSH = Push(created_by="tester")


def pulled(core: Local, artifact: Artifact | RelayError) -> bytes:
    assert isinstance(artifact, Artifact), artifact
    return core.ask(Pull(artifact.ref)).whole()


def test_many_bodies_of_all_sizes_are_kept_and_each_gets_its_own_ref(tmp_path: Path) -> None:
    """Promise R9: the same content is kept once."""
    core = Local(open_stores(tmp_path, None))
    bodies = [os.urandom(size) for size in (1, LARGE, 100, LARGE, 3 * LARGE) * 8]
    bodies += bodies[:3]

    made = push_each(core.stores, [(PUSH, body) for body in bodies])

    assert [pulled(core, each) for each in made] == bodies
    assert len({each.ref for each in made if isinstance(each, Artifact)}) == len(bodies)
    assert len(list((tmp_path / "blobs").glob("*-*"))) == 24
    assert core.ask(Verify()).problem_count == 0
    core.close()


def test_a_wrong_one_gets_its_error_and_the_others_are_kept(tmp_path: Path) -> None:
    core = Local(open_stores(tmp_path, Settings(body_bytes_max=2 * LARGE)))
    good = [os.urandom(LARGE) for _ in range(3)]
    asked = [(PUSH, body) for body in good]
    asked += [
        (PUSH, os.urandom(2 * LARGE + 1)),
        (replace(PUSH, media_type="none"), os.urandom(LARGE)),
    ]

    made = push_each(core.stores, asked)

    assert [pulled(core, each) for each in made[:3]] == good
    assert [type(each) for each in made[3:]] == [TooLarge, Invalid]
    assert core.ask(Survey()).bodies == 3
    core.close()


def test_a_damaged_record_of_one_body_fails_only_its_push(tmp_path: Path) -> None:
    """Promise S4. The others are stored, and leave no blob of the first attempt behind."""
    core = Local(open_stores(tmp_path, None))
    damaged = core.ask(Push(), os.urandom(LARGE))
    body = core.ask(Pull(damaged.ref)).whole()
    row = Row(RowKind.AT, ONLY, b"{")
    core.stores.ledger.commit(Write(body_log(damaged.sha256), rows=(row,)))
    good = [b"small", os.urandom(LARGE), os.urandom(2 * MIB)]

    first, *made = push_each(core.stores, [(PUSH, each) for each in (body, *good)])

    assert isinstance(first, Broken)
    assert [pulled(core, each) for each in made] == good
    assert len(list((tmp_path / "blobs").glob("*-*"))) == 3
    core.close()


def test_what_finds_no_room_leaves_no_blob_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk is an error, and costs nothing that was there."""
    core = Local(open_stores(tmp_path, None))
    kept = core.ask(Push(), os.urandom(LARGE))
    real = os.fsync
    synced: list[int] = []

    def fsync(handle: int) -> None:
        """Room for the first few files; the disk is real, that it is full is not."""
        synced.append(handle)
        if len(synced) > 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(handle)

    with monkeypatch.context() as patch:
        patch.setattr("contextrelay.store.blobs.files.os.fsync", fsync)
        made = push_each(core.stores, [(PUSH, os.urandom(LARGE)) for _ in range(20)])

    assert all(isinstance(each, Full) for each in made)
    assert [path.name for path in (tmp_path / "blobs").glob("*-*")] == [
        path.name for path in (tmp_path / "blobs").glob(f"{kept.sha256}-*")
    ]
    assert core.ask(Verify()).problem_count == 0
    core.close()
