"""`relay serve`, with the fixtures of the conformance suite: python -m ... --port 0 --store DIR."""

from __future__ import annotations

import sys
from typing import Any

from contextrelay.__main__ import main
from contextrelay.mcp import server
from tests.mcp.conformance.fixtures import add_to

make_server = server.make_server


def with_fixtures(*words: Any, **named: Any) -> Any:
    made = make_server(*words, **named)
    add_to(made)
    return made


if __name__ == "__main__":
    server.make_server = with_fixtures
    sys.argv = ["relay", "serve", *sys.argv[1:]]
    main()
