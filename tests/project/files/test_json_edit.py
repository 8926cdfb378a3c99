"""Edits of JSON texts: what stays is byte for byte as it was, and what is new is as asked."""

from __future__ import annotations

import copy
import difflib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextrelay.documents.values import same
from contextrelay.errors import Broken, TooLarge
from contextrelay.limits import PROJECT_FILE_BYTES_MAX
from contextrelay.project.files.decode import decoded
from contextrelay.project.files.json_edit import edited, written
from contextrelay.project.files.json_text import parse, read

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from(
    ["id", "title", "tags"]
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=20,
)
STYLES = st.fixed_dictionaries(
    {
        "indent": st.sampled_from([None, 0, 1, 2, 4, "\t"]),
        "newline": st.sampled_from(["\n", "\r\n"]),
        "mark": st.sampled_from(["", "\ufeff"]),
        "end": st.sampled_from(["", "\n", "\n\n", "  \n"]),
        "is_ascii": st.booleans(),
        "is_tight": st.booleans(),
    }
)


def spelled(value: Any, style: dict[str, Any]) -> str:
    separators = (",", ":") if style["is_tight"] else None
    text = json.dumps(
        value, indent=style["indent"], ensure_ascii=style["is_ascii"], separators=separators
    )
    return style["mark"] + (text + style["end"]).replace("\n", style["newline"])


@given(VALUES, STYLES)
def test_a_file_that_is_written_without_a_change_is_the_same_bytes(
    value: Any, style: dict[str, Any]
) -> None:
    """Promise J6."""
    content = spelled(value, style).encode()

    text = decoded(content, "state.json")

    assert same(read(text, "state.json"), value)
    assert same(parse(text, "state.json").value, value)
    assert edited(text, read(text, "state.json"), "state.json").encode() == content


@given(VALUES, VALUES, STYLES)
def test_an_edited_text_says_the_new_value(old: Any, new: Any, style: dict[str, Any]) -> None:
    """Promise J6."""
    text = edited(spelled(old, style), new, "state.json")

    assert same(read(text, "state.json"), new)
    assert text.startswith("\ufeff") == bool(style["mark"])


@given(st.dictionaries(NAMES, VALUES, min_size=1, max_size=5), STYLES, st.data())
def test_a_change_of_one_member_leaves_all_others_as_they_are_written(
    old: dict[str, Any], style: dict[str, Any], data: st.DataObject
) -> None:
    """Promise J6."""
    name = data.draw(st.sampled_from(sorted(old)))
    text = spelled(old, style)

    changed = edited(text, {**old, name: "new value"}, "state.json")

    before = {child.name: text[child.start : child.stop] for child in parse(text, "x").children}
    after = {
        child.name: changed[child.start : child.stop] for child in parse(changed, "x").children
    }
    assert {**before, name: after[name]} == after


TODOS = """{
    // what is to be done
    "todos": [
        {
            "id": "TODO-001",   "title": "Complete user authentication",
            "weight": 1.50, "custom": {"ours": [1,2,   3]}   // somebody's own
        },
        {
            "id": "TODO-002",
            "title": "Schreibe Prüfungen"
        } /* the last */
    ],
    "last_review": null
}"""


def diff(old: str, new: str) -> list[str]:
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=0)
    return [line for line in lines if line[0] in "+-" and line[:3] not in ("+++", "---")]


def changed_todos(change: Any) -> str:
    value = read(TODOS, "todos.json")
    new = copy.deepcopy(value)
    change(new)
    text = edited(TODOS, new, "todos.json")
    assert read(text, "todos.json") == new
    return text


def test_a_diff_shows_the_change_alone_and_comments_stay_in_their_places() -> None:
    """Promise J6."""

    def change(new: Any) -> None:
        new["todos"][1]["title"] = "Write tests"
        new["last_review"] = "2026-04-20"

    assert diff(TODOS, changed_todos(change)) == [
        '-            "title": "Schreibe Prüfungen"',
        '+            "title": "Write tests"',
        '-    "last_review": null',
        '+    "last_review": "2026-04-20"',
    ]


def test_what_is_added_is_written_as_its_neighbours_are() -> None:
    """Promise J6."""

    def change(new: Any) -> None:
        new["todos"].append({"id": "TODO-003", "tags": ["a"]})
        new["todos"][0]["custom"]["ours"].append(4)

    assert diff(TODOS, changed_todos(change)) == [
        '-            "weight": 1.50, "custom": {"ours": [1,2,   3]}   // somebody\'s own',
        '+            "weight": 1.50, "custom": {"ours": [1,2,   3,   4]}   // somebody\'s own',
        "-        } /* the last */",
        "+        }, /* the last */",
        "+        {",
        '+            "id": "TODO-003",',
        '+            "tags": [',
        '+                "a"',
        "+            ]",
        "+        }",
    ]


def test_what_is_removed_takes_its_comma_with_it() -> None:
    """Promise J6."""

    def change(new: Any) -> None:
        del new["todos"][0]
        del new["last_review"]

    text = changed_todos(change)

    assert '"id": "TODO-002"' in text
    assert "// what is to be done" in text


@pytest.mark.parametrize(
    ("text", "line", "column", "says"),
    [
        ('{"a": 1,}', 1, 8, "comma too many"),
        ('{\n  "a": 1\n  "b": 2\n}', 3, 3, "a comma or }"),
        ('{\r\n  "a": tru\r\n}', 2, 8, "a value is expected"),
        ("{'a': 1}", 1, 2, "quotes"),
        ('{"a" 1}', 1, 6, "a colon"),
        ('{"a": "x', 1, 7, "no end"),
        ('{"a": "x\ny"}', 1, 9, "no end"),
        ("[1, 2", 1, 6, "a comma or ]"),
        ("{} {}", 1, 4, "more after the end"),
        ('{"a": NaN}', 1, 7, "a value is expected"),
        ("", 1, 1, "empty"),
        ("\ufeff  \n", 2, 1, "empty"),
        ("[" * 100, 1, 65, "nested deeper"),
        ('{\n<<<<<<< HEAD\n"a": 1\n=======\n"a": 2\n>>>>>>> x\n}', 2, 1, "unfinished merge"),
    ],
)
def test_what_is_no_json_is_named_by_line_and_column(
    text: str, line: int, column: int, says: str
) -> None:
    """Promise J6."""
    with pytest.raises(Broken) as caught:
        read(decoded(text.encode(), "todos.json"), "todos.json")

    assert says in caught.value.message
    assert caught.value.details == {"file": "todos.json", "line": line, "column": column}
    assert caught.value.hint


def test_what_is_no_utf8_or_too_large_is_refused() -> None:
    """Promise J6."""
    with pytest.raises(Broken) as caught:
        decoded('{\n"a": "ü"}'.encode("latin-1"), "state.json")
    assert caught.value.details == {"file": "state.json", "line": 2, "column": 7}
    with pytest.raises(TooLarge):
        decoded(b" " * (PROJECT_FILE_BYTES_MAX + 1), "state.json")


def test_a_new_file_is_indented_and_ends_with_a_newline() -> None:
    assert written({"a": ["ü"]}) == '{\n  "a": [\n    "ü"\n  ]\n}\n'
