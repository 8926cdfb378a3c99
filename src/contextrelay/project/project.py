"""A project: its four files, read and changed together.

    from contextrelay.project import Project

    project = Project.find()
    print(project.brief().text)
    todo = project.todos.add("Write the tests", priority="high")
    project.finish(current_task="Review", completed=["Login endpoint"])

Rule: the files are the source of truth. Every method reads them again, and writes all of its
changes or none. It then updates the project's thread, if there is one. If this update fails, there
is only a warning.

`brief` runs at every start of an agent, so modules that other methods need are imported in these
methods.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from contextrelay.errors import Broken, Failed, Invalid, NotFound, Refused, RelayError, TooLarge
from contextrelay.identity import agent_name, user_name
from contextrelay.limits import BRIEF_TOKENS_DEFAULT
from contextrelay.model.project import (
    DECISIONS,
    FILES,
    OWN_FOLDER,
    STATE,
    TODOS,
    Clash,
    Decision,
    Finished,
    ProjectTexts,
    Secret,
)
from contextrelay.project import confined, files
from contextrelay.project.brief import (
    Age,
    Briefing,
    ProjectSummary,
    brief_for_model,
    new_briefing,
    summarize,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from subprocess import CompletedProcess

    from contextrelay.project.changes import NewDecision
    from contextrelay.project.state_file import ProjectTasks
    from contextrelay.project.thread_link import Link
    from contextrelay.project.todos import TodoList, Todos

Result = TypeVar("Result")
_GIT_S_MAX = 60


class ProjectDraft:
    """The files during a change. A document is parsed at its first use, and encoded at the end."""

    def __init__(self, texts: ProjectTexts, now: str) -> None:
        self._texts = texts
        self._now = now
        self._documents: dict[str, dict[str, Any]] = {}

    @property
    def state(self) -> dict[str, Any]:
        """The document of state.json, which the caller may change."""
        return self._document(STATE)

    @property
    def todos(self) -> TodoList:
        """The document of todos.json, which the caller may change."""
        from contextrelay.project.todos import TodoList

        return TodoList(self._document(TODOS), self._now)

    def decide(self, new: NewDecision) -> str:
        """Append a decision to decisions.md, and return the id of the decision."""
        from contextrelay.project.decisions import append_decision

        text, id = append_decision(self._texts.decisions, new, self._now[:10])
        self._texts = self._texts.having(DECISIONS, text)
        return id

    def texts(self) -> ProjectTexts:
        """Return the texts of the files with the changes."""
        from contextrelay.project.documents import dump_document

        texts = self._texts
        for name, document in self._documents.items():
            texts = texts.having(name, dump_document(document, texts.of(name)))
        return texts

    def _document(self, name: str) -> dict[str, Any]:
        from contextrelay.project.documents import load_document, new_state, new_todos

        if name not in self._documents:
            text, new = self._texts.of(name), new_state if name == STATE else new_todos
            self._documents[name] = new(self._now) if text is None else load_document(text, name)
        return self._documents[name]


class Project:
    """A project on disk. `link` is its thread, `by` the name of the writer. With `is_strict`,
    secrets are refused.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        link: Link | None = None,
        by: str = "",
        is_strict: bool = False,
        now: Callable[[], str] | None = None,
    ) -> None:
        self.folder = Path(folder).absolute()
        self.by = by or agent_name(None) or user_name()
        self.link = link
        self.now = now or _local_time
        self.warnings: list[str] = []
        """The warnings of all calls so far."""
        self._is_strict = is_strict

    @classmethod
    def find(cls, start: str | os.PathLike[str] | None = None, **options: Any) -> Project:
        """Return the project of a folder, or else of the current folder.

        Raises:
            NotFound: there is no project.
        """
        return cls(files.find_folder(start), **options)

    @property
    def own_folder(self) -> Path:
        """The folder that contains the lock, the journal and the copies."""
        return self.folder / OWN_FOLDER

    @property
    def todos(self) -> Todos:
        """The todos."""
        from contextrelay.project.todos import Todos

        return Todos(self)

    @property
    def tasks(self) -> ProjectTasks:
        """The tasks for sub-agents."""
        from contextrelay.project.state_file import ProjectTasks

        return ProjectTasks(self)

    def texts(self) -> ProjectTexts:
        """Return the texts of the four files. Raise Broken if one of them is unreadable."""
        return files.read_all(self.folder)

    def summary(self) -> ProjectSummary:
        """Return the values of the files that a brief may show."""
        return summarize(self.texts(), self.folder.name)

    def brief(self, budget_tokens: int = BRIEF_TOKENS_DEFAULT, age: Age | None = None) -> Briefing:
        """Return the brief for a model, or with `age`, which formats times, for a person.

        Raises:
            Broken: a file is invalid; the error names the position.
            Invalid: the budget is too small.
        """
        texts = self.texts()
        if age is None:
            made = brief_for_model(self.folder, texts, budget_tokens)
        else:
            made = new_briefing(self.folder, texts, budget_tokens, age)
        try:
            files.keep_seen(self.folder, made.since, texts.state)
        except Refused as error:
            self.warnings.append(f"{error.message}; {error.hint}")
        self._update_thread(made.name)
        return made

    def finish(self, *, since: str = "", **fields: Any) -> Finished:
        """Write the results of a piece of work: all changes or none.

        `fields` may be phase, current_task, completed, in_progress, blocked, next_steps, notes,
        session_id, fields (others by name), todos ({"add": [...], "start": [...], "done": [...],
        "block": [...], "unblock": [...], "cancel": [...]}) and decisions (titles, or objects with
        the arguments of `decide`). With `since`, the stamp of a brief, later changes by others are
        merged.

        Raises:
            Invalid: a field is unknown or invalid.
            Refused: a todo does not allow the transition, or there is a secret and `is_strict`.
        """
        from contextrelay.project.changes import NewDecision, ProjectChanges, read_input
        from contextrelay.project.documents import load_document
        from contextrelay.project.state_file import merge_progress, update_progress

        changes = read_input(fields, ProjectChanges, "changes")
        seen = files.read_seen(self.folder, since) if since else None

        def make(draft: ProjectDraft) -> Finished:
            todos = changes.todos
            added, unblocked = draft.todos.apply(todos) if todos else ([], [])
            given = [NewDecision(e) if isinstance(e, str) else e for e in changes.decisions or ()]
            decided = [draft.decide(new) for new in given]
            clashes: list[Clash] = []
            if seen is None:
                update_progress(draft.state, changes, self.now())
            else:
                base = load_document(seen, STATE)
                clashes = merge_progress(draft.state, base, changes, self.now())
            return Finished([], added, decided, unblocked, clashes)

        done, names = self._change(make)
        return done._replace(files=names)

    def decide(self, title: str, *, supersedes: Sequence[str] = (), **parts: str) -> str:
        """Append a decision and return its id. `parts` may be status, context, decision and
        consequences.

        Raises:
            NotFound: a superseded decision does not exist.
        """
        from contextrelay.project.changes import NewDecision, read_input

        given = {"title": title, "supersedes": supersedes, **parts}
        new = read_input(given, NewDecision, "decision")
        return self.change(lambda draft: draft.decide(new))

    def decisions(self) -> list[Decision]:
        """Return every decision, oldest first."""
        from contextrelay.project.decisions import read_decisions

        return read_decisions(self.texts().decisions or "")

    def note(self, text: str) -> None:
        """Add a line to the notes in state.json."""
        if not text.strip():
            raise Invalid("the note is empty", 'relay project note "what to remember"')

        def note(draft: ProjectDraft) -> None:
            old = draft.state.get("notes")
            notes = f"{old}\n{text}" if isinstance(old, str) and old else text
            draft.state.update(notes=notes, last_update=self.now())

        self.change(note)

    def restore(self, version: int | None) -> list[str]:
        """Write the files as they are in a version of the thread. Return the names that changed.

        Overwritten files are backed up. Newer decisions are kept.

        Raises:
            NotFound: there is no thread, or no such version.
        """
        from contextrelay.project.thread_link import PREFIX, restore_texts

        if self.link is None:
            hint = "open the project with its thread: Project.find(link=link_at(...))"
            raise Invalid("this project has no thread", hint)
        facts = self.link.facts(version)
        if not any(key.startswith(PREFIX) for key in facts):
            problem = f"version {version} of the thread has no facts of this project"
            raise NotFound(problem, f"list the versions: relay state log {self.link.thread_id}")
        files.back_up(self.folder, FILES, self.now())
        return self.write(lambda texts: restore_texts(facts, texts))

    def change(self, make: Callable[[ProjectDraft], Result]) -> Result:
        """Change the files with a function, which may be called again, and return its result."""
        return self._change(make)[0]

    def _change(self, make: Callable[[ProjectDraft], Result]) -> tuple[Result, list[str]]:
        results: list[Result] = []

        def write(texts: ProjectTexts) -> ProjectTexts:
            draft = ProjectDraft(texts, self.now())
            results[:] = [make(draft)]
            return draft.texts()

        names = self.write(write)
        return results[0], names

    def write(self, make: Callable[[ProjectTexts], ProjectTexts]) -> list[str]:
        """Change the texts with a function, check for secrets, and return the changed names."""
        from contextrelay.project.check import describe_secret, find_secrets

        found: list[Secret] = []

        def checked(before: ProjectTexts) -> ProjectTexts:
            after = make(before)
            found.clear()
            for name, text in after.named().items():
                if text is not None and text != before.of(name):
                    found.extend(find_secrets(name, text, before.of(name) or ""))
            if found and self._is_strict:
                raise Refused(describe_secret(found[0]), "nothing was written; remove the secret")
            return after

        before, after = files.change_texts(self.folder, checked)
        self.warnings += [describe_secret(each) for each in found]
        names = [name for name, text in after.named().items() if text != before.of(name)]
        if names:
            from contextrelay.project.decisions import read_about

            self._update_thread(read_about(after.about or "", self.folder.name).name)
        return names

    def _update_thread(self, name: str) -> None:
        try:
            if self.link is not None:
                self.link.update(self.texts, name, self.by)
        except (RelayError, OSError) as error:
            message = error.message if isinstance(error, RelayError) else str(error)
            self.warnings.append(f"the files are written, but the thread is not updated: {message}")


class InitResult(NamedTuple):
    """The result of `init_project`."""

    folder: str
    made: list[str]
    kept: list[str]
    backup: str
    """The folder with copies of overwritten files, or ""."""


def init_project(
    project: Project, name: str = "", description: str = "", is_forced: bool = False
) -> InitResult:
    """Create the missing files of a project. With `is_forced`, back up and overwrite all four.

    Raises:
        Invalid: the files cannot be written there.
    """
    from contextrelay.project.documents import new_texts

    folder = project.folder
    if not confined.is_folder(folder):
        raise Invalid(f"{folder} is not a folder", "create the folder first")
    if "\n" in name or "\n" in description:
        raise Invalid("name and description must be one line", "write the rest into PROJECT.md")
    present = [each for each in FILES if confined.exists(folder, each)]
    backup = files.back_up(folder, present, project.now()) if is_forced and present else ""
    for each in present if is_forced else ():
        try:
            confined.read_text(folder, each)
        except (Broken, TooLarge):
            # The file cannot be read, so it cannot be merged, but there is a backup of it.
            confined.remove(folder, each)
    new = new_texts(name or folder.name, project.now(), description)

    def write(texts: ProjectTexts) -> ProjectTexts:
        both = zip(texts, new, strict=True)
        return ProjectTexts(*[made if is_forced or old is None else old for old, made in both])

    project.write(write)
    made = [each for each in FILES if is_forced or each not in present]
    return InitResult(str(folder), made, [] if is_forced else present, str(backup))


def commit_files(folder: Path, message: str) -> str:
    """Commit the four files, and return the short id of the commit, or "" if nothing changed.

    Other staged files stay staged. git runs what the user's own `git commit` would run there, such
    as hooks, and no other program.

    Raises:
        Invalid: git or a repository is missing; Failed: git fails.
    """
    names = [name for name in FILES if confined.exists(folder, name)]
    if _git(folder, "rev-parse", "--is-inside-work-tree").returncode:
        hint = "run git init, or omit --commit"
        raise Invalid(f"{folder} is not in a git repository; the files are written", hint)
    _check_git(_git(folder, "add", "--", *names))
    if not _git(folder, "status", "--porcelain", "--", *names).stdout.strip():
        return ""
    _check_git(_git(folder, "commit", "--quiet", "--only", "-m", message, "--", *names))
    return _git(folder, "rev-parse", "--short", "HEAD").stdout.strip()


def _git(folder: Path, *words: str) -> CompletedProcess[str]:
    import subprocess

    # A clone may contain a folder that looks like a bare repository, whose settings name any
    # program.
    command = ["git", "-c", "safe.bareRepository=explicit", "-C", str(folder), *words]
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_GIT_S_MAX,
        )
    except FileNotFoundError as error:
        hint = "install git, or omit --commit"
        raise Invalid("git is not installed; the files are written", hint) from error
    except subprocess.TimeoutExpired as error:
        hint = "check what git waits for, for example a hook"
        raise Failed(f"git {words[0]} took over {_GIT_S_MAX} s", hint) from error


def _check_git(done: CompletedProcess[str]) -> None:
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        reason = lines[0] if lines else f"exit {done.returncode}"
        raise Failed(f"git failed: {reason}", "the files are written; commit them by hand")


def _local_time() -> str:
    from datetime import datetime

    return datetime.now().astimezone().isoformat(timespec="seconds")
