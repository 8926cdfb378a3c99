"""The four files on disk: found, decoded, locked, and changed together.

A change is first written to a journal. When the journal is complete, the files are replaced one
after the other. After a crash, the next reader or writer completes the changes in the journal. A
file is exchanged with its draft in one step, and the old file is then compared with what was read
before. An edit that a user saved in between is merged.

Rule: no saved edit is lost. If an edit cannot be merged, both versions are kept, and an error names
their paths.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from contextrelay.errors import (
    Broken,
    Conflict,
    Invalid,
    NotFound,
    Refused,
    RelayError,
    TooLarge,
    Unavailable,
)
from contextrelay.limits import MIB, PROJECT_FILE_BYTES_MAX, UNFINISHED_PUSH_S
from contextrelay.model.project import FILES, OWN_FOLDER, ProjectTexts
from contextrelay.project import confined

try:
    import fcntl
except ImportError:  # Windows has no flock, so writers do not wait for each other there.
    fcntl = None

# The journal contains each of the four files before and after the change, with escaped quotes and
# line ends.
PROJECT_JOURNAL_BYTES_MAX = 16 * PROJECT_FILE_BYTES_MAX
PROJECT_COPY_BYTES_MAX = 64 * MIB
PROJECT_LEVELS_MAX = 64
# The maximum number of times that a change is made again because a user saved a file in between.
PROJECT_RETRIES_MAX = 20
PROJECT_LOCK_S_MAX = 30
# The number of copies of state.json that are kept: those that an agent saw at `start`, for merging
# at `finish`, and backups of files that were overwritten on request.
PROJECT_SEEN_MAX = 50
PROJECT_BACKUPS_MAX = 20
VARIABLE = "RELAY_PROJECT"
_JOURNAL = f"{OWN_FOLDER}/journal.json"
_SEEN, _BACKUPS = f"{OWN_FOLDER}/seen", f"{OWN_FOLDER}/backups"
_DRAFT = r"(.+?)\.[0-9a-f]{16}\.part(?:\.former|\.new)?"
_POLL_S = 0.002


def find_folder(start: str | os.PathLike[str] | None = None) -> Path:
    """Return the project folder at or above `start`, RELAY_PROJECT or the current folder.

    Raises:
        NotFound: neither the folder nor a folder above is a project; Invalid: it is not a folder.
    """
    named = os.fspath(start) if start is not None else os.environ.get(VARIABLE, "")
    here = Path(named).expanduser().absolute() if named else Path.cwd()
    if named and not confined.is_folder(here):
        raise Invalid(f"{named} is not a folder", "name the folder of a project")
    for folder in (here, *here.parents)[:PROJECT_LEVELS_MAX]:
        present = confined.count_present(folder, *FILES)
        if present >= 2 or (present and confined.count_present(folder, OWN_FOLDER)):
            return folder
    problem = f"no project in {here} or the folders above it"
    raise NotFound(problem, "create one: relay project init")


def read_texts(folder: Path) -> ProjectTexts:
    """Return the texts of the four files as they are now."""
    return ProjectTexts(*[confined.read_text(folder, name) for name in FILES])


def stamp_of(texts: ProjectTexts) -> str:
    """Return a short hash of the files, the stamp of a brief."""
    digest = sha256()
    for name, text in texts.named().items():
        content = b"" if text is None else text.encode()
        digest.update(f"{name} {-1 if text is None else len(content)}\n".encode() + content)
    return digest.hexdigest()[:12]


def make_own_folder(folder: Path) -> None:
    """Create the folder .relay-project with its .gitignore if it does not exist."""
    try:
        confined.make_folder(folder, OWN_FOLDER)
        if not confined.exists(folder, f"{OWN_FOLDER}/.gitignore"):
            with suppress(FileExistsError):
                confined.create(folder, f"{OWN_FOLDER}/.gitignore", b"*\n", is_durable=False)
    except OSError as error:
        raise confined.cannot_write(folder, error) from error


@contextmanager
def locked(folder: Path, name: str = "lock", wait_s: float = PROJECT_LOCK_S_MAX) -> Generator[None]:
    """Hold a lock of the project. The system releases the lock when the process ends.

    Raises:
        Unavailable: another process holds the lock for longer than `wait_s` seconds.
    """
    make_own_folder(folder)
    paths = (f"{OWN_FOLDER}/{name}.gate", f"{OWN_FOLDER}/{name}")
    with ExitStack() as stack:
        try:
            files = [confined.open_file(folder, path, os.O_RDWR | os.O_CREAT) for path in paths]
            gate, handle = map(stack.enter_context, files)
        except OSError as error:
            raise confined.cannot_write(folder / paths[1], error) from error
        # Processes wait in a queue at the gate, so that a writer cannot overtake them with its next
        # change.
        _lock(gate, wait_s)
        _lock(handle, wait_s)
        if fcntl is not None:
            fcntl.flock(gate, fcntl.LOCK_UN)
        yield


def _lock(handle: int, wait_s: float = PROJECT_LOCK_S_MAX, is_shared: bool = False) -> None:
    deadline = time.monotonic() + wait_s
    while fcntl is not None:
        try:
            fcntl.flock(handle, (fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                problem = f"another process has locked this project for over {wait_s:g} s"
                hint = "wait for that process or stop it, then try again"
                raise Unavailable(problem, hint) from None
            time.sleep(_POLL_S)
        except OSError as error:
            problem = f"this file system does not support locks: {error.strerror}"
            raise Broken(problem, "move the project to another file system") from error


def read_all(folder: Path) -> ProjectTexts:
    """Return the files in one consistent state. Complete the change of a process that died.

    Raises:
        Broken: one of the files is unreadable.
    """
    with ExitStack() as stack:
        # If there is no lock file, there has been no writer.
        with suppress(OSError):
            lock = confined.open_file(folder, f"{OWN_FOLDER}/lock")
            _lock(stack.enter_context(lock), is_shared=True)
        if not confined.exists(folder, _JOURNAL):
            return read_texts(folder)
    try:
        with locked(folder):
            _finish_journal(folder)
            return read_texts(folder)
    except Invalid:
        # The folder is read-only, so return what the journal would write.
        texts = read_texts(folder)
        for name, (before, after) in _read_journal(folder).items():
            if texts.of(name) == before:
                texts = texts.having(name, after)
        return texts


def change_texts(
    folder: Path, make: Callable[[ProjectTexts], ProjectTexts]
) -> tuple[ProjectTexts, ProjectTexts]:
    """Change the files to the result of `make`: all changes or none. Return them before and after.

    If a user saves a file in between, `make` is called again.

    Raises:
        Broken: a file is unreadable; Unavailable: the files keep changing. Nothing was changed.
    """
    with locked(folder):
        _finish_journal(folder)
        for _ in range(PROJECT_RETRIES_MAX):
            before = read_texts(folder)
            after = make(before)
            changes: dict[str, dict[str, str | None]] = {}
            for name, new in after.named().items():
                if new is not None and new != before.of(name):
                    confined.check_size(_size_bytes(new, name), name)
                    changes[name] = {"before": before.of(name), "after": new}
            if not changes:
                return before, before
            if read_texts(folder) != before:
                continue
            # Once the journal exists, the change will be made, so check before that it can be made.
            if not confined.is_writable(folder):
                raise confined.cannot_write(folder, PermissionError(13, "Permission denied"))
            content = json.dumps({"files": changes}, ensure_ascii=False).encode()
            confined.check_size(len(content), _JOURNAL, PROJECT_JOURNAL_BYTES_MAX)
            confined.write(folder, _JOURNAL, content)
            _finish_journal(folder)
            _discard_old_drafts(folder)
            return before, after
    raise Unavailable("the files keep changing", "try again in a moment")


def _size_bytes(text: str, name: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        problem = f"invalid character for {name}: half a surrogate pair"
        raise Invalid(problem, "remove the character") from error


def _finish_journal(folder: Path) -> None:
    """Make the changes in the journal, if there is one. The caller must hold the lock."""
    left = _read_journal(folder)
    if not left:
        return
    conflict: Conflict | None = None
    for name in FILES:
        if name in left:
            try:
                replace(folder, name, *left[name])
            except Conflict as error:
                # Both versions are kept, so the other files need not wait for the user's choice.
                conflict = error
    confined.remove(folder, _JOURNAL)
    confined.sync(folder, _JOURNAL)
    if conflict is not None:
        raise conflict


def _read_journal(folder: Path) -> dict[str, tuple[str | None, str]]:
    content = confined.read(folder, _JOURNAL, PROJECT_JOURNAL_BYTES_MAX)
    if content is None:
        return {}
    try:
        found: Any = json.loads(content)["files"]
        changes = {name: (found[name]["before"], found[name]["after"]) for name in found}
        # The journal may have come with a clone.
        for name, (before, after) in changes.items():
            is_text = isinstance(before, str | None) and isinstance(after, str)
            if name not in FILES or not is_text:
                raise ValueError(f"unexpected entry {name[:100]!r}")
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        hint = f"check the four files, then remove {_JOURNAL}"
        raise Broken(f"invalid journal {_JOURNAL}: {error}", hint) from error
    return changes


def replace(folder: Path, name: str, before: str | None, after: str) -> None:
    """Replace a file by new text. Edits that were saved since the text was `before` are merged.

    Raises:
        Broken: the file is unreadable, and was not changed.
        Conflict: the edits cannot be merged; both versions are kept, and the error names them.
    """
    disk = confined.read_text(folder, name)
    make_own_folder(folder)
    wanted = after
    if disk not in (None, before, after):
        try:
            wanted = _merge(name, before, after, disk or "")
        except Conflict as error:
            kept = f"{OWN_FOLDER}/{name}.not-written"
            confined.write(folder, kept, after.encode())
            problem = f"{name} was edited during the change and cannot be merged"
            hint = f"your edit is in {name}, the change is in {folder / kept}"
            raise Conflict(problem, f"{hint}; compare the two files") from error
    if disk not in (None, before):
        # A process may have died right after an exchange, so its draft may contain an edit of the
        # user.
        for draft in _drafts_of(folder, name):
            found = None if draft.endswith(".new") else confined.read(folder, draft)
            if found not in (None, (before or "").encode(), after.encode(), wanted.encode()):
                wanted = _merge_late(folder, draft, name, before, wanted)
    for _ in range(PROJECT_RETRIES_MAX):
        if disk == wanted:
            break
        draft = confined.write_draft(folder, name, wanted.encode())
        former = _put(folder, draft, name, is_new=disk is None)
        base, disk = disk, wanted
        if former and _is_changed(folder, former, base):
            wanted = _merge_late(folder, former, name, base, wanted)
    else:
        raise Unavailable(f"{name} keeps changing", "try again in a moment")
    for draft in _drafts_of(folder, name):
        confined.discard(folder, draft)


def _is_changed(folder: Path, path: str, text: str | None) -> bool:
    try:
        return confined.read(folder, path) != (text or "").encode()
    except (Refused, TooLarge):
        return True


def _put(folder: Path, draft: str, name: str, is_new: bool) -> str:
    """Put a draft in the place of a file. Return the path of the old file, or ""."""
    former = ""
    try:
        try:
            if is_new:
                confined.link(folder, draft, name)
            else:
                former = confined.exchange(folder, draft, name)
        except FileExistsError:
            # Another program has just created the file.
            former = confined.exchange(folder, draft, name)
        except FileNotFoundError:
            # Another program has just removed the file. Our text is written anyway.
            confined.move(folder, draft, name)
        confined.sync(folder, name)
    except OSError as error:
        raise confined.cannot_write(folder / name, error) from error
    return former


def _merge_late(folder: Path, draft: str, name: str, base: str | None, ours: str) -> str:
    """Merge an edit that was saved during the exchange, or keep it as a separate file."""
    try:
        return _merge(name, base, ours, confined.decode(confined.read(folder, draft) or b"", name))
    except (Broken, Conflict, Refused, TooLarge) as error:
        # Move the file instead of copying it, because an editor may have it open and still write to
        # it.
        kept = f"{OWN_FOLDER}/{name}.saved-meanwhile"
        try:
            confined.move(folder, draft, kept)
        except OSError as trouble:
            raise confined.cannot_write(folder / kept, trouble) from trouble
        problem = f"{name} was saved during the change and cannot be merged: {error.message}"
        hint = f"the file with your edit is now {folder / kept}; compare it with {name}"
        raise Conflict(problem, hint) from error


def _merge(name: str, base: str | None, ours: str, disk: str) -> str:
    from datetime import UTC, datetime

    from contextrelay.project.documents import merge_texts

    return merge_texts(name, base, ours, disk, datetime.now(UTC).isoformat(timespec="seconds"))


def _drafts_of(folder: Path, name: str) -> list[str]:
    found = [each for each in confined.entries(folder, OWN_FOLDER) if each.is_file]
    matches = ((each, re.fullmatch(_DRAFT, each.name)) for each in found)
    return [f"{OWN_FOLDER}/{each.name}" for each, draft in matches if draft and draft[1] == name]


def _discard_old_drafts(folder: Path) -> None:
    """Remove drafts of processes that were killed long ago."""
    with suppress(RelayError):
        for entry in confined.entries(folder, OWN_FOLDER):
            is_old = entry.modified_s < time.time() - UNFINISHED_PUSH_S
            if is_old and entry.is_file and re.fullmatch(_DRAFT, entry.name):
                confined.discard(folder, f"{OWN_FOLDER}/{entry.name}")


def keep_seen(folder: Path, stamp: str, state: str | None) -> None:
    """Store the state.json that a brief shows, for `finish --since`. Raise Refused at a link."""
    path = f"{_SEEN}/{stamp}.json"
    if state is None or confined.exists(folder, path):
        return
    with suppress(OSError, Invalid):
        make_own_folder(folder)
        confined.make_folder(folder, _SEEN)
        confined.write(folder, path, state.encode(), is_durable=False)
        confined.trim(folder, _SEEN, PROJECT_SEEN_MAX, f"{stamp}.json")


def read_seen(folder: Path, stamp: str) -> str:
    """Return the state.json that an earlier brief showed.

    Raises:
        Invalid: the stamp is malformed; NotFound: the copy no longer exists.
    """
    if not stamp.isalnum():
        raise Invalid(f"invalid stamp {stamp!r}", "copy the stamp from the end of the brief")
    text = confined.read_text(folder, f"{_SEEN}/{stamp}.json")
    if text is None:
        hint = "run relay project start for a new stamp, or leave out --since"
        raise NotFound(f"no copy of the state at {stamp} is left", hint)
    return text


def back_up(folder: Path, names: Iterable[str], now: str) -> Path:
    """Copy files to a new backup folder before they are overwritten, and return the folder."""
    make_own_folder(folder)
    name = now.replace(":", "").replace("+", "_")
    target, number = f"{_BACKUPS}/{name}", 1
    try:
        confined.make_folder(folder, _BACKUPS)
        while confined.exists(folder, target):
            number += 1
            target = f"{_BACKUPS}/{name}-{number}"
        confined.make_folder(folder, target)
        for file in names:
            content = confined.read(folder, file, PROJECT_COPY_BYTES_MAX)
            if content is not None:
                confined.create(folder, f"{target}/{file}", content)
    except OSError as error:
        raise confined.cannot_write(folder / target, error) from error
    confined.trim(folder, _BACKUPS, PROJECT_BACKUPS_MAX, target.rpartition("/")[2])
    return folder / target
