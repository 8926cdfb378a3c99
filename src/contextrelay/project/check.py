"""Checks of the four files: problems with their positions and fixes, and secrets in the texts.

Rule: a check changes nothing. For a secret, only its position and its first characters are shown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Literal

from msgspec import Struct

from contextrelay.documents.values import is_object
from contextrelay.errors import RelayError
from contextrelay.limits import REVIEW_DUE_S
from contextrelay.model.project import (
    DECISIONS,
    FILES,
    OWN_FOLDER,
    PRIORITIES,
    PROJECT_FILE,
    STATE,
    STATUSES,
    TODOS,
    Secret,
)
from contextrelay.project import confined, todos
from contextrelay.project.decisions import read_decisions
from contextrelay.project.documents import conflicts_of, load_document

SECRETS_SHOWN_MAX = 20
_Problem = tuple[Literal["hint", "failure"], str, str]
_ASSIGNED = (
    r"(?i)\b(?:api[_-]?key|secret|token|passw(?:or)?d|access[_-]?key)[\"']?\s*[:=]\s*"
    r"[\"']?(?=[^\s\"',]*[0-9])(?=[^\s\"',]*[A-Za-z])[0-9A-Za-z_/+.=-]{20,}"
)
_ESCAPED = re.compile(r"\\[nrt]")
_SECRETS = {
    "private key": r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----",
    "AWS access key": r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "GitHub token": r"\b(?:gh[pousr]_[0-9A-Za-z]{36,255}|github_pat_[0-9A-Za-z_]{50,255})\b",
    "GitLab token": r"\bglpat-[0-9A-Za-z_-]{20,}",
    "Slack token": r"\bxox[abeoprs]-[0-9A-Za-z-]{10,}",
    "Slack webhook": r"hooks\.slack\.com/services/T[0-9A-Z]+/B[0-9A-Z]+/[0-9A-Za-z]+",
    "Google key": r"\bAIza[0-9A-Za-z_-]{35}",
    "Stripe key": r"\b[sr]k_live_[0-9A-Za-z]{20,}",
    "API key": r"\bsk-(?:ant-|proj-|or-|svcacct-)?[0-9A-Za-z_-]{20,}",
    "PyPI token": r"\bpypi-[0-9A-Za-z_-]{50,}",
    "npm token": r"\bnpm_[0-9A-Za-z]{36}\b",
    "Hugging Face token": r"\bhf_[0-9A-Za-z]{30,}",
    "JSON web token": r"\beyJ[0-9A-Za-z_-]{10,}\.eyJ[0-9A-Za-z_-]{10,}\.[0-9A-Za-z_-]{10,}",
    "password in a URL": r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@\"'<>]{1,64}:[^\s/@\"'<>]{3,128}@",
    "assigned secret": _ASSIGNED,
}


class FileFinding(Struct, frozen=True, rename={"text": "told"}):
    """A problem in a file, or the finding that the file has no problem."""

    file: str
    state: Literal["ok", "hint", "failure"]
    text: str
    next_step: str = ""


def check(folder: Path, now: str) -> list[FileFinding]:
    """Return the findings for every file. An invalid file does not hide problems of others."""
    found: list[FileFinding] = []
    for name in FILES:
        problems: list[_Problem] = []
        try:
            text = confined.read_text(folder, name)
            if text is None:
                problems = [("hint", "missing", "create the file: relay project init")]
            else:
                problems = list(_CHECKS[name](text, now))
                for each in find_secrets(name, text):
                    problem = f"line {each.line} looks like a secret ({each.kind} {each.shown})"
                    hint = "remove the secret here, and revoke it where it was issued"
                    problems.append(("failure", problem, hint))
        except RelayError as error:
            problems.append(("failure", error.message, error.hint))
        found += [FileFinding(name, *each) for each in problems or [("ok", "valid", "")]]
    try:
        for entry in confined.entries(folder, OWN_FOLDER):
            if not (entry.is_file or entry.is_folder):
                path = f"{OWN_FOLDER}/{entry.name}"
                hint = f"inspect it: ls -l {path}"
                found.append(FileFinding(path, "failure", "not a regular file", hint))
    except RelayError as error:
        found.append(FileFinding(OWN_FOLDER, "failure", error.message, error.hint))
    return found


def _check_about(text: str, now: str) -> Iterator[_Problem]:
    if not any(line.startswith("# ") for line in text.removeprefix(confined.BOM).splitlines()):
        yield "hint", "no heading with a name", "start the file with: # Name"


def _check_state(text: str, now: str) -> Iterator[_Problem]:
    state = load_document(text, STATE)
    if not is_object(state.get("progress", {})):
        yield "failure", "/progress is not an object", 'write "progress": {}'
    update = state.get("last_update")
    if isinstance(update, str) and update and todos.parse_time(update) is None:
        yield (
            "hint",
            f"/last_update is not a time: {update!r}",
            "write for example 2026-05-01T10:00Z",
        )
    for each in conflicts_of(state):
        field, kept, other = each.get("field"), each.get("kept"), each.get("other")
        problem = f"conflict in {field}: it is {kept!r}, another writer set {other!r}"
        yield "hint", problem, f"choose: relay project finish --set {field}=VALUE"


def _check_todos(text: str, now: str) -> Iterator[_Problem]:
    document = todos.TodoList(load_document(text, TODOS))
    every = document.read()
    archived = {str(item.get("id")) for item in document.items("completed")}
    counted = Counter(todo.id for todo in every)
    for id, number in counted.items():
        if number > 1:
            yield "failure", f"{number} todos have the id {id}", "give one of them another id"
    for todo in every:
        if not todo.id or not todo.title:
            problem = f"todo without {'a title' if todo.id else 'an id'}: {todo.id or todo.title!r}"
            yield "failure", problem, "add the missing field"
        known = (("status", todo.status, STATUSES), ("priority", todo.priority, PRIORITIES))
        for name, value, values in known:
            if value not in values:
                problem = f"{todo.id} has an unknown {name} {value!r}"
                yield "hint", problem, f"use one of {', '.join(values)}"
    for id, others in todos.blockers(every).items():
        for other in sorted(others - set(counted) - archived):
            problem = f"{id} waits for {other}, which does not exist"
            yield "hint", problem, "remove it from blocked_by"
    for cycle in todos.cycles(every):
        problem = f"cycle: {' waits for '.join(cycle)}"
        yield "failure", problem, f"relay project todo unblock {cycle[0]}"
    if todos.is_older(document.last_review(), now, REVIEW_DUE_S):
        yield "hint", "not reviewed for a day", "relay project todo review"


def _check_decisions(text: str, now: str) -> Iterator[_Problem]:
    counted = Counter(each.number for each in read_decisions(text))
    for number, times in sorted(counted.items()):
        if times > 1:
            problem = f"{times} decisions have the id ADR-{number:03d}"
            yield "failure", problem, "give the newer one the next number"
    # A single decision may have a number as high as a billion, so the loop is limited.
    gaps = (n for n in range(1, min(max(counted, default=0), 10_000)) if n not in counted)
    some = [f"ADR-{number:03d}" for number in islice(gaps, 5)]
    if some:
        hint = "restore it from git; decisions are not deleted"
        yield "hint", f"missing: {', '.join(some)}", hint


_CHECKS = {
    PROJECT_FILE: _check_about,
    STATE: _check_state,
    TODOS: _check_todos,
    DECISIONS: _check_decisions,
}


def find_secrets(file: str, text: str, known: str = "") -> list[Secret]:
    """Return the strings that look like secrets, except those that are also in the text `known`."""
    # In JSON, a secret at the start of a line follows the letter n of \n, which hides its start.
    text, known = _ESCAPED.sub(" ", text), _ESCAPED.sub(" ", known)
    known_lines = set(known.splitlines())
    found: list[Secret] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line in known_lines:
            continue
        taken: list[tuple[int, int]] = []
        for kind, shape in _SECRETS.items():
            for match in re.finditer(shape, line):
                # The first pattern that matches gives the kind of the secret.
                if any(start < match.end() and match.start() < end for start, end in taken):
                    continue
                taken.append(match.span())
                # A secret that only moved is not new.
                if text.count(match[0]) > known.count(match[0]):
                    found.append(Secret(file, number, kind, f"{match[0][:6]}…"))
        if len(found) >= SECRETS_SHOWN_MAX:
            break
    return found[:SECRETS_SHOWN_MAX]


def describe_secret(secret: Secret) -> str:
    """Return a warning that does not contain the secret."""
    return f"{secret.file}, line {secret.line}: looks like a secret ({secret.kind} {secret.shown})"
