"""States over HTTP: read at any version, and patched under the conditions a client sets."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from contextrelay.core.answer import answer
from contextrelay.verbs import ReadHeader
from tests.server.replies import FACT, error_of, patch
from tests.server.serving import Served


@pytest.mark.parametrize(("version", "status"), [("9", 404), ("x", 400)])
def test_a_version_that_is_not_there_is_reported_as_such(
    web: httpx2.Client, thread: str, version: str, status: int
) -> None:
    """Promise T11."""
    for where in ("state", "state/header"):
        reply = web.get(f"/threads/{thread}/{where}?version={version}")
        assert reply.status_code == status
        assert error_of(reply) != "thread not found"


def test_a_state_that_the_client_has_is_not_sent_again(web: httpx2.Client, thread: str) -> None:
    """Promise T11."""
    same = web.get(f"/threads/{thread}/state", headers={"If-None-Match": '"v1"'})
    patch(web, thread, [FACT])
    other = web.get(f"/threads/{thread}/state", headers={"If-None-Match": '"v1"'})

    assert (same.status_code, same.content) == (304, b"")
    assert other.status_code == 200


def test_a_header_is_the_same_bytes_and_says_if_it_is_cut(
    web: httpx2.Client, shared: Served, thread: str
) -> None:
    """Promise T6. Promise T11."""
    small = web.get(f"/threads/{thread}/state/header")
    facts = [
        {**FACT, "value": {"id": f"f{index}", "key": "k", "value": "long " * 60}}
        for index in range(12)
    ]
    patch(web, thread, facts)

    cut = web.get(f"/threads/{thread}/state/header")

    core = answer(shared.door.relay.stores, ReadHeader(thread))

    assert "x-relay-truncated" not in small.headers
    assert cut.headers["x-relay-truncated"] == "true"
    assert cut.headers["etag"] == '"v2"'
    assert len(cut.content) <= 2048
    assert cut.content == bytes(core.header)


def test_if_match_fails_with_412_and_changes_nothing(web: httpx2.Client, thread: str) -> None:
    """Promise T11."""
    patch(web, thread, [FACT])

    refused = patch(web, thread, [FACT], if_match='"v1"')
    done = patch(web, thread, [FACT], if_match='"v2"')

    assert refused.status_code == 412
    assert refused.json()["version"] == 2
    assert [each["path"] for each in refused.json()["changed"]] == ["/facts/-"]
    assert (done.status_code, done.json()["version"], done.headers["etag"]) == (200, 3, '"v3"')


@pytest.mark.parametrize(
    ("tag", "expected", "status"),
    [
        ("*", None, 200),
        ('"v9"', None, 412),
        ('""', None, 412),
        ('"v2" "v3"', None, 400),
        ('"v1"', 1, 412),
        ('"v2"', 9, 409),
    ],
)
def test_if_match_goes_before_what_the_patch_expects(
    web: httpx2.Client, thread: str, tag: str, expected: Any, status: int
) -> None:
    """Promise T11."""
    patch(web, thread, [FACT])
    body = {"operations": [FACT]} | ({} if expected is None else {"expected": expected})

    reply = patch(web, thread, body, if_match=tag)

    assert reply.status_code == status, reply.text
    assert web.get(f"/threads/{thread}").json()["version"] == (3 if status == 200 else 2)


def test_if_match_is_exact_so_it_takes_no_merge(web: httpx2.Client, thread: str) -> None:
    """Promise T11."""
    body = {"operations": [FACT], "merge": True}

    assert patch(web, thread, body, if_match='"v1"').status_code == 400


@pytest.mark.parametrize("expected", [1, "v1"])
def test_an_old_expected_version_fails_with_409_and_what_changed(
    web: httpx2.Client, thread: str, expected: Any
) -> None:
    """Promise T4. Promise T11."""
    patch(web, thread, [FACT])

    reply = patch(web, thread, {"operations": [FACT], "expected": expected})

    assert reply.status_code == 409
    error_of(reply)
    assert reply.json()["version"] == 2
    assert reply.json()["changed"][0]["value"] == FACT["value"]


def test_a_refusal_names_the_version_that_refused_while_others_go_on(
    shared: Served, thread: str
) -> None:
    """Promise T4: the version in the reply is the one in its message, however fast others write."""
    refused: list[dict[str, Any]] = []
    with httpx2.Client(base_url=shared.url) as web, ThreadPoolExecutor(1) as pool:
        writing = pool.submit(lambda: [patch(web, thread, [FACT]) for _ in range(40)])
        while not writing.done():
            reply = patch(web, thread, {"operations": [FACT], "expected": 999})
            refused.append(reply.json())

    assert refused
    assert [f"the newest is {each['version']}" in each["error"] for each in refused] == [
        True
    ] * len(refused)


@pytest.mark.parametrize(
    "body",
    [
        7,
        {"operations": [FACT], "expected": 0},
        {"operations": [FACT], "sure": True},
        [{"op": "add", "path": "/facts/-"}],
        [{"op": "move", "path": "/facts"}],
        [{"op": "add", "path": "/no/where", "value": 1}],
    ],
)
def test_a_malformed_patch_or_a_missing_path_is_a_400(
    web: httpx2.Client, thread: str, body: Any
) -> None:
    """Promise T11."""
    reply = patch(web, thread, body)

    assert reply.status_code == 400, reply.text
    assert error_of(reply).startswith("patch failed: ")
    assert ("unknown op" in error_of(reply)) is ("grow" in str(body))
    assert web.get(f"/threads/{thread}").json()["version"] == 1


@pytest.mark.parametrize("body", [b"", b'{"operations": [}'])
def test_a_patch_that_is_no_json_is_a_400(web: httpx2.Client, thread: str, body: bytes) -> None:
    """Promise T11."""
    reply = web.post(f"/threads/{thread}/state/patch", content=body)

    assert reply.status_code == 400
    assert error_of(reply).startswith("invalid patch JSON: ")


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "add", "path": "/facts/-", "value": 7},
        {"op": "remove", "path": "/facts"},
        {"op": "replace", "path": "/version", "value": 9},
    ],
)
def test_a_result_that_breaks_the_schema_is_a_422(
    web: httpx2.Client, thread: str, operation: Any
) -> None:
    """Promise T2. Promise T11."""
    reply = patch(web, thread, [FACT, operation])

    assert reply.status_code == 422
    assert error_of(reply).startswith("patch failed: ")
    assert web.get(f"/threads/{thread}").json()["version"] == 1
