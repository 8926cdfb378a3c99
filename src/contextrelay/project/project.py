"""A project: its four files, read and changed as one, from any folder below it.

    from contextrelay.project import Project

    project = Project.find()
    print(project.brief().text)
    todo = project.todos.add("Write the tests", priority="high")
    project.finish(current_task="Review", completed=["Login endpoint"])

Rule: files are the truth. Every method reads them again, writes all that it changes or nothing, and
then patches the project's thread, if there is one; where that fails, the files are written anyway.
What only some methods need is imported there: `brief` is called at every start.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from contextrelay.errors import Invalid, NotFound, Refused, RelayError
from contextrelay.limits import BRIEF_TOKENS_DEFAULT
from contextrelay.model.project import (
    DECISIONS,
    FILES,
    OWN_FOLDER,
    STATE,
    TODOS,
    Decision,
    Finished,
    Secret,
    Texts,
)
from contextrelay.project.brief import Briefing, briefing_of, new_briefing
from contextrelay.project.files import backups
from contextrelay.project.files.folder import find_folder
from contextrelay.project.files.journal import change, read_all
from contextrelay.project.thread_link import Link

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextrelay.project.snapshot import Gathered
    from contextrelay.project.tasks import Tasks
    from contextrelay.project.todos import Todos

Make = Callable[[Texts], Texts]


class Project:
    """A project on disk. `link` is its thread, `by` who changes it, `is_strict` refuses secrets."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        link: Link | None = None,
        by: str = "you",
        is_strict: bool = False,
        now: Callable[[], str] | None = None,
    ) -> None:
        self.folder = Path(folder).absolute()
        self.by = by
        self.warnings: list[str] = []
        """Warnings of the calls so far."""
        self.now = now or _local_time
        self._link = link
        self._is_strict = is_strict

    @classmethod
    def find(cls, start: str | os.PathLike[str] | None = None, **options: Any) -> Project:
        """The project that a folder, or the current one, is in; options as for the class.

        Raises:
            NotFound: there is none.
        """
        return cls(find_folder(start), **options)

    @property
    def todos(self) -> Todos:
        from contextrelay.project.todos import Todos

        return Todos(self)

    @property
    def tasks(self) -> Tasks:
        from contextrelay.project.tasks import Tasks

        return Tasks(self)

    @property
    def link(self) -> Link | None:
        return self._link

    def texts(self) -> Texts:
        """The files as they are.

        Raises:
            Broken: one of them cannot be read; the error names it.
        """
        return read_all(self.folder)

    def gathered(self) -> Gathered:
        """What a brief is made of, as values."""
        from contextrelay.project.snapshot import gathered

        return gathered(self.texts(), self.folder.name)

    def brief(
        self,
        budget_tokens: int = BRIEF_TOKENS_DEFAULT,
        age: Callable[[str], str] | None = None,
    ) -> Briefing:
        """The cold-start brief for a model, within a budget; with an `age` that for a person.

        Raises:
            Broken: a file cannot be read; the error names the place.
            Invalid: the budget is too small.
        """
        texts = self.texts()
        if age is None:
            made = briefing_of(self.folder, texts, budget_tokens)
        else:
            made = new_briefing(self.folder, texts, budget_tokens, age)
        try:
            backups.keep(self.folder, made.since, texts.state)
        except Refused as error:
            self.warnings.append(f"{error.message}; {error.hint}")
        self._patch_thread(made.name)
        return made

    def finish(self, *, since: str = "", **fields: Any) -> Finished:
        """End a piece of work: write what changed, all or nothing.

        Takes the fields of `Progress` (phase, current_task, completed, in_progress, blocked,
        next_steps, notes, session_id, fields), `todos` ({"add": [...], "start": [...], "done":
        [...], "block": [...], "cancel": [...]}) and `decisions` (a list of what `decide` takes).
        With `since`, the stamp of a brief, a field that another changed meanwhile is merged.

        Raises:
            Invalid: a field is not known, or not as it must be.
            Refused: a todo may not go there, or there is a secret and `is_strict`.
        """
        from contextrelay.project.finish import Finishing

        seen = backups.kept(self.folder, since) if since else None
        finishing = Finishing(self, fields, seen)
        before, after = self.change(finishing.make)
        changed = [name for name, text in after.named().items() if text != before.of(name)]
        if changed:
            # The next start finds the brief in the cache.
            with suppress(RelayError):
                briefing_of(self.folder, self.texts(), BRIEF_TOKENS_DEFAULT)
        return finishing.finished(changed)

    def decide(self, title: str, *, supersedes: Sequence[str] = (), **parts: str) -> str:
        """Append a decision; its id. The parts are status, context, decision, consequences.

        Raises:
            NotFound: what it supersedes is not there.
        """
        from contextrelay.project.decisions import appended

        made: list[str] = []

        def make(texts: Texts) -> Texts:
            date = self.now()[:10]
            text, id = appended(texts.decisions, title, date, supersedes=supersedes, **parts)
            made[:] = [id]
            return texts.having(DECISIONS, text)

        self.change(make)
        return made[0]

    def decisions(self) -> list[Decision]:
        """Every decision, oldest first."""
        from contextrelay.project.decisions import read_decisions

        return read_decisions(self.texts().decisions or "")

    def note(self, text: str) -> None:
        """Add a line to the notes of state.json."""
        if not text.strip():
            raise Invalid("there is nothing to note", 'relay project note "what to remember"')

        def noted(state: dict[str, Any]) -> dict[str, Any]:
            old = state.get("notes")
            notes = f"{old}\n{text}" if isinstance(old, str) and old else text
            return {**state, "notes": notes, "last_update": self.now()}

        self.change_json(STATE, noted)

    def restore(self, version: int | None) -> list[str]:
        """Write back what a version of the thread says; the files that changed.

        What is overwritten is kept in the folder of backups; decisions made since then stay.

        Raises:
            NotFound: there is no thread, or no such version.
        """
        from contextrelay.project.thread_facts import PREFIX, restored

        if self._link is None:
            raise Invalid("this project has no thread", "open it with a link")
        facts = self._link.facts(version)
        if not any(key.startswith(PREFIX) for key in facts):
            raise NotFound(
                f"version {version} of the thread says nothing of this project",
                f"see what there is: relay state log {self._link.thread_id}",
            )
        backups.back_up(self.folder, FILES, self.now())
        before, after = self.change(lambda texts: restored(facts, texts))
        return [name for name, text in after.named().items() if text != before.of(name)]

    def change_json(
        self, name: str, make: Callable[[dict[str, Any]], dict[str, Any]]
    ) -> tuple[Texts, Texts]:
        """Change state.json or todos.json by what they say; all the rest of the text stays."""

        def made(texts: Texts) -> Texts:
            return texts.having(name, self.changed_text(name, texts.of(name), make))

        return self.change(made)

    def changed_text(
        self, name: str, text: str | None, make: Callable[[dict[str, Any]], dict[str, Any]]
    ) -> str:
        """The text of a JSON file after a change of what it says."""
        from contextrelay.project.files.json_edit import edited, written
        from contextrelay.project.files.json_text import read
        from contextrelay.project.files.templates import new_state, new_todos

        if text is None:
            new = {STATE: new_state, TODOS: new_todos}[name](self.now())
            return written(make(new))
        value = read(text, name)
        if not isinstance(value, dict):
            raise Refused(f"{name} holds no object", "it must be { ... }: relay project doctor")
        return edited(text, make(value), name)  # pyright: ignore[reportUnknownArgumentType]

    def change(self, make: Make) -> tuple[Texts, Texts]:
        """Change the files as one, look for secrets, and patch the thread."""
        found: list[Secret] = []

        def checked(before: Texts) -> Texts:
            after = make(before)
            found[:] = _secrets(before, after)
            if found and self._is_strict:
                raise Refused(_warning(found[0]), "nothing was written; take it out")
            return after

        before, after = change(self.folder, checked)
        self.warnings += [_warning(each) for each in found]
        if before != after:
            from contextrelay.project.project_md import read_about

            self._patch_thread(read_about(after.about or "", self.folder.name).name)
        return before, after

    def _patch_thread(self, name: str) -> None:
        if self._link is None:
            return
        try:
            self._link.learn(self.texts, name, self.by)
        except (RelayError, OSError) as error:
            message = error.message if isinstance(error, RelayError) else str(error)
            self.warnings.append(
                f"the files are written, but the thread was not updated: {message}"
            )

    @property
    def own_folder(self) -> Path:
        return self.folder / OWN_FOLDER


def _local_time() -> str:
    from datetime import datetime

    return datetime.now().astimezone().isoformat(timespec="seconds")


def _secrets(before: Texts, after: Texts) -> list[Secret]:
    from contextrelay.project.files.secrets import secrets_in

    found: list[Secret] = []
    for name, text in after.named().items():
        old = before.of(name)
        if text is not None and text != old:
            found += secrets_in(name, text, old or "")
    return found


def _warning(secret: Secret) -> str:
    return f"{secret.file}, line {secret.line}: looks like a secret ({secret.kind} {secret.shown})"
