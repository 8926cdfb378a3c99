"""Code in six languages, by its lines: what an outline tells of it, and symbols by name."""

from __future__ import annotations

import re

import pytest

from contextrelay.errors import NotFound
from tests.content.outline.drawing import outlined
from tests.content.slicing.sources import Counted

CODE = {
    "a.rs": """use std::collections::HashMap;

pub struct Order<T> {
    total: T,
}

impl<T> Priced for Order<T> {
    fn price(&self, tax: u32) -> u32 {
        tax
    }
}

extern "C" {
    fn open_shop(day: u8);
}
""",
    "a.java": """package shop;
import java.util.List;

public class Order<T> extends Base {
    public static final int LIMIT = 10;

    @Override
    public int price(int tax)
            throws Exception {
        return tax;
    }
}
""",
}


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("a.rs", ["imports: std::collections::HashMap", "struct Order<T>:3"]),
        ("a.rs", ["impl Order(Priced):7, price(&self, tax: u32) -> u32:8", "open_shop(day: u8)"]),
        ("a.java", ["package shop\nimports: java.util.List", "class Order<T> extends Base:4"]),
        ("a.java", ["price(int tax) throws Exception:8"]),
    ],
)
def test_an_outline_shows_what_code_imports_and_defines(name: str, lines: list[str]) -> None:
    """Promise L1: imports, classes, signatures with line numbers."""
    text = outlined(CODE[name], name).text

    for each in lines:
        assert each in text


@pytest.mark.parametrize(
    ("name", "symbol", "lines"),
    [("a.rs", "Order.price", (8, 10)), ("a.java", "Order.price", (7, 11))],
)
def test_a_symbol_is_taken_from_its_first_line_to_its_last(
    name: str, symbol: str, lines: tuple[int, int]
) -> None:
    """Promise L2: by symbol, in each language."""
    media_type = next(
        kind for kind, ends in _MEDIA_TYPES.items() if name.endswith(tuple(ends.split()))
    )
    body = Counted(CODE[name].encode(), "code", media_type, name)

    piece = body.take("symbol", symbol)

    first, last = lines
    assert piece.text == "".join(CODE[name].splitlines(keepends=True)[first - 1 : last])


def test_a_mistyped_symbol_is_answered_with_near_ones() -> None:
    """Promise L2."""
    body = Counted(CODE["a.java"].encode(), "code", "text/x-java", "a.java")

    with pytest.raises(NotFound) as caught:
        body.take("symbol", "Order.prize")

    assert "price" in caught.value.hint


_MEDIA_TYPES = {"text/x-rust": ".rs", "text/x-java": ".java"}


def test_every_public_name_has_a_place_and_helpers_are_counted_with_their_lines() -> None:
    """Promise L1: also what comes after hundreds of helpers."""
    helpers = "".join(f"def _helper_{n}():\n    return {n}\n\n" for n in range(400))
    public = "".join(f"def use_{n}():\n    pass\n\n" for n in range(60))
    body = f"{helpers}class Signature:\n    def bind(self):\n        pass\n\n{public}"

    text = outlined(body, "a.py").text

    assert "400 helpers 1-1198" in text
    assert "class Signature:1201, bind" in text
    assert all(f"use_{n}" in text for n in range(60))


def test_functions_that_are_only_named_have_the_lines_between_which_they_are() -> None:
    """Promise L1: and every class keeps a method, however many there are before it."""
    functions = "".join(f"def get_part_{n}(a, b):\n    return {n}\n\n" for n in range(80))
    methods = "".join(f"    def method_{n}(self):\n        pass\n\n" for n in range(40))
    body = f"class First:\n{methods}{functions}class Last:\n{methods}"

    text = outlined(body, "a.py").text

    assert "functions 122-359: get_part_0" in text
    assert "class Last:362, method_0, method_1" in text


def test_names_that_have_no_room_but_at_the_end_are_listed_by_parts_of_the_text() -> None:
    """Promise L1."""
    body = "".join(f"class Some_Kind_Of_Part_{n}:\n    pass\n\n" for n in range(120))

    text = outlined(body, "a.py").text

    assert "class Some_Kind_Of_Part_0:1\n" in text
    listed = [line.partition(":")[0] for line in text.splitlines() if line.startswith("also ")]
    assert len(listed) > 1
    starts = [int(line.removeprefix("also ").partition("-")[0]) for line in listed]
    assert starts == sorted(starts)
    assert re.search(r"^and \d\d more 1\d\d-358$", text, re.MULTILINE)


RUST = """use crate::ser::{Error, Serialize};
mod impls;
macro_rules! made {
    () => {
        fn inside() {}
    };
}
pub trait Failure: Sized {
    type Kind: Clone + From<u8>;
    fn custom() {}
}
impl<'de, A: ?Sized> SeqAccess<'de> for &mut A {
    type Error = A::Error;
    fn next(&mut self) {}
}
impl Display for dyn Failure + '_ {}
impl<T> Serialize for [T; 0] {}
impl Serialize for net::Address {}
"""


def test_names_of_rust_are_whole_and_nothing_else() -> None:
    """Promise L1."""
    text = outlined(RUST, "a.rs").text

    for each in (
        "1 trait, 2 types, 2 methods, 4 impls",
        "imports: crate::ser\nmod impls:2\n",
        "macro_rules made:3\n",
        "trait Failure: Sized:8, Kind: Clone + From<u8>:9, custom():10",
        "impl A(SeqAccess):12, Error:13, next(&mut self):14",
        "impl Failure(Display):16",
        "impl [T; 0](Serialize):17",
        "impl net::Address(Serialize):18",
    ):
        assert each in text
    assert " more " not in text


def test_generics_of_typescript_are_whole_and_hide_no_name() -> None:
    """Promise L1."""
    body = (
        "export interface Answer<D = any, E extends Map<string, () => D> = {}> extends Base<D> {}\n"
    )
    body += "export type Asked<T = Promise<Map<string, T>>> = T;\n"
    body += "export class Shop<T> {}\n" + "// a text to be outlined\n" * 40

    text = outlined(body, "a.ts").text

    assert (
        "interface Answer<D = any, E extends Map<string, () => D> = {}> extends Base<D>:1" in text
    )
    assert "type Asked<T = Promise<Map<string, T>>>:2" in text
    assert "more" not in text
