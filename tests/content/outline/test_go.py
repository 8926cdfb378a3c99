"""Go: what stands in blocks, methods with their type, and nothing of comments and strings."""

from __future__ import annotations

import time

import pytest

from tests.content.outline.drawing import outlined
from tests.content.slicing.sources import Counted
from tests.rigs import length

S_MAX = length(thin=5, long=20, full=40)

GO = """package shop

import (
	"fmt"
	other "example.com/shop/other" // ) {
)

// Open is func no() {
const (
	First, Second = iota, "func no() {"
	hidden        = `
func inside() {
type Fake struct {
`
)

var _ Door = (*Shop)(nil)

type (
	Handler func(*Shop) error
	Chain   []Handler
)

type Shop struct {
	name string
}

func New(a, b interface{}) interface{} { return '{' }

func (s *Shop) Open(
	day int,
) (err error) {
	func() {}()
	return nil
}

func (s Shop) close() {}

func (e *Elsewhere[T]) Ring() {}

var ErrClosed = fmt.Errorf("closed")

func helper[T any](a T) {}
"""


def test_go_has_blocks_types_and_methods() -> None:
    """Promise L1."""
    text = outlined(GO, "a.go").text

    first = text.splitlines()[0]
    assert first.endswith("3 constants, 3 types, 3 methods, 2 functions, 1 variable")
    for each in (
        "package shop\nimports: fmt, example.com/shop/other",
        "constant First:10, Second:10",
        "type Handler func(*Shop) error:20",
        "type Chain:21",
        "type Shop struct:24, Open( day int, ) (err error):30, close():37",
        "function New(a, b interface{}) interface{}:28",
        "method Elsewhere.Ring():39",
        "variable ErrClosed:41",
        "function helper[T any](a T):43",
    ):
        assert each in text
    assert not any(each in text for each in ("inside", "Fake", "no()", "_:"))


@pytest.mark.parametrize(
    ("symbol", "lines"),
    [
        ("Second", (10, 10)),
        ("hidden", (11, 14)),
        ("Handler", (20, 20)),
        ("Shop", (24, 26)),
        ("Shop.Open", (30, 35)),
        ("Elsewhere.Ring", (39, 39)),
        ("ErrClosed", (41, 41)),
    ],
)
def test_a_symbol_of_go_has_all_its_lines(symbol: str, lines: tuple[int, int]) -> None:
    """Promise L2: also what stands in a block."""
    body = Counted(GO.encode(), "code", "text/x-go", "a.go")

    piece = body.take("symbol", symbol)

    first, last = lines
    assert piece.text == "".join(GO.splitlines(keepends=True)[first - 1 : last])


def test_a_type_that_is_defined_again_has_its_methods_once() -> None:
    """Promise L1: in time that grows with the text."""
    body = "type A struct{}\n" * 9_000 + "func (a A) run() {}\n" * 9_000
    started = time.process_time()

    text = outlined(body, "a.go").text

    assert text.count("run") == 1
    assert time.process_time() - started < S_MAX
