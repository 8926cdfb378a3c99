"""Secrets: what looks like a key or a token in a text that would be kept and shared.

Rule: a finding shows where it is and how it begins, never all of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from contextrelay.limits import SECRETS_SHOWN_MAX
from contextrelay.model.project import Secret

_ASSIGNED = (
    r"(?i)\b(?:api[_-]?key|secret|token|passw(?:or)?d|access[_-]?key)[\"']?\s*[:=]\s*"
    r"[\"']?(?=[^\s\"',]*[0-9])(?=[^\s\"',]*[A-Za-z])[0-9A-Za-z_/+.=-]{20,}"
)
_SHAPES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(shape))
    for kind, shape in (
        ("private key", r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----"),
        ("AWS access key", r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
        ("GitHub token", r"\b(?:gh[pousr]_[0-9A-Za-z]{36,255}|github_pat_[0-9A-Za-z_]{50,255})\b"),
        ("GitLab token", r"\bglpat-[0-9A-Za-z_-]{20,}"),
        ("Slack token", r"\bxox[abeoprs]-[0-9A-Za-z-]{10,}"),
        ("Slack webhook", r"hooks\.slack\.com/services/T[0-9A-Z]+/B[0-9A-Z]+/[0-9A-Za-z]+"),
        ("Google key", r"\bAIza[0-9A-Za-z_-]{35}"),
        ("Stripe key", r"\b[sr]k_live_[0-9A-Za-z]{20,}"),
        ("API key", r"\bsk-(?:ant-|proj-|or-|svcacct-)?[0-9A-Za-z_-]{20,}"),
        ("PyPI token", r"\bpypi-[0-9A-Za-z_-]{50,}"),
        ("npm token", r"\bnpm_[0-9A-Za-z]{36}\b"),
        ("Hugging Face token", r"\bhf_[0-9A-Za-z]{30,}"),
        ("JSON web token", r"\beyJ[0-9A-Za-z_-]{10,}\.eyJ[0-9A-Za-z_-]{10,}\.[0-9A-Za-z_-]{10,}"),
        (
            "password in a URL",
            r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@\"'<>]{1,64}:[^\s/@\"'<>]{3,128}@",
        ),
        (
            "assigned secret",
            _ASSIGNED,
        ),
    )
)
_SHOWN_CHARS = 6


def secrets_in(file: str, text: str, known: str = "") -> list[Secret]:
    """What looks like a secret in a text, but was not in the text before it."""
    lines_before = set(known.splitlines())
    found: list[Secret] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line not in lines_before:
            # Where only the rest of the line changed, the secret is not new.
            found += [
                secret
                for secret, said in _in_line(file, number, line)
                if text.count(said) > known.count(said)
            ]
        if len(found) >= SECRETS_SHOWN_MAX:
            break
    return found[:SECRETS_SHOWN_MAX]


def _in_line(file: str, number: int, line: str) -> Iterator[tuple[Secret, str]]:
    taken: list[tuple[int, int]] = []
    for kind, shape in _SHAPES:
        for match in shape.finditer(line):
            if not any(start < match.end() and match.start() < stop for start, stop in taken):
                taken.append(match.span())
                yield Secret(file, number, kind, f"{match[0][:_SHOWN_CHARS]}…"), match[0]
