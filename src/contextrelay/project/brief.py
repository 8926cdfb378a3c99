"""Briefing: the brief of a project's files, cached for as long as they do not change.

Rule: same files, same bytes. The cache is in our folder next to the files, so that the next start
neither parses nor counts; where it cannot be kept, the brief is made again, and is the same. It is
signed for this user: a brief that came with the folder is somebody else's text, and is not shown.
"""

from __future__ import annotations

import json
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import contextrelay
from contextrelay.errors import RelayError
from contextrelay.limits import PROJECT_OWN_BYTES_MAX
from contextrelay.model.project import OWN_FOLDER, Texts
from contextrelay.project.files import confined
from contextrelay.project.files.decode import stamp_of
from contextrelay.project.user_cache import signing_key, token_counter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_KEPT = f"{OWN_FOLDER}/brief.json"


class Briefing(NamedTuple):
    """A brief, and what it was made of."""

    text: str
    tokens: int
    since: str
    """A stamp of the files as they were, for `finish`."""
    name: str
    last_review: str
    fields: dict[str, Any]
    """What --json shows."""


def briefing_of(folder: Path, texts: Texts, budget_tokens: int) -> Briefing:
    """The brief for a model, out of the cache if there is one.

    Raises:
        Broken: a file cannot be read; the error names the place.
        Invalid: the budget is too small.
    """
    stamp = stamp_of(texts)
    key = f"{contextrelay.__version__} {stamp} {budget_tokens} {folder.name}"
    signing = signing_key()
    with suppress(RelayError, ValueError, KeyError, TypeError, RecursionError):
        kept = json.loads(confined.read(folder, _KEPT, PROJECT_OWN_BYTES_MAX) or b"{}")
        if kept["key"] == key and kept["signed"] == _signed(signing, key, kept["briefing"]):
            return Briefing(**json.loads(kept["briefing"]))
    made = new_briefing(folder, texts, budget_tokens)
    with suppress(RelayError, OSError, ValueError):
        text = json.dumps(made._asdict())
        document = {"key": key, "signed": _signed(signing, key, text), "briefing": text}
        confined.write(folder, _KEPT, json.dumps(document).encode(), is_durable=False)
    return made


def _signed(signing: bytes | None, key: str, briefing: str) -> str:
    if signing is None:
        raise ValueError("no key could be kept")
    return blake2b(json.dumps([key, briefing]).encode(), key=signing).hexdigest()


def new_briefing(
    folder: Path, texts: Texts, budget_tokens: int, age: Callable[[str], str] | None = None
) -> Briefing:
    """A new brief; with an `age`, which spells times, for a person."""
    # Lazily: most starts find a brief in the cache.
    from contextrelay.project.brief_text import brief_of
    from contextrelay.project.snapshot import gathered

    found = gathered(texts, folder.name)
    brief = brief_of(found, budget_tokens, token_counter(), age)
    fields: dict[str, Any] = {"since": found.stamp, **found._asdict()}
    for name in ("stamp", "state"):
        del fields[name]
    fields |= {
        "about": found.about._asdict(),
        "next_todos": [todo._asdict() for todo in found.next_todos],
        "decisions": [each._replace(text="")._asdict() for each in found.decisions],
        "left_out": brief.left_out,
        "text": brief.text,
        "tokens": brief.tokens,
        "budget_tokens": budget_tokens,
    }
    # Through JSON, so that a new brief has the same types as one out of the cache.
    fields = json.loads(json.dumps(fields))
    return Briefing(
        brief.text, brief.tokens, found.stamp, found.about.name, found.last_review, fields
    )
