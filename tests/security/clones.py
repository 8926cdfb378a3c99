"""Clones for tests: a project that somebody else made, and the user's files that it aims at."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from contextrelay.errors import RelayError
from contextrelay.model.project import FILES, OWN_FOLDER
from contextrelay.project import Project
from contextrelay.project.files import PROJECT_BACKUPS_MAX, PROJECT_SEEN_MAX
from contextrelay.project.heartbeat import run_heartbeat
from contextrelay.project.project import init_project

SECRET = "the-content-of-a-private-file"
Attack = Callable[["Clone"], None]


class Clone:
    """A project in `folder`, which somebody else wrote, and the user's own files in `home`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "clone"
        self.home = folder / "home"
        self.own = self.folder / OWN_FOLDER
        self.settings = self.home / "settings.json"
        self.private = self.home / "private"
        self.folder.mkdir()
        self.private.mkdir(parents=True)
        self.settings.write_text(json.dumps({"files": {}, "key": SECRET, "briefing": {}}))
        (self.home / "id_rsa").write_text(SECRET)
        for number in range(max(PROJECT_SEEN_MAX, PROJECT_BACKUPS_MAX) + 10):
            path = self.private / f"{number:03d}.txt"
            path.write_text(SECRET)
            os.utime(path, (number, number))
        init_project(Project(self.folder), "clone")
        Project(self.folder).todos.add("A todo")
        Project(self.folder).brief()
        self.before = self.seen()

    def seen(self) -> dict[str, bytes]:
        """Every file of the user, and every file of the clone that could hold a copy of one."""
        return {str(path): path.read_bytes() for path in self.home.rglob("*") if path.is_file()}

    def check(self) -> None:
        """Nothing of the user was written, made, deleted, or copied into the clone."""
        assert self.seen() == self.before
        for path in self.folder.rglob("*"):
            if path.is_file() and not path.is_symlink():
                assert SECRET.encode() not in path.read_bytes(), path

    def put_link(self, name: str, target: Path) -> None:
        path = self.folder / name
        if path.is_dir() and not path.is_symlink():
            for inside in path.iterdir():
                inside.unlink()
            path.rmdir()
        path.unlink(missing_ok=True)
        path.symlink_to(target)


def everything(project: Project) -> list[RelayError]:
    """Do all that can be done to a project; the errors that were raised. Others go through."""
    errors: list[RelayError] = []
    acts: list[Callable[[], object]] = [
        project.brief,
        lambda: project.todos.add("x"),
        lambda: project.note("x"),
        lambda: project.decide("x"),
        lambda: project.finish(current_task="x"),
        lambda: project.finish(since=project.brief().since, current_task="y"),
        lambda: init_project(project, is_forced=True),
        lambda: run_heartbeat(project, "cat"),
        project.texts,
    ]
    for act in acts:
        try:
            act()
        except RelayError as error:
            errors.append(error)
    return errors


def _own_link(name: str, target: str) -> Attack:
    def attack(clone: Clone) -> None:
        clone.put_link(f"{OWN_FOLDER}/{name}", clone.home / target)

    return attack


def _shipped_link_file(clone: Clone) -> None:
    known = {"/any/address": {"hooks": {"run": "a program"}}}
    (clone.own / "link.json").write_text(json.dumps(known))
    clone.put_link(f"{OWN_FOLDER}/link.part", clone.settings)


def _own_folder(clone: Clone) -> None:
    for path in sorted(clone.own.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    clone.own.rmdir()
    clone.own.symlink_to(clone.private)


def _linked_backup(clone: Clone) -> None:
    (clone.own / "backups").mkdir()
    for number in range(PROJECT_BACKUPS_MAX + 5):
        (clone.own / "backups" / f"2020-{number}").symlink_to(clone.private)


def _linked_seen(clone: Clone) -> None:
    for number in range(PROJECT_SEEN_MAX + 5):
        with suppress(FileExistsError):
            (clone.own / "seen" / f"{number:012d}.json").symlink_to(clone.settings)


def _hard_links(clone: Clone) -> None:
    names = [*FILES, *(f"{OWN_FOLDER}/{name}" for name in ("link.json", "brief.json", "link.part"))]
    for name in names:
        (clone.folder / name).unlink(missing_ok=True)
        other = clone.home / f"hard-{Path(name).name}"
        other.write_text('{"todos": []}')
        os.link(other, clone.folder / name)
    clone.before = clone.seen()


def _file_link(name: str) -> Attack:
    return lambda clone: clone.put_link(name, clone.settings)


def _dangling_file_link(name: str) -> Attack:
    return lambda clone: clone.put_link(name, clone.home / "made-by-a-clone")


_OWN_FILES = (
    *("brief.json", "brief.part", "link.json", "link.part", "journal.json", "journal.json.part"),
    *("state.json.part", "state.json.part1", "state.json.saved-meanwhile"),
    *("state.json.not-written", ".gitignore"),
    *("lock", "lock.gate", "link", "link.gate", "heartbeat", "heartbeat.gate"),
)
_OWN_FOLDERS = ("seen", "backups")

LINKS: dict[str, Attack] = {
    "link.json and link.part": _shipped_link_file,
    "the folder of ours": _own_folder,
    "a folder in backups": _linked_backup,
    "a file in seen": _linked_seen,
    "hard links": _hard_links,
    **{f"{name} to a file": _own_link(name, "settings.json") for name in _OWN_FILES},
    **{f"{name} to nothing": _own_link(name, "made-by-a-clone") for name in _OWN_FILES},
    **{f"{name} to a folder": _own_link(name, "private") for name in (*_OWN_FOLDERS, "lock")},
    **{f"{name} to a file": _file_link(name) for name in FILES},
    **{f"{name} to nothing": _dangling_file_link(name) for name in FILES},
}
