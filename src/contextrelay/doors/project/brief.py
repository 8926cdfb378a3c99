"""Briefing: the brief of a project's files, made once for the same files.

Rule: same files, same bytes. What was made is kept beside them, so that the next start neither
parses nor counts; where that cannot be kept, the brief is made again, and is the same. It is signed
for this user: a brief that came with the folder is somebody else's text, and is not shown.
"""

from __future__ import annotations

import json
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import contextrelay
from contextrelay.doors.project.files import confined
from contextrelay.doors.project.user_cache import secret
from contextrelay.errors import RelayError
from contextrelay.limits import PROJECT_OWN_BYTES_MAX
from contextrelay.logic.project.files.decode import stamp_of
from contextrelay.model.project import OWN_FOLDER, Texts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from contextrelay.logic.project.snapshot import Gathered

_KEPT = f"{OWN_FOLDER}/brief.json"


class Briefing(NamedTuple):
    """A brief, and what it was made of."""

    text: str
    tokens: int
    since: str
    """What the files were, for `finish`."""
    name: str
    last_review: str
    fields: dict[str, Any]
    """All of it, as --json shows it."""


def briefing_of(folder: Path, texts: Texts, budget_tokens: int) -> Briefing:
    """The brief for a model.

    Raises:
        Broken: a file cannot be read; the error names the place.
        Invalid: the budget is too small.
    """
    stamp = stamp_of(texts)
    key = f"{contextrelay.__version__} {stamp} {budget_tokens} {folder.name}"
    signing = secret()
    with suppress(RelayError, ValueError, KeyError, TypeError, RecursionError):
        kept = json.loads(confined.read(folder, _KEPT, PROJECT_OWN_BYTES_MAX) or b"{}")
        if kept["key"] == key and kept["signed"] == _signed(signing, key, kept["briefing"]):
            return Briefing(**json.loads(kept["briefing"]))
    made = _made(folder, texts, budget_tokens, None)
    with suppress(RelayError, OSError, ValueError):
        text = json.dumps(made._asdict())
        document = {"key": key, "signed": _signed(signing, key, text), "briefing": text}
        confined.write(folder, _KEPT, json.dumps(document).encode(), is_durable=False)
    return made


def _signed(signing: bytes | None, key: str, briefing: str) -> str:
    """What tells a brief that this user made from any other.

    Raises:
        ValueError: this user cannot sign.
    """
    if signing is None:
        raise ValueError("no secret could be kept")
    return blake2b(json.dumps([key, briefing]).encode(), key=signing).hexdigest()


def briefing_for_people(
    folder: Path, texts: Texts, budget_tokens: int, age: Callable[[str], str]
) -> Briefing:
    """The brief for a person, with times told by `age`."""
    return _made(folder, texts, budget_tokens, age)


def _made(
    folder: Path, texts: Texts, budget_tokens: int, age: Callable[[str], str] | None
) -> Briefing:
    # Lazily: most starts find a brief that is made.
    from contextrelay.doors.project.token_count import counter
    from contextrelay.logic.project.brief import brief_of
    from contextrelay.logic.project.snapshot import gathered

    found = gathered(texts, folder.name)
    brief = brief_of(found, budget_tokens, counter(), age)
    fields = _fields(found) | {
        "left_out": brief.left_out,
        "text": brief.text,
        "tokens": brief.tokens,
        "budget_tokens": budget_tokens,
    }
    return Briefing(
        brief.text, brief.tokens, found.stamp, found.about.name, found.last_review, fields
    )


def _fields(found: Gathered) -> dict[str, Any]:
    fields: dict[str, Any] = {"since": found.stamp, **found._asdict()}
    for name in ("stamp", "state"):
        del fields[name]
    fields["about"] = found.about._asdict()
    fields["next_todos"] = [todo._asdict() for todo in found.next_todos]
    fields["decisions"] = [each._replace(text="")._asdict() for each in found.decisions]
    # As JSON has it, whether it was kept or is new.
    return json.loads(json.dumps(fields))
