"""What the schema of a request says of integers and names is what the server takes."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from contextrelay.server.openapi.openapi import document

BAD_LABELS = ("a\x00", "a\x8fb", "\u202etxt", "a\u2028b", "\ufeff", " ", "\t")
GOOD_LABELS = ("a", " a ", "release notes", "\xe9\u0301", "a/b", "\U0001f680", "..")
BAD_FILE_NAMES = (*BAD_LABELS, "a/b", "a\\b", ".", "..")
GOOD_FILE_NAMES = ("a.txt", "...", ".a", "a b", "\U0001f680")


def schema(method: str, path: str, field: str) -> dict[str, Any]:
    """The schema of a field in a JSON body."""
    content = document()["paths"][path][method]["requestBody"]["content"]
    found: dict[str, Any] = content["application/json"]["schema"]["properties"][field]
    return next((each for each in found.get("anyOf", ()) if "pattern" in each), found)


@pytest.mark.parametrize("version", ["1.0", "1e0", "10e-1"])
def test_a_fraction_of_zero_is_an_integer_in_a_body(
    web: httpx2.Client, thread: str, version: str
) -> None:
    """Promise M3: as in JSON Schema."""
    path = f"/v1/threads/{thread}/restore"

    reply = web.post(path, content=f'{{"version": {version}}}')

    assert reply.status_code == 200, reply.text


@pytest.mark.parametrize("version", ["1.5", "true"])
def test_what_is_no_integer_is_refused_in_a_body(
    web: httpx2.Client, thread: str, version: str
) -> None:
    """Promise M3."""
    reply = web.post(f"/v1/threads/{thread}/restore", content=f'{{"version": {version}}}')

    assert reply.status_code == 400


@pytest.mark.parametrize(
    ("text", "is_good"),
    [(each, True) for each in GOOD_LABELS] + [(each, False) for each in BAD_LABELS],
)
def test_labels_match_the_pattern_of_the_schema(
    web: httpx2.Client, text: str, is_good: bool
) -> None:
    """Promise M3: the server and the schema agree."""
    pattern = schema("post", "/v1/threads", "name")["pattern"]

    reply = web.post("/v1/threads", json={"name": text})

    assert bool(re.search(pattern, text)) == is_good
    assert (reply.status_code == 201) == is_good
    assert is_good or "control character" in reply.json()["error"]


@pytest.mark.parametrize(
    ("text", "is_good"),
    [(each, True) for each in GOOD_FILE_NAMES] + [(each, False) for each in BAD_FILE_NAMES],
)
def test_names_of_files_match_the_pattern_of_the_schema(
    web: httpx2.Client, text: str, is_good: bool
) -> None:
    """Promise M3: the server and the schema agree."""
    parameters = document()["paths"]["/v1/artifacts"]["post"]["parameters"]
    field = next(each for each in parameters if each["name"] == "name")["schema"]

    reply = web.post(f"/v1/artifacts?name={quote(text, safe='')}", content=b"x")

    assert bool(re.search(field["anyOf"][0]["pattern"], text)) == is_good
    assert (reply.status_code == 201) == is_good
