"""Merging a file that we were to write with what a person saved meanwhile.

Rule: what is on disk is a person's, and is never lost. JSON is merged by field; a decision is
appended again, under the next number that is free.
"""

from __future__ import annotations

import re
from typing import Any

from contextrelay.documents.value_types import is_object
from contextrelay.errors import Conflict
from contextrelay.model.project import DECISIONS, STATE
from contextrelay.project.decisions import joined, read_decisions
from contextrelay.project.field_merge import merged
from contextrelay.project.files.json_edit import edited
from contextrelay.project.files.json_text import read
from contextrelay.project.progress import with_clashes


def rejoined(name: str, before: str | None, after: str, disk: str, now: str) -> str:
    """Merge two changes of `before`: ours (`after`) and what is on disk.

    Raises:
        Broken: what is on disk is no JSON; the error names the place.
        Conflict: it is a text that cannot be merged.
    """
    if disk in (after, before):
        return after
    if name.endswith(".json"):
        base: Any = read(before, name) if before else {}
        value, clashes = merged(base, read(after, name), read(disk, name))
        if name == STATE and is_object(value):
            value = with_clashes(value, clashes, now)
        return edited(disk, value, name)
    if name == DECISIONS:
        return _with_new_sections(before or "", after, disk)
    raise Conflict(
        f"{name} was changed by hand while it was written",
        "what is on disk was kept; look at it, and do it again",
    )


def _with_new_sections(before: str, after: str, disk: str) -> str:
    # By text: one that was given another number here must not be appended twice.
    there = {_numbered(each.text, "") for text in (before, disk) for each in read_decisions(text)}
    for each in read_decisions(after):
        if _numbered(each.text, "") in there:
            continue
        numbers = [other.number for other in read_decisions(disk)]
        number = each.number if each.number not in numbers else max(numbers) + 1
        disk = joined(disk, _numbered(each.text, f"-{number:03d}"))
    return disk


def _numbered(section: str, number: str) -> str:
    return _NUMBER.sub(f"ADR{number}", section, count=1)


_NUMBER = re.compile(r"ADR[- ]?[0-9]+")
