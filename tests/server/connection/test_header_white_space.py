"""White space around the values of headers is no part of them (RFC 9110, 5.5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from contextrelay import Relay
from tests.security.raw import Raw
from tests.server.serving import serving

SPACES = ("", " ", "\t", " \t  \t")


@pytest.mark.parametrize("space", SPACES)
def test_white_space_behind_a_header_is_no_part_of_its_value(tmp_path: Path, space: str) -> None:
    """Promise Z1."""
    store = tmp_path / "store"
    with Relay(store) as relay:
        token = relay.new_key().token
        thread = relay.new_thread("t").id
    with serving(store) as served:

        def ask(start: str, body: bytes, *lines: str) -> int:
            named = (f"Host: 127.0.0.1:{served.port}", f"Authorization: Bearer {token}", *lines)
            head = [start, *(f"{line}{space}" for line in named), "Connection: close"]
            with Raw(served.port) as raw:
                raw.say("\r\n".join([*head, f"Content-Length: {len(body)}", "", ""]).encode(), body)
                return raw.answer()[0]

        step = b'{"id": "1", "step": "look", "status": "pending"}'
        patch = b'[{"op": "add", "path": "/plan/-", "value": %s}]' % step
        path = f"POST /threads/{thread}/state/patch HTTP/1.1"

        assert ask("GET /v1/artifacts HTTP/1.1", b"") == 200
        assert ask(path, patch, "Content-Type: application/json", 'If-Match: "v9"') == 412
        assert ask(path, patch, "Content-Type: application/json", 'If-Match: "v1"') == 200
        assert ask("GET /v1/artifacts HTTP/1.1", b"", "If-None-Match: *") == 200
