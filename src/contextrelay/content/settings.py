"""Settings: detect YAML, and names with values, with or without sections."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from contextrelay.content.language import Guess, without_strings

_ROWS_MIN, _ROWS_MAX = 3, 50
# The start of a YAML line: a key, a list entry or a document marker.
_YAML_ROW = re.compile(r"---|%YAML|\.\.\.|- |-$|[\w.\"'/$@-][\w .\"'/$@-]{0,80}:(?:\s|$)|[\]}]")
_YAML_KEY = re.compile(r"( *)(?:- )*[\w.\"'/$@-]{1,80}:(?:\s|$)")
_FLAT_KEY = re.compile(r"([a-z_][\w.-]*):(?:\s|$)")
_FLAT_KEYS_MIN = 5
_INI_SECTION = re.compile(r"\[{1,2}[\w .:\"'/@*+#-]{1,120}\]{1,2}\s*(?:[#;].*)?$")
_INI_KEY = re.compile(r"([\w.\"'/*@:$\[\]-]{1,120})\s*=")
# Values in TOML syntax, with their types.
_TYPED = re.compile(r"[^=]{1,120}=\s*(?:[\"'\[{]|true\b|false\b|-?\d)")
# Comments, and template tags on lines of their own.
_ASIDE = re.compile(r"\s*(?:[#;!]|\{\{|\{%)")
_SETTINGS_SHARE = 0.9
_YAML_SHARE, _YAML_BEGUN_SHARE = 0.3, 0.1


def settings(rows: list[str]) -> Guess | None:
    """Return the type of settings in the rows, or None."""
    text = "\n".join(rows)
    if text.count("=") < 2 and text.count(":") < _ROWS_MIN:
        return None
    rows = [row for row in rows if not _ASIDE.match(row)]
    if '"""' in text or "'''" in text:
        rows = without_strings(rows)
    return _named(list(islice(_logical_rows(rows), _ROWS_MAX))) or _yaml(rows[:_ROWS_MAX])


def _outer(rows: list[str]) -> list[str]:
    return [row for row in rows if not row[0].isspace() and row[0] not in "]})\"'"]


def _named(rows: list[str]) -> Guess | None:
    """Detect `name = value`, with or without sections."""
    outer = _outer(rows)
    if len(outer) < _ROWS_MIN:
        return None
    if sum("=" in row or row[0] == "[" for row in outer) < _SETTINGS_SHARE * len(outer):
        return None
    sections = sum(_INI_SECTION.match(row) is not None for row in outer)
    keys = [match[1] for row in outer if (match := _INI_KEY.match(row))]
    if len(keys) + sections < _SETTINGS_SHARE * len(outer) or len(keys) <= 1:
        return None
    if sections:
        return "text", "application/toml"
    # The same names in each row are records; a `;` at the end means code.
    is_code = sum(row.endswith((";", "{")) for row in outer) > len(outer) // 4
    is_set = not is_code and len(set(keys)) > len(keys) // 2
    if not is_set:
        return None
    is_typed = all(map(_TYPED.match, outer))
    return "text", "application/toml" if is_typed else "text/x-java-properties"


def _yaml(rows: list[str]) -> Guess | None:
    if not all(map(_YAML_ROW.match, _outer(rows))):
        return None
    found = [match for row in rows if (match := _YAML_KEY.match(row)) is not None]
    # A single level of `name: value` may be headers, or a dialogue.
    is_nested = len({len(match[1]) for match in found}) > 1
    flat = {match[1] for row in rows if (match := _FLAT_KEY.match(row))}
    # With a document marker, the rest may be mostly long texts.
    is_begun = bool(rows) and rows[0].startswith(("---", "%YAML"))
    share = _YAML_BEGUN_SHARE if is_begun else _YAML_SHARE
    is_yaml = is_nested and len(found) >= max(_ROWS_MIN, share * len(rows))
    is_flat = len(flat) >= max(_FLAT_KEYS_MIN, _SETTINGS_SHARE * len(rows))
    return ("text", "application/yaml") if is_yaml or is_flat else None


def _logical_rows(rows: list[str]) -> Iterator[str]:
    """Yield the rows that do not continue a value after a backslash."""
    goes_on = False
    for row in rows:
        if not goes_on:
            yield row
        goes_on = row.endswith("\\")
