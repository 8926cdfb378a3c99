"""Slices: each way gives the piece that was asked for, within its tokens, and tells the rest."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextrelay.content.slicing.slice import selector_of
from contextrelay.content.tokens import count_tokens
from contextrelay.errors import Invalid, NotFound, RelayError
from contextrelay.model.inspect import Way
from contextrelay.verbs import Slice
from tests.content.slicing.sources import REF, Counted

TEXTS = st.text(
    st.sampled_from('ab \n\r\tzé漢🙂<|>{}[]",:1')
    | st.characters(exclude_categories=("Cs",), exclude_characters="\0"),
    max_size=300,
)
NUMBERED = Counted(b"".join(b"line %d is here\n" % number for number in range(1, 20_001)))


def test_lines_are_numbered_from_one_and_the_last_is_not_included() -> None:
    """Promise L2."""
    piece = NUMBERED.take("lines", "5:8")

    assert piece.text == "line 5 is here\nline 6 is here\nline 7 is here\n"
    assert (piece.at, piece.left_out, piece.next) == ("5:8", "", "")


def test_a_span_may_be_open_or_count_from_the_end() -> None:
    assert NUMBERED.take("lines", ":2").text == "line 1 is here\n"
    assert NUMBERED.take("lines", "-2:").text == "line 19999 is here\nline 20000 is here\n"
    assert NUMBERED.take("lines", "20000:").at == "20000:20001"
    assert NUMBERED.take("bytes", "-5:").text == "here\n"
    assert NUMBERED.take("lines", "7").text == "line 7 is here\n"


def test_what_did_not_fit_is_reported_with_the_call_that_goes_on() -> None:
    """Promise L2: it says what was left out and how to get the next piece."""
    piece = NUMBERED.take("lines", "10:", tokens_max=60)

    assert piece.spent.tokens <= 60
    assert piece.left_out == "lines 20 to 20,000 of 20,000"
    assert piece.next == "relay get a88de970 --lines 20:20001"
    assert piece.next_args == {"lines": "20:20001"}
    assert NUMBERED.take("lines", piece.next_args["lines"], 60).text.startswith("line 20 ")


@pytest.mark.parametrize("way", ["lines", "bytes", "tokens"])
@given(text=TEXTS, tokens_max=st.integers(10, 40))
def test_the_pieces_that_follow_each_other_are_the_whole(
    way: Way, text: str, tokens_max: int
) -> None:
    """Promise L2: every piece is within its tokens, and none leaves a gap."""
    whole = Counted(text.encode())
    got: list[str] = []
    way_now: Any = way
    value = ":"
    for _ in range(2_000):
        piece = whole.take(way_now, value, tokens_max)
        assert count_tokens(piece.text) == piece.spent.tokens
        assert piece.spent.tokens <= tokens_max
        got.append(piece.text)
        if not piece.next_args:
            break
        ((way_now, value),) = piece.next_args.items()
        if way == "lines" and way_now == "bytes":
            return  # The rest of one line; what follows it is told in words.

    assert "".join(got) == text


def test_a_long_line_is_folded_among_others_and_shown_alone() -> None:
    """Promise L2: long lines are folded."""
    body = Counted(b"first\n" + b"x" * 100_000 + b"\nlast\n")

    together, alone = body.take("lines", "1:4"), body.take("lines", "2:3", tokens_max=100)

    assert together.text.startswith("first\nxxx")
    assert together.text.endswith(" bytes more]\nlast\n")
    assert len(together.text) < 3_000
    assert together.notes == ("line 2 is folded: relay get a88de970 --bytes 6:100007",)
    assert set(alone.text) == {"x"}
    assert alone.left_out.startswith("line 2 from byte ")
    assert alone.next.startswith(f"relay get a88de970 --bytes {6 + len(alone.text)}:")


def test_bytes_read_only_their_range() -> None:
    """Promise L2."""
    body = Counted(b"0123456789" * 5_000_000)

    piece = body.take("bytes", "40000000:40000010")

    assert piece.text == "0123456789"
    assert body.read_bytes == 10


def test_lines_far_in_a_large_body_are_read_from_the_mark_before_them() -> None:
    """Promise L2."""
    body = Counted(b"".join(b"%09d\n" % number for number in range(1, 2_000_001)))

    piece = body.take("lines", "1500000:1500003")

    assert piece.text == "001500000\n001500001\n001500002\n"
    assert body.read_bytes < 1_000_000


def test_a_character_is_never_cut() -> None:
    body = Counted("é漢🙂".encode() * 10)

    piece = body.take("bytes", "1:8")

    assert (piece.at, piece.text) == ("2:5", "漢")


def test_a_place_behind_the_end_is_empty_and_says_so() -> None:
    for way, value in (("lines", "30000:"), ("bytes", "99999999:"), ("tokens", "999999999:")):
        piece = NUMBERED.take(way, value)  # pyright: ignore[reportArgumentType]
        assert piece.text == ""
        assert piece.notes[0].startswith("nothing in this range")


def test_no_line_is_answered_with_the_reason() -> None:
    """Promise L2."""

    def why(body: bytes, span: str) -> str:
        return Counted(body).take("lines", span).notes[0].removeprefix("nothing in this range: ")

    assert why(b"", "1:2") == "the body is empty"
    assert why(b"one\n", "1:1") == "the end is exclusive; line 1 is 1:2"
    assert why(b"one\n", "5:9") == "the body has 1 line"
    assert why(b"one\ntwo\n", "5:9") == "the body has 2 lines"


def test_exactly_one_way_is_taken() -> None:
    """Promise L2."""
    with pytest.raises(Invalid, match="one selector, got lines and bytes"):
        selector_of(Slice(REF, lines="1:2", bytes="1:2"), ())
    with pytest.raises(Invalid, match="needs a selector"):
        selector_of(Slice(REF), ())
    with pytest.raises(Invalid, match="columns cannot be combined"):
        selector_of(Slice(REF, lines="1:2"), ("a",))
    assert selector_of(Slice(REF), ("a",)).value == ":"


@pytest.mark.parametrize("value", ["x", "5:2", "9" * 30 + ":"])
def test_what_is_no_span_is_refused(value: str) -> None:
    with pytest.raises(Invalid):
        NUMBERED.take("lines", value)


# JSON

DOCUMENT = Counted(
    '{"orders":[{"id":1,"items":["a","b"]},{"id":2,"x/y":{"deep":null}}],"n":3.50,"s":"hé"}'.encode(),
    "json",
)


@pytest.mark.parametrize(
    ("pointer", "text"),
    [("/orders/1", '{"id":2,"x/y":{"deep":null}}'), ("/orders/1/x~1y/deep", "null")],
)
def test_a_json_pointer_gives_the_value_as_it_stands(pointer: str, text: str) -> None:
    """Promise L2."""
    assert DOCUMENT.take("json_pointer", pointer).text == text


def test_a_pointer_to_nothing_shows_what_there_is() -> None:
    with pytest.raises(NotFound, match="'orders', 'n', 's'"):
        DOCUMENT.take("json_pointer", "/zip")
    with pytest.raises(NotFound, match="0 to 1"):
        DOCUMENT.take("json_pointer", "/orders/2")


def test_a_value_that_does_not_fit_goes_on_by_bytes() -> None:
    """Promise L2."""
    rest = b",".join(b'{"id":%d}' % number for number in range(10_000))
    body = Counted(b'{"a":0,"rows":[' + rest + b"]}", "json")

    piece = body.take("json_pointer", "/rows", tokens_max=50)
    following = body.take("bytes", piece.next_args["bytes"], tokens_max=50)

    assert piece.notes == ("a list of 10,000",)
    assert (b"[" + rest).startswith((piece.text + following.text).encode())


def test_json_lines_are_the_items_of_a_list() -> None:
    body = Counted(b'{"a":1}\n\n{"a":2}\n', "json", "application/x-ndjson")

    assert body.take("json_pointer", "/1/a").text == "2"
    assert body.take("json_path", "$[*].a").text == "/0/a\t1\n/1/a\t2\n"


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("$.orders[*].id", "/orders/0/id\t1\n/orders/1/id\t2\n"),
        ("$.orders[?@.id > 1].id", "/orders/1/id\t2\n"),
        ("$[?match(@, 'h.')]", '/s\t"hé"\n'),
    ],
)
def test_a_json_path_gives_values_with_their_pointers(query: str, text: str) -> None:
    """Promise L2."""
    assert DOCUMENT.take("json_path", query).text == text


@pytest.mark.parametrize("query", ["orders", "$..["])
def test_what_is_no_json_path_is_refused(query: str) -> None:
    with pytest.raises(Invalid):
        DOCUMENT.take("json_path", query)


# Tables

TABLE = Counted(
    b'id,name,city\n0,"a, b",Oslo\n1,"two\nlines",Rome\n' + b"2,c,Bern\n" * 500, "csv", "text/csv"
)


def test_rows_come_with_the_header_and_count_from_zero() -> None:
    """Promise L2."""
    piece = TABLE.take("rows", "0:2")

    assert piece.text == 'id,name,city\n0,"a, b",Oslo\n1,"two\nlines",Rome\n'
    assert TABLE.take("rows", "501:").text == "id,name,city\n2,c,Bern\n"


def test_columns_are_chosen_by_name_or_number() -> None:
    """Promise L2."""
    assert TABLE.take("rows", "0:1", columns=("city", "id")).text == "city,id\nOslo,0\n"
    assert TABLE.take("rows", "2:3", columns=("1:3",)).text == "name,city\nc,Bern\n"
    with pytest.raises(NotFound, match="id, name, city"):
        TABLE.take("rows", "0:1", columns=("zip",))


def test_rows_that_do_not_fit_are_reported() -> None:
    piece = TABLE.take("rows", "2:", tokens_max=40, columns=("city",))

    assert piece.spent.tokens <= 40
    assert piece.next.startswith("relay get a88de970 --rows ")
    assert piece.next_args["columns"] == ["city"]


# Sections and symbols

PROSE = Counted(
    b"# Guide\nintro\n## Install\nsteps\n### Linux\napt\n## Use\n```\n# no heading\n```\nrun\n"
    b"# Appendix\n## Install\nagain\n",
    "markdown",
)


def test_a_section_is_its_heading_and_all_below_it() -> None:
    """Promise L2."""
    assert PROSE.take("heading", "use").text == "## Use\n```\n# no heading\n```\nrun\n"
    assert PROSE.take("heading", "Guide > Linux").text == "### Linux\napt\n"
    assert PROSE.take("heading", "Appendix > Install").text == "## Install\nagain\n"


def test_a_section_of_html_is_found_by_its_text() -> None:
    page = Counted(b"<h1>One</h1>\n<h2>Two &amp; <b>three</b></h2>\n<p>x\n<h2>Four</h2>\n", "html")

    assert page.take("heading", "two & three").text == "<h2>Two &amp; <b>three</b></h2>\n<p>x\n"


def test_a_heading_that_is_not_there_gets_those_that_come_near() -> None:
    with pytest.raises(NotFound, match="Install"):
        PROSE.take("heading", "instal it")


PYTHON = Counted(
    b"import os\n\nLIMIT = 3\n\n@decorated\nclass Box:\n    def get(self):\n        return 1\n\n"
    b"    async def put(self, x):\n        self.x = x\n\ndef get():\n    pass\n",
    "code",
    "text/x-python",
    "box.py",
)


def test_a_symbol_of_python_is_taken_whole() -> None:
    """Promise L2."""
    assert PYTHON.take("symbol", "Box.put").text == (
        "    async def put(self, x):\n        self.x = x\n"
    )
    assert PYTHON.take("symbol", "Box").text.startswith("@decorated\nclass Box:\n")
    assert PYTHON.take("symbol", "LIMIT").text == "LIMIT = 3\n"
    assert PYTHON.take("symbol", "get").notes == ("also with this name: Box.get (line 7)",)


@pytest.mark.parametrize(
    ("code", "name", "text"),
    [
        (
            b"int f(int a) {\n  return a; // }\n}\nint g;\n",
            "f",
            "int f(int a) {\n  return a; // }\n}\n",
        ),
        (b"def foo(x)\n  x\nend\ndef bar\nend\n", "foo", "def foo(x)\n  x\nend\n"),
        (b"#define MAX 3\nint x;\n", "MAX", "#define MAX 3\n"),
    ],
)
def test_a_symbol_of_another_language_is_found_by_its_lines(
    code: bytes, name: str, text: str
) -> None:
    """Promise L2."""
    assert Counted(code, "code").take("symbol", name).text == text


def test_a_symbol_of_sql_is_what_create_makes() -> None:
    """Promise L2."""
    code = Counted(
        b"CREATE TABLE public.orders (\n  id int,\n  a int,\n  b int,\n  c int,\n\n  d int\n);\n"
        b"create view old as\nselect 1\nfrom orders;\n"
        b"CREATE FUNCTION f() RETURNS int AS $$\nBEGIN\n  RETURN 1;\nEND;\n$$ LANGUAGE plpgsql;\n",
        "code",
        "application/sql",
        "a.sql",
    )

    assert code.take("symbol", "orders").text.endswith("  d int\n);\n")
    assert code.take("symbol", "old").text == "create view old as\nselect 1\nfrom orders;\n"
    assert code.take("symbol", "f").text.endswith("$$ LANGUAGE plpgsql;\n")


@given(body=st.binary(max_size=400), value=st.text(max_size=30))
@pytest.mark.parametrize(
    "way", ["lines", "bytes", "tokens", "json_pointer", "json_path", "rows", "heading", "symbol"]
)
def test_any_body_and_any_value_end_in_a_piece_or_in_an_error_of_ours(
    way: Way, body: bytes, value: str
) -> None:
    for kind in ("json", "csv", "markdown", "html", "code"):
        whole: Any = Counted(body, kind)  # pyright: ignore[reportArgumentType]
        with suppress(RelayError):
            piece = whole.take(way, value, 50)
            assert piece.ref == REF
            assert piece.spent.tokens <= 50
