"""Project files: their names, and what is read out of them."""

from __future__ import annotations

from typing import Any, NamedTuple

ABOUT = "PROJECT.md"
STATE = "state.json"
DECISIONS = "decisions.md"
TODOS = "todos.json"
# In the order in which they are read at a cold start.
FILES = (ABOUT, STATE, TODOS, DECISIONS)
# Beside them, for nobody to read: the lock, the journal, copies. It is ignored by git.
OWN_FOLDER = ".relay-project"


class Decision(NamedTuple):
    """An architecture decision record: a section of decisions.md."""

    number: int
    title: str
    date: str = ""
    status: str = ""
    context: str = ""
    decision: str = ""
    consequences: str = ""
    supersedes: tuple[int, ...] = ()
    superseded_by: int = 0
    line: int = 0
    text: str = ""
    """The whole section, as it is written."""

    @property
    def id(self) -> str:
        return f"ADR-{self.number:03d}"


class Texts(NamedTuple):
    """The four files as they are; None where one is missing."""

    about: str | None = None
    state: str | None = None
    todos: str | None = None
    decisions: str | None = None

    def of(self, name: str) -> str | None:
        return self.named()[name]

    def having(self, name: str, text: str | None) -> Texts:
        """The same, but for one file."""
        return Texts(*[text if each == name else old for each, old in self.named().items()])

    def named(self) -> dict[str, str | None]:
        return dict(zip(FILES, self, strict=True))


class Clash(NamedTuple):
    """A field that two writers changed: what stands, and what the other wanted."""

    field: str
    kept: Any
    other: Any


class Secret(NamedTuple):
    """What looks like a secret in a text that would be written."""

    file: str
    line: int
    kind: str
    shown: str
    """Its beginning, and no more."""


def as_fields(value: Any) -> Any:
    """A value of the model as what `--json` shows: named fields, however deep."""
    named: Any = getattr(value, "_asdict", None)
    if named is not None:
        return {name: as_fields(each) for name, each in named().items()}
    if isinstance(value, list | tuple):
        return [as_fields(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
    return value


class Finished(NamedTuple):
    """What `finish` did."""

    files: list[str]
    """Those that changed."""
    todos: list[str]
    """The ids of new todos."""
    decisions: list[str]
    unblocked: list[str]
    clashes: list[Clash]
    commit: str = ""
