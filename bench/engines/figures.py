"""The figures of the engines, as `python -m bench engines` takes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.engines import moving, pairs, verbs
from bench.measure import Curve, Result, Skipped
from tests.store.engines import Servers


def scenarios(folder: Path) -> Iterator[Result | Curve]:
    servers = Servers()
    try:
        for place in verbs.places(servers, folder):
            yield from verbs.verbs(place)
        yield from pairs.pairs(servers)
        yield from moving.objects(servers)
        yield from moving.migrations(servers, folder)
    except pytest.skip.Exception as missing:  # As the tests say that a part is not there.
        raise Skipped(str(missing)) from missing
    finally:
        servers.stop()
