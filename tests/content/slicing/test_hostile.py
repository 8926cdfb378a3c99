"""Hostile bodies: a slice of any of them is bounded in time and room, and never crashes."""

from __future__ import annotations

import io
import json
import time
import tracemalloc
import zipfile
from contextlib import suppress

import pytest

from contextrelay.errors import Invalid, NotFound, RelayError, TooLarge
from contextrelay.model.inspect import Way
from tests.content.slicing.sources import Counted

MIB = 1 << 20
S_MAX = 20
"""Of what takes a second or two on an idle machine."""


def in_time(body: Counted, way: Way, value: str) -> None:
    """Take a piece, or be refused one, without waiting long."""
    started = time.monotonic()
    with suppress(RelayError):
        body.take(way, value, 500)
    assert time.monotonic() - started < S_MAX


@pytest.mark.parametrize(
    ("way", "value"),
    [
        ("lines", "1:2"),
        ("lines", "1:"),
        ("lines", "-1:"),
        ("bytes", "26000000:"),
        ("tokens", "100:200"),
        ("rows", "0:1"),
        ("heading", "x"),
        ("symbol", "x"),
    ],
)
def test_a_line_of_50_mib_takes_little_room(way: Way, value: str) -> None:
    """Promise L2: memory does not grow with a line."""
    body = Counted(b"word " * (10 * MIB))

    tracemalloc.start()
    in_time(body, way, value)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak_bytes < 12 * MIB


NESTED = b"[" * 1_000_000 + b"]" * 1_000_000


@pytest.mark.parametrize("way", ["json_pointer", "json_path"])
def test_a_million_levels_are_refused_and_not_followed(way: Way) -> None:
    body = Counted(b'{"b":1,"a":' + NESTED + b"}", "json")

    for value in ("/b", "/a/0/0") if way == "json_pointer" else ("$.b", "$..b"):
        with pytest.raises(Invalid, match="nested too deep"):
            body.take(way, value)
    assert body.take("bytes", "0:11").text == '{"b":1,"a":'


def test_a_list_of_very_many_is_skipped_and_not_kept() -> None:
    """Promise L2: not even the places of so many are kept."""
    items = b"".join(b'[%d,"]\\"[,"],{"a":[{}]},' % number for number in range(100_000))
    body = Counted(b"[" + items + b"2]", "json")

    assert body.take("json_pointer", "/200000").text == "2"
    assert body.take("json_pointer", "/199998").text == '[99999,"]\\"[,"]'
    with pytest.raises(NotFound, match="0 to 200,000"):
        body.take("json_pointer", "/200001")


def test_what_is_too_large_for_a_query_names_the_limit() -> None:
    with pytest.raises(TooLarge, match="a JSON pointer takes more"):
        Counted(b"[" + b" " * (17 * MIB) + b"]", "json").take("json_path", "$[0]")


def test_ten_thousand_columns_are_cut_and_can_be_chosen() -> None:
    """Promise L2."""
    names = b",".join(b"column %d" % number for number in range(10_000))
    cells = b",".join(b"%d" % number for number in range(10_000))
    body = Counted(names + b"\n" + cells + b"\n" + cells + b"\n", "csv")

    piece = body.take("rows", "0:1", 200)

    assert piece.spent.tokens <= 200
    assert piece.text.startswith("column 0,column 1,")
    assert "of 10,000 columns left out" in piece.notes[0]
    assert body.take("rows", "1:2", 200, ("column 7777",)).text == "column 7777\n7777\n"


@pytest.mark.parametrize("cell", [b'"' + b"x" * (3 * MIB), b'a,"b\n' * 100_000, b"," * MIB])
def test_a_row_without_end_is_refused(cell: bytes) -> None:
    in_time(Counted(b"a,b\n" + cell, "csv"), "rows", "0:1")


@pytest.mark.parametrize("way", ["lines", "tokens", "json_pointer", "rows", "heading", "symbol"])
def test_an_archive_in_disguise_is_reported_to_be_binary(way: Way) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb.txt", b"0" * 10_000_000)

    with pytest.raises(Invalid, match="is binary") as refused:
        Counted(packed.getvalue(), "csv", name="table.csv").take(way, "1:2")

    assert "relay pull" in refused.value.hint


def test_other_encodings_are_read_with_replacement_and_reported() -> None:
    """Promise L2."""
    wide = Counted("eins\nzwei süß\n".encode("utf-16"))
    old = Counted("eins\nzwei süß drei\n".encode("latin-1"))

    assert wide.take("lines", "2:3").text == "zwei süß\n"
    assert "UTF-16" in wide.take("lines", "2:3").notes[0]
    assert old.take("lines", "2:3").text == "zwei s\ufffd\ufffd drei\n"
    assert "invalid UTF-8" in old.take("bytes", "0:4").notes[0]


@pytest.mark.parametrize("body", [b"# a\n" * 200_000, b"<h1>" * 200_000, b"#" * MIB])
def test_headings_without_end_are_searched_in_time(body: bytes) -> None:
    for kind in ("markdown", "html"):
        in_time(Counted(body, kind), "heading", "b > a")


@pytest.mark.parametrize(
    "body",
    [
        b"(" * 200_000,
        b"x=" + b"-" * 300_000 + b"1",
        b"def f():\n" * 200_000,
        b"{" * MIB,
        b"x(" * MIB,
    ],
)
def test_code_without_end_is_searched_in_time(body: bytes) -> None:
    for media_type in ("text/x-python", "text/x-c"):
        in_time(Counted(body, "code", media_type), "symbol", "x")


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\x1bb", "a\nb", "\x00", "\u202e", ""])
def test_a_member_of_any_name_is_found_by_its_pointer(name: str) -> None:
    """Promise L2: no name is one that cannot be asked for, and none is a fault."""
    body = Counted(json.dumps({name: [1, 2]}).encode(), "json")

    assert "1" in body.take("json_pointer", f"/{name}", 100).text
    with pytest.raises(NotFound):
        body.take("json_pointer", f"/{name}x", 100)
