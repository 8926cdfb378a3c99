"""Code in six languages, by its lines: what an outline tells of it, and symbols by name."""

from __future__ import annotations

import re

import pytest

from contextrelay.errors import NotFound
from tests.content.outline.drawing import outlined
from tests.content.slicing.sources import Counted

CODE = {
    "a.js": """import fs from 'node:fs';
const log = require('./log');

export class Cart extends Basket {
  add(item) {
    return { item };
  }
}
export const total = (cart, tax) => {
  return cart.sum * tax;
};
(function () {
  function hidden() {}
})();
""",
    "a.ts": """import { Money } from './money';

export interface Order<T> {
  total(rate: number): Money;
}
export abstract class Shop implements Place {
  constructor(private name: string) {}
  abstract open(day: string): void;
}
export type Id = string | number;
""",
    "a.go": """package shop

import "fmt"

type Order struct {
	Total int
}

func (o *Order) Price(tax int) (int, error) {
	return o.Total * tax, nil
}

func Open[T any](day T) {}
""",
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
    "a.c": """#include <stdio.h>
#define LIMIT 10
typedef struct order_st { int total; } Order;

static int price(Order *order, int tax);

static int *
price_of(Order *order)
{
    return &order->total;
}

static int price(Order *order, int tax)
{
    return order->total * tax;
}
""",
}


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("a.js", ["imports: node:fs", "class Cart extends Basket:4, add(item):5"]),
        ("a.js", ["function total(cart, tax):9", "function hidden():13"]),
        ("a.ts", ["imports: ./money", "interface Order<T>:3"]),
        ("a.ts", ["class Shop implements Place:6", "open(day: string): void:8", "type Id:10"]),
        (
            "a.go",
            [
                "package shop",
                "imports: fmt",
                "type Order struct:5, Price(tax int) (int, error):9",
                "function Open[T any](day T):13",
            ],
        ),
        ("a.rs", ["imports: std::collections::HashMap", "struct Order<T>:3"]),
        ("a.rs", ["impl Order(Priced):7, price(&self, tax: u32) -> u32:8", "open_shop(day: u8)"]),
        ("a.java", ["imports: shop, java.util.List", "class Order<T> extends Base:4"]),
        ("a.java", ["price(int tax):8"]),
        (
            "a.c",
            ["imports: stdio.h", "struct order_st:3", "type Order:3", "price_of(Order *order):8"],
        ),
        ("a.c", ["price(Order *order, int tax):13"]),
    ],
)
def test_an_outline_shows_what_code_imports_and_defines(name: str, lines: list[str]) -> None:
    """Promise L1: imports, classes, signatures with line numbers."""
    text = outlined(CODE[name], name).text

    for each in lines:
        assert each in text


@pytest.mark.parametrize(
    ("name", "symbol", "lines"),
    [
        ("a.js", "Cart", (4, 8)),
        ("a.js", "Cart.add", (5, 7)),
        ("a.js", "total", (9, 11)),
        ("a.ts", "Shop.open", (8, 8)),
        ("a.go", "Order.Price", (9, 11)),
        ("a.rs", "Order.price", (8, 10)),
        ("a.java", "Order.price", (8, 11)),
        ("a.c", "price_of", (7, 11)),
        # What has its body, not what announces it.
        ("a.c", "price", (13, 16)),
    ],
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


_MEDIA_TYPES = {
    "text/javascript": ".js",
    "text/x-typescript": ".ts",
    "text/x-go": ".go",
    "text/x-rust": ".rs",
    "text/x-java": ".java",
    "text/x-c": ".c",
}


def test_every_public_name_has_a_place_and_helpers_are_counted_with_their_lines() -> None:
    """Promise L1: also what comes after hundreds of helpers."""
    helpers = "".join(f"def _helper_{n}():\n    return {n}\n\n" for n in range(400))
    public = "".join(f"def use_{n}():\n    pass\n\n" for n in range(60))
    body = f"{helpers}class Signature:\n    def bind(self):\n        pass\n\n{public}"

    text = outlined(body, "a.py").text

    assert "400 helpers 1-1198" in text
    assert "class Signature:1201, bind" in text
    assert all(f"use_{n}" in text for n in range(60))


def test_types_and_declarations_of_c_are_found_and_members_are_none() -> None:
    """Promise L1."""
    body = (
        "typedef struct {\n  struct node *next;\n} list_t;\n\nenum color\n{\n  RED\n};\n"
        "extern int list_open(const char *path);\nstatic int hash(int a)\n{\n  return a;\n}\n"
        "int\nlist_close(list_t *list)\n{\n  return 0;\n}\n"
    )

    text = outlined(body, "a.c").text

    assert "type list_t" in text
    assert "enum color" in text
    assert "list_open" in text
    assert "list_close" in text
    made = "struct node *make_node(int size) {\n  return 0;\n}\n" + "#define A 1\n" * 300
    assert "function make_node" in outlined(made, "a.c").text
    assert "struct node" not in text


def test_a_header_with_many_types_names_what_it_declares() -> None:
    """Promise L1: and says between which lines the rest is."""
    body = "".join(
        f"typedef struct shop_part_{n}_s shop_part_{n}_t;\nstruct shop_part_{n}_s {{ int a; }};\n"
        f"int shop_{n}(int a);\nint shop_some_longer_name_of_part_{n}(int a);\n"
        for n in range(100)
    )

    text = outlined(body, "a.h").text

    assert sum(f"shop_{n} " in text for n in range(100)) > 60
    assert re.search(r"^and \d\d\d more \d+-400$", text, re.MULTILINE)


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


def test_a_function_that_is_defined_in_two_branches_is_shown_once() -> None:
    """Promise L1."""
    body = "".join(f"def use_{n}():\n    pass\n\n" for n in range(20))
    body += "if a:\n    def chosen():\n        pass\nelse:\n    def chosen():\n        pass\n"

    assert outlined(body, "a.py").text.count("chosen") == 1


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
        "3 methods, 1 trait, 2 types, 4 impls",
        "imports: crate::ser\nmod impls:2\n",
        "macro_rules made:3, inside():5",
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
